"""The tree of a run: a row a step, those of called flows under their call; never a row an element or an iteration.

A row says how often its step started and how that ended. What has no word of its own (the steps of a loop, taken
together) and what is the whole flow (a plan, a graph) have no row that is shown: the picture has no box for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..flow.steps import (
    Branches,
    Compute,
    Dag,
    Each,
    Flow,
    Fold,
    Invoke,
    Repeat,
    Sequence,
    Step,
    Walk,
    children,
    outermost,
)
from ..flow.values import Value

Key = tuple[str, ...]
"""Which row: an `At` without its indices."""


class Row:
    """One step of the tree: how often it started and how that ended."""

    __slots__ = (
        "again", "asks", "by_need", "cancelled", "depth", "dropped", "earlier", "elements", "ended", "error", "excused",
        "failed", "fatal", "finished", "key", "left", "many", "rescues", "retried", "skipped", "started", "step",
        "value", "when", "why", "width", "within",
    )  # fmt: skip

    def __init__(self, key: Key, depth: int, step: Step, many: bool, again: bool = False) -> None:
        self.key = key
        self.depth = depth
        self.step = step
        self.many = many
        """Whether it stands in a fan-out or a fold and may run more than once."""
        self.again = again
        """Whether it may run more than once in a row: an iteration of a loop, a visit of a node, an instance. Its value
        is the last one's."""
        self.rescues = step.rescue is not None
        """Whether its failure is kept like a value and the run goes on."""
        self.by_need = False
        """Whether it runs when what it reads is there: else it is skipped, and why is worth telling."""
        self.elements: tuple[Row, ...] = ()
        """Of a fan-out: the rows that its elements count in."""
        self.started = self.finished = self.failed = self.cancelled = 0
        self.left = self.skipped = self.dropped = self.retried = 0
        self.earlier = 0
        """How often the outcome of an earlier session was taken instead of a call."""
        self.excused = False
        """Whether each of its failures and cancellations so far belongs to an element that was dropped or retried, or
        to a step whose failure did not end the run."""
        self.within: frozenset[Row] | None = None
        self.fatal = False
        """Whether the run ended by its failure."""
        self.asks = False
        """Whether the run waits for an answer that it, or a step in it, needs."""
        self.width: int | None = None
        """How many elements its fan-out announced, summed over every time it ran; None before."""
        self.value: Value = None
        self.error: BaseException | None = None
        self.why = ""
        """Why it was skipped, the last time it was."""
        self.when: float | None = None
        """The first start and (`ended`) the last end, in seconds of the run's clock."""
        self.ended: float | None = None

    @property
    def word(self) -> str:
        return self.step.word

    @property
    def label(self) -> str:
        return self.step.label

    @property
    def id(self) -> str:
        """As an `At` is written: ``steps[1]/steps[0].do``."""
        return "/".join(self.key)

    @property
    def running(self) -> int:
        return self.started - self.finished - self.failed - self.cancelled - self.left

    @property
    def state(self) -> str:
        """pending, running, ok, failed, kept, cancelled, skipped, left, waiting. A step whose failed or cancelled
        attempts were retried or dropped is ok if it finished at least once."""
        if self.running:
            return "running"
        if self.left:
            return "left"
        if self.cancelled and not self.excused:
            return "cancelled"
        if self.asks:
            return "waiting"
        if self.fatal or (self.failed > self.retried + self.dropped and not self.excused):
            return "kept" if self.rescues and not self.fatal else "failed"
        if self.started:
            return "ok" if self.finished else "failed" if self.failed else "cancelled"
        return "skipped" if self.skipped else "pending"

    @property
    def seconds(self) -> float | None:
        """From its first start to its last end."""
        return None if self.when is None or self.ended is None else self.ended - self.when

    @property
    def times(self) -> int:
        """How often it ran: attempts that were made again are one."""
        return self.started - self.retried

    def __repr__(self) -> str:
        times = f", {self.finished} of {self.started}" if self.many or self.times > 1 else ""
        took = f", {self.seconds:.3f} s" if self.seconds is not None else ""
        return f"<{self.id} {self.word} {self.label}: {self.state}{times}{took}>"


class Tree:
    """The rows of a flow with all it calls."""

    def __init__(self, flow: Flow, callees: Mapping[str, Any]) -> None:
        """``callees``: what `Linked.callees` says."""
        self.rows: dict[Key, Row] = {}
        """What is shown, in the order of the tree."""
        self.unseen: dict[Key, Row] = {}
        self._flow(flow, callees, (), 0, False, False)

    def _flow(
        self, flow: Flow, callees: Mapping[str, Any], before: Key, depth: int, many: bool, again: bool
    ) -> tuple[Row, ...]:
        shown = outermost(flow)
        if shown is not flow.body.steps:  # a plan or a graph: its own events are counted, and nothing else
            (whole,) = flow.body.steps
            self.unseen[(*before, whole.id)] = Row((*before, whole.id), depth, whole, many)
            again = True
        rows = tuple([self._step(step, callees, before, depth, many, again) for step in shown])
        if isinstance(flow.body.steps[0], Dag) and shown is not flow.body.steps:
            for row in rows:
                row.by_need = True
        return rows

    def _step(self, step: Step, callees: Mapping[str, Any], before: Key, depth: int, many: bool, again: bool) -> Row:
        key = (*before, step.id)
        row = Row(key, depth, step, many, again and not many)
        callee = callees.get(step.id)
        if type(step) in LEAVES and (callee is None or not _flows(callee)):
            return self.rows.setdefault(key, row)
        hidden = isinstance(step, Sequence)
        if hidden:
            self.unseen.setdefault(key, row)
        else:
            row = self.rows.setdefault(key, row)
        below = depth + (not hidden)
        repeats = many or isinstance(step, (Each, Fold))
        returns = again or isinstance(step, (Repeat, Dag, Walk))
        parts = []
        for child in children(step):
            collects = isinstance(step, (Each, Branches)) and child is step.collect
            found = self._step(child, callees, before, below, many if collects else repeats, returns)
            parts += [] if collects else [found]
        if isinstance(step, (Each, Fold, Branches)):
            row.elements = tuple(parts)
        for called in _flows(callee):
            self._flow(called.flow, called.callees, key, below, many, again)
        return row


def _flows(callee: Any) -> tuple[Any, ...]:
    """The linked flows that a call may run: what it names, or all it may choose from while it runs."""
    if callee is None:
        return ()
    if isinstance(getattr(callee, "flow", None), Flow):
        return (callee,)
    others = getattr(callee, "callees", None)
    return tuple(found for other in others.values() for found in _flows(other)) if others else ()


LEAVES = frozenset({Invoke, Compute})
"""Steps that have none of their own."""
