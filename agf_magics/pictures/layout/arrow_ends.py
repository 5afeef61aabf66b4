"""Where an arrow ends: at the border of its box, or at what stands on the border.

The state of a step and the condition of a choice cover nothing: an arrow that would end below one ends
at its edge instead. The script of the page does the same for the states that it paints.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot

from .. import theme as look
from ..scene.boxes import SMALL, measured
from ..scene.scene import Scene
from .dot import Layout, Rectangle
from .edge_numbers import Area, Covered
from .graphviz import Point

PILL_HEIGHT = 16.0
"""Pixels of a pill: the rounded box on a border that has a state or a condition."""
WING = 3.2
"""Pixels from the line to each side of an arrow's head."""
FARTHEST = 24
"""Pixels by which an arrow is made shorter, at most."""
CLEAR = 1.0
"""Pixels between the tip of an arrow and the state."""


def state_pill(place: Rectangle, words: str) -> Rectangle:
    """The place of a state on the upper border of a box or a frame, at the right."""
    wide = look.width(words, SMALL, bold=True) + 12
    return Rectangle(place.left + place.width - 6 - wide, place.top - 9, wide, PILL_HEIGHT)


def case_pill(place: Rectangle, case: str) -> Rectangle:
    """The place of the condition of a choice, on the upper border of its box, at the left."""
    return Rectangle(place.left + 8, place.top - 9, look.width(case, SMALL) + 12, PILL_HEIGHT)


def pills_of(drawn: Scene, layout: Layout, states: Mapping[str, str]) -> Covered:
    """Where no head may be: on conditions and on ``states``, the words by the id of the box, with some
    room around them, and on the titles of frames."""
    boxes = layout.boxes
    pills = [state_pill(boxes[id], words) for id, words in states.items() if id in boxes]
    pills += [
        case_pill(boxes[box.id], box.case) for box in drawn.boxes if box.case and box.id in boxes
    ]
    titles = [
        Rectangle(left + 4, top + 6, width - 8, measured(frame, {}).height)
        for frame in drawn.frames
        if frame.id in boxes
        for left, top, width, _ in [boxes[frame.id]]
    ]
    return Covered([*(area_of(pill, CLEAR) for pill in pills), *map(area_of, titles)])


def shortened(base: Point, tip: Point, pills: Covered) -> tuple[Point, Point] | None:
    """The head of an arrow, moved back along its direction until nothing covers any of it. None if
    the head would be too far from the end of its line: then the line alone shows the way."""
    length = hypot(tip.x - base.x, tip.y - base.y) or 1.0
    dx = (tip.x - base.x) / length
    dy = (tip.y - base.y) / length
    for number in range(FARTHEST):
        ends = (
            Point(base.x - number * dx, base.y - number * dy),
            Point(tip.x - number * dx, tip.y - number * dy),
        )
        if not pills.overlap(head_area(*ends)):
            return ends
    return None


def head_area(base: Point, tip: Point) -> Area:
    """The area of the head of an arrow."""
    length = hypot(tip.x - base.x, tip.y - base.y) or 1.0
    # Half the width and half the height of the base of the head: one half is at each side of the line.
    half_width = WING * abs(tip.y - base.y) / length
    half_height = WING * abs(tip.x - base.x) / length
    return Area(
        min(tip.x, base.x - half_width),
        min(tip.y, base.y - half_height),
        max(tip.x, base.x + half_width),
        max(tip.y, base.y + half_height),
    )


def area_of(place: Rectangle, more: float = 0.0) -> Area:
    """The area of a rectangle, larger by ``more`` pixels at each side."""
    return Area(
        place.left - more,
        place.top - more,
        place.left + place.width + more,
        place.top + place.height + more,
    )
