"""Builds the arguments of a node's call: for a tool, a function, an agent, a person or another
flow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....flow.expressions import Computed, Constant, NamedArguments
from ....flow.protocols import Expr, Frame, Name, Ref
from ....text.diagnostics import Diagnostic, StepError
from ....text.source import Span
from ....text.suggestions import suggest
from ....text.yaml.nodes import Scalar
from ....values.value import Value
from ...descend import MISSING
from ...scan import Refusal
from ..expressions.evaluated import Evaluated
from ..expressions.lookup import find
from ..expressions.reading import ROOT, NotBuilt, Reader
from ..expressions.value_errors import describe
from ..expressions.values import Expression, Sentence, parse_template
from ..expressions.written_text import format_value
from ..prompts.slots import Slot, no_value, read_text
from ..state import OF_THE_RUN

Values = tuple[tuple[Name, Expr], ...]
"""The variables of a node: the name and the expression of each."""
Wanted = Mapping[str, Any] | None
"""The JSON Schema of what the callee takes; None: it is not known."""


def state_ref(names: tuple[str, ...], span: Span | None, certain: bool = True) -> Ref:
    """A reference to a path in the state. ``certain``: whether braces with this name are surely
    meant as a key of the state."""
    return Ref((*ROOT, *names), span, certain)


def complete_text(
    text: str, span: Span, reads: tuple[Ref, ...], fill: Callable[[Frame], Value]
) -> Computed:
    """A text for a tool or a person: each placeholder must have a value (decision Y13)."""

    def evaluate(frame: Frame) -> Value:
        state = frame["state"]
        for ref in reads:
            value = find(state, ref.path[1:])
            if value is MISSING or value is None:  # `==` of a person's class is not called
                raise no_value(ref.path[1:], ref.span or span, state, state)
        return fill(frame)

    return Computed(span, evaluate, reads, text)


def complete(values: Values) -> Values:
    """The arguments of a tool: a text with placeholders must be complete; a single placeholder may
    be null."""
    return tuple((name, _complete(expr)) for name, expr in values)


def _complete(expr: Expr) -> Expr:
    if isinstance(expr, Expression) and isinstance(expr.node, Sentence):
        if not expr.reads():  # the text decides the value, so that the linker can check it
            return Constant(expr.span, expr.node.of({}))
        return complete_text(expr.text, expr.span, expr.reads(), expr.evaluate)
    return expr


def read_message(reader: Reader, node: Scalar) -> Computed:
    """The question for a person: one value expression, or a text with slots."""
    try:
        sentence = isinstance(parse_template(node.text), Sentence)
    except Refusal:
        sentence = False
    if not sentence:
        whole = reader.template(node)
        if not isinstance(whole, Expression):
            raise NotBuilt
        value = whole.node
        text = Evaluated(node, lambda state: format_value(value.of(state)), (), ROOT)
        return complete_text(node.text, node.span, whole.reads(), text.evaluate)
    prompt = read_text(reader, node)
    refs = tuple(state_ref(slot.names, slot.span) for slot in prompt.slots)
    return complete_text(
        node.text, node.span, refs, lambda frame: prompt.fill(frame["state"], frame["state"])
    )


def whole(expr: Expr) -> Computed:
    """All arguments as the value of one placeholder."""

    def build(frame: Frame) -> Value:
        value = expr.evaluate(frame)
        if type(value) is not dict:
            message = f"arguments must be a mapping of names to values, got {describe(value)}"
            raise StepError(Diagnostic("graph.arguments", message, expr.span))
        return value

    return Computed(expr.span, build, expr.reads())


def check_required(requires: Sequence[Name], state: Mapping[str, Value]) -> None:
    """Raise StepError ``graph.requires`` for the first key without a value."""
    for name in requires:
        if state.get(name.text) is None:
            hint = suggest(name.text, state, "keys of the state")
            if name.text in state:
                hint = "it is null: let the input or a node before this one give it a value"
            message = f"the node requires {name.text!r}, which has no value"
            raise StepError(Diagnostic("graph.requires", message, name.span, hint))


@dataclass(frozen=True, slots=True)
class WithState:
    """The arguments of the function of a python node.

    A parameter named ``state`` gets the state with the variables added, and so does the only
    parameter if no variable and no key has its name. Any other parameter gets the variable or the
    key of its name. A flow gets the state with the variables.
    """

    values: Values
    requires: tuple[Name, ...] = ()
    names: None = None

    def build(self, frame: Frame, wanted: Wanted = None) -> Value:
        state = frame["state"]
        check_required(self.requires, state)
        variables = NamedArguments(self.values).build(frame)
        state = {**state, **variables}
        if wanted is None:
            return state
        takes = wanted.get("properties") or {}
        arguments = {name: state[name] for name in takes if name in state}
        if "state" in takes:
            return {**arguments, "state": state}
        if len(takes) == 1 and not arguments:
            return dict.fromkeys(takes, state)
        if not takes and wanted.get("additionalProperties"):
            return state
        # Variables without a parameter stay, so that the check of the arguments reports them.
        return {
            **arguments,
            **{name: value for name, value in variables.items() if name not in takes},
        }

    def of(self, name: str, wanted: Wanted = None) -> tuple[Ref, ...]:
        """What the parameter ``name`` gets: see `build`."""
        variables = NamedArguments(self.values)
        takes = (wanted or {}).get("properties") or {}
        if name == "state":
            return (Ref(ROOT), *variables.reads())
        if any(variable.text == name for variable, _ in self.values):
            return variables.of(name)
        is_alone = len(takes) == 1
        return (state_ref((name,), None), *((Ref(ROOT, optional=True),) if is_alone else ()))

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


class AllKeys(Computed):
    """All keys of the state, as the input of another flow."""

    __slots__ = ()

    def __init__(self, span: Span) -> None:
        super().__init__(span, _all_keys, (Ref(ROOT, certain=False),))

    def of(self, name: str, wanted: Wanted = None) -> tuple[Ref, ...]:
        """What the other flow reads as ``name``."""
        return (state_ref((name,), None),)


def _all_keys(frame: Frame) -> Value:
    return {name: value for name, value in frame["state"].items() if name not in OF_THE_RUN}


def pass_keys(span: Span, mapping: Sequence[tuple[Name, Name]] | None) -> Computed:
    """The input of another flow: some keys of this graph under other names, or (None) all keys."""

    if mapping is None:
        return AllKeys(span)

    def renamed(frame: Frame) -> Value:
        state = frame["state"]
        return {other.text: state[key.text] for key, other in mapping if key.text in state}

    reads = tuple(state_ref((key.text,), key.span) for key, _ in mapping)
    names = tuple((other.text, other.span) for _, other in mapping)
    return Computed(span, renamed, reads, names=names)


def check_slots(reader: Reader, code: str, slots: tuple[Slot, ...], values: Values | None) -> None:
    """Warn about a slot that names no variable. ``values``: the variables; None: every key of the
    state is a variable."""
    if values is None:
        return
    variables = [name.text for name, _ in values]
    for slot in slots:
        if slot.certain and not slot.in_state and slot.names[0] not in variables:
            hint = (
                suggest(slot.names[0], variables, "variables")
                or f"write {{state.{'.'.join(slot.names)}}}"
            )
            reader.warn(code, f"{slot.text} has no variable {slot.names[0]!r}", slot.span, hint)
