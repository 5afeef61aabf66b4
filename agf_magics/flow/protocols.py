"""The protocols by which languages differ: how a value is read, and where a result is stored.

A frame is a plain dict that is never changed: ``{**frame, "pipe": value}`` is the next frame. So
steps that run side by side cannot disturb each other, without any check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MethodType
from typing import (
    Any,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
    dataclass_transform,
    runtime_checkable,
)

from ..text.diagnostics import Diagnostic, StepError
from ..text.source import Span
from ..values.value import Value

Frame = dict[str, Value]
"""The values that a step can read."""


class Ref(NamedTuple):
    """A path that an expression reads or a target writes: ``("ctx", "review", "passed")``."""

    path: tuple[str, ...]
    span: Span | None = None
    certain: bool = True
    """True if every evaluation reads the path and fails without it; False after ``and``, in a
    lambda, in ``get``."""
    into: str = ""
    """The field of a mapping that the value fills: the picture shows ``draft → topic``."""
    optional: bool = False
    """True if nothing fails without the path, as in ``get``."""


class Expr(Protocol):
    """Computes a value from a frame. ``evaluate`` is an attribute that holds the function itself; a
    method around it would take half of the time of an R1 expression.
    """

    span: Span

    @property
    def evaluate(self) -> Callable[[Frame], Value]:
        """The function. It may raise a StepError that points at the exact token."""
        ...

    def reads(self) -> tuple[Ref, ...]:
        """The paths that the expression reads, in the order of the text."""
        ...


class Args(Protocol):
    """The arguments of a call, by the language's rules for absent, null, default and type."""

    @property
    def names(self) -> tuple[tuple[str, Span | None], ...] | None:
        """The names of the arguments with their places, for linking; None: the text does not have
        them."""
        ...

    def build(self, frame: Frame, wanted: Mapping[str, Any] | None = None) -> Value:
        """The arguments for ``frame``. ``wanted``: the JSON Schema of the callee's input; None:
        unknown."""
        ...

    def reads(self) -> tuple[Ref, ...]: ...


@runtime_checkable
class TracedArgs(Protocol):
    """Arguments that know what each of them reads. Without `Args.names`, they are filled by name:
    with what the stores have under the names of the parameters."""

    def of(self, name: str, wanted: Mapping[str, Any] | None = None) -> tuple[Ref, ...]:
        """What the argument ``name`` reads. ``wanted``: as in `Args.build`. What an optional
        reference names is read only if the stores do not have ``name``."""
        ...


@runtime_checkable
class HintedArgs(Protocol):
    """Arguments of a language that has a hint for an argument that is missing or does not fit."""

    def hint_for(self, name: str, frame: Frame) -> str | None: ...


Status = Literal["finished", "failed", "skipped", "fired"]
"""How a step ended. ``fired``: it was started in the background."""


class Outcome(NamedTuple):
    """The result of a step, which its target stores."""

    value: Value = None
    """The value; of a skipped step, the reason."""
    arguments: Value = None
    """The arguments of a call, for a step with `Exchange.keep_arguments`."""
    error: StepError | None = None
    """The error of a failed step, whose value is then the result of `Step.rescue`."""
    status: Status = "finished"


finished: Callable[[tuple[Value, Value, None, Status]], Outcome] = MethodType(
    tuple.__new__, Outcome
)
"""Creates an outcome in half the time that the class takes. Each step and element creates one."""


class Target(Protocol):
    """Stores the outcome of a step, an element or an accumulator in a frame."""

    def store(self, frame: Frame, outcome: Outcome) -> Frame: ...

    def writes(self) -> tuple[Ref, ...]: ...


class Binding(Target, Protocol):
    """Puts an element of a fan-out into its frame, without an `Outcome`, which would take 4 % of
    the time of an element."""

    def bind(self, frame: Frame, value: Value) -> Frame: ...


DROPPED = object()
"""The value of a dropped element in `FanOutResult.values`."""


class FanOutResult(NamedTuple):
    """The values of elements or branches that ran in parallel. To save memory, there is no
    `Outcome` for each of them."""

    values: Sequence[Value]
    """The values in declared order, with DROPPED in place of a dropped one."""
    names: Sequence[str] | None = None
    """The branches' names in the same order; None for elements."""
    failures: Mapping[int, StepError] = {}
    """The errors of the dropped elements, by their index."""
    order: Sequence[int] = ()
    """The branches that finished, in the order of their ends; empty for elements."""


class Join(Protocol):
    """Stores the values of parallel steps in one frame."""

    def join(self, frame: Frame, ran: FanOutResult) -> Frame: ...

    def writes(self) -> tuple[Ref, ...]:
        """The places of the values in the frame."""
        ...


class Node(NamedTuple):
    """One run of a step of a `Dag`: a step has one node for each instance."""

    step: str
    """The id of the step."""
    instance: int | None = None
    """The number of the instance, as in the path of the run; None: the step has no instances."""


class Skip(NamedTuple):
    """A node that will not run."""

    why: str


Ready = Literal["go", "wait"] | Skip
"""What a node may do now: ``go``: it starts; ``wait``: it is asked again after the end of another
node; a `Skip`: it will never run."""


class Scheduler(Protocol):
    """The state of a `Dag` in one run: the nodes that are ready, that wait, that will never run. A
    number is the index of a node in `nodes`."""

    nodes: Sequence[Node]
    """The nodes in the order of the text."""

    def successors(self, number: int) -> Sequence[int]:
        """The nodes that may become ready when this node ends."""
        ...

    def ready(self, number: int, frame: Frame) -> Ready: ...

    def enter(self, number: int, frame: Frame) -> Frame:
        """The frame that the node's step sees."""
        ...

    def ended(self, number: int) -> None:
        """Note that the node has ended and may be stored."""
        ...

    def next_to_store(self) -> int | None:
        """The ended node to be stored next; None: another node must end first."""
        ...

    def store(self, number: int, frame: Frame, outcome: Outcome) -> Frame:
        """The frame after the end of the node, also after a failure or a skip."""
        ...

    def close(self, frame: Frame) -> Frame:
        """The frame after the last node."""
        ...


class FlowInput(NamedTuple):
    """The input of a flow."""

    input: Value = None
    pipe: Value = None
    """The pipe of the calling step (pipelines)."""
    context: Any = None
    """The named context that the run reads and extends (plans)."""


class FlowResult(NamedTuple):
    """The result of a flow."""

    output: Value
    stores: Mapping[str, Value]
    notes: Sequence[Diagnostic] = ()
    """The warnings at the end of the flow."""


T = TypeVar("T")


@dataclass_transform(
    frozen_default=True, kw_only_default=True, eq_default=False, field_specifiers=(field,)
)
def data(kind: type[T]) -> type[T]:
    """A class of frozen data with slots and keyword arguments; two objects are never equal."""
    # `frozen` would make the creation of a step three times as slow. The type checker sees the
    # decorator above, so it still refuses changes.
    return dataclass(slots=True, kw_only=True, eq=False)(kind)


class Name(NamedTuple):
    """A name in a definition with its place."""

    text: str
    span: Span | None = None

    def __str__(self) -> str:
        return self.text
