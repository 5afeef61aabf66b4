"""The places of the labels of lines: where each is nearer to its own line than to anything else.

Graphviz reserves room for a label, but not for its line alone: another line may be nearer, a loop that
is drawn elsewhere is far away, and a label may cover the heads of arrows and the states of boxes, which
graphviz does not know. So each label looks along its line for the place that is nearest to the room
that graphviz has for it; if there is none, a thin line leads from the label to its line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import hypot
from typing import NamedTuple

from ..scene.boxes import label_size
from ..scene.scene import Scene
from .arrow_ends import area_of, case_pill, head_area, pills_of, shortened, state_pill
from .dot import Layout, Line
from .edge_numbers import Area, Covered, Lines, around, in_turns, point_on
from .graphviz import Point

LONGEST_STATE = "▶ cancelled"
"""The widest words of a state: labels leave room for them at each box."""
TITLE_ROOM = 36.0
"""Pixels at the top of a frame that its title takes."""
PARTS = tuple(number / 14 for number in range(1, 14))
"""The fractions of a line at which a label may stand."""
INTO_MARGIN = 6.0
"""Pixels of the margin of a picture into which a label may reach."""
BESIDE_LINE = 4.0
"""Pixels from the middle of a line to a label beside it."""
NEAREST, FARTHEST = 2.5, 7.0
"""The pixels from the middle of a line to a label beside it, at least and at most."""
FARTHER = ((4.0, False), (2.0, False), (3.0, True))
"""How many pixels farther away than its own line another line must be, and whether the label is on its
line; what comes first is better."""
CROSSING = 0.4
"""The largest part of a line that its own label may cover."""
SIDES = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (-1, -1), (1, 1), (-1, 1))
"""Where a label stands beside a point of its line: moved across and down."""
OUTWARD = (0.0, 3.0, 7.0, 12.0, 20.0)
"""Pixels by which a label stands farther out than beside the point: a slanted line passes below it."""
DISTANCES = (12.0, 20.0, 30.0, 42.0, 56.0, 72.0, 90.0, 110.0)
"""The same for a label with a thin line that leads to it."""
CROSSED = ("nothing", "lines", "anything")
"""What such a thin line may cross: nothing, or other lines, or also labels and boxes."""
RESERVE = 0.015
"""The part of the width of a label that is empty at each end, if the font is not wider than expected."""
STEPS = tuple(number / 24 for number in range(25))
"""The fractions of a line from which the way to a label is measured."""


class LabelPlace(NamedTuple):
    """Where a label stands at its line."""

    area: Area
    leader: Point | None = None
    """The point of the line to which a thin line leads from a label that is farther away."""
    is_across: bool = False
    """Whether the label is on its line."""


def with_clear_labels(drawn: Scene, layout: Layout) -> Layout:
    """``layout`` with each label where it covers nothing and one sees to which line it belongs."""
    labelled = {number: line for number, line in enumerate(layout.lines) if line.link.label}
    lines = Lines(_curve(line) for line in layout.lines if line.link.kind != "hold")
    fixed = [*_fixed(drawn, layout)]
    picture = Area(0.0, 0.0, layout.width, layout.height).grown(INTO_MARGIN)

    def choose(order: Sequence[int]) -> dict[int, LabelPlace | None]:
        room = _Room(picture, Covered(fixed), lines)
        return {number: room.place(labelled[number]) for number in order}

    places = in_turns(labelled, choose, lambda place: 2 if place is None else bool(place.leader))
    moved = {number: _moved(labelled[number], place) for number, place in places.items()}
    return layout._replace(
        lines=tuple(moved.get(number, line) for number, line in enumerate(layout.lines))
    )


def obstacles(drawn: Scene, layout: Layout) -> Iterator[Area]:
    """What a number on an edge must not cover: boxes, borders, titles, states, heads and labels."""
    yield from _fixed(drawn, layout)
    for line in layout.lines:
        if (area := label_area(line)) is not None:
            yield area


def label_area(line: Line) -> Area | None:
    """The area of the label of a line, if it has one."""
    if line.label is None or not line.link.label:
        return None
    return around(line.label, *label_size(line.link.label))


def _moved(line: Line, place: LabelPlace | None) -> Line:
    """A line with its label at a place; without one, where graphviz has room for it."""
    if place is None:
        return line._replace(label=_begin(line))
    middle = place.area.middle
    return line._replace(label=middle, leader=place.leader, is_under_label=place.is_across)


def _begin(line: Line) -> Point:
    """Where the search begins: the room of graphviz, or the middle of the line."""
    return line.label or point_on(_curve(line), 0.5)


class _Room:
    """What the labels of a picture must heed."""

    def __init__(self, picture: Area, taken: Covered, lines: Lines) -> None:
        self.picture = picture
        self.taken = taken
        self.lines = lines
        self.labels = Covered(())
        self.near_labels = Covered(())
        """The labels with as much room around them as they are away from their lines."""

    def place(self, line: Line) -> LabelPlace | None:
        """The nearest clear place for the label of a line, which is then taken."""
        curve = _curve(line)
        points = [point_on(curve, part) for part in STEPS]
        begin = _begin(line)
        size = label_size(line.link.label)
        near = sorted(_near(curve, size, begin), key=lambda place: _far(place.area.middle, begin))
        for clear, is_across in FARTHER:
            for place in [place for place in near if place.is_across == is_across]:
                if self.is_clear(place, curve, points, clear):
                    self.take(place.area, _away(place.area, points))
                    return place
        for crossed in CROSSED:
            for place in _farther(curve, size):
                if self.is_reached(place, curve, crossed):
                    self.take(place.area, 0.0)
                    return place
        return None

    def take(self, area: Area, away: float) -> None:
        self.labels.add(area)
        self.near_labels.add(area.grown(away + 1))

    def is_free(self, area: Area, away: float) -> bool:
        """Whether the area covers nothing, and no label is as near as its line."""
        return (
            self.picture.holds(area)
            and not self.taken.overlap(area)
            and not self.near_labels.overlap(area)
            and not self.labels.overlap(area.grown(away + 1))
        )

    def is_clear(
        self, place: LabelPlace, curve: Sequence[Point], points: Sequence[Point], clear: float
    ) -> bool:
        """Whether a label beside its line, or on it, belongs to it at sight. ``clear``: how many pixels
        farther away every other line is."""
        area = place.area
        away = _away(area, points)
        if place.is_across:
            is_at_line = sum(map(area.grown(2).has, points)) <= CROSSING * len(points)
        else:
            is_at_line = NEAREST <= away <= FARTHEST
        return (
            is_at_line
            and self.is_free(area, away)
            and not self.lines.comes_near(area.grown(away + clear), curve)
        )

    def is_reached(self, place: LabelPlace, curve: Sequence[Point], crossed: str) -> bool:
        """Whether a straight line leads from a label to its line. ``crossed``: what it may cross."""
        area, end, _ = place
        assert end is not None, "a label that is farther away has a thin line"
        if not self.is_free(area, 2.0) or self.lines.comes_near(area.grown(2.0), curve):
            return False
        spots = [spot for spot in _spots(end, area.middle) if not area.holds(spot)]
        return (
            crossed == "anything"
            or not any(self.taken.overlap(it) or self.labels.overlap(it) for it in spots[2:])
        ) and (crossed != "nothing" or not any(self.lines.comes_near(it, curve) for it in spots))


def _curve(line: Line) -> tuple[Point, ...]:
    """The curve of a line with its head."""
    tip = line.points[-1]
    return (*line.points, tip, tip)


def _spots(begin: Point, end: Point) -> Iterator[Area]:
    """The places that a straight line passes."""
    count = max(2, int(_far(begin, end) // 3))
    for part in (number / count for number in range(1, count)):
        middle = Point(begin.x + (end.x - begin.x) * part, begin.y + (end.y - begin.y) * part)
        yield around(middle, 3, 3)


def _near(curve: Sequence[Point], size: tuple[float, float], begin: Point) -> Iterator[LabelPlace]:
    """The places of a label along its line, also the one that graphviz has for it."""
    width, height = size
    yield LabelPlace(around(begin, width, height))
    for part in PARTS:
        point = point_on(curve, part)
        yield LabelPlace(around(point, width, height), is_across=True)
        for (x, y), more in product(SIDES, OUTWARD):
            across, down = (
                x * (width / 2 + BESIDE_LINE + more),
                y * (height / 2 + BESIDE_LINE + more),
            )
            yield LabelPlace(around(Point(point.x + across, point.y + down), width, height))


def _farther(curve: Sequence[Point], size: tuple[float, float]) -> Iterator[LabelPlace]:
    """The places of a label farther away from its line, the nearest first."""
    width, height = size
    points = [point_on(curve, part) for part in PARTS]
    for more, (x, y), end in product(DISTANCES, SIDES, points):
        across, down = x * (width / 2 + more), y * (height / 2 + more)
        yield LabelPlace(around(Point(end.x + across, end.y + down), width, height), end)


def _away(area: Area, points: Sequence[Point]) -> float:
    """The pixels from the letters in an area to the nearest one of the points."""
    reserve = RESERVE * (area.right - area.left)
    left, right = area.left + reserve, area.right - reserve
    return min(
        hypot(
            max(left - point.x, 0.0, point.x - right),
            max(area.top - point.y, 0.0, point.y - area.bottom),
        )
        for point in points
    )


def _far(middle: Point, begin: Point) -> float:
    return hypot(middle.x - begin.x, middle.y - begin.y)


def _fixed(drawn: Scene, layout: Layout) -> Iterator[Area]:
    """What no label may cover: boxes, the titles and borders of frames, states, cases and heads."""
    frames = {frame.id for frame in drawn.frames}
    plain = pills_of(drawn, layout, {})
    stated = pills_of(drawn, layout, dict.fromkeys(layout.boxes, LONGEST_STATE))
    for id, place in layout.boxes.items():
        yield area_of(state_pill(place, LONGEST_STATE))
        if id not in frames:
            yield area_of(place, 1)
            continue
        yield area_of(place._replace(height=TITLE_ROOM))
        yield from area_of(place).borders(1.5)
    for box in drawn.boxes:
        if box.case and box.id in layout.boxes:
            yield area_of(case_pill(layout.boxes[box.id], box.case))
    for line in layout.lines:
        if line.link.kind != "hold":
            base, tip = line.points[-2:]
            for pills in (plain, stated):
                if head := shortened(base, tip, pills):
                    yield head_area(*head)
