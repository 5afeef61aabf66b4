"""Writes a value as JSON for others: in prompts, in results for a model, in files.

JSON has no NaN and no infinity, and other programs refuse a whole text because of them. So they are
written as null, and so is NaT (decision A1). Dates are written as text (times.py). Other opaque
values have no JSON.
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
    """The JSON text of a value."""

    text: str
    has_nulls: bool
    """True if NaN, an infinity or NaT was written as null."""


class TooLong(ValueError):
    """The JSON of a value has too many characters."""


_NO_NUMBER = re.compile(r"(?:NaN|-?Infinity)\Z")


def write_json(
    value: Value,
    longest: int,
    otherwise: Callable[[Value], Value] | None = None,
    compact: bool = True,
) -> WrittenValue:
    """``value`` as JSON. ``longest``: the largest number of characters. ``otherwise``: converts an
    opaque part; None: such a part raises TypeError with the name of its type. ``compact``: whether
    the text has no blanks; default True. Raises TooLong, and ValueError if the value nests too
    deeply or has a number with too many digits."""
    # `can_write` counts 8 characters for a number or null, whose shortest JSON has 2 with its comma.
    # So a value that it refuses at four times the length is too long for sure.
    if not can_write(value, 4 * longest):
        raise TooLong(f"has more than {longest:,} characters")
    if not _has_only_text_keys(value):
        raise TypeError(OTHER_KEYS)
    encoder = _encoder(otherwise or _refuse, (",", ":") if compact else (", ", ": "))
    pieces = list[str]()
    room = longest
    has_nulls = False
    # Written piece by piece, because a small value with shared parts can have a large JSON.
    for piece in encoder.iterencode(value):
        # A piece is a comma and one value, so this matches no text: a text ends with its quote. The
        # last letters of NaN and Infinity come first, because few pieces have them.
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
    """Whether all keys of the mappings in ``value`` are texts: JSON would turn other keys into
    texts. Each container is visited once, however many places it has."""
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
    """True after a missing value was written as null."""


def _encoder(otherwise: Callable[[Value], Value], separators: tuple[str, str]) -> _Encoder:
    """An encoder that writes missing values as null and dates as text, and converts other opaque
    parts with ``otherwise``."""

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
