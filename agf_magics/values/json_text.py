"""The JSON of a value in all that is written for others: prompts, results for a model, files.

JSON has no NaN and no infinity, and a program that reads them in a text refuses all of it: they are
written as null, and so is NaT (decision A1′). Dates have a text (times.py). Any other opaque value
has none of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from ..text.length import TEXT, can_write
from .extent import CONTAINERS
from .no_json import has_no_json
from .times import iso_text
from .value import OTHER_KEYS, Value, type_name


class WrittenValue(NamedTuple):
    """A value as it is written."""

    text: str
    has_nulls: bool
    """Whether NaN, an infinity or NaT was written as null."""


class TooLong(ValueError):
    """A text has more characters than it may have."""


_NO_NUMBER = re.compile(r"(?:NaN|-?Infinity)\Z")


def write_json(
    value: Value,
    longest: int,
    otherwise: Callable[[Value], Value] | None = None,
    compact: bool = True,
) -> WrittenValue:
    """``value`` as JSON; ``compact``: without blanks. ``otherwise``: what is written for an opaque
    part; None: it raises TypeError with the name of its type. Raises TooLong, and ValueError for
    what Python does not write: it nests too deeply, or has a number of too many digits."""
    # An atom weighs 8, and has two characters at least with the comma after it.
    if not can_write(value, 4 * longest):
        raise TooLong(f"has more than {longest:,} characters")
    if not _has_only_text_keys(value):
        raise TypeError(OTHER_KEYS)
    encoder = _encoder(otherwise or _refuse, (",", ":") if compact else (", ", ": "))
    pieces = list[str]()
    room = longest
    has_nulls = False
    # Piece by piece: a small value with shared parts can have a large JSON.
    for piece in encoder.iterencode(value):
        # A piece is one value, behind its comma; a text ends with its quote.
        if piece[-1] in "Ny" and _NO_NUMBER.search(piece):
            piece = _NO_NUMBER.sub("null", piece)
            has_nulls = True
        elif piece.endswith("null") and not has_nulls:
            has_nulls = encoder.met_missing
        pieces.append(piece)
        room -= len(piece)
        if room < 0:
            raise TooLong(f"has more than {longest:,} characters")
    return WrittenValue("".join(pieces), has_nulls)


def _has_only_text_keys(value: Value) -> bool:
    """Whether all mappings in a value have texts as keys: JSON would make texts of others. Each list
    and mapping is looked at once, however many places it has."""
    unseen = [value]
    seen = set[int]()
    while unseen:
        part = unseen.pop()
        if type(part) not in CONTAINERS or id(part) in seen:
            continue
        seen.add(id(part))
        if type(part) is dict:
            if not TEXT.issuperset(map(type, part)):
                return False
            part = part.values()
        unseen += [inner for inner in part if type(inner) in CONTAINERS]
    return True


class _Encoder(json.JSONEncoder):
    met_missing = False
    """Whether it has written a missing value as null."""


def _encoder(otherwise: Callable[[Value], Value], separators: tuple[str, str]) -> _Encoder:
    """An encoder that writes missing values as null, dates as text, and else ``otherwise``."""

    def opaque(part: Value) -> Value:
        if has_no_json(part):
            encoder.met_missing = True
            return None
        text = iso_text(part)
        return otherwise(part) if text is None else text

    encoder = _Encoder(ensure_ascii=False, separators=separators, default=opaque)
    return encoder


def _refuse(part: Value) -> NoReturn:
    raise TypeError(type_name(part))
