"""The rows in which graphviz placed the boxes, the borders of the rows, and space between them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from .boxes import Scene
from .layout import Layout, Point, Route


class Rect(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def side(self, side: int) -> float:
        """Its right border, or with ``side`` -1 its left border; x counts to that side."""
        return self.right if side > 0 else -self.left


class Row(NamedTuple):
    top: float
    bottom: float
    boxes: tuple[int, ...]
    """From left to right."""


def rectangles(drawn: Scene, placed: Layout) -> list[Rect]:
    """The places of the boxes, with their stacks."""
    found = []
    for place, box in enumerate(drawn.boxes):
        middle, across, down = (
            placed.boxes[f"n{place}"],
            (box.width + box.stack) / 2,
            (box.height + box.stack) / 2,
        )
        found.append(Rect(middle.x - across, middle.y - down, middle.x + across, middle.y + down))
    return found


def find_rows(boxes: Sequence[Rect]) -> list[Row]:
    """The rows from top to bottom: boxes whose heights overlap are in one row."""
    rows: list[list[int]] = []
    bottom = float("-inf")
    for place in sorted(range(len(boxes)), key=lambda place: boxes[place].top):
        if boxes[place].top >= bottom:
            rows.append([])
        rows[-1].append(place)
        bottom = max(bottom, boxes[place].bottom)
    return [
        Row(
            min(boxes[place].top for place in row),
            max(boxes[place].bottom for place in row),
            tuple(sorted(row, key=lambda place: boxes[place].left)),
        )
        for row in rows
    ]


class Used:
    """The lanes that are used at each height, as a tree over the heights: both operations take time
    log n.

    Lanes are the bits of a number.
    """

    def __init__(self, heights: int) -> None:
        self._size = 1 << max(0, heights - 1).bit_length()
        self._whole = [0] * (2 * self._size)
        """Of each node: the lanes that are used at all of its heights together."""
        self._some = [0] * (2 * self._size)
        """Of each node: the lanes that are used at one of its heights."""

    def lanes(self, first: int, last: int) -> int:
        """The lanes that are used between the heights ``first`` and ``last``, these included."""
        return self._lanes(1, 0, self._size, first, last + 1)

    def add(self, lanes: int, first: int, last: int) -> None:
        """Use ``lanes`` between the heights ``first`` and ``last``, these included."""
        self._add(1, 0, self._size, first, last + 1, lanes)

    def _lanes(self, node: int, low: int, high: int, first: int, end: int) -> int:
        if end <= low or high <= first:
            return 0
        if first <= low and high <= end:
            return self._some[node]
        middle = (low + high) // 2
        left = self._lanes(2 * node, low, middle, first, end)
        return self._whole[node] | left | self._lanes(2 * node + 1, middle, high, first, end)

    def _add(self, node: int, low: int, high: int, first: int, end: int, lanes: int) -> None:
        if end <= low or high <= first:
            return
        self._some[node] |= lanes
        if first <= low and high <= end:
            self._whole[node] |= lanes
            return
        middle = (low + high) // 2
        self._add(2 * node, low, middle, first, end, lanes)
        self._add(2 * node + 1, middle, high, first, end, lanes)


class Stretch:
    """Space between rows: everything below a place moves down. All of it moves to the right by the
    same distance."""

    def __init__(self, spaces: Iterable[tuple[float, float]], right: float = 0.0) -> None:
        """``spaces``: a place and the space that begins there, in the layout as it was."""
        self._right = right
        found = sorted(space for space in spaces if space[1] > 0)
        self._places = [place for place, _ in found]
        self._moved = [0.0, *accumulate(space for _, space in found)]

    def down(self, y: float) -> float:
        return y + self._moved[bisect_left(self._places, y)]

    def layout(self, placed: Layout) -> Layout:
        """``placed`` with the space in it."""
        boxes = {name: self._point(point) for name, point in placed.boxes.items()}
        frames = {
            name: (self._point(corner), self._point(far))
            for name, (corner, far) in placed.frames.items()
        }
        routes = {name: self._route(route) for name, route in placed.routes.items()}
        return placed._replace(
            height=self.down(placed.height), boxes=boxes, frames=frames, routes=routes
        )

    def _point(self, point: Point) -> Point:
        return Point(point.x + self._right, self.down(point.y))

    def _route(self, route: Route) -> Route:
        points = tuple(map(self._point, route.points))
        return Route(points, self._point(route.tip), route.label and self._point(route.label))
