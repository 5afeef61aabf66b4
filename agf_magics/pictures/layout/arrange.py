"""Which of several layouts a picture has: down, to the right, or a chain in lines like a text.

Of those that can be read in the room of the page it is the lowest; to the right only if that saves a
quarter of the height. If none can be read and the flow is one chain, the chain is cut into lines (or
columns), which fill the room as the lines of a text fill a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from ..scene.scene import Box, Scene, Tags
from ..scene.value_lines import wired
from .chain_lines import estimated_fit, in_lines, is_chain, split_chain
from .dot import Layout, laid_out
from .graphviz import NoPicture
from .label_places import with_clear_labels

Direction = Literal["auto", "TB", "LR"]
DIRECTIONS = ("LR", "TB")

ROOM = (1200.0, 700.0)
"""The pixels of a page that a picture should fit: width and height."""
READABLE = 0.85
"""The scale at which the small texts have 9.4 pixels."""
MOST_BOXES = 500
"""Boxes of a picture: it then takes half a second, and 1 MB of a notebook."""


class Arranged(NamedTuple):
    layout: Layout
    tags: Mapping[str, Tags]
    """The values of each box that come from far away, by the id of the box."""


def arrange(
    scene: Scene, direction: Direction = "auto", room: tuple[float, float] = ROOM
) -> Arranged:
    """The best layout of ``scene`` for a room, in pixels. Raises `NoPicture`."""
    count = sum(1 for _ in scene.boxes)
    if count > MOST_BOXES:
        raise NoPicture(f"no picture: {count:,} boxes; at most {MOST_BOXES:,} can be drawn")
    plain = {
        is_down: _arranged(scene, [scene.parts], is_down)
        for is_down in (True, False)
        if direction in ("auto", "TB" if is_down else "LR")
    }
    choices = [(1, one) for one in plain.values()]
    if max(fit(one.layout, room) for one in plain.values()) < READABLE and is_chain(scene):
        choices.append(_best_lines(scene, plain, room))
    best = min(choices, key=lambda choice: _cost(choice[0], choice[1], room))[1]
    return best._replace(layout=with_clear_labels(scene, best.layout))


def fit(layout: Layout, room: tuple[float, float] = ROOM) -> float:
    """The scale, at most 1, at which a layout fits the room."""
    return min(1.0, room[0] / layout.width, room[1] / layout.height)


def _cost(count: int, arranged: Arranged, room: tuple[float, float]) -> tuple[float, int, float]:
    layout = arranged.layout
    scale = fit(layout, room)
    height = layout.height * scale * (1.0 if layout.is_down else 1.33)
    return (0.0 if scale >= READABLE else 1 - scale), count, height


def _arranged(scene: Scene, chunks: Sequence[Sequence[Box]], is_down: bool) -> Arranged:
    links, tags = wired(scene, chunks)
    if len(chunks) == 1:
        return Arranged(laid_out(chunks[0], links, tags, is_down), tags)
    return Arranged(
        in_lines([laid_out(c, links, tags, is_down) for c in chunks], chunks, links), tags
    )


def _best_lines(
    scene: Scene, plain: dict[bool, Arranged], room: tuple[float, float]
) -> tuple[int, Arranged]:
    """The number of lines for which a chain is shrunk least, estimated from the sizes of its parts, and
    its layout."""
    numbers = range(2, min(20, len(scene.parts)))
    estimates = [
        (min(READABLE, estimated_fit(scene, one.layout, number, room)), -number, is_down)
        for is_down, one in plain.items()
        for number in numbers
    ]
    _, number, is_down = max(estimates)
    chunks = split_chain(scene, plain[is_down].layout, -number)
    return len(chunks), _arranged(scene, chunks, is_down)
