"""A run as it stands: a pure fold of its events, and the only thing a view ever reads.

The live widget, the coloured picture, the text log and the tests read the same Progress. A fan-out is one row with
counters, never a row per element: 100,000 elements cost one row and the failures that are kept to be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..flow.steps import Flow
from ..flow.values import Value
from ..text.diagnostics import Diagnostic, StepError
from . import events as ev
from .rows import Key, Row, Tree

__all__ = ["Key", "Progress", "Row", "Usage"]

FAILURES_KEPT = 50
"""Failed elements listed by name; the rest is a count."""

EDGES_KEPT = 1_000


class Usage(NamedTuple):
    """What a run asked of models."""

    requests: int = 0
    """Those that were answered."""
    input: int = 0
    """Tokens, as the models count them; of models that do not say, 0."""
    output: int = 0

    @property
    def tokens(self) -> int:
        return self.input + self.output


class Progress:
    """``apply`` takes each event; everything else is there to be read, at any time, from any thread."""

    def __init__(self, flow: Flow, callees: Mapping[str, Any] | None = None) -> None:
        """``callees``: what `Linked.callees` says, so that the steps of called flows stand under their call."""
        self.name = flow.name
        self.status = "pending"
        """pending, running, ok, error, cancelled, waiting."""
        tree = Tree(flow, callees or {})
        self.rows = tree.rows
        """In the order of the tree."""
        self._unseen = tree.unseen
        self.failures: list[tuple[ev.StepPath, BaseException]] = []
        """The first FAILURES_KEPT elements that failed for good (dropped ones too), by moment."""
        self.failed = 0
        self.warnings: list[Diagnostic] = []
        self.error: BaseException | None = None
        self._blamed: set[Row] = set()
        """The rows that failed or were cancelled, and that no retry and no drop has excused since."""
        self.taken: list[tuple[ev.StepPath, str, str]] = []
        """The edges a walk took, in their order; the last EDGES_KEPT."""
        self.asked: dict[ev.StepPath, ev.Question] = {}
        """What a person is being asked."""
        self.usage = Usage()
        self.stores: Mapping[str, Value] = {}
        """What the run kept, known when it has ended."""
        self.when: float | None = None
        self.ended: float | None = None
        self.changes = 0
        """Grows with every event: a view that has seen this number has nothing to draw."""

    def apply(self, event: ev.Event) -> None:
        if self.ended is not None and type(event) not in (
            ev.Warned,
            ev.BackgroundCallEnded,
        ):  # a loop that was left wakes up later
            return
        self.changes += 1
        if type(event) is ev.StepStarted:  # these two come for every step and element, and are folded here
            at, when, _ = event
            row = self.rows.get(at if type(at[-1]) is str else at[:-1]) or self.row(at)  # type: ignore[arg-type]
            row.started += 1
            if row.when is None:
                row.when = when
        elif type(event) is ev.StepFinished:
            at, when, value = event
            row = self.rows.get(at if type(at[-1]) is str else at[:-1]) or self.row(at)  # type: ignore[arg-type]
            row.finished += 1
            row.ended = when
            if not row.many:
                row.value = value
        else:
            FOLD[type(event)](self, event)

    def row(self, at: ev.StepPath) -> Row:
        # One dict look-up serves a plain step and an element of one fan-out; only deeper moments are searched.
        found = self.rows.get(at if type(at[-1]) is str else at[:-1])  # type: ignore[arg-type]
        if found is None:
            key = tuple(bit for bit in at if type(bit) is str)
            found = self.rows.get(key) or self._unseen[key]
        return found

    @property
    def seconds(self) -> float | None:
        return None if self.when is None or self.ended is None else self.ended - self.when


def _kept(p: Progress, e: ev.StepReplayed) -> None:
    p.row(e.at).earlier += 1


def _failed(p: Progress, e: ev.StepFailed) -> None:
    row = p.row(e.at)
    row.failed += 1
    row.ended = e.when
    row.error = e.error
    row.asks = isinstance(e.error, ev.Unanswered)
    _blame(p, row)


def _cancelled(p: Progress, e: ev.StepCancelled) -> None:
    row = p.row(e.at)
    row.cancelled += 1
    row.ended = e.when
    _blame(p, row)


def _left(p: Progress, e: ev.StepAbandoned) -> None:
    row = p.row(e.at)
    row.left += 1
    row.ended = e.when


def _retried(p: Progress, e: ev.StepRetried) -> None:
    row = p.row(e.at)
    row.retried += 1
    _excuse(p, row)


def _skipped(p: Progress, e: ev.StepSkipped) -> None:
    row = p.row(e.at)
    row.why = e.why
    for inner in _within(p, row):  # a step that is not run runs none of its own
        inner.skipped += 1


def _dropped(p: Progress, e: ev.ElementDropped) -> None:
    row = p.row(e.at)
    row.dropped += 1
    _excuse(p, row)
    p.failed += 1
    if len(p.failures) < FAILURES_KEPT:
        p.failures.append((e.at, e.error))


def _fanned(p: Progress, e: ev.FanOutStarted) -> None:
    row = p.row(e.at)
    row.width = (row.width or 0) + e.width


def _edge(p: Progress, e: ev.EdgeTaken) -> None:
    p.taken.append((e.at, e.source, e.target))
    del p.taken[:-EDGES_KEPT]


def _asked(p: Progress, e: ev.QuestionAsked) -> None:
    p.asked[e.at] = e.question


def _answered(p: Progress, e: ev.QuestionAnswered) -> None:
    p.asked.pop(e.at, None)


def _used(p: Progress, e: ev.TokensUsed) -> None:
    requests, input, output = p.usage
    p.usage = Usage(requests + 1, input + e.input, output + e.output)


def _fired(p: Progress, e: ev.BackgroundCallEnded) -> None:
    if e.error is not None:
        why = e.error.diagnostic
        message = f"a call that nobody waited for failed: {why.message}"
        p.warnings.append(Diagnostic("run.fired-failed", message, why.span, why.hint, "warning"))


def _warned(p: Progress, e: ev.Warned) -> None:
    p.warnings.append(e.diagnostic)


def _begun(p: Progress, e: ev.RunStarted) -> None:
    p.status = "running"
    p.when = e.when


def _over(p: Progress, e: ev.RunEnded) -> None:
    p.status = e.status
    p.error = e.error
    p.stores = e.stores
    p.ended = e.when
    at = e.error.path if isinstance(e.error, StepError) else None
    if at is not None:
        p.row(at).fatal = True
    if e.status == "ok":  # what failed did not end it: a plan has another way, or goes on
        for row in p.rows.values():
            if row.failed and row.state == "failed":
                row.rescues = True
            elif row.cancelled:  # a step around it failed, and that was rescued
                row.excused = True
            elif row.again and row.state == "pending":  # a node that no edge led to
                row.skipped += 1


def _blame(p: Progress, row: Row) -> None:
    row.excused = False
    p._blamed.add(row)


def _excuse(p: Progress, body: Row) -> None:
    """What failed or was cancelled in an element that is dropped or retried did not fail the run."""
    for row in p._blamed & _within(p, body):
        row.excused = True
        p._blamed.discard(row)


def _within(p: Progress, outer: Row) -> frozenset[Row]:
    """``outer`` and the rows of every step in it, those of called flows too; looked for once."""
    if outer.within is None:
        *before, step = outer.key
        outer.within = frozenset(
            row
            for row in p.rows.values()
            if row.key[: len(before)] == tuple(before) and _is_in(row.key[len(before) :], step)
        )
    return outer.within


def _is_in(key: Key, step: str) -> bool:
    # Nothing is left of the key of the call around it; a branch `a` is no part of a branch `ab`.
    return bool(key) and key[0].startswith(step) and key[0][len(step) :][:1] in ("", ".", "[")


FOLD: dict[type, Callable[[Progress, Any], None]] = {
    ev.StepReplayed: _kept,
    ev.StepFailed: _failed,
    ev.StepCancelled: _cancelled,
    ev.StepAbandoned: _left,
    ev.StepRetried: _retried,
    ev.StepSkipped: _skipped,
    ev.ElementDropped: _dropped,
    ev.FanOutStarted: _fanned,
    ev.EdgeTaken: _edge,
    ev.QuestionAsked: _asked,
    ev.QuestionAnswered: _answered,
    ev.TokensUsed: _used,
    ev.BackgroundCallEnded: _fired,
    ev.Warned: _warned,
    ev.RunStarted: _begun,
    ev.RunEnded: _over,
}
