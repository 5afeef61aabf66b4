"""A graph's nodes and edges as boxes and arrows: where it begins and ends, conditions on the way, ways back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..flow.steps import END, START, Edge, Walk
from .boxes import CONDITION, Arrow, Box, Frame, Line, way
from .plain import line


class Drawn(NamedTuple):
    """A node as it is drawn."""

    parts: tuple[Box | Frame, ...]
    entry: str
    """The box that an edge to it ends at."""
    exit: str
    """The box that an edge from it begins at, and the frame it leaves there."""
    leaves: str | None


Boxes = tuple[Box | Frame, ...]


def walked(
    step: Walk, head: Box | None, drawn: Callable[[str, str], Drawn]
) -> tuple[Boxes, list[Arrow], tuple[str, ...]]:
    """The parts of a walk, its arrows, and the boxes it ends at.

    ``head``: the head of its frame, where it begins; without one it has a box START. ``drawn``: makes a node, given
    what is said of it here.
    """
    nodes = {name: drawn(name, _limit(step, name)) for name in step.nodes}
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
        # An edge to nowhere is told when the graph is loaded; here it only has no place.
        if edge.source not in places or edge.target not in places:
            continue
        _, tail, leaves = places[edge.source]
        named = "" if (edge.source, edge.target) in drawn else way(step.id, edge.source, edge.target)
        drawn.add((edge.source, edge.target))
        # A way back begins at the node itself: from the border of a frame it would run through it.
        at: Line = _way_back(step, edge, back) if place in back else "control"
        yield Arrow(tail, places[edge.target][0], at, said_of(edge), leaves, way=named)
    for name in step.limits:
        target = step.exits.get(name, END)
        if name in places and target in places and (name, target) not in drawn:
            _, tail, leaves = places[name]
            yield Arrow(tail, places[target][0], "exit", "limit reached", leaves, way=way(step.id, name, target))


def _way_back(step: Walk, edge: Edge, back: set[int]) -> Line:
    """Beside the only way down, where there is room; among several ways wherever graphviz finds it."""
    down = {one.target for place, one in enumerate(step.edges) if one.source == edge.target and place not in back}
    return "beside" if down == {edge.source} else "back"


def said_of(edge: Edge) -> str:
    """The condition of an edge as it is written; empty where it has none."""
    text = edge.label or (edge.when.span.text if edge.when is not None else "")
    return line(text, CONDITION) if text else "else" if edge.otherwise else ""


def _limit(step: Walk, name: str) -> str:
    limit = step.limits.get(name)
    return "" if limit is None else f"at most {limit:,} times"


def _end(walk: str, name: str) -> Box:
    return Box(id=f"{walk} {name}", word="end", kicker=name, name="", small=True)


def _back(edges: Sequence[Edge]) -> set[int]:
    """The edges that lead back to a node on the way to them: without these there is no circle. By a list, not by
    recursion: a graph may be as long as a text."""
    out: dict[str, list[tuple[int, str]]] = {}
    for place, edge in enumerate(edges):
        out.setdefault(edge.source, []).append((place, edge.target))
    found: set[int] = set()
    state: dict[str, bool] = {}
    """Whether a node that was met is still on the way."""
    for first in (START, *out):
        if first in state:
            continue
        state[first] = True
        path = [(first, iter(out.get(first, ())))]
        while path:
            node, rest = path[-1]
            step = next(rest, None)
            if step is None:
                state[node] = False
                path.pop()
                continue
            place, target = step
            if state.get(target):
                found.add(place)
            elif target not in state:
                state[target] = True
                path.append((target, iter(out.get(target, ()))))
    return found
