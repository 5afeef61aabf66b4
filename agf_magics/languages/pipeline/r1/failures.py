"""The failures of an evaluation of R1: their codes, messages and places in the expression.

The module `operands` has the failures whose hints need the tables of the language.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....text.length import ATOMS
from ....values.value import Value, type_name


class Failure(Exception):
    """The reason why an expression has no value. The place is an offset and a width in the
    expression.

    ``part``: the number of a name in the path at this place, which the error points at; -1: the
    error points at the whole place. Blanks may be between names, so only the text tells where a
    name is.
    """

    def __init__(
        self,
        code: str,
        message: str,
        offset: int,
        width: int,
        hint: str | None = None,
        part: int = -1,
    ) -> None:
        self.code = code
        self.message = message
        self.offset = offset
        self.width = width
        self.hint = hint
        self.part = part
        self.is_unknown_name = False


def not_a_number(op: str, names: Sequence[str], offset: int) -> Failure:
    """The error for NaN as an operand (decision A1). ``names``: the names of the operands that are
    NaN; empty for a computed operand."""
    hint = "NaN stands for a missing number: let a tool drop or replace it"
    name = next(filter(None, names), "a value")
    return Failure(
        "r1.not-a-number", f"{op!r} needs numbers, and {name} is NaN", offset, len(op), hint
    )


def list_needed(name: str, value: Value, offset: int) -> Failure:
    """The error for the argument of the function ``name`` that is no list."""
    hint = None
    if hasattr(type(value), "to_dict"):  # a data frame, of which list(…) has the column names
        hint = "let the tool return its rows: return frame.to_dict('records')"
    elif type(value) not in (*ATOMS, dict):
        hint = "let the tool return a list: return list(…)"
    message = f"{name} needs a list, not {type_name(value)}"
    return Failure("r1.type", message, offset, len(name), hint)


def element_needed(
    name: str, needs: str, items: list[Value], types: frozenset[type], offset: int
) -> Failure:
    """The error for the first element that has none of the types."""
    index = next(index for index, value in enumerate(items) if type(value) not in types)
    message = f"{name} needs a list of {needs}; element {index} is {type_name(items[index])}"
    return Failure("r1.type", message, offset, len(name))


def no_float(offset: int, width: int) -> Failure:
    """The error for a number that is too large for an operation of floats."""
    message = "the numbers are larger than a float can be"
    return Failure("r1.too-large", message, offset, width)
