"""How languages differ: how a value is read and where a result goes. The engine calls these and knows nothing else of
one.

A frame is a plain dict that is never changed once made: ``{**frame, "pipe": value}`` is the next one. So isolation
between siblings is not a check, it is the data structure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol

from ..text.diagnostics import Diagnostic, StepError
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
    into: str = ""
    """The field it is read for, where a mapping says so: the picture shows ``draft → topic``."""


class Expr(Protocol):
    """Reads a value. ``evaluate`` is a slot that holds the function itself: a method around it costs half the R1
    goal.
    """

    span: Span

    @property
    def evaluate(self) -> Callable[[Frame], Value]:
        """May raise a StepError that points at the very token."""
        ...

    def reads(self) -> tuple[Ref, ...]:
        """In the order of the text."""
        ...


class Args(Protocol):
    """What a call is given. The language's rules for absent, null, default and type live here."""

    @property
    def names(self) -> tuple[tuple[str, Span | None], ...] | None:
        """The arguments' names, each with its place: what linking checks. None: the text does not have them."""
        ...

    def build(self, frame: Frame, wanted: Mapping[str, Any] | None = None) -> Value:
        """``wanted``: the JSON Schema of what the callee takes, where linking knows one."""
        ...

    def reads(self) -> tuple[Ref, ...]: ...


Status = Literal["finished", "failed", "skipped", "fired"]
"""``fired``: started, and nobody waits for its end."""


class Outcome(NamedTuple):
    """What became of a step: what a target is given."""

    value: Value = None
    given: Value = None
    """What a call was given, for a step that says it `keeps` it."""
    error: StepError | None = None
    """Why it failed; its value is then what `Step.rescue` made of that. Of one that was skipped the value is why."""
    status: Status = "finished"


finished: Callable[[tuple[Value, Value, None, Status]], Outcome] = partial(tuple.__new__, Outcome)
"""An outcome from all its fields at once: there is one a step and an element, and this costs half as much."""


class Target(Protocol):
    """Keeps a value: a step's outcome, and just so an element or an accumulator."""

    def store(self, frame: Frame, outcome: Outcome) -> Frame: ...

    def writes(self) -> tuple[Ref, ...]: ...


class Dropped:
    """What stands in `Ran.values` for an element that was dropped."""

    def __repr__(self) -> str:
        return "GONE"


DROPPED = Dropped()


class FanOutResult(NamedTuple):
    """What ran side by side. No outcome per element: 100,000 elements cost their values."""

    values: Sequence[Value]
    """In declared order, GONE where there is none."""
    names: Sequence[str] | None = None
    """The branches' names in the same order; None for elements."""
    failures: Mapping[int, StepError] = {}
    """What became of those that were dropped."""
    order: Sequence[int] = ()
    """Which of the branches finished, in the order in which they did; of elements nothing is kept."""


class Join(Protocol):
    """Makes one frame of what ran side by side."""

    def join(self, frame: Frame, ran: FanOutResult) -> Frame: ...

    def writes(self) -> tuple[Ref, ...]:
        """Where in the frame it leaves what ran."""
        ...


class Node(NamedTuple):
    """One run of a step of a `Dag`: a step stands once per instance."""

    step: str
    """Its id."""
    instance: int | None = None
    """Which instance, as it stands in the moment (`At`) of the run; None: it has no instances."""


class Skip(NamedTuple):
    """A node that will not run."""

    why: str


Ready = Literal["go", "wait"] | Skip


class Scheduler(Protocol):
    """A `Dag` as it stands for one frame: what is ready, what waits, what will never run."""

    nodes: Sequence[Node]
    """In the order of the text."""

    def feeds(self, node: Node) -> Sequence[Node]:
        """Whom its end may concern: only they are asked again."""
        ...

    def ready(self, node: Node, frame: Frame, ended: Mapping[Node, Outcome]) -> Ready: ...

    def enter(self, node: Node, frame: Frame) -> Frame:
        """The frame that the node's step sees."""
        ...

    def come(self, node: Node) -> None:
        """It has ended, and may be stored."""
        ...

    def next(self) -> Node | None:
        """Which of those that have come is stored next; None: first another one must come."""
        ...

    def store(self, node: Node, frame: Frame, outcome: Outcome) -> Frame:
        """The frame after the node's end; called for every end, a failure and a skip too."""
        ...

    def close(self, frame: Frame, ended: Mapping[Node, Outcome]) -> Frame:
        """The frame when nothing runs and nothing is ready any more."""
        ...


class FlowInput(NamedTuple):
    """What a flow starts from."""

    input: Value = None
    pipe: Value = None
    """What flows in from the step that called it (pipelines)."""
    context: Any = None
    """The named context that the run reads and adds to (plans)."""


class FlowResult(NamedTuple):
    """What a flow ends with."""

    output: Value
    stores: Mapping[str, Value]
    notes: Sequence[Diagnostic] = ()
    """What to warn of at its end."""
