"""The names in the code of a function: globals, attributes and imports."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator
from importlib.util import resolve_name

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
