"""Reads ``output_from``, which tells how the output of a policy comes from the outputs of its
agents.

A string is the name of a strategy or else an alias. The object form can also name an alias that
equals a strategy. Every form is a step that reads the outputs of the agents, so pictures show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ...flow.expressions import Computed
from ...flow.protocols import Frame, Name, Ref
from ...flow.step import Step
from ...flow.steps import Compute, Invoke
from ...text.diagnostics import Diagnostic
from ...text.source import Span
from ...text.suggestions import suggest
from ...text.yaml.nodes import Fields, Node
from ...values.value import Value
from .frame import FIRST, RESULT, value_at

STRATEGIES = ("last", "merge", "first")
"""The names of strategies, which no alias should have."""


class Choice(NamedTuple):
    """The value of ``output_from``."""

    kind: str
    """A strategy, or ``agent``, or ``custom_transform``."""
    span: Span
    name: str = ""
    """The name of the agent or the transform."""


def unknown_agent(choice: Choice, aliases: Sequence[str]) -> Iterator[Diagnostic]:
    """The error of a choice of an agent that is not among the ``aliases`` of the steps."""
    if choice.name not in aliases:
        names = (*dict.fromkeys(aliases), *STRATEGIES)
        hint = suggest(choice.name, names, "the agents of steps and the strategies")
        message = f"no step runs the agent {choice.name!r}"
        yield Diagnostic("policy.output-from", message, choice.span, hint)


def read_choice(node: Node | None, default: Choice) -> Choice:
    """Read the ``output_from`` of a policy."""
    if node is not None and type(node.value) is str:
        return (
            Choice(node.text, node.span)
            if node.text in STRATEGIES
            else Choice("agent", node.span, node.text)
        )
    for word, value in node.fields.items() if isinstance(node, Fields) else ():
        if value.text and word in ("agent", "custom_transform"):
            return Choice(word, value.span, value.text)
        if word == "strategy" and value.text in STRATEGIES:
            return Choice(value.text, value.span)
    return default


def output_step(
    choice: Choice, aliases: Sequence[str], at: Callable[[str], tuple[str, ...]]
) -> Step:
    """The step that makes the output. ``at``: the place of an agent's output in the frame."""
    id = "output_from"
    span = choice.span
    places = {alias: at(alias) for alias in aliases}

    def read(*paths: tuple[str, ...], of: Callable[[Frame], Value]) -> Computed:
        return Computed(span, of, tuple(Ref(path, span) for path in paths))

    # By alias in the order of the definition (Merge 3), in whatever order the agents ended.
    merged = read(
        *places.values(),
        of=lambda frame: {alias: value_at(frame, path) for alias, path in places.items()},
    )
    if choice.kind == "custom_transform":
        merged.names = ()
        name = Name(choice.name, span)
        return Invoke(
            id=id,
            word=id,
            label=name.text,
            span=span,
            target=RESULT,
            kind="transform",
            name=name,
            args=merged,
        )
    value = merged
    if choice.kind == "first":
        value = read(*places.values(), of=lambda frame: frame[FIRST])
    elif choice.kind != "merge":
        place = at(choice.name if choice.kind == "agent" else aliases[-1])
        value = read(place, of=lambda frame: value_at(frame, place))
    return Compute(
        id=id, word=id, label=choice.name or choice.kind, span=span, target=RESULT, value=value
    )
