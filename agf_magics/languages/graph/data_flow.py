"""Finds the data flow of a graph: for each key, which node writes it and which node reads it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ...flow.graph_steps import END, START, Edge, edges_by_source
from ...flow.protocols import Ref
from ...flow.step import Step
from ...flow.steps import Invoke, every, own_reads
from .expressions.reading import ROOT
from .nodes.builder_contract import BuiltNode
from .state import Keys

MOST_VISITS = 1_000_000
"""The bound for following writes: edges of the graph times the writes. Beyond it the flows of the
other keys are left out."""


def reads_of_node(step: Step) -> Iterator[Ref]:
    """The references that a node reads, those to the state among them."""
    for inner in every(step):
        yield from own_reads(inner)
        if isinstance(inner, Invoke) and inner.pick:
            yield from inner.pick.by.reads()


def feeds(
    built: Mapping[str, BuiltNode],
    edges: Collection[Edge],
    exits: Mapping[str, str],
    keys: Keys,
    initial: Collection[str],
) -> tuple[tuple[str | None, str, str], ...]:
    """Each value that flows: the id of the step that writes it (None: the input), of the step that
    reads it, the key.

    A write reaches the nodes on every path that does not write the key again; a key with a reducer
    is only added to, so every write reaches all nodes after it. ``initial``: the keys that have a
    value without an input.
    """
    reads = {name: _keys_read(node) for name, node in built.items()}
    writers: dict[str, list[str]] = {}
    for name, node in built.items():
        for written in node.keys:
            writers.setdefault(written.name, []).append(name)
    # A key with a reducer begins with an empty value.
    begun = {*initial, *(keys.reducers.keys() & writers.keys())}
    ways, room = ways_from(edges, exits), MOST_VISITS
    flows: dict[tuple[str | None, str, str], None] = {}
    for key in sorted(set[str]().union(*reads.values())):
        nodes = writers.get(key, [])
        ends = frozenset(nodes) if key not in keys.reducers else ()
        for source in nodes if key in begun else (START, *nodes):
            after = [edge.target for edge in ways.get(source, ())]
            reached = distances(ways, after, ends) if room > 0 else {}
            room -= len(edges)
            writer = built[source].step.id if source in built else None
            flows.update(
                ((writer, built[name].step.id, key), None)
                for name in reached
                if key in reads.get(name, ())
            )
    return tuple(flows)


def _keys_read(built: BuiltNode) -> set[str]:
    refs = (ref.path for ref in reads_of_node(built.step))
    return {path[1] for path in refs if path[:1] == ROOT and len(path) > 1}.difference(built.binds)


def ways_from(edges: Iterable[Edge], exits: Mapping[str, str]) -> dict[str, list[Edge]]:
    """The edges that leave each node. ``exits``: the node to go to when a loop has reached its limit,
    by the node with the limit; this way counts as an edge."""
    return edges_by_source([*edges, *(Edge(node, exit) for node, exit in exits.items())])


def distances(
    out: Mapping[str, Sequence[Edge]], begin: Iterable[str], ends: Collection[str] = ()
) -> dict[str, int]:
    """The smallest number of edges from ``begin`` to each node. No path goes on behind the nodes in
    ``ends``."""
    rounds = dict.fromkeys(begin, 0)
    queue = deque(rounds)
    while queue:
        name = queue.popleft()
        for edge in out.get(name, ()) if name not in ends else ():
            if edge.target not in rounds and edge.target != END:
                rounds[edge.target] = rounds[name] + 1
                queue.append(edge.target)
    return rounds
