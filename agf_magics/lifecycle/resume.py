"""An earlier run goes on: it is resumed, or repeated from one of its steps on.

A resumed run has its definitions from its manifest, its tools from the kernel, its results from the
journal. Completed calls are not repeated; a call that was interrupted is.

A run from a step on is a new run, which reuses the results on which that step depends. They are
reused by content, as by ``--reuse``, but not those of the step, of the steps inside it and of what
comes after it: later steps of a sequence, the steps of a plan that its values reach,
the nodes of a graph that an edge leads to. So the run may have another input or an edited
definition: a call that differs is made again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from ..catalog import Context, Registry, default
from ..engine.checks import kernel_bound
from ..engine.host import Asker
from ..engine.interrupts import held_interrupts, hold_for
from ..engine.limits import Limits, granted, refuse_inside, rights
from ..engine.linked import Linked, flow_at
from ..engine.runner import clock
from ..flow.events import Event, Question, Warned, is_within
from ..flow.progress import Key, key_of
from ..flow.step import FlowInput
from ..flow.steps import Branches, Dag, Each, Walk, path_to
from ..flow.steps import Sequence as Steps
from ..flow.values import Value, type_name
from ..journal.call_rows import Reuse
from ..journal.codec import DecodeError, SignatureError, is_signed, user_key
from ..journal.file import JournalError
from ..journal.queries import RunHead, RunRow, claim, leave, records
from ..journal.recorder import Journal
from ..journal.records import Record, ReplayLog
from ..journal.store import Store
from ..text.diagnostics import Diagnostic, StepError, suggest
from .influence import reached
from .input import (
    DEFAULTS,
    RunOptions,
    fields_of,
    find_workers,
    parse_answer,
    replaying,
    settle_input,
)
from .launch import find_registered, prepare_run, start_on_engine, wait_for
from .lookup import (
    as_definition_errors,
    check_given,
    find_resumable,
    find_run,
    journal,
    refused_running,
    unpickled,
    unusable,
)
from .manifest import Manifest, link_as_it_was, read_manifest, refused, watch
from .past_run import PastRun, find_ended, input_again
from .run import Run
from .settings import current


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
    on: object = None,
    raises: bool = True,
) -> Run:
    """Resume a run that was interrupted, failed, was cancelled or waits for an answer, and wait for
    its end.

    Completed calls are not made again. A call that was interrupted, and the call that failed the
    run, are.

    Parameters:

    - ``run_id``: the id of the run, an unambiguous beginning of it, or the name of a flow: then its
      last run that can be resumed. Default None: the last run of this notebook that was
      interrupted, failed, was cancelled or waits for an answer.
    - ``input``: a mapping with the inputs that the journal does not contain (secrets). Default
      None.
    - ``answer``: the answer to the question that the run waits for. Default None: ask.
    - ``trust``: whether to unpickle values that are not signed with your key, which can run code.
      Default False.
    - ``registry``: the `Registry` to look tools and agents up in. Default None: the registry of
      this process.
    - ``limits``: the `Limits` to use instead of the original ones. Default None: the original ones.
    - ``on_event``: a function that is called with each event, on the engine's thread. If it raises,
      it is not called again and the run continues with a warning. Default None.
    - ``ask``: a function that puts a question to a person, ``ask(question) -> answer``; the answer
      to an approval is True or False. Default None: the notebook or the terminal asks.
    - ``on``: where concurrent calls of tools run, as for `run`. Default None: as the settings say.
    - ``raises``: whether an error of the run is raised; otherwise it is in ``run.error``. Default
      True.

    Raises DefinitionError if the run cannot be resumed, and otherwise the same errors as `run`.
    """
    options = RunOptions(
        registry=registry,
        limits=limits,
        on_event=on_event,
        ask=ask,
        answer=answer,
        trust=trust,
        on=on,
    )
    with held_interrupts() as held:
        ended = wait_for(resume_run(run_id, input, options), held)
    return ended.result() if raises else ended


def resume_run(
    run_id: str | None, input: Mapping[str, Value] | None = None, options: RunOptions = DEFAULTS
) -> Run:
    """`resume` that returns at once: the caller must `wait` unless the run is in the background."""
    resumed, head = prepare_resumed(run_id, input, options)
    assert resumed.journal is not None, "a resumed run has a journal"
    hold_for(resumed.cancel)
    grant = granted.set(resumed.grant.narrow(rights().grant.tools))
    try:
        claimed = claim(resumed.journal.store, head)
        if claimed:
            start_on_engine(resumed)
    except JournalError as error:
        raise unusable(error) from None
    except BaseException:
        if not resumed._is_started:  # else its end is journaled
            with contextlib.suppress(JournalError):
                leave(resumed.journal.store, head)
        raise
    finally:
        granted.reset(grant)
    if not claimed:
        message = f"run {head.run_id!r} was resumed or deleted in another kernel just now"
        raise refused("journal.running", message)
    return resumed


def prepare_resumed(
    run_id: str | None = None,
    input: Mapping[str, Value] | None = None,
    options: RunOptions = DEFAULTS,
) -> tuple[Run, RunHead]:
    """A run that can be resumed, and its row in the journal; neither claimed nor started."""
    refuse_inside("resume")
    if replaying.get() is not None:
        message = "a run cannot be resumed while a recording is replayed: its calls would be made"
        raise refused(
            "replay.resume", message, "start a new run, which takes its calls from the file"
        )
    store = journal()
    with as_definition_errors():
        row = find_resumable(store, run_id)
        resumed = _resumed(store, row, run_id or row.listed.run_id, input, options)
        if options.answer is not None:
            otherwise = options.ask or (
                current.ask_in_background if options.background else current.ask
            )
            answering = Answering(options.answer, otherwise)
            resumed._options = replace(resumed._options, ask=answering.ask)
            resumed._notes = answering.notes
    return resumed, row.listed


def _resumed(
    store: Store, row: RunRow, run_id: str, input: Mapping[str, Value] | None, options: RunOptions
) -> Run:
    """``run_id``: the id as the user wrote it, for errors."""
    head, registry = row.listed, default(options.registry)
    order, earlier = _journaled(store, row, run_id, options.trust)
    linked, problems = link_as_it_was(order, registry)
    flow = linked.flow
    if options.background:
        problems.extend(kernel_bound(linked))
    problems.refuse()
    workers, about_workers = find_workers(options, linked)
    context, moved = _context(order, registry, head.run_id)
    flow_input = FlowInput(_given(order, settle_input(input, flow), run_id), None, context)
    resumed = Run(linked, flow_input, options.limits or order.limits, options, problems)
    resumed.run_id, resumed.grant, resumed.work = head.run_id, order.grant, row.work
    resumed._workers = workers
    most = current.settings.journal_value
    watch(resumed, Journal(store, head.num, head.run_id, most, earlier))
    for warned in (*(Warned(clock(), warning) for warning in moved), *about_workers):
        resumed.progress.apply(warned)
    return resumed


def _journaled(store: Store, row: RunRow, run_id: str, trust: bool) -> tuple[Manifest, ReplayLog]:
    """The manifest of a run and the records of its calls. Raises DefinitionError if it cannot be
    resumed."""
    head = row.listed
    if head.status == "ok":
        raise refused("journal.finished", f"run {run_id!r} is complete", f"%runs {run_id} shows it")
    if head.status == "running":
        raise refused_running(run_id)
    try:
        order = _manifest(row, trust)
        calls = (
            unpickled(call, head.run_id, trust) for call in records(store, head.num, is_shown=False)
        )
        earlier = ReplayLog(calls, head.status in ("error", "cancelled"))
    except DecodeError as error:
        hint = (
            "trust it only if you know who wrote it: --trust (in Python: trust=True)"
            if isinstance(error, SignatureError)
            else None
        )
        raise refused(
            "journal.unreadable", f"run {run_id!r} cannot be resumed: {error}", hint
        ) from None
    return order, earlier


def _manifest(row: RunRow, trust: bool) -> Manifest:
    """The manifest of a run. Raises DecodeError if it is damaged or not signed by the user."""
    run_id = row.listed.run_id
    if not trust and not is_signed(user_key(), row.work_sign, run_id, "work", row.work):
        raise SignatureError("its definitions are not signed with your key")
    return read_manifest(row, trust)


def read_context(run_id: str) -> Sequence[Mapping[str, Value]]:
    """The messages of the named context before a run of the journal. Raises DefinitionError."""
    store = journal()
    with as_definition_errors():
        row = find_run(store, run_id)
    try:
        return _manifest(row, trust=False).context
    except DecodeError as error:
        raise refused("journal.unreadable", f"run {run_id!r} cannot be resumed: {error}") from None


def _given(order: Manifest, input: Value, run_id: str) -> Value:
    """The input: the journaled one, and from ``input`` the fields that are not journaled. Nothing
    else may differ."""
    fields = fields_of(input)
    check_given(order, input, run_id)
    if order.unkept:
        return input
    original = fields_of(order.input)
    other = [
        name
        for name, value in fields.items()
        if name not in order.secret and (name not in original or not _same(value, original[name]))
    ]
    if other or not isinstance(input, dict):
        what = ", ".join(map(repr, other)) or type_name(input)
        message = f"a resumed run uses its original input: {what} cannot be changed"
        raise refused("journal.other-input", message, "leave it out, or start another run")
    extra = {name: fields[name] for name in order.secret}
    return {**original, **extra} if extra else order.input


def _same(value: Value, other: Value) -> bool:
    try:
        return bool(value == other)
    except Exception:  # a user's class, a table
        return False


def _context(
    order: Manifest, registry: Registry, run_id: str
) -> tuple[Context | None, tuple[Diagnostic, ...]]:
    """The named context with its messages from before the run: the kernel's own, or a copy if
    another run has added to that one since."""
    if not order.context_name:
        return None, ()
    context = registry.contexts.named(order.context_name)
    changed = context.log is not None and context.last != run_id
    if changed:
        context = Context(order.context_name)
    context.log = order.context
    message = f"context {order.context_name!r} has changed since; this run writes to a copy"
    return context, (Diagnostic("journal.context", message, severity="warning"),) if changed else ()


class Answering:
    """It gives ``answer`` to the first question, the one that the run waits for, and then asks
    ``otherwise``."""

    def __init__(self, answer: Value, otherwise: Asker | None) -> None:
        self.left, self.otherwise = [answer], otherwise

    def ask(self, question: Question) -> Any:
        if self.left:
            return _checked_answer(question, self.left.pop())
        if self.otherwise is None:
            raise EOFError
        return self.otherwise(question)

    def notes(self) -> Iterable[Diagnostic]:
        """A warning if no question came: the author of the line expected one."""
        message = "the run asked nothing, so the answer was not used"
        hint = "remove the answer; %runs --status waiting lists the runs that wait for one"
        unused = Diagnostic("run.unused-answer", message, hint=hint, severity="warning")
        return (unused,) * len(self.left)


def _checked_answer(question: Question, answer: Value) -> Value:
    """The answer, parsed as if it were typed. Raises StepError if it does not fit the question."""
    is_changed_call = question.approval and isinstance(answer, dict)
    if is_changed_call or not (question.approval or question.choices):
        return answer
    parsed = parse_answer(question, str(answer))
    if parsed is None:
        what, hint = "is not an answer to an approval", "--answer yes, or --answer no"
        if question.choices:
            what, hint = (
                "is not one of the choices",
                f"--answer with one of {', '.join(map(repr, question.choices[:10]))}",
            )
        raise StepError(Diagnostic("run.answer", f"{answer!r} {what}: {question.text}", hint=hint))
    return parsed


def rerun(
    run_id: str,
    step: str,
    *,
    input: Mapping[str, Value] | None = None,
    registry: Registry | None = None,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] | None = None,
    ask: Asker | None = None,
    on: object = None,
    raises: bool = True,
) -> Run:
    """Run a flow again from one step on, wait for its end and return the new run.

    Results of the earlier run on which the step depends are reused. The definition is the one that
    is registered now.

    Parameters:

    - ``run_id``: the id of the earlier run, or the beginning of one. Required.
    - ``step``: the id of a step of that run, as in ``run.steps``. Required.
    - ``input``: a mapping with fields of the input that replace those of the earlier run. Default
      None: the same input.
    - ``registry``: the `Registry` to look names up in. Default None: the registry of this process.
    - ``limits``: the `Limits` of this run. Default None: those of the settings.
    - ``on_event``: a function that is called with each event, on the engine's thread. If it raises,
      it is not called again and the run continues with a warning. Default None.
    - ``ask``: a function that puts a question to a person, ``ask(question) -> answer``; the answer
      to an approval is True or False. Default None: the notebook or the terminal asks.
    - ``on``: where concurrent calls of tools run, as for `run`. Default None: as the settings say.
    - ``raises``: whether an error of the run is raised; otherwise it is in ``run.error``. Default
      True.

    Raises DefinitionError if there is no such run or step, and otherwise the same errors as `run`.
    """
    options = RunOptions(registry=registry, limits=limits, on_event=on_event, ask=ask, on=on)
    with held_interrupts() as held:
        ended = wait_for(rerun_from(run_id, step, input, options), held)
    return ended.result() if raises else ended


def rerun_from(
    run: Run | PastRun | str,
    step: str,
    input: Mapping[str, Value] | None = None,
    options: RunOptions = DEFAULTS,
) -> Run:
    """`rerun` that returns at once: the caller must `wait` unless the run is in the background."""
    refuse_inside("rerun")
    registry = default(options.registry)
    earlier = find_ended(run)
    key = find_step(earlier.progress.rows, step, f"run {earlier.run_id!r}")
    flow = find_registered(earlier.name, registry)
    again = prepare_run(flow, input_again(earlier, input), replace(options, reuse=False))
    find_step(again.progress.rows, step, f"the definition of {earlier.name!r}")
    if again.journal is not None:
        results = [(earlier.run_id, _before(earlier, key))]
        again.journal.reuse = Reuse(earlier.run_id, results, partial(unpickled, trust=False))
    start_on_engine(again)
    return again


def failed_step(run: Run | PastRun) -> str:
    """The id of the innermost step that failed the run. Raises DefinitionError if none did."""
    failed = [row.id for row in run.progress.rows.values() if row.state == "failed"]
    if not failed:
        hint = "name it: --from STEP (run.steps has the ids)"
        raise refused("journal.unknown-step", f"no step of run {run.run_id!r} failed", hint)
    return failed[-1]


def find_step(rows: Iterable[Key], step: str, where: str) -> Key:
    """The key of the row with the id ``step``. Raises DefinitionError."""
    keys = {"/".join(key): key for key in rows}
    if step not in keys:
        hint = suggest(step, keys, "steps") or "run.steps has the ids of all steps"
        raise refused("journal.unknown-step", f"{where} has no step {step!r}", hint)
    return keys[step]


def _before(run: Run | PastRun, key: Key) -> Iterator[Record]:
    """The records of a run without those of the step ``key`` and of what comes after it."""
    after, visits = _after(run._linked, key)
    assert run._in_journal is not None, "`find_ended` has checked it"
    begun = False
    for record in records(*run._in_journal):
        at = key_of(record.at)
        begun = begun or is_within(at, key)
        left_out = (key, *after, *visits) if begun else (key, *after)
        if not any(is_within(at, outer) for outer in left_out):
            yield record


def _after(linked: Linked, key: Key) -> tuple[list[Key], list[Key]]:
    """The keys of the steps that come after a step; and of the nodes of a graph, of which only the
    visits after the step do."""
    after, visits = list[Key](), list[Key]()
    for place, step in enumerate(key):
        calls = key[:place]
        around = flow_at(linked, calls)
        assert around is not None, "a row is of a linked flow"
        for outer, inner in pairwise(path_to(around.flow.body, step)):
            match outer:
                case Steps(steps=steps):
                    after += [(*calls, later.id) for later in steps[steps.index(inner) + 1 :]]
                case Branches(collect=collect) | Each(collect=collect) if (
                    collect is not None and collect is not inner
                ):
                    after.append((*calls, collect.id))
                case Dag(feeds=feeds):
                    edges = [(source, dest) for source, dest, _ in feeds]
                    after += [(*calls, dest) for dest in reached(inner.id, edges)]
                case Walk(nodes=nodes, edges=edges):
                    name = next(name for name, node in nodes.items() if node is inner)
                    names = reached(name, [(edge.source, edge.target) for edge in edges])
                    visits += [(*calls, nodes[name].id) for name in names if name in nodes]
    return after, visits
