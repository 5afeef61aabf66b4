"""Arrays, tables and a few values of the standard library as parts of a digest: everything that a function could read
of them, or `Untold`.

Read by their buffers. The libraries are never imported here: whoever has a table has loaded its library.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import json
import pathlib
import re
import sys
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any, Protocol

from ..flow.values import is_json


class Untold(Exception):
    """There is no telling what it is."""


class Telling(Protocol):
    """What a digest is made of."""

    def add(self, kind: str, data: bytes | str = b"") -> None: ...
    def add_reserved(self, kind: str, data: bytes) -> None: ...
    def reserve(self, size: int) -> None: ...
    def tell(self, thing: Any) -> None: ...


def tell_data(told: Telling, thing: Any) -> bool:
    """Tell what ``thing`` holds; whether it is a value of a kind that is known here. Raises Untold."""
    kind = type(thing)
    if kind in _PLAIN:
        told.add(f"{kind.__module__}.{kind.__qualname__}", _PLAIN[kind](thing))
        return True
    package = kind.__module__.partition(".")[0]
    if package not in ("numpy", "pandas"):
        return False
    library: Any = sys.modules[package]
    if package == "numpy" and (kind is library.ndarray or isinstance(thing, library.generic)):
        told.add("may be written", str(thing.flags.writeable))
        _array(told, thing)
    elif package == "pandas" and isinstance(thing, (library.DataFrame, library.Series)):
        _table(told, thing, library)
    elif package == "pandas" and isinstance(thing, library.Index):
        _index(told, thing, library)
    else:
        raise Untold
    return True


# --- numpy ------------------------------------------------------------------------------------------------------------


def _array(told: Telling, array: Any) -> None:
    if array.dtype.hasobject:
        raise Untold
    told.add("array", f"{type(array).__name__} {array.shape}")
    _dtype(told, array.dtype)
    told.reserve(array.nbytes)  # before anything is copied
    told.add_reserved("bytes", array.tobytes())


def _dtype(told: Telling, dtype: Any) -> None:
    """A type of numbers with the names of its fields: ``dtype.str`` calls every structure ``|V8``."""
    if not type(dtype).__module__.startswith("numpy"):
        raise Untold
    told.add("dtype", f"{dtype.str} {dtype.itemsize} {dtype.isalignedstruct}")
    told.tell(dict(dtype.metadata) if dtype.metadata else None)
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        told.add("of", f"{shape}")
        _dtype(told, base)
    for name in dtype.names or ():
        inner, offset, *title = dtype.fields[name]
        told.add("field", name)
        told.tell([offset, *title])
        _dtype(told, inner)


# --- pandas -----------------------------------------------------------------------------------------------------------

_OF_A_TABLE = frozenset({"_mgr", "_attrs", "_flags", "_name", "_item_cache", "_cacher", "_typ", "_metadata"})


def _table(told: Telling, table: Any, pandas: Any) -> None:
    if type(table) not in (pandas.DataFrame, pandas.Series) or not _OF_A_TABLE.issuperset(vars(table)):
        raise Untold  # a class of somebody's, or attributes that somebody has set
    told.add("table", type(table).__name__)
    told.tell(dict(table.attrs))
    told.tell(table.flags.allows_duplicate_labels)
    _index(told, table.index, pandas)
    if type(table) is pandas.Series:
        told.tell(table.name)
        _column(told, table.array, pandas)
        return
    _index(told, table.columns, pandas)
    for place in range(table.shape[1]):
        _column(told, table.iloc[:, place].array, pandas)


def _index(told: Telling, index: Any, pandas: Any) -> None:
    kind = type(index)
    if not kind.__module__.startswith("pandas"):
        raise Untold
    told.add("index", f"{kind.__name__} {getattr(index, 'freq', None)!r}")
    told.tell(list(index.names))
    if kind is pandas.RangeIndex:
        told.tell([index.start, index.stop, index.step])
    elif kind is pandas.MultiIndex:
        told.tell(index.sortorder)
        for level, codes in zip(index.levels, index.codes, strict=True):
            _index(told, level, pandas)
            _array(told, codes)
    else:
        _column(told, index.array, pandas)


def _column(told: Telling, column: Any, pandas: Any) -> None:
    """The values of one column, by its type."""
    dtype = getattr(column.dtype, "numpy_dtype", column.dtype) if _is_plain(column) else column.dtype
    told.add("column", f"{type(dtype).__name__} {dtype}")
    if isinstance(dtype, pandas.CategoricalDtype):
        told.tell(dtype.ordered)
        _index(told, dtype.categories, pandas)
        _array(told, column.codes)
    elif isinstance(dtype, pandas.IntervalDtype):
        _index(told, column.left, pandas)
        _index(told, column.right, pandas)
    elif isinstance(dtype, pandas.DatetimeTZDtype):
        told.add("zone", f"{type(dtype.tz).__module__} {_zone(dtype.tz)}")
        _array(told, column.view("i8"))
    elif isinstance(dtype, pandas.PeriodDtype):
        _array(told, column.view("i8"))
    elif isinstance(dtype, pandas.StringDtype):
        told.add("missing", f"{dtype.storage} {dtype.na_value!r}")
        told.reserve(column.nbytes)
        _objects(told, column.to_numpy(dtype=object, na_value=None).tolist())
    elif type(dtype).__name__ in _MASKED:
        _array(told, column.isna())
        _array(told, column.to_numpy(dtype=dtype.numpy_dtype, na_value=0))
    elif type(dtype).__module__.startswith("numpy"):
        values = column.to_numpy()
        if dtype.hasobject:
            told.reserve(values.nbytes)
            _objects(told, values.tolist())
        else:
            _array(told, values)
    else:
        raise Untold


def _is_plain(column: Any) -> bool:
    """Whether a column is an array of numpy's in a cover."""
    return type(column.dtype).__name__ == "NumpyEADtype"


_MASKED = frozenset({"BooleanDtype", "Float32Dtype", "Float64Dtype",
                     *(f"{sign}Int{bits}Dtype" for sign in ("", "U") for bits in (8, 16, 32, 64))})  # fmt: skip


def _objects(told: Telling, values: list[Any]) -> None:
    """Values one by one, as JSON where they are that: most are texts."""
    if is_json(values):
        told.add("json", json.dumps(values, separators=(",", ":")))
    else:
        told.tell(values)


# --- the standard library ---------------------------------------------------------------------------------------------


def _zone(zone: datetime.tzinfo | None) -> str:
    """A time zone as text. Raises Untold for a class of somebody's."""
    if isinstance(zone, zoneinfo.ZoneInfo) and zone.key is None:  # read from a file
        raise Untold
    if zone is not None and type(zone) not in (datetime.timezone, zoneinfo.ZoneInfo):
        raise Untold
    return repr(zone)


def _moment(moment: Any) -> str:
    return f"{moment!r} {_zone(moment.tzinfo)}"


_PLAIN: dict[type, Callable[[Any], str]] = {
    datetime.datetime: _moment,
    datetime.time: _moment,
    datetime.date: repr,
    datetime.timedelta: repr,
    datetime.timezone: _zone,
    zoneinfo.ZoneInfo: _zone,
    decimal.Decimal: repr,
    fractions.Fraction: repr,
    uuid.UUID: lambda value: f"{value!r} {value.is_safe}",
    re.Pattern: lambda pattern: f"{pattern.flags} {type(pattern.pattern).__name__} {pattern.pattern!r}",  # not its repr
    **dict.fromkeys((pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath), repr),
}
"""Exact classes whose values are all that these texts say; the repr of a pattern is cut."""
