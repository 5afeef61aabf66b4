"""A copy of a value that shares its memory: it can be written while the next step runs.

polars, Arrow and pandas 3 do not write into columns while somebody else has them, so such a copy
costs nothing. A step that writes into a column of pandas all the same (`frame["a"].array[0] = 1`)
changes the copy too: what was changed while it was stored is not stored. An array of numpy, a
column of Python objects and a table of an older pandas have none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...compat.imports import module_if_loaded
from ...text.length import ATOMS
from ...values.value import Value
from .fingerprints import Checksums, Print

MOST_COPIED = 1_000
"""Parts of lists and dicts; a value with more of them has no snapshot."""


class Held(NamedTuple):
    """A value while it is stored and the next steps go on, which may change it."""

    copy: Value
    now: Print | None
    """The fingerprint of the value itself, of which ``copy`` is a snapshot."""
    checksums: Checksums
    """Those of its memory: what was changed since then is not stored."""


class _None(Exception):
    """There is no such copy."""


def snapshot(value: Value, is_json: bool = False) -> tuple[Value] | None:
    """The copy; None: there is none. ``is_json``: default False; True: nobody changes its lists and
    dicts, which each call gets as a copy."""
    if is_json:
        return (value,)
    seen: dict[int, Any] = {}
    try:
        return (_copy(value, seen),)
    except _None:
        return None


def _copy(value: Any, seen: dict[int, Any]) -> Any:
    """``seen``: the copies so far, by the identities of their parts: what is there twice is one
    object in the copy too."""
    if type(value) in ATOMS or type(value) is bytes:
        return value
    if id(value) not in seen:
        if len(seen) >= MOST_COPIED:
            raise _None
        seen[id(value)] = None  # one that contains itself
        seen[id(value)] = _copied(value, seen)
    if seen[id(value)] is None:
        raise _None
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
    raise _None


def _arrow_kinds() -> tuple[type, ...]:
    arrow: Any = module_if_loaded("pyarrow")
    return arrow.Table, arrow.RecordBatch, arrow.ChunkedArray, arrow.Array


def _is_copied_on_write(value: Any) -> bool:
    """Whether it is a table of pandas that others cannot change in place, nor an object in it."""
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
    """Of pandas and numpy themselves: another library's column may be written in place."""
    if type(dtype).__module__.partition(".")[0] not in ("numpy", "pandas"):
        return False
    if type(dtype).__name__ == "CategoricalDtype":
        return _has_no_objects(dtype.categories.dtype)
    return dtype.kind != "O" or type(dtype).__name__ in _NO_OBJECTS


_NO_OBJECTS = frozenset({"StringDtype", "ArrowDtype", "PeriodDtype"})
"""Columns whose parts nobody changes, although pandas makes an object of each."""
