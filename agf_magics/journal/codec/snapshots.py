"""Copies a value without its memory, to be stored during the next step: the copy shares the columns.

polars, Arrow and pandas 3 do not write into shared columns, so a snapshot costs nothing. A step
that still writes into a column of pandas (`frame["a"].array[0] = 1`) changes the snapshot, too; a
value that was changed meanwhile is not stored. An array of numpy, a column of Python objects and a
table of an older pandas have no snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...compat.imports import module_if_loaded
from ...text.length import ATOMS
from ...values.value import Value
from .fingerprints import Checksums, ObjectFingerprint

MOST_COPIED = 1_000
"""The largest number of parts of lists and dicts. A value with more parts has no snapshot."""


class CopyToStore(NamedTuple):
    """A copy that is stored while the next steps go on, which may change the original value."""

    copy: Value
    fingerprint: ObjectFingerprint | None
    """The fingerprint of the original value; None: it was not taken."""
    checksums: Checksums
    """The checksums of its memory. If memory has changed since, the value is not stored."""


class _NoSnapshot(Exception):
    """A value has no snapshot."""


def snapshot(value: Value, is_json: bool = False) -> tuple[Value] | None:
    """The snapshot of ``value`` in a tuple; None: there is none. ``is_json``: whether nobody
    changes its lists and dicts, because each call gets copies; default False."""
    if is_json:
        return (value,)
    seen: dict[int, Any] = {}
    try:
        return (_copy(value, seen),)
    except _NoSnapshot:
        return None


def _copy(value: Any, seen: dict[int, Any]) -> Any:
    """A copy of ``value``. ``seen``: the copies so far, by the identity of the original, so that a
    shared part is shared in the copy, too."""
    if type(value) in ATOMS or type(value) is bytes:
        return value
    if id(value) not in seen:
        if len(seen) >= MOST_COPIED:
            raise _NoSnapshot
        seen[id(value)] = None  # begun: to meet it again means that the value contains itself
        seen[id(value)] = _copied(value, seen)
    if seen[id(value)] is None:
        raise _NoSnapshot
    return seen[id(value)]


def _copied(value: Any, seen: dict[int, Any]) -> Any:
    kind = type(value)
    if kind is list:
        return [_copy(part, seen) for part in value]
    if kind is dict and all(type(key) is str for key in value):
        return {key: _copy(part, seen) for key, part in value.items()}
    match kind.__module__.partition(".")[0]:
        case "polars" if kind.__name__ in ("DataFrame", "Series"):
            return value.clone()
        case "pyarrow" if isinstance(value, _arrow_kinds()):
            return value
        case "pandas" if _is_copied_on_write(value):
            return value.copy(deep=False)
    raise _NoSnapshot


def _arrow_kinds() -> tuple[type, ...]:
    arrow: Any = module_if_loaded("pyarrow")
    return arrow.Table, arrow.RecordBatch, arrow.ChunkedArray, arrow.Array


def _is_copied_on_write(value: Any) -> bool:
    """Whether ``value`` is a pandas table that others cannot change in place, without changeable
    objects."""
    pandas: Any = module_if_loaded("pandas")
    if int(pandas.__version__.split(".")[0]) < 3:
        return False
    if type(value) is pandas.DataFrame:
        dtypes = list(value.dtypes)
        if not all(type(label) in ATOMS or type(label) is tuple for label in value.columns):
            return False
    elif type(value) is pandas.Series:
        dtypes = [value.dtype]
    else:
        return False
    return all(map(_has_no_objects, (*dtypes, *_dtypes_of(value.index))))


def _dtypes_of(index: Any) -> Iterator[Any]:
    levels = getattr(index, "levels", None)
    yield from (index.dtype,) if levels is None else (level.dtype for level in levels)


def _has_no_objects(dtype: Any) -> bool:
    """Whether a column of this type has no Python objects. Only types of pandas and numpy count,
    because another library's column may be written in place."""
    if type(dtype).__module__.partition(".")[0] not in ("numpy", "pandas"):
        return False
    if type(dtype).__name__ == "CategoricalDtype":
        return _has_no_objects(dtype.categories.dtype)
    return dtype.kind != "O" or type(dtype).__name__ in _NO_OBJECTS


_NO_OBJECTS = frozenset({"StringDtype", "ArrowDtype", "PeriodDtype"})
"""Types of columns whose elements nobody changes, although pandas makes objects of them."""
