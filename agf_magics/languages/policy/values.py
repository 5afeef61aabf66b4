"""Where a policy's values are: what its agents are given, where what they gave is kept, its beginning and its end.

The frame is ``{"parent": {"input": …}, alias: {"input": …, "output": …}, …}``, as paths read it; an alias means its
latest run (AMB-4). What no path may read stands under names that no alias can have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

from ...flow.frame import DROPPED, FanOutResult, FlowInput, FlowResult, Frame, Outcome, Ref
from ...flow.json_schema import Violation, judge
from ...flow.schemas import shown_value
from ...flow.values import Value, is_json
from ...flow.violations import place, told
from ...text.diagnostics import Diagnostic, StepError
from ...text.source import Span
from .delivery import Delivery
from .path import ELEMENT, PARENT

FIRST: Final = "first()"
"""The output of whichever agent was the first to come to its end."""
SIDE: Final = "side by side()"
"""The outputs of a parallel policy's agents by alias."""
OUTPUT: Final = "output()"
"""The policy's own output."""
HIDDEN: Final = "parent()"
"""An agent whose alias is ``parent``: it runs, and no path can read it (AMB-23)."""


def place_of(alias: str) -> str:
    """Where in the frame what an agent was given and gave is kept."""
    return HIDDEN if alias == PARENT else alias


def output_of(alias: str) -> tuple[str, ...]:
    return (place_of(alias), "output")


def kept_at(frame: Frame, place: tuple[str, ...]) -> Value:
    value: Value = frame
    for name in place:
        value = value[name]
    return value


class Handed:
    """What an agent is given: what its mapping delivers, or without one the parent's whole input (AMB-3)."""

    __slots__ = ("delivery",)

    def __init__(self, delivery: Delivery | None) -> None:
        self.delivery = delivery

    @property
    def names(self) -> tuple[tuple[str, Span | None], ...] | None:
        return self.delivery.names if self.delivery else None

    def build(self, frame: Frame, wanted: Mapping[str, Any] | None = None) -> dict[str, Value]:
        given = self.delivery.build(frame, wanted) if self.delivery else frame[PARENT]["input"]
        return {"input": given, "alone": "input"}

    def reads(self) -> tuple[Ref, ...]:
        return self.delivery.reads() if self.delivery else (Ref((PARENT, "input")),)


class Whole:
    """The parent's whole input: what a vendor's policy is given."""

    __slots__ = ()
    names: tuple[tuple[str, Span | None], ...] | None = None

    def build(self, frame: Frame, wanted: object = None) -> Value:
        return frame[PARENT]["input"]

    def reads(self) -> tuple[Ref, ...]:
        return (Ref((PARENT, "input")),)


@dataclass(frozen=True, slots=True)
class Keep:
    """Keeps what an agent was given and gave."""

    alias: str
    first: bool = False
    """Whether it is the first step, whose output is the policy's where that is asked for, also if the agent runs
    again."""

    def store(self, frame: Frame, outcome: Outcome) -> Frame:
        kept = {**frame, place_of(self.alias): {"input": outcome.given, "output": outcome.value}}
        if self.first:
            kept[FIRST] = outcome.value
        return kept

    def writes(self) -> tuple[Ref, ...]:
        return (Ref((place_of(self.alias),)), *([Ref((FIRST,))] if self.first else []))


@dataclass(frozen=True, slots=True)
class Bind:
    """Keeps a value under a name of the frame: an element of a batch, the output."""

    name: str

    def store(self, frame: Frame, outcome: Outcome) -> Frame:
        return {**frame, self.name: outcome.value}

    def writes(self) -> tuple[Ref, ...]:
        return (Ref((self.name,)),)


RESULT, EACH = Bind(OUTPUT), Bind(ELEMENT)


@dataclass(frozen=True, slots=True)
class Answered:
    """Keeps the output of a policy of which one agent runs, under its alias too: of a batch a list of them."""

    alias: Callable[[Frame], str | None]
    """Which one it was, read from the frame that it ran in."""

    def store(self, frame: Frame, outcome: Outcome) -> Frame:
        alias = self.alias(frame)
        own = {} if alias is None else {place_of(alias): {"input": outcome.given, "output": outcome.value}}
        return {**frame, **own, OUTPUT: outcome.value}

    def writes(self) -> tuple[Ref, ...]:
        return (Ref((OUTPUT,)),)


class Beside:
    """The frame after agents that ran side by side."""

    __slots__ = ()

    def join(self, frame: Frame, ran: FanOutResult) -> Frame:
        assert ran.names is not None, "branches have names"
        outputs = {alias: value for alias, value in zip(ran.names, ran.values, strict=True) if value is not DROPPED}
        return {**frame, SIDE: outputs, FIRST: ran.values[ran.order[0]]}

    def writes(self) -> tuple[Ref, ...]:
        return (Ref((SIDE,)),)


class Interface:
    """What a policy takes or gives: a JSON Schema that a value must conform to, before the first step and at the end
    (AMB-32)."""

    __slots__ = ("_judge", "schema", "span", "word")

    def __init__(self, word: Literal["input", "output"], schema: Mapping[str, Any] | None, span: Span | None) -> None:
        self.word, self.schema, self.span = word, schema, span
        self._judge: Callable[[Value], list[Violation]] | None = None

    def check(self, value: Value) -> None:
        """Raises StepError ``policy.invalid-input`` or ``policy.invalid-output``."""
        if not self.schema:
            return
        if not is_json(value):  # what is opaque travels, but where an interface asks for JSON it is none (decision A1)
            path, odd = _odd(value)
            self._refuse(f"is not JSON: {place(path) or 'it'} is {shown_value(odd)}")
        if self._judge is None:  # made when it is first needed: that costs an import
            self._judge = judge(self.schema)
        if violations := self._judge(value):
            self._refuse(f"does not conform to interface.{self.word}: {told(violations)}")

    def _refuse(self, why: str) -> NoReturn:
        raise StepError(Diagnostic(CODES[self.word], f"the {self.word} {why}", self.span))


CODES: Mapping[str, str] = {"input": "policy.invalid-input", "output": "policy.invalid-output"}


def start(interface: Interface) -> Callable[[FlowInput], Frame]:
    """The frame of the first step. No default of the schema is filled in."""

    def begin(given: FlowInput) -> Frame:
        interface.check(given.input)
        return {PARENT: {"input": given.input}}

    return begin


def end(interface: Interface) -> Callable[[Frame], FlowResult]:
    def finish(frame: Frame) -> FlowResult:
        interface.check(frame[OUTPUT])
        return FlowResult(frame[OUTPUT], kept(frame))

    return finish


def kept(frame: Frame) -> dict[str, Value]:
    """The outputs there are, by alias."""
    ours = (PARENT, FIRST, SIDE, OUTPUT, ELEMENT)  # and a session of a model keeps a state of its own
    ran = {name: told for name, told in frame.items() if name not in ours and type(told) is dict and "output" in told}
    outputs = {PARENT if name == HIDDEN else name: told["output"] for name, told in ran.items()}
    return {**outputs, **frame.get(SIDE, {})}


def _odd(value: Value) -> tuple[tuple[str | int, ...], Value]:
    """What of a value is not JSON, and where it is."""
    inside = value.items() if type(value) is dict else enumerate(value) if type(value) is list else ()
    for name, part in inside:
        if not is_json(part) and isinstance(name, (str, int)):
            path, odd = _odd(part)
            return (name, *path), odd
    return (), value
