"""The operators of expressions: arithmetic with, and comparison of, two values of the state.

The state is never changed: a sum of lists is a new list. The size of results is bounded, even in a
loop.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ....flow.comparison_warnings import OF_JSON, OF_NUMBERS, is_opaque, never_equal
from ....text.length import ATOMS
from ....values.extent import LARGEST
from ....values.unread import opened
from ....values.value import Value, equal, is_json, type_name
from .value_errors import describe

MOST_BITS = 100_000
"""Bits of an integer that arithmetic may give."""


_PYTHON = (*ATOMS, list, dict, tuple, set, frozenset, bytes, complex)
_SIZED = (str, list, tuple, bytes)


def combine(sign: str, left: Value, right: Value) -> Value:
    """``left sign right`` as in Python, except that anything added to a list is appended."""
    if sign == "+" and type(left) is list:
        added = right if type(right) is list else [right]
        _check_size(len(left) + len(added))
        return left + added
    left, right = opened(left), opened(right)
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
    """Raise ValueError if one of two numbers is NaN, which has no sum and no order (decision
    A1)."""
    for side, name in ((left, "left"), (right, "right")):
        if _is_nan(side):
            raise ValueError(
                f"{sign!r} needs numbers, and the value on its {name} is NaN: it stands for a missing "
                "number, which a node before this one can replace"
            )


def _is_nan(value: Value) -> bool:
    return type(value) is float and value != value


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def _check_result(sign: str, left: Any, right: Any) -> None:
    """Raises ValueError for a result that would be too large."""
    sizes = [len(side) for side in (left, right) if isinstance(side, _SIZED)]
    numbers = [side for side in (left, right) if isinstance(side, int)]
    if len(sizes) == 2:
        _check_size(sum(sizes))
    elif sign == "*" and len(numbers) == 2:
        if sum(map(int.bit_length, numbers)) > MOST_BITS:
            raise ValueError("the product is too large")
    elif sign == "*" and len(sizes) == len(numbers) == 1:
        (size,), (number,) = sizes, numbers
        _check_size(size * number)


def _check_size(size: int) -> None:
    if size > LARGEST:
        raise ValueError(f"the result has {size:,} parts; the limit is {LARGEST:,}")


def compare(sign: str, left: Value, right: Value) -> bool:
    """A comparison. Ordering is False for a missing left side and for values that have no order."""
    if sign in ("==", "!="):
        return equal(left, right) is (sign == "==")
    if left is None or not (_has_order(left) and _has_order(right)):
        return False
    check_number(sign, left, right)
    try:
        return bool(COMPARE[sign](left, right))
    except (TypeError, RecursionError):
        return False


def not_comparable(sign: str, left: Value, right: Value) -> tuple[str, str] | None:
    """The reason why no two values of these types come out otherwise, and a hint; None: others do, or
    one of them is missing."""
    if left is None or right is None or left is right:
        return None
    if sign in ("==", "!="):
        if not never_equal(left, right):
            return None
        opaque = left if is_opaque(left) else right
        return f"{type_name(opaque)} is equal to itself alone", OF_JSON
    kinds = {_kind_of_order(left), _kind_of_order(right)}
    if len(kinds) == 1 and kinds != {"other"}:
        return None
    hint = OF_NUMBERS if kinds == {"text", "number"} else OF_JSON
    return f"{describe(left)} and {describe(right)} have no order", hint


def _kind_of_order(value: Value) -> str:
    if type(value) in (int, float, bool):
        return "number"
    if type(value) in (str, list):
        return "text" if type(value) is str else "list"
    return "other"


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _has_order(value: Value) -> bool:
    if type(value) in ATOMS:
        return True
    try:
        return type(value) is list and is_json(value)
    except RecursionError:
        return False
