"""What all steps have: an id, a place, a target, and what to do if it fails.

A step is frozen for the type checker only: a frozen dataclass takes twice as long to declare (a
module of steps took a tenth of ``%load_ext``) and three times as long to create (a definition has
thousands of them).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from ..text.diagnostics import Diagnostic, StepError
from ..text.source import Span
from ..values.value import Value
from .protocols import Target, data

OnError = Literal["abort", "continue", "finish"]
"""``abort``: no further element starts, running ones are cancelled, the step fails. ``continue``:
it is dropped. ``finish``: the others finish, then the step fails with all failures and the
successful values."""


class FailurePolicy(NamedTuple):
    """What happens to an element or a branch that fails, and to its fan-out."""

    on_error: OnError = "abort"
    """The reaction to a failure after the last attempt."""
    retries: int = 0
    wait: float = 0.0
    """Seconds before each further attempt."""
    keeps_failures: bool = False
    """Whether `join` reads the failures of what was dropped."""


class ElementLimit(NamedTuple):
    """The bound of the elements of a fan-out: only the first ones are used."""

    most: int
    problem: Callable[[int], Diagnostic]
    """About more elements, given how many there are more; an error fails the step."""


@data
class Step:
    """The fields of all steps."""

    id: str
    word: str
    """The language's noun for it: ``for_each``, ``transform``; shown in the picture and the
    progress tree."""
    label: str = ""
    """Distinguishes it from its siblings: a tool's name, the beginning of an expression."""
    title: str = ""
    """The author's name for it; empty: none."""
    span: Span | None = None
    """The place of the word, for errors about the whole step."""
    target: Target | None = None
    rescue: Callable[[StepError], Value] | None = None
    """Makes the value of a failed step from its error, and the run continues. None: the parent
    fails. Never used for a breached limit."""
