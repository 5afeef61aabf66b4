"""Collects the names in a function's code: globals, attributes, imports, and the names that it
binds."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator
from importlib.util import resolve_name
from typing import NamedTuple

_STORES = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF"})
_SETS = frozenset({"STORE_ATTR", "DELETE_ATTR"})
_SETTERS = frozenset({"setattr", "delattr", "vars"})
"""Functions that bind attributes whose names are texts."""


class CodeNames(NamedTuple):
    """The names in a function and its inner functions."""

    read: dict[str, None]
    """The globals that the function reads, in order."""
    bound: set[str]
    """The names and attributes that the function binds to another object: ``global count; count +=
    1``, ``helpers.count = 1``."""
    imported: dict[str, None]
    """The modules that the body of the function imports."""


def names_of(function: types.FunctionType) -> CodeNames:
    names = CodeNames({}, set(), {})
    for code in _codes_in(function.__code__):
        steps = list(dis.get_instructions(code))
        for at, step in enumerate(steps):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                names.read[step.argval] = None
            elif step.opname in _STORES or step.opname in _SETS:
                names.bound.add(step.argval)
            elif step.opname == "IMPORT_NAME":
                level = steps[at - 2].argval
                within = function.__globals__.get("__package__")
                module = resolve_name("." * level + step.argval, within) if level else step.argval
                names.imported[module] = None
    if not _SETTERS.isdisjoint(names.read):
        names.bound.update(words_in(function.__code__))
    return names


def words_in(code: types.CodeType) -> frozenset[str]:
    """All names in a function, attributes and strings for ``getattr`` included."""
    words = (word for inner in _codes_in(code) for word in (*inner.co_names, *inner.co_consts))
    return frozenset(word for word in words if isinstance(word, str))


def _codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes_in(constant)
