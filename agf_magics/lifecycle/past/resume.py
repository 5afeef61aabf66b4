"""Resumes an unfinished run where it stopped.

A resumed run takes its definitions from its manifest, its tools from the kernel, and its results
from the journal. Completed calls are not repeated; an interrupted call is.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ...catalog import Registry, default
from ...catalog.digests.digesting import digest_value
from ...engine.calls.answers import parse_answer_value
from ...engine.host.hold_interrupts import hold_for
from ...engine.host.host import Asker
from ...engine.linking.background_checks import kernel_bound
from ...engine.recording import replaying
from ...engine.run_options import DEFAULTS, RunOptions
from ...engine.runner import clock
from ...engine.threads.rights import refuse_inside, rights
from ...flow.progress.events import Event, Warned
from ...flow.progress.progress import Progress, with_outer
from ...flow.progress.question import Question
from ...flow.protocols import FlowInput
from ...flow.step_path import format_path
from ...journal.claims import claim, pause, undo_claim
from ...journal.codec.encoding import DecodeError
from ...journal.codec.identities import Identities
from ...journal.codec.parted import content_digest
from ...journal.codec.signatures import SignatureError, is_signed, user_key
from ...journal.database.errors import JournalError, as_definition_errors, unusable
from ...journal.database.store import Store
from ...journal.records.failures import error_from
from ...journal.records.recorded_outcomes import NO_RECORDS, EarlierOutcomes
from ...journal.records.records import UNREADABLE, CallKey, Record, decoded
from ...journal.run_journal import Journal
from ...journal.runs import RunHead, RunRow, changed_objects, records
from ...languages.over import OVER, OverTerms
from ...limits.grants import granted
from ...limits.limits import Limits, limits_of_run
from ...settings.settings import current
from ...text.diagnostics import AgfError, Diagnostic, refused
from ...text.folder import notebook_folder
from ...values.value import Value, type_name
from ..input.fields import fields_of, settle_input
from ..input.workers import find_workers
from ..launch.driving import start_on_engine
from ..launch.viewers import run_to_end
from ..runs.run import Run, state_of
from ..runs.state import RunState
from ..storage.edited_functions import mixed_versions
from ..storage.given_again import check_given
from ..storage.lookup import find_resumable, find_run, journal, still_running
from ..storage.manifest import Manifest, read_manifest
from ..storage.relink import link_as_it_was
from ..storage.reuse import find_reused_again, reuse_results
from ..storage.saved_progress import Times, clocked, noting_times, stored_times
from ..storage.start_journal import connect_journal
from ..storage.stored_results import unpickle, without_foreign_outcomes
from .past_run import PastRun, find_past_run
from .results_before import reuse_before
from .run_again import ContextBefore, context_before


def resume(
    run_id: str | Run | PastRun | None = None,
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
    quiet: bool = False,
) -> Run:
    """Resume a run that was interrupted, failed, was cancelled or waits for an answer, and wait for
    its end.

    Completed calls are not made again. A call that was interrupted, and the call that failed the
    run, are.

    Parameters:

    - ``run_id``: the id of the run, the name of a flow, which means its last run that can be
      resumed, an unambiguous beginning of an id, or a run. Default None: the last run of this notebook that was
      interrupted, failed, was cancelled or waits for an answer.
    - ``input``: a mapping with the inputs that the journal does not contain (secrets). Default
      None.
    - ``answer``: the answer to the question that the run waits for. Default None: ask.
    - ``trust``: whether to unpickle values that are not signed with your key, which can run code.
      Default False.
    - ``registry``: the `Registry` to look tools and agents up in. Default None: the registry of
      this process.
    - ``limits``: the `Limits` that replace the original ones. Default None: the original ones.
    - ``on_event``: a function that is called with each event, on the engine's thread. If it raises,
      it is not called again and the run continues with a warning. Default None.
    - ``ask``: a function that puts a question to a person, ``ask(question) -> answer``; the answer
      to an approval is True, False, or a word for it ("yes", "no"). Default None: the notebook or
      the terminal asks.
    - ``on``: where concurrent calls of tools run, as for `run`. Default None: as the settings say.
    - ``raises``: whether an error of the run is raised; otherwise it is in ``run.error``. Default
      True.
    - ``quiet``: whether a notebook shows nothing of the run. Default False: the cell that starts it
      shows it live.

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
    ended = run_to_end(lambda options: resume_run(run_id, input, options), options, quiet)
    return ended.result() if raises else ended


def resume_run(
    run_id: str | Run | PastRun | None,
    input: Mapping[str, Value] | None = None,
    options: RunOptions = DEFAULTS,
) -> Run:
    """`resume` that returns at once: the caller must `wait` unless the run is in the background."""
    resumed, head = prepare_resumed(run_id, input, options)
    assert resumed.journal is not None, "a resumed run has a journal"
    hold_for(resumed.cancel)
    own_grant = rights().grant
    grant = granted.set(
        state_of(resumed).grant.narrow(
            own_grant.tools, barred=own_grant.barred | own_grant.only_if_asking
        )
    )
    try:
        resumed.progress.goes_on = clock()
        claimed = claim(resumed.journal.store, head)
        if claimed:
            start_on_engine(resumed)
    except JournalError as error:
        raise unusable(error) from None
    except BaseException:
        if not state_of(resumed).is_started:  # else its end is journaled
            with contextlib.suppress(JournalError):
                undo_claim(resumed.journal.store, head)
        raise
    finally:
        granted.reset(grant)
    if not claimed:
        message = f"run {head.run_id!r} was resumed or deleted in another kernel just now"
        raise refused("journal.running", message)
    return resumed


def prepare_resumed(
    run_id: str | Run | PastRun | None = None,
    input: Mapping[str, Value] | None = None,
    options: RunOptions = DEFAULTS,
) -> tuple[Run, RunHead]:
    """A run that can be resumed, and its row in the journal; neither claimed nor started."""
    refuse_inside("resume")
    notebook_folder.fix()
    if replaying.get() is not None:
        message = "a run cannot be resumed while a recording is replayed: its calls would be made"
        raise refused(
            "replay.resume", message, "start a new run, which takes its calls from the file"
        )
    store = journal()
    with as_definition_errors():
        row = find_resumable(store, run_id, default(options.registry).flows)
        resumed = _resume_row(store, row, row.head.run_id, input, options)
        if row.head.language == OVER:
            from ..retried_effects import know_effects  # here: most runs have one input

            know_effects(resumed)
        if options.answer is not None:
            _answer_question(resumed, row, options)
    return resumed, row.head


def _answer_question(resumed: Run, row: RunRow, options: RunOptions) -> None:
    """Let a resumed run take the answer of its options for the question that it waits for."""
    otherwise = options.ask or (current.ask_in_background if options.background else current.ask)
    log = resumed.journal.log if resumed.journal is not None else NO_RECORDS
    answering = Answering(options.answer, otherwise, _waits_for(row, log))
    state = state_of(resumed)
    state.options = replace(state.options, ask=answering.ask, notes=answering.notes)


def _resume_row(
    store: Store, row: RunRow, run_id: str, input: Mapping[str, Value] | None, options: RunOptions
) -> Run:
    """The run of a row of the journal with its results so far, ready to go on."""
    head = row.head
    registry = default(options.registry)
    with _unreadable(run_id):
        order = _order(row, run_id, options.trust)
    order, limits = _limits_again(order, options.limits)
    linked, problems = link_as_it_was(order, registry)
    flow = linked.flow
    if options.background:
        problems.extend(kernel_bound(linked))
    problems.refuse()
    workers, about_workers = find_workers(options, linked)
    before = _context_before(order, registry, head.run_id)
    context = before.context if before is not None else None
    flow_input = FlowInput(_input_again(order, settle_input(input, flow), run_id), None, context)
    options = replace(options, limits=limits, note=order.note)
    state = RunState(
        *(linked, flow_input, options, problems),
        run_id=head.run_id,
        grant=order.grant,
        workers=workers,
    )
    with _unreadable(run_id):
        earlier, times, names = _earlier(store, head, options.trust, flow_input.input)
        tree = decoded(row.tree) if head.ended is not None else None
    _go_on(state.progress, store, head, times, tree)
    journal = Journal(store, head.num, head.run_id, current.settings.journal_value, earlier)
    connect_journal(state, journal)
    state.reused = order.reused
    gone = _reuse_again(state, head.num)
    state.options = replace(state.options, note="; ".join(filter(None, (order.note, gone))))
    moved = before.warnings if before is not None else ()
    mixed = _kept_of_edited(store, head, order, registry, _of_kept(earlier, names))
    state.progress.edited = frozenset(mixed)
    warnings = (*moved, *mixed.values())
    for warned in (*(Warned(clock(), warning) for warning in warnings), *about_workers):
        state.progress.apply(warned)
    return Run(state)


def _kept_of_edited(
    store: Store, head: RunHead, order: Manifest, registry: Registry, kept: Iterable[str]
) -> dict[str, Diagnostic]:
    """The edited tools and agents of which results are kept, each with a warning."""
    with store.reading_run(head.num) as connection:
        changed = changed_objects(connection, head.num)
    return dict(mixed_versions(order.functions, registry, changed, kept))


def _context_before(order: Manifest, registry: Registry, run_id: str) -> ContextBefore | None:
    """The named context of a run as the run began; None: it had none."""
    if not order.context_name:
        return None
    return context_before(order.context_name, order.context, registry, run_id)


def _limits_again(order: Manifest, given: Limits | None) -> tuple[Manifest, Limits]:
    """The manifest and the limits of a resumed run, with the limits ``given`` by a person. Over a
    table, each row has the time and the agent sessions of a whole run, as in the first session."""
    first, *others = order.flows
    if given is None or first.language != OVER:
        return order, limits_of_run(given, order.limits)
    terms = OverTerms(**json.loads(first.source.text))
    if "spawns" in given.given:
        terms = terms._replace(sessions=given.spawns)
    if "timeout" in given.given:
        terms = terms._replace(timeout=given.timeout)
    source = replace(first.source, text=terms.text())
    of_run = {name: getattr(given, name) for name in given.given - {"spawns", "timeout"}}
    limits = limits_of_run(Limits(**of_run), order.limits)
    return order._replace(flows=(first._replace(source=source), *others)), limits


def _reuse_again(state: RunState, num: int) -> str:
    """Let a resumed run reuse the same results of other runs as its first session, without those
    that its calls have taken. Returns the note about runs that are gone; empty: there are none."""
    reused, journal = state.reused, state.journal
    assert journal is not None, "a resumed run has a journal"
    heads = find_reused_again(journal.store, reused)
    if reused.before:
        for head in heads:
            reuse_before(state, find_past_run(head.run_id), reused.before)
    else:
        reuse_results(state, heads)
    if journal.reuse is not None:
        digests = dict[CallKey, bytes]()
        for record in records(journal.store, num, is_shown=False):
            if record.what in ("finished", "failed") and record.digest:
                digests[record.key] = record.digest
        for key, digest in digests.items():
            if key in journal.log.values or key in journal.log.failed:
                journal.reuse.drop(digest)
    gone = set(reused.run_ids) - {head.run_id for head in heads}
    names = ", ".join(sorted(gone))
    return f"nothing is reused from {names}, which the journal does not have" if gone else ""


def _order(row: RunRow, run_id: str, trust: bool) -> Manifest:
    """The manifest of a run. Raises DefinitionError if it cannot be resumed."""
    if row.head.status == "ok":
        hint = current.words.show_run.format(run_id)
        raise refused("journal.finished", f"run {run_id!r} is complete", hint)
    if row.head.status == "running":
        raise still_running(run_id)
    return _manifest(row, trust)


def _earlier(
    store: Store, head: RunHead, trust: bool, input: Value
) -> tuple[EarlierOutcomes, Times, Mapping[CallKey, str]]:
    """The records of the calls of a run with this input, in which results share objects as in the
    run; the times of the calls, and the names of their functions. Raises DecodeError."""
    times = Times(list)
    identities = Identities()
    identities.know(input)
    written = noting_times(records(store, head.num, is_shown=False), times)
    names: dict[CallKey, str] = {}
    believed = written if trust else without_foreign_outcomes(written, head.run_id)
    calls = (
        unpickle(call, head.run_id, trust, store.files, identities, is_late=True)
        for call in _noting_names(believed, names)
    )
    # An interrupted run did not end: no failure of a call was the one that ended it.
    return EarlierOutcomes(calls, head.status != "interrupted", identities), times, names


def _noting_names(records: Iterable[Record], names: dict[CallKey, str]) -> Iterator[Record]:
    for record in records:
        if record.what == "finished":
            names[record.key] = record.name
        yield record


def _of_kept(earlier: EarlierOutcomes, names: Mapping[CallKey, str]) -> Iterator[str]:
    """The name of the function of each result that a run keeps."""
    return (names[key] for key in map(CallKey._make, earlier.values) if key in names)


def _go_on(progress: Progress, store: Store, head: RunHead, times: Times, tree: Any) -> None:
    """Let the clock of the run go on from where its last session stopped. ``tree``: the rows at the
    end of that session, which know better than the calls how long a step around calls ran; None: it
    had no end."""
    stopped, goes_on = pause(store, head)
    progress.ran = head.clock(stopped)
    progress.pauses = (*head.pauses, (stopped, goes_on))
    progress.earlier = earlier = with_outer(clocked(times, head.clock))
    rows = tree if isinstance(tree, list) else ()
    earlier.update((key, worked) for key, worked in stored_times(rows) if key in earlier)


@contextlib.contextmanager
def _unreadable(run_id: str) -> Iterator[None]:
    """Raise an error of the block about an unreadable journal as the reason why a run cannot be
    resumed."""
    try:
        yield
    except DecodeError as error:
        code, hint = "journal.unreadable", None
        if isinstance(error.__cause__, AgfError):  # the file of a table has changed
            code, hint = error.__cause__.code, error.__cause__.diagnostic.hint
        if isinstance(error, SignatureError):
            hint = "trust it only if you know who wrote it: --trust (in Python: trust=True)"
        message = f"run {run_id!r} cannot be resumed: {error}"
        raise refused(code, message, hint) from None


def _manifest(row: RunRow, trust: bool) -> Manifest:
    """The manifest of a run. Raises DecodeError if it is damaged or not signed by the user."""
    run_id = row.head.run_id
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


def _input_again(order: Manifest, input: Value, run_id: str) -> Value:
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
        changed = ", ".join(map(repr, other)) or type_name(input)
        message = f"a resumed run uses its original input: {changed} cannot be changed"
        raise refused("journal.other-input", message, "leave it out, or start another run")
    extra = {name: fields[name] for name in order.secret}
    return {**original, **extra} if extra else order.input


def _same(value: Value, other: Value) -> bool:
    """Whether two inputs are the same: by ``==``, or by a digest where ``==`` does not tell, as of NaN, an
    array or a table."""
    with contextlib.suppress(Exception):  # a user's class, a table
        if bool(value == other):
            return True
    digests = (map(digest, (value, other)) for digest in (digest_value, content_digest))
    return any(first is not None and first == second for first, second in digests)


class Waiting(NamedTuple):
    """The question that a run waits for."""

    where: str
    """The path of the step that asks, as text."""
    text: str | None = None
    """The text of the question; None: the question whether a call of unknown outcome was made."""

    def is_of(self, question: Question) -> bool:
        return question.where == self.where and self.text in (None, question.text)


def _waits_for(row: RunRow, log: EarlierOutcomes) -> Waiting | None:
    """The question that ended the run; else the first question that was not answered, else the
    only call of unknown outcome. None if there is none, or it is not certain which."""
    ended = None
    with contextlib.suppress(*UNREADABLE):
        ended = error_from(row.error, ()).path if row.error is not None else None
    open_questions = [(key.at, text) for key, text in log.open.items()]
    if open_questions:
        path, text = min(open_questions, key=lambda question: question[0] != ended)
        return Waiting(format_path(path), text)
    unknown = {key.at for key in log.unknown}
    return Waiting(format_path(unknown.pop())) if len(unknown) == 1 else None


class Answering:
    """An asker that returns ``answer`` for the question that the run ``waits`` for, and asks
    ``otherwise`` any other question: a resumed run may come to another question first."""

    def __init__(self, answer: Value, otherwise: Asker | None, waits: Waiting | None) -> None:
        self.unused = [answer]
        """The answer until its question has come; then nothing."""
        self.otherwise = otherwise
        self.waits = waits

    def ask(self, question: Question) -> Any:
        if self.unused and self.waits is not None and self.waits.is_of(question):
            return parse_answer_value(question, self.unused.pop(), "--answer ")
        if self.otherwise is None:
            raise EOFError
        return self.otherwise(question)

    def notes(self) -> Iterable[Diagnostic]:
        """A warning if its question did not come: the author of the line expected it."""
        message = "the run did not wait for an answer, so the answer was not used"
        if self.waits is not None:
            message = f"the question of {self.waits.where} did not come, so the answer was not used"
        hint = "remove the answer; %runs --status waiting lists the runs that wait for one"
        warning = Diagnostic("run.unused-answer", message, hint=hint, severity="warning")
        return [warning for _ in self.unused]
