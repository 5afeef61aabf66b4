"""A scene as graphviz text, and the places that graphviz gives its boxes and lines.

Graphviz does not know the fonts of a page: boxes have a fixed size, and room for a title or a label is
a text of so many letters of Courier. So every graphviz finds the same places, whatever its fonts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from .. import theme as look
from ..corners import Corner
from ..plain import line
from ..scene.boxes import LEADING, PILL, STACK, Measured, label_size, measured
from ..scene.scene import VALUES, Box, Frame, Link, Scene, Tags, first_boxes, last_boxes, within
from ..scene.value_lines import wired
from .graphviz import Point, read_edges, read_places, run_graphviz

WEIGHT = {"then": 8, "hold": 8, "flow": 8, "value": 2, "late": 0, "back": 0, "limit": 1}
"""How strongly graphviz keeps a line short and straight, by the kind of its link."""
BESIDE = frozenset({"parallel", "match", "conditional"})
"""Frames whose boxes stand side by side in the order of the text."""
INCH = 72
"""Points of an inch: graphviz takes sizes in inches and gives places in points."""
COURIER = 0.6
"""The width of a letter of Courier, as a part of its size."""
MARGIN = 12
"""Points around the parts of a frame."""
BETWEEN = 0.3
"""Inches between two ranks of boxes."""
BETWEEN_NUMBERED = 0.42
"""Inches between two ranks where the edges get numbers in a run, or where the picture goes to the
right: numbers and labels need room beside heads and states."""
BESIDE_DOWN = 0.26
"""Inches between two boxes of a rank in a picture that goes down."""
BESIDE_RIGHT = 0.2
"""Inches between two boxes of a rank in a picture that goes to the right."""
EFFORT = 4
"""How long graphviz looks for better places, in multiples of the number of boxes."""
LABEL_POINTS = 9
"""The size of the text that reserves room for a label."""
TITLE_POINTS = 11
"""The size of the text that reserves room for the title of a frame."""
LABEL_MARGIN = 8.0
"""Points around a label."""
HEAD_LENGTH = 7.0
"""Points from the base of an arrow's head to its tip."""
FROM_CORNER = 14.0
"""Points between a straight line and the corner of a box."""
SHORTEST_STRAIGHT = 9.0
"""Points between two boxes below which a line is little more than its head and stays as it is."""
LONGEST_STRAIGHT = 70.0
"""The most points between two boxes that a straight line connects: a longer one would cross others."""
LOOP_BEGIN = 12.0
"""Points from the corner of a box to where a loop leaves its upper border."""
LOOP_END = 9.0
"""Points from the corner of a box to where a loop enters its left border."""
LOOP_SIZE = 26.0
"""Points from a box to the handles of a loop's curve."""


class Rectangle(NamedTuple):
    left: float
    top: float
    width: float
    height: float


class Line(NamedTuple):
    link: Link
    points: tuple[Point, ...]
    """A cubic Bezier curve up to the base of the head, and the tip."""
    label: Point | None
    """The middle of the line's label; None: it has no label, or no room is reserved for it."""
    leader: Point | None = None
    """The point of the line to which a thin line leads from a label that is not beside it."""
    is_under_label: bool = False
    """Whether the label is on the line."""


class Layout(NamedTuple):
    width: float
    height: float
    boxes: Mapping[str, Rectangle]
    """The places of boxes and frames, by their ids."""
    lines: tuple[Line, ...]
    is_down: bool
    """Whether the picture goes from top to bottom; else it goes from left to right."""


def graph_text(scene: Scene, states: Mapping[str, Corner]) -> str:
    """``scene`` as graphviz text with its labels, colours and states, for any graphviz tool."""
    links, tags = wired(scene, [scene.parts])
    return _Text(scene.parts, links, tags, True, _Labels(scene.name, states)).text + "\n"


def laid_out(
    parts: Sequence[Box], links: Sequence[Link], tags: Mapping[str, Tags], is_down: bool
) -> Layout:
    """The places of ``parts`` and of the lines between them. Raises `NoPicture`."""
    text = _Text(parts, links, tags, is_down)
    answer = run_graphviz(text.text)
    width, height, middles, corners = read_places(answer)
    boxes = {}
    for number, box in enumerate(text.every):
        if isinstance(box, Frame) and f"cluster_{number}" in corners:
            (left, top), (right, bottom) = corners[f"cluster_{number}"]
            boxes[box.id] = Rectangle(left, top, right - left, bottom - top)
        elif f"n{number}" in middles:
            x, y = middles[f"n{number}"]
            size = text.sizes[box.id]
            stack = STACK * box.many
            pill = PILL * bool(box.case)
            # Graphviz has room for the stack at the right and above, and for the case above.
            left = x - (size.width + stack) / 2
            top = y - (size.height - stack - pill) / 2
            boxes[box.id] = Rectangle(left, top, size.width, size.height)
    lines: list[Line] = []
    for name, points, label in read_edges(answer):
        link = text.links[int(name[1:])]
        if link.tail == link.head and not is_down:
            points = _loop(boxes[link.tail])
        line = Line(link, points or _direct(link, boxes, is_down), label)
        lines.append(_straight(line, boxes, text.frames, is_down))
    return Layout(width, height, boxes, tuple(lines), is_down)


class _Text:
    """The graphviz text. Its names are not the ids of steps, which may contain any text: boxes are
    ``n0, n1, …`` and frames ``cluster_0, …`` in the order of `within`, lines are ``e0, …``."""

    def __init__(
        self,
        parts: Sequence[Box],
        links: Sequence[Link],
        tags: Mapping[str, Tags],
        is_down: bool,
        labels: _Labels | None = None,
    ) -> None:
        self.labels = labels
        self.every = list(within(parts))
        self.number = {box.id: place for place, box in enumerate(self.every)}
        self.sizes: dict[str, Measured] = {
            box.id: measured(box, tags.get(box.id, {})) for box in self.every
        }
        if not is_down:
            self.sizes |= dict(_in_columns(self.every, self.sizes))
        self.links = [
            link for link in links if link.tail in self.number and link.head in self.number
        ]
        self.frames = {box.id for box in self.every if isinstance(box, Frame)}
        self.half = 1 + bool(self.frames)
        """Ranks from a box to the next: 2 if there are frames, as a line to a frame takes 3 of them."""
        is_numbered = any(link.way for link in self.links)
        between = (BETWEEN if is_down and not is_numbered else BETWEEN_NUMBERED) / self.half
        self.text = "\n".join(
            [
                f"digraph {labels.name if labels else ''} {{",
                f"graph [rankdir={'TB' if is_down else 'LR'}, compound=true, newrank=true, "
                f"nodesep={BESIDE_DOWN if is_down else BESIDE_RIGHT}, ranksep={between:.3f}, "
                f"margin=0, pad=0, splines=true, nslimit={EFFORT}, nslimit1={EFFORT}, "
                f"labeljust=l, fontname=Courier, fontsize={TITLE_POINTS}]",
                'node [shape=box, fixedsize=true, label=""]',
                f"edge [arrowsize=0.7, fontname=Courier, fontsize={LABEL_POINTS}]",
                *(text for part in parts for text in self.part(part)),
                *(text for place, link in enumerate(self.links) for text in self.link(place, link)),
                *self.rows(),
                "}",
            ]
        )

    def part(self, box: Box) -> Iterator[str]:
        """A box, or a frame with its parts."""
        size = self.sizes[box.id]
        number = self.number[box.id]
        if not isinstance(box, Frame):
            width = size.width + STACK * box.many
            height = size.height + STACK * box.many + PILL * bool(box.case)
            facts = [f"width={width / INCH:.3f}", f"height={height / INCH:.3f}"]
            facts += self.labels.box(box, size) if self.labels else []
            yield f"n{number} [{', '.join(facts)}]"
            return
        label = f'label="{_reserved(size.width, TITLE_POINTS, round(size.height / LEADING))}"'
        shown = self.labels.frame(box, size) if self.labels else label
        yield f"subgraph cluster_{number} {{ margin={MARGIN} {shown}"
        for part in box.parts:
            yield from self.part(part)
        yield "}"

    def link(self, place: int, link: Link) -> Iterator[str]:
        """A line between two boxes. At a frame it joins the middle one of the boxes with which the frame
        begins or ends; hidden lines to the other ones keep all of them before what comes after."""
        tails = last_boxes(self.box(link.tail))
        heads = first_boxes(self.box(link.head))
        if link.kind == "back":
            # Written the other way round, or it would turn the frame upside down.
            if heads[0].id != tails[-1].id:
                head = self.name(heads[0])
                tail = self.name(tails[-1])
                yield f"{head} -> {tail} [dir=back, weight=0, id=e{place}]"
            return
        tail = self.name(tails[len(tails) // 2])
        head = self.name(heads[len(heads) // 2])
        is_framed = bool({link.tail, link.head} & self.frames)
        # A frame that begins or ends with several boxes: a heavier line to one makes a chain drift.
        weight = 1 if len(tails) + len(heads) > 2 else WEIGHT[link.kind]
        length = self.half + (is_framed and link.kind not in ("value", "late"))
        facts = [f"id=e{place}", f"weight={weight}", f"minlen={length}"]
        facts += ["style=invis"] if link.kind == "hold" else []
        if link.label:
            texts = link.label.split("\n")
            width, _ = label_size(link.label)
            room = _reserved(width + LABEL_MARGIN, LABEL_POINTS, len(texts))
            facts.append(f"label={_quoted(*texts)}" if self.labels else f'label="{room}"')
        facts += self.labels.line(link) if self.labels else []
        for end, id in (("ltail", link.tail), ("lhead", link.head)):
            facts += [f"{end}=cluster_{self.number[id]}"] if id in self.frames else []
        yield f"{tail} -> {head} [{', '.join(facts)}]"
        if link.kind in ("then", "hold", "flow"):  # all ends of a frame are before the next step
            hidden = f"[style=invis, minlen={self.half}]"
            for other in map(self.name, tails):
                if other != tail:
                    yield f"{other} -> {head} {hidden}"
            for other in map(self.name, heads):
                if other != head:
                    yield f"{tail} -> {other} {hidden}"

    def rows(self) -> Iterator[str]:
        """The boxes that stand beside each other, in the order of the text."""
        for frame in self.every:
            if isinstance(frame, Frame) and frame.word.removeprefix("agf.") in BESIDE:
                pairs = pairwise(map(self.name, frame.first))
                order = " ".join(f"{left} -> {right} [style=invis];" for left, right in pairs)
                yield f"{{rank=same {order}}}"

    def box(self, id: str) -> Box:
        return self.every[self.number[id]]

    def name(self, box: Box) -> str:
        return f"n{self.number[box.id]}"


def _in_columns(
    every: Sequence[Box], sizes: Mapping[str, Measured]
) -> Iterator[tuple[str, Measured]]:
    """The sizes of boxes that stand above each other in a frame: all as wide as the widest one."""
    for frame in every:
        if isinstance(frame, Frame) and frame.word.removeprefix("agf.") in BESIDE:
            column = [part for part in frame.parts if part in frame.first]
            widest = max((sizes[part.id].width for part in column), default=0.0)
            for part in column:
                yield part.id, sizes[part.id]._replace(width=widest)


class _Labels(NamedTuple):
    """The texts and colours of a picture that graphviz draws itself."""

    title: str
    states: Mapping[str, Corner]

    @property
    def name(self) -> str:
        return _quoted(line(self.title, 80))

    def box(self, box: Box, size: Measured) -> list[str]:
        colours = look.colours(look.kind(box.word))
        state = self.states.get(box.id)
        texts = (*size.names, *size.does, *map(" ".join, size.rows))
        head = (state.words,) if state else ()
        return [
            f"label={_quoted(*head, *texts)}",
            f"tooltip={_quoted(line(box.id, 80))}",
            f'style="rounded,filled", fillcolor="{colours.box}"',
            f'color="{state.look.color if state else colours.border}"',
        ]

    def frame(self, frame: Frame, size: Measured) -> str:
        colours = look.colours(look.kind(frame.word))
        label = _quoted(" ".join((*size.names, *size.rows[0])), *size.does)
        fill = f'style="rounded,filled" fillcolor="{colours.frame}" color="{colours.border}"'
        return f"label={label} {fill}"

    def line(self, link: Link) -> list[str]:
        if link.kind in VALUES:
            return [f'color="{look.LIGHT.value}", fontcolor="{look.LIGHT.value}"']
        return ["style=dashed"] if link.kind in ("limit", "back") else []


def _quoted(*lines: str) -> str:
    """A string of graphviz, in which backslashes and ampersands begin escapes."""
    return '"' + "\\n".join(_escaped(text) for text in lines) + '"'


def _escaped(text: str) -> str:
    escapes = (("\\", "\\\\"), ("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', '\\"'))
    for raw, written in escapes:
        text = text.replace(raw, written)
    return text


def _reserved(width: float, points: int, lines: int) -> str:
    """Letters ``x`` that take about ``width`` points in each of ``lines`` lines of Courier."""
    return "\\n".join(["x" * ceil(width / (COURIER * points))] * lines)


def _direct(link: Link, boxes: Mapping[str, Rectangle], is_down: bool) -> tuple[Point, ...]:
    """A straight line from a box to another, for which graphviz found no way."""
    tail = upright(boxes[link.tail], is_down)
    head = upright(boxes[link.head], is_down)
    begin = Point(tail.left + tail.width / 2, tail.top + tail.height)
    end = Point(head.left + head.width / 2, head.top)
    return tuple(_turned(point, is_down) for point in (begin, begin, end, end, end))


def _loop(box: Rectangle) -> tuple[Point, ...]:
    """A loop at the upper left corner of a box: graphviz ends it where the state of the step is, on the
    upper border."""
    end = box.top + LOOP_END
    return (
        Point(box.left + LOOP_BEGIN, box.top),
        Point(box.left + LOOP_BEGIN, box.top - LOOP_SIZE),
        Point(box.left - LOOP_SIZE, end - 3),
        Point(box.left - HEAD_LENGTH, end),
        Point(box.left, end),
    )


def _straight(line: Line, boxes: Mapping[str, Rectangle], frames: set[str], is_down: bool) -> Line:
    """The line of a frame, straight if its ends are above each other: graphviz's line aims at a box
    inside the frame."""
    link = line.link
    if link.kind not in ("then", "flow") or not frames & {link.tail, link.head}:
        return line
    tail = upright(boxes[link.tail], is_down)
    head = upright(boxes[link.head], is_down)
    low = max(tail.left, head.left) + FROM_CORNER
    high = min(tail.left + tail.width, head.left + head.width) - FROM_CORNER
    begin = tail.top + tail.height
    end = head.top
    if low > high or not SHORTEST_STRAIGHT < end - begin < LONGEST_STRAIGHT:
        return line
    # At the middle of the box, where the other end is a frame.
    box = head if link.tail in frames and link.head not in frames else tail
    x = min(max(box.left + box.width / 2, low), high)
    start = Point(x, begin)
    base = Point(x, end - HEAD_LENGTH)
    points = (start, start, base, base, Point(x, end))
    return Line(link, tuple(_turned(point, is_down) for point in points), None)


def _turned(point: Point, is_down: bool) -> Point:
    """A point of an upright picture, with its axes exchanged if the picture goes to the right."""
    return point if is_down else Point(point.y, point.x)


def upright(box: Rectangle, is_down: bool) -> Rectangle:
    """A place as if the picture went down: with its axes exchanged if it goes to the right."""
    return box if is_down else Rectangle(box.top, box.left, box.height, box.width)
