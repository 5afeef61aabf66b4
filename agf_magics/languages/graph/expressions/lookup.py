"""Looks up a path in the state of a graph, within the bounds of readable objects.

Attributes of an object are read unless they are methods or begin with ``_`` (decision Y5). Objects
of the classes in `CLOSED`, the parts of a program, are not read at all.
"""

from __future__ import annotations

import functools
import types
from collections.abc import AsyncGenerator, Coroutine, Generator

from ....text.raised import describe_exception
from ....values.unread import opened
from ....values.value import Value, type_name
from ...descend import MISSING, descend


def find(value: Value, names: tuple[str, ...]) -> Value:
    """The value at a path; MISSING if there is none.

    >>> find({"d": {"n": 1}}, ("d", "n")), find({"d": {}}, ("d", "keys"))
    (1, MISSING)
    """
    return descend(value, names, _attribute)


CLOSED = (
    types.ModuleType,
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    functools.partial,
    property,
    types.CodeType,
    types.CellType,
    types.FrameType,
    types.TracebackType,
    types.GeneratorType,
    types.CoroutineType,
    types.AsyncGeneratorType,
    Generator,
    Coroutine,
    AsyncGenerator,
)
"""The parts of a program. Their attributes lead to variables of the notebook that no definition was
given: a generator has its frame, a module all its imports. The last three are any class of that
kind (Cython has its own)."""


def _attribute(value: Value, name: str) -> Value:
    value = opened(value)
    if isinstance(value, dict):
        return value.get(name, MISSING)
    if not name or name.startswith("_") or isinstance(value, CLOSED):
        return MISSING
    try:
        attribute = getattr(value, name, MISSING)
    except Exception as error:  # a property is user code
        raise ValueError(
            f"cannot read {name!r} of {type_name(value)}: {describe_exception(error)}"
        ) from error
    return MISSING if callable(attribute) else attribute
