"""A scene with its layout as one self-contained SVG.

It has only presentation attributes: no ids, links, scripts, fonts or style sheets, which hosts
remove or apply to other pictures. The same scene and states give the same text.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import theme as look
from .boxes import HIDDEN, LEADING, POINTS_NAME, POINTS_WORD, Arrow, Box, Frame, Scene
from .counters import Corner
from .dot import States
from .layout import Layout, Point, Route, Wiring
from .numbers import Area, around
from .numbers import placed as area
from .plain import html, line

EDGE = 6.0
"""The margin of the picture."""
BESIDE = 3.5
"""The distance of the two lines of an arrow that carries a value from its middle."""
SCALE = 1.1
"""The size at which the SVG is shown: its smallest text has 11 pixels."""
_CORNER = 5.0
"""The radius of the corners of a data edge."""
LONGEST_NUMBERS = "1, 2, 3, 4, … 5×"
"""About the longest numbers that a run gives an edge: the explorer has their places before it has
the numbers."""
DASHED = ' stroke-dasharray="5 3.5"'


def paint(drawn: Scene, placed: Layout, states: States) -> str:
    """``drawn`` as SVG. The places do not depend on the states."""
    width, height = placed.width + 2 * EDGE, placed.height + 2 * EDGE
    view = f"{-EDGE:g} {-EDGE:g} {width:.0f} {height:.0f}"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="{view}" '
        f'width="{SCALE * width:.0f}" '
        f'height="{SCALE * height:.0f}" font-family="{look.SANS}" font-size="{POINTS_WORD:g}">',
        f"<title>{html(line(drawn.name, 80))}</title>",
        f"<desc>{html(described(drawn))}</desc>",
    ]
    for place, frame in enumerate(drawn.frames):
        out.append(_frame(frame, *placed.frames[f"cluster_{place}"]))
    seen = list(_routed(drawn, placed))
    # Data below control, both below the boxes: a line that crosses a box is hidden by it.
    out += _wiring(placed.wiring)
    for arrow, route in sorted(seen, key=lambda pair: pair[0].line not in ("data", "wire")):
        out += _arrow(arrow, route, states.get(arrow.way))
    for place, box in enumerate(drawn.boxes):
        out += _box(box, placed.boxes[f"n{place}"], states.get(box.id))
    for arrow, route in seen:
        out += _label(arrow, route)
    out += [
        _text(place.x, place.y, text, f'text-anchor="{anchor}" fill="{look.DATA}"')
        for place, anchor, text in placed.wiring.labels
    ]
    out += _path(drawn, placed, seen, states)
    return "\n".join([*out, "</svg>", ""])


def described(drawn: Scene) -> str:
    """The picture in one sentence, for screen readers."""
    steps = [
        f"{line(box.word, 24)} {box.name}".strip() for box in drawn.boxes if box.step is not None
    ]
    return line(
        f"{drawn.name}: "
        f"{', then '.join(steps[:20])}{f' and {len(steps) - 20} more' if steps[20:] else ''}",
        600,
    )


def _frame(frame: Frame, corner: Point, far: Point) -> str:
    hue = look.kind(frame.word).hue
    return (
        f'<rect x="{corner.x:.1f}" y="{corner.y:.1f}" width="{far.x - corner.x:.1f}" '
        f'height="{far.y - corner.y:.1f}" '
        f'rx="14" fill="{hue}" fill-opacity="0.11" stroke="{hue}" stroke-opacity="0.6"/>'
    )


def _arrow(arrow: Arrow, route: Route, taken: Corner | None) -> Iterator[str]:
    if arrow.carries:
        yield from _line(route, -BESIDE, look.LINE, "")
        yield from _line(route, BESIDE, look.DATA, DASHED)
    elif arrow.line in ("data", "wire"):
        yield from _line(route, 0, look.DATA, DASHED)
    elif taken:
        yield from _line(route, 0, taken.look.color, "", taken.look.ring)
    else:
        yield from _line(route, 0, look.LINE, DASHED if arrow.line == "exit" else "")


def _line(route: Route, aside: float, color: str, dashes: str, thick: float = 1.3) -> Iterator[str]:
    first, *rest = (Point(p.x + aside, p.y) for p in route.points)
    tip = Point(route.tip.x + aside, route.tip.y)
    path = f"M{first.x:.1f} {first.y:.1f}C" + " ".join(f"{p.x:.1f} {p.y:.1f}" for p in rest)
    yield f'<path d="{path}" fill="none" stroke="{color}" stroke-width="{thick:g}"{dashes}/>'
    yield _head(min(first, rest[-1], key=lambda p: _far(p, tip)), tip, color)


def _head(base: Point, tip: Point, color: str) -> str:
    length = _far(base, tip) ** 0.5 or 1.0
    dx, dy = 3.2 * (tip.x - base.x) / length, 3.2 * (tip.y - base.y) / length
    wings = f"{base.x - dy:.1f},{base.y + dx:.1f} {base.x + dy:.1f},{base.y - dx:.1f}"
    return f'<polygon points="{tip.x:.1f},{tip.y:.1f} {wings}" fill="{color}"/>'


def _wiring(wiring: Wiring) -> Iterator[str]:
    for points in wiring.lines:
        yield (
            f'<path d="{_corners(points)}" fill="none" stroke="{look.DATA}" '
            f'stroke-width="1.3"{DASHED}/>'
        )
    for base, tip in wiring.heads:
        yield _head(base, tip, look.DATA)
    for dots, color in ((wiring.dots, look.DATA), (wiring.joints, look.LINE)):
        for dot in dots:
            yield (
                f'<path d="M{dot.x:.1f} {dot.y:.1f}h0" stroke="{color}" stroke-width="5" '
                f'stroke-linecap="round"/>'
            )


def _corners(points: tuple[Point, ...]) -> str:
    """A path of straight lines with round corners."""
    path = f"M{points[0].x:.1f} {points[0].y:.1f}"
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        for point, begin in ((before, True), (after, False)):
            length = _far(point, corner) ** 0.5 or 1.0
            part = min(_CORNER, length / 2) / length
            x, y = corner.x + part * (point.x - corner.x), corner.y + part * (point.y - corner.y)
            path += (
                f"L{x:.1f} {y:.1f}Q{corner.x:.1f} {corner.y:.1f}" if begin else f" {x:.1f} {y:.1f}"
            )
    return f"{path}L{points[-1].x:.1f} {points[-1].y:.1f}"


def _routed(drawn: Scene, placed: Layout) -> Iterator[tuple[Arrow, Route]]:
    frames = {
        frame.id: placed.frames[f"cluster_{place}"] for place, frame in enumerate(drawn.frames)
    }
    middles = {box.id: placed.boxes[f"n{place}"] for place, box in enumerate(drawn.boxes)}
    for place, arrow in enumerate(drawn.arrows):
        route = placed.routes.get(f"e{place}")  # the others are in the wiring
        if arrow.line in HIDDEN or route is None:
            continue
        if arrow.line == "control" and arrow.leaves and route.text is None:
            route = _straight(route, middles[arrow.head].x, *frames[arrow.leaves])
        yield arrow, route


def _straight(route: Route, x: float, corner: Point, far: Point) -> Route:
    """Straight down from a frame to the next box: a slanted line would seem to come from one of the
    boxes inside."""
    y, tip = far.y, Point(x, route.tip.y)
    base = Point(x, route.tip.y - 7)
    if not corner.x + 14 < x < far.x - 14 or base.y <= y:
        return route
    label = route.label and Point(x, route.label.y)
    return Route((Point(x, y), Point(x, y), base, base), tip, label)


def _label(arrow: Arrow, route: Route) -> Iterator[str]:
    text, x, y, anchor = _label_place(arrow, route)
    if not text:
        return
    data = arrow.carries or arrow.line in ("data", "wire")
    color = f'fill="{look.DATA}"' if data else f'fill="{look.LINE}" font-style="italic"'
    yield f'<text x="{x:.1f}" y="{y + 3.4:.1f}" text-anchor="{anchor}" {color}>{html(text)}</text>'


def _label_place(arrow: Arrow, route: Route) -> tuple[str, float, float, str]:
    """The label of an edge, empty if it has none; its middle or its start, and which of the two
    that is."""
    text = (arrow.label or arrow.carries) if route.text is None else route.text
    if not text or route.label is None:
        return "", 0, 0, "middle"
    if arrow.carries or arrow.line == "again":  # to the right of the line
        return text, max(p.x for p in route.points) + BESIDE + 5, route.label.y, "start"
    return (
        text,
        route.label.x + (6 if arrow.way and route.text is None else 2),
        route.label.y,
        "middle",
    )


def _covered(drawn: Scene, placed: Layout, seen: list[tuple[Arrow, Route]]) -> Iterator[Area]:
    """What the numbers of the edges must not cover: the boxes and the labels."""
    for n, box in enumerate(drawn.boxes):
        yield around(placed.boxes[f"n{n}"], box.width, box.height)
    for arrow, route in seen:
        text, x, y, anchor = _label_place(arrow, route)
        width = look.width(text, POINTS_WORD)
        if text:
            yield around(Point(x + (width / 2 if anchor == "start" else 0), y), width, 12)


def _path(
    drawn: Scene, placed: Layout, seen: list[tuple[Arrow, Route]], states: States
) -> Iterator[str]:
    """The numbers on the edges that were taken."""
    steps = [(arrow, route, states[arrow.way]) for arrow, route in seen if arrow.way in states]
    full = list(_covered(drawn, placed, seen)) if steps else []
    for _, route, taken in steps:
        found = area(taken.words, route, full)
        full.append(found)
        middle = (found.left + found.right) / 2
        yield (
            f'<rect x="{found.left:.1f}" y="{found.top:.1f}" '
            f'width="{found.right - found.left:.1f}" height="15" '
            f'rx="7.5" fill="{taken.look.color}"/>'
        )
        yield _text(
            middle,
            found.bottom - 4,
            taken.words,
            'fill="#ffffff" font-weight="bold" text-anchor="middle"',
        )


def edge_places(drawn: Scene, placed: Layout) -> Iterator[tuple[str, Point]]:
    """The keys of a graph's edges, each with the middle of the number that a run gives it."""
    seen = list(_routed(drawn, placed))
    full = list(_covered(drawn, placed, seen))
    for arrow, route in seen:
        if arrow.way:
            found = area(LONGEST_NUMBERS, route, full)
            full.append(found)
            yield arrow.way, Point((found.left + found.right) / 2, (found.top + found.bottom) / 2)


def _box(box: Box, middle: Point, corner: Corner | None) -> Iterator[str]:
    if box.small:
        yield from _small(box, middle)
        return
    kind = look.kind(box.word)
    x, y = middle.x - (box.width + box.stack) / 2, middle.y - (box.height - box.stack) / 2
    ring, thick = (corner.look.color, corner.look.ring) if corner else (kind.ink, 1.1)
    shape = f'width="{box.width:.1f}" height="{box.height:.1f}" rx="8" fill="{kind.fill}"'
    yield f"<g><title>{html(tooltip(box, corner))}</title>"
    for back in (6, 3) if box.many else ():
        yield (
            f'<rect x="{x + back:.1f}" y="{y - back:.1f}" {shape} stroke="{kind.ink}" '
            f'stroke-opacity="0.6"/>'
        )
    yield f'<rect x="{x:.1f}" y="{y:.1f}" {shape} stroke="{ring}" stroke-width="{thick:g}"/>'
    yield _text(x + 12, y + 17, box.kicker, f'fill="{kind.ink}"')
    for number, one in enumerate(box.lines):
        bold = f'fill="{look.TEXT}" font-weight="bold" font-size="{POINTS_NAME:g}"'
        yield _text(x + 12, y + 34 + LEADING * number, one, bold)
    if box.note:
        yield _text(
            x + 12,
            y + (34 + LEADING * len(box.lines) if box.name else 33),
            box.note,
            'fill="#4a4a4a"',
        )
    if corner:
        weight = f'fill="{corner.look.ink}" font-weight="bold" text-anchor="end"'
        yield _text(x + box.width - 11, y + 17, corner.words, weight)
        yield from _bar(x + 12, y + box.height - 4.5, box.width - 24, corner)
    yield "</g>"


def _small(box: Box, middle: Point) -> Iterator[str]:
    kind, x, y = look.kind(box.word), middle.x - box.width / 2, middle.y - box.height / 2
    yield (
        f'<g><title>{html(box.kicker)}</title><rect x="{x:.1f}" y="{y:.1f}" '
        f'width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="13" fill="{kind.fill}" stroke="{kind.ink}" '
        f'stroke-width="1.1"/>'
    )
    yield _text(
        middle.x,
        middle.y + 3.5,
        box.kicker,
        f'fill="{kind.ink}" font-weight="bold" text-anchor="middle"',
    )
    yield "</g>"


def _bar(x: float, y: float, room: float, corner: Corner) -> Iterator[str]:
    if corner.shares is None:
        return
    done, lost = (room * share for share in corner.shares)
    for start, length, color in (
        (0.0, room, "#00000022"),
        (0.0, done, "#27894f"),
        (done, lost, "#d64545"),
    ):
        yield (
            f'<rect x="{x + start:.1f}" y="{y:.1f}" width="{length:.1f}" height="2.5" '
            f'fill="{color}"/>'
        )


def _text(x: float, y: float, text: str, more: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{html(text)}</text>' if text else ""


def tooltip(box: Box, corner: Corner | None) -> str:
    """The full texts of a box and its state."""
    return "\n".join(filter(None, (box.tooltip or box.kicker, corner.look.word if corner else "")))


def _far(a: Point, b: Point) -> float:
    return (a.x - b.x) ** 2 + (a.y - b.y) ** 2
