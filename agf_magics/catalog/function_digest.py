"""Functions and modules as parts of a digest: code, and whatever the code names of the notebook's
own things."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from .code_names import imported, names_in, words_in
from .data_digest import Digest, NoDigest
from .origins import is_ours, is_put_there, version_of

LARGEST_FILE = 10_000_000
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
    if not path.is_file() or path.stat().st_size > LARGEST_FILE:
        raise NoDigest
    digest.add("module", path.read_bytes())


def add_installed(digest: PartsDigest, module: str | None, name: str) -> bool:
    """Add the version of an installed package; return whether the module belongs to one."""
    if module is None or is_ours(module):
        return False
    digest.add("installed", f"{module}.{name} {version_of(module)}")
    return True
