"""The frame of a policy during a run: the inputs of its agents and their stored outputs.

The frame is ``{"parent": {"input": …}, alias: {"input": …, "output": …}, …}``, which paths read. An
alias has the values of its latest run (AMB-4). Values that no path may read have names that no
alias can have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ...flow.expressions import Computed, Stored
from ...flow.protocols import DROPPED, FanOutResult, Frame, Outcome, Ref
from ...text.source import Span
from ...values.value import Value
from .input_mapping import Delivery
from .path import ELEMENT, PARENT

FIRST: Final = "first()"
"""The output of the agent that finished first."""
PARALLEL: Final = "parallel()"
"""The outputs of a parallel policy's agents by alias."""
OUTPUT: Final = "output()"
"""The output of the policy."""
_HIDDEN: Final = "parent()"
"""An agent with the alias ``parent``: it runs, but no path can read it (AMB-23)."""


def place_of(alias: str) -> str:
    """The name in the frame for the input and output of an agent."""
    return _HIDDEN if alias == PARENT else alias


def output_of(alias: str) -> tuple[str, ...]:
    """The place of an agent's output in the frame."""
    return (place_of(alias), "output")


def value_at(frame: Frame, path: tuple[str, ...]) -> Value:
    value: Value = frame
    for name in path:
        value = value[name]
    return value


def whole_input(span: Span) -> Computed:
    """The whole input of the parent: the input of a vendor's policy."""
    return Computed(span, lambda frame: frame[PARENT]["input"], (Ref((PARENT, "input")),))


class AgentInput:
    """The input of an agent: the values of its mapping, or without one the whole input of the
    parent (AMB-3)."""

    __slots__ = ("delivery", "ran")

    def __init__(self, delivery: Delivery | None, ran: tuple[str, ...] = ()) -> None:
        self.delivery = delivery
        self.ran = ran
        """The aliases of the earlier steps."""

    @property
    def names(self) -> tuple[tuple[str, Span | None], ...] | None:
        return self.delivery.names if self.delivery else None

    def build(self, frame: Frame, wanted: Mapping[str, Any] | None = None) -> dict[str, Value]:
        # ``alone``: what an agent's only parameter without an annotation gets (`Agent.arguments`).
        if self.delivery is None:
            return {"input": frame[PARENT]["input"], "alone": "input"}
        return {"input": self.delivery.build(frame, wanted), "alone": "field"}

    def reads(self) -> tuple[Ref, ...]:
        return self.delivery.reads() if self.delivery else (Ref((PARENT, "input")),)

    def of(self, name: str, wanted: Mapping[str, Any] | None = None) -> tuple[Ref, ...]:
        """What the field ``name`` of the input reads."""
        if self.delivery is None:
            return (Ref((PARENT, "input", name)),)
        return tuple(ref for ref in self.delivery.reads() if ref.into == name)

    def hint_for(self, name: str, frame: Frame) -> str:
        """The hint for an agent that gets the whole input, without its field ``name``: the path of
        that field in the input or in an earlier output, else of a field of the latest value. Before
        the run, the outputs may have any field."""
        values = {
            f"{alias}.output": frame.get(place_of(alias), {"output": {name: None}})["output"]
            for alias in self.ran
        }
        paths = [
            f"{place}.{field}"
            for place, value in reversed(
                [(f"{PARENT}.input", frame[PARENT]["input"]), *values.items()]
            )
            if isinstance(value, dict)
            for field in value
        ]
        paths.sort(key=lambda path: not path.endswith(f".{name}"))
        path = next(iter(paths), f"{PARENT}.input.NAME")
        return f"add input_mapping: {{{name}: {path}}}"


class PolicyTarget(NamedTuple):
    """A Target: stores the outcome of a step in the frame."""

    store: Callable[[Frame, Outcome], Frame]
    refs: tuple[Ref, ...]

    def writes(self) -> tuple[Ref, ...]:
        return self.refs


def store_agent(alias: str, first: bool) -> PolicyTarget:
    """Store the input and the output of an agent. ``first``: also store its output for
    ``output_from: first``."""
    name = place_of(alias)

    def store(frame: Frame, outcome: Outcome) -> Frame:
        stored = {**frame, name: {"input": outcome.arguments, "output": outcome.value}}
        return {**stored, FIRST: outcome.value} if first else stored

    return PolicyTarget(store, (Ref((name,)), *([Ref((FIRST,))] if first else [])))


def store_output(alias_of: Callable[[Frame], str | None]) -> PolicyTarget:
    """Store the output of a policy that runs one agent, also under its alias; of a batch a list of
    outputs."""

    def store(frame: Frame, outcome: Outcome) -> Frame:
        alias = alias_of(frame)
        by_alias = (
            {}
            if alias is None
            else {place_of(alias): {"input": outcome.arguments, "output": outcome.value}}
        )
        return {**frame, **by_alias, OUTPUT: outcome.value}

    return PolicyTarget(store, (Ref((OUTPUT,)),))


RESULT = PolicyTarget(lambda frame, outcome: {**frame, OUTPUT: outcome.value}, (Ref((OUTPUT,)),))
"""Stores the value of a step as the output of the policy."""
EACH = Stored(lambda frame, value: {**frame, ELEMENT: value}, (Ref((ELEMENT,)),))
"""Binds the element of a batch, from which its paths with ``.[]`` are then read."""


class JoinParallel:
    """Makes the frame after parallel agents: their outputs by alias, and the first one."""

    __slots__ = ()

    def join(self, frame: Frame, ran: FanOutResult) -> Frame:
        assert ran.names is not None, "branches have names"
        outputs = {
            alias: value
            for alias, value in zip(ran.names, ran.values, strict=True)
            if value is not DROPPED
        }
        return {**frame, PARALLEL: outputs, FIRST: ran.values[ran.order[0]]}

    def writes(self) -> tuple[Ref, ...]:
        return (Ref((PARALLEL,)),)


def outputs(frame: Frame) -> dict[str, Value]:
    """The outputs of the agents in a frame, by alias."""
    names_without_agent = (
        PARENT,
        FIRST,
        PARALLEL,
        OUTPUT,
        ELEMENT,
    )  # these, and the state of a model's session, are not agents
    ran = {
        PARENT if name == _HIDDEN else name: stored["output"]
        for name, stored in frame.items()
        if name not in names_without_agent and type(stored) is dict and "output" in stored
    }
    return {**ran, **frame.get(PARALLEL, {})}
