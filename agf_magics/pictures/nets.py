"""The data edges that graphviz does not see: they are routed after the layout, because the time of graphviz grows with
the third power of the number of long edges.

All readers of one box make one net. The values of a plan are also its order, so graphviz gets those wires that no path
of other wires implies: they place its calls as all of them would.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .boxes import Scene


class Reader(NamedTuple):
    box: int
    """Its place among the boxes of the scene."""
    label: str


class Net(NamedTuple):
    """The values of one box and the boxes that read them."""

    source: int
    leaves: str | None
    """The frame at whose border it begins."""
    readers: tuple[Reader, ...]


def routed(drawn: Scene) -> frozenset[int]:
    """The places of the arrows that are routed after the layout."""
    number = {box.id: place for place, box in enumerate(drawn.boxes)}
    ends = {place: (number[arrow.tail], number[arrow.head]) for place, arrow in enumerate(drawn.arrows)}
    # The arrow to the next box is straight.
    data = {at for at, arrow in enumerate(drawn.arrows) if arrow.line == "data" and ends[at][1] != ends[at][0] + 1}
    wires = [at for at, arrow in enumerate(drawn.arrows) if arrow.line == "wire"]
    needed = _needed({ends[at] for at in wires})
    return frozenset(data.union(at for at in wires if ends[at] not in needed))


def nets(drawn: Scene) -> tuple[Net, ...]:
    """The routed arrows by the box and the frame at which they begin, in the order of the boxes."""
    number = {box.id: place for place, box in enumerate(drawn.boxes)}
    found: dict[tuple[int, str], list[Reader]] = {}
    after = routed(drawn)
    for place, arrow in enumerate(drawn.arrows):
        if place in after:
            reader = Reader(number[arrow.head], arrow.label)
            found.setdefault((number[arrow.tail], arrow.leaves or ""), []).append(reader)
    return tuple(Net(source, leaves or None, tuple(found[source, leaves])) for source, leaves in sorted(found))


def _needed(edges: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
    """The transitive reduction of ``edges``, and those that are part of a cycle or lead to one."""
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
