"""The routes of the data edges, after the layout: around the boxes, like the wires of a circuit diagram.

A dot marks where lines are connected; all other lines only cross. A box between others is reached through
the space above its row, and left through the space below it: the rows move apart for these lines. The time is n log n,
and the same layout gives the same routes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from . import theme as look
from .boxes import POINTS_WORD, Scene
from .lanes import Lanes, Tap, Trunk
from .layout import Layout, Point
from .nets import nets
from .rows import Stretch

TRACK = 7.0
"""The distance of two lines in the space between two rows."""
CLEAR = 10.5
"""The distance of these lines from the boxes: the head of a control arrow is between them."""
NAMES = 12.0
"""The height of the names between these lines and the boxes."""
PORT = 16.0
"""The distance of a line at the top or the bottom of a box from its middle, where the control arrow is."""
ENTRY, EXIT = 0.36, 0.74
"""The fractions of the height of a box at which values enter and leave its side."""
BELOW = 6.0
"""The distance of a value that leaves a frame from the boxes in it."""
BASE = 6.4
"""The length of an arrow head."""


class Label(NamedTuple):
    place: Point
    anchor: str
    """The SVG text-anchor."""
    text: str


class Wiring(NamedTuple):
    """The drawing of the data edges."""

    lines: tuple[tuple[Point, ...], ...] = ()
    heads: tuple[tuple[Point, Point], ...] = ()
    """The base and the tip of each arrow head."""
    dots: tuple[Point, ...] = ()
    labels: tuple[Label, ...] = ()


def route(drawn: Scene, placed: Layout) -> tuple[Layout, Wiring]:
    """The layout with the space that the data edges of ``drawn`` need, and their routes in it."""
    found = nets(drawn)
    return _Routing(placed, Lanes(drawn, placed, found)).routed() if found else (placed, Wiring())


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
        spaces = [(lanes.rows[row].top - CLEAR, len(taps) * TRACK + NAMES) for row, taps in self.above.items()]
        spaces += [(lanes.rows[row].bottom + CLEAR, len(trunks) * TRACK) for row, trunks in self.below.items()]
        leftmost = max((trunk.lane for trunk in lanes.trunks if trunk.side < 0), default=0.0)
        rightmost = max((trunk.lane for trunk in lanes.trunks if trunk.side > 0), default=0.0)
        self.right = max(0.0, leftmost)
        self.width = self.right + max(placed.width, rightmost)
        self.stretch = Stretch(spaces, self.right)
        self.lines: list[tuple[Point, ...]] = []
        self.heads: list[tuple[Point, Point]] = []
        self.dots: list[Point] = []
        self.labels: list[Label] = []

    def routed(self) -> tuple[Layout, Wiring]:
        feeds: dict[Trunk, list[_Feed]] = {trunk: [] for trunk in self.lanes.trunks}
        for feed in (*self.direct(), *self.from_above()):
            for trunk in feed.trunks:
                feeds[trunk].append(feed)
        for trunk, fed in feeds.items():
            self.draw(trunk, sorted(fed, key=lambda feed: feed.y))
        wiring = Wiring(tuple(self.lines), tuple(self.heads), tuple(self.dots), tuple(self.labels))
        return self.stretch.layout(self.placed)._replace(width=self.width), wiring

    def direct(self) -> Iterator[_Feed]:
        """The lines into the sides of boxes."""
        for tap in self.lanes.taps:
            if self.lanes.is_free(tap.box, tap.side):
                box = self.lanes.boxes[tap.box]
                y = self.stretch.down(box.top) + ENTRY * (box.bottom - box.top)
                self.label(tap, Point(tap.at, y - 3), tap.label)
                yield _Feed(tap.side, _nearest_first(tap.trunks), y, (Point(box.side(tap.side), y),))

    def from_above(self) -> Iterator[_Feed]:
        """The lines into the tops of boxes that other boxes hide: one along the row, and one into each box."""
        for number, groups in self.above.items():
            y = self.stretch.down(self.lanes.rows[number].top) - CLEAR - NAMES - TRACK * len(groups)
            for (side, _), taps in sorted(
                groups.items(), key=lambda group: _nearest_first(group[1][0].trunks)[-1].lane
            ):
                y += TRACK
                trunks = _nearest_first(taps[0].trunks)
                ways = sorted(self.into_top(tap, y) for tap in taps)
                for way in ways[1:]:
                    self.line(side, *way, head=True)
                    self.dot(side, way[0])
                yield _Feed(side, trunks, y, ways[0])

    def into_top(self, tap: Tap, y: float) -> tuple[Point, Point]:
        box = self.lanes.boxes[tap.box]
        middle, top = (box.side(1) - box.side(-1)) / 2, self.stretch.down(box.top)
        port = tap.side * middle + PORT
        room = (box.right - box.left) / 2 - PORT
        self.label(tap, Point(port + 4, top - 3.5), look.fitted(tap.label, POINTS_WORD, room))
        return Point(port, y), Point(port, top)

    def begin(self, trunk: Trunk) -> tuple[Point, ...]:
        """The way from a box or a frame to its trunk."""
        source, row = self.lanes.source(trunk), self.lanes.rows[trunk.row]
        if trunk.net.leaves is not None:
            y = self.stretch.down(row.bottom) + BELOW
        elif not self.lanes.is_hidden(trunk):
            y = self.stretch.down(source.top) + EXIT * (source.bottom - source.top)
        else:
            port = trunk.side * (source.left + source.right) / 2 + PORT
            bottom = self.stretch.down(source.top) + source.bottom - source.top
            y = self.stretch.down(row.bottom) + CLEAR + TRACK * (self.below[trunk.row].index(trunk) + 0.5)
            return Point(port, bottom), Point(port, y), Point(trunk.lane, y)
        return Point(source.side(trunk.side), y), Point(trunk.lane, y)

    def draw(self, trunk: Trunk, feeds: list[_Feed]) -> None:
        path = self.begin(trunk)
        start = path[-1]
        down, up = [feed for feed in feeds if feed.y > start.y], [feed for feed in feeds if feed.y <= start.y][::-1]
        if down and up:
            self.dot(trunk.side, start)
        for way in filter(None, (down, up)):
            *passed, last = way
            for feed in passed:
                self.join(trunk, feed, Point(trunk.lane, feed.y))
            end = Point(trunk.lane, last.y)
            if last.trunks[-1] is trunk:
                self.line(trunk.side, *path, end, *last.way, head=True)
            else:
                self.line(trunk.side, *path, end)
                self.dot(trunk.side, end)
            path = (start,)

    def join(self, trunk: Trunk, feed: _Feed, at: Point) -> None:
        """Connect a trunk, which continues, to a feed; the farthest trunk of a feed draws its line."""
        self.dot(trunk.side, at)
        if feed.trunks[-1] is trunk:
            self.line(trunk.side, at, *feed.way, head=True)

    def line(self, side: int, *points: Point, head: bool = False) -> None:
        *before, tip = (self.seen(side, point) for point in points)
        base = tip
        if head:
            last = before[-1]
            length = abs(tip.x - last.x) + abs(tip.y - last.y) or 1.0
            part = BASE / length
            base = Point(tip.x - part * (tip.x - last.x), tip.y - part * (tip.y - last.y))
            self.heads.append((base, tip))
        self.lines.append((*before, base))

    def dot(self, side: int, point: Point) -> None:
        self.dots.append(self.seen(side, point))

    def label(self, tap: Tap, place: Point, text: str) -> None:
        if text:
            self.labels.append(Label(self.seen(tap.side, place), "start" if tap.side > 0 else "end", text))

    def seen(self, side: int, point: Point) -> Point:
        """A point of the picture."""
        return Point(side * point.x + self.right, point.y)


def _nearest_first(trunks: list[Trunk]) -> tuple[Trunk, ...]:
    return tuple(sorted(trunks, key=lambda trunk: trunk.lane))
