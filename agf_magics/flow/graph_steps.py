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
"""The names of the start and the end of a walk. No node can have these names."""


class Edge(NamedTuple):
    """An edge from one node of a `Walk` to another."""

    source: str
    target: str
    when: Expr | None = None
    """The condition; None: the edge is always taken."""
    otherwise: bool = False
    """True if the edge is taken when none of the source's conditions is true."""
    span: Span | None = None
    label: str = ""
    """The text of the condition."""

    @property
    def is_plain(self) -> bool:
        """Whether the edge is always taken."""
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
    """The data flow for the picture: the id of the step that writes, of the step that reads, the
    name."""
    written: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """The paths at which each step's result is stored, by the step's id."""


@data
class Walk(Step):
    """Run nodes along edges, in rounds: all nodes of a round see one frame, then `join` makes the
    next one.

    After a node follow all its edges without a condition, and the first one whose condition is
    true; if none is true, all its edges marked ``otherwise``. A node with several incoming edges
    runs once per round. A node that reached its limit is skipped, and the walk continues at its
    exit.
    """

    nodes: Mapping[str, Step]
    edges: tuple[Edge, ...]
    join: Callable[[Frame, Sequence[tuple[str, Outcome]]], Frame]
    """The frame after a round, from the outcomes of its nodes in the order of their names. May
    raise StepError."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """The number of times that a node may run in one walk, by its name; a missing node has no
    limit."""
    exits: Mapping[str, str] = field(default_factory=dict)
    """The node that follows when a node has reached its limit, by that node; default END."""
    over: Callable[[str], Diagnostic] | None = None
    """Returns the problem about a node that reached its limit; None: there is no problem."""
    rounds: int
    """The maximum number of rounds."""
    endless: Callable[[int], Diagnostic]
    """Returns the error after the last round, given `rounds`; the error names the setting."""
    width: int = 0
    """The number of nodes of a round that run at a time; 0: all."""
    clash: Callable[[Sequence[str]], Diagnostic | None] = lambda names: None
    """Returns the problem if these nodes cannot run in the same round, as far as the text tells;
    called before the round."""
    failing: ClassVar[FailurePolicy] = FailurePolicy()
    gather: ClassVar[None] = None
    """A round runs like a fan-out (`Each`) that ends with its first failure and gathers none."""
    written: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The keys of the state that each node writes, as far as its text determines them."""
    feeds: tuple[tuple[str | None, str, str], ...] = ()
    """The data flow for the picture: the id of the node that writes (None: the input), of the node
    that reads, the key."""
    begun: frozenset[str] = frozenset()
    """The keys that have a value in the first round even if the input lacks them."""
    unwritten: Mapping[str, Span | None] = field(default_factory=dict)
    """The places of declared keys that no node writes. Only the input can give them a value."""
    writes_any: frozenset[str] = frozenset()
    """The nodes that may write keys that the text does not name, because a function returns
    them."""
    leaving: Mapping[str, Sequence[Edge]] = field(init=False)
    """The edges by the node that they leave, in the order of the text."""

    def __post_init__(self) -> None:  # computed once: a walk runs far more often than it is created
        object.__setattr__(self, "leaving", edges_by_source(self.edges))

    def rounds_after(self, source: str) -> Iterator[frozenset[str]]:
        """The nodes that surely run in each round after ``source`` ran, round by round, until no
        node is sure or the rounds repeat."""
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
        """The nodes that run in every run, and before which no node can write unnamed keys."""
        sure = frozenset[str]()
        for nodes in self.rounds_after(START):
            sure |= nodes
            # After the first round, a node of an edge with a condition may run, too. It may write
            # keys that the text does not name, so no later node is sure to be the first writer.
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
