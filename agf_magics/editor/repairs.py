"""Repairs of problems: the name that a hint means, if the text with it has the problem no more.

A repair is tried before it is offered, because a hint is for a person: the name may be wrong at its
place, or a second problem may stand behind the first one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from .problems import Place, places_of, read_cell, read_file_text
from .text_group import TextGroup, WrittenFile

MOST_TRIED = 10
"""Problems of one question that are tried: each costs a check of the text."""

_MEANT = "did you mean "
_QUOTES = "\"'"


class Repair(NamedTuple):
    """A text for the place of a problem."""

    problem: Place
    text: str


def repairs_of(file: WrittenFile, start: int, end: int, group: TextGroup) -> list[Repair]:
    """The repairs of the problems between two places of a text."""
    here = (one for one in file.problems or () if one.start <= end and one.end >= start)
    meant = ((one, name) for one in here if (name := _meant(one.hint)))
    return list(
        filter(None, (_tried(file, one, name, group) for one, name in islice(meant, MOST_TRIED)))
    )


def _meant(hint: str) -> str:
    """The first name that a hint offers; empty: it offers none."""
    line = hint.partition(_MEANT)[2].partition("\n")[0]
    for end, sign in enumerate(line):
        if sign == "?" and (
            line[end + 1 : end + 2].isspace() or line[end + 1 : end + 2] in ("", "?")
        ):
            return line[:end]
    return ""


def _tried(file: WrittenFile, one: Place, name: str, group: TextGroup) -> Repair | None:
    """The first text for ``name`` that takes the problem away and brings no other one."""
    before = {_identity(each) for each in file.problems or ()}
    for new in _written(file.text[one.start : one.end], name):
        text = file.text[: one.start] + new + file.text[one.end :]
        after = {_identity(each) for each in _checked(file, text, group)}
        if _identity(one) not in after and after <= before:
            return Repair(one, new)
    return None


def _written(old: str, name: str) -> Iterator[str]:
    yield name
    if old[:1] in _QUOTES and len(old) > 1 and old[0] == old[-1]:
        yield f"{old[0]}{name}{old[0]}"


def _checked(file: WrittenFile, text: str, group: TextGroup) -> list[Place]:
    if file.is_cell:
        read = read_cell(text)
    else:
        read = read_file_text(text, file.read.language, file.name) if file.read else None
    return places_of(read, group.registry) if read is not None else []


def _identity(one: Place) -> tuple[str, str]:
    return one.found.code, one.found.message
