"""What a function is and what a value holds, as a digest: an equal call may take an earlier result only if both are
the same.

A function is its code, its constants and defaults, what it closes over, and whatever of the notebook's own it names:
functions, classes and plain values, those they name in turn, and so on. What belongs to an installed package counts as
the package's name and version. File names and line numbers count for nothing, so a cell that is moved or run again is
the same. What cannot be told has no digest, and what has none is never reused.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import json
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from ..flow.values import is_json
from .code_names import imported, names_in, words_in
from .data_digest import Untold, tell_data
from .origins import has_plain_state, is_found, is_ours, is_put_there, version_of

_encode = json.JSONEncoder(separators=(",", ":")).encode

MOST = 100_000
"""Parts that are looked at; a bigger function or value has no digest."""

LARGEST_FILE = 10_000_000


def fingerprint(function: Callable[..., Any], most: int | None = None) -> str | None:
    """A digest of what ``function`` does; None if it is unknown, or if the objects that it refers to hold more than
    ``most`` bytes."""
    return _digest(function, most)


def content(value: Any, most: int | None = None) -> str | None:
    """A digest of what ``value`` holds; None if its type has none, or if it holds more than ``most`` bytes. Equal
    digests are equal values."""
    try:
        if is_json(value):  # nearly always, and its text says all of it
            return hashlib.sha256(b"json " + _encode(value).encode()).hexdigest()
    except (ValueError, RecursionError):  # a number of 5,000 digits
        pass
    return _digest(value, most)


def _digest(thing: Any, most: int | None = None) -> str | None:
    told = _Telling(most)
    try:
        told.tell(thing)
    except (Untold, RecursionError):
        return None
    except Exception:  # somebody's class that will not be looked into
        return None
    return told.hash.hexdigest()


class _Telling:
    """One walk over what a thing is made of, every part of it hashed with its kind and its length."""

    def __init__(self, most: int | None = None) -> None:
        self.hash = hashlib.sha256()
        self.room = most
        """The bytes that may still be added; None: any number."""
        self.seen: dict[int, int] = {}
        self.held: list[Any] = []
        """Keeps what was seen alive: an id is somebody else's once its owner is gone."""
        self.left = MOST

    def add(self, kind: str, data: bytes | str = b"") -> None:
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        self.reserve(len(raw))
        self.add_reserved(kind, raw)

    def add_reserved(self, kind: str, raw: bytes) -> None:
        self.hash.update(f"{kind}:{len(raw)}:".encode())
        self.hash.update(raw)

    def reserve(self, size: int) -> None:
        """Take ``size`` bytes of the room before they are copied. Raises Untold if there are not as many."""
        if self.room is not None:
            if size > self.room:
                raise Untold
            self.room -= size

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
    told.all(type(things).__name__, sorted(map(str, digests)))


def _function(told: _Telling, function: types.FunctionType) -> None:
    # Where its code is from: a decorator may have given it the module of another function.
    installed = _installed(told, function.__globals__.get("__name__"), function.__qualname__)
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
    _annotations(told, function)
    if function.__dict__:
        told.tell(function.__dict__)
    modules = []
    words = words_in(function.__code__)
    names = list(names_in(function.__code__))
    if "import_module" in words or not _READS_ANYTHING.isdisjoint(names):
        raise Untold
    for name in names:
        if name in function.__globals__:
            found = function.__globals__[name]
            told.add("global", name)
            if isinstance(found, types.ModuleType):
                _named_module(told, found)
                modules.append(found)
            else:
                told.tell(found)
    modules += _imports(told, function)
    _attributes(told, modules, words)


def _annotations(told: _Telling, function: types.FunctionType) -> None:
    """What it says of its arguments: they are converted to that before a tool is called."""
    for name, kind in function.__annotations__.items():
        told.add("annotation", name)
        told.tell(kind)
        for word in dict.fromkeys(re.findall(r"[^\W\d]\w*", kind) if isinstance(kind, str) else ()):
            found = function.__globals__.get(word)
            if isinstance(found, types.ModuleType):
                _named_module(told, found)
            elif found is not None:
                told.add("named", word)
                told.tell(found)


def _imports(told: _Telling, function: types.FunctionType) -> Iterator[types.ModuleType]:
    """The modules that a function imports in its body."""
    for name in imported(function):
        told.add("import", name)
        module = sys.modules.get(name)
        if module is not None:
            _named_module(told, module)
            yield module
        elif not _installed(told, name, ""):
            raise Untold


def _attributes(told: _Telling, modules: list[types.ModuleType], words: frozenset[str]) -> None:
    """What of the notebook's own modules a function may name, as it is now: a file may have been edited since it was
    loaded, and a module may be changed by anybody."""
    known = set[int]()
    while modules:
        module = modules.pop()
        if id(module) in known:
            continue
        known.add(id(module))
        for word in sorted(words & vars(module).keys()):
            found = vars(module)[word]
            if not is_ours(module.__name__) and not is_put_there(found):
                continue
            told.add("attribute", word)
            if isinstance(found, types.ModuleType):
                _named_module(told, found)
                modules.append(found)
            else:
                told.tell(found)


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
    if type(partial) is not functools.partial:
        raise Untold
    told.all("partial", (partial.func, partial.args, partial.keywords, vars(partial)))


def _class(told: _Telling, kind: type) -> None:
    if is_found(kind) and _installed(told, kind.__module__, kind.__qualname__):
        return
    told.add("class", kind.__qualname__)
    if type(kind) is not type:
        told.tell(type(kind))
    told.all("bases", kind.__bases__)
    for name, value in sorted(vars(kind).items()):
        if name not in _OF_EVERY_CLASS:
            told.add("attribute", name)
            told.tell(value)


def _generic(told: _Telling, alias: Any) -> None:
    """``list[int]``, ``int | None``, ``Annotated[int, Gt(3)]``: its parts."""
    origin = get_origin(alias)
    if origin is None:
        raise Untold
    told.tell(origin)
    told.all("arguments", get_args(alias))


def _wrapped(told: _Telling, wrapper: Any) -> None:
    if type(wrapper) not in (property, staticmethod, classmethod):
        raise Untold
    parts = (wrapper.fget, wrapper.fset, wrapper.fdel) if isinstance(wrapper, property) else (wrapper.__func__,)
    told.all(type(wrapper).__name__, parts)


def _module(told: _Telling, module: types.ModuleType) -> None:
    """A module as a value. Of one of the notebook's own anything may be read."""
    if sys.modules.get(module.__name__) is not module or not _installed(told, module.__name__, ""):
        raise Untold


def _named_module(told: _Telling, module: types.ModuleType) -> None:
    """A module that a function names: what it reads of it, `_attributes` tells."""
    if sys.modules.get(module.__name__) is not module:
        raise Untold
    if _installed(told, module.__name__, ""):
        return
    path = Path(getattr(module, "__file__", None) or "")  # none: it was made by hand
    if not path.is_file() or path.stat().st_size > LARGEST_FILE:
        raise Untold
    told.add("module", path.read_bytes())


def _member(told: _Telling, member: enum.Enum) -> None:
    told.tell(type(member))
    told.add("member", str(member._name_))
    told.tell({name: value for name, value in vars(member).items() if name not in _OF_EVERY_MEMBER})


def _object(told: _Telling, thing: Any) -> None:
    """A value that `data_digest` knows, or an instance of the notebook's own classes."""
    kind = type(thing)
    if tell_data(told, thing):
        return
    if kind.__module__ == "typing":
        if get_origin(thing) is not None:
            _generic(told, thing)
        elif isinstance(thing, TypeVar):
            told.all("variable", (thing.__name__, thing.__bound__, thing.__constraints__))
        else:
            told.add("typing", repr(thing))
        return
    if not is_ours(kind.__module__) or not has_plain_state(kind):
        raise Untold
    _, arguments, state, items, entries = (*thing.__reduce_ex__(2), None, None, None)[:5]
    told.all("instance", (arguments, state))
    if items is not None or entries is not None:
        raise Untold


def _installed(told: _Telling, module: str | None, name: str) -> bool:
    """Tell what belongs to an installed package by its version; whether it does."""
    if module is None or is_ours(module):
        return False
    told.add("installed", f"{module}.{name} {version_of(module)}")
    return True


_ATOMS = frozenset({int, float, complex, bool, type(None), type(Ellipsis)})
_READS_ANYTHING = frozenset({"globals", "eval", "exec", "__import__"})
"""Who calls one of these may read what its code does not name."""
_OF_EVERY_MEMBER = frozenset({"_name_", "__objclass__", "_sort_order_"})
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
    (enum.Enum, _member),
    ((types.GenericAlias, types.UnionType), _generic),
    (type, _class),
    (types.MemberDescriptorType, lambda told, slot: told.add("slot", slot.__name__)),
    ((staticmethod, classmethod, property), _wrapped),
    (types.ModuleType, _module),
)
