"""Repairs of problems: what a hint says to write, where the text with it has the problem no more.

A repair is tried before it is offered, because a hint is for a person: its place may be another one,
or a second problem may stand behind the first one. A question is asked at each move of the cursor,
so what was found is kept with the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from .hint_texts import texts_of
from .pasting import Edit, pasted
from .problems import Place, ReadText, places_of, read_cell, read_file_text
from .text_group import TextGroup, WrittenFile

MOST_TRIED = 30
"""Places that are tried for a problem: each costs a check of the text."""

MOST_CHARACTERS = 200_000
"""Characters that are checked for a problem, which bounds the places of a long text."""

MOST_LOOKED_AT = 10
"""Problems of one question for which places are tried."""

LINKED = ("flow.", "model.", "run.")
"""Codes of problems that are looked for only in a text without other errors."""


class Repair(NamedTuple):
    """An edit that takes a problem away."""

    problem: Place
    edit: Edit
    written: str
    """What the hint says to write."""


def repairs_of(file: WrittenFile, start: int, end: int, group: TextGroup) -> list[Repair]:
    """The repairs of the problems between two places of a text."""
    here = [one for one in file.problems or () if one.start <= end and one.end >= start]
    new = 0
    for one in here:
        new += one not in file.repairs
        if new > MOST_LOOKED_AT:
            break
        if one not in file.repairs:
            file.repairs[one] = list(_of_problem(file, one, group))
    return [repair for one in here for repair in file.repairs.get(one, ())]


def _of_problem(file: WrittenFile, one: Place, group: TextGroup) -> Iterator[Repair]:
    """For each text of its hint the first place where it takes the problem away."""
    left = max(2, min(MOST_TRIED, MOST_CHARACTERS // max(1, len(file.text))))
    for written in texts_of(one.hint):
        for edit in islice(pasted(file.text, one.start, one.end, written), left):
            left -= 1
            if _is_cured(file, one, edit.applied(file.text), group):
                yield Repair(one, edit, written)
                break


def _is_cured(file: WrittenFile, one: Place, text: str, group: TextGroup) -> bool:
    """Whether a text has the problem no more, and no other one. What the problem hid is no new one:
    the language behind broken YAML; names and warnings behind an error of the language."""
    read = _read(file, text)
    after = places_of(read, group.registry) if read is not None else []
    before = Counter(map(_identity, file.problems or ()))
    new = [each for each in after if _identity(each) not in before]
    if file.read is not None and file.read.written.flow is None:
        new = [each for each in new if each.found.severity == "error"]
        new = [each for each in new if not each.code.startswith(LINKED)]
    if one.code.startswith("yaml."):
        new = [each for each in new if each.code.startswith("yaml.")]
    return not new and Counter(map(_identity, after))[_identity(one)] < before[_identity(one)]


def _read(file: WrittenFile, text: str) -> ReadText | None:
    if file.is_cell:
        return read_cell(text)
    return read_file_text(text, file.read.language, file.name) if file.read else None


def _identity(one: Place) -> tuple[str, str]:
    return one.found.code, one.found.message
