"""Where the numbers of a path stand: on the line of their edge, at the first place where they cover nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from . import look
from .boxes import POINTS_WORD
from .layout import Point, Route

PLACES = (0.5, 0.38, 0.62, 0.26, 0.74, 0.15, 0.85)
"""Parts of the way along an edge, the best first."""
HEIGHT = 15.0


class Area(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Area) -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def around(middle: Point, width: float, height: float) -> Area:
    return Area(middle.x - width / 2, middle.y - height / 2, middle.x + width / 2, middle.y + height / 2)


def placed(text: str, route: Route, taken: Sequence[Area]) -> Area:
    """A place for ``text`` on the edge, clear of what is ``taken``; its middle where none is."""
    width = max(HEIGHT, look.width(text, POINTS_WORD, bold=True) + 10)
    places = [around(_on(route, part), width, HEIGHT) for part in PLACES]
    return next((place for place in places if not any(place.meets(other) for other in taken)), places[0])


def _on(route: Route, part: float) -> Point:
    """A point of the curve and its tip, ``part`` of the way along."""
    pieces = (len(route.points) - 1) // 3
    piece = min(int(part * pieces), pieces - 1)
    t = part * pieces - piece
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
    four = route.points[3 * piece : 3 * piece + 4]
    x = sum(weight * point.x for weight, point in zip(weights, four, strict=True))
    return Point(x, sum(weight * point.y for weight, point in zip(weights, four, strict=True)))
