"""The places of the data edges next to the boxes: the values of a box flow along one vertical
trunk, and from it one line leads into each box that reads them.

Trunks are outside of all boxes, frames and arrows in their rows. They take the nearest free lane,
short ones first, so that few lines cross. A row has two heights: values enter its boxes at the
upper one and leave them at the lower one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

from . import theme as look
from .boxes import POINTS_WORD, Scene
from .layout import Layout
from .nets import Net, Reader
from .plain import line
from .rows import Rect, Used, find_rows, rectangles

LABEL_GAP = 5.0
"""The distance of the label of a graph's edge from its box."""
LANE = 9.0
"""The distance of two trunks."""
_HEAD = 12.0
"""The distance of a name from its box: the head of the line is between them."""
FARTHER = 30.0
"""Trunks are on the right, unless the left is so much nearer."""
BLOCKED = 60.0
"""The length of a line that is as bad as one into a box that other boxes hide from the trunk."""
MOST_NAME = 32
"""Characters of the names at a line."""


@dataclass(eq=False)
class Trunk:
    net: Net
    row: int
    """The row at which it begins."""
    first: int
    """Its upper end, as a height."""
    last: int
    """Its lower end, as a height."""
    side: int = 1
    """1: to the right of the boxes, -1: to the left."""
    lane: float = 0.0
    """Its x, counted to its side."""


@dataclass(eq=False)
class Tap:
    """The line into a box from one side."""

    box: int
    side: int
    control: bool = False
    """Whether it is an edge of a graph: then its label is at its beginning."""
    trunks: list[Trunk] = field(default_factory=list)
    names: dict[str, None] = field(default_factory=dict)
    """In the order of the trunks."""
    at: float = 0.0
    """The x of its label, counted to its side, if nothing hides the box."""

    @property
    def label(self) -> str:
        return line(", ".join(filter(None, self.names)), MOST_NAME)


class Lanes:
    """The rows, frames, trunks and taps of a picture. x counts to the side of a trunk: the left is
    a mirror image."""

    def __init__(self, drawn: Scene, placed: Layout, found: Sequence[Net]) -> None:
        self._placed = placed
        self.boxes = rectangles(drawn, placed)
        self.rows = find_rows(self.boxes)
        self.row_of = {place: number for number, row in enumerate(self.rows) for place in row.boxes}
        corners = {
            frame.id: placed.frames[f"cluster_{place}"] for place, frame in enumerate(drawn.frames)
        }
        self.frames = {id: Rect(*corner, *far) for id, (corner, far) in corners.items()}
        self.trunks = [self._trunk(net) for net in found]
        self._choose_sides()
        self.taps = self._taps()
        self._take_lanes()

    def is_free(self, box: int, side: int) -> bool:
        """Whether no other box is between ``box`` and its trunks."""
        return self.rows[self.row_of[box]].boxes[-1 if side > 0 else 0] == box

    def source(self, trunk: Trunk) -> Rect:
        """The box or the frame at which a trunk begins."""
        net = trunk.net
        return self.boxes[net.source] if net.leaves is None else self.frames[net.leaves]

    def is_hidden(self, trunk: Trunk) -> bool:
        """Whether a trunk begins at a box that other boxes hide."""
        return trunk.net.leaves is None and not self.is_free(trunk.net.source, trunk.side)

    def label(self, trunk: Trunk, reader: Reader) -> str:
        """The label at the beginning of a graph's edge, with the direction of the edge."""
        arrow = "↑" if self.row_of[reader.box] <= trunk.row else "↓"
        return f"{reader.label} {arrow}" if reader.label else ""

    def _trunk(self, net: Net) -> Trunk:
        row = self.row_of[net.source]
        if net.leaves is not None:
            row = (
                bisect_left(self.rows, self.frames[net.leaves].bottom, key=lambda row: row.top) - 1
            )
        heights = [2 * row + 1, *(2 * self.row_of[reader.box] for reader in net.readers)]
        return Trunk(net, row, min(heights), max(heights))

    def _used(self, side: int) -> Used:
        """The lanes that the boxes, frames and arrows take."""
        used = Used(2 * len(self.rows))
        for number, row in enumerate(self.rows):
            self._take(used, max(self.boxes[place].side(side) for place in row.boxes), side, number)
        areas = [*self.frames.values()]
        for route in self._placed.routes.values():
            for first in range(0, len(route.points) - 1, 3):
                piece = route.points[first : first + 4]
                across, down = [point.x for point in piece], [point.y for point in piece]
                areas.append(Rect(min(across), min(down), max(across), max(down)))
        for area in areas:
            first = bisect_right(self.rows, area.top, key=lambda row: row.bottom)
            last = bisect_left(self.rows, area.bottom, key=lambda row: row.top) - 1
            self._take(used, area.side(side), side, first, last)
        return used

    def _take(self, used: Used, x: float, side: int, first: int, last: int | None = None) -> None:
        """Use everything up to ``x`` in the rows from ``first`` to ``last``."""
        lanes = max(0, ceil((x - self._origin(side)) / LANE)) + 1
        used.add((1 << lanes) - 1, 2 * first, 2 * (first if last is None else last) + 1)

    def _take_lane(self, used: Used, trunk: Trunk) -> float:
        """The x of the first free lane outside of everything that is not a trunk."""
        taken = used.lanes(trunk.first, trunk.last)
        lane = (taken + 1 & ~taken).bit_length() - 1
        used.add(1 << lane, trunk.first, trunk.last)
        return self._origin(trunk.side) + lane * LANE

    def _origin(self, side: int) -> float:
        return 0.0 if side > 0 else -self._placed.width

    def _choose_sides(self) -> None:
        used = {side: self._used(side) for side in (1, -1)}
        for trunk in self.trunks:
            begin = self.source(trunk)
            cost = {}
            for side in (1, -1):
                hidden = sum(not self.is_free(reader.box, side) for reader in trunk.net.readers)
                away = LANE * used[side].lanes(trunk.first, trunk.last).bit_length() + self._origin(
                    side
                )
                middle = side * (begin.left + begin.right) / 2
                cost[side] = away - middle + BLOCKED * (hidden + self.is_hidden(trunk))
            trunk.side = 1 if cost[1] <= cost[-1] + FARTHER else -1
            self._take_lane(used[trunk.side], trunk)

    def _taps(self) -> list[Tap]:
        taps: dict[tuple[int, int, bool], Tap] = {}
        for trunk in self.trunks:
            for reader in trunk.net.readers:
                control = trunk.net.control
                tap = taps.setdefault(
                    (reader.box, trunk.side, control), Tap(reader.box, trunk.side, control)
                )
                if trunk not in tap.trunks:
                    tap.trunks.append(trunk)
                if not control:
                    tap.names[reader.label] = None
        return [taps[key] for key in sorted(taps)]

    def _take_lanes(self) -> None:
        used = {side: self._used(side) for side in (1, -1)}
        for tap in self.taps:
            if self.is_free(tap.box, tap.side):
                row, origin = self.row_of[tap.box], self._origin(tap.side)
                outermost = origin + LANE * (
                    used[tap.side].lanes(2 * row, 2 * row).bit_length() - 1
                )
                tap.at = max(self.boxes[tap.box].side(tap.side) + _HEAD, outermost)
                self._take(
                    used[tap.side], tap.at + look.width(tap.label, POINTS_WORD), tap.side, row
                )
        for trunk in self.trunks:
            if trunk.net.control and not self.is_hidden(trunk):
                across = max(
                    look.width(self.label(trunk, reader), POINTS_WORD)
                    for reader in trunk.net.readers
                )
                end = self.source(trunk).side(trunk.side) + LABEL_GAP + across
                self._take(used[trunk.side], end, trunk.side, trunk.row)
        for trunk in sorted(
            self.trunks, key=lambda trunk: ((trunk.last - trunk.first).bit_length(), trunk.first)
        ):
            trunk.lane = self._take_lane(used[trunk.side], trunk)
