"""What an expression does with the state: paths, arithmetic, comparing, writing into a text.

The state is never changed: a sum of lists is a new list. Of an object only what is no method and does not begin with
``_`` can be read (decision Y5), of what programs are made of (`CLOSED`) nothing, and nothing grows beyond a bound,
whatever a loop does with it.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from types import (
    AsyncGeneratorType,
    BuiltinFunctionType,
    CellType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
    TracebackType,
)
from typing import Any

from ...flow.values import ATOMS, LARGEST, Value, equal, is_json, type_name

LARGE = 1 << 64
"""Below it whole numbers are computed with at once; above, what they come to is bounded."""
MOST_BITS = 100_000
"""Of a whole number that arithmetic may give."""
LONGEST_WRITTEN = 1_000_000
"""Parts and characters of a value that is written into a text."""


class Missing:
    """What a path leads to where there is nothing."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = Missing()


def find(value: Value, names: tuple[str, ...]) -> Value:
    """What stands at the path; MISSING where there is nothing.

    >>> find({"d": {"n": 1}}, ("d", "n")), find({"d": {}}, ("d", "keys"))
    (1, MISSING)
    """
    for name in names:
        value = value.get(name, MISSING) if isinstance(value, dict) else _attribute(value, name)
        if value is MISSING:
            return MISSING
    return value


def reader(names: tuple[str, ...]) -> Callable[[Any], Value]:
    """How what stands at a path of the state is read; None where there is nothing."""
    first, second = names[0], names[-1]

    def followed(state: Any) -> Value:
        found = find(state, names)
        return None if found is MISSING else found

    def of_an_object(state: Any) -> Value:
        inner = state.get(first)
        return inner.get(second) if type(inner) is dict else followed(state)

    if len(names) == 1:
        return lambda state: state.get(first)
    return of_an_object if len(names) == 2 else followed


CLOSED = (
    ModuleType,
    type,
    FunctionType,
    BuiltinFunctionType,
    MethodType,
    functools.partial,
    property,
    CodeType,
    CellType,
    FrameType,
    TracebackType,
    GeneratorType,
    CoroutineType,
    AsyncGeneratorType,
    Generator,
    Coroutine,
    AsyncGenerator,
)
"""What programs are made of. Its attributes lead to variables of the notebook that no definition was given: a generator
has its frame, a module has all that it imports. The last three are any class of that kind (Cython has its own)."""


def _attribute(value: Value, name: str) -> Value:
    if not name or name.startswith("_") or isinstance(value, CLOSED):
        return MISSING
    try:
        found = getattr(value, name, MISSING)
    except Exception as error:  # a property is somebody's code
        raise ValueError(f"{name!r} of {type_name(value)} cannot be read: {type(error).__name__}: {error}") from error
    return MISSING if callable(found) else found


_PYTHON = (*ATOMS, list, dict, tuple, set, frozenset, bytes, complex)
_SIZED = (str, list, tuple, bytes)


def combine(sign: str, left: Value, right: Value) -> Value:
    """``left sign right`` as Python has it, but for a list: whatever is added to one is appended."""
    if sign == "+" and type(left) is list:
        _small(len(left) + (len(right) if type(right) is list else 1))
        return left + right if type(right) is list else [*left, right]
    for side in (left, right):
        if type(side) not in _PYTHON:  # decision A1: what is opaque is not looked into
            raise TypeError(f"unsupported operand for {sign}: {type_name(side)}")
    _bounded(sign, left, right)
    try:
        return ARITHMETIC[sign](left, right)
    except OverflowError as error:
        raise ValueError(f"{sign} cannot be computed: {error}") from error


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip


def _bounded(sign: str, left: Any, right: Any) -> None:
    if isinstance(left, _SIZED) and isinstance(right, _SIZED):
        _small(len(left) + len(right))
    elif sign == "*" and isinstance(left, int) and isinstance(right, int):
        if left.bit_length() + right.bit_length() > MOST_BITS:
            raise ValueError("the product is too large a number")
    elif sign == "*" and isinstance(left, int) and isinstance(right, _SIZED):
        _small(left * len(right))
    elif sign == "*" and isinstance(left, _SIZED) and isinstance(right, int):
        _small(len(left) * right)


def _small(size: int) -> None:
    if size > LARGEST:
        raise ValueError(f"the result has {size:,} parts, {LARGEST:,} are allowed")


def compare(sign: str, left: Value, right: Value) -> bool:
    """What is not there is less than nothing; what cannot be ordered is not."""
    kind, other = type(left), type(right)
    if (kind is int or kind is float) and (other is int or other is float):
        return COMPARE[sign](left, right)
    if sign == "==":
        return _same(left, right)
    if sign == "!=":
        return not _same(left, right)
    if left is None or not (_ordered(left) and _ordered(right)):
        return False
    try:
        return bool(COMPARE[sign](left, right))
    except (TypeError, RecursionError):
        return False


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def _ordered(value: Value) -> bool:
    if type(value) in ATOMS:
        return True
    try:
        return type(value) is list and is_json(value)
    except RecursionError:
        return False


def _same(left: Value, right: Value) -> bool:
    if type(left) in ATOMS and type(right) in ATOMS:
        return bool(left == right)
    try:
        return equal(left, right)
    except RecursionError:
        return False


def written(value: Value) -> str:
    """A value as it stands in a text: Python's own writing."""
    if type(value) is str:
        return value
    if type(value) in (list, dict):
        _writable(value)
    try:
        return str(value)
    except RecursionError as error:
        raise ValueError("a value nests too deeply to be written into a text") from error
    except Exception as error:  # an object's own text is somebody's code
        raise ValueError(f"{type_name(value)} cannot be written into a text: {error}") from error


def _writable(value: Value) -> None:
    """A small value whose parts are shared can be large when it is written out."""
    waiting, room = [value], LONGEST_WRITTEN
    while waiting and room >= 0:
        part = waiting.pop()
        if type(part) is dict:
            waiting += part.values()
            room -= len(part) + sum(len(key) for key in part if type(key) is str)
        elif type(part) is list:
            waiting += part
            room -= len(part)
        else:
            room -= len(part) if type(part) is str else 1
    if room < 0:
        raise ValueError(f"a value of more than {LONGEST_WRITTEN:,} parts cannot be written into a text")
