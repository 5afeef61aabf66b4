"""Converts a column of values to a column of Arrow, polars or pandas without changing a value.

These libraries change some lists: Arrow drops the time of a datetime that stands beside a date, and
pandas turns whole numbers beside a missing value into floats. So this module chooses the type, and
reads Arrow's column back to compare.
"""

from __future__ import annotations

import datetime
import decimal
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ...compat.imports import installed_only
from ...text.length import ATOMS, TEXT
from ..json_text import write_json
from ..no_json import has_no_json, is_nan
from ..sequences import is_array
from ..times import is_numpy_time
from ..value import Value

LONGEST_CELL = 1_000_000_000
"""The largest number of characters of a cell as JSON."""

_NULL = type(None)
_PLAIN = (
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    bytes,
)
"""Types of values that are not JSON but that Arrow has. `_is_arrow` adds numpy's dates and
arrays."""

_EXACT = 2**53
"""The largest whole number up to which a float is exact."""

_ARROW_UNITS = ("s", "ms", "us", "ns")


class NotHeld(Exception):
    """A library cannot hold some cells of a column. ``numbers``: the indexes of these cells."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = numbers


def arrow_column(values: Sequence[Value]) -> Any:
    """``values`` as an array of pyarrow. JSON values of different kinds become JSON texts. Raises
    NotHeld, and ImportError without pyarrow."""
    with installed_only():
        import pyarrow  # type: ignore[import-untyped]

    if numbers := [number for number, value in enumerate(values) if not _is_arrow(value)]:
        raise NotHeld(numbers)
    plain = list(map(_for_arrow, values))
    try:
        array = pyarrow.array(plain)
        if _is_exact(plain) or _reads_back(pyarrow, array, plain):
            return array
    except UnicodeEncodeError:
        raise NotHeld([n for n, value in enumerate(plain) if not is_utf8(value)]) from None
    except (pyarrow.ArrowException, OverflowError, ValueError, TypeError):
        pass
    if numbers := [number for number, value in enumerate(plain) if not _is_json(value)]:
        raise NotHeld(numbers)
    if numbers := [number for number, value in enumerate(plain) if not is_utf8(value)]:
        raise NotHeld(numbers)
    return pyarrow.array(_json_texts(plain), type=pyarrow.string())


def _json_texts(values: Sequence[Value]) -> list[str | None]:
    """Values of different kinds as JSON texts. Texts stay as they are, unless a text of the column
    could be taken for the JSON of another value."""
    texts = [value for value in values if type(value) is str]
    bare = not any(map(_reads_as_json, texts))
    return [
        value
        if value is None or (bare and type(value) is str)
        else write_json(value, LONGEST_CELL, compact=False).text
        for value in values
    ]


def _reads_as_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def polars_column(polars: Any, name: str, values: Sequence[Value]) -> Any:
    """``values`` as a Series of polars; a Series of objects if Arrow cannot hold them."""
    try:
        return polars.from_arrow(arrow_column(values)).alias(name)
    except NotHeld:
        return polars.Series(name, values, dtype=polars.Object)


def pandas_column(pandas: Any, values: Sequence[Value]) -> Any:
    """``values`` as a Series of pandas. Whole numbers and booleans beside missing values get
    pandas's nullable types; a column without a type of its own is a Series of objects."""
    kinds = set(map(type, values))
    is_full = True
    if _NULL in kinds and len(kinds) > 1:
        kinds = kinds - {_NULL}
        is_full = False
    if kinds == {bool}:
        return pandas.Series(values, dtype="bool" if is_full else "boolean")
    if kinds == {int} and (size := _integer_type(values)) is not None:
        # `Int64` and `UInt64` are the types with missing values.
        return pandas.Series(
            values, dtype=size if is_full else size.replace("i", "I").replace("u", "U")
        )
    if kinds == {float} or (kinds == {int, float} and _are_exact_floats(values)):
        return pandas.Series(values, dtype="float64")
    if kinds == {str} and all(map(is_utf8, values)):
        return pandas.Series(values)
    numpy: Any = sys.modules["numpy"]  # pandas has imported it
    cells = numpy.empty(len(values), dtype=object)
    # one by one: numpy and pandas would look into a list or an array
    for number, value in enumerate(values):
        cells[number] = value
    series = pandas.Series(cells, dtype=object)
    times = (
        (datetime.datetime, pandas.Timestamp),
        (datetime.timedelta, pandas.Timedelta),
        (numpy.datetime64,),
        (numpy.timedelta64,),
    )
    if any(kinds <= {*alike} for alike in times):
        with suppress(ValueError, OverflowError):  # pandas does not have this unit or year
            typed = series.infer_objects()
            if typed.dtype != object and all(map(_is_kept, values, typed.tolist())):
                return typed
    return series


def _integer_type(values: Sequence[Value]) -> str | None:
    numbers = [value for value in values if value is not None]
    low = min(numbers)
    high = max(numbers)
    if low >= -(2**63) and high < 2**63:
        return "int64"
    return "uint64" if low >= 0 and high < 2**64 else None


def _are_exact_floats(values: Sequence[Value]) -> bool:
    return all(abs(value) <= _EXACT for value in values if type(value) is int)


def _is_arrow(value: Value) -> bool:
    """Whether Arrow has a type for ``value`` and all its parts."""
    kind = type(value)
    if kind in ATOMS or has_no_json(value) or isinstance(value, _PLAIN):
        return True
    if kind is list:
        return all(map(_is_arrow, value))
    if kind is dict:
        return TEXT.issuperset(map(type, value)) and all(map(_is_arrow, value.values()))
    if is_numpy_time(value):
        return _unit_seconds(value) is not None
    return is_array(value) and value.dtype.kind in "biufmM" and _has_arrow_unit(value)


def _has_arrow_unit(array: Any) -> bool:
    return array.dtype.kind not in "mM" or _unit_seconds(array) is not None


def _unit_seconds(value: Any) -> str | None:
    """The unit in which Arrow holds a date or a duration of numpy without loss; None for other
    values. Arrow does not read a single numpy value in days."""
    numpy: Any = sys.modules["numpy"]
    unit = str(numpy.datetime_data(value.dtype)[0])
    multiple = numpy.datetime_data(value.dtype)[1]
    if unit in _ARROW_UNITS and multiple == 1:
        return unit
    return "s" if unit in ("W", "D", "h", "m", "s") else None


def _for_arrow(value: Value) -> Value:
    """``value`` as pyarrow accepts it: an array as a list, a date in a unit of Arrow, NaT as
    None."""
    kind = type(value)
    if kind in ATOMS or isinstance(value, _PLAIN):
        is_missing = kind.__name__ == "NaTType" or (kind is not float and is_nan(value))
        return None if is_missing else value
    if kind is list:
        return list(map(_for_arrow, value))
    if kind is dict:
        return {name: _for_arrow(part) for name, part in value.items()}
    if has_no_json(value):
        return None
    if is_numpy_time(value):
        return value.astype(f"{value.dtype.kind}8[{_unit_seconds(value)}]")
    return value.tolist() if value.dtype.kind in "biuf" else list(map(_for_arrow, value))


def _is_exact(values: Sequence[Value]) -> bool:
    """Whether all values have the same type, and Arrow holds that type exactly."""
    kinds = set(map(type, values)) - {_NULL}
    return len(kinds) < 2 and kinds <= ATOMS


def _reads_back(pyarrow: Any, array: Any, values: Sequence[Value]) -> bool:
    if "struct<>" in str(array.type):  # no Parquet file can hold an empty struct
        return False
    try:
        return all(map(_is_kept, values, array.to_pylist()))
    except (
        ValueError,
        OverflowError,
        pyarrow.ArrowException,
    ):  # Python cannot hold this date
        return True


def _is_kept(value: Any, read: Any) -> bool:
    """Whether ``read`` is the ``value`` that was written. Arrow gives each object of a column the
    names of all of them."""
    if value is None or is_nan(value) or (has_no_json(value) and bool(value != value)):
        return read is None or bool(read != read)
    if type(value) is list:
        return type(read) is list and len(value) == len(read) and all(map(_is_kept, value, read))
    if type(value) is dict:
        return type(read) is dict and all(_is_kept(value.get(name), read[name]) for name in read)
    if is_numpy_time(value):
        return bool(type(value)(read) == value)
    if isinstance(value, bool) or isinstance(read, bool):
        return value is read
    return bool(value == read)


def _is_json(value: Value) -> bool:
    kind = type(value)
    if kind is list:
        return all(map(_is_json, value))
    if kind is int:
        return _is_written(value)
    return kind in ATOMS or (kind is dict and all(map(_is_json, value.values())))


def _is_written(number: int) -> bool:
    """Whether Python writes a number in decimal digits: it refuses one of more than 4,300."""
    with suppress(ValueError):
        return bool(number.bit_length() < 2_000 or str(number))
    return False


def is_utf8(value: Value) -> bool:
    """Whether UTF-8 can hold each text in ``value``: none has half of a surrogate pair."""
    kind = type(value)
    if kind is str:
        try:
            return value.isascii() or bool(value.encode())
        except UnicodeEncodeError:
            return False
    if kind is list:
        return all(map(is_utf8, value))
    return kind is not dict or all(is_utf8(n) and is_utf8(part) for n, part in value.items())
