"""Flows that are built by hand from the step kinds, because the engine treats them independently of any language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import agf_magics as agf
from agf_magics.flow.flow import Origin
from agf_magics.flow.protocols import FlowResult, Frame, Name, Outcome, Ref
from agf_magics.flow.step import Step
from agf_magics.flow.steps import CalleeKind, Invoke, Sequence
from agf_magics.text.source import Source, Span

TEXT = Source("<by hand>", "by hand")
SPAN = TEXT.span(0, 2)


@dataclass(frozen=True)
class Says:
    """An expression, or the arguments of a call, as a function of the frame."""

    evaluate: Callable[[Frame], Any]
    span: Span = SPAN

    @property
    def names(self) -> tuple[tuple[str, Span | None], ...]:
        return ()

    def build(self, frame: Frame, wanted: Mapping[str, Any] | None = None) -> Any:
        return self.evaluate(frame)

    def reads(self) -> tuple[Ref, ...]:
        return ()


@dataclass(frozen=True)
class Put:
    """A target that stores the value of an outcome in the frame, or what ``of`` computes from the outcome."""

    name: str
    of: Callable[[Outcome], Any] = lambda outcome: outcome.value

    def bind(self, frame: Frame, value: Any) -> Frame:
        return self.store(frame, Outcome(value))

    def store(self, frame: Frame, outcome: Outcome) -> Frame:
        return {**frame, self.name: self.of(outcome)}

    def writes(self) -> tuple[Ref, ...]:
        return (Ref((self.name,)),)


def call(id: str, name: str, arguments: Callable[[Frame], Any], kind: CalleeKind = "tool", **more: Any) -> Invoke:
    return Invoke(id=id, word=kind, label=name, kind=kind, name=Name(name, SPAN), args=Says(arguments), **more)


def flow(*steps: Step, name: str = "by_hand", **more: Any) -> agf.Flow:
    return agf.Flow(
        name=name,
        language="by hand",
        source=TEXT,
        body=Sequence(id="steps", word="steps", steps=steps),
        start=lambda arguments: dict(arguments.input or {}),
        end=lambda frame: FlowResult(frame.get("out"), frame),
        origin=Origin(SPAN),
        **more,
    )


class Tools:
    """A registry whose tools record their calls."""

    def __init__(self, **tools: Callable[..., Any]) -> None:
        self.registry = agf.Registry()
        self.calls: list[Any] = []
        for name, answer in tools.items():
            self.add(name, answer)

    def add(self, name: str, answer: Callable[..., Any]) -> None:
        def called(**arguments: Any) -> Any:
            self.calls.append((name, arguments))
            return answer(**arguments)

        agf.tool(called, name=name, registry=self.registry)

    def run(self, *steps: Step, input: Mapping[str, Any] | None = None, **more: Any) -> agf.Run:
        flow_to_run = more.pop("flow", None) or flow(*steps)
        return agf.run(flow_to_run, input, registry=self.registry, raises=False, **more)
