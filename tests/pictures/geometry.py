"""Finds texts of a picture that are covered, by borders, arrow heads or other texts of the SVG, and labels of which one
does not see to which line they belong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import dist, hypot
from random import Random
from typing import NamedTuple
from xml.etree import ElementTree

import agf_magics as agf
from agf_magics.flow.graph_steps import Walk
from agf_magics.flow.progress.progress import Progress
from agf_magics.flow.steps import every
from agf_magics.pictures import theme as look
from agf_magics.pictures.layout.dot import Layout
from agf_magics.pictures.scene.boxes import SMALL

SVG = "{http://www.w3.org/2000/svg}"
ASCENT, DESCENT = 0.72, 0.18
"""The shares of a font's size that letters fill above and below the line of a text."""
PLATE = 7.0
"""The largest height above that of the text at which a filled rectangle counts as the text's own plate, not as a
box."""
TOUCH = 0.5
"""The pixels by which two things may overlap, because the SVG rounds to tenths."""


class Area(NamedTuple):
    """A rectangle in pixels of the picture. The vertical axis points down."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Area) -> bool:
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        return across > TOUCH and down > TOUCH

    def holds(self, other: Area) -> bool:
        left, top = self.left - TOUCH, self.top - TOUCH
        return left <= other.left and top <= other.top and self.holds_end(other)

    def holds_end(self, other: Area) -> bool:
        return other.right <= self.right + TOUCH and other.bottom <= self.bottom + TOUCH

    def grown(self, by: float) -> Area:
        return Area(self.left - by, self.top - by, self.right + by, self.bottom + by)

    def away(self, points: Iterable[tuple[float, float]]) -> float:
        """The pixels to the nearest of the points; 0 for one inside."""
        left, top, right, bottom = self
        return min(hypot(max(left - x, 0.0, x - right), max(top - y, 0.0, y - bottom)) for x, y in points)

    def gap(self, other: Area) -> float:
        """The pixels between two areas; 0 if they touch."""
        across = max(self.left - other.right, other.left - self.right, 0.0)
        return hypot(across, max(self.top - other.bottom, other.top - self.bottom, 0.0))

    @property
    def height(self) -> float:
        return self.bottom - self.top

    def sides(self, thick: float) -> Iterator[Area]:
        """The four lines of the border."""
        half = thick / 2
        yield Area(self.left - half, self.top - half, self.right + half, self.top + half)
        yield Area(self.left - half, self.bottom - half, self.right + half, self.bottom + half)
        yield Area(self.left - half, self.top, self.left + half, self.bottom)
        yield Area(self.right - half, self.top, self.right + half, self.bottom)


@dataclass(frozen=True)
class Drawn:
    """One element of a picture. The elements are in the order in which they are painted."""

    kind: str
    """``text``, ``rect`` or ``head``."""
    area: Area
    says: str = ""
    """The text of a ``text``; empty for other kinds."""
    border: float = 0.0
    """The width of its border; 0 if it has none."""
    fills: bool = False
    """Whether it hides what is painted before it."""


def drawn_things(svg: str) -> list[Drawn]:
    """The texts, rectangles and arrow heads of a picture."""
    return list(_things(ElementTree.fromstring(svg), SMALL))


def _things(item: ElementTree.Element, size: float) -> Iterator[Drawn]:
    for part in item:
        if part.tag == SVG + "rect" and part.get("class") != "p":
            x, y, width, height = (float(part.get(name, 0)) for name in ("x", "y", "width", "height"))
            border = float(part.get("stroke-width", 1)) if part.get("stroke") else 0.0
            yield Drawn("rect", Area(x, y, x + width, y + height), "", border, part.get("fill") != "none")
        elif part.tag == SVG + "polygon":
            numbers = [float(number) for number in re.findall(r"-?[\d.]+", part.get("points", ""))]
            across, down = numbers[::2], numbers[1::2]
            yield Drawn("head", Area(min(across), min(down), max(across), max(down)))
        elif part.tag == SVG + "text":
            yield _text(part, size)
        elif part.tag == SVG + "g":
            yield from _things(part, size)


def _text(part: ElementTree.Element, size: float) -> Drawn:
    size = float(part.get("font-size", size))
    says = part.text or ""
    # The width that the layout reserves, without its reserve for other fonts.
    is_bold = part.get("font-weight") == "bold"
    wide = look.width(says, size, bold=is_bold) / (1.10 if is_bold else 1.03)
    x, y = float(part.get("x", 0)), float(part.get("y", 0))
    text_left = x - wide * {"middle": 0.5, "end": 1.0}.get(part.get("text-anchor", ""), 0.0)
    return Drawn("text", Area(text_left, y - ASCENT * size, text_left + wide, y + DESCENT * size), says)


def covered(svg: str) -> list[str]:
    """Each covered text, with the text, border or arrow head that covers it, or that is visible below it."""
    drawn = drawn_things(svg)
    problems = []
    for place, text in enumerate(drawn):
        if text.kind != "text":
            continue
        plate = _plate(drawn, place)
        room = text.area if plate is None else drawn[plate].area
        for number, drawn_part in enumerate(drawn):
            is_under = plate is not None and number < plate
            if (
                number != place
                and drawn_part.area.grown(3).meets(room)
                and any(part.meets(room if is_under else text.area) for part in _parts(drawn_part, is_under))
            ):
                problems.append(f"{text.says!r} on {drawn_part.says or drawn_part.kind}")
    return problems


def _parts(part: Drawn, is_under: bool) -> Iterator[Area]:
    """The parts of an element that no text may touch. ``is_under``: whether the element is below the plate of the text,
    which hides borders."""
    if part.kind != "rect":
        yield part.area
    elif part.border and not is_under:
        yield from part.area.sides(part.border)


def _plate(boxes: list[Drawn], place: int) -> int | None:
    """The number of the filled rectangle that is the plate of a text, if there is one."""
    text = boxes[place].area
    for number in range(place - 1, -1, -1):
        area = boxes[number].area
        is_filled = boxes[number].kind == "rect" and boxes[number].fills
        if is_filled and area.holds(text) and area.height <= text.height + PLATE:
            return number
    return None


FARTHEST_LABEL = 9.0
"""The most pixels between a label and its line, or the thin line that leads to it."""


class PaintedLine(NamedTuple):
    """A line of a picture with its label, as they are painted."""

    points: list[tuple[float, float]]
    """Points of the line and of its head."""
    label: str = ""
    area: Area | None = None
    """The area of the letters of the label."""
    leader: tuple[tuple[float, float], ...] = ()
    """Points of the thin line that leads to the label, if there is one."""


def painted_lines(svg: str, layout: Layout) -> list[PaintedLine]:
    """The lines of a picture and their labels, which are painted in the order of the lines of ``layout``."""
    parts = list(ElementTree.fromstring(svg))
    labels = [line.link.label.split("\n") for line in layout.lines if line.link.kind != "hold"]
    is_line = [part.tag == SVG + "path" and part.get("stroke-dasharray") != "2 2" for part in parts]
    places = [place for place, found in enumerate(is_line) if found]
    texts = [
        place for place, part in enumerate(parts) if part.tag == SVG + "text" and part.get("class", "")[1:] == " h"
    ]
    painted = []
    for place, rows in zip(places, labels, strict=True):
        points = _curve_points(_numbers(parts[place].get("d", "")))
        if parts[place + 1].tag == SVG + "polygon":
            points += _pairs(_numbers(parts[place + 1].get("points", "")))
        line = PaintedLine(points)
        if rows != [""]:
            found, texts = texts[: len(rows)], texts[len(rows) :]
            assert [parts[number].text for number in found] == rows
            areas = [_text(parts[number], SMALL).area for number in found]
            area = Area(
                *(pick(sides) for pick, sides in zip((min, min, max, max), zip(*areas, strict=True), strict=True))
            )
            before = parts[found[0] - 1]
            leader = _numbers(before.get("d", "")) if before.get("stroke-dasharray") == "2 2" else []
            line = PaintedLine(points, "\n".join(rows), area, _straight_points(leader) if leader else ())
        painted.append(line)
    assert not texts, "each label is that of a line"
    return painted


def unclear_labels(svg: str, layout: Layout) -> list[str]:
    """Each label that is not nearer to its own line than to any other line or label, or that is far from it."""
    lines = painted_lines(svg, layout)
    problems = []
    for own in lines:
        if own.area is None:
            continue
        away = own.area.away([*own.points, *own.leader])
        others = [own.area.away(other.points) for other in lines if other is not own]
        labels = [own.area.gap(other.area) for other in lines if other is not own and other.area is not None]
        if own.leader and own.area.grown(-1).away(own.leader) == 0:
            problems.append(f"the thin line to {own.label!r} goes through its letters")
        if away > FARTHEST_LABEL:
            problems.append(f"{own.label!r} is {away:.1f} pixels from its line")
        if min(others, default=away + 1) <= away:
            problems.append(f"{own.label!r} is {away:.1f} pixels from its line, and {min(others):.1f} from another")
        if min(labels, default=away + 1) <= away:
            problems.append(f"{own.label!r} is {away:.1f} pixels from its line, and {min(labels):.1f} from a label")
    return problems


def _numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?[\d.]+", text)]


def _pairs(numbers: Sequence[float]) -> list[tuple[float, float]]:
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _straight_points(numbers: Sequence[float]) -> tuple[tuple[float, float], ...]:
    (x, y), (other_x, other_y) = _pairs(numbers)
    return tuple((x + (other_x - x) * part / 20, y + (other_y - y) * part / 20) for part in range(21))


def _curve_points(numbers: Sequence[float]) -> list[tuple[float, float]]:
    """Points of a path of cubic Bézier curves, a few pixels apart."""
    corners = _pairs(numbers)
    points = []
    for first in range(0, len(corners) - 1, 3):
        four = corners[first : first + 4]
        count = max(4, int(dist(four[0], four[3]) // 3))
        for number in range(count + 1):
            t = number / count
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            x, y = (sum(w * corner[axis] for w, corner in zip(weights, four, strict=True)) for axis in (0, 1))
            points.append((x, y))
    return points


def random_run(flow: agf.Flow, seed: int) -> Progress:
    """A run of ``flow`` in a random possible state. The same ``seed`` gives the same state."""
    random = Random(seed)
    progress = Progress(flow)
    for row in progress.rows.values():
        row.started = random.choice([0, 1, 1, 1, 7, 812, 12_345]) if row.many else random.choice([0, 1, 1, 1, 3])
        ended = random.randint(max(0, row.started - 9), row.started)
        row.failed = random.choice([0, 0, min(3, ended)])
        row.finished = ended - row.failed
        row.rescues = row.rescues or random.random() < 0.2
        row.earlier = random.choice([0, 0, 0, row.finished])
        row.skipped = int(random.random() < 0.1)
        if row.elements and row.started:
            row.width = random.choice([0, 16, 1_000, 40_000])
    for walk in (step for step in every(flow.body) if isinstance(step, Walk)):
        for edge in walk.edges:
            rounds = random.sample(range(200), random.choice([0, 1, 2, 4, 9]))
            progress.taken_edges += [((walk.id, number), edge.source, edge.target) for number in sorted(rounds)]
    return progress
