"""Whether a module is the notebook's own, or of an installed package, which has a version.

A package is what an installer has put into a folder of `sys.path` (also the user's site, that of
the base interpreter, a folder of PYTHONPATH or of a ``.pth``): such folders are called
``site-packages`` or ``dist-packages``, or have the list of the package's files,
``NAME-VERSION.dist-info/RECORD``. A project that is installed in place has no such list next to its
files, so it is the notebook's own.

The names in the code of a function: globals, attributes and imports, and what it changes.

The parts of a digest: arrays, tables and values of the standard library, with everything that a
function can read of them.

`add_parts` says by the class of an object which parts it has; `fingerprint` and `function_digest`
register more classes. Arrays are read by their buffers. The libraries are not imported here: the
owner of a table has imported its library.
"""

from __future__ import annotations

import datetime
import decimal
import dis
import fractions
import functools
import hashlib
import json
import os
import pathlib
import re
import sys
import sysconfig
import types
import uuid
import zoneinfo
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

from ..flow.values import is_json

_INSTALLED = tuple(
    Path(path).resolve()
    for path in {
        sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
)

_SITES = frozenset({"site-packages", "dist-packages"})

_NEVER_OURS = frozenset({"builtins", __name__.partition(".")[0]})
"""This package, too, where it is installed from a checkout: a tool may name `ToolContext`."""

_FIRST_NAME = re.compile(rb"([^/,.\r]+)(?:([/.])|\r?$)")
"""The first name of a path in a line of a list of files, and what follows it."""


def is_ours(module: str) -> bool:
    """Whether a module is the notebook's own: its cells, a file that is not installed, or made by
    code."""
    if module == "__main__":
        return True
    if module in sys.builtin_module_names or module.partition(".")[0] in _NEVER_OURS:
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
    over the bytes of their lists: 10 ms for 220 packages, for which
    `importlib.metadata.packages_distributions` takes 340, and `pathlib` alone 30."""
    # The packages of an operating system have no RECORD; elsewhere, top_level.txt may be that of a
    # project.
    names = ("RECORD",) if _SITES.isdisjoint(folder.parts) else ("RECORD", "top_level.txt")
    found: dict[str, list[str]] = {}
    with suppress(OSError):  # no folder
        for info in sorted(os.listdir(folder)):
            if not info.endswith("-info"):
                continue
            tops = set[bytes]()
            for name in names:
                place = os.path.join(folder, info, name)
                # The first that is there: beside a list of all files the other one has nothing
                # more, and to open a file takes longer than to read it.
                with suppress(OSError), open(place, "rb", buffering=0) as listed:
                    tops.update(_first_names(listed.read()))
                    break
            package = os.path.splitext(info)[0]
            for top in tops:
                found.setdefault(top.decode(errors="replace"), []).append(package)
    return found


def _first_names(listed: bytes) -> Iterator[bytes]:
    # Sorted, which such a list nearly is: so all lines of a folder are passed over at once. A match
    # for each line takes twice as long.
    lines, place = sorted(listed.split(b"\n")), 0
    while place < len(lines):
        match = _FIRST_NAME.match(lines[place])
        place += 1
        if match is None:
            continue
        name, following = match.groups()
        yield name
        if following:  # "0" comes after "." and "/"
            place = bisect_left(lines, name + b"0", place)


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


@functools.lru_cache(maxsize=4096)
def version_of(module: str) -> str:
    """The packages that have files of the module, with their versions."""
    top = module.partition(".")[0]
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

_LOOK_UPS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"})
_WRITES = frozenset({"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE", "STORE_ATTR", "DELETE_ATTR"})
_CHANGES = frozenset(
    {
        *("append", "appendleft", "extend", "extendleft", "insert", "add", "update", "setdefault"),
        *("pop", "popleft", "popitem", "remove", "discard", "clear", "subtract"),
        *("sort", "reverse", "rotate", "move_to_end"),
        *("difference_update", "intersection_update", "symmetric_difference_update"),
    }
)
"""Methods that change the containers of the standard library."""


class CodeNames(NamedTuple):
    """The names in a function and its inner functions."""

    read: dict[str, None]
    """The globals that it reads, in their order."""
    changed: set[str]
    """The globals and the names of its closure whose objects it changes."""
    imported: dict[str, None]
    """The modules that its body imports."""


def names_of(function: types.FunctionType) -> CodeNames:
    names = CodeNames({}, set(), {})
    for code in _codes_in(function.__code__):
        steps = list(dis.get_instructions(code))
        names.changed.update(_changed(steps))
        for at, step in enumerate(steps):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                names.read[step.argval] = None
            elif step.opname == "IMPORT_NAME":
                level = steps[at - 2].argval
                within = function.__globals__.get("__package__")
                module = resolve_name("." * level + step.argval, within) if level else step.argval
                names.imported[module] = None
    return names


def words_in(code: types.CodeType) -> frozenset[str]:
    """All names in a function: attributes too, and strings that ``getattr`` may use."""
    words = (word for inner in _codes_in(code) for word in (*inner.co_names, *inner.co_consts))
    return frozenset(word for word in words if isinstance(word, str))


def _codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes_in(constant)


def _changed(steps: list[dis.Instruction]) -> Iterator[str]:
    """The names whose objects these instructions change: `cache[key] = 1`, `seen.append(1)`,
    `global n; n += 1`. The text of a target begins with its name, so both have one place."""
    names: dict[tuple[int | None, int | None], str] = {}
    for step in steps:
        place = step.positions
        if place is None or place.col_offset is None or place.end_col_offset is None:
            continue  # `python -X no_debug_ranges`: then nothing counts as changed
        start = place.lineno, place.col_offset
        if step.opname == "STORE_GLOBAL":
            yield step.argval
        elif step.opname in _LOOK_UPS:
            # Code that was made from a tree may give one place to several names.
            if place.end_col_offset - place.col_offset == len(step.argval.encode()):
                names[start] = step.argval
        elif step.opname.startswith("CALL"):
            names.pop(start, None)  # `RULES.copy().pop()` changes the copy
        elif start in names and (
            step.opname in _WRITES
            or (step.opname in ("LOAD_ATTR", "LOAD_METHOD") and step.argval in _CHANGES)
        ):
            yield names[start]


MAX_PARTS = 100_000
"""The number of parts; a larger function or value has no digest."""


class NoDigest(Exception):
    """The value has no digest."""


class Digest:
    """A hash of all parts of an object, each with its kind and its length."""

    def __init__(self, most: int | None = None) -> None:
        self.hash = hashlib.sha256()
        self.named: dict[str, str] = {}
        """The digests of the named parts of the outermost function."""
        self._depth = 0
        self._room = most
        """The bytes that may still be added; None: any number."""
        self._seen: dict[int, int] = {}
        self._held: list[Any] = []
        """Keeps the objects alive, so that no id is used again."""
        self._left = MAX_PARTS

    def add(self, kind: str, data: bytes | str = b"") -> None:
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        self.reserve(len(raw))
        self.add_reserved(kind, raw)

    def add_reserved(self, kind: str, raw: bytes) -> None:
        self.hash.update(f"{kind}:{len(raw)}:".encode())
        self.hash.update(raw)

    def reserve(self, size: int) -> None:
        """Reserve ``size`` bytes before they are copied. Raises NoDigest if there are not as many
        left."""
        if self._room is not None:
            if size > self._room:
                raise NoDigest
            self._room -= size

    def add_value(self, thing: Any) -> None:
        self._left -= 1
        if self._left < 0:
            raise NoDigest
        kind = type(thing)
        if kind in _TEXTS:
            self.add(f"{kind.__module__}.{kind.__qualname__}", _TEXTS[kind](thing))
        elif id(thing) in self._seen:
            self.add("again", str(self._seen[id(thing)]))
        else:
            self._seen[id(thing)] = len(self._seen)
            self._held.append(thing)
            add_parts.dispatch(kind)(thing, self)  # not by __class__, which an object may fake

    def all(self, kind: str, things: Iterable[Any]) -> None:
        parts = list(things)
        self.add(kind, str(len(parts)))
        for part in parts:
            self.add_value(part)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Adds what is added inside as one part, so that two digests can tell where they differ."""
        whole, self.hash = self.hash, hashlib.sha256()
        self._depth += 1
        yield
        self._depth -= 1
        if not self._depth:
            self.named[name] = self.hash.hexdigest()[:16]
        whole.update(f"part {name}:".encode() + self.hash.digest())
        self.hash = whole


@functools.singledispatch
def add_parts(thing: Any, digest: Digest) -> None:
    """Add the parts of ``thing``: here of data, and of an instance of the notebook's classes. Raises
    NoDigest."""
    kind = type(thing)
    package = kind.__module__.partition(".")[0]
    if package in ("numpy", "pandas"):
        _add_data(digest, thing, package)
    elif kind.__module__ == "typing":
        _add_typing(digest, thing)
    elif not is_ours(kind.__module__) or not has_plain_state(kind):
        raise NoDigest
    else:
        # Only a list and a dict have items beside their state, and these are registered.
        _, arguments, state = (*thing.__reduce_ex__(2), None)[:3]
        digest.all("instance", (arguments, state))


def _add_typing(digest: Digest, thing: Any) -> None:
    if get_origin(thing) is not None:
        add_generic(thing, digest)
    elif isinstance(thing, TypeVar):
        digest.all("variable", (thing.__name__, thing.__bound__, thing.__constraints__))
    else:
        digest.add("typing", repr(thing))


def add_generic(alias: Any, digest: Digest) -> None:
    """``list[int]``, ``int | None``, ``Annotated[int, Gt(3)]``: its parts."""
    digest.add_value(get_origin(alias))
    digest.all("arguments", get_args(alias))


def _add_data(digest: Digest, thing: Any, package: str) -> None:
    kind, library = type(thing), sys.modules[package]
    if package == "numpy" and (kind is library.ndarray or isinstance(thing, library.generic)):
        digest.add("writeable", str(thing.flags.writeable))
        _array(digest, thing)
    elif package == "pandas" and isinstance(thing, (library.DataFrame, library.Series)):
        _table(digest, thing, library)
    elif package == "pandas" and isinstance(thing, library.Index):
        _index(digest, thing, library)
    else:
        raise NoDigest


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
    dtype = column.dtype
    if type(dtype).__name__ == "NumpyEADtype":  # it wraps a numpy array
        dtype = dtype.numpy_dtype
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


_TEXTS: dict[type, Callable[[Any], str | bytes]] = {
    **dict.fromkeys((int, float, complex, bool, type(None), type(Ellipsis)), repr),
    **dict.fromkeys((str, bytes), lambda value: value),
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
