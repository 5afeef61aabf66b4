"""What calls are given: a tool its arguments, a function the state, an agent its prompt, a person a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...flow.frame import Expr, Frame, Ref
from ...flow.steps import Name
from ...flow.values import Value, type_name
from ...text.diagnostics import Diagnostic, StepError
from ...text.source import Span
from .lookup import written
from .prompt import Hole, Prompt
from .reading import ROOT
from .value import CANNOT, failed, resolve_node_variables

Values = tuple[tuple[Name, Expr], ...]
Wanted = Mapping[str, Any] | None


def evaluated(values: Values, frame: Frame) -> dict[str, Value]:
    return {name.text: expr.evaluate(frame) for name, expr in values}


def reads_of(values: Values) -> tuple[Ref, ...]:
    return tuple(ref for _, expr in values for ref in expr.reads())


def said(expr: Expr, frame: Frame) -> str:
    """A value as a text; one that is nothing stays as it is written."""
    value = expr.evaluate(frame)
    try:
        return expr.span.text if value is None else written(value)
    except CANNOT as error:
        raise failed(expr.span.text, expr.span, error) from error


@dataclass(frozen=True, slots=True)
class Named:
    """Arguments by name, as the text has them."""

    values: Values

    @property
    def names(self) -> tuple[tuple[str, Span | None], ...]:
        return tuple((name.text, name.span) for name, _ in self.values)

    def build(self, frame: Frame, wanted: Wanted = None) -> Value:
        return evaluated(self.values, frame)

    def reads(self) -> tuple[Ref, ...]:
        return reads_of(self.values)

    def of(self, name: str) -> tuple[Ref, ...]:
        """What the argument of that name is read from."""
        return reads_of(tuple(one for one in self.values if one[0].text == name))

    def written_out(self, name: str) -> bool:
        """Whether the argument of that name is read from nowhere, and is something."""
        own = (getattr(expr, "value", getattr(expr, "text", name)) for given, expr in self.values if given.text == name)
        return not self.of(name) and any(value not in (None, "") for value in own)


@dataclass(frozen=True, slots=True)
class Whole:
    """Arguments that one placeholder gives."""

    expr: Expr
    names: None = None

    def build(self, frame: Frame, wanted: Wanted = None) -> Value:
        value = self.expr.evaluate(frame)
        if type(value) is not dict:
            message = f"arguments are a mapping of names to values, not {type_name(value)}"
            raise StepError(Diagnostic("graph.arguments", message, self.expr.span))
        return value

    def reads(self) -> tuple[Ref, ...]:
        return self.expr.reads()


@dataclass(frozen=True, slots=True)
class WithState:
    """What a python node's function is given.

    A parameter ``state``, or the only one, is the state with the variables over it; any other is the variable or the
    key of its name. A flow is given all of it.
    """

    values: Values
    names: None = None

    def build(self, frame: Frame, wanted: Wanted = None) -> Value:
        variables = evaluated(self.values, frame)
        state = {**frame["state"], **variables}
        if wanted is None:
            return state
        takes = wanted.get("properties") or {}
        given = {name: state[name] for name in takes if name in state}
        if "state" in takes:
            return {**given, "state": state}
        if len(takes) == 1 and not given:
            return dict.fromkeys(takes, state)
        if not takes and wanted.get("additionalProperties"):
            return state
        return {**given, **{name: value for name, value in variables.items() if name not in takes}}

    def reads(self) -> tuple[Ref, ...]:
        return reads_of(self.values) or (Ref(ROOT, certain=False),)


@dataclass(frozen=True, slots=True)
class Prompted:
    """What an agent is asked, and its variables as the input object."""

    prompt: Prompt
    values: Values | None
    requires: tuple[Name, ...] = ()
    names: tuple[tuple[str, Span | None], ...] = ()

    def build(self, frame: Frame, wanted: Wanted = None) -> Value:
        state = frame["state"]
        for name in self.requires:
            if state.get(name.text) is None:
                there = ", ".join(state) or "nothing"
                message = f"the node requires {name.text!r}, which is not in the state"
                raise StepError(Diagnostic("graph.requires", message, name.span, f"there is {there}"))
        variables = resolve_node_variables(None, state) if self.values is None else evaluated(self.values, frame)
        return {"prompt": self.prompt.fill(state, variables), "input": variables}

    def reads(self) -> tuple[Ref, ...]:
        held = tuple(Ref((*ROOT, *hole.names), hole.span, False) for hole in self.prompt.holes if hole.in_state)
        if self.values is not None:
            return (*held, *reads_of(self.values))
        return (*held, *(Ref((*ROOT, *h.names), h.span, False) for h in self.prompt.holes if not h.in_state))


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person is asked."""

    message: Expr
    choices: tuple[Name, ...] = ()
    names: tuple[tuple[str, Span | None], ...] = ()

    def build(self, frame: Frame, wanted: Wanted = None) -> Value:
        return {"text": said(self.message, frame), "choices": [choice.text for choice in self.choices]}

    def reads(self) -> tuple[Ref, ...]:
        return self.message.reads()


@dataclass(frozen=True, slots=True)
class Command:
    """The words of a command; ``{name}`` in one is a variable, and stays inside its word whatever it holds (P8)."""

    words: tuple[tuple[str | Hole, ...], ...]
    values: Values | None
    span: Span
    seconds: float | None = None

    @property
    def names(self) -> tuple[tuple[str, Span | None], ...]:
        return (("command", self.span),)

    def build(self, frame: Frame, wanted: Wanted = None) -> Value:
        state = frame["state"]
        variables = state if self.values is None else evaluated(self.values, frame)
        command = [Prompt(word, self.span).fill(state, variables) for word in self.words]
        return {"command": command} if self.seconds is None else {"command": command, "timeout": self.seconds}

    def reads(self) -> tuple[Ref, ...]:
        return () if self.values is None else reads_of(self.values)


@dataclass(frozen=True, slots=True)
class Passed:
    """What another flow begins with: some of this graph's keys under other names, or (None) all of them."""

    mapping: Sequence[tuple[Name, Name]] | None

    @property
    def names(self) -> tuple[tuple[str, Span | None], ...] | None:
        if self.mapping is None:
            return None
        return tuple((other.text, other.span) for _, other in self.mapping)

    def build(self, frame: Frame, wanted: Wanted = None) -> Value:
        state = frame["state"]
        if self.mapping is None:
            return {name: value for name, value in state.items() if name not in ("current_step", "_route")}
        return {other.text: state[own.text] for own, other in self.mapping if own.text in state}

    def reads(self) -> tuple[Ref, ...]:
        if self.mapping is None:
            return (Ref(ROOT, certain=False),)
        return tuple(Ref((*ROOT, own.text), own.span, False) for own, _ in self.mapping)
