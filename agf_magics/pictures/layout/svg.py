"""A scene with its layout as one self-contained SVG.

Colours are presentation attributes for a light page; a class names their role, and one style sheet
makes the picture dark where the reader's system is. A host that strips style sheets keeps the light
one. There are no links, scripts and fonts. The same scene and states give the same text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import hypot
from typing import NamedTuple

from .. import theme as look
from ..corners import Corner, count_of, is_counted
from ..plain import html, line
from ..scene.boxes import (
    GAP,
    GLYPH,
    INPUT,
    LABEL_LEADING,
    LEADING,
    NAME,
    NAME_LEADING,
    OPENING,
    OPENS_SIGN,
    PADDING,
    SMALL,
    TITLE,
    chip_width,
    measured,
)
from ..scene.boxes import Measured as Size
from ..scene.scene import VALUES, Box, Frame, Scene, Tags
from .arrange import Arranged
from .arrow_ends import WING, case_pill, head_area, pills_of, shortened, state_pill
from .dot import Layout, Line, Rectangle
from .edge_numbers import (
    Area,
    Covered,
    Edge,
    Lines,
    NumberPlace,
    Room,
    in_turns,
    placed,
    placed_beside,
    placed_far,
)
from .graphviz import Point
from .label_places import label_area, obstacles

EDGE = 10.0
"""Pixels of the margin of the picture: a state stands above the border of its box."""
NUMBERED_EDGE = 24.0
"""Pixels of the margin of a picture whose edges get numbers: in a narrow one, numbers stand there."""
SEARCHES = (
    *((placed, text) for text in ("1, 2, 3, 4, … 500×", "10, 20", "500×", "10")),
    *((search, text) for search in (placed_beside, placed_far) for text in ("500×", "10")),
    *((search, "1") for search in (placed, placed_beside, placed_far)),
)
"""The searches for a place at an edge, each for a text, until one finds a place: the explorer needs the
places before a run has the numbers. One digit does not hold how often an edge was taken."""
BASELINE = 3.0
"""Pixels from the middle of a small text down to the line on which its letters stand."""
DOTTED = ' stroke-dasharray="2 2"'
DASHED = ' stroke-dasharray="4 3"'
BOLD = ' font-weight="bold"'

States = Mapping[str, Corner]
"""The states of boxes and edges, by the ids of the boxes and the keys of a graph's edges."""


def paint(drawn: Scene, arranged: Arranged, states: States) -> str:
    """``drawn`` as SVG. The places do not depend on the states."""
    return "\n".join([*_Painter(drawn, arranged, states).picture(), ""])


def described(drawn: Scene) -> str:
    """The picture in one sentence, for screen readers."""
    steps = [
        f"{line(box.word, 24)} {box.name}".strip() for box in drawn.every if box.step is not None
    ]
    more = f" and {len(steps) - 20} more" if steps[20:] else ""
    return line(f"{drawn.name}: {', then '.join(steps[:20])}{more}", 600)


class EdgePlace(NamedTuple):
    """What a page needs to mark an edge that a run took."""

    key: str
    """The key of the edge, `Link.way`."""
    line: int
    """The number of the edge's line among the visible lines of the picture."""
    place: NumberPlace | None = None
    """Where the numbers of the edge stand; None if there is no room for them."""
    room: int = 0
    """The number of characters for which there is room."""


def edge_places(drawn: Scene, arranged: Arranged) -> list[EdgePlace]:
    """The places of a graph's edges."""
    lines = _painted_lines(arranged.layout)
    ways = [number for number, one in enumerate(lines) if one.link.way]

    def choose(order: Sequence[int]) -> dict[int, EdgePlace]:
        numbered = [(number, lines[number]) for number in order]
        found = _edge_places(numbered, drawn, arranged.layout)
        return {edge.line: edge for edge in found}

    places = in_turns(ways, choose, lambda edge: edge.place is None)
    return [places[number] for number in ways]


def margin(layout: Layout) -> float:
    """The pixels around the boxes of a picture."""
    return NUMBERED_EDGE if any(drawn.link.way for drawn in layout.lines) else EDGE


def _painted_lines(layout: Layout) -> list[Line]:
    return [one for one in layout.lines if one.link.kind != "hold"]


def _edge_places(
    numbered: Sequence[tuple[int, Line]], drawn: Scene, layout: Layout
) -> Iterator[EdgePlace]:
    """The places of these lines, of which the first ones choose first."""
    room = _room(drawn, layout)
    for number, drawn_line in numbered:
        found = EdgePlace(drawn_line.link.way, number)
        for search, text in SEARCHES:
            if place := search(text, _edge(drawn_line), room):
                room.taken.add(place.area)
                found = found._replace(place=place, room=len(text))
                break
        yield found


def dark_style(drawn: Scene) -> str:
    """The style sheet that makes the picture a dark one."""
    words = {box.word for box in drawn.every} | {"match"}
    return look.dark_rules(map(look.look_number, words))


class _Painter:
    """Paints the parts of a scene at the places of its layout; each method gives lines of SVG."""

    def __init__(self, drawn: Scene, arranged: Arranged, states: States) -> None:
        self.drawn = drawn
        self.layout = arranged.layout
        self.states = states
        self.tags = arranged.tags
        self.names = {box.id: box.name for box in drawn.every}
        words = {id: corner.words for id, corner in states.items()}
        self.pills = pills_of(drawn, self.layout, words)

    def picture(self) -> Iterator[str]:
        """All parts: what comes later lies above what comes before."""
        edge = margin(self.layout)
        width = self.layout.width + 2 * edge
        height = self.layout.height + 2 * edge
        size = f'width="{width:.0f}" height="{height:.0f}"'
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" '
            f'viewBox="{-edge:g} {-edge:g} {width:.0f} {height:.0f}" {size} '
            f'font-family="{look.SANS}" font-size="{SMALL:g}">'
        )
        yield f"<title>{html(line(self.drawn.name, 80))}</title>"
        yield f"<desc>{html(described(self.drawn))}</desc>"
        yield f"<style>@media (prefers-color-scheme:dark){{{dark_style(self.drawn)}}}</style>"
        yield f'<rect class="p" x="{-edge:g}" y="{-edge:g}" {size} fill="{look.LIGHT.page}"/>'
        frames = [box for box in self.drawn.frames if box.id in self.layout.boxes]
        for frame in frames:
            yield from self.frame(frame)
        for drawn_line in self.layout.lines:
            yield from self.line(drawn_line)
        for frame in frames:  # above the lines, with a border of the frame's colour
            yield from self.title(frame)
        for box in self.drawn.boxes:
            if box.id in self.layout.boxes:
                yield from self.box(box)
        for drawn_line in self.layout.lines:
            yield from self.label(drawn_line)
        yield from self.numbers()
        yield "</svg>"

    def frame(self, frame: Frame) -> Iterator[str]:
        place = self.layout.boxes[frame.id]
        number = look.look_number(frame.word)
        colours = look.colours(look.kind(frame.word))
        corner = self.states.get(frame.id)
        border = _border(corner, colours.border, "")
        role = f"f{number}" if corner else f"f{number} s{number}"
        yield (
            f'{self.opened("frame", frame)}<rect class="{role}" {_sized(place, 10)} '
            f'fill="{colours.frame}"{border}/></g>'
        )

    def title(self, frame: Frame) -> Iterator[str]:
        """The name of a frame with its chips, and below them what it does."""
        place = self.layout.boxes[frame.id]
        number = look.look_number(frame.word)
        size = self.size(frame)
        colours = look.colours(look.kind(frame.word))
        halo = f' paint-order="stroke" stroke="{colours.frame}" stroke-width="4"'
        yield self.opened("title", frame)
        x = place.left + 12
        y = place.top + 18
        classes = f"i{number} h{number}"
        yield _text(
            x, y, size.names[0], colours.ink, classes, f'{BOLD} font-size="{TITLE:g}"{halo}'
        )
        x += look.width(size.names[0], TITLE, bold=True) + GAP
        yield from self.chips(x, y, size.rows[0], frame, f" h{number}", halo)
        if size.height > LEADING:
            left = place.left + 12
            yield _lines(left, [y + 14])
            yield _text(left, y + 14, "".join(size.does), look.LIGHT.dim, f"d h{number}", halo)
            yield "</g>"
        yield from _state(place, self.states.get(frame.id))
        yield "</g>"

    def box(self, box: Box) -> Iterator[str]:
        place = self.layout.boxes[box.id]
        number = look.look_number(box.word)
        size = self.size(box)
        colours = look.colours(look.kind(box.word))
        corner = self.states.get(box.id)
        radius: float = 14 if box.word == INPUT else 6
        if box.word == "end":
            radius = place.height / 2
        yield self.opened("box", box)
        fill = f'fill="{colours.box}"'
        role = f"b{number} s{number}"
        for behind in (6, 3) if box.many else ():
            moved = place._replace(left=place.left + behind, top=place.top - behind)
            border = f'stroke="{colours.border}" stroke-opacity="0.7"'
            yield f'<rect class="{role}" {fill} {_sized(moved, radius)} {border}/>'
        # A state has one colour in both themes, so its border has no class.
        role = f"b{number}" if corner else role
        border = _border(corner, colours.border, ' stroke-width="1.2"')
        yield f'<rect class="{role}" {fill} {_sized(place, radius)}{border}/>'
        yield from self.terminal(box, place) if box.word == "end" else self.texts(box, place, size)
        yield from _bar(place, corner)
        yield from _state(place, corner)
        if box.case:
            yield from _case(box.case, place)
        yield "</g>"

    def terminal(self, box: Box, place: Rectangle) -> Iterator[str]:
        """The name of a terminal in its middle."""
        ink = look.kind(box.word).ink
        role = f"i{look.look_number(box.word)}"
        middle = place.left + place.width / 2
        more = f'{BOLD} text-anchor="middle"'
        yield _text(middle, place.top + 16, box.name, ink, role, more)

    def texts(self, box: Box, place: Rectangle, size: Size) -> Iterator[str]:
        """The glyph and the name of a box, what it does, and its chips."""
        kind = look.kind(box.word)
        ink = f"i{look.look_number(box.word)}"
        x = place.left + PADDING
        y = place.top + 20
        yield _text(x, y, kind.glyph, kind.ink, ink, f' font-size="{NAME:g}"')
        for row, name in enumerate(size.names):
            more = f'{BOLD} font-size="{NAME:g}"'
            yield _text(x + GLYPH, y + NAME_LEADING * row, name, look.LIGHT.text, "t", more)
        if box.opens:
            right = place.left + place.width - PADDING
            more = f'{BOLD} font-size="{OPENING:g}" text-anchor="end"'
            yield _text(right, y, OPENS_SIGN, kind.ink, ink, more)
        y += NAME_LEADING * (len(size.names) - 1)
        is_input = box.word == INPUT
        count = len(size.does)
        first = y + LEADING
        below = [
            first + LEADING * row + 2 * (row >= count) for row in range(count + len(size.rows))
        ]
        if below:
            yield _lines(x, below)
        for text in size.does:
            y += LEADING
            fill = look.LIGHT.value if is_input else look.LIGHT.dim
            yield _text(x, y, text, fill, "v" if is_input else "d")
        for place_of_row, row_of_chips in enumerate(size.rows):
            y += LEADING + (2 if place_of_row == 0 else 0)
            yield from self.chips(x, y, row_of_chips, box)
        if below:
            yield "</g>"

    def chips(
        self, x: float, y: float, chips: tuple[str, ...], box: Box, more: str = "", halo: str = ""
    ) -> Iterator[str]:
        """The values that a box reads from far away (``◂``), writes (``→``), or its edges as tags,
        beside each other."""
        tags: Tags = self.tags.get(box.id, {})
        for chip in chips:
            name = chip[2:]
            if chip[0] == "◂":
                source = tags.get(name, "")
                where = f"{name}, from {self.names.get(source, '')}"
                wide = chip_width(chip) - GAP
                yield (
                    f'<g class="tag" data-from="{html(line(source, 500))}">'
                    f"<title>{html(where)}</title>"
                    f'<rect class="c" x="{x:.1f}" y="{y - 10.5:.1f}" width="{wide:.1f}" '
                    f'height="14" rx="4" fill="{look.LIGHT.chip}"/>'
                )
                middle = ' text-anchor="middle"'
                yield _text(x + wide / 2, y, chip, look.LIGHT.value, "v", middle) + "</g>"
            elif chip[0] == "→":
                yield _text(x, y, chip, look.LIGHT.value, "v" + more, halo)
            else:
                yield _text(x, y, chip, look.LIGHT.dim, "d" + more, halo)
            x += chip_width(chip)

    def line(self, drawn_line: Line) -> Iterator[str]:
        """A line with its head; an edge that was taken has the colour of that state."""
        link = drawn_line.link
        *curve, tip = drawn_line.points
        if link.kind == "hold":
            return
        width = 1.3
        if corner := self.states.get(link.way):
            color, line_role, head_role = corner.look.color, "", ""
            width = corner.look.ring
        elif link.kind in VALUES:
            color, line_role, head_role = look.LIGHT.value, "w", "v"
        else:
            color, line_role, head_role = look.LIGHT.line, "l", "a"
        path = f"M{curve[0].x:.1f} {curve[0].y:.1f}C"
        path += " ".join(f"{point.x:.1f} {point.y:.1f}" for point in curve[1:])
        dashes = DASHED if link.kind in ("limit", "back") else ""
        yield (
            f'<path class="{line_role}" d="{path}" fill="none" stroke="{color}" '
            f'stroke-width="{width:g}"{dashes}/>'
        )
        if head := shortened(curve[-1], tip, self.pills):
            yield _head(*head, color, head_role)

    def label(self, drawn_line: Line) -> Iterator[str]:
        link = drawn_line.link
        area = label_area(drawn_line)
        if area is None:
            return
        is_value = link.kind in VALUES
        fill, role = (look.LIGHT.value, "v") if is_value else (look.LIGHT.dim, "d")
        if (end := drawn_line.leader) is not None:
            border = area.towards(end)  # from its middle the line would strike through the letters
            way = f"M{end.x:.1f} {end.y:.1f}L{border.x:.1f} {border.y:.1f}"
            color, of_line = (look.LIGHT.value, "w") if is_value else (look.LIGHT.line, "l")
            yield f'<path class="{of_line}" d="{way}" fill="none" stroke="{color}"{DOTTED}/>'
        if drawn_line.is_under_label:
            plate = _rectangle(area)
            yield f'<rect class="p" {_sized(plate, 3)} fill="{look.LIGHT.page}"/>'
        halo = f'paint-order="stroke" stroke="{look.LIGHT.page}" stroke-width="3"'
        more = f' text-anchor="middle" {halo}'
        texts = link.label.split("\n")
        first = area.middle.y + BASELINE - LABEL_LEADING * (len(texts) - 1) / 2
        for row, text in enumerate(texts):
            yield _text(area.middle.x, first + LABEL_LEADING * row, text, fill, f"{role} h", more)

    def numbers(self) -> Iterator[str]:
        """The numbers of the rounds on the edges that were taken. If those of one edge have no room,
        each edge has how often it was taken: a picture has one kind of numbers."""
        taken = [
            (drawn_line, corner)
            for drawn_line in self.layout.lines
            if drawn_line.link.way and (corner := self.states.get(drawn_line.link.way))
        ]
        shown = self._placed_numbers([(one, corner, corner.words) for one, corner in taken])
        if len(shown) < len(taken) or any(is_counted(corner.words) for _, corner in taken):
            counts = [(one, corner, count_of(corner.words)) for one, corner in taken]
            shown = self._placed_numbers(counts)
        for text, place, corner in shown:
            yield from _number(text, place, corner.look)

    def _placed_numbers(
        self, numbers: Iterable[tuple[Line, Corner, str]]
    ) -> list[tuple[str, NumberPlace, Corner]]:
        """The texts that have room at their edges, each with its place."""
        room = _room(self.drawn, self.layout)
        for drawn_line in self.layout.lines:  # the heads, where the states of this run move them
            base, tip = drawn_line.points[-2:]
            if head := shortened(base, tip, self.pills):
                room.taken.add(head_area(*head))
        found = []
        for drawn_line, corner, text in numbers:
            searches = (placed, placed_beside, placed_far)
            places = (search(text, _edge(drawn_line), room) for search in searches)
            if place := next(filter(None, places), None):
                room.taken.add(place.area)
                found.append((text, place, corner))
        return found

    def opened(self, role: str, box: Box) -> str:
        """The beginning of a group with its tooltip."""
        title = html(tooltip(box, self.states.get(box.id)))
        step = html(line(box.id, 500))
        return f'<g class="{role}" data-step="{step}"><title>{title}</title>'

    def size(self, box: Box) -> Size:
        return measured(box, self.tags.get(box.id, {}))


def _lines(x: float, heights: Sequence[float]) -> str:
    """The beginning of the group of the lines below a name. The page writes what a running step does
    in their place, so the group says their left end and the height of each."""
    places = " ".join(f"{number:.1f}" for number in (x, *heights))
    return f'<g class="more" data-lines="{places}">'


def tooltip(box: Box, corner: Corner | None) -> str:
    """The full texts of a box and its state."""
    return "\n".join(filter(None, (box.tooltip or box.name, corner.look.word if corner else "")))


def _edge(drawn_line: Line) -> Edge:
    return Edge(drawn_line.points[:-1], label_area(drawn_line))


def _room(drawn: Scene, layout: Layout) -> Room:
    """The room for the numbers on edges, before there are any."""
    edge = margin(layout)
    picture = Area(-edge, -edge, layout.width + edge, layout.height + edge)
    lines = Lines(one.points[:-1] for one in _painted_lines(layout))
    labels = Covered(filter(None, map(label_area, layout.lines)))
    return Room(picture, Covered(obstacles(drawn, layout)), lines, labels)


def _number(text: str, place: NumberPlace, state: look.State) -> Iterator[str]:
    area = place.area
    if place.leader is not None:
        way = f"M{place.leader.x:.1f} {place.leader.y:.1f}L{area.middle.x:.1f} {area.middle.y:.1f}"
        yield f'<path d="{way}" fill="none" stroke="{state.color}"{DOTTED}/>'
    yield f'<rect {_sized(_rectangle(area), 7.5)} fill="{state.ink}"/>'
    yield _text(area.middle.x, area.bottom - 4, text, "#ffffff", "", f'{BOLD} text-anchor="middle"')


def _state(place: Rectangle, corner: Corner | None) -> Iterator[str]:
    """The state of a step as a pill on the upper border, at the right: it moves nothing."""
    if corner is None:
        return
    pill = state_pill(place, corner.words)
    yield f'<rect {_sized(pill, 8)} fill="{corner.look.ink}"/>'
    more = f'{BOLD} text-anchor="middle"'
    yield _text(pill.left + pill.width / 2, place.top + 3, corner.words, "#ffffff", "", more)


def _case(case: str, place: Rectangle) -> Iterator[str]:
    """The condition of a case as a pill on the upper border, at the left."""
    number = look.look_number("match")
    colours = look.colours(look.kind("match"))
    pill = case_pill(place, case)
    shape = f'{_sized(pill, 8)} fill="{colours.box}" stroke="{colours.border}"'
    yield f'<rect class="b{number} s{number}" {shape}/>'
    yield _text(place.left + 14, place.top + 3, case, colours.ink, f"i{number}")


def _bar(place: Rectangle, corner: Corner | None) -> Iterator[str]:
    """The shares that are ok and that failed, as a bar above the lower border of a box."""
    if corner is None or corner.shares is None:
        return
    room = place.width - 2 * PADDING
    done, lost = (room * share for share in corner.shares)
    parts = ((0.0, room, "#00000022"), (0.0, done, "#27894f"), (done, lost, "#d64545"))
    for start, length, color in parts:
        bar = Rectangle(place.left + PADDING + start, place.top + place.height - 4.5, length, 2.5)
        yield f'<rect {_sized(bar, 0)} fill="{color}"/>'


def _border(corner: Corner | None, color: str, width: str) -> str:
    if corner is None:
        return f' stroke="{color}"{width}'
    return f' stroke="{corner.look.color}" stroke-width="{corner.look.ring:g}"'


def _rectangle(area: Area) -> Rectangle:
    return Rectangle(area.left, area.top, area.right - area.left, area.bottom - area.top)


def _sized(place: Rectangle, rounded: float) -> str:
    return (
        f'x="{place.left:.1f}" y="{place.top:.1f}" width="{place.width:.1f}" '
        f'height="{place.height:.1f}" rx="{rounded:g}"'
    )


def _head(base: Point, tip: Point, color: str, role: str) -> str:
    length = hypot(tip.x - base.x, tip.y - base.y) or 1.0
    dx, dy = WING * (tip.x - base.x) / length, WING * (tip.y - base.y) / length
    wings = f"{base.x - dy:.1f},{base.y + dx:.1f} {base.x + dy:.1f},{base.y - dx:.1f}"
    return f'<polygon class="{role}" points="{tip.x:.1f},{tip.y:.1f} {wings}" fill="{color}"/>'


def _text(x: float, y: float, text: str, fill: str, role: str, more: str = "") -> str:
    """A text. ``role``: its class. ``more``: further attributes."""
    if not text:
        return ""
    return f'<text class="{role}" x="{x:.1f}" y="{y:.1f}" fill="{fill}"{more}>{html(text)}</text>'
