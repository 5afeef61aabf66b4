"""The JSON of a value in all that is written for others: prompts, results for a model, files.

JSON has no NaN and no infinity, and a program that reads them in a text refuses all of it: they are
written as null, and so is NaT (decision A1′). Dates have a text (times.py). Any other opaque value
has none of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, NoReturn

from ..text.length import TEXT, can_write
from .extent import CONTAINERS, TooDeep, count_parts
from .times import is_missing, iso_text
from .value import OTHER_KEYS, Value, is_json, type_name

MOST_SEARCHED = 100_000
"""Parts of a value that are looked at to say where a null was written."""


class WrittenValue(NamedTuple):
    """A value as it is written."""

    text: str
    has_nulls: bool
    """Whether a number that is none, or NaT, was written as null."""


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
    pieces, room, has_nulls = list[str](), longest, False
    # Piece by piece: a small value with shared parts can have a large JSON.
    for piece in encoder.iterencode(value):
        # A piece is one value, behind its comma; a text ends with its quote.
        if piece[-1] in "Ny" and _NO_NUMBER.search(piece):
            piece, has_nulls = _NO_NUMBER.sub("null", piece), True
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
    left, seen = [value], set[int]()
    while left:
        part = left.pop()
        if type(part) not in CONTAINERS or id(part) in seen:
            continue
        seen.add(id(part))
        if type(part) is dict:
            if not TEXT.issuperset(map(type, part)):
                return False
            part = part.values()
        left += [inner for inner in part if type(inner) in CONTAINERS]
    return True


class _Encoder(json.JSONEncoder):
    met_missing = False


def _encoder(otherwise: Callable[[Value], Value], separators: tuple[str, str]) -> _Encoder:
    def opaque(part: Value) -> Value:
        if is_missing(part):
            encoder.met_missing = True
            return None
        text = iso_text(part)
        return otherwise(part) if text is None else text

    encoder = _Encoder(ensure_ascii=False, separators=separators, default=opaque)
    return encoder


def _refuse(part: Value) -> NoReturn:
    raise TypeError(type_name(part))


def as_json(value: Value) -> Value:
    """``value`` as JSON: null for a number that is none, and a text in the place of each other part
    that is not JSON, and of a whole that has too many parts."""
    try:
        count_parts(value)
    except TooDeep as error:
        return f"⟨{type(value).__name__}: {error}⟩"
    return _as_json(value, {})


def _as_json(value: Value, visited: dict[int, Value]) -> Value:
    kind = type(value)
    if kind is not list and not (kind is dict and TEXT.issuperset(map(type, value))):
        return _atom_as_json(value)
    if id(value) not in visited:
        visited[id(value)] = (
            [_as_json(part, visited) for part in value]
            if kind is list
            else {key: _as_json(part, visited) for key, part in value.items()}
        )
    return visited[id(value)]


def _atom_as_json(value: Value) -> Value:
    kind = type(value)
    if is_missing(value):
        return None
    if kind is not int and is_json(value):
        return value
    if (text := iso_text(value)) is not None:
        return text
    try:
        text = repr(value) if can_write(value) else f"⟨{kind.__name__}⟩"
    except Exception:  # code of a user, and a number of more digits than Python writes
        return f"⟨{kind.__name__}⟩"
    return value if kind is int else text


def missing_at(value: Value) -> str:
    """Where a value has its first number that is none, or NaT, and which: ``NaN at .rows[3].kg``.

    >>> missing_at({"a": [1.0, float("nan")]}), missing_at(float("-inf"))
    ('NaN at .a[1]', '-infinity')
    """
    for path, part in _parts(value):
        if is_missing(part):
            name = str(part).replace("nan", "NaN").replace("inf", "infinity").strip("<>")
            return f"{name} at {path}" if path else name
    return "NaN"


def _parts(value: Value) -> Iterator[tuple[str, Value]]:
    """The parts of ``value`` with their paths, in order; at most `MOST_SEARCHED`."""
    left: list[tuple[str, Value]] = [("", value)]
    for _ in range(MOST_SEARCHED):
        if not left:
            return
        path, part = left.pop()
        yield path, part
        if type(part) is dict:
            inner = list(part.items())[:MOST_SEARCHED]
            left += [(f"{path}.{name}", one) for name, one in reversed(inner)]
        elif type(part) is list:
            numbered = list(enumerate(part[:MOST_SEARCHED]))
            left += [(f"{path}[{number}]", one) for number, one in reversed(numbered)]
