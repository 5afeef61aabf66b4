"""A run as it stands: a pure fold of its events, and the only thing a view ever reads.

The live widget, the coloured picture, the text log and the tests read the same Progress. A fan-out is one row with
counters, never a row per element: 100,000 elements cost one row and the failures that are kept to be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..flow.steps import Each, Flow, Fold, Repeat, Step, Walk, children
from ..flow.values import Value
from ..text.diagnostics import Diagnostic
from . import events as ev

Key = tuple[str, ...]
"""Which row: an `At` without its indices."""

FAILURES_KEPT = 50
"""Failed elements listed by name; the rest is a count."""


EDGES_KEPT = 1_000


class Row:
    """One step of the tree: how often it started and how that ended."""

    __slots__ = (
        "cancelled",
        "depth",
        "dropped",
        "ended",
        "error",
        "excused",
        "failed",
        "fatal",
        "finished",
        "key",
        "label",
        "left",
        "many",
        "retried",
        "skipped",
        "started",
        "value",
        "when",
        "width",
        "within",
        "word",
    )  # fmt: skip

    def __init__(self, key: Key, depth: int, word: str, label: str, many: bool) -> None:
        self.key = key
        self.depth = depth
        self.word = word
        self.label = label
        self.many = many
        """Whether it stands in a fan-out or a fold and may run more than once."""
        self.started = self.finished = self.failed = self.cancelled = 0
        self.left = self.skipped = self.dropped = self.retried = 0
        self.excused = False
        """Whether it stands in an element that was dropped or tried again: its failures are the element's."""
        self.within: tuple[Row, ...] | None = None
        self.fatal = False
        """Whether the run ended by its failure."""
        self.width: int | None = None
        """How many elements its fan-out announced, summed over every time it ran; None before."""
        self.value: Value = None
        self.error: BaseException | None = None
        self.when: float | None = None
        """The first start and (`ended`) the last end, in seconds of the run's clock."""
        self.ended: float | None = None

    @property
    def id(self) -> str:
        """As an `At` is written: ``steps[1]/steps[0].do``."""
        return "/".join(self.key)

    @property
    def running(self) -> int:
        return self.started - self.finished - self.failed - self.cancelled - self.left

    @property
    def state(self) -> str:
        """pending, running, ok, failed, cancelled, skipped, left. A step whose failed attempts were retried or dropped
        is what it came to in the end."""
        if self.running:
            return "running"
        if self.left:
            return "left"
        if self.cancelled:
            return "cancelled"
        if self.fatal or (self.failed > self.retried + self.dropped and not self.excused):
            return "failed"
        if self.started:
            return "ok" if self.finished else "failed"
        return "skipped" if self.skipped else "pending"

    @property
    def seconds(self) -> float | None:
        """From its first start to its last end."""
        return None if self.when is None or self.ended is None else self.ended - self.when

    def __repr__(self) -> str:
        times = f", {self.finished} of {self.started}" if self.many else ""
        took = f", {self.seconds:.3f} s" if self.seconds is not None else ""
        return f"<{self.id} {self.word} {self.label}: {self.state}{times}{took}>"


class Progress:
    """``apply`` takes each event; everything else is there to be read, at any time, from any thread."""

    def __init__(self, flow: Flow, callees: Mapping[str, Any] | None = None) -> None:
        """``callees``: what `Linked.callees` says, so that the steps of called flows stand under their call."""
        self.name = flow.name
        self.status = "pending"
        """pending, running, ok, error, cancelled, waiting."""
        self.rows: dict[Key, Row] = {}
        """In the order of the tree."""
        self.failures: list[tuple[ev.At, BaseException]] = []
        """The first FAILURES_KEPT elements that failed for good (dropped ones too), by moment."""
        self.failed = 0
        self.warnings: list[Diagnostic] = []
        self.error: BaseException | None = None
        self.taken: list[tuple[ev.At, str, str]] = []
        """The edges a walk took, in their order; the last EDGES_KEPT."""
        self.asked: dict[ev.At, ev.Question] = {}
        """What a person is being asked."""
        self.stores: Mapping[str, Value] = {}
        """What the run kept, known when it has ended."""
        self.when: float | None = None
        self.ended: float | None = None
        self.changes = 0
        """Grows with every event: a view that has seen this number has nothing to draw."""
        for row in _rows(flow, callees or {}, (), 0, False):
            self.rows[row.key] = row

    def apply(self, event: ev.Event) -> None:
        if self.ended is not None and type(event) not in (
            ev.Warned,
            ev.FiredEnded,
        ):  # a loop that was left wakes up later
            return
        self.changes += 1
        FOLD[type(event)](self, event)

    def row(self, at: ev.At) -> Row:
        # Two dict look-ups serve a plain step and an element of one fan-out; only deeper moments are searched.
        found = self.rows.get(at) or self.rows.get(at[:-1])  # type: ignore[arg-type]
        return found or self.rows[tuple(bit for bit in at if type(bit) is str)]

    @property
    def seconds(self) -> float | None:
        return None if self.when is None or self.ended is None else self.ended - self.when


def _started(p: Progress, e: ev.StepStarted) -> None:
    row = p.row(e.at)
    row.started += 1
    if row.when is None:
        row.when = e.when


def _finished(p: Progress, e: ev.StepFinished) -> None:
    row = p.row(e.at)
    row.finished += 1
    row.ended = e.when
    if not row.many:
        row.value = e.value


def _failed(p: Progress, e: ev.StepFailed) -> None:
    row = p.row(e.at)
    row.failed += 1
    row.ended = e.when
    row.error = e.error


def _cancelled(p: Progress, e: ev.StepCancelled) -> None:
    row = p.row(e.at)
    row.cancelled += 1
    row.ended = e.when


def _left(p: Progress, e: ev.StepLeft) -> None:
    row = p.row(e.at)
    row.left += 1
    row.ended = e.when


def _retried(p: Progress, e: ev.StepRetried) -> None:
    row = p.row(e.at)
    row.retried += 1
    _excuse(p, row)


def _skipped(p: Progress, e: ev.StepSkipped) -> None:
    for row in _within(p, p.row(e.at)):  # a step that is not run runs none of its own
        row.skipped += 1


def _dropped(p: Progress, e: ev.ElementDropped) -> None:
    row = p.row(e.at)
    row.dropped += 1
    _excuse(p, row)
    p.failed += 1
    if len(p.failures) < FAILURES_KEPT:
        p.failures.append((e.at, e.error))


def _fanned(p: Progress, e: ev.FannedOut) -> None:
    row = p.row(e.at)
    row.width = (row.width or 0) + e.width


def _edge(p: Progress, e: ev.EdgeTaken) -> None:
    p.taken.append((e.at, e.source, e.target))
    del p.taken[:-EDGES_KEPT]


def _asked(p: Progress, e: ev.Asked) -> None:
    p.asked[e.at] = e.question


def _answered(p: Progress, e: ev.Answered) -> None:
    p.asked.pop(e.at, None)


def _fired(p: Progress, e: ev.FiredEnded) -> None:
    if e.error is not None:
        message = f"a call that nobody waited for failed: {e.error}"
        p.warnings.append(Diagnostic("run.fired-failed", message, severity="warning"))


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
    at = getattr(e.error, "at", None)
    if at is not None:
        p.row(at).fatal = True


def _excuse(p: Progress, body: Row) -> None:
    """What failed under an element that is dropped or tried again did not fail the run."""
    if not body.excused:
        for row in _within(p, body):
            row.excused = True


def _within(p: Progress, outer: Row) -> tuple[Row, ...]:
    """``outer`` and the rows of every step in it, those of called flows too; looked for once."""
    if outer.within is None:
        *before, step = outer.key
        outer.within = tuple(
            row
            for row in p.rows.values()
            if row.key[: len(before)] == tuple(before) and _is_in(row.key[len(before) :], step)
        )
    return outer.within


def _is_in(key: Key, step: str) -> bool:
    # Nothing is left of the key of the call around it; a branch `a` is no part of a branch `ab`.
    return bool(key) and key[0].startswith(step) and key[0][len(step) :][:1] in ("", ".", "[")


FOLD: dict[type, Callable[[Progress, Any], None]] = {
    ev.StepStarted: _started,
    ev.StepFinished: _finished,
    ev.StepFailed: _failed,
    ev.StepCancelled: _cancelled,
    ev.StepLeft: _left,
    ev.StepRetried: _retried,
    ev.StepSkipped: _skipped,
    ev.ElementDropped: _dropped,
    ev.FannedOut: _fanned,
    ev.EdgeTaken: _edge,
    ev.Asked: _asked,
    ev.Answered: _answered,
    ev.FiredEnded: _fired,
    ev.Warned: _warned,
    ev.RunStarted: _begun,
    ev.RunEnded: _over,
}


def _rows(flow: Flow, callees: Mapping[str, Any], before: Key, depth: int, many: bool) -> Iterator[Row]:
    def under(step: Step, depth: int, many: bool) -> Iterator[Row]:
        key = (*before, step.id)
        yield Row(key, depth, step.word, step.label, many)
        repeats = many or isinstance(step, (Each, Fold, Repeat, Walk))
        for child in children(step):
            collects = isinstance(step, Each) and child is step.collect
            yield from under(child, depth + 1, many if collects else repeats)
        callee = callees.get(step.id)
        if callee is not None and isinstance(getattr(callee, "flow", None), Flow):
            yield from _rows(callee.flow, callee.callees, key, depth + 1, many)

    for step in flow.body.steps:
        yield from under(step, depth, many)
