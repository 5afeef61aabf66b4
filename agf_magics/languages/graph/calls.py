"""The arguments of calls: of a tool, of a function that gets the state, of an agent, of a person,
of another flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...flow.expressions import Computed, NamedArguments
from ...flow.step import Expr, Frame, Ref
from ...flow.steps import Name
from ...flow.values import Value
from ...text.diagnostics import Diagnostic, StepError, suggest
from ...text.nodes import Node, Scalar
from ...text.source import Span
from ..documents import MISSING, Key, Refusal
from .reading import ROOT, Prompt, Reader, Slot, no_value, read_text
from .takes import MESSAGE
from .value import CANNOT, Expression, describe, find, format_value, value_failed
from .value_grammar import Sentence, parse_template

Values = tuple[tuple[Name, Expr], ...]
Wanted = Mapping[str, Any] | None


def state_ref(names: tuple[str, ...], span: Span | None) -> Ref:
    return Ref((*ROOT, *names), span, False)


def complete_text(
    text: str, span: Span, reads: tuple[Ref, ...], fill: Callable[[Frame], Value]
) -> Computed:
    """A text for a tool or a person: each placeholder must have a value (decision Y13)."""

    def evaluate(frame: Frame) -> Value:
        state = frame["state"]
        for ref in reads:
            if find(state, ref.path[1:]) in (MISSING, None):
                raise no_value(ref.path[1:], ref.span or span, state, state)
        return fill(frame)

    return Computed(span, evaluate, reads, text)


def complete(values: Values) -> Values:
    """The arguments of a tool: a text with placeholders must be complete; a single placeholder may
    be null."""
    return tuple((name, _complete(expr)) for name, expr in values)


def _complete(expr: Expr) -> Expr:
    if isinstance(expr, Expression) and isinstance(expr.node, Sentence) and expr.reads():
        return complete_text(expr.text, expr.span, expr.reads(), expr.evaluate)
    return expr


def read_message(reader: Reader, node: Node) -> Computed | None:
    """The question for a person: one value expression, or a text with slots."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str) or not node.text.strip():
        reader.wrong_type(node, Key("message", MESSAGE))
        return None
    try:
        sentence = isinstance(parse_template(node.text), Sentence)
    except Refusal:
        sentence = False
    if not sentence:
        whole = reader.template(node)
        if not isinstance(whole, Expression):
            return None

        def write(frame: Frame) -> Value:
            try:
                return format_value(whole.evaluate(frame))
            except CANNOT as error:
                raise value_failed(whole.text, whole.span, error) from error

        return complete_text(node.text, node.span, whole.reads(), write)
    prompt = read_text(reader, node)
    refs = tuple(state_ref(slot.names, slot.span) for slot in prompt.slots)
    return complete_text(
        node.text, node.span, refs, lambda frame: prompt.fill(frame["state"], frame["state"])
    )


@dataclass(frozen=True, slots=True)
class Whole:
    """All arguments as the value of one placeholder."""

    expr: Expr
    names: None = None

    def build(self, frame: Frame, wanted: Wanted = None) -> Value:
        value = self.expr.evaluate(frame)
        if type(value) is not dict:
            message = f"arguments must be a mapping of names to values, got {describe(value)}"
            raise StepError(Diagnostic("graph.arguments", message, self.expr.span))
        return value

    def reads(self) -> tuple[Ref, ...]:
        return self.expr.reads()


def check_required(requires: Sequence[Name], state: Mapping[str, Value]) -> None:
    """Raise StepError ``graph.requires`` for the first key without a value."""
    for name in requires:
        if state.get(name.text) is None:
            hint = suggest(name.text, state, "keys of the state")
            message = f"the node requires {name.text!r}, which has no value"
            raise StepError(Diagnostic("graph.requires", message, name.span, hint))


@dataclass(frozen=True, slots=True)
class WithState:
    """The arguments of the function of a python node.

    A parameter ``state``, or the only one, gets the state with the variables over it; any other
    gets the variable or the key of its name. A flow gets all of it.
    """

    values: Values
    requires: tuple[Name, ...] = ()
    names: None = None

    def build(self, frame: Frame, wanted: Wanted = None) -> Value:
        state = frame["state"]
        if self.requires:
            check_required(self.requires, state)
        variables = NamedArguments(self.values).build(frame)
        if variables:
            state = {**state, **variables}
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

    def hint_for(self, name: str, frame: Frame) -> str | None:
        """The hint for a parameter that got the whole state."""
        keys = ", ".join(key for key in frame["state"] if key[:1] != "_")
        if name in frame["state"] or self.values:
            return None
        return (
            f'it got the whole state: write variables: {{{name}: "{{state.KEY}}"}}; keys are {keys}'
        )

    def reads(self) -> tuple[Ref, ...]:
        requires = tuple(state_ref((name.text,), name.span) for name in self.requires)
        return requires + (NamedArguments(self.values).reads() or (Ref(ROOT, certain=False),))


def question_args(message: Expr, choices: Sequence[Name] | None) -> Computed:
    """The arguments of a question for a person: the text, and the possible answers."""
    answers = [choice.text for choice in choices or ()]
    return Computed(
        message.span,
        lambda frame: {"text": message.evaluate(frame), "choices": answers},
        message.reads(),
        names=(),
    )


@dataclass(frozen=True, slots=True)
class Command:
    """The words of a command. ``{name}`` in a word is a variable, and its value stays in that word
    (decision P8)."""

    words: tuple[tuple[str | Slot, ...], ...]
    values: Values | None
    span: Span
    seconds: float | None = None
    codes: tuple[int, ...] | None = None
    """The exit codes that succeed; None: 0."""

    @property
    def names(self) -> tuple[tuple[str, Span | None], ...]:
        return (("command", self.span),)

    def build(self, frame: Frame, wanted: Wanted = None) -> Value:
        state = frame["state"]
        return self.filled(
            state, state if self.values is None else NamedArguments(self.values).build(frame)
        )

    def filled(
        self, state: Mapping[str, Value], variables: Mapping[str, Value]
    ) -> dict[str, Value]:
        command = [
            Prompt(word, self.span).fill(state, variables, complete=True) for word in self.words
        ]
        more = {"timeout": self.seconds, "success_codes": self.codes and list(self.codes)}
        return {
            "command": command,
            **{name: value for name, value in more.items() if value is not None},
        }

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(part for word in self.words for part in word if isinstance(part, Slot))

    def reads(self) -> tuple[Ref, ...]:
        own = tuple(
            state_ref(slot.names, slot.span)
            for slot in self.slots
            if slot.in_state or self.values is None
        )
        return own if self.values is None else (*own, *NamedArguments(self.values).reads())


@dataclass(frozen=True, slots=True)
class Passed:
    """The input of another flow: some keys of this graph under other names, or (None) all keys."""

    mapping: Sequence[tuple[Name, Name]] | None

    @property
    def names(self) -> tuple[tuple[str, Span | None], ...] | None:
        if self.mapping is None:
            return None
        return tuple((other.text, other.span) for _, other in self.mapping)

    def build(self, frame: Frame, wanted: Wanted = None) -> Value:
        state = frame["state"]
        if self.mapping is None:
            return {
                name: value
                for name, value in state.items()
                if name not in ("current_step", "_route")
            }
        return {other.text: state[own.text] for own, other in self.mapping if own.text in state}

    def reads(self) -> tuple[Ref, ...]:
        if self.mapping is None:
            return (Ref(ROOT, certain=False),)
        return tuple(state_ref((own.text,), own.span) for own, _ in self.mapping)
