"""The places of the labels of lines: where graphviz puts them, or near, where they cover nothing.

Graphviz keeps labels off boxes. It does not know the heads of arrows and the states of boxes, so its
labels may cover them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from .. import theme as look
from ..scene.boxes import SMALL
from ..scene.scene import Scene
from .arrow_ends import area_of, head_area, pills_of, shortened, state_pill
from .dot import Layout, Line
from .edge_numbers import Area, Covered, around
from .graphviz import Point

LONGEST_STATE = "▶ cancelled"
"""The widest words of a state: labels leave room for them at each box."""
TITLE_ROOM = 36.0
"""Pixels at the top of a frame that its title takes."""
MOVES = sorted(
    product(range(-72, 73, 6), range(-30, 31, 6)),
    key=lambda move: abs(move[0]) + 1.5 * abs(move[1]),
)
"""The pixels across and down by which a label may move, the shortest way first."""


def with_clear_labels(drawn: Scene, layout: Layout) -> Layout:
    """``layout`` with each label where it covers nothing, if there is such a place near."""
    covered = Covered(_fixed(drawn, layout))
    return layout._replace(lines=tuple(_moved(line, layout, covered) for line in layout.lines))


def obstacles(drawn: Scene, layout: Layout) -> Iterator[Area]:
    """What a number on an edge must not cover: boxes, borders, titles, states, heads and labels."""
    yield from _fixed(drawn, layout)
    for line in layout.lines:
        if line.label is not None and line.link.label:
            yield _area(line, line.label, layout.is_down)


def _moved(line: Line, layout: Layout, covered: Covered) -> Line:
    """A line with its label in the nearest place that is free, or where it was."""
    if line.label is None or not line.link.label:
        return line
    for x, y in MOVES:
        label = Point(line.label.x + x, line.label.y + y)
        area = _area(line, label, layout.is_down)
        if not covered.overlap(area) and _is_inside(area, layout):
            covered.add(area)
            return line._replace(label=label)
    covered.add(_area(line, line.label, layout.is_down))
    return line


def _is_inside(area: Area, layout: Layout) -> bool:
    return (
        area.left >= 0
        and area.top >= 0
        and area.right <= layout.width
        and area.bottom <= layout.height
    )


def _area(line: Line, label: Point, is_down: bool) -> Area:
    # svg.py paints the label 3.5 pixels lower in a picture that goes down, else here; its middle is 3
    # pixels above the line on which its letters stand.
    middle = Point(label.x, label.y + (0.5 if is_down else -3.0))
    return around(middle, look.width(line.link.label, SMALL), 11)


def _fixed(drawn: Scene, layout: Layout) -> Iterator[Area]:
    """What no label may cover: boxes, the titles and borders of frames, states and heads."""
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
    for line in layout.lines:
        if line.link.kind != "hold":
            base, tip = line.points[-2:]
            for pills in (plain, stated):
                if head := shortened(base, tip, pills):
                    yield head_area(*head)
