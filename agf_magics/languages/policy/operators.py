"""The operators of a matcher, one row each: name, sign, test.

``agf.schema.json`` describes the operators, too. A test checks that both have the same names.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...schemas.schema import same
from ...values.value import Value

Test = Callable[[Value], bool]
"""Tells whether a value matches."""


class Operator(NamedTuple):
    """An operator: ``{gte: 0.8}``."""

    name: str
    sign: str
    """The operator as a picture shows it."""
    test: Callable[[Any], Test]
    """The test for the value beside it, whose type the schema of the document has checked."""
    written: tuple[str, ...] = ()
    """The signs of the comparison in other languages, for hints."""
    foreign: tuple[str, ...] = ()
    """Words of other languages that mean the same."""
    is_numeric: bool = False
    """Whether only a number can match."""


def is_number(value: Value) -> bool:
    """Whether ``value`` is a finite number and no bool."""
    return type(value) is int or (type(value) is float and value - value == 0)


def never(value: Value) -> bool:
    """The test of an operator that does not exist, or whose value is an error."""
    return False


def _order(name: str, sign: str, apply: Callable[[Any, Any], bool]) -> Operator:
    def test(bound: Any) -> Test:
        return lambda value: is_number(value) and apply(value, bound)

    return Operator(name, sign, test, (sign,), is_numeric=True)


_ROWS = (
    _order("gt", ">", operator.gt),
    _order("gte", ">=", operator.ge),
    _order("lt", "<", operator.lt),
    _order("lte", "<=", operator.le),
    Operator(
        "ne",
        "!=",
        lambda operand: lambda value: not same(value, operand),
        written=("!=", "<>"),
        foreign=("neq",),
    ),
    Operator(
        "in",
        "in",
        lambda operand: lambda value: any(same(value, element) for element in operand),
        foreign=("any",),
    ),
    Operator(
        "not_in",
        "not in",
        lambda operand: lambda value: not any(same(value, element) for element in operand),
    ),
    # The test of a pattern is made where its errors are reported.
    Operator("pattern", "matches", lambda operand: never, foreign=("regex", "matches")),
)

OPERATORS: Mapping[str, Operator] = {row.name: row for row in _ROWS}
"""The operators by name, in the order of hints."""
COMPARED: Mapping[str, str] = {sign: row.name for row in _ROWS for sign in row.written}
"""The operators by the signs of other languages."""
SIGN = "|".join(sorted([*COMPARED, "==", "="], key=len, reverse=True))
"""A regular expression for the signs of the operators and of equality, for which a matcher has only
the value. Longer signs come first."""
