"""Functions and modules as parts of a digest: code, and whatever the code names of the notebook's
own things.

Digests of functions and values: an identical call reuses an earlier result only if all digests
are equal.

The digest of a function covers its code, constants, defaults and closure, and all functions,
classes and plain values of the notebook that it names, directly or indirectly. An object of an
installed package counts as the package's name and version. File names and line numbers do not
count, so a cell can be moved or run again. Anything else has no digest, and a call without a digest
is never reused.
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
from typing import Any, Protocol, TypeVar, get_args, get_origin

from ..flow.values import is_json
from .digests import (
    Digest,
    NoDigest,
    add_data,
    has_plain_state,
    imported,
    is_found,
    is_ours,
    is_put_there,
    names_in,
    version_of,
    words_in,
)

LARGEST_MODULE = 10_000_000
"""Bytes of the file of a module of the notebook's own; a larger one has no digest."""

_READS_ANYTHING = frozenset({"globals", "eval", "exec", "__import__"})
"""Functions that read globals without naming them."""


class PartsDigest(Digest, Protocol):
    """A digest of things with parts."""

    def all(self, kind: str, things: Iterable[Any]) -> None: ...


def add_function(digest: PartsDigest, function: types.FunctionType) -> None:
    """Add a function: its code, its defaults, and what it names. Raises NoDigest."""
    # The module of its code: a decorator may have set ``__module__``.
    installed = add_installed(digest, function.__globals__.get("__name__"), function.__qualname__)
    for cell in (
        function.__closure__ or ()
    ):  # the notebook's function inside of a package's decorator
        try:
            digest.add_value(cell.cell_contents)
        except ValueError:  # not bound yet
            digest.add("empty")
    if installed:
        return
    digest.add("function")
    _code(digest, function.__code__)
    digest.add_value(function.__defaults__)
    digest.add_value(function.__kwdefaults__)
    _annotations(digest, function)
    if function.__dict__:
        digest.add_value(function.__dict__)
    modules = []
    words = words_in(function.__code__)
    names = list(names_in(function.__code__))
    if "import_module" in words or not _READS_ANYTHING.isdisjoint(names):
        raise NoDigest
    for name in names:
        if name in function.__globals__:
            found = function.__globals__[name]
            digest.add("global", name)
            if isinstance(found, types.ModuleType):
                _named_module(digest, found)
                modules.append(found)
            else:
                digest.add_value(found)
    modules += _imports(digest, function)
    _attributes(digest, modules, words)


def _annotations(digest: PartsDigest, function: types.FunctionType) -> None:
    """Annotations count: arguments are converted to them before a call."""
    for name, kind in function.__annotations__.items():
        digest.add("annotation", name)
        digest.add_value(kind)
        for word in dict.fromkeys(re.findall(r"[^\W\d]\w*", kind) if isinstance(kind, str) else ()):
            found = function.__globals__.get(word)
            if isinstance(found, types.ModuleType):
                _named_module(digest, found)
            elif found is not None:
                digest.add("named", word)
                digest.add_value(found)


def _imports(digest: PartsDigest, function: types.FunctionType) -> Iterator[types.ModuleType]:
    """The modules that a function's body imports."""
    for name in imported(function):
        digest.add("import", name)
        module = sys.modules.get(name)
        if module is not None:
            _named_module(digest, module)
            yield module
        elif not add_installed(digest, name, ""):
            raise NoDigest


def _attributes(
    digest: PartsDigest, modules: list[types.ModuleType], words: frozenset[str]
) -> None:
    """The attributes of the notebook's modules that a function names, with their current values."""
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
            digest.add("attribute", word)
            if isinstance(found, types.ModuleType):
                _named_module(digest, found)
                modules.append(found)
            else:
                digest.add_value(found)


def _code(digest: PartsDigest, code: types.CodeType) -> None:
    digest.add("code", code.co_code)
    digest.add("raises", code.co_exceptiontable)
    shape = (code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags)
    digest.all(
        "names", (*shape, *code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars)
    )
    digest.add("constants", str(len(code.co_consts)))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _code(digest, constant)
        else:
            digest.add_value(constant)


def add_module(digest: PartsDigest, module: types.ModuleType) -> None:
    """A module as a value; the notebook's own have no digest: any attribute may be read."""
    if sys.modules.get(module.__name__) is not module or not add_installed(
        digest, module.__name__, ""
    ):
        raise NoDigest


def _named_module(digest: PartsDigest, module: types.ModuleType) -> None:
    """A module that a function names; `_attributes` adds what the function reads of it."""
    if sys.modules.get(module.__name__) is not module:
        raise NoDigest
    if add_installed(digest, module.__name__, ""):
        return
    path = Path(getattr(module, "__file__", None) or "")  # empty: it was made by code
    if not path.is_file() or path.stat().st_size > LARGEST_MODULE:
        raise NoDigest
    digest.add("module", path.read_bytes())


def add_installed(digest: PartsDigest, module: str | None, name: str) -> bool:
    """Add the version of an installed package; return whether the module belongs to one."""
    if module is None or is_ours(module):
        return False
    digest.add("installed", f"{module}.{name} {version_of(module)}")
    return True


_encode = json.JSONEncoder(separators=(",", ":")).encode

MAX_PARTS = 100_000
"""The number of parts; a larger function or value has no digest."""


def digest_function(function: Callable[..., Any], most: int | None = None) -> str | None:
    """The digest of ``function``; None if it has none, or if the objects it refers to hold more
    than ``most`` bytes."""
    return _digest(function, most)


def digest_value(value: Any, most: int | None = None) -> str | None:
    """The digest of ``value``; None if it has none, or if it holds more than ``most`` bytes. Equal
    digests mean equal values."""
    try:
        if is_json(value):  # nearly always
            return hashlib.sha256(b"json " + _encode(value).encode()).hexdigest()
    except (ValueError, RecursionError):  # a number of 5,000 digits
        pass
    return _digest(value, most)


def _digest(thing: Any, most: int | None = None) -> str | None:
    digest = _Digest(most)
    try:
        digest.add_value(thing)
    except (NoDigest, RecursionError):
        return None
    except Exception:  # of a user's class
        return None
    return digest.hash.hexdigest()


class _Digest:
    """A hash of all parts of an object, each with its kind and its length."""

    def __init__(self, most: int | None = None) -> None:
        self.hash = hashlib.sha256()
        self.room = most
        """The bytes that may still be added; None: any number."""
        self.seen: dict[int, int] = {}
        self.held: list[Any] = []
        """Keeps the objects alive, so that no id is used again."""
        self.left = MAX_PARTS

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
        if self.room is not None:
            if size > self.room:
                raise NoDigest
            self.room -= size

    def add_value(self, thing: Any) -> None:
        self.left -= 1
        if self.left < 0:
            raise NoDigest
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
        for of, add in _KINDS:
            if isinstance(thing, of):
                add(self, thing)
                return
        _object(self, thing)

    def all(self, kind: str, things: Iterable[Any]) -> None:
        parts = list(things)
        self.add(kind, str(len(parts)))
        for part in parts:
            self.add_value(part)


def _list(digest: _Digest, things: Any) -> None:
    if type(things) not in (list, tuple):
        raise NoDigest
    digest.all(type(things).__name__, things)


def _dict(digest: _Digest, things: Mapping[Any, Any]) -> None:
    if type(things) is not dict:
        raise NoDigest
    digest.add("dict", str(len(things)))
    for key, value in things.items():  # in order, which a function may depend on
        digest.add_value(key)
        digest.add_value(value)


def _set(digest: _Digest, things: Any) -> None:
    if type(things) not in (set, frozenset):
        raise NoDigest
    digests = [_digest(each) for each in things]
    if None in digests:
        raise NoDigest
    digest.all(type(things).__name__, sorted(map(str, digests)))


def _method(digest: _Digest, method: types.MethodType) -> None:
    digest.all("method", (method.__func__, method.__self__))


def _builtin(digest: _Digest, function: Any) -> None:
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or ""
    if owner is None or isinstance(owner, types.ModuleType):
        digest.add("builtin", f"{module}.{function.__qualname__} {version_of(module)}")
    else:
        digest.all("builtin method", (function.__qualname__, owner))


def _partial(digest: _Digest, partial: functools.partial[Any]) -> None:
    if type(partial) is not functools.partial:
        raise NoDigest
    digest.all("partial", (partial.func, partial.args, partial.keywords, vars(partial)))


def _class(digest: _Digest, kind: type) -> None:
    if is_found(kind) and add_installed(digest, kind.__module__, kind.__qualname__):
        return
    digest.add("class", kind.__qualname__)
    if type(kind) is not type:
        digest.add_value(type(kind))
    digest.all("bases", kind.__bases__)
    for name, value in sorted(vars(kind).items()):
        if name not in _OF_EVERY_CLASS:
            digest.add("attribute", name)
            digest.add_value(value)


def _generic(digest: _Digest, alias: Any) -> None:
    """``list[int]``, ``int | None``, ``Annotated[int, Gt(3)]``: its parts."""
    origin = get_origin(alias)
    if origin is None:
        raise NoDigest
    digest.add_value(origin)
    digest.all("arguments", get_args(alias))


def _wrapped(digest: _Digest, wrapper: Any) -> None:
    if type(wrapper) not in (property, staticmethod, classmethod):
        raise NoDigest
    parts = (
        (wrapper.fget, wrapper.fset, wrapper.fdel)
        if isinstance(wrapper, property)
        else (wrapper.__func__,)
    )
    digest.all(type(wrapper).__name__, parts)


def _member(digest: _Digest, member: enum.Enum) -> None:
    digest.add_value(type(member))
    digest.add("member", str(member._name_))
    digest.add_value(
        {name: value for name, value in vars(member).items() if name not in _OF_EVERY_MEMBER}
    )


def _object(digest: _Digest, thing: Any) -> None:
    """Data, or an instance of the notebook's classes."""
    kind = type(thing)
    if add_data(digest, thing):
        return
    if kind.__module__ == "typing":
        if get_origin(thing) is not None:
            _generic(digest, thing)
        elif isinstance(thing, TypeVar):
            digest.all("variable", (thing.__name__, thing.__bound__, thing.__constraints__))
        else:
            digest.add("typing", repr(thing))
        return
    if not is_ours(kind.__module__) or not has_plain_state(kind):
        raise NoDigest
    _, arguments, state, items, entries = (*thing.__reduce_ex__(2), None, None, None)[:5]
    digest.all("instance", (arguments, state))
    if items is not None or entries is not None:
        raise NoDigest


_ATOMS = frozenset({int, float, complex, bool, type(None), type(Ellipsis)})
_OF_EVERY_MEMBER = frozenset({"_name_", "__objclass__", "_sort_order_"})
_OF_EVERY_CLASS = frozenset(
    {
        "__dict__",
        "__weakref__",
        "__module__",
        "__doc__",
        "__firstlineno__",
        "__static_attributes__",
        "__slotnames__",
    }
)

_KINDS: tuple[tuple[Any, Callable[[_Digest, Any], None]], ...] = (
    ((list, tuple), _list),
    (dict, _dict),
    ((set, frozenset), _set),
    (types.FunctionType, add_function),
    (types.MethodType, _method),
    ((types.BuiltinFunctionType, types.MethodWrapperType), _builtin),
    (functools.partial, _partial),
    (enum.Enum, _member),
    ((types.GenericAlias, types.UnionType), _generic),
    (type, _class),
    (types.MemberDescriptorType, lambda digest, slot: digest.add("slot", slot.__name__)),
    ((staticmethod, classmethod, property), _wrapped),
    (types.ModuleType, add_module),
)
