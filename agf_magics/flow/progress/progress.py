"""`Progress`, the state of a run as all views read it: a row per step, computed from the events."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from ...text.diagnostics import Diagnostic, StepError
from ...values.value import Value
from ..flow import Flow
from ..step_names import callee_name
from ..step_path import StepPath, seconds_between
from ..steps import Invoke
from . import events as ev
from .pauses import Pauses
from .question import Question, Unanswered
from .rows import Arriving, Key, Row, Tree, key_of
from .usage import Usage, one_reply
from .worked import Worked

FAILURES_KEPT = 100_000
"""The number of failed elements that are listed, to bound the memory; the others are counted."""

EDGES_KEPT = 1_000
"""The number of followed edges that are listed; the oldest ones are dropped."""


class Failure(NamedTuple):
    """An element or branch that failed and was dropped."""

    at: StepPath
    error: BaseException
    element: Value = None
    """A preview of the element as JSON; None for a branch."""


class Failures(list[Failure]):
    """The first failures of a run; ``total`` counts all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __repr__(self) -> str:
        more = f" and {len(self) - 3:,} more, by a loop over them" if len(self) > 3 else ""
        return f"<{len(self):,} of {self.total:,} failures: {self[:3]!r}{more}>"


class Progress:
    """The state of a run. ``apply`` takes each event; all attributes can be read at any time, from
    any thread."""

    def __init__(self, flow: Flow, callees: Mapping[str, Any] | None = None) -> None:
        """``callees``: `Linked.callees`, for the rows of called flows."""
        self.name = flow.name
        self.status = "pending"
        """``pending``, ``running``, ``ok``, ``error``, ``cancelled`` or ``waiting``."""
        self.is_cancelling = False
        """Whether somebody cancels the run, and it has not ended yet."""
        tree = Tree(flow, callees or {})
        self.rows = tree.rows
        """The rows in the order of the tree."""
        self._unseen = tree.unseen
        self.failures = Failures()
        """The first `FAILURES_KEPT` dropped elements; ``failures.total`` counts all."""
        self.warnings: list[Diagnostic] = []
        self.error: BaseException | None = None
        self.blamed: set[Row] = set()
        """The rows that failed or were cancelled, and that no later retry or drop excused."""
        self.rows_inside: dict[Key, list[Row]] = {}
        """The rows inside the row of each key, computed at first use."""
        self.taken_edges: list[tuple[StepPath, str, str]] = []
        """The last `EDGES_KEPT` edges that walks followed, in order."""
        self.open_questions: dict[StepPath, Question] = {}
        """The open questions."""
        self.usage = Usage()
        self.stores: Mapping[str, Value] = {}
        """The named results, known at the end of the run."""
        self.when: float | None = None
        """The start that the run would have had if it had run without a pause until now."""
        self.ended: float | None = None
        """The end of the run, by the same clock; None: it has not ended."""
        self.pauses: Pauses = ()
        """The times between the sessions of the run."""
        self.ran = 0.0
        """The seconds that the earlier sessions took."""
        self.goes_on: float | None = None
        """When the pause of a resumed run ended in the journal; None: with its first event."""
        self.earlier: Mapping[Key, Worked] = {}
        """When the calls of earlier sessions ran, for each row and all rows around it, in seconds of
        the run's clock."""
        self.edited: frozenset[str] = frozenset()
        """The names of the tools and agents that were edited after an earlier session of the run."""
        self.repeated_until = 0.0
        """The end of the last of these calls whose outcome was taken so far."""
        self.has_gone_on = False
        """Whether this session has made a call that no earlier session made."""
        self.moved: dict[Row, float] = {}
        """The seconds by which rows without calls are shown earlier than this session evaluated
        them: the time of their first evaluation is not recorded."""
        self.ended_late = 0
        """The number of calls that were left running and have ended."""
        self.changes = 0
        """A number that grows with every event, so that a view knows whether it is up to date."""

    @property
    def failed(self) -> int:
        """The number of dropped elements."""
        return self.failures.total

    @property
    def unstopped(self) -> int:
        """The number of calls that were left running, and while the run is cancelled those that run:
        Python cannot stop a plain function on another thread."""
        counts = {
            row: row.left + (row.running if self.is_cancelling else 0)
            for row in list(self.rows.values())
        }
        return sum(count for row, count in counts.items() if count and _is_call(self, row))

    @property
    def losses(self) -> tuple[Diagnostic, ...]:
        """The warnings that are shown even to a user who wants none: all elements of a fan-out
        failed."""
        return tuple(warning for warning in self.warnings if warning.code == "run.all-dropped")

    def apply(self, event: ev.Event) -> None:
        """Change the state as ``event`` says."""
        # An abandoned loop may go on after the end of the run.
        if self.ended is not None and type(event) not in AFTER_END:
            return
        self.changes += 1
        _fold_step(self, event)

    def __contains__(self, key: Key) -> bool:
        """Whether there is a row for the step with these ids."""
        return key in self.rows or key in self._unseen

    def row(self, path: StepPath) -> Row:
        """The row of the step at ``path``, visible or hidden."""
        key = key_of(path)
        return self.rows.get(key) or self._unseen[key]

    @cached_property
    def sessions(self) -> Mapping[Key, Row]:
        """The rows of the sessions of models, each by the key of the row around it."""
        rows: dict[Key, Row] = {}
        for row in self.rows.values():
            if getattr(row.step, "session", False) is True:
                rows.setdefault(row.key[:-1], row)
        return rows

    def is_reply(self, value: Value) -> bool:
        """Whether ``value``, for example of a store, is the text that a model's session ended with."""
        if type(value) is not str:
            return False
        return any(row.held == value for row in self.sessions.values() if type(row.held) is str)

    @property
    def seconds(self) -> float | None:
        return seconds_between(self.when, self.ended)


def _fold_step(progress: Progress, event: ev.Event) -> None:
    """Apply an event about a step: its begin, its end, and what happens in between."""
    match event:
        case ev.StepStarted(path, when):
            row = progress.row(path)
            row.started += 1
            _begin(progress, row, when)
        case ev.StepFinished(path, when, value):
            _finish(progress, path, when, value)
        case ev.StepReplayed(path):
            row = progress.row(path)
            row.earlier += 1
            row.is_own = row.key in progress.earlier
            if row.is_own and isinstance(row.step, Invoke):
                row.old += callee_name(row.step) in progress.edited
        case ev.StepFailed(path, when, error):
            row = _end_call(progress, path, when)
            row.failed += 1
            row.error = error
            row.asks = isinstance(error, Unanswered)
            _blame(progress, row)
            if row.rescues:
                for inner in progress.blamed & _within(progress, row):
                    inner.rescues = True
            if row.turns is not None:
                row.turns.fail(path)
        case ev.StepCancelled(path, when):
            row = _end_call(progress, path, when)
            if path in row.replies:
                row.replies[path].cancelled = True
            row.cancelled += 1
            _blame(progress, row)
        case ev.StepAbandoned(path, when):
            _end_call(progress, path, when).left += 1
        case ev.AbandonedCallEnded(path, _):
            row = progress.row(path)
            row.left -= 1
            row.cancelled += 1
            progress.ended_late += 1
        case ev.StepSkipped(path, _, why):
            row = progress.row(path)
            row.why = why
            for inner in _within(progress, row):
                inner.skipped += 1
        case _:
            _fold_report(progress, event)


def _fold_report(progress: Progress, event: ev.Event) -> None:
    """Apply an event about a step between its begin and its end."""
    match event:
        case ev.CallStarted(path, _, kind, name):
            if (turns := progress.row(path).turns) is not None:
                turns.begin(path, kind, name)
        case ev.StepRetried(path):
            row = progress.row(path)
            row.retried += 1
            _excuse(progress, row)
        case ev.FanOutStarted():
            _widen(progress.row(event.at), event)
        case ev.ElementDropped():
            _drop(progress, event)
        case ev.Placed(path, _, count, where, starting):
            progress.row(path).on_workers = (count, where, starting) if count else None
        case ev.EdgeTaken(path, _, source, target):
            progress.taken_edges.append((path, source, target))
            if len(progress.taken_edges) > EDGES_KEPT:
                del progress.taken_edges[0]
        case ev.QuestionAsked(path, _, question):
            progress.open_questions[path] = question
            progress.row(path).asks = True
        case ev.QuestionAnswered(path) | ev.QuestionClosed(path):
            progress.open_questions.pop(path, None)
            row = progress.row(path)
            row.asks = any(progress.row(asking) is row for asking in progress.open_questions)
        case ev.ModelText():
            _arrive(progress.row(event.at), event)
        case ev.StepPrinted(path, _, text):
            row = progress.row(path)
            row.printed = (row.printed + text)[-Arriving.LONGEST :]
        case ev.Progressed(path, _, done, _, text):
            row = progress.row(path)
            row.reports[path] = event
            if done is None and not text:
                del row.reports[path]
        case _:
            _fold_run(progress, event)


def _widen(row: Row, event: ev.FanOutStarted) -> None:
    """Count the elements of a fan-out that starts. As its value, its sequence is kept if it runs once."""
    row.width = (row.width or 0) + event.width
    if not row.many and row.turns is None:
        row.over = event.over


def _drop(progress: Progress, event: ev.ElementDropped) -> None:
    """Count an element or branch that is dropped, in its fan-out and in all rows around it."""
    row = progress.row(event.at)
    row.dropped += 1
    for inner in _excuse(progress, row):
        inner.lost += inner is not row
    for outer in filter(None, map(progress.rows.get, _around(row.key))):
        outer.lost += 1
    progress.failures.total += 1
    # The first failures are listed: they are the likely cause of the others.
    if len(progress.failures) < FAILURES_KEPT:
        progress.failures.append(Failure(event.at, event.error, event.element))


def _begin(progress: Progress, row: Row, when: float) -> None:
    """Note that a row begins, for the first time in an earlier session or now. The time since its last
    end is no work, unless it still runs."""
    if progress.earlier and progress.when is not None:
        if row.key not in progress.earlier:
            when -= _moved(progress, row, when, progress.when)
        elif row.when is None:
            begin, end, row.idle = progress.earlier[row.key]
            row.when = progress.when + begin
            row.ended = progress.when + end
    if row.when is None:
        row.when = when
    elif row.ended is not None and row.running == 1:
        row.gap = max(0.0, when - row.ended)
        row.idle += row.gap


def _moved(progress: Progress, row: Row, when: float, run_began: float) -> float:
    """The seconds by which a row without earlier calls began before ``when``: a step that is only
    evaluated again began after the calls that it follows."""
    moved = 0.0
    if not progress.has_gone_on and not _is_call(progress, row):
        moved = max(0.0, when - run_began - progress.repeated_until)
    progress.moved[row] = moved
    return moved


def _is_call(progress: Progress, row: Row) -> bool:
    """Whether the row makes a call itself, and no row inside it does."""
    return isinstance(row.step, Invoke) and len(_within(progress, row)) == 1


def _end_of(progress: Progress, row: Row, when: float) -> float:
    """The time when a row ended: ``when``, or the end of its last call in an earlier session if
    this session made no call in it."""
    if not progress.earlier or progress.when is None:
        row.gap = 0.0
        return when
    # A replayed call ends, too: `StepReplayed` has counted it in `earlier` before. The counts of
    # ended calls do not have this one yet. So as many as `earlier` mean that it was made now.
    if _is_call(progress, row) and row.finished + row.failed + row.cancelled >= row.earlier:
        progress.has_gone_on = True
        for outer in filter(None, map(progress.rows.get, _around(row.key))):
            outer.is_made = True
    if row.is_made:
        row.gap = 0.0
        return when
    if row.key not in progress.earlier:
        row.gap = 0.0
        return when - progress.moved.get(row, 0.0)
    if row.running == 1:
        # No call was made since the last begin, which repeats what an earlier session did.
        row.idle -= row.gap
        row.gap = 0.0
    last_end = progress.earlier[row.key].end
    progress.repeated_until = max(progress.repeated_until, last_end)
    return progress.when + last_end


def with_outer(times: Mapping[Key, Worked]) -> dict[Key, Worked]:
    """The times of rows with calls, and of the rows around them: a row ran from the first begin to the
    last end of the calls in it."""
    times_of = dict(times)
    for key, (begin, end, _) in times.items():
        for outer in _around(key):
            if outer not in times:
                first, last, _ = times_of.get(outer, (begin, end, 0.0))
                times_of[outer] = Worked(min(first, begin), max(last, end))
    return times_of


def _fold_run(progress: Progress, event: ev.Event) -> None:
    """Apply an event about the whole run."""
    match event:
        case ev.TokensUsed():
            count_use(progress, event)
        case ev.BackgroundCallEnded(_, _, error):
            if error is not None:
                diagnostic = error.diagnostic
                message = f"a fire-and-forget call failed: {diagnostic.message}"
                progress.warnings.append(
                    Diagnostic(
                        "run.fired-failed", message, diagnostic.span, diagnostic.hint, "warning"
                    )
                )
        case ev.Warned(_, diagnostic):
            progress.warnings.append(diagnostic)
        case ev.RunStarted(_, when):
            progress.status = "running"
            goes_on = progress.goes_on
            progress.when = (when if goes_on is None else goes_on) - progress.ran
        case ev.CancelAsked():
            progress.is_cancelling = True
        case ev.RunEnded():
            _end(progress, event)


def count_use(progress: Progress, event: ev.TokensUsed) -> None:
    """Count a reply for the run, for its row, and for the rows around it: the session, the agent,
    the fan-out, the call of their flow. A past run may lack its row."""
    used = one_reply(event.input, event.output, event.model, event.cost)
    progress.usage = progress.usage.plus(used)
    for row in filter(None, map(progress.rows.get, _around(key_of(event.at)))):
        row.usage = (row.usage or Usage()).plus(used)


def _around(key: Key) -> Iterator[Key]:
    """``key`` and the keys around it. Some of them may have no row."""
    for depth, step in enumerate(key):
        for end in re.finditer(r"[.[]|$", step):
            yield (*key[:depth], step[: end.start()])


def _arrive(row: Row, event: ev.ModelText) -> None:
    """Add to a reply that arrives in a row, or begin one."""
    reply = row.replies.get(event.at)
    if reply is None or reply.attempt != event.attempt:
        kept = [reply for at, reply in row.replies.items() if at != event.at]
        if len(kept) >= Arriving.MOST:
            kept = [reply for reply in kept if not reply.ended]
            if len(kept) >= Arriving.MOST:
                return
        reply = Arriving(event.at, event.attempt)
        row.replies = {reply.at: reply for reply in (*kept, reply)}
    reply.add(event.part, event.text)


def _finish(progress: Progress, at: StepPath, when: float, value: Value) -> None:
    """Count a step that has a result."""
    row = progress.row(at)
    row.ended = _end_of(progress, row, when)
    row.finished += 1
    row.reports.pop(at, None)
    if at in row.replies:  # the reply is complete
        row.replies = {other: reply for other, reply in row.replies.items() if other != at}
    if row.turns is not None:
        row.turns.end(at)
    if not row.many:
        row.held = value


def _end_call(progress: Progress, path: StepPath, when: float) -> Row:
    """The row of a call that has ended without a result."""
    row = progress.row(path)
    row.ended = _end_of(progress, row, when)
    row.reports.pop(path, None)
    if path in row.replies:
        row.replies[path].ended = True
    return row


def _end(progress: Progress, event: ev.RunEnded) -> None:
    """Apply the end of the run."""
    progress.ended, progress.status, progress.error, progress.stores = event
    progress.is_cancelling = False
    # A question of a run that was cut off has no event for its end.
    progress.open_questions.clear()
    if isinstance(event.error, StepError) and event.error.path is not None:
        progress.row(event.error.path).fatal = True
    _settle(progress)


def _settle(progress: Progress) -> None:
    """Mark the failures of a run that ended ok: they did not end the run, for example because a
    plan has an alternative. Of a run that did not, any failure of a plan may be the reason."""
    if progress.status != "ok":
        for row in progress.rows.values():
            row.rescues = row.step.rescue is not None
        return
    for row in progress.rows.values():
        if row.failed and row.state == "failed":
            row.rescues = True
        elif row.cancelled:  # a step around it failed and was rescued
            row.excused = True
        # A node of a graph (`again`) to which no edge led was skipped.
        elif not row.started and row.again and row.state == "pending":
            row.skipped += 1


def _blame(progress: Progress, row: Row) -> None:
    """Note that a row failed or was cancelled, which may have ended the run."""
    row.excused = False
    progress.blamed.add(row)


def _excuse(progress: Progress, body: Row) -> set[Row]:
    """Excuse the failures and cancellations in an element that is dropped or retried, which did not
    fail the run. Returns their rows."""
    # Only blamed rows are searched: a fan-out may drop 100,000 elements.
    blamed = progress.blamed & _within(progress, body)
    for row in blamed:
        row.excused = True
        progress.blamed.discard(row)
    return blamed


def restore_end(progress: Progress) -> None:
    """Restore, in a past run, what follows from the counts of all rows: the drops in each row, and
    the failures that did not end the run."""
    _settle(progress)
    for row in [row for row in progress.rows.values() if row.dropped]:
        for outer in filter(None, map(progress.rows.get, _around(row.key))):
            outer.lost += row.dropped
        for inner in _within(progress, row):
            # The counts do not tell which failure belongs to which drop, but there are at most so many.
            failures = min(row.dropped, inner.failed - inner.retried)
            if inner is not row and inner.excused and failures > 0:
                inner.lost = max(inner.lost, failures)


def _within(progress: Progress, outer: Row) -> frozenset[Row]:
    """``outer`` and the rows of all steps in it, also of called flows; computed once."""
    if outer.within is None:
        # Each row tells the rows around it. A search through all rows for each outer row would
        # take quadratic time.
        if not progress.rows_inside:
            for row in progress.rows.values():
                for key in _around(row.key):
                    progress.rows_inside.setdefault(key, []).append(row)
        outer.within = frozenset(progress.rows_inside.get(outer.key, ()))
    return outer.within


AFTER_END = (ev.Warned, ev.TokensUsed, ev.BackgroundCallEnded, ev.AbandonedCallEnded)
"""The events that still count after the end of the run. Tokens cost money then, too."""
