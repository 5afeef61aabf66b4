"""Functions and modules as parts of a digest: code, and whatever the code names of the notebook's
own things.

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
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ...values.extent import can_write
from ...values.value import is_json
from .code_names import names_of, words_in
from .digest import MOST_JSON, Digest, NoDigest, add_generic, add_parts
from .origins import is_found, is_ours, is_put_there, version_of

LARGEST_MODULE = 10_000_000
"""Bytes of the file of a module of the notebook's own; a larger one has no digest."""

ITS_CODE = "its code"
"""The name of the part that no name of the function stands for."""

_READS_ANYTHING = frozenset({"globals", "eval", "exec", "__import__"})
"""Functions that read globals without naming them."""


@add_parts.register
def _add_function(function: types.FunctionType, digest: Digest) -> None:
    """Its code, its defaults, and what it names, except what it changes itself: a cache, a counter
    (decision D43)."""
    # The module of its code: a decorator may have set ``__module__``.
    installed = add_installed(digest, function.__globals__.get("__name__"), function.__qualname__)
    names = names_of(function)
    # A function of the notebook inside of a package's decorator counts.
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        try:
            value = cell.cell_contents
        except ValueError:  # not bound yet
            continue
        with digest.part(name):
            _add_unless_changed(digest, name, value, names.changed)
    if installed:
        return
    with digest.part(ITS_CODE):
        _code(digest, function.__code__)
        digest.add_value(function.__defaults__)
        digest.add_value(function.__kwdefaults__)
        _annotations(digest, function)
        if function.__dict__:
            digest.add_value(function.__dict__)
    words = words_in(function.__code__)
    if "import_module" in words or not _READS_ANYTHING.isdisjoint(names.read):
        raise NoDigest
    modules = []
    for name in names.read:
        if name in function.__globals__:
            value = function.__globals__[name]
            with digest.part(name):
                if isinstance(value, types.ModuleType):
                    _named_module(digest, value)
                    modules.append(value)
                else:
                    _add_unless_changed(digest, name, value, names.changed)
    modules += _imports(digest, names.imported)
    _attributes(digest, modules, words)


def _add_unless_changed(digest: Digest, name: str, value: Any, changed: set[str]) -> None:
    if name in changed:
        digest.add("changed", type(value).__qualname__)
    else:
        digest.add_value(value)


def _annotations(digest: Digest, function: types.FunctionType) -> None:
    """Annotations count: arguments are converted to them before a call."""
    for name, kind in function.__annotations__.items():
        digest.add("annotation", name)
        digest.add_value(kind)
        for word in dict.fromkeys(re.findall(r"[^\W\d]\w*", kind) if isinstance(kind, str) else ()):
            value = function.__globals__.get(word)
            if isinstance(value, types.ModuleType):
                _named_module(digest, value)
            elif value is not None:
                digest.add("named", word)
                digest.add_value(value)


def _imports(digest: Digest, names: Iterable[str]) -> Iterator[types.ModuleType]:
    """The modules that a function's body imports."""
    for name in names:
        module = sys.modules.get(name)
        with digest.part(name):
            if module is not None:
                _named_module(digest, module)
            elif not add_installed(digest, name, ""):
                raise NoDigest
        if module is not None:
            yield module


def _attributes(digest: Digest, modules: list[types.ModuleType], words: frozenset[str]) -> None:
    """The attributes of the notebook's modules that a function names, with their current values."""
    seen = set[int]()
    while modules:
        module = modules.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        for word in sorted(words & vars(module).keys()):
            value = vars(module)[word]
            if is_ours(module.__name__) or is_put_there(value):
                with digest.part(f"{module.__name__}.{word}"):
                    if isinstance(value, types.ModuleType):
                        _named_module(digest, value)
                        modules.append(value)
                    else:
                        digest.add_value(value)


def _code(digest: Digest, code: types.CodeType) -> None:
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


@add_parts.register
def _add_module(module: types.ModuleType, digest: Digest) -> None:
    """A module as a value; the notebook's own have no digest: any attribute may be read."""
    if sys.modules.get(module.__name__) is not module or not add_installed(
        digest, module.__name__, ""
    ):
        raise NoDigest


def _named_module(digest: Digest, module: types.ModuleType) -> None:
    """A module that a function names; `_attributes` adds what the function reads of it."""
    if sys.modules.get(module.__name__) is not module:
        raise NoDigest
    if add_installed(digest, module.__name__, ""):
        return
    path = Path(getattr(module, "__file__", None) or "")  # empty: it was made by code
    if not path.is_file() or path.stat().st_size > LARGEST_MODULE:
        raise NoDigest
    digest.add("module", path.read_bytes())


def add_installed(digest: Digest, module: str | None, name: str) -> bool:
    """Add the version of an installed package; return whether the module belongs to one."""
    if module is None or is_ours(module):
        return False
    digest.add("installed", f"{module}.{name} {version_of(module)}")
    return True


_encode = json.JSONEncoder(separators=(",", ":")).encode


class FunctionDigest(NamedTuple):
    """The digest of a function."""

    whole: str
    parts: Mapping[str, str]
    """The digests of its code and of what it names, by name: they tell what differs between two
    versions of it (decision D43)."""


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


def digest_function(function: Callable[..., Any], most: int | None = None) -> FunctionDigest | None:
    """The digest of ``function``; None if it has none, or if the objects it refers to hold more
    than ``most`` bytes."""
    digest = _digest(function, most)
    return FunctionDigest(digest.hash.hexdigest(), digest.named) if digest is not None else None


def digest_value(value: Any, most: int | None = None) -> str | None:
    """The digest of ``value``; None if it has none, or if it holds more than ``most`` bytes. Equal
    digests mean equal values."""
    with suppress(ValueError, RecursionError):  # a number of 5,000 digits
        if is_json(value) and can_write(value, MOST_JSON):  # nearly always
            return hashlib.sha256(b"json " + _encode(value).encode()).hexdigest()
    digest = _digest(value, most)
    return digest.hash.hexdigest() if digest is not None else None


def _digest(thing: Any, most: int | None = None) -> Digest | None:
    digest = Digest(most)
    try:
        digest.add_value(thing)
    except Exception:  # NoDigest, a nesting that is too deep, any error of a user's class
        return None
    return digest


@add_parts.register(list)
@add_parts.register(tuple)
def _list(things: Any, digest: Digest) -> None:
    if type(things) not in (list, tuple):
        raise NoDigest
    digest.all(type(things).__name__, things)


@add_parts.register
def _dict(things: dict, digest: Digest) -> None:  # type: ignore[type-arg]  # a class is registered
    if type(things) is not dict:
        raise NoDigest
    digest.add("dict", str(len(things)))
    for key, value in things.items():  # in order, which a function may depend on
        digest.add_value(key)
        digest.add_value(value)


@add_parts.register(set)
@add_parts.register(frozenset)
def _set(things: Any, digest: Digest) -> None:
    digests = [digest_value(each) for each in things]
    if type(things) not in (set, frozenset) or None in digests:
        raise NoDigest
    digest.all(type(things).__name__, sorted(map(str, digests)))


@add_parts.register
def _method(method: types.MethodType, digest: Digest) -> None:
    digest.all("method", (method.__func__, method.__self__))


@add_parts.register(types.BuiltinFunctionType)
@add_parts.register(types.MethodWrapperType)
def _builtin(function: Any, digest: Digest) -> None:
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or ""
    if owner is None or isinstance(owner, types.ModuleType):
        digest.add("builtin", f"{module}.{function.__qualname__} {version_of(module)}")
    else:
        digest.all("builtin method", (function.__qualname__, owner))


@add_parts.register(functools.partial)
def _partial(partial: functools.partial[Any], digest: Digest) -> None:
    if type(partial) is not functools.partial:
        raise NoDigest
    digest.all("partial", (partial.func, partial.args, partial.keywords, vars(partial)))


@add_parts.register(type)
def _class(kind: type, digest: Digest) -> None:
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


add_parts.register(types.GenericAlias, add_generic)
add_parts.register(types.UnionType, add_generic)


@add_parts.register(types.MemberDescriptorType)
def _slot(slot: types.MemberDescriptorType, digest: Digest) -> None:
    digest.add("slot", slot.__name__)


@add_parts.register(staticmethod)
@add_parts.register(classmethod)
@add_parts.register(property)
def _wrapped(wrapper: Any, digest: Digest) -> None:
    if type(wrapper) not in (property, staticmethod, classmethod):
        raise NoDigest
    parts = (
        (wrapper.fget, wrapper.fset, wrapper.fdel)
        if isinstance(wrapper, property)
        else (wrapper.__func__,)
    )
    digest.all(type(wrapper).__name__, parts)


@add_parts.register
def _member(member: enum.Enum, digest: Digest) -> None:
    digest.add_value(type(member))
    digest.add("member", str(member._name_))
    digest.add_value(
        {name: value for name, value in vars(member).items() if name not in _OF_EVERY_MEMBER}
    )
