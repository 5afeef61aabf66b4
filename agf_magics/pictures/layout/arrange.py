"""Which of several layouts a picture has: down, to the right, or a chain in lines like a text.

A page scrolls down and not to the right: a layout whose texts can be read in the width of the page comes
first, then one that fits its height, then the lowest; to the right only if that saves a quarter of the
height. If none fits and the flow is one chain, the chain is cut into lines (or columns), which fill the
room as the lines of a text fill a page.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from ..scene.scene import Box, Scene, Tags
from ..scene.value_lines import wired
from .chain_lines import estimated_size, in_lines, is_chain, split_chain
from .dot import Layout, laid_out
from .graphviz import NoPicture
from .label_places import with_clear_labels

Direction = Literal["auto", "TB", "LR"]
DIRECTIONS = ("LR", "TB")

ROOM = (860.0, 700.0)
"""The pixels of a page that a picture should fit: width and height. A notebook in a window of 1,200
pixels has this width beside a side bar."""
READABLE = 0.84
"""The scale at which the small texts have 9.2 pixels."""
MOST_BOXES = 500
"""The most boxes of a picture: 500 boxes take half a second, and 1 MB of a notebook."""


class Arranged(NamedTuple):
    layout: Layout
    tags: Mapping[str, Tags]
    """The values of each box that come from far away, by the id of the box."""
    breaks: tuple[str, ...] = ()
    """The parts with which a chain in lines begins a new line."""


def arrange(
    scene: Scene,
    direction: Direction = "auto",
    room: tuple[float, float] = ROOM,
    breaks: Collection[str] | None = None,
) -> Arranged:
    """The best layout of ``scene`` for a room, in pixels. ``breaks``: the parts that begin a line in
    an earlier picture of the flow; this picture keeps these lines. Raises `NoPicture`."""
    count = sum(1 for _ in scene.boxes)
    if count > MOST_BOXES:
        raise NoPicture(f"no picture: {count:,} boxes; at most {MOST_BOXES:,} can be drawn")
    if breaks is not None and direction != "auto":
        arranged = _arranged(scene, _cut(scene, breaks), direction == "TB")
        return arranged._replace(layout=with_clear_labels(scene, arranged.layout))
    plain = {
        is_down: _arranged(scene, [scene.parts], is_down)
        for is_down in (True, False)
        if direction in ("auto", "TB" if is_down else "LR")
    }
    choices = list(plain.values())
    if is_chain(scene) and not any(_fits(_size(choice.layout), room) for choice in choices):
        choices += _best_lines(scene, plain, room)
    best = min(choices, key=lambda choice: _cost(choice, room))
    return best._replace(layout=with_clear_labels(scene, best.layout))


def _size(layout: Layout) -> tuple[float, float]:
    return layout.width, layout.height


def _fits(size: tuple[float, float], room: tuple[float, float]) -> bool:
    return _misfit(size, room) == (0.0, 0.0)


def _misfit(size: tuple[float, float], room: tuple[float, float]) -> tuple[float, float]:
    """By how much the texts are too small when the picture has the width of the room, and by how many
    pixels the picture is then too high."""
    width, height = size
    room_width, room_height = room
    scale = min(1.0, room_width / width)
    return (0.0 if scale >= READABLE else 1 - scale), max(0.0, height * scale - room_height)


def _cost(arranged: Arranged, room: tuple[float, float]) -> tuple[float, ...]:
    """What makes a layout worse than another one, the most important first: how it fits, its lines,
    its height."""
    layout = arranged.layout
    line_count = len(arranged.breaks) + 1
    # To the right only if that saves a quarter of the height: 1 / 1.33 is 0.75.
    height = layout.height * (1.0 if layout.is_down else 1.33)
    return *_misfit(_size(layout), room), line_count, height


def _arranged(scene: Scene, chunks: Sequence[Sequence[Box]], is_down: bool) -> Arranged:
    links, tags = wired(scene, chunks)
    if len(chunks) == 1:
        return Arranged(laid_out(chunks[0], links, tags, is_down), tags)
    layout = in_lines([laid_out(c, links, tags, is_down) for c in chunks], chunks, links)
    return Arranged(layout, tags, tuple(parts[0].id for parts in chunks[1:]))


def _cut(scene: Scene, breaks: Collection[str]) -> list[list[Box]]:
    """The parts of a scene, cut into lines before each part of ``breaks``."""
    lines: list[list[Box]] = [[]]
    for part in scene.parts:
        if part.id in breaks and lines[-1]:
            lines.append([])
        lines[-1].append(part)
    return lines


def _best_lines(
    scene: Scene, plain: dict[bool, Arranged], room: tuple[float, float]
) -> Iterator[Arranged]:
    """The layout of a chain in the number of lines that fits best, estimated from the sizes of its
    parts. If this layout does not fit after all, the best one of the other direction follows."""
    estimates = {
        is_down: min(
            (*_misfit(estimated_size(scene, uncut.layout, number), room), number)
            for number in range(2, min(20, len(scene.parts)))
        )
        for is_down, uncut in plain.items()
    }
    for is_down in sorted(estimates, key=lambda is_down: (estimates[is_down], is_down)):
        *_, number = estimates[is_down]
        chunks = split_chain(scene, plain[is_down].layout, number)
        arranged = _arranged(scene, chunks, is_down)
        yield arranged
        if _fits(_size(arranged.layout), room):
            return
