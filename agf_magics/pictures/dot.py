"""A scene as graphviz text, and the places that graphviz gives its boxes and lines.

Graphviz does not know the fonts of a page: boxes have a fixed size, and room for a title or a label is
a text of so many letters of Courier. So every graphviz finds the same places, whatever its fonts.

Which of several layouts a picture has: down, to the right, or a chain in lines like a text.

Of those that can be read in the room of the page it is the lowest; to the right only if that saves a
quarter of the height. If none can be read and the flow is one chain, the chain is cut into lines (or
columns), which fill the room as the lines of a text fill a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import ceil
from typing import Literal, NamedTuple

from . import counters as look
from .boxes import (
    PILL,
    SMALL,
    STACK,
    Box,
    Frame,
    Link,
    Measured,
    Scene,
    Tags,
    first_boxes,
    last,
    measured,
    within,
)
from .counters import Corner
from .edges import wired
from .layout import NoPicture, Point, read_edges, read_places, run_graphviz
from .plain import line

WEIGHT = {"then": 8, "hold": 8, "flow": 8, "value": 2, "back": 0, "limit": 1}
BESIDE = frozenset({"parallel", "match", "conditional"})
"""Frames whose boxes stand side by side in the order of the text."""
MARGIN = 12
"""Of a frame, around its parts."""


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
    """The middle of its label."""


class Layout(NamedTuple):
    width: float
    height: float
    boxes: Mapping[str, Rectangle]
    """By the ids of boxes and frames."""
    lines: tuple[Line, ...]
    is_down: bool
    """Whether it goes from top to bottom; else from left to right."""


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
            (x, y), size = middles[f"n{number}"], text.sizes[box.id]
            stack, pill = STACK * box.many, PILL * bool(box.case)
            left, top = x - (size.width + stack) / 2, y - (size.height - stack - pill) / 2
            boxes[box.id] = Rectangle(left, top, size.width, size.height)
    lines = []
    for name, points, label in read_edges(answer):
        link = text.links[int(name[1:])]
        line = Line(link, points or _direct(link, boxes, is_down), label)
        lines.append(_straight(line, boxes, text.frames, is_down))
    return Layout(width, height, boxes, tuple(lines), is_down)


class _Text:
    """The graphviz text. Boxes are ``n0, n1, …`` and frames ``cluster_0, …`` in the order of
    `within`, lines ``e0, …``: the id of a step may contain any text."""

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
        self.links = [
            link for link in links if link.tail in self.number and link.head in self.number
        ]
        self.frames = {box.id for box in self.every if isinstance(box, Frame)}
        self.half = 1 + bool(self.frames)
        """With frames a rank is half of the distance of two boxes, and a frame needs three halves."""
        between = (0.3 if is_down else 0.42) / self.half
        self.text = "\n".join(
            [
                f"digraph {labels.name if labels else ''} {{",
                f"graph [rankdir={'TB' if is_down else 'LR'}, compound=true, newrank=true, "
                f"nodesep={0.26 if is_down else 0.2}, ranksep={between:.3f}, margin=0, pad=0, "
                "splines=true, nslimit=4, nslimit1=4, labeljust=l, fontname=Courier, fontsize=11]",
                'node [shape=box, fixedsize=true, label=""]',
                "edge [arrowsize=0.7, fontname=Courier, fontsize=9]",
                *(text for part in parts for text in self.part(part)),
                *(text for place, link in enumerate(self.links) for text in self.link(place, link)),
                *self.rows(),
                "}",
            ]
        )

    def part(self, box: Box) -> Iterator[str]:
        size, number = self.sizes[box.id], self.number[box.id]
        if not isinstance(box, Frame):
            width = size.width + STACK * box.many
            height = size.height + STACK * box.many + PILL * bool(box.case)
            facts = [f"width={width / 72:.3f}", f"height={height / 72:.3f}"]
            facts += self.labels.box(box, size) if self.labels else []
            yield f"n{number} [{', '.join(facts)}]"
            return
        label = f'label="{_reserved(size.width, 11, 1 + bool(size.does))}"'
        shown = self.labels.frame(box, size) if self.labels else label
        yield f"subgraph cluster_{number} {{ margin={MARGIN} {shown}"
        for part in box.parts:
            yield from self.part(part)
        yield "}"

    def link(self, place: int, link: Link) -> Iterator[str]:
        before, after = self.box(link.tail), self.box(link.head)
        tails, heads = last(before), first_boxes(after)
        tail, head = self.name(tails[len(tails) // 2]), self.name(heads[len(heads) // 2])
        if link.kind == "back":
            # Written the other way round, or it would turn the frame upside down.
            if heads[0].id != tails[-1].id:
                head, tail = self.name(heads[0]), self.name(tails[-1])
                yield f"{head} -> {tail} [dir=back, weight=0, id=e{place}]"
            return
        is_framed = bool({link.tail, link.head} & self.frames)
        # One weight for all boxes with which a frame begins: a heavier line makes a chain drift.
        weight = 1 if len(tails) + len(heads) > 2 else WEIGHT[link.kind]
        length = self.half + (is_framed and link.kind != "value")
        facts = [f"id=e{place}", f"weight={weight}", f"minlen={length}"]
        facts += ["style=invis"] if link.kind == "hold" else []
        if link.label:
            room = _reserved(look.width(link.label, SMALL) + 8, 9, 1)
            facts.append(f"label={_quoted(link.label) if self.labels else _quoted(room)}")
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
        for frame in self.every:
            if isinstance(frame, Frame) and frame.word.removeprefix("agf.") in BESIDE:
                pairs = pairwise(map(self.name, frame.first))
                order = " ".join(f"{left} -> {right} [style=invis];" for left, right in pairs)
                yield f"{{rank=same {order}}}"

    def box(self, id: str) -> Box:
        return self.every[self.number[id]]

    def name(self, box: Box) -> str:
        return f"n{self.number[box.id]}"


class _Labels(NamedTuple):
    """The texts and colours of a picture that graphviz draws itself."""

    title: str
    states: Mapping[str, Corner]

    @property
    def name(self) -> str:
        return _quoted(line(self.title, 80))

    def box(self, box: Box, size: Measured) -> list[str]:
        colours, state = look.colours(look.kind(box.word)), self.states.get(box.id)
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
        if link.kind in ("value", "flow"):
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
    """A text that graphviz finds about so wide: a letter of Courier is 0.6 of its size."""
    return "\\n".join(["x" * ceil(width / (0.6 * points))] * lines)


def _direct(link: Link, boxes: Mapping[str, Rectangle], is_down: bool) -> tuple[Point, ...]:
    """A straight line from a box to another, for which graphviz found no way."""
    a, b = (_turned(boxes[id], is_down) for id in (link.tail, link.head))
    begin, end = (a.left + a.width / 2, a.top + a.height), (b.left + b.width / 2, b.top)
    return tuple(Point(*(p if is_down else p[::-1])) for p in (begin, begin, end, end, end))


def _straight(line: Line, boxes: Mapping[str, Rectangle], frames: set[str], is_down: bool) -> Line:
    """A straight line where a frame and a box are above each other: graphviz aims at a box inside."""
    link = line.link
    if link.kind not in ("then", "flow") or not frames & {link.tail, link.head}:
        return line
    a, b = (_turned(boxes[id], is_down) for id in (link.tail, link.head))
    low = max(a.left, b.left) + 14
    high = min(a.left + a.width, b.left + b.width) - 14
    only_tail = link.tail in frames and link.head not in frames
    middle = b.left + b.width / 2 if only_tail else a.left + a.width / 2
    begin, end = a.top + a.height, b.top
    if low > high or not 9 < end - begin < 70:
        return line
    x = min(max(middle, low), high)
    points = [(x, begin), (x, begin), (x, end - 7), (x, end - 7), (x, end)]
    label = line.label
    if label is not None:
        half = look.width(link.label, SMALL) / 2
        y = (begin + end) / 2
        label = Point(x + half + 6, y) if is_down else Point(y, x - 6)
    return Line(link, tuple(Point(*(p if is_down else p[::-1])) for p in points), label)


def _turned(box: Rectangle, is_down: bool) -> Rectangle:
    return box if is_down else Rectangle(box.top, box.left, box.height, box.width)


Direction = Literal["auto", "TB", "LR"]
DIRECTIONS = ("LR", "TB")

ROOM = (1200.0, 700.0)
"""The pixels of a page that a picture should fit: width and height."""
READABLE = 0.85
"""The scale at which the small texts have 9.4 pixels."""
GUTTER = 34.0
"""Between two lines of a chain."""
TURN = 16.0
"""How far a connector runs past the lines that it connects."""
RADIUS = 8.0
MOST_BOXES = 500
"""Boxes of a picture: it then takes half a second, and 1 MB of a notebook."""


class Arranged(NamedTuple):
    layout: Layout
    tags: Mapping[str, Tags]
    """The values of each box that come from far away, by the id of the box."""


def arrange(
    scene: Scene, direction: Direction = "auto", room: tuple[float, float] = ROOM
) -> Arranged:
    """The best layout of ``scene`` for a room, in pixels. Raises `NoPicture`."""
    count = sum(1 for _ in scene.boxes)
    if count > MOST_BOXES:
        raise NoPicture(f"no picture: {count:,} boxes; at most {MOST_BOXES:,} can be drawn")
    plain = {
        is_down: _arranged(scene, [scene.parts], is_down)
        for is_down in (True, False)
        if direction in ("auto", "TB" if is_down else "LR")
    }
    choices = [(1, one) for one in plain.values()]
    if max(fit(one.layout, room) for one in plain.values()) < READABLE and _is_chain(scene):
        choices.append(_best_lines(scene, plain, room))
    return min(choices, key=lambda choice: _cost(choice[0], choice[1], room))[1]


def fit(layout: Layout, room: tuple[float, float] = ROOM) -> float:
    """The scale, at most 1, at which a layout fits the room."""
    return min(1.0, room[0] / layout.width, room[1] / layout.height)


def _cost(count: int, arranged: Arranged, room: tuple[float, float]) -> tuple[float, int, float]:
    layout = arranged.layout
    scale = fit(layout, room)
    height = layout.height * scale * (1.0 if layout.is_down else 1.33)
    return (0.0 if scale >= READABLE else 1 - scale), count, height


def _arranged(scene: Scene, chunks: Sequence[Sequence[Box]], is_down: bool) -> Arranged:
    links, tags = wired(scene, chunks)
    if len(chunks) == 1:
        return Arranged(laid_out(chunks[0], links, tags, is_down), tags)
    return Arranged(
        _in_lines([laid_out(c, links, tags, is_down) for c in chunks], chunks, links), tags
    )


def _is_chain(scene: Scene) -> bool:
    """Whether one part simply follows the other."""
    place = {part.id: number for number, part in enumerate(scene.parts)}
    links = {
        (place[link.tail], place[link.head])
        for link in scene.links
        if link.tail in place and link.head in place
    }
    return len(place) > 5 and links == set(pairwise(range(len(place))))


def _best_lines(
    scene: Scene, plain: dict[bool, Arranged], room: tuple[float, float]
) -> tuple[int, Arranged]:
    """A chain in so many lines that it is shrunk least, estimated from the sizes of its parts."""
    numbers = range(2, min(20, len(scene.parts)))
    estimates = [
        (min(READABLE, _estimated_fit(scene, one.layout, number, room)), -number, is_down)
        for is_down, one in plain.items()
        for number in numbers
    ]
    _, number, is_down = max(estimates)
    chunks = _split(scene, plain[is_down].layout, -number)
    return len(chunks), _arranged(scene, chunks, is_down)


def _split(scene: Scene, layout: Layout, number: int) -> list[list[Box]]:
    """The parts in at most ``number`` chunks of about the same length."""
    places = (_turned(layout.boxes[part.id], layout.is_down) for part in scene.parts)
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
        limit *= 1.03


def _estimated_fit(scene: Scene, layout: Layout, number: int, room: tuple[float, float]) -> float:
    chunks = [
        [_turned(layout.boxes[box.id], layout.is_down) for box in chunk]
        for chunk in _split(scene, layout, number)
    ]
    long = max(sum(box.height + GUTTER for box in chunk) for chunk in chunks) + GUTTER
    wide = sum(max(box.width for box in chunk) + GUTTER for chunk in chunks)
    across, along = room if layout.is_down else room[::-1]
    return min(1.0, across / wide, along / long)


def _in_lines(
    layouts: Sequence[Layout], chunks: Sequence[Sequence[Box]], links: Sequence[Link]
) -> Layout:
    """The layouts of the lines of a chain as one, with a connector from each line to the next. They
    are put side by side as columns that go down, and turned if they go to the right."""
    if not layouts[0].is_down:
        return _flipped(_in_lines(list(map(_flipped, layouts)), chunks, links))
    longest = max(one.height for one in layouts)
    boxes: dict[str, Rectangle] = {}
    lines: list[Line] = []
    at, edges = 0.0, []
    for one in layouts:
        moved = partial(_moved, at, TURN)
        boxes |= {
            id: Rectangle(box.left + at, box.top + TURN, box.width, box.height)
            for id, box in one.boxes.items()
        }
        lines += [_with_points(line, moved) for line in one.lines]
        at += one.width
        edges.append(at)
        at += GUTTER
    for (before, after), edge in zip(pairwise(chunks), edges, strict=False):
        ends = before[-1].id, after[0].id
        joining = [link for link in links if (link.tail, link.head) == ends and link.kind != "hold"]
        link = min(joining, key=lambda link: link.kind != "flow")
        way = _connector(boxes[ends[0]], boxes[ends[1]], edge + GUTTER / 2, longest)
        lines.append(Line(link._replace(label=""), _rounded(way), None))
    return Layout(at - GUTTER, longest + 2 * TURN, boxes, tuple(lines), True)


def _flipped(layout: Layout) -> Layout:
    """The same layout with its axes exchanged."""
    boxes = {id: _turned(box, False) for id, box in layout.boxes.items()}
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
    far = longest + 2 * TURN
    x, x2 = tail.left + tail.width / 2, head.left + head.width / 2
    way = [(x, tail.top + tail.height), (x, far), (middle, far), (middle, 0), (x2, 0)]
    return [Point(*corner) for corner in (*way, (x2, head.top))]


def _rounded(corners: Sequence[Point]) -> tuple[Point, ...]:
    """Straight lines as one curve with round corners, and its tip."""
    curve = [corners[0]]
    for before, corner, after in zip(corners, corners[1:], corners[2:], strict=False):
        start, end = _toward(corner, before, RADIUS), _toward(corner, after, RADIUS)
        curve += [curve[-1], start, start, corner, corner, end]
    tip = corners[-1]
    base = _toward(tip, corners[-2], 12)
    return (*curve, curve[-1], base, base, tip)


def _toward(corner: Point, other: Point, distance: float) -> Point:
    """The point at ``distance`` from a corner, at most halfway to the other one."""
    length = max(abs(other.x - corner.x) + abs(other.y - corner.y), 0.1)
    part = min(distance, length / 2) / length
    return Point(corner.x + part * (other.x - corner.x), corner.y + part * (other.y - corner.y))
