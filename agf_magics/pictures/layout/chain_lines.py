"""A chain in lines, like a text: its parts are cut into lines, which make one layout.

A chain is a scene in which each part simply follows the one before. A connector leads from the end of
each line to the begin of the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from ..scene.scene import Box, Link, Scene
from .dot import Layout, Line, Rectangle, upright
from .graphviz import Point

GUTTER = 34.0
"""Pixels between two lines of a chain."""
TURN = 16.0
"""Pixels by which a connector runs past the lines that it connects."""
RADIUS = 8.0
"""Pixels of the radius of a connector's corners."""


def is_chain(scene: Scene) -> bool:
    """Whether each part simply follows the one before. Up to five parts need no lines."""
    place = {part.id: number for number, part in enumerate(scene.parts)}
    links = {
        (place[link.tail], place[link.head])
        for link in scene.links
        if link.tail in place and link.head in place
    }
    return len(place) > 5 and links == set(pairwise(range(len(place))))


def split_chain(scene: Scene, layout: Layout, number: int) -> list[list[Box]]:
    """The parts in at most ``number`` chunks of about the same length."""
    places = (upright(layout.boxes[part.id], layout.is_down) for part in scene.parts)
    lengths = [box.height + GUTTER for box in places]
    limit = sum(lengths) / number
    while True:
        chunks: list[list[Box]] = [[]]
        filled = 0.0
        for part, length in zip(scene.parts, lengths, strict=True):
            if chunks[-1] and filled + length > limit:
                chunks.append([])
                filled = 0.0
            chunks[-1].append(part)
            filled += length
        if len(chunks) <= number:
            return chunks
        limit *= 1.03  # longer lines, little by little, until they are few enough


def estimated_size(scene: Scene, layout: Layout, number: int) -> tuple[float, float]:
    """About the width and the height of a chain in ``number`` lines."""
    chunks = [
        [upright(layout.boxes[box.id], layout.is_down) for box in chunk]
        for chunk in split_chain(scene, layout, number)
    ]
    long = max(sum(box.height + GUTTER for box in chunk) for chunk in chunks) + GUTTER
    wide = sum(max(box.width for box in chunk) + GUTTER for chunk in chunks)
    return (wide, long) if layout.is_down else (long, wide)


def in_lines(
    layouts: Sequence[Layout], chunks: Sequence[Sequence[Box]], links: Sequence[Link]
) -> Layout:
    """The layouts of the lines of a chain as one, with a connector from each line to the next. They
    are put side by side as columns that go down, and turned if they go to the right."""
    if not layouts[0].is_down:
        return _flipped(in_lines(list(map(_flipped, layouts)), chunks, links))
    longest = max(layout.height for layout in layouts)
    boxes: dict[str, Rectangle] = {}
    lines: list[Line] = []
    edges = list[float]()
    left = 0.0
    for layout in layouts:
        moved = partial(_moved, left, TURN)
        boxes |= {
            id: Rectangle(box.left + left, box.top + TURN, box.width, box.height)
            for id, box in layout.boxes.items()
        }
        lines += [_with_points(line, moved) for line in layout.lines]
        edges.append(left + layout.width)
        left += layout.width + GUTTER
    for (before, after), edge in zip(pairwise(chunks), edges, strict=False):
        tail, head = before[-1].id, after[0].id
        joining = [link for link in links if (link.tail, link.head) == (tail, head)]
        visible = [link for link in joining if link.kind != "hold"]
        link = min(visible, key=lambda link: link.kind != "flow")
        way = _connector(boxes[tail], boxes[head], edge + GUTTER / 2, longest)
        lines.append(Line(link._replace(label=""), _rounded(way), None))
    return Layout(left - GUTTER, longest + 2 * TURN, boxes, tuple(lines), True)


def _flipped(layout: Layout) -> Layout:
    """The same layout with its axes exchanged."""
    boxes = {id: upright(box, False) for id, box in layout.boxes.items()}
    lines = tuple(
        _with_points(line, lambda point: Point(point.y, point.x)) for line in layout.lines
    )
    return Layout(layout.height, layout.width, boxes, lines, not layout.is_down)


def _moved(dx: float, dy: float, point: Point) -> Point:
    return Point(point.x + dx, point.y + dy)


def _with_points(line: Line, change: Callable[[Point], Point]) -> Line:
    label = change(line.label) if line.label else None
    return Line(line.link, tuple(map(change, line.points)), label)


def _connector(tail: Rectangle, head: Rectangle, middle: float, longest: float) -> list[Point]:
    """From the end of one column of a chain around to the begin of the next."""
    bottom = longest + 2 * TURN
    tail_x = tail.left + tail.width / 2
    head_x = head.left + head.width / 2
    return [
        Point(tail_x, tail.top + tail.height),
        Point(tail_x, bottom),
        Point(middle, bottom),
        Point(middle, 0),
        Point(head_x, 0),
        Point(head_x, head.top),
    ]


def _rounded(corners: Sequence[Point]) -> tuple[Point, ...]:
    """Straight lines as one curve with round corners, and its tip."""
    curve = [corners[0]]
    for before, corner, after in zip(corners, corners[1:], corners[2:], strict=False):
        start = _toward(corner, before, RADIUS)
        end = _toward(corner, after, RADIUS)
        curve += [curve[-1], start, start, corner, corner, end]
    tip = corners[-1]
    base = _toward(tip, corners[-2], 12)
    return (*curve, curve[-1], base, base, tip)


def _toward(corner: Point, other: Point, distance: float) -> Point:
    """The point at ``distance`` from a corner, at most halfway to the other one."""
    length = max(abs(other.x - corner.x) + abs(other.y - corner.y), 0.1)
    part = min(distance, length / 2) / length
    return Point(corner.x + part * (other.x - corner.x), corner.y + part * (other.y - corner.y))
