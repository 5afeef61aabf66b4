"""The sizes of boxes: in which lines the texts of a box are written, and how wide the box is.

A value that comes from far away is a small tag in the box that reads it (``◂ raw``), so the size of a
box is known only when its tags are: `measured` takes the tags. A chip is a tag or an output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from ...flow.steps import Each, Fold, Repeat
from ...text.columns import cells
from .. import theme as look
from ..plain import line
from .scene import Box, Frame, Tags

INPUT = "input"
"""The id of the box of the run's input, and its word."""

LONGEST = 40
"""Cells of a line of a name. A Chinese character takes two cells; a longer name has two lines."""
LABEL = 40
"""The most characters of the label of an edge or of a case."""
TOOLTIP = 500
"""The most characters of a line of a tooltip."""
NAME, SMALL, TITLE = 13.0, 11.0, 12.0
"""The sizes of the name of a box, of all other texts, and of the title of a frame."""
PADDING = 10.0
"""Pixels between the left or right border of a box and its texts."""
LEADING = 15.0
"""Pixels between two lines of a text that is not a name."""
LABEL_LEADING = 13.0
"""Pixels between two lines of the label of a line."""
GLYPH = 19.0
"""Pixels of the sign of a kind, before the name."""
OPENS = 14.0
"""Pixels of the sign of a box that opens."""
OPENS_SIGN, OPENING = "›", 16.0
"""The sign of a box that opens, and its size. It is no triangle, as that of a step that runs."""
NAME_LEADING = 16.0
"""Pixels between two lines of a name."""
EDGES = 15.0
"""Pixels of the height of a box that its lines do not take: above the first and below the last."""
ABOVE_CHIPS = 3.0
"""More pixels above the rows of tags."""
TERMINAL = 54, 24
"""The width and the height of a box where a graph begins or ends."""
NAME_LINES, DOES_LINES, INPUT_LINES = 2, 2, 8
"""The most lines of a name, of what a box does, and of the fields of the input."""
GAP = 5.0
"""Pixels between two tags."""
CHIP_BORDERS = 10.0
"""Pixels of a tag beside its text; an output has no border."""
CHIPS = 180.0
"""Pixels of a row of tags; a longer row is broken."""
NARROWEST = 76.0
"""The least pixels of the texts of a box."""
STATE = 92.0
"""Pixels of the longest state on the border of a box, beside a case."""
STACK = 6.0
"""Pixels by which a box inside a fan-out is larger: two more borders behind it."""
PILL = 8.0
"""Pixels between the border of a choice's box and its case above."""


REPEATING = (Each, Fold, Repeat)
"""Steps whose frame has a line for how far they are, even if they have no text for it yet."""


class Measured(NamedTuple):
    """The texts of a box as they are painted, and its size."""

    names: tuple[str, ...]
    does: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """The tags and the output below the name, in rows: ``("◂ raw", "→ net")``."""
    width: float
    height: float


def measured(box: Box, tags: Tags) -> Measured:
    """The texts and the size of a box; for a frame, the texts and the size of its title."""
    if box.word == "end":
        return Measured((box.name,), (), (), *TERMINAL)
    chips = (*(f"◂ {name}" for name in tags), *([f"→ {box.output}"] if box.output else []))
    if isinstance(box, Frame):
        return _measured_title(box, tags, chips)
    return _measured_box(box, chips)


def _measured_title(frame: Frame, tags: Tags, chips: tuple[str, ...]) -> Measured:
    head = title(frame, tags)
    wide = look.width(head, TITLE, bold=True) + GAP + sum(map(chip_width, chips))
    does = (line(frame.does, 2 * LONGEST),) if frame.does else ()
    below = max((look.width(text, SMALL) for text in does), default=0.0)
    lines = 1 + bool(does or isinstance(frame.step, REPEATING))
    return Measured((head,), does, (chips,), max(wide, below), LEADING * lines)


def _measured_box(box: Box, chips: tuple[str, ...]) -> Measured:
    names = folded(box.name, NAME_LINES)
    most = INPUT_LINES if box.word == INPUT else DOES_LINES
    does = folded(box.does, most) if box.does else ()
    sign = GLYPH + (OPENS if box.opens else 0)
    texts = max(
        *(look.width(text, NAME, bold=True) + sign for text in names),
        *(look.width(text, SMALL) for text in does),
        look.width(box.case, SMALL) + STATE if box.case else 0.0,
        NARROWEST,
    )
    rows = _rows((*chips, *box.leaves), max(texts, CHIPS))
    wide = max(texts, *(sum(map(chip_width, row)) - GAP for row in rows), 0.0)
    height = EDGES + NAME_LEADING * len(names) + LEADING * (len(does) + len(rows))
    height += ABOVE_CHIPS if rows else 0
    return Measured(names, does, rows, wide + 2 * PADDING, height)


def title(frame: Frame, tags: Tags) -> str:
    """The title of a frame, without a value that is a tag: ``⟳ each of`` before ``◂ regions``."""
    name = frame.name
    for tag in tags:
        if name == tag or name.endswith(f" {tag}"):
            name = name.removesuffix(tag).rstrip()
            break
    return f"{look.kind(frame.word).glyph} {name}".rstrip()


def label_size(label: str) -> tuple[float, float]:
    """The width and the height of the label of a line."""
    texts = label.split("\n")
    widest = max(look.width(text, SMALL) for text in texts)
    return widest, SMALL + LABEL_LEADING * (len(texts) - 1)


def chip_width(chip: str) -> float:
    """The width of a tag (``◂ raw``) or of an output (``→ net``), with the gap after it."""
    return look.width(chip, SMALL) + (GAP + CHIP_BORDERS if chip[0] == "◂" else GAP)


def _rows(chips: Sequence[str], room: float) -> tuple[tuple[str, ...], ...]:
    rows: list[list[str]] = []
    filled = 0.0
    for chip in chips:
        if not rows or filled + chip_width(chip) > room:
            rows.append([])
            filled = 0.0
        rows[-1].append(chip)
        filled += chip_width(chip)
    return tuple(map(tuple, rows))


@lru_cache(maxsize=1_000)
def folded(text: str, most: int) -> tuple[str, ...]:
    """``text`` in at most ``most`` lines of about the same length, broken after a blank, a dot, an
    underscore or a wide character."""
    pieces = list(_pieces(line(text, 2_000)))
    lines = _filled(pieces, LONGEST, most)
    if len(lines) > 1 and cells(lines[-1]) <= LONGEST:
        tries = (_filled(pieces, room, most) for room in range(LONGEST // 2, LONGEST))
        even = (one for one in tries if max(map(cells, one)) <= LONGEST and len(one) == len(lines))
        lines = min(even, key=lambda one: max(map(cells, one)), default=lines)
    return tuple(_cut(one.strip()) for one in lines)


def _pieces(text: str) -> Iterator[str]:
    piece = ""
    for c in text:
        piece += c
        if c in " _." or cells(c) == 2:
            yield piece
            piece = ""
    yield piece


def _filled(pieces: Sequence[str], room: int, most: int) -> list[str]:
    """Lines of ``room`` cells; the last one has the rest."""
    lines = [""]
    for piece in pieces:
        if lines[-1] and cells(lines[-1] + piece.rstrip()) > room and len(lines) < most:
            lines.append("")
        lines[-1] += piece
    return lines


def _cut(text: str) -> str:
    """A line; of a line with more than `LONGEST` cells only the beginning, with an ellipsis."""
    if cells(text) <= LONGEST:
        return text
    while cells(text) >= LONGEST:
        text = text[:-1]
    return text.rstrip() + "…"
