"""The edges that graphviz does not see: they are routed after the layout, because the time of
graphviz grows with the third power of the number of long edges. These are the data edges and, of a
large graph, its edges back and its long edges.

All readers of one box make one net. The values of a plan are also its order, so graphviz gets those
wires that no path of other wires implies: they place its calls as all of them would.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from .boxes import Scene

LARGE = 1_000
"""Boxes times long edges of a graph above which these edges are routed; graphviz bends fewer
between the boxes."""
NEAR = 2
"""Rows between the ends of an edge that is not long."""


class Reader(NamedTuple):
    box: int
    """Its place among the boxes of the scene."""
    label: str
    arrow: int
    """The place of its arrow."""


class Net(NamedTuple):
    """The values of one box and the boxes that read them; or some edges of a node and the nodes to
    which they lead."""

    source: int
    leaves: str | None
    """The frame at whose border it begins."""
    readers: tuple[Reader, ...]
    control: bool = False
    """Whether its lines are edges of a graph."""


def routed(drawn: Scene) -> frozenset[int]:
    """The places of the arrows that are routed after the layout."""
    number = {box.id: place for place, box in enumerate(drawn.boxes)}
    ends = {
        place: (number[arrow.tail], number[arrow.head]) for place, arrow in enumerate(drawn.arrows)
    }
    # The arrow to the next box is straight.
    data = {
        at
        for at, arrow in enumerate(drawn.arrows)
        if arrow.line == "data" and ends[at][1] != ends[at][0] + 1
    }
    wires = [at for at, arrow in enumerate(drawn.arrows) if arrow.line == "wire"]
    needed = _needed({ends[at] for at in wires})
    long = list(_long(drawn, ends))
    few = len(long) * len(number) <= LARGE
    return frozenset(
        data.union((at for at in wires if ends[at] not in needed), () if few else long)
    )


def _long(drawn: Scene, ends: Mapping[int, tuple[int, int]]) -> Iterator[int]:
    """The places of the edges of a graph that lead back or over many rows.

    The row of a box is its distance from the beginning along the longest path, so every box keeps
    an edge to it.
    """
    pairs = {(arrow.tail, arrow.head) for arrow in drawn.arrows if arrow.way}
    if not pairs:
        return
    down = [
        at for at, arrow in enumerate(drawn.arrows) if arrow.line in ("control", "below", "exit")
    ]
    order = _in_order({ends[at] for at in down})
    row = dict.fromkeys(order, 0)
    out: dict[int, list[int]] = {}
    for at in down:
        out.setdefault(ends[at][0], []).append(ends[at][1])
    for tail in order:
        for head in out.get(tail, ()):
            if head in row:
                row[head] = max(row[head], row[tail] + 1)
    for at, arrow in enumerate(drawn.arrows):
        if (arrow.tail, arrow.head) in pairs:
            tail, head = ends[at]
            if arrow.line in ("back", "beside") or row.get(head, 0) - row.get(tail, 0) > NEAR:
                yield at


def nets(drawn: Scene) -> tuple[Net, ...]:
    """The routed arrows by the box and the frame at which they begin, in the order of the boxes."""
    number = {box.id: place for place, box in enumerate(drawn.boxes)}
    found: dict[tuple[int, str, bool], list[Reader]] = {}
    after = routed(drawn)
    for place, arrow in enumerate(drawn.arrows):
        if place in after:
            control = arrow.line not in ("data", "wire")
            reader = Reader(number[arrow.head], arrow.label, place)
            found.setdefault((number[arrow.tail], arrow.leaves or "", control), []).append(reader)
    return tuple(Net(key[0], key[1] or None, tuple(found[key]), key[2]) for key in sorted(found))


def _needed(edges: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """The transitive reduction of ``edges``, and those that are part of a cycle or lead to one."""
    edges = sorted(edges)
    out: dict[int, list[int]] = {}
    for tail, head in edges:
        out.setdefault(tail, []).append(head)
    order = _in_order(edges)
    rank = {box: place for place, box in enumerate(order)}
    needed = {(tail, head) for tail, heads in out.items() for head in heads if head not in rank}
    below: dict[int, int] = {}
    """Of each box, the ranks of the boxes that a path leads to, as the bits of a number."""
    for tail in reversed(order):
        reached = 0
        for head in sorted(filter(rank.__contains__, out.get(tail, ())), key=rank.__getitem__):
            if not reached >> rank[head] & 1:
                needed.add((tail, head))
                reached |= below[head] | 1 << rank[head]
        below[tail] = reached
    return needed


def _in_order(edges: Iterable[tuple[int, int]]) -> list[int]:
    """The boxes, each after those that lead to it, without those that are part of a cycle or after
    one."""
    out: dict[int, list[int]] = {}
    left: dict[int, int] = {}
    for tail, head in sorted(edges):
        out.setdefault(tail, []).append(head)
        left[head] = left.get(head, 0) + 1
    order = [tail for tail in out if tail not in left]
    for tail in order:  # grows
        for head in out.get(tail, ()):
            left[head] -= 1
            if not left[head]:
                order.append(head)
    return order
