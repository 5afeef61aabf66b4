"""How languages differ: how a value is read and where a result goes. The engine calls these and knows nothing else of
one.

A frame is a plain dict that is never changed once made: ``{**frame, "pipe": value}`` is the next one. So isolation
between siblings is not a check, it is the data structure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ..text.source import Span
from .values import Value

Frame = dict[str, Value]
"""What a step sees."""


class Ref(NamedTuple):
    """A path that an expression reads or a target writes: ``("ctx", "review", "passed")``."""

    path: tuple[str, ...]
    span: Span | None = None
    certain: bool = True
    """Read whenever the expression is evaluated and refused when absent; False behind ``and``, in a lambda, in
    ``get``.
    """


class Expr(Protocol):
    """Reads a value. ``evaluate`` is a slot that holds the closure itself: a method around it costs half the R1
    goal.
    """

    span: Span
    evaluate: Callable[[Frame], Value]
    """May raise a StepError that points at the very token."""

    def reads(self) -> tuple[Ref, ...]:
        """In the order of the text."""
        ...


class Args(Protocol):
    """What a call is given. The language's rules for absent, null, default and type live here."""

    @property
    def names(self) -> tuple[tuple[str, Span | None], ...]:
        """The arguments' names as far as the text has them, each with its place: what linking checks."""
        ...

    def build(self, frame: Frame) -> Value: ...

    def reads(self) -> tuple[Ref, ...]: ...


class Outcome(NamedTuple):
    """What became of a step: what a target is given."""

    value: Value = None


class Target(Protocol):
    """Keeps a value: a step's outcome, and just so an element or an accumulator."""

    def store(self, frame: Frame, outcome: Outcome) -> Frame: ...

    def writes(self) -> tuple[Ref, ...]: ...


class Gone:
    """What stands in `Ran.values` for an element that was dropped."""

    def __repr__(self) -> str:
        return "GONE"


GONE = Gone()


class Ran(NamedTuple):
    """What ran side by side. No outcome per element: 100,000 elements cost their values."""

    values: Sequence[Value]
    """In declared order, GONE where there is none."""
    names: Sequence[str] | None = None
    """The branches' names in the same order; None for elements."""


class Join(Protocol):
    """Makes one frame of what ran side by side."""

    def join(self, frame: Frame, ran: Ran) -> Frame: ...

    def writes(self) -> tuple[Ref, ...]:
        """Where in the frame it leaves what ran."""
        ...


class Given(NamedTuple):
    """What a flow starts from."""

    input: Value = None
    pipe: Value = None
    """What flows in from the step that called it (pipelines)."""


class Ended(NamedTuple):
    """What a flow ends with."""

    output: Value
    stores: Mapping[str, Value]
