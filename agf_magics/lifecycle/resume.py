"""A run taken up again: its definitions from its work order, its tools from the kernel as it is now, its outcomes from
the journal. What was done is not done again; what was cut in the middle is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..catalog import Context, Registry, default
from ..definitions.define import all_findings, load, loaded
from ..definitions.files import files
from ..engine.gate import kernel_bound
from ..engine.link import link
from ..engine.runner import clock
from ..flow.frame import FlowInput
from ..flow.rules import check
from ..flow.steps import Flow
from ..flow.values import Value, type_name
from ..host.host import Asker
from ..host.interrupts import hold_for
from ..host.limits import Limits, granted
from ..host.rights import refuse_inside, rights
from ..journal.errors import JournalError
from ..journal.queries import RunHead, RunRow, claim, leave
from ..journal.recorder import Journal
from ..journal.replay import ReplayLog
from ..journal.store import Store
from ..progress.events import Event, Question, Warned
from ..serialization.codec import DecodeError, SignatureError, is_signed, user_key
from ..settings import current
from ..text.diagnostics import Diagnostic, Diagnostics, StepError
from .answers import understood
from .launch import emitter, settled
from .lookup import find, journal, last_cut, readable, refused, unusable
from .manifest import Manifest, Text, read_manifest
from .persistence import watch
from .run import Run, driven


def resume(
    run_id: str | None = None,
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
    """Resume a run that was interrupted, failed, was cancelled or waits for an answer, and wait for its end.

    Completed calls are not made again. A call that was interrupted, and the call that failed the run, are.

    Parameters:

    - ``run_id``: the id of the run. Default None: the last run that did not complete.
    - ``input``: a mapping with the inputs that the journal does not contain (secrets). Default None.
    - ``answer``: the answer to the question that the run waits for. Default None: ask.
    - ``trust``: whether to unpickle values that are not signed with your key, which can run code. Default False.
    - ``registry``: the `Registry` to look tools and agents up in. Default None: the registry of this process.
    - ``limits``: the `Limits` to use instead of the original ones. Default None: the original ones.
    - ``on_event``: a function that is called with each event, on the engine's thread. If it raises, it is not called
      again and the run continues with a warning. Default None.
    - ``ask``: a function that puts a question to a person, ``ask(question) -> answer``; the answer to an approval is
      True or False. Default None: the notebook or the terminal asks.
    - ``raises``: whether an error of the run is raised; otherwise it is in ``run.error``. Default True.

    Raises DefinitionError if the run cannot be resumed, and otherwise the same errors as `run`.
    """
    ended = driven(
        lambda: resume_run(
            run_id,
            input=input,
            answer=answer,
            trust=trust,
            registry=registry,
            limits=limits,
            on_event=on_event,
            ask=ask,
        )
    )
    return ended.result() if raises else ended


def resume_run(
    run_id: str | None = None,
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
    made, found = prepared(run_id, input, answer, trust, registry, limits, ask, behind)
    assert made.journal is not None, "a run of the journal has one"
    hold_for(made.cancel)
    grant = granted.set(made.grant.narrow(rights().grant.tools))
    try:
        mine = claim(made.journal.store, found)
        if mine:
            made.begin(emitter(made.progress, on_event, made.secrets), enter=enter, behind=behind)
    except JournalError as trouble:
        raise unusable(trouble) from None
    except BaseException:
        if not made._begun:  # else its end is written
            with contextlib.suppress(JournalError):
                leave(made.journal.store, found)
        raise
    finally:
        granted.reset(grant)
    if not mine:
        raise refused("journal.running", f"run {found.run_id!r} was taken up somewhere else meanwhile")
    return made


def prepared(
    run_id: str | None = None,
    input: Mapping[str, Value] | None = None,
    answer: Value = None,
    trust: bool = False,
    registry: Registry | None = None,
    limits: Limits | None = None,
    ask: Asker | None = None,
    behind: bool = False,
) -> tuple[Run, RunHead]:
    """A run that can go on, and what the journal has of it; neither claimed nor begun."""
    refuse_inside("resume")
    store = journal()
    try:
        found = find(store, run_id) if run_id is not None else last_cut(store)
        run_id = run_id or found.listed.run_id
        made = _made(run_id, store, found, input, trust, registry or default(), limits, behind)
        made._asker = (
            ask if answer is None else _answering(answer, ask or (current.ask_behind if behind else current.ask))
        )
    except JournalError as trouble:
        raise unusable(trouble) from None
    return made, found.listed


def _made(
    run_id: str,
    store: Store,
    found: RunRow,
    input: Mapping[str, Value] | None,
    trust: bool,
    registry: Registry,
    limits: Limits | None,
    behind: bool,
) -> Run:
    one = found.listed
    if one.status == "ok":
        raise refused("journal.finished", f"run {run_id!r} came to its end", f"%runs {run_id} shows it")
    if one.status == "running":
        raise refused("journal.running", f"run {run_id!r} is going on, here or in another kernel")
    try:
        if not trust and not is_signed(user_key(), found.work_sign, one.run_id, "work", found.work):
            raise SignatureError("its definitions are not signed with your key")
        order = read_manifest(found.work, one.run_id, trust)
        earlier = ReplayLog(readable(store, found, trust), one.status in ("error", "cancelled"))
    except DecodeError as error:
        hint = (
            "trust it only if you know who wrote it: --trust (in Python: trust=True)"
            if isinstance(error, SignatureError)
            else None
        )
        raise refused("journal.unreadable", f"run {run_id!r} cannot be taken up: {error}", hint) from None
    flow, then, known = as_it_was(order, registry)
    linked, problems = link(flow, then, files(lambda path: load(path, registry=then), known))
    if behind:
        problems.extend(kernel_bound(linked))
    problems.refuse()
    context, moved = _context(order, registry, one.run_id)
    given = FlowInput(_given(order, settled(input, flow), run_id), None, context)
    made = Run(linked, given, limits or order.limits, all_findings(tuple(problems)), dry=False)
    made.run_id, made.grant, made.work = one.run_id, order.grant, found.work
    made.journal = Journal(store, one.num, one.run_id, current.settings.journal_value, earlier)
    watch(made)
    for doubt in moved:
        made.progress.apply(Warned(clock(), doubt))
    return made


def _given(order: Manifest, input: Value, run_id: str) -> Value:
    """The input, with what was not kept of it. What was kept is as it was: another input is another run."""
    if order.unkept and not input:
        hint = "give it again: --input VAR (in Python: input=…)"
        raise refused("journal.input", f"the input of run {run_id!r} was not kept: {order.unkept}", hint)
    fields: Mapping[str, Value] = input if isinstance(input, dict) else {}
    missing = [name for name in order.secret if name not in fields]
    if missing:
        names = ", ".join(missing)
        hint = f"give it again: --set {missing[0]}=… (in Python: input={{{missing[0]!r}: …}})"
        raise refused("journal.secret", f"run {run_id!r} needs {names}, which is secret and was not kept", hint)
    if order.unkept:
        return input
    kept: Mapping[str, Value] = order.input if isinstance(order.input, dict) else {}
    again = {name: value for name, value in fields.items() if name not in order.secret}
    other = [name for name, value in again.items() if name not in kept or not _same(value, kept[name])]
    if other or not isinstance(input, dict):
        what = ", ".join(map(repr, other)) or type_name(input)
        message = f"run {run_id!r} goes on with the input it was begun with, not with another {what}"
        raise refused("journal.other-input", message, "leave it out, or begin another run")
    extra = {name: fields[name] for name in order.secret}
    return {**kept, **extra} if extra else order.input


def _same(one: Value, other: Value) -> bool:
    try:
        return bool(one == other)
    except Exception:  # somebody's class, a table
        return False


def _context(order: Manifest, registry: Registry, run_id: str) -> tuple[Context | None, tuple[Diagnostic, ...]]:
    """The named context as it was when the run began: the kernel's own, unless others have added to it since."""
    if not order.context_name:
        return None, ()
    context = registry.contexts.named(order.context_name)
    moved = context.log is not None and context.last != run_id
    if moved:
        context = Context(order.context_name)
    context.log = order.context
    message = f"the context {order.context_name!r} has gone on since: what this run adds is not seen there"
    return context, (Diagnostic("journal.context", message, severity="warning"),) if moved else ()


def as_it_was(order: Manifest, registry: Registry) -> tuple[Flow, Registry, dict[Path, Flow]]:
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
    if main is None:
        raise refused("journal.unreadable", "this run cannot be read: its text defines no flow")
    return main, then, known


def load_text(text: Text) -> Flow | None:
    """The flow of a definition as it was; None: a builder made it, and it has no text. Raises DefinitionError."""
    return None if text.made else _loaded(text)[0]


def _loaded(text: Text) -> tuple[Flow | None, Mapping[str, Any]]:
    problems = Diagnostics()
    definition = loaded(text.source, text.language, problems, text.latent)
    flow = definition.flow
    if flow is not None:
        for option in text.chosen:
            changed = flow.extension.with_option(flow, option) if flow.extension is not None else None
            if changed is None:
                message = f"this run cannot be read: a {text.language} has no option {option!r}"
                raise refused("journal.unreadable", message)
            flow = changed
        flow, found = check(replace(flow, name=text.name))
        problems.extend(found)
    problems.refuse()
    return replace(flow, warnings=tuple(problems)) if flow is not None else None, definition.schemas


def _answering(answer: Value, otherwise: Asker | None) -> Asker:
    """Gives ``answer`` to the first question, which is the one that the run waits for; then asks whoever is there. An
    approval, and one of several choices, is what it would be if it were typed."""
    left = [answer]

    def ask(question: Question) -> Any:
        if left:
            return _meant(question, left.pop())
        if otherwise is None:
            raise EOFError
        return otherwise(question)

    return ask


def _meant(question: Question, answer: Value) -> Value:
    """Raises StepError where the question cannot have this answer."""
    typed = str(answer) if isinstance(answer, int) and not isinstance(answer, bool) else answer
    asks = question.approval or bool(question.choices)
    found = understood(question, typed) if asks and isinstance(typed, str) else answer
    one_of_these = isinstance(found, bool | dict) if question.approval else not asks or found in question.choices
    if found is None or not one_of_these:
        what, cure = "answers no approval", "--answer yes, or --answer no"
        if question.choices:
            what, cure = "is none of the choices", f"--answer with one of {', '.join(map(repr, question.choices[:10]))}"
        raise StepError(Diagnostic("run.answer", f"{answer!r} {what}: {question.text}", hint=cure))
    return found
