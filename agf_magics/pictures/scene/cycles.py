"""The edges of a graph: the text of an edge's condition, and which edges are long or close a cycle.

The rank of a node is the length of the longest way to it; the builder draws long edges as tags.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...flow.graph_steps import START, Edge
from ..plain import line
from .step_text import CONDITION

Ends = tuple[str, str]
"""The two ends of a line, from and to: names of nodes, or ids of boxes."""


def condition_of(edge: Edge) -> str:
    """The condition of an edge as it is written; empty if it has none."""
    text = edge.label or (edge.when.span.text if edge.when is not None else "")
    if text:
        return line(text, CONDITION)
    return "else" if edge.otherwise else ""


def either(labels: Sequence[str]) -> str:
    """The label of the one line of several edges between two nodes, a line for each condition; empty
    if one of them needs none."""
    return "\nor ".join(dict.fromkeys(labels)) if all(labels) else ""


def edges_far(edges: Sequence[Edge], near: int) -> set[int]:
    """The numbers of the edges that close a cycle or pass more than ``near`` ranks."""
    pairs = [(edge.source, edge.target) for edge in edges]
    far, rank = closing(pairs), longest_ways(pairs)
    return far | {
        place
        for place, (tail, head) in enumerate(pairs)
        if rank.get(head, 0) - rank.get(tail, 0) > near
    }


def passed_ranks(edges: Sequence[Edge]) -> int:
    """How many ranks the edges pass together; a rank counts once for each edge that passes it."""
    pairs = [(edge.source, edge.target) for edge in edges]
    rank = longest_ways(pairs)
    return sum(abs(rank.get(head, 0) - rank.get(tail, 0)) for tail, head in pairs)


def longest_ways(pairs: Sequence[Ends]) -> dict[str, int]:
    """The length of the longest way to each name, over the pairs that do not close a cycle."""
    rank: dict[str, int] = {}
    after: dict[str, list[str]] = {}
    before: Counter[str] = Counter()
    back = closing(pairs)
    for place, (tail, head) in enumerate(pairs):
        if place not in back:
            after.setdefault(tail, []).append(head)
            before[head] += 1
    ready = [name for name in after if not before[name]]
    for name in ready:  # the list grows: a name is ready when all names before it are done
        for head in after.get(name, ()):
            rank[head] = max(rank.get(head, 0), rank.get(name, 0) + 1)
            before[head] -= 1
            if not before[head]:
                ready.append(head)
    return rank


def closing(pairs: Sequence[Ends]) -> set[int]:
    """The numbers of the pairs that close a cycle. It is a depth-first search without recursion: a
    graph may have thousands of nodes."""
    out: dict[str, list[tuple[int, str]]] = {}
    for place, (tail, head) in enumerate(pairs):
        out.setdefault(tail, []).append((place, head))
    closing_pairs: set[int] = set()
    on_path: dict[str, bool] = {}
    """For each visited node: whether the node is on the current path."""
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
                closing_pairs.add(place)
            elif target not in on_path:
                on_path[target] = True
                path.append((target, iter(out.get(target, ()))))
    return closing_pairs
