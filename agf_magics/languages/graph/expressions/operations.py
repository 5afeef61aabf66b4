"""Operations on values of the state: lookups, arithmetic, comparisons, texts.

The state is never changed: a sum of lists is a new list. Of an object only attributes that are not
methods and do not begin with ``_`` are read (decision Y5), of the parts of a program (`CLOSED`)
none. No result exceeds a bound, however often a loop computes it.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import types
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any

from ....flow.notes import warn_of_null
from ....text.diagnostics import Diagnostic, StepError
from ....text.length import ATOMS, can_write
from ....text.raised import args_of, describe_exception, is_a, text_of
from ....text.source import Span
from ....text.yaml.nodes import shorten
from ....values.extent import LARGEST
from ....values.times import is_missing, is_numpy_time, iso_text
from ....values.value import Value, equal, is_json, type_name
from ...scan import MISSING, descend

LARGE = 1 << 64
"""Integers below it are computed with at once; above it the size of the result is checked."""
MOST_BITS = 100_000
"""Bits of an integer that arithmetic may give."""
LONGEST_WRITTEN = 1_000_000
"""Parts and characters of a value that is written into a text."""


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
    if isinstance(value, dict):
        return value.get(name, MISSING)
    if not name or name.startswith("_") or isinstance(value, CLOSED):
        return MISSING
    try:
        found = getattr(value, name, MISSING)
    except Exception as error:  # a property is user code
        raise ValueError(
            f"cannot read {name!r} of {type_name(value)}: {describe_exception(error)}"
        ) from error
    return MISSING if callable(found) else found


_PYTHON = (*ATOMS, list, dict, tuple, set, frozenset, bytes, complex)
_SIZED = (str, list, tuple, bytes)


def combine(sign: str, left: Value, right: Value) -> Value:
    """``left sign right`` as in Python, except that anything added to a list is appended."""
    if sign == "+" and type(left) is list:
        added = right if type(right) is list else [right]
        _check_size(len(left) + len(added))
        return left + added
    for side in (left, right):
        if type(side) not in _PYTHON:  # decision A1: an opaque value is not looked into
            raise TypeError(f"unsupported operand for {sign}: {type_name(side)}")
    _check_result(sign, left, right)
    check_number(sign, left, right)
    try:
        return ARITHMETIC[sign](left, right)
    except OverflowError as error:
        raise ValueError(f"{sign}: {error}") from error
    except TypeError as error:
        raise TypeError(f"cannot compute {describe(left)} {sign} {describe(right)}") from error


def check_number(sign: str, left: Value, right: Value) -> None:
    """Raises ValueError where one of two numbers is NaN: no sum and no order has it (decision
    A1′)."""
    for side, name in ((left, "left"), (right, "right")):
        if _is_nan(side):
            raise ValueError(
                f"{sign!r} needs numbers, and the value on its {name} is NaN: it stands for a missing "
                "number, which a node before this one can replace"
            )


def _is_nan(value: Value) -> bool:
    return type(value) is float and value != value


def describe(value: Value) -> str:
    """A value with its type, as an error names it.

    >>> describe("four"), describe(4), describe([1])
    ("the text 'four'", 'the number 4', 'a list')
    """
    if type(value) is str:
        return f"the text {shorten(value)!r}"
    if type(value) in (int, float):
        return (
            f"the number {value}" if abs(value) < LARGE else "a large number"
        )  # the text of an int has a limit
    return type_name(value)


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def _check_result(sign: str, left: Any, right: Any) -> None:
    sizes = [len(side) for side in (left, right) if isinstance(side, _SIZED)]
    numbers = [side for side in (left, right) if isinstance(side, int)]
    if len(sizes) == 2:
        _check_size(sum(sizes))
    elif sign == "*" and len(numbers) == 2:
        if sum(map(int.bit_length, numbers)) > MOST_BITS:
            raise ValueError("the product is too large")
    elif sign == "*" and len(sizes) == len(numbers) == 1:
        _check_size(sizes[0] * numbers[0])


def _check_size(size: int) -> None:
    if size > LARGEST:
        raise ValueError(f"the result has {size:,} parts; the limit is {LARGEST:,}")


def compare(sign: str, left: Value, right: Value) -> bool:
    """A comparison. Ordering is False for a missing left side and for values that have no order."""
    if sign in ("==", "!="):
        return equal(left, right) is (sign == "==")
    if left is None or not (_ordered(left) and _ordered(right)):
        return False
    check_number(sign, left, right)
    try:
        return bool(COMPARE[sign](left, right))
    except (TypeError, RecursionError):
        return False


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _ordered(value: Value) -> bool:
    if type(value) in ATOMS:
        return True
    try:
        return type(value) is list and is_json(value)
    except RecursionError:
        return False


def format_value(value: Value, name: str = "a value") -> str:
    """A value as it is written into a text: as Python's ``str`` does, but NaN, an infinity and NaT
    as null, and a duration of numpy in ISO 8601 (decisions A1′, A1″). ``name``: what a warning calls
    it."""
    if type(value) is str:
        return value
    has_odd = False
    if type(value) in (list, dict):
        has_odd = check_length(value)
    elif is_missing(value) or is_numpy_time(value):
        has_odd = True
    if not can_write(value):
        raise ValueError(f"cannot write {type_name(value)} into a text: it is too large")
    try:
        return str(_written(value, name) if has_odd else value)
    except RecursionError as error:
        raise ValueError("the value nests too deeply to be written into a text") from error
    except Exception as error:  # ``__str__`` of an object is user code
        why = text_of(error)
        raise ValueError(f"cannot write {type_name(value)} into a text: {why}") from error


@dataclasses.dataclass(frozen=True, slots=True)
class _Text:
    """A part of a list or a mapping whose text is not that of Python."""

    text: str

    def __repr__(self) -> str:
        return self.text


def _written(value: Value, name: str) -> Value:
    """``value`` with a `_Text` in the place of each part that is not written as Python does."""
    is_null = False

    def written(part: Value) -> Value:
        nonlocal is_null
        if type(part) is dict:
            return {key: written(inner) for key, inner in part.items()}
        if type(part) is list:
            return list(map(written, part))
        if is_missing(part):
            is_null = True
            return _Text("null")
        return _Text(iso_text(part) or "") if is_numpy_time(part) else part

    text = written(value)
    if is_null:
        warn_of_null(name, value)
    return text


def check_length(value: Value) -> bool:
    """Raises ValueError for a value that is too long as text: a small one with shared parts may be.
    Returns whether it has a part that is not written as Python does."""
    queue, room, has_odd = [value], LONGEST_WRITTEN, False
    # A part weighs 8 at most, besides the characters of texts.
    if not can_write(value, 8 * LONGEST_WRITTEN):
        room, queue = -1, []
    while queue and room >= 0:
        part = queue.pop()
        if type(part) is dict:
            queue += part.values()
            room -= len(part) + sum(len(key) for key in part if type(key) is str)
        elif type(part) is list:
            queue += part
            room -= len(part)
        else:
            room -= len(part) if type(part) is str else 1
            has_odd = has_odd or is_missing(part) or is_numpy_time(part)
    if room < 0:
        raise ValueError(f"cannot write a value of more than {LONGEST_WRITTEN:,} parts into a text")
    return has_odd


CANNOT = (TypeError, ValueError, KeyError, ZeroDivisionError)
"""The exceptions that an accepted expression may raise."""


def value_failed(text: str, span: Span, error: Exception) -> StepError:
    """The step error for a value that cannot be computed (decision Y2); its cause is the exception
    itself."""
    args = args_of(error)
    reason = text_of(args[0]) if is_a(error, KeyError) and args else text_of(error)
    hint = (
        "both sides must be numbers or both texts; to a list anything can be added"
        if type(error) is TypeError
        else None
    )
    return StepError(
        Diagnostic("graph.value-failed", f"{shorten(text)!r} failed: {reason}", span, hint)
    )
