"""Converts dates, times and durations of any library to ISO 8601 texts and to seconds (decision
A1)."""

from __future__ import annotations

import datetime
import sys
from typing import Any

from ..compat.imports import module_if_loaded
from ..text.length import ATOMS
from .value import Value

_UNITS = {"W": 604_800, "D": 86_400, "h": 3_600, "m": 60, "s": 1}
"""The seconds of each unit of numpy's durations."""
_SMALL_UNITS = {"ms": 3, "us": 6, "ns": 9, "ps": 12, "fs": 15, "as": 18}
"""The decimal places of each unit of numpy's durations below a second."""


def iso_text(value: Value) -> str | None:
    """A date, a time or a duration as a text in ISO 8601; None for any other value, and for NaT.

    >>> iso_text(datetime.timedelta(minutes=90)), iso_text(datetime.date(2026, 1, 2)), iso_text(1)
    ('PT1H30M', '2026-01-02', None)
    """
    if type(value) in ATOMS or is_nat(value):
        return None
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        nanoseconds = getattr(value, "nanoseconds", 0)  # only pandas's durations have nanoseconds
        micros = value // datetime.timedelta(microseconds=1)
        return _duration(micros * 1000 + nanoseconds, 9)
    if not is_numpy_time(value):
        return None
    numpy: Any = sys.modules["numpy"]
    if value.dtype.kind == "M":
        return str(numpy.datetime_as_string(value))
    unit, multiple = numpy.datetime_data(value.dtype)
    count = int(value.astype("int64")) * multiple
    if unit in ("Y", "M"):  # years and months have no fixed length
        return f"{'-' * (count < 0)}P{abs(count)}{unit}"
    if unit in _SMALL_UNITS:
        return _duration(count, _SMALL_UNITS[unit])
    return _duration(count * _UNITS[unit], 0) if unit in _UNITS else str(count)


def duration_seconds(value: Value) -> float | None:
    """A duration of numpy in seconds; None for any other value, and for months and years."""
    if not is_numpy_time(value) or value.dtype.kind != "m":
        return None
    numpy: Any = sys.modules["numpy"]
    unit, _ = numpy.datetime_data(value.dtype)
    in_seconds = unit in _UNITS or unit in _SMALL_UNITS
    return float(value / numpy.timedelta64(1, "s")) if in_seconds else None


def _duration(count: int, places: int) -> str:
    """``count`` seconds divided by ten to the power of ``places``."""
    sign = "-" * (count < 0)
    count = abs(count)
    whole, fraction = divmod(count, 10**places)
    days, seconds = divmod(whole, 86_400)
    hours, seconds = divmod(seconds, 3_600)
    minutes, seconds = divmod(seconds, 60)
    decimals = f".{fraction:0{places}}".rstrip("0") if fraction else ""
    time = "".join(
        f"{number}{letter}" for number, letter in ((hours, "H"), (minutes, "M")) if number
    )
    if seconds or decimals or not (time or days):
        time += f"{seconds}{decimals}S"
    return f"{sign}P{f'{days}D' if days else ''}{f'T{time}' if time else ''}"


def is_numpy_time(value: Any) -> bool:
    """Whether ``value`` is a date or a duration of numpy."""
    numpy = module_if_loaded("numpy")
    return numpy is not None and isinstance(value, numpy.datetime64 | numpy.timedelta64)


def is_nat(value: Any) -> bool:
    """Whether ``value`` is NaT ("not a time") of pandas or numpy."""
    return type(value).__name__ == "NaTType" or (is_numpy_time(value) and bool(value != value))
