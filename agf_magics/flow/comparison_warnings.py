"""Warns the current run that the types of two values decide their comparison."""

from __future__ import annotations

from ..text.diagnostics import Diagnostic
from ..text.length import ATOMS
from ..values.extent import CONTAINERS
from ..values.value import Value
from .expression_warnings import expression_listener

OF_JSON = "let the step that returns it return JSON: a number, a text, a list"
"""The hint for an object among the values of a comparison."""
OF_NUMBERS = "let the step that returns it return a number"
"""The hint for another value in place of a number."""


def is_opaque(value: Value) -> bool:
    """Whether ``value`` is an object, which expressions do not look into (decision A1)."""
    return type(value) not in ATOMS and type(value) not in CONTAINERS


def never_equal(first: Value, second: Value) -> bool:
    """Whether two values that differ can never be equal because one of them is an object. A
    comparison with null tells whether there is an object."""
    return first is not None and second is not None and (is_opaque(first) or is_opaque(second))


def warn_of_comparison(message: str, hint: str) -> None:
    """Warn the current run, once for each message. Outside of a run nobody is told."""
    listener = expression_listener.get()
    if listener is not None:
        listener(Diagnostic("step.not-comparable", message, None, hint, "warning"))
