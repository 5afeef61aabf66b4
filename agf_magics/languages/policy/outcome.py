"""``output_from``: which of its agents' outputs is a policy's own.

A string is a strategy if it is the word of one, else an alias; the object form reaches an alias that is called like a
strategy. Every form is a step that reads what the agents left, so it is drawn, and who feeds it is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ...flow.frame import Frame, Ref
from ...flow.steps import Compute, Invoke, Name, Step
from ...flow.values import Value
from ...text.diagnostics import Diagnostics, suggest
from ...text.source import Span
from ...text.yamlnodes import Fields, Node, Scalar
from .values import FIRST, RESULT, kept_at

STRATEGIES = ("last", "merge", "first")
"""Their words; no alias should be called so."""


class Choice(NamedTuple):
    """What ``output_from`` says."""

    kind: str
    """A strategy, or ``agent``, or ``custom_transform``."""
    span: Span
    name: str = ""
    """Of the agent or the transform."""


def chosen(node: Node | None, default: Choice, aliases: Sequence[str], problems: Diagnostics) -> Choice:
    """What ``output_from`` says of a policy whose steps have these aliases; what is wrong with it is told."""
    choice = _read(node) or default
    if choice.kind == "agent" and choice.name not in aliases:
        hint = suggest(choice.name, (*dict.fromkeys(aliases), *STRATEGIES), "the agents of steps and the strategies")
        problems.error("policy.output-from", f"no step runs an agent {choice.name!r}", choice.span, hint)
    return choice


def _read(node: Node | None) -> Choice | None:
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return Choice(node.text, node.span) if node.text in STRATEGIES else Choice("agent", node.span, node.text)
    for word, value in node.fields.items() if isinstance(node, Fields) else ():
        if isinstance(value, Scalar) and word in ("agent", "custom_transform"):
            return Choice(word, value.span, value.text)
        if isinstance(value, Scalar) and word == "strategy" and value.text in STRATEGIES:
            return Choice(value.text, value.span)
    return None


def output_step(choice: Choice, aliases: Sequence[str], at: Callable[[str], tuple[str, ...]]) -> Step:
    """The step that makes the output. ``at``: where in the frame an agent's output is."""
    outputs, id, span = Outputs(choice.span, {alias: at(alias) for alias in aliases}), "output_from", choice.span
    if choice.kind == "custom_transform":
        name = Name(choice.name, span)
        return Invoke(
            id=id, word=id, label=name.text, span=span, target=RESULT, kind="transform", name=name, args=outputs
        )
    value: Outputs | Output = outputs
    if choice.kind == "first":
        value = Output(choice.span, (FIRST,), tuple(at(alias) for alias in aliases))
    elif choice.kind != "merge":
        place = at(choice.name if choice.kind == "agent" else aliases[-1])
        value = Output(choice.span, place, (place,))
    return Compute(id=id, word=id, label=choice.name or choice.kind, span=span, target=RESULT, value=value)


class Output:
    """One agent's output."""

    __slots__ = ("evaluate", "may_be", "place", "span")

    evaluate: Callable[[Frame], Value]

    def __init__(self, span: Span, place: tuple[str, ...], may_be: tuple[tuple[str, ...], ...]) -> None:
        self.span, self.place, self.may_be = span, place, may_be
        self.evaluate = lambda frame: kept_at(frame, place)

    def reads(self) -> tuple[Ref, ...]:
        return tuple(Ref(place, self.span) for place in self.may_be)


class Outputs:
    """All of them by alias, in the order in which the definition has them (Merge 3), whatever order they ended in."""

    __slots__ = ("evaluate", "places", "span")

    evaluate: Callable[[Frame], Value]

    def __init__(self, span: Span, places: Mapping[str, tuple[str, ...]]) -> None:
        self.span, self.places = span, dict(places)
        self.evaluate = self.build

    names: tuple[tuple[str, Span | None], ...] = ()

    def build(self, frame: Frame, wanted: object = None) -> Value:
        return {alias: kept_at(frame, place) for alias, place in self.places.items()}

    def reads(self) -> tuple[Ref, ...]:
        return tuple(Ref(place, self.span) for place in self.places.values())
