"""The nodes and edges of a graph as boxes and arrows, with its start, its end, conditions and edges
back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..flow.steps import END, START, Edge, Walk
from .boxes import CONDITION, Arrow, Box, Frame, Line, way
from .plain import line


class Drawn(NamedTuple):
    """The boxes of a node."""

    parts: tuple[Box | Frame, ...]
    entry: str
    """The box at which an edge to it ends."""
    exit: str
    """The box at which an edge from it begins."""
    leaves: str | None
    """The frame that this edge leaves."""


Boxes = tuple[Box | Frame, ...]


def walked(
    step: Walk, head: Box | None, draw: Callable[[str, str], Drawn]
) -> tuple[Boxes, list[Arrow], tuple[str, ...]]:
    """The parts of a walk, its arrows, and the boxes at which it ends.

    ``head``: the head of its frame, at which it begins; without one it gets a box START. ``draw``
    makes the boxes of a node, given its name and a note.
    """
    nodes = {name: draw(name, _limit(step, name)) for name in step.nodes}
    start = head or _end(step.id, START)
    end = _end(step.id, END)
    places = {name: (node.entry, node.exit, node.leaves) for name, node in nodes.items()}
    places |= {START: (start.id, start.id, None), END: (end.id, end.id, None)}
    arrows = list(_arrows(step, places))
    inner = tuple(part for node in nodes.values() for part in node.parts)
    has_end = any(arrow.head == end.id for arrow in arrows)
    parts = (*(() if head else (start,)), *inner, *((end,) if has_end else ()))
    leaving = {edge.source for edge in step.edges}
    exits = tuple(node.exit for name, node in nodes.items() if name not in leaving)
    return parts, arrows, (end.id,) if has_end else exits or (start.id,)


def _arrows(step: Walk, places: Mapping[str, tuple[str, str, str | None]]) -> Iterator[Arrow]:
    back = _back(step.edges)
    drawn: set[tuple[str, str]] = set()
    for place, edge in enumerate(step.edges):
        # Loading reports an edge to an unknown node; it cannot be drawn.
        if edge.source not in places or edge.target not in places:
            continue
        _, tail, leaves = places[edge.source]
        named = (
            "" if (edge.source, edge.target) in drawn else way(step.id, edge.source, edge.target)
        )
        drawn.add((edge.source, edge.target))
        at: Line = _way_back(step, edge, back) if place in back else "control"
        yield Arrow(tail, places[edge.target][0], at, condition_of(edge), leaves, way=named)
    for name in step.limits:
        target = step.exits.get(name, END)
        if name in places and target in places and (name, target) not in drawn:
            _, tail, leaves = places[name]
            yield Arrow(
                tail,
                places[target][0],
                "exit",
                "limit reached",
                leaves,
                way=way(step.id, name, target),
            )


def _way_back(step: Walk, edge: Edge, back: set[int]) -> Line:
    """An edge back is next to the only edge down; among several edges graphviz finds its way."""
    down = {
        one.target
        for place, one in enumerate(step.edges)
        if one.source == edge.target and place not in back
    }
    return "beside" if down == {edge.source} else "back"


def condition_of(edge: Edge) -> str:
    """The condition of an edge as it is written; empty if it has none."""
    text = edge.label or (edge.when.span.text if edge.when is not None else "")
    return line(text, CONDITION) if text else "else" if edge.otherwise else ""


def _limit(step: Walk, name: str) -> str:
    limit = step.limits.get(name)
    return "" if limit is None else f"at most {limit:,} times"


def _end(walk: str, name: str) -> Box:
    return Box(id=f"{walk} {name}", word="end", kicker=name, name="", small=True)


def _back(edges: Sequence[Edge]) -> set[int]:
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
