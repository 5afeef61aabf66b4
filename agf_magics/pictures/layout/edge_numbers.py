"""The places of the numbers on a graph's edges.

A number is on the line of its edge or beside it, where it covers nothing else and no other line is
as near; else further away at the end of a thin line that leads to its edge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from math import ceil, hypot
from typing import NamedTuple, TypeVar

from .. import theme as look
from ..scene.boxes import SMALL
from .graphviz import Point

PLACES = (
    *(0.5, 0.38, 0.62, 0.26, 0.74, 0.15, 0.85),
    *(0.44, 0.56, 0.32, 0.68, 0.2, 0.8, 0.1, 0.9),
)
"""Fractions of an edge, counted in the pieces of its curve, the best first."""
HEIGHT = 15.0
"""Pixels of the height of a number."""
WAYS = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (1, -1), (-1, 1), (1, 1))
"""Where a number stands: on the line of its edge (0, 0), or moved across and down, the best first."""
FAR = (2.0, 3.0, 4.5, 6.5, 9.0)
"""How much further away than beside the line a number may stand."""
BESIDE_LABEL = 2.0
"""Pixels between the label of an edge and a number beside it."""
GAP = 4.0
"""Pixels between the line of an edge and a number beside it."""
MOST_TRIES = 3
"""How often the lines of a picture choose the places of their texts."""
PART = 12.0
"""Pixels of a part of a line, about: the area of a part is nearly the part itself."""


class Area(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    @property
    def middle(self) -> Point:
        return Point((self.left + self.right) / 2, (self.top + self.bottom) / 2)

    def holds(self, other: Area) -> bool:
        return (
            self.left <= other.left
            and self.top <= other.top
            and other.right <= self.right
            and other.bottom <= self.bottom
        )

    def has(self, point: Point) -> bool:
        return self.left <= point.x <= self.right and self.top <= point.y <= self.bottom

    def grown(self, by: float) -> Area:
        return Area(self.left - by, self.top - by, self.right + by, self.bottom + by)

    def towards(self, point: Point) -> Point:
        """The point of the border on the way from the middle to a point outside."""
        middle = self.middle
        across, down = abs(point.x - middle.x), abs(point.y - middle.y)
        parts = [(self.right - middle.x) / across] if across else []
        parts += [(self.bottom - middle.y) / down] if down else []
        part = min([1.0, *parts])
        return Point(middle.x + (point.x - middle.x) * part, middle.y + (point.y - middle.y) * part)

    def borders(self, half: float) -> Iterator[Area]:
        """The four sides, each ``half`` pixels wide inside and outside."""
        left, top, right, bottom = self
        yield Area(left - half, top - half, right + half, top + half)
        yield Area(left - half, bottom - half, right + half, bottom + half)
        yield Area(left - half, top, left + half, bottom)
        yield Area(right - half, top, right + half, bottom)

    def shares(self, other: Area) -> float:
        """The size of the overlap."""
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(0.0, across) * max(0.0, down)


def around(middle: Point, width: float, height: float) -> Area:
    return Area(
        middle.x - width / 2, middle.y - height / 2, middle.x + width / 2, middle.y + height / 2
    )


CELL = 200.0
"""The width and the height of a cell of `Covered`."""


class Covered:
    """Areas that are taken, in a grid, so that a search looks only at the near ones: a graph may have
    as many numbers as boxes."""

    def __init__(self, areas: Iterable[Area]) -> None:
        self._areas: list[Area] = []
        self._cells: dict[tuple[int, int], list[int]] = {}
        for area in areas:
            self.add(area)

    def add(self, area: Area) -> None:
        for cell in _cells(area):
            self._cells.setdefault(cell, []).append(len(self._areas))
        self._areas.append(area)

    def overlap(self, place: Area) -> float:
        """How many square pixels of ``place`` the areas cover, each area counted alone."""
        near = {number for cell in _cells(place) for number in self._cells.get(cell, ())}
        # In their order: a sum of the same numbers in another order may differ.
        return sum(place.shares(self._areas[number]) for number in sorted(near))


class Lines:
    """The parts of the lines of a picture, in a grid: which other lines come near to a place."""

    def __init__(self, curves: Iterable[Sequence[Point]]) -> None:
        self._cells: dict[tuple[int, int], list[tuple[Area, Sequence[Point]]]] = {}
        for curve in curves:
            for part in _parts(curve):
                for cell in _cells(part):
                    self._cells.setdefault(cell, []).append((part, curve))

    def comes_near(self, place: Area, own: Sequence[Point]) -> bool:
        """Whether a line that is not ``own`` touches ``place``."""
        near = (part for cell in _cells(place) for part in self._cells.get(cell, ()))
        return any(place.shares(part) and curve != own for part, curve in near)


def _parts(curve: Sequence[Point]) -> Iterator[Area]:
    """The areas of the parts of a curve; each has a width and a height, so that it can be shared."""
    long = sum(hypot(b.x - a.x, b.y - a.y) for a, b in pairwise(curve))
    count = max(1, ceil(long / PART))
    for a, b in pairwise(point_on(curve, number / count) for number in range(count + 1)):
        left, right = sorted((a.x, b.x))
        top, bottom = sorted((a.y, b.y))
        yield Area(left - 0.5, top - 0.5, right + 0.5, bottom + 0.5)


class Edge(NamedTuple):
    """What a number belongs to."""

    curve: Sequence[Point]
    label: Area | None
    """The area of its label, if it has one."""


class Room(NamedTuple):
    """What a number must heed in a picture."""

    picture: Area
    """A number stands inside."""
    taken: Covered
    """A number covers nothing of it."""
    lines: Lines
    """A number is nearer to its own one than to any other."""
    labels: Covered
    """The labels of all lines."""

    def meets_label(self, place: Area, edge: Edge) -> bool:
        """Whether the label of another line touches ``place``."""
        own = place.shares(edge.label) if edge.label is not None else 0.0
        return self.labels.overlap(place) > own + 0.1


def _cells(area: Area) -> Iterator[tuple[int, int]]:
    across = range(int(area.left // CELL), int(area.right // CELL) + 1)
    down = range(int(area.top // CELL), int(area.bottom // CELL) + 1)
    return ((column, row) for column in across for row in down)


class NumberPlace(NamedTuple):
    """Where a number stands at its edge."""

    area: Area
    side: int
    """-1: left of the line, so that a shorter number begins further right; 1: right of it; 0: centred."""
    leader: Point | None = None
    """The point of the edge to which a thin line leads from a number that is further away."""

    @property
    def anchor(self) -> Point:
        """The point at which a shorter number stays: the middle of the end at the line, or of the area."""
        near = (self.area.right, self.area.middle.x, self.area.left)[self.side + 1]
        return Point(near, self.area.middle.y)


def _width(text: str) -> float:
    return max(HEIGHT, look.width(text, SMALL, bold=True) + 10)


def placed(text: str, edge: Edge, room: Room) -> NumberPlace | None:
    """A place for ``text`` at the edge, nearer to it than to any other; None if no such place is free."""
    width = _width(text)
    curve = edge.curve
    points = [point_on(curve, part) for part in PLACES]
    across, down = width / 2 + GAP, HEIGHT / 2 + GAP
    for x, y in WAYS:
        for point in points:
            area = around(Point(point.x + x * across, point.y + y * down), width, HEIGHT)
            # On its line, it may touch another one with its end; beside it, it is `GAP` away from its own.
            near = (
                around(area.middle, width + 4 * GAP, HEIGHT + 4 * GAP)
                if x or y
                else around(point, HEIGHT, HEIGHT)
            )
            if (
                room.picture.holds(area)
                and not room.taken.overlap(area)
                and not room.lines.comes_near(near, curve)
                and not ((x or y) and room.meets_label(area.grown(GAP), edge))
            ):
                return NumberPlace(area, (x > 0) - (x < 0))
    return None


def placed_beside(text: str, edge: Edge, room: Room) -> NumberPlace | None:
    """A place for ``text`` beside the label of the edge, which says to which edge it belongs."""
    if edge.label is None:
        return None
    width = _width(text)
    across = (edge.label.right - edge.label.left + width) / 2 + BESIDE_LABEL
    down = (edge.label.bottom - edge.label.top + HEIGHT) / 2 + BESIDE_LABEL
    middle = edge.label.middle
    for x, y in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        area = around(Point(middle.x + x * across, middle.y + y * down), width, HEIGHT)
        # No other label and no other line is as near as its own label.
        near = area.grown(BESIDE_LABEL + 0.5)
        is_free = room.picture.holds(area) and not room.taken.overlap(area)
        is_alone = not room.lines.comes_near(near, edge.curve) and not room.meets_label(near, edge)
        if is_free and is_alone:
            return NumberPlace(area, x)
    return None


def placed_far(text: str, edge: Edge, room: Room) -> NumberPlace | None:
    """`placed`, further away from the line: the nearest place that a straight line to the edge reaches
    without covering anything that is taken."""
    width = _width(text)
    curve = edge.curve
    for far in FAR:
        for x, y in WAYS[1:]:
            across, down = x * far * (width / 2 + GAP), y * far * (HEIGHT / 2 + GAP)
            for point in [point_on(curve, part) for part in PLACES]:
                area = around(Point(point.x + across, point.y + down), width, HEIGHT)
                way = [
                    Area(*(spot := Point(point.x + across * part, point.y + down * part)), *spot)
                    for part in (0.1, 0.25, 0.4, 0.55, 0.7, 0.85)
                ]
                is_free = room.picture.holds(area) and not room.taken.overlap(area)
                if is_free and not any(room.taken.overlap(around(it.middle, 2, 2)) for it in way):
                    return NumberPlace(area, (x > 0) - (x < 0), point)
    return None


Place = TypeVar("Place")


def in_turns(
    numbers: Iterable[int],
    choose: Callable[[Sequence[int]], dict[int, Place]],
    lack: Callable[[Place], int],
) -> dict[int, Place]:
    """A place for each number. Those that lack something choose again, before the others: these may
    have taken the only place of a short line and have others themselves. ``choose``: chooses the
    places in an order. ``lack``: how much a place lacks; 0 is nothing."""
    order = sorted(numbers)
    lacking: set[int] = set()
    tries = []
    for _ in range(MOST_TRIES):
        order.sort(key=lambda number: number not in lacking)
        found = choose(order)
        tries.append(found)
        without = {number for number, place in found.items() if lack(place)}
        if without <= lacking:
            break
        lacking |= without
    return min(tries, key=lambda found: sum(map(lack, found.values())))


def point_on(curve: Sequence[Point], part: float) -> Point:
    """The point of the curve after the fraction ``part`` of its pieces: n cubic Béziers have
    3n + 1 points."""
    pieces = (len(curve) - 1) // 3
    piece = min(int(part * pieces), pieces - 1)
    t = part * pieces - piece
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
    four = curve[3 * piece : 3 * piece + 4]
    x = sum(weight * point.x for weight, point in zip(weights, four, strict=True))
    return Point(x, sum(weight * point.y for weight, point in zip(weights, four, strict=True)))
