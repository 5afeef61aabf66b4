"""Arrays, tables and values of the standard library as parts of a digest, with everything that a
function can read of them.

Arrays are read by their buffers. The libraries are not imported here: the owner of a table has
imported its library.
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


class NoDigest(Exception):
    """The value has no digest."""


class Digest(Protocol):
    """Collects the parts of a digest."""

    def add(self, kind: str, data: bytes | str = b"") -> None: ...
    def add_reserved(self, kind: str, data: bytes) -> None: ...
    def reserve(self, size: int) -> None: ...
    def add_value(self, thing: Any) -> None: ...


def add_data(digest: Digest, thing: Any) -> bool:
    """Add ``thing`` if it is of a known kind, and return whether it is. Raises NoDigest."""
    kind = type(thing)
    if kind in _PLAIN:
        digest.add(f"{kind.__module__}.{kind.__qualname__}", _PLAIN[kind](thing))
        return True
    package = kind.__module__.partition(".")[0]
    if package not in ("numpy", "pandas"):
        return False
    library: Any = sys.modules[package]
    if package == "numpy" and (kind is library.ndarray or isinstance(thing, library.generic)):
        digest.add("writeable", str(thing.flags.writeable))
        _array(digest, thing)
    elif package == "pandas" and isinstance(thing, (library.DataFrame, library.Series)):
        _table(digest, thing, library)
    elif package == "pandas" and isinstance(thing, library.Index):
        _index(digest, thing, library)
    else:
        raise NoDigest
    return True


# --- numpy
# --------------------------------------------------------------------------------------------------


def _array(digest: Digest, array: Any) -> None:
    if array.dtype.hasobject:
        raise NoDigest
    digest.add("array", f"{type(array).__name__} {array.shape}")
    _dtype(digest, array.dtype)
    digest.reserve(array.nbytes)  # before anything is copied
    digest.add_reserved("bytes", array.tobytes())


def _dtype(digest: Digest, dtype: Any) -> None:
    """A dtype with the names of its fields: ``dtype.str`` of any structure is ``|V8``."""
    if not type(dtype).__module__.startswith("numpy"):
        raise NoDigest
    digest.add("dtype", f"{dtype.str} {dtype.itemsize} {dtype.isalignedstruct}")
    digest.add_value(dict(dtype.metadata) if dtype.metadata else None)
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        digest.add("of", f"{shape}")
        _dtype(digest, base)
    for name in dtype.names or ():
        inner, offset, *title = dtype.fields[name]
        digest.add("field", name)
        digest.add_value([offset, *title])
        _dtype(digest, inner)


# --- pandas
# --------------------------------------------------------------------------------------------------

_OF_A_TABLE = frozenset(
    {"_mgr", "_attrs", "_flags", "_name", "_item_cache", "_cacher", "_typ", "_metadata"}
)


def _table(digest: Digest, table: Any, pandas: Any) -> None:
    if type(table) not in (pandas.DataFrame, pandas.Series) or not _OF_A_TABLE.issuperset(
        vars(table)
    ):
        raise NoDigest  # a subclass, or attributes of the user
    digest.add("table", type(table).__name__)
    digest.add_value(dict(table.attrs))
    digest.add_value(table.flags.allows_duplicate_labels)
    _index(digest, table.index, pandas)
    if type(table) is pandas.Series:
        digest.add_value(table.name)
        _column(digest, table.array, pandas)
        return
    _index(digest, table.columns, pandas)
    for place in range(table.shape[1]):
        _column(digest, table.iloc[:, place].array, pandas)


def _index(digest: Digest, index: Any, pandas: Any) -> None:
    kind = type(index)
    if not kind.__module__.startswith("pandas"):
        raise NoDigest
    digest.add("index", f"{kind.__name__} {getattr(index, 'freq', None)!r}")
    digest.add_value(list(index.names))
    if kind is pandas.RangeIndex:
        digest.add_value([index.start, index.stop, index.step])
    elif kind is pandas.MultiIndex:
        digest.add_value(index.sortorder)
        for level, codes in zip(index.levels, index.codes, strict=True):
            _index(digest, level, pandas)
            _array(digest, codes)
    else:
        _column(digest, index.array, pandas)


def _column(digest: Digest, column: Any, pandas: Any) -> None:
    """The values of one column, by its type."""
    dtype = (
        getattr(column.dtype, "numpy_dtype", column.dtype) if _is_plain(column) else column.dtype
    )
    digest.add("column", f"{type(dtype).__name__} {dtype}")
    if isinstance(dtype, pandas.CategoricalDtype):
        digest.add_value(dtype.ordered)
        _index(digest, dtype.categories, pandas)
        _array(digest, column.codes)
    elif isinstance(dtype, pandas.IntervalDtype):
        _index(digest, column.left, pandas)
        _index(digest, column.right, pandas)
    elif isinstance(dtype, pandas.DatetimeTZDtype):
        digest.add("zone", f"{type(dtype.tz).__module__} {_zone(dtype.tz)}")
        _array(digest, column.view("i8"))
    elif isinstance(dtype, pandas.PeriodDtype):
        _array(digest, column.view("i8"))
    elif isinstance(dtype, pandas.StringDtype):
        digest.add("missing", f"{dtype.storage} {dtype.na_value!r}")
        digest.reserve(column.nbytes)
        _objects(digest, column.to_numpy(dtype=object, na_value=None).tolist())
    elif type(dtype).__name__ in _MASKED:
        _array(digest, column.isna())
        _array(digest, column.to_numpy(dtype=dtype.numpy_dtype, na_value=0))
    elif type(dtype).__module__.startswith("numpy"):
        values = column.to_numpy()
        if dtype.hasobject:
            digest.reserve(values.nbytes)
            _objects(digest, values.tolist())
        else:
            _array(digest, values)
    else:
        raise NoDigest


def _is_plain(column: Any) -> bool:
    """Whether a column wraps a numpy array."""
    return type(column.dtype).__name__ == "NumpyEADtype"


_MASKED = frozenset(
    {
        "BooleanDtype",
        "Float32Dtype",
        "Float64Dtype",
        *(f"{sign}Int{bits}Dtype" for sign in ("", "U") for bits in (8, 16, 32, 64)),
    }
)


def _objects(digest: Digest, values: list[Any]) -> None:
    """Values as JSON if possible (most are strings), else one by one."""
    if is_json(values):
        digest.add("json", json.dumps(values, separators=(",", ":")))
    else:
        digest.add_value(values)


# --- the standard library
# ---------------------------------------------------------------------------------------------


def _zone(zone: datetime.tzinfo | None) -> str:
    """A time zone as text. Raises NoDigest for a user's class."""
    if isinstance(zone, zoneinfo.ZoneInfo) and zone.key is None:  # read from a file
        raise NoDigest
    if zone is not None and type(zone) not in (datetime.timezone, zoneinfo.ZoneInfo):
        raise NoDigest
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
    re.Pattern: lambda pattern: (
        f"{pattern.flags} {type(pattern.pattern).__name__} {pattern.pattern!r}"
    ),  # not its repr
    **dict.fromkeys(
        (pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath),
        repr,
    ),
}
"""Exact classes whose values have a complete text; the repr of a pattern is truncated."""
