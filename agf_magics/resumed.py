"""A run taken up again: its definitions from its work order, its tools from the kernel as it is now, its outcomes from
the journal. What was done is not done again; what was cut in the middle is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .define import all_findings, language_of, load
from .engine.earlier import Earlier
from .engine.events import Event, Question
from .engine.gate import kernel_bound
from .engine.history import Told, claim, give_back, listed, records, told
from .engine.host import Asker
from .engine.journal import Journal
from .engine.limits import Limits, granted, refuse_inside
from .engine.link import link
from .engine.pickles import Unreadable, encode, is_signed, unpack, user_key
from .engine.records import Record
from .engine.store import Store, Trouble
from .files import files
from .flow.frame import Given
from .flow.rules import check
from .flow.steps import Flow
from .flow.values import Value
from .handle import Run
from .keeping import journal_file, watch
from .launch import emitter
from .registry import Context, Registry, default
from .settings import current
from .text.diagnostics import DefinitionError, Diagnostic, Diagnostics, suggest
from .work_order import Order, Text, read


def resume(
    run_id: str,
    *,
    input: Mapping[str, Value] | None = None,
    answer: Value = None,
    trust: bool = False,
    registry: Registry | None = None,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] | None = None,
    ask: Asker | None = None,
    raises: bool = True,
) -> Run:
    """Take up a run that was interrupted, failed, was cancelled or waits for an answer, and wait for its end.

    Calls that came to their end are not made again; a call that was cut is, and so is what made a failed run fail.
    ``input`` gives what could not be kept of it (secrets); ``answer`` answers the question it waits for; ``trust``
    reads values that somebody else has signed. Caps are those it was begun with unless ``limits`` says others.

    Raises DefinitionError when it cannot be taken up, else what `run` raises.
    """
    begun = take_up(
        run_id, input=input, answer=answer, trust=trust, registry=registry, limits=limits, on_event=on_event, ask=ask
    ).wait()
    return begun.result() if raises else begun


def take_up(
    run_id: str,
    *,
    input: Mapping[str, Value] | None = None,
    answer: Value = None,
    trust: bool = False,
    registry: Registry | None = None,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] | None = None,
    ask: Asker | None = None,
    enter: Callable[[], None] | None = None,
    behind: bool = False,
) -> Run:
    """`resume`, handed back at once: the caller must `wait` unless it runs ``behind``."""
    refuse_inside("resume")
    store = journal()
    try:
        found = find(store, run_id)
        made = _made(store, found, input, trust, registry or default(), limits, behind)
        made.asker = (
            ask if answer is None else _answering(answer, ask or (current.ask_behind if behind else current.ask))
        )
        if not claim(store, found.listed):
            raise _refused("journal.running", f"run {run_id!r} was taken up somewhere else meanwhile")
    except Trouble as trouble:
        raise unusable(trouble) from None
    grant = granted.set(made.grant.narrow(granted.get().tools))
    try:
        made.begin(emitter(made.progress, on_event), enter=enter, behind=behind)
    except BaseException:
        give_back(store, found.listed)
        raise
    finally:
        granted.reset(grant)
    return made


def journal() -> Store:
    """The journal of this kernel, which must be there. Raises DefinitionError."""
    path = journal_file()
    if path is None:
        hint = "%config AgfMagics.journal says where: '.agf/runs.sqlite'"
        raise _refused("journal.off", "runs are not kept: there is no journal", hint)
    try:
        return Store.at(path)
    except Trouble as trouble:
        raise unusable(trouble) from None


def unusable(trouble: Trouble) -> DefinitionError:
    from .engine.journal import CURES

    return _refused(trouble.code, f"the journal cannot be used: {trouble}", CURES[trouble.code])


def find(store: Store, run_id: str) -> Told:
    """A run by its id, or by the beginning of it that no other has. Raises DefinitionError, Trouble."""
    found = told(store, run_id)
    if found is None:
        known = [one.run_id for one in listed(store)]
        near = [one for one in known if one.startswith(run_id)]
        found = told(store, near[0]) if run_id and len(near) == 1 else None
    if found is None:
        hint = f"it may be {', '.join(near[:5])}" if near else suggest(run_id, known, "runs") or "no run is kept yet"
        raise _refused("journal.unknown-run", f"there is no run {run_id!r} in the journal", hint)
    return found


def _made(
    store: Store,
    found: Told,
    input: Mapping[str, Value] | None,
    trust: bool,
    registry: Registry,
    limits: Limits | None,
    behind: bool,
) -> Run:
    one = found.listed
    if one.status == "ok":
        raise _refused("journal.finished", f"run {one.run_id!r} came to its end", f"%runs {one.run_id} shows it")
    if one.status == "running":
        raise _refused("journal.running", f"run {one.run_id!r} is going on, here or in another kernel")
    try:
        order = read(found.work, one.run_id, trust)
        earlier = Earlier(_readable(store, found, trust), one.status in ("error", "cancelled"))
    except Unreadable as error:
        hint = (
            "trust it only if you know who wrote it: --trust (in Python: trust=True)"
            if "signature" in str(error)
            else None
        )
        raise _refused("journal.unreadable", f"run {one.run_id!r} cannot be taken up: {error}", hint) from None
    flow, then, known = as_it_was(order, registry)
    linked, problems = link(flow, then, files(lambda path: load(path, registry=then), known))
    if behind:
        problems.extend(kernel_bound(linked))
    problems.refuse()
    context, moved = _context(flow, order, registry, one.run_id)
    problems.extend(moved)
    given = Given(_given(order, input, one.run_id), None, context)
    made = Run(linked, given, limits or order.limits, all_findings(tuple(problems)), dry=False)
    made.run_id, made.grant, made.work = one.run_id, order.grant, found.work
    made.journal = Journal(store, one.num, one.run_id, current.settings.journal_value, earlier)
    watch(made)
    return made


def _readable(store: Store, found: Told, trust: bool) -> list[Record]:
    """The records of a run, with their pickles read. Raises Unreadable for what is not this user's."""
    key, result = user_key(), []
    for record in records(store, found.listed.num):
        if record.form == "pickle" and isinstance(record.value, bytes):
            parts = (found.listed.run_id, encode(record.at), record.tries, record.value)
            if not trust and not is_signed(key, record.sign, *parts):
                raise Unreadable(f"the signature of what {record.name!r} gave is not yours")
            try:
                record = record._replace(unpickled=(unpack("pickle", record.value),))
            except Unreadable as error:
                raise Unreadable(f"what {record.name!r} gave cannot be read ({error})") from None
        result.append(record)
    return result


def _given(order: Order, input: Mapping[str, Value] | None, run_id: str) -> Value:
    """The input, with what was not kept of it."""
    missing = [name for name in order.secret if name not in (input or {})]
    if missing:
        names = ", ".join(missing)
        hint = f"give it again: --set {missing[0]}=… (in Python: input={{{missing[0]!r}: …}})"
        raise _refused("journal.secret", f"run {run_id!r} needs {names}, which is secret and was not kept", hint)
    if order.unkept and input is None:
        hint = "give it again: --input VAR (in Python: input=…)"
        raise _refused("journal.input", f"the input of run {run_id!r} was not kept: {order.unkept}", hint)
    if order.unkept:
        return dict(input or {})
    extra = {name: value for name, value in (input or {}).items() if name in order.secret}
    return {**order.input, **extra} if extra else order.input


def _context(
    flow: Flow, order: Order, registry: Registry, run_id: str
) -> tuple[Context | None, tuple[Diagnostic, ...]]:
    """The named context as it was when the run began: the kernel's own, unless others have added to it since."""
    if flow.context is None:
        return None, ()
    context = registry.contexts.named(flow.context)
    moved = context.log is not None and context.last != run_id
    if moved:
        context = Context(flow.context)
    context.log = order.context
    message = f"the context {flow.context!r} has gone on since: what this run adds is not seen there"
    return context, (Diagnostic("journal.context", message, severity="warning"),) if moved else ()


def as_it_was(order: Order, registry: Registry) -> tuple[Flow, Registry, dict[Path, Flow]]:
    """The definition that is run, a registry with the definitions and schemas of the work order and everything else as
    it is now, and the definitions that were read from files. Raises DefinitionError."""
    then = Registry()
    for shelf, now in vars(registry).items():
        if shelf not in ("flows", "schemas"):
            setattr(then, shelf, now)
    for language, source in order.schemas:
        for schema in _loaded(Text("", language, source, None, {}, False))[1].values():
            then.schemas.define(schema, None)
    main, known = None, dict[Path, Flow]()
    for number, text in enumerate(order.flows):
        if text.made:
            continue
        flow, _ = _loaded(text)
        if flow is not None and text.file is not None:
            known[Path(text.file)] = replace(flow, file=text.file)
        elif flow is not None:
            then.flows.define(flow, None)
        main = flow if number == 0 else main
    assert main is not None, "what was run was a definition"
    return main, then, known


def _loaded(text: Text) -> tuple[Flow | None, Mapping[str, Any]]:
    problems = Diagnostics()
    definition = language_of(text.language).load(text.source, problems, current.settings.bounds)
    flow = definition.flow
    if flow is not None:
        flow, found = check(replace(flow, name=text.name))
        problems.extend(found)
    problems.refuse()
    return replace(flow, warnings=tuple(problems)) if flow is not None else None, definition.schemas


def _answering(answer: Value, otherwise: Asker | None) -> Asker:
    """Gives ``answer`` to the first question, which is the one that the run waits for; then asks whoever is there."""
    left = [answer]

    def ask(question: Question) -> Any:
        if left:
            return left.pop()
        if otherwise is None:
            raise EOFError
        return otherwise(question)

    return ask


def _refused(code: str, message: str, hint: str | None = None) -> DefinitionError:
    return DefinitionError(Diagnostic(code, message, hint=hint))
