"""The edges of a graph: the condition of one as it is written, and those that close a cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..flow.steps import START, Edge
from .boxes import CONDITION
from .plain import line


def condition_of(edge: Edge) -> str:
    """The condition of an edge as it is written; empty if it has none."""
    text = edge.label or (edge.when.span.text if edge.when is not None else "")
    return line(text, CONDITION) if text else "else" if edge.otherwise else ""


def edges_far(edges: Sequence[Edge], near: int) -> set[int]:
    """The edges that close a cycle, and those that pass more than ``near`` ranks."""
    far = edges_back(edges)
    rank: dict[str, int] = {START: 0}
    after: dict[str, list[str]] = {}
    before: Counter[str] = Counter()
    for place, edge in enumerate(edges):
        if place not in far:
            after.setdefault(edge.source, []).append(edge.target)
            before[edge.target] += 1
    ready = [name for name in after if not before[name]]
    for name in ready:  # in the order of the edges, since a name is ready after all before it
        for target in after.get(name, ()):
            rank[target] = max(rank.get(target, 0), rank.get(name, 0) + 1)
            before[target] -= 1
            if not before[target]:
                ready.append(target)
    return far | {
        place
        for place, edge in enumerate(edges)
        if rank.get(edge.target, 0) - rank.get(edge.source, 0) > near
    }


def edges_back(edges: Sequence[Edge]) -> set[int]:
    """The edges that close a cycle. A depth-first search without recursion: a graph may have
    thousands of nodes."""
    out: dict[str, list[tuple[int, str]]] = {}
    for place, edge in enumerate(edges):
        out.setdefault(edge.source, []).append((place, edge.target))
    found: set[int] = set()
    on_path: dict[str, bool] = {}
    """Of each visited node: whether it is on the current path."""
    for first in (START, *out):
        if first in on_path:
            continue
        on_path[first] = True
        path = [(first, iter(out.get(first, ())))]
        while path:
            node, rest = path[-1]
            step = next(rest, None)
            if step is None:
                on_path[node] = False
                path.pop()
                continue
            place, target = step
            if on_path.get(target):
                found.add(place)
            elif target not in on_path:
                on_path[target] = True
                path.append((target, iter(out.get(target, ()))))
    return found
