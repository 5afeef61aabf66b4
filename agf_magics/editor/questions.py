"""Answers an editor's questions about a place of a text: completions, help, definitions of names.

A file is treated as a cell below the line of a magic, which is added for the purpose, so that the
answers are the same as in the kernel.
"""

from __future__ import annotations

from typing import NamedTuple

from .body import Offer
from .complete import Surroundings, complete
from .cursor import ELEMENT, Reading
from .names import NAMES
from .text_group import Target, TextGroup, WrittenFile
from .word_help import NAME, describe, word_at

KIND_OF = {
    "identity": "agent",
    "pipeline": "flow",
    **{kind: kind for kind in ("tool", "agent", "flow", "transform", "policy")},
}
"""The shelf of the registry for each kind of name in `NAMES`."""


class Spot(NamedTuple):
    """A place of a text, converted to a place in a cell."""

    cell: str
    place: int
    shift: int
    """The number of characters of the magic's line that was added above the text of a file."""


def spot_of(file: WrittenFile, offset: int) -> Spot | None:
    """The place in the cell for a text; None for a text that does not concern this package."""
    if file.is_cell:
        return Spot(file.text, offset, 0)
    if file.read is None:
        return None
    head = f"%%{file.read.language}\n"
    return Spot(head + file.text, len(head) + offset, len(head))


def complete_at(file: WrittenFile, offset: int, group: TextGroup) -> Offer | None:
    """The completions at a place; None if the text or the line does not concern this package."""
    spot = spot_of(file, offset)
    if spot is None:
        return None
    before = spot.cell[: spot.place]
    line = before.count("\n")
    column = len(before) - (before.rfind("\n") + 1)
    return complete(spot.cell, line, column, Surroundings(group.registry, {}, {}))


def help_at(file: WrittenFile, offset: int, group: TextGroup) -> str:
    """The help for the word at a place, without the problem there, which the editor shows."""
    spot = spot_of(file, offset)
    if spot is None:
        return ""
    return describe(spot.cell, spot.place, group.registry, with_problems=False) or ""


def definition_at(file: WrittenFile, offset: int, group: TextGroup) -> Target | None:
    """The place where the name at the cursor is defined. The name is the value of a key that
    accepts names, even in a text with mistakes."""
    spot = spot_of(file, offset)
    if spot is None or file.read is None:
        return None
    body = spot.shift if spot.shift else file.read.definition_start
    start = spot.cell.rfind("\n", 0, spot.place) + 1
    line = spot.cell[start:].split("\n", 1)[0]
    word = word_at(NAME, line, spot.place - start)
    if word is None or start < body:
        return None
    cursor = Reading(spot.cell[body : start + word.start()]).cursor
    key = next((part for part in reversed(cursor.path) if part != ELEMENT), "")
    names = NAMES.get(file.read.language)
    kinds = [
        KIND_OF[kind] for kind in (names.values.get(key, ()) if names else ()) if kind in KIND_OF
    ]
    # A tool or an agent may be a flow.
    order = dict.fromkeys([*kinds, "tool", "agent", "flow"]) if kinds else ()
    targets = (group.targets.get((kind, word[0])) for kind in order)
    return next(filter(None, targets), None)
