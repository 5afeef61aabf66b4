"""The errors for values that cannot be computed, and the words by which errors name values."""

from __future__ import annotations

from ....text.diagnostics import Diagnostic, StepError
from ....text.raised import args_of, is_a, text_of
from ....text.shorten import shorten
from ....text.source import Span
from ....values.value import Value, type_name

LARGE = 1 << 64
"""Numbers from here on are not written out: the text of an int has a limit."""


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
