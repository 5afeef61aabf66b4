"""The step kinds whose parts are not in order: `Dag` runs by dependency, `Walk` along edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import ClassVar, NamedTuple

from ..text.diagnostics import Diagnostic
from ..text.source import Span
from .protocols import Expr, Frame, Outcome, Scheduler, data
from .step import FailurePolicy, Step

START, END = "START", "END"
"""The start and the end of a walk: names that no node can have."""


class Edge(NamedTuple):
    """An edge from one node of a `Walk` to another."""

    source: str
    target: str
    when: Expr | None = None
    """Its condition; None: always taken."""
    otherwise: bool = False
    """Taken if none of the source's conditions is true."""
    span: Span | None = None
    label: str = ""
    """The condition, as it is written."""

    @property
    def is_plain(self) -> bool:
        """Whether it is always taken."""
        return self.when is None and not self.otherwise


def edges_by_source(edges: Iterable[Edge]) -> dict[str, list[Edge]]:
    """The edges by the node that they leave, in the order of the text."""
    leaving: dict[str, list[Edge]] = {}
    for edge in edges:
        leaving.setdefault(edge.source, []).append(edge)
    return leaving


@data
class Dag(Step):
    """Run each step when its inputs exist, as a `Scheduler` decides."""

    steps: tuple[Step, ...]
    open: Callable[[Frame], Scheduler]
    feeds: tuple[tuple[str, str, str], ...] = ()
    """The data flow in the text: the id that writes, the id that reads, the name. The picture shows
    it."""
    written: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """The paths of each step's result, by the step's id."""


@data
class Walk(Step):
    """Run nodes along edges, in rounds: all nodes of a round see one frame, then `join` makes the
    next one.

    After a node follow its edges without a condition and the first one whose condition is true,
    else its ``otherwise``; a node with several incoming edges runs once per round. A node that
    reached its limit is skipped, and the walk continues at its exit.
    """

    nodes: Mapping[str, Step]
    edges: tuple[Edge, ...]
    join: Callable[[Frame, Sequence[tuple[str, Outcome]]], Frame]
    """The frame after a round, from the outcomes of its nodes in the order of their names. May
    raise StepError."""
    limits: Mapping[str, int] = field(default_factory=dict)
    exits: Mapping[str, str] = field(default_factory=dict)
    """The node after one that reached its limit; default END."""
    over: Callable[[str], Diagnostic] | None = None
    """The problem about a node that reached its limit."""
    rounds: int
    """The maximum number of rounds."""
    endless: Callable[[int], Diagnostic]
    """The error, given `rounds`, after the last one; it names the setting."""
    width: int = 0
    """The number of nodes of a round that run at a time; 0: all."""
    clash: Callable[[Sequence[str]], Diagnostic | None] = lambda names: None
    """Why these nodes cannot run in one round, as far as the text says; asked before the round."""
    failing: ClassVar[FailurePolicy] = FailurePolicy()
    gather: ClassVar[None] = None
    """A round is a fan-out that its first failure ends."""
    written: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The keys of the state that each node writes, as far as its text determines them."""
    feeds: tuple[tuple[str | None, str, str], ...] = ()
    """The data flow: the id of the node that writes (None: the input), of the node that reads, the
    key."""
    begun: frozenset[str] = frozenset()
    """The keys that have a value in the first round without the input."""
    unwritten: Mapping[str, Span | None] = field(default_factory=dict)
    """The keys that the text declares and nothing writes: the input has them, or nothing. Where
    they are declared."""
    writes_any: bool = False
    """Whether a node may write keys that the text does not name: a function that returns some."""
    leaving: Mapping[str, Sequence[Edge]] = field(init=False)
    """The edges by the node that they leave, in the order of the text."""

    def __post_init__(self) -> None:  # once: a walk runs far more often than it is made
        object.__setattr__(self, "leaving", edges_by_source(self.edges))

    def rounds_after(self, source: str) -> Iterator[frozenset[str]]:
        """The nodes that surely run in the round after ``source`` ran, in the next one and so on,
        until none is sure or they repeat."""
        seen = set[frozenset[str]]()
        sure = frozenset([source])
        while sure not in seen:
            seen.add(sure)
            edges = (edge for name in sure for edge in self.leaving.get(name, ()))
            sure = frozenset(edge.target for edge in edges if edge.is_plain) - {END}
            if not sure:
                return
            yield sure

    @property
    def sure(self) -> frozenset[str]:
        """The nodes that run in every run, and before which no node runs that may write any key."""
        sure = frozenset[str]()
        for nodes in self.rounds_after(START):
            sure |= nodes
            # Another node may run in this round too, by an edge with a condition.
            if self.writes_any:
                break
        return sure

    @property
    def forks(self) -> bool:
        """Whether several nodes may run in one round."""
        return any(_forks(edges) for edges in self.leaving.values() if len(edges) > 1)


def _forks(edges: Sequence[Edge]) -> bool:
    """Whether several of these edges may be taken in one round."""
    return any(edge.is_plain for edge in edges) or sum(edge.otherwise for edge in edges) > 1
