"""Adds arrays of numpy and tables of pandas to a digest.

Arrays are read through their buffers. The libraries are not imported here: whoever made the table
has imported its library.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from ...text.length import can_write
from ...values.value import is_json
from .digest import BY_PACKAGE, MOST_JSON, Digest, NoDigest, add_installed_object, zone_text


def _add_data(digest: Digest, thing: Any, package: str) -> None:
    """Add an array, a scalar, a table, a column or an index, with everything that code can read of
    it."""
    kind = type(thing)
    library = sys.modules[package]
    if package == "numpy" and (kind is library.ndarray or isinstance(thing, library.generic)):
        digest.add("writeable", str(thing.flags.writeable))
        _add_array(digest, thing)
    elif package == "numpy" and isinstance(thing, library.dtype):
        _add_dtype(digest, thing)
    elif package == "pandas" and isinstance(thing, (library.DataFrame, library.Series)):
        _add_table(digest, thing, library)
    elif package == "pandas" and isinstance(thing, library.Index):
        _add_index(digest, thing, library)
    elif package == "pandas" and _is_scalar(kind, library):
        _add_scalar(digest, thing, library)
    else:
        add_installed_object(digest, thing)


def _is_scalar(kind: type, pandas: Any) -> bool:
    return kind in (pandas.Timestamp, pandas.Timedelta, pandas.Period, pandas.Interval)


def _add_scalar(digest: Digest, thing: Any, pandas: Any) -> None:
    """Add a moment, a duration, a period or an interval of pandas."""
    kind = type(thing)
    if kind is pandas.Interval:
        digest.add_all("Interval", (thing.left, thing.right, thing.closed))
    elif kind is pandas.Period:
        digest.add("Period", f"{thing.ordinal} {thing.freqstr}")
    elif kind is pandas.Timedelta:
        digest.add("Timedelta", f"{thing.asm8!r}")
    else:
        digest.add("Timestamp", f"{thing.asm8!r} {thing.fold} {zone_text(thing.tzinfo)}")


def _add_array(digest: Digest, array: Any) -> None:
    if array.dtype.hasobject:
        raise NoDigest
    digest.add("array", f"{type(array).__name__} {array.shape}")
    _add_dtype(digest, array.dtype)
    digest.reserve(array.nbytes)  # before any byte is copied
    digest.add_reserved("bytes", array.tobytes())


def _add_dtype(digest: Digest, dtype: Any) -> None:
    """Add a dtype with the names of its fields, which ``dtype.str`` of a structure leaves out."""
    if not type(dtype).__module__.startswith("numpy"):
        raise NoDigest
    digest.add("dtype", f"{dtype.str} {dtype.itemsize} {dtype.isalignedstruct}")
    digest.add_value(dict(dtype.metadata) if dtype.metadata else None)
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        digest.add("of", f"{shape}")
        _add_dtype(digest, base)
    for name in dtype.names or ():
        inner, offset, *title = dtype.fields[name]
        digest.add("field", name)
        digest.add_value([offset, *title])
        _add_dtype(digest, inner)


_OF_A_TABLE = frozenset(
    {"_mgr", "_attrs", "_flags", "_name", "_item_cache", "_cacher", "_typ", "_metadata"}
)
"""The attributes that every table of pandas may have."""


def _add_table(digest: Digest, table: Any, pandas: Any) -> None:
    if type(table) not in (pandas.DataFrame, pandas.Series) or not _OF_A_TABLE.issuperset(
        vars(table)
    ):
        raise NoDigest  # it is a subclass, or has attributes of the user
    digest.add("table", type(table).__name__)
    digest.add_value(dict(table.attrs))
    digest.add_value(table.flags.allows_duplicate_labels)
    _add_index(digest, table.index, pandas)
    if type(table) is pandas.Series:
        digest.add_value(table.name)
        _add_column(digest, table.array, pandas)
        return
    _add_index(digest, table.columns, pandas)
    for place in range(table.shape[1]):
        _add_column(digest, table.iloc[:, place].array, pandas)


def _add_index(digest: Digest, index: Any, pandas: Any) -> None:
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
            _add_index(digest, level, pandas)
            _add_array(digest, codes)
    else:
        _add_column(digest, index.array, pandas)


def _add_column(digest: Digest, column: Any, pandas: Any) -> None:
    """Add the values of a column, by its type."""
    dtype = column.dtype
    if type(dtype).__name__ == "NumpyEADtype":  # the column wraps a numpy array
        dtype = dtype.numpy_dtype
    digest.add("column", f"{type(dtype).__name__} {dtype}")
    if isinstance(dtype, pandas.CategoricalDtype):
        digest.add_value(dtype.ordered)
        _add_index(digest, dtype.categories, pandas)
        _add_array(digest, column.codes)
    elif isinstance(dtype, pandas.IntervalDtype):
        _add_index(digest, column.left, pandas)
        _add_index(digest, column.right, pandas)
    elif isinstance(dtype, pandas.DatetimeTZDtype):
        digest.add("zone", f"{type(dtype.tz).__module__} {zone_text(dtype.tz)}")
        _add_array(digest, column.view("i8"))
    elif isinstance(dtype, pandas.PeriodDtype):
        _add_array(digest, column.view("i8"))
    elif isinstance(dtype, pandas.StringDtype):
        digest.add("missing", f"{dtype.storage} {dtype.na_value!r}")
        digest.reserve(column.nbytes)
        _add_objects(digest, column.to_numpy(dtype=object, na_value=None).tolist())
    elif type(dtype).__name__ in _MASKED:
        _add_array(digest, column.isna())
        _add_array(digest, column.to_numpy(dtype=dtype.numpy_dtype, na_value=0))
    elif type(dtype).__module__.startswith("numpy"):
        values = column.to_numpy()
        if dtype.hasobject:
            digest.reserve(values.nbytes)
            _add_objects(digest, values.tolist())
        else:
            _add_array(digest, values)
    else:
        raise NoDigest


_MASKED = frozenset(
    {
        "BooleanDtype",
        "Float32Dtype",
        "Float64Dtype",
        *(f"{sign}Int{bits}Dtype" for sign in ("", "U") for bits in (8, 16, 32, 64)),
    }
)
"""The types of columns that keep their missing values in a mask."""


def _add_objects(digest: Digest, values: list[Any]) -> None:
    """Add values as JSON if possible (most are strings), otherwise one by one."""
    if is_json(values) and can_write(values, MOST_JSON):
        digest.add("json", json.dumps(values, separators=(",", ":")))
    else:
        digest.add_value(values)


BY_PACKAGE.update(numpy=_add_data, pandas=_add_data)
