"""The routes of the data edges, after the layout: around the boxes, like the wires of a circuit
diagram.

A dot marks where lines are connected; all other lines only cross. A box between others is reached
through the space above its row, and left through the space below it: the rows move apart for these
lines. The time is n log n, and the same layout gives the same routes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from . import theme as look
from .boxes import POINTS_WORD, Scene
from .lanes import LABEL_GAP, Lanes, Tap, Trunk
from .layout import Label, Layout, Point, Route, Wiring
from .nets import Reader, nets
from .rows import Stretch

TRACK = 7.0
"""The distance of two lines in the space between two rows."""
CLEAR = 10.5
"""The distance of these lines from the boxes: the head of a control arrow is between them."""
NAMES = 12.0
"""The height of the names between these lines and the boxes."""
PORT = 16.0
"""The distance of a line at the top or the bottom of a box from its middle, where the control arrow
is."""
ENTRY, EXIT = 0.36, 0.74
"""The fractions of the height of a box at which values enter and leave its side."""
EDGE_PORT, EDGE_ENTRY, EDGE_EXIT = 28.0, 0.2, 0.88
"""The same for the edges of a graph."""
ROUND = 5.0
"""The radius of the corners of these edges."""
BELOW = 6.0
"""The distance of a value that leaves a frame from the boxes in it."""
BASE = 6.4
"""The length of an arrow head."""


def route(drawn: Scene, placed: Layout) -> Layout:
    """``placed`` with the data edges of ``drawn`` and the space that they need."""
    found = nets(drawn)
    return _Routing(placed, Lanes(drawn, placed, found)).routed() if found else placed


class _Feed(NamedTuple):
    """A line from trunks of one side into a box, or into several boxes of a row."""

    side: int
    trunks: tuple[Trunk, ...]
    """The nearest first."""
    y: float
    way: tuple[Point, ...]
    """From the trunks into the farthest box; x counts to the side."""


class _Routing:
    def __init__(self, placed: Layout, lanes: Lanes) -> None:
        self.placed, self.lanes = placed, lanes
        self.above: dict[int, dict[tuple[int, frozenset[Trunk]], list[Tap]]] = {}
        """Of each row: the taps into its hidden boxes, those together that have the same trunks."""
        self.below: dict[int, list[Trunk]] = {}
        """Of each row: the trunks that begin at its hidden boxes."""
        for tap in lanes.taps:
            if not lanes.is_free(tap.box, tap.side):
                row = self.above.setdefault(lanes.row_of[tap.box], {})
                row.setdefault((tap.side, frozenset(tap.trunks)), []).append(tap)
        for trunk in lanes.trunks:
            if lanes.is_hidden(trunk):
                self.below.setdefault(trunk.row, []).append(trunk)
        spaces = [
            (lanes.rows[row].top - CLEAR, len(taps) * TRACK + NAMES)
            for row, taps in self.above.items()
        ]
        spaces += [
            (lanes.rows[row].bottom + CLEAR, _height(trunks)) for row, trunks in self.below.items()
        ]
        leftmost = max((trunk.lane for trunk in lanes.trunks if trunk.side < 0), default=0.0)
        rightmost = max((trunk.lane for trunk in lanes.trunks if trunk.side > 0), default=0.0)
        self.right = max(0.0, leftmost)
        self.width = self.right + max(placed.width, rightmost)
        self.stretch = Stretch(spaces, self.right)
        self.lines: list[tuple[Point, ...]] = []
        self.heads: list[tuple[Point, Point]] = []
        self.dots: list[Point] = []
        self.labels: list[Label] = []
        self.joints: list[Point] = []
        self.ways: dict[tuple[Trunk, int], tuple[Point, ...]] = {}
        """Of each edge of a graph: the way from its trunk into its box."""

    def routed(self) -> Layout:
        feeds: dict[Trunk, list[_Feed]] = {trunk: [] for trunk in self.lanes.trunks}
        for feed in (*self.direct(), *self.from_above()):
            for trunk in feed.trunks:
                feeds[trunk].append(feed)
        for trunk, fed in feeds.items():
            self.draw(trunk, sorted(fed, key=lambda feed: feed.y))
        wiring = Wiring(
            tuple(self.lines),
            tuple(self.heads),
            tuple(self.dots),
            tuple(self.labels),
            tuple(dict.fromkeys(self.joints)),
        )
        found, edges = self.stretch.layout(self.placed), dict(self.edges())
        lowest = max(
            (point.y for edge in edges.values() for point in edge.points), default=0.0
        )  # below the last row
        height = max(found.height, lowest + CLEAR)
        return found._replace(
            width=self.width, height=height, wiring=wiring, routes=found.routes | edges
        )

    def edges(self) -> Iterator[tuple[str, Route]]:
        """The edges of a graph, each with its whole way."""
        for trunk in self.lanes.trunks:
            begin = self.begin(trunk)
            for number, reader in enumerate(trunk.net.readers if trunk.net.control else ()):
                way = self.ways[trunk, reader.box]
                points = [
                    self.seen(trunk.side, one)
                    for one in (*begin, Point(trunk.lane, way[0].y), *way)
                ]
                place, text = self.edge_label(trunk, reader, begin[0], number)
                yield f"e{reader.arrow}", rounded(points)._replace(label=place, text=text)

    def edge_label(
        self, trunk: Trunk, reader: Reader, begin: Point, number: int
    ) -> tuple[Point | None, str]:
        """The middle and the text of a label at the beginning of an edge; ``number``: that of the
        edge at its box."""
        text, x, y = self.lanes.label(trunk, reader), begin.x + LABEL_GAP, begin.y - 7
        if self.lanes.is_hidden(trunk):
            source = self.lanes.source(trunk)
            text, y = (
                look.fitted(text, POINTS_WORD, (source.right - source.left) / 2 - EDGE_PORT),
                begin.y - 2,
            )
            number += 1
        elif number:  # the line is above it
            y += 4
        if not text:
            return None, ""
        return self.seen(
            trunk.side, Point(x + look.width(text, POINTS_WORD) / 2, y + NAMES * number)
        ), text

    def direct(self) -> Iterator[_Feed]:
        """The lines into the sides of boxes."""
        for tap in self.lanes.taps:
            if self.lanes.is_free(tap.box, tap.side):
                box = self.lanes.boxes[tap.box]
                y = self.stretch.down(box.top) + (EDGE_ENTRY if tap.control else ENTRY) * (
                    box.bottom - box.top
                )
                self.label(tap, Point(tap.at, y - 3), tap.label)
                way = (Point(box.side(tap.side), y),)
                self.ways |= {(trunk, tap.box): way for trunk in tap.trunks}
                yield _Feed(tap.side, _nearest_first(tap.trunks), y, way)

    def from_above(self) -> Iterator[_Feed]:
        """The lines into the tops of boxes that other boxes hide: one along the row, and one into
        each box."""
        for number, groups in self.above.items():
            y = self.stretch.down(self.lanes.rows[number].top) - CLEAR - NAMES - TRACK * len(groups)
            for (side, _), taps in sorted(
                groups.items(), key=lambda group: _nearest_first(group[1][0].trunks)[-1].lane
            ):
                y += TRACK
                trunks = _nearest_first(taps[0].trunks)
                into = {tap.box: self.into_top(tap, y) for tap in taps}
                self.ways |= {(trunk, box): way for trunk in trunks for box, way in into.items()}
                ways = sorted(into.values())
                for way in ways[1:]:
                    self.line(trunks[0], *way, head=True)
                    self.dot(trunks[0], way[0])
                yield _Feed(side, trunks, y, ways[0])

    def into_top(self, tap: Tap, y: float) -> tuple[Point, Point]:
        box = self.lanes.boxes[tap.box]
        middle, top = (box.side(1) - box.side(-1)) / 2, self.stretch.down(box.top)
        port = tap.side * middle + (EDGE_PORT if tap.control else PORT)
        room = (box.right - box.left) / 2 - PORT
        self.label(tap, Point(port + 4, top - 3.5), look.fitted_names(tap.label, POINTS_WORD, room))
        return Point(port, y), Point(port, top)

    def begin(self, trunk: Trunk) -> tuple[Point, ...]:
        """The way from a box or a frame to its trunk."""
        source, row = self.lanes.source(trunk), self.lanes.rows[trunk.row]
        if trunk.net.leaves is not None:
            y = self.stretch.down(row.bottom) + BELOW * (1.5 if trunk.net.control else 1)
        elif not self.lanes.is_hidden(trunk):
            y = self.stretch.down(source.top) + (EDGE_EXIT if trunk.net.control else EXIT) * (
                source.bottom - source.top
            )
        else:
            port = trunk.side * (source.left + source.right) / 2 + (
                EDGE_PORT if trunk.net.control else PORT
            )
            bottom = self.stretch.down(source.top) + source.bottom - source.top
            names = _height(self.below[trunk.row]) - TRACK * len(self.below[trunk.row])
            y = (
                self.stretch.down(row.bottom)
                + CLEAR
                + names
                + TRACK * (self.below[trunk.row].index(trunk) + 0.5)
            )
            return Point(port, bottom), Point(port, y), Point(trunk.lane, y)
        return Point(source.side(trunk.side), y), Point(trunk.lane, y)

    def draw(self, trunk: Trunk, feeds: list[_Feed]) -> None:
        path = self.begin(trunk)
        start = path[-1]
        down, up = (
            [feed for feed in feeds if feed.y > start.y],
            [feed for feed in feeds if feed.y <= start.y][::-1],
        )
        if down and up:
            self.dot(trunk, start)
        for way in filter(None, (down, up)):
            *passed, last = way
            for feed in passed:
                self.join(trunk, feed, Point(trunk.lane, feed.y))
            end = Point(trunk.lane, last.y)
            if last.trunks[-1] is trunk:
                self.line(trunk, *path, end, *last.way, head=True)
            else:
                self.line(trunk, *path, end)
                self.dot(trunk, end)
            path = (start,)

    def join(self, trunk: Trunk, feed: _Feed, at: Point) -> None:
        """Connect a trunk, which continues, to a feed; the farthest trunk of a feed draws its
        line."""
        self.dot(trunk, at)
        if feed.trunks[-1] is trunk:
            self.line(trunk, at, *feed.way, head=True)

    def line(self, trunk: Trunk, *points: Point, head: bool = False) -> None:
        if trunk.net.control:  # each of its edges has its whole way
            return
        *before, tip = (self.seen(trunk.side, point) for point in points)
        base = tip
        if head:
            last = before[-1]
            length = abs(tip.x - last.x) + abs(tip.y - last.y) or 1.0
            part = BASE / length
            base = Point(tip.x - part * (tip.x - last.x), tip.y - part * (tip.y - last.y))
            self.heads.append((base, tip))
        self.lines.append((*before, base))

    def dot(self, trunk: Trunk, point: Point) -> None:
        (self.joints if trunk.net.control else self.dots).append(self.seen(trunk.side, point))

    def label(self, tap: Tap, place: Point, text: str) -> None:
        if text:
            self.labels.append(
                Label(self.seen(tap.side, place), "start" if tap.side > 0 else "end", text)
            )

    def seen(self, side: int, point: Point) -> Point:
        """A point of the picture."""
        return Point(side * point.x + self.right, point.y)


def _nearest_first(trunks: list[Trunk]) -> tuple[Trunk, ...]:
    return tuple(sorted(trunks, key=lambda trunk: trunk.lane))


def _height(trunks: list[Trunk]) -> float:
    """The space below a row for the trunks that begin there, and for the labels of a graph's
    edges."""
    labels = max((len(trunk.net.readers) for trunk in trunks if trunk.net.control), default=0)
    return len(trunks) * TRACK + NAMES * labels


def rounded(points: list[Point]) -> Route:
    """A way of straight lines as one curve with round corners; its label is none."""
    way = [point for point, before in zip(points, [None, *points], strict=False) if point != before]
    tip, last = way[-1], way[-2]
    way[-1] = _towards(tip, last, BASE)
    found = [way[0]]
    for before, corner, after in zip(way, way[1:], way[2:], strict=False):
        begin, end = (
            _towards(corner, other, min(ROUND, _length(corner, other) / 2))
            for other in (before, after)
        )
        found += [found[-1], begin, begin, corner, corner, end]
    return Route((*found, found[-1], way[-1], way[-1]), tip, None)


def _towards(point: Point, other: Point, distance: float) -> Point:
    part = distance / (_length(point, other) or 1.0)
    return Point(point.x + part * (other.x - point.x), point.y + part * (other.y - point.y))


def _length(one: Point, other: Point) -> float:
    return abs(one.x - other.x) + abs(one.y - other.y)
