"""`Step`, the base of all steps: an id, a place, a target, and the reaction to a failure.

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
"""The reaction to an element that fails. ``abort``: no further element starts, running elements are
cancelled, and the step fails. ``continue``: the element is dropped. ``finish``: the other elements
finish, then the step fails with all failures and the successful values."""


class FailurePolicy(NamedTuple):
    """What happens to an element or a branch that fails, and to its fan-out."""

    on_error: OnError = "abort"
    """The reaction to a failure after the last attempt."""
    retries: int = 0
    """The number of attempts after the first one."""
    wait: float = 0.0
    """Seconds before each further attempt."""
    keeps_failures: bool = False
    """Whether `join` reads the failures of dropped elements."""


class ElementLimit(NamedTuple):
    """The largest number of elements that a fan-out uses; further elements are ignored."""

    most: int
    problem: Callable[[int], Diagnostic]
    """Returns the problem, given the number of further elements. An error fails the step."""


@data
class Step:
    """The fields of all steps."""

    id: str
    word: str
    """The language's noun for the step: ``for_each``, ``transform``. Pictures and progress show
    it."""
    label: str = ""
    """A text that distinguishes the step from its siblings: a tool's name, the beginning of an
    expression."""
    title: str = ""
    """The author's name for the step; empty: there is none."""
    span: Span | None = None
    """The place of the word, for errors about the whole step."""
    target: Target | None = None
    """Stores the value of the step in the frame; None: it is not stored."""
    rescue: Callable[[StepError], Value] | None = None
    """Computes the value of a failed step from its error, so that the run continues; None: the
    parent fails, too. Never used for an exceeded limit."""
