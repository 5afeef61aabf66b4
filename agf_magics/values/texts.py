"""The text of a value in all that is written for others: prompts, results for a model, files.

JSON has no NaN and no infinity, and a program that reads them in a text refuses all of it: they are
written as null, and so is NaT (decision A1′). A date, a time or a duration has a text in ISO 8601,
whatever library it is of (decision A1″). Any other opaque value has no text of its own.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

from ..text.length import can_write
from .extent import TooDeep, count_parts
from .value import ATOMS, CONTAINERS, OTHER_KEYS, TEXT, Value, is_json, type_name

MOST_SEARCHED = 100_000
"""Parts of a value that are looked at to say where a null was written."""

_UNITS = {"W": 604_800, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
"""The seconds of a unit of numpy's durations."""
_SMALL_UNITS = {"ms": 3, "us": 6, "ns": 9, "ps": 12, "fs": 15, "as": 18}
"""The decimal places of a unit of numpy's durations below a second."""


class WrittenValue(NamedTuple):
    """A value as it is written."""

    text: str
    has_nulls: bool
    """Whether a number that is none, or NaT, was written as null."""


class TooLong(ValueError):
    """A text has more characters than it may have."""


def is_missing(value: Value) -> bool:
    """Whether it is NaN, an infinity, NaT or NA: no JSON text has them.

    >>> is_missing(float("inf")), is_missing(0.0), is_missing(None)
    (True, False, False)
    """
    kind = type(value)
    if kind is float:
        return bool(value - value != 0)
    if kind in ATOMS:
        return False
    return kind.__name__ in ("NaTType", "NAType") or (is_numpy_time(value) and value != value)


def iso_text(value: Value) -> str | None:
    """A date, a time or a duration in ISO 8601; None for any other value, and for NaT.

    >>> iso_text(datetime.timedelta(minutes=90)), iso_text(datetime.date(2026, 1, 2)), iso_text(1)
    ('PT1H30M', '2026-01-02', None)
    """
    if type(value) in ATOMS or is_missing(value):
        return None
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        nanoseconds = getattr(value, "nanoseconds", 0)  # pandas's have them
        micros = value // datetime.timedelta(microseconds=1)
        return _duration(micros * 1000 + nanoseconds, 9)
    if not is_numpy_time(value):
        return None
    numpy: Any = sys.modules["numpy"]
    if value.dtype.kind == "M":
        return str(numpy.datetime_as_string(value))
    unit, multiple = numpy.datetime_data(value.dtype)
    count = int(value.astype("int64")) * multiple
    if unit in ("Y", "M"):  # neither has a length in days
        return f"{'-' * (count < 0)}P{abs(count)}{unit}"
    if unit in _SMALL_UNITS:
        return _duration(count, _SMALL_UNITS[unit])
    return _duration(count * _UNITS[unit], 0) if unit in _UNITS else str(count)


def duration_seconds(value: Value) -> float | None:
    """A duration of numpy in seconds; None for any other value, and for one of months or years."""
    if not is_numpy_time(value) or value.dtype.kind != "m":
        return None
    numpy: Any = sys.modules["numpy"]
    unit, _ = numpy.datetime_data(value.dtype)
    in_seconds = unit in _UNITS or unit in _SMALL_UNITS
    return float(value / numpy.timedelta64(1, "s")) if in_seconds else None


def _duration(count: int, places: int) -> str:
    """``count`` seconds divided by ten to the power of ``places``."""
    sign, count = "-" * (count < 0), abs(count)
    whole, rest = divmod(count, 10**places)
    days, seconds = divmod(whole, 86_400)
    hours, seconds = divmod(seconds, 3_600)
    minutes, seconds = divmod(seconds, 60)
    decimals = f".{rest:0{places}}".rstrip("0") if rest else ""
    time = "".join(f"{n}{letter}" for n, letter in ((hours, "H"), (minutes, "M")) if n)
    if seconds or decimals or not (time or days):
        time += f"{seconds}{decimals}S"
    return f"{sign}P{f'{days}D' if days else ''}{f'T{time}' if time else ''}"


def is_numpy_time(value: Any) -> bool:
    """Whether it is a date or a duration of numpy."""
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.datetime64 | numpy.timedelta64)


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
