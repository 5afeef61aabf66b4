"""Whether a module is the notebook's own, or of an installed package, which has a version.

A package is what an installer has put into a folder of `sys.path` (also the user's site, that of
the base interpreter, a folder of PYTHONPATH or of a ``.pth``): such folders are called
``site-packages`` or ``dist-packages``, or have the list of the package's files,
``NAME-VERSION.dist-info/RECORD``. A project that is installed in place has no such list next to its
files, so it is the notebook's own.

The names in the code of a function: globals, attributes and imports.

Arrays, tables and values of the standard library as parts of a digest, with everything that a
function can read of them.

Arrays are read by their buffers. The libraries are not imported here: the owner of a table has
imported its library.
"""

from __future__ import annotations

import datetime
import decimal
import dis
import fractions
import functools
import json
import pathlib
import re
import sys
import sysconfig
import types
import uuid
import zoneinfo
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any, Protocol

from ..flow.values import is_json

_INSTALLED = tuple(
    Path(path).resolve()
    for path in {
        sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
)

_SITES = frozenset({"site-packages", "dist-packages"})

_TOPS = re.compile(rb"^([^/,.\r\n]+)(?:[/.]|\r?$)", re.MULTILINE)
"""The first name of a path in a list of files."""


def is_ours(module: str) -> bool:
    """Whether a module is the notebook's own: its cells, a file that is not installed, or made by
    code."""
    if module == "__main__":
        return True
    if module in sys.builtin_module_names or module == "builtins":
        return False
    if module not in sys.modules:
        return _is_ours(_file(module), module.partition(".")[0])
    loaded = sys.modules[module]
    file, spec = getattr(loaded, "__file__", None), getattr(loaded, "__spec__", None)
    if file is None and spec is not None:
        if spec.origin in ("built-in", "frozen"):
            return False
        file = next(
            iter(spec.submodule_search_locations or ()), None
        )  # a package without a file of its own
    return _is_ours(file, module.partition(".")[0])


@functools.lru_cache(maxsize=4096)
def _is_ours(file: str | None, top: str) -> bool:
    if file is None:
        return True
    path = Path(file).resolve()
    if not _SITES.isdisjoint(path.parts) or any(path.is_relative_to(place) for place in _INSTALLED):
        return False
    folders = {Path(folder).resolve() for folder in sys.path}
    return not any(path.is_relative_to(folder) and top in _packages(folder) for folder in folders)


@functools.cache
def _packages(folder: Path) -> dict[str, list[str]]:
    """The packages in a folder as ``NAME-VERSION``, by the first names of their files. One pass
    over the bytes of their lists: 17 ms for 236 packages, for which
    `importlib.metadata.packages_distributions` takes 340."""
    found: dict[str, list[str]] = {}
    for info in sorted(folder.glob("*-info")):
        listed = b""
        # The packages of an operating system have no RECORD; elsewhere, top_level.txt may be that
        # of a project.
        for name in (
            ("RECORD", "top_level.txt") if not _SITES.isdisjoint(folder.parts) else ("RECORD",)
        ):
            with suppress(OSError):
                listed += (info / name).read_bytes() + b"\n"
        for top in set(_TOPS.findall(listed)):
            found.setdefault(top.decode(errors="replace"), []).append(info.stem)
    return found


@functools.lru_cache(maxsize=4096)
def _file(module: str) -> str | None:
    """The file of a module's package that is not loaded."""
    try:
        found = find_spec(module.partition(".")[0])
    except (ImportError, ValueError):  # not a package, or without a spec
        return None
    if found is None:
        return None
    return (
        found.origin
        if found.has_location
        else next(iter(found.submodule_search_locations or ()), None)
    )


def version_of(module: str) -> str:
    """The packages that have files of the module, with their versions."""
    return _version_of(module.partition(".")[0])


@functools.lru_cache(maxsize=4096)
def _version_of(top: str) -> str:
    if top in sys.stdlib_module_names or top == "builtins":
        return sys.version
    found = [name for folder in sys.path for name in _packages(Path(folder).resolve()).get(top, ())]
    return " ".join(found) or str(getattr(sys.modules.get(top), "__version__", ""))


def is_found(kind: type) -> bool:
    """Whether a class is the one that its module has under its name."""
    found: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is kind


def is_put_there(found: Any) -> bool:
    """Whether a function or a class of the notebook was set in an installed module."""
    if isinstance(found, types.FunctionType):
        return is_ours(str(found.__globals__.get("__name__")))
    return isinstance(found, type) and is_ours(found.__module__)


def has_plain_state(kind: type) -> bool:
    """Whether Python's default reduction has all state of its instances: a class with its own
    reduction, or with state in C, may omit some."""
    if kind.__reduce_ex__ is not object.__reduce_ex__ or kind.__reduce__ is not object.__reduce__:  # type: ignore[comparison-overlap]
        return False
    getting = getattr(kind, "__getstate__", None)
    return getting is getattr(object, "__getstate__", None) or getting.__module__ in _WHOLE_STATES


_WHOLE_STATES = frozenset({"dataclasses", "pydantic.main"})
"""Modules whose ``__getstate__`` has all state."""

_LOOK_UPS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of a function and of its inner functions."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_in(constant)


def names_in(code: types.CodeType) -> Iterator[str]:
    """The globals that a function and its inner functions read."""
    for one in codes_in(code):
        yield from dict.fromkeys(
            found.argval for found in dis.get_instructions(one) if found.opname in _LOOK_UPS
        )


def words_in(code: types.CodeType) -> frozenset[str]:
    """All names in it: attributes too, and strings that ``getattr`` may use."""
    words = (word for one in codes_in(code) for word in (*one.co_names, *one.co_consts))
    return frozenset(word for word in words if isinstance(word, str))


def imported(function: types.FunctionType) -> Iterator[str]:
    """The names of the modules that a function imports in its body."""
    for code in codes_in(function.__code__):
        found = list(dis.get_instructions(code))
        for at, one in enumerate(found):
            if one.opname == "IMPORT_NAME":
                level = found[at - 2].argval
                within = function.__globals__.get("__package__")
                yield resolve_name("." * level + one.argval, within) if level else one.argval


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
