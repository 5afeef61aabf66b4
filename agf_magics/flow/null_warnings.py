"""The warning that an expression writes a missing value as null, told to the run around the
evaluation.

An expression is evaluated in many places, and none of them can emit an event. So the run says who
listens, in a context variable that its tasks inherit; outside of a run nobody does.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from ..text.diagnostics import Diagnostic
from ..values.json_text import missing_at
from ..values.value import Value

told: ContextVar[Callable[[Diagnostic], None] | None] = ContextVar("told", default=None)
"""What takes the warnings of the run around this code."""


def warn_of_null(name: str, value: Value) -> None:
    """Warn that a part of ``value``, which a text or a model gets, is written as null (decision
    A1′). ``name``: what its author calls the value."""
    listener = told.get()
    if listener is not None:
        message = f"{name} has {missing_at(value)}, which is written as null"
        hint = "JSON has no such value; let a tool replace it, if something else is meant"
        listener(Diagnostic("step.written-null", message, None, hint, "warning"))
