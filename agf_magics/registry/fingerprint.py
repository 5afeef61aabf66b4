"""What a function is and what a value holds, as a digest: an equal call may take an earlier result only if both are
the same.

A function is its code, its constants and defaults, what it closes over, and whatever of the notebook's own it names:
functions, classes and plain values, those they name in turn, and so on. What belongs to an installed package counts as
the package's name and version. File names and line numbers count for nothing, so a cell that is moved or run again is
the same. What cannot be told has no digest, and what has none is never reused.
"""

from __future__ import annotations

import dis
import enum
import functools
import hashlib
import json
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from ..flow.values import is_json
from .origins import is_ours, version_of

_encode = json.JSONEncoder(separators=(",", ":")).encode

MOST = 100_000
"""Parts that are looked at; a bigger function or value has no digest."""

LARGEST_FILE = 10_000_000


class Untold(Exception):
    """There is no telling what it is."""


def fingerprint(function: Callable[..., Any]) -> str | None:
    """A digest of what ``function`` does; None where nobody can tell."""
    return _digest(function)


def content(value: Any) -> str | None:
    """A digest of what ``value`` holds; None where its type gives none. Equal digests are equal values."""
    try:
        if is_json(value):  # nearly always, and its text says all of it
            return hashlib.sha256(b"json " + _encode(value).encode()).hexdigest()
    except (ValueError, RecursionError):  # a number of 5,000 digits
        pass
    return _digest(value)


def _digest(thing: Any) -> str | None:
    told = _Telling()
    try:
        told.tell(thing)
    except (Untold, RecursionError):
        return None
    except Exception:  # somebody's class that will not be looked into
        return None
    return told.hash.hexdigest()


class _Telling:
    """One walk over what a thing is made of, every part of it hashed with its kind and its length."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.seen: dict[int, int] = {}
        self.held: list[Any] = []
        """Keeps what was seen alive: an id is somebody else's once its owner is gone."""
        self.left = MOST

    def add(self, kind: str, data: bytes | str = b"") -> None:
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        self.hash.update(f"{kind}:{len(raw)}:".encode())
        self.hash.update(raw)

    def tell(self, thing: Any) -> None:
        self.left -= 1
        if self.left < 0:
            raise Untold
        kind = type(thing)
        if kind in _ATOMS:
            self.add(kind.__name__, repr(thing))
            return
        if kind is str or kind is bytes:
            self.add(kind.__name__, thing)
            return
        if id(thing) in self.seen:
            self.add("again", str(self.seen[id(thing)]))
            return
        self.seen[id(thing)] = len(self.seen)
        self.held.append(thing)
        for of, tell in _KINDS:
            if isinstance(thing, of):
                tell(self, thing)
                return
        _object(self, thing)

    def all(self, kind: str, things: Iterable[Any]) -> None:
        parts = list(things)
        self.add(kind, str(len(parts)))
        for part in parts:
            self.tell(part)


def _list(told: _Telling, things: Any) -> None:
    if type(things) not in (list, tuple):
        raise Untold
    told.all(type(things).__name__, things)


def _dict(told: _Telling, things: Mapping[Any, Any]) -> None:
    if type(things) is not dict:
        raise Untold
    told.add("dict", str(len(things)))
    for key, value in things.items():  # in their order: a function may read it
        told.tell(key)
        told.tell(value)


def _set(told: _Telling, things: Any) -> None:
    if type(things) not in (set, frozenset):
        raise Untold
    digests = [_digest(each) for each in things]
    if None in digests:
        raise Untold
    told.all("set", sorted(map(str, digests)))


def _function(told: _Telling, function: types.FunctionType) -> None:
    installed = _installed(told, function.__module__, function.__qualname__)
    for cell in function.__closure__ or ():  # a package's decorator holds the notebook's function
        try:
            told.tell(cell.cell_contents)
        except ValueError:  # not bound yet
            told.add("empty")
    if installed:
        return
    told.add("function")
    _code(told, function.__code__)
    told.tell(function.__defaults__)
    told.tell(function.__kwdefaults__)
    if function.__dict__:
        told.tell(function.__dict__)
    modules = []
    words = _words(function.__code__)
    names = list(_names(function.__code__))
    if "import_module" in words or not _READS_ANYTHING.isdisjoint(names):
        raise Untold
    for name in names:
        if name in function.__globals__:
            found = function.__globals__[name]
            told.add("global", name)
            told.tell(found)
            modules += [found] if isinstance(found, types.ModuleType) else []
    modules += _imports(told, function)
    _attributes(told, modules, words)


def _imports(told: _Telling, function: types.FunctionType) -> Iterator[types.ModuleType]:
    """The modules that a function imports in its body."""
    for code in _codes(function.__code__):
        found = list(dis.get_instructions(code))
        for at, one in enumerate(found):
            if one.opname != "IMPORT_NAME":
                continue
            level = found[at - 2].argval
            name = (
                resolve_name("." * level + one.argval, function.__globals__.get("__package__")) if level else one.argval
            )
            told.add("import", name)
            module = sys.modules.get(name)
            if module is not None:
                told.tell(module)
                yield module
            elif not _installed(told, name, ""):
                raise Untold


def _attributes(told: _Telling, modules: list[types.ModuleType], words: frozenset[str]) -> None:
    """What of the notebook's own modules a function may name, as it is now: a file may have been edited since it was
    loaded, and a module may be changed by anybody."""
    known = set[int]()
    while modules:
        module = modules.pop()
        if id(module) in known or not is_ours(module.__name__):
            continue
        known.add(id(module))
        for word in sorted(words & vars(module).keys()):
            found = vars(module)[word]
            told.add("attribute", word)
            told.tell(found)
            modules += [found] if isinstance(found, types.ModuleType) else []


def _code(told: _Telling, code: types.CodeType) -> None:
    told.add("code", code.co_code)
    told.add("raises", code.co_exceptiontable)
    shape = (code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags)
    told.all("names", (*shape, *code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars))
    told.add("constants", str(len(code.co_consts)))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _code(told, constant)
        else:
            told.tell(constant)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code, and that of its inner functions."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _names(code: types.CodeType) -> Iterator[str]:
    """What a function looks up in its globals, its inner functions too; an attribute's name is none of them."""
    for one in _codes(code):
        yield from dict.fromkeys(found.argval for found in dis.get_instructions(one) if found.opname in _LOOK_UPS)


def _words(code: types.CodeType) -> frozenset[str]:
    """Every name that stands in it: attributes, and texts that may be handed to ``getattr``."""
    words = (word for one in _codes(code) for word in (*one.co_names, *one.co_consts))
    return frozenset(word for word in words if isinstance(word, str))


def _method(told: _Telling, method: types.MethodType) -> None:
    told.all("method", (method.__func__, method.__self__))


def _builtin(told: _Telling, function: Any) -> None:
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or ""
    if owner is None or isinstance(owner, types.ModuleType):
        told.add("builtin", f"{module}.{function.__qualname__} {version_of(module)}")
    else:
        told.all("builtin method", (function.__qualname__, owner))


def _partial(told: _Telling, partial: functools.partial[Any]) -> None:
    told.all("partial", (partial.func, partial.args, partial.keywords))


def _class(told: _Telling, kind: type) -> None:
    if _installed(told, kind.__module__, kind.__qualname__):
        return
    told.add("class", kind.__qualname__)
    told.all("bases", kind.__bases__)
    for name, value in sorted(vars(kind).items()):
        if name not in _OF_EVERY_CLASS:
            told.add("attribute", name)
            told.tell(value)


def _wrapped(told: _Telling, wrapper: Any) -> None:
    parts = (wrapper.fget, wrapper.fset, wrapper.fdel) if isinstance(wrapper, property) else (wrapper.__func__,)
    told.all(type(wrapper).__name__, parts)


def _module(told: _Telling, module: types.ModuleType) -> None:
    if _installed(told, module.__name__, ""):
        return
    path = Path(getattr(module, "__file__", None) or "")
    if not path.is_file() or path.stat().st_size > LARGEST_FILE:
        raise Untold
    told.add("module", path.read_bytes())


def _object(told: _Telling, thing: Any) -> None:
    """Something of a class: an array, a table, or an instance of the notebook's own classes."""
    kind = type(thing)
    package = kind.__module__.partition(".")[0]
    if package in _BY_REPR:
        told.add(f"{kind.__module__}.{kind.__qualname__}", repr(thing))
    elif isinstance(thing, enum.Enum):
        told.tell(kind)
        told.add("member", thing.name)
    elif package == "numpy" and kind.__name__ in ("ndarray", *_SCALARS):
        if thing.dtype.hasobject:
            raise Untold
        told.add("array", f"{thing.dtype.str} {thing.shape}")
        told.add("bytes", thing.tobytes())
    elif package == "pandas" and kind.__name__ in ("DataFrame", "Series", "Index"):
        _table(told, thing)
    elif hasattr(kind, "__getstate__") and is_ours(kind.__module__) and "__reduce__" not in vars(kind):
        told.add("instance")
        told.tell(kind)
        told.tell(thing.__getstate__())
    else:
        raise Untold


def _table(told: _Telling, table: Any) -> None:
    told.add("table", type(table).__name__)
    if type(table).__name__ == "DataFrame":
        told.tell([str(name) for name in table.columns])
        told.tell([str(kind) for kind in table.dtypes])
    pandas: Any = sys.modules["pandas"]  # whose table this is
    if getattr(table, "attrs", None):
        told.tell(table.attrs)
    told.add("rows", pandas.util.hash_pandas_object(table, index=True).to_numpy().tobytes())


def _installed(told: _Telling, module: str | None, name: str) -> bool:
    """Tell what belongs to an installed package by its version; whether it does."""
    if module is None or is_ours(module):
        return False
    told.add("installed", f"{module}.{name} {version_of(module)}")
    return True


_ATOMS = frozenset({int, float, complex, bool, type(None), type(Ellipsis)})
_LOOK_UPS = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_READS_ANYTHING = frozenset({"globals", "eval", "exec", "__import__"})
"""Who calls one of these may read what its code does not name."""
_BY_REPR = frozenset({"datetime", "decimal", "fractions", "pathlib", "re", "uuid", "zoneinfo"})
"""Packages whose values are all that their repr says."""
_SCALARS = ("bool", "int64", "int32", "float64", "float32")
_OF_EVERY_CLASS = frozenset(
    {"__dict__", "__weakref__", "__module__", "__doc__", "__firstlineno__", "__static_attributes__", "__slotnames__"}
)

_KINDS: tuple[tuple[Any, Callable[[_Telling, Any], None]], ...] = (
    ((list, tuple), _list),
    (dict, _dict),
    ((set, frozenset), _set),
    (types.FunctionType, _function),
    (types.MethodType, _method),
    ((types.BuiltinFunctionType, types.MethodWrapperType), _builtin),
    (functools.partial, _partial),
    (enum.Enum, _object),
    (type, _class),
    ((staticmethod, classmethod, property), _wrapped),
    (types.ModuleType, _module),
)
