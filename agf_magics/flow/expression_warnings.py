"""`expression_listener`, which takes the warnings that expressions find in the current run.

Expressions are evaluated in many places, and none of them can emit an event. So the run sets a
listener in a context variable, which its tasks inherit. Outside of a run there is no listener.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from ..text.diagnostics import Diagnostic

expression_listener: ContextVar[Callable[[Diagnostic], None] | None] = ContextVar(
    "expression_listener", default=None
)
"""The function that takes the warnings of the current run; None: there is no run."""
