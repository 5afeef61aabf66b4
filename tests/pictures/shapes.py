"""Flows of every shape, built by hand, because the picture of a shape does not depend on the language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import agf_magics as agf
from agf_magics.flow.graph_steps import END, START, Dag, Edge, Walk
from agf_magics.flow.protocols import FlowResult, Frame, Name, Outcome, Ref
from agf_magics.flow.step import ElementLimit, FailurePolicy, Step
from agf_magics.flow.steps import (
    Branches,
    CalleeKind,
    Choose,
    Compute,
    Each,
    Invoke,
    Repeat,
    Sequence,
)
from agf_magics.text.source import Source, Span


@dataclass(frozen=True)
class Text:
    """An expression that is only shown, not evaluated."""

    span: Span
    refs: tuple[Ref, ...] = ()

    def evaluate(self, frame: Frame) -> Any:
        return None

    def reads(self) -> tuple[Ref, ...]:
        return self.refs


def text(written: str, *paths: str) -> Text:
    source = Source("<shapes>", written)
    return Text(source.span(), tuple(Ref(tuple(path.split("."))) for path in paths))


@dataclass(frozen=True)
class Mapped:
    """Arguments by paths, like the input_mapping of a policy."""

    fields: Mapping[str, str]

    @property
    def names(self) -> tuple[tuple[str, Span | None], ...]:
        return tuple((name, None) for name in self.fields)

    def build(self, frame: Frame, wanted: Mapping[str, Any] | None = None) -> Any:
        return {}

    def reads(self) -> tuple[Ref, ...]:
        return tuple(Ref(tuple(path.split(".")), into=name) for name, path in self.fields.items())


@dataclass(frozen=True)
class Kept:
    """The place where the outcome of a step is stored."""

    path: str

    def bind(self, frame: Frame, value: Any) -> Frame:
        return {**frame, self.path: value}

    def store(self, frame: Frame, outcome: Outcome) -> Frame:
        return {**frame, self.path: outcome.value}

    def writes(self) -> tuple[Ref, ...]:
        return (Ref(tuple(self.path.split("."))),)


def call(id: str, word: str, kind: CalleeKind = "agent", /, **fields: str) -> Invoke:
    """A step that is named by the last part of its id, and stores its result under this name."""
    label = id.rpartition(".")[2]
    return Invoke(id=id, word=word, label=label, kind=kind, name=Name(label), args=Mapped(fields), target=Kept(label))


def flow(*steps: Step, name: str = "shapes", language: str = "policy") -> agf.Flow:
    return agf.Flow(
        name=name,
        language=language,
        source=Source("<shapes>", ""),
        body=Sequence(id="body", word="", steps=steps),
        start=lambda arguments: {},
        end=lambda frame: FlowResult(None, {}),
    )


def inner(id: str, *steps: Step) -> Sequence:
    return Sequence(id=id, word="steps", steps=steps)


LOOP = flow(
    Repeat(
        id="loop",
        word="loop",
        label="writer, checker",
        body=inner(
            "loop.steps",
            call("loop.steps.writer", "agent", topic="parent.input.topic"),
            call("loop.steps.checker", "agent", draft="writer.output.text"),
        ),
        until=text("checker.output.score >= 0.8", "checker.output.score"),  # type: ignore[arg-type]
        limit=5,
    ),
    Compute(id="output_from", word="output_from", label="writer", value=text("writer", "writer")),  # type: ignore[arg-type]
    name="until_good",
)

TASTES = flow(
    Branches(
        id="parallel",
        word="parallel",
        label="food, film",
        branches={
            "food": call("parallel.food", "agent", mood="parent.input.mood"),
            "film": call("parallel.film", "agent", mood="parent.input.mood"),
        },
        failing=FailurePolicy("finish"),
    ),
    name="tastes",
)

BATCH = flow(
    Each(
        id="batch",
        word="batch",
        label="items.[].value",
        over=text("parent.input.items.[].value", "parent.input.items"),  # type: ignore[arg-type]
        element=Kept("item"),
        body=call("batch.agent", "agent", item="item"),
        limit=8,
        cut=ElementLimit(
            100, lambda elements_left: agf.Diagnostic("run.listener", f"{elements_left} left out", severity="warning")
        ),
        ahead=True,
    ),
    name="each_item",
)

ROUTES = flow(
    Choose(
        id="conditional",
        word="conditional",
        label="2 routes",
        pick=text("", "parent.input.language"),  # type: ignore[arg-type]
        labels=lambda value: (str(value),),
        cases={
            "0": call("conditional.cjk", "agent", text="parent.input.text"),
            "1": call("conditional.english", "agent"),
        },
        default=call("conditional.generic", "agent"),
        conditions={"0": 'language in ["zh", "ja", "ko"]', "1": 'language = "en"'},
    ),
    name="translate",
)

REACT = flow(
    Repeat(
        id="react",
        word="react",
        label="gpt-x",
        body=inner(
            "react.step",
            call("react.step.model", "model", "model"),
            Each(
                id="react.step.tools",
                word="tools",
                over=text("calls", "calls"),  # type: ignore[arg-type]
                element=Kept("call"),
                body=call("react.step.tools.call", "tool", "tool"),
                limit=4,
            ),
        ),
        until=text("the model calls no tool"),  # type: ignore[arg-type]
        limit=10,
        session=True,
    ),
    name="helper",
)


def plan(
    *calls: Step, feeds: tuple[tuple[str, str, str], ...], open: Callable[[Frame], Any] = lambda frame: None
) -> agf.Flow:
    return flow(Dag(id="calls", word="plan", steps=calls, open=open, feeds=feeds), name="report", language="plan")


PLAN = plan(
    call("calls.load", "tool", "tool"),
    call("calls.clean", "tool", "tool"),
    call("calls.mean", "tool", "tool"),
    call("calls.count", "tool", "tool"),
    call("calls.notify", "tool", "tool"),
    feeds=(
        ("", "calls.load", "†input.path"),
        ("calls.load", "calls.clean", "†state.rows"),
        ("", "calls.clean", "†input.drop"),
        ("calls.clean", "calls.mean", "†state.clean"),
        ("calls.clean", "calls.count", "†state.clean"),
    ),
)

BACKWARDS = plan(
    call("calls.last", "tool", "tool"),
    call("calls.first", "tool", "tool"),
    feeds=(("calls.first", "calls.last", "†state.rows"),),
)


def node(name: str, word: str) -> Step:
    return call(f"nodes.{name}", word, "tool")


def when(source: str, target: str, condition: str) -> Edge:
    return Edge(source, target, text(condition, condition.split()[0]), label=condition)  # type: ignore[arg-type]


GRAPH = flow(
    Walk(
        id="graph",
        word="graph",
        nodes={
            "draft": node("draft", "llm"),
            "critique": node("critique", "llm"),
            "refine": node("refine", "passthrough"),
            "publish": node("publish", "tool"),
            "ask": node("ask", "interrupt"),
        },
        edges=(
            Edge(START, "draft"),
            Edge("draft", "critique"),
            when("critique", "refine", "critique.score < 0.8"),
            when("critique", "ask", "critique.score < 0.9 and editor != null"),
            Edge("critique", "publish", otherwise=True),
            Edge("refine", "critique"),
            Edge("ask", "publish"),
            Edge("publish", END),
        ),
        join=lambda frame, outcomes: frame,
        limits={"refine": 3},
        exits={"refine": "publish"},
        rounds=50,
        endless=lambda rounds: agf.Diagnostic("step.rounds", f"{rounds} rounds"),
    ),
    name="article",
    language="graph",
)
