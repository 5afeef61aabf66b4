"""Reads frames and arrays whole, for texts that others read: their ``str`` shows a few rows and cuts
long cells."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from ...text.length import ATOMS
from ..value import Value
from .data_frames import FrameRows, arrow_form, pandas_frame, polars_frame, with_index
from .first_rows import UNNAMED, column_texts

_SERIES = frozenset({("pandas", "Series"), ("polars", "Series")})
_FRAMES = frozenset({("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table")})
_PLAIN = frozenset("biufUS")
"""The kinds of arrays whose elements have a Python value of their own."""
_OTHER = frozenset("MmO")
"""Further kinds of arrays whose elements a text can have: dates, durations, objects."""


class Elements(NamedTuple):
    """The first elements of a frame or an array, as values."""

    total: int
    """The number of elements of the whole value."""
    first: Sequence[Value]
    noun: str
    """The word for the elements: ``rows``, ``elements``."""


def has_elements(value: Value) -> bool:
    """Whether ``value`` is a frame of pandas, polars or pyarrow with rows, or an array of numpy. A
    subclass counts, because its text is cut, too."""
    kind = type(value)
    if kind in ATOMS or kind is list or kind is dict:
        return False
    try:
        if _kinds(value).isdisjoint(_SERIES | _FRAMES):
            return _is_array(value)
        return all(value.shape)
    except Exception:  # a subclass may run any code
        return False


def elements_of(value: Value, most: int) -> Elements | None:
    """The rows of a frame, or the elements of an array, as many as JSON of ``most`` characters has
    room for. None for any other value, for one that cannot be read, and for a frame without rows,
    whose ``str`` has its columns. Missing cells are null, as in a table (decision D54)."""
    if not has_elements(value):
        return None
    try:
        return _array_elements(value, most) if _is_array(value) else _rows(_frame_of(value), most)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of polars is not a subclass of Exception
        return None


def _kinds(value: Value) -> frozenset[tuple[str, str]]:
    """The libraries and the names of the classes of a value."""
    bases = type(value).__mro__
    return frozenset((base.__module__.partition(".")[0], base.__name__) for base in bases)


def _is_array(value: Value) -> bool:
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray):
        return False
    return bool(value.ndim) and value.dtype.kind in _PLAIN | _OTHER


def _frame_of(value: Any) -> Any:
    """A frame, or the frame with a series as its column."""
    if _kinds(value).isdisjoint(_SERIES):
        return value
    return value.to_frame(UNNAMED if value.name in (None, "") else value.name)


def _rows(frame: Any, most: int) -> Elements:
    """The rows of a frame, each a mapping of columns to cells."""
    names = frame.column_names if hasattr(frame, "column_names") else frame.columns
    most_rows = most // sum(len(str(name)) + len('"":0,') for name in names) + 1
    if hasattr(frame, "iloc"):
        few = with_index(frame.iloc[:most_rows])
        few = few.set_axis(column_texts(few.columns), axis=1)
        rows = FrameRows(few, few.columns, pandas_frame)
    elif hasattr(frame, "to_dicts"):
        rows = FrameRows(frame.slice(0, most_rows), frame.columns, polars_frame)
    else:
        few = frame.slice(0, most_rows).rename_columns(column_texts(frame.column_names))
        rows = FrameRows(few, few.column_names, arrow_form)
    return Elements(len(frame), list(rows), "rows")


def _array_elements(value: Any, most: int) -> Elements:
    """The elements along the first axis of an array; those of further axes are lists. Empty
    if not even the first one has room: a list of its numbers takes far more memory than the array."""
    most_elements = most * len(value) // max(2 * value.size, 1)
    return Elements(len(value), list(map(_nested, islice(value, most_elements))), "elements")


def _nested(part: Any) -> Value:
    if getattr(part, "ndim", 0):
        return list(map(_nested, part))
    return part.item() if getattr(getattr(part, "dtype", None), "kind", "") in _PLAIN else part
