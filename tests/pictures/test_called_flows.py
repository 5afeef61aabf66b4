"""Called flows are drawn as frames inside the picture, as long as there is room."""

from __future__ import annotations

import re

import pytest
from pydantic_ai.models.test import TestModel

import agf_magics as agf
from agf_magics import Registry
from agf_magics.pictures.diagram import MOST_OPENED, Diagram
from agf_magics.pictures.scene.builder import scene
from agf_magics.pictures.scene.scene import Frame
from tests.pictures.geometry import covered

PLAN = """calls:
- {_tool: one, x: 1, _outputPath: $state.a}
- {_tool: one, x: 2, _outputPath: $state.b}
- {_tool: both, x: $state.a, y: $state.b, _outputPath: $state.c}
output: $state.c
"""
GRAPH = """state: {n: int}
nodes:
  add: {type: python, tool: up}
  check: {type: passthrough, output: {n: "{state.n}"}}
edges:
- {from: START, to: add}
- {from: add, to: check}
- {from: check, to: add, condition: n < 3}
- {from: check, to: END, condition: else}
"""
POLICY = """id: agf.sequential
config:
  steps:
  - {agent: writer, input_mapping: {topic: parent.input.topic}}
  - {agent: critic, input_mapping: {text: writer.output.text}}
"""
OUTER = """pipeline: outer
steps:
- call: {pipeline: sums, output: x}
- call: {pipeline: counts, pass: {n: "0"}, output: y}
- call: {pipeline: short, output: z}
- for_each:
    over: "[1, 2]"
    on_error: abort
    do: {call: {pipeline: pair, pass: {v: item}}}
    collect: {transform: {value: pipe}}
    output: all
"""
SHORT = "pipeline: short\nsteps: [{transform: {value: '1'}}]"
PAIR = "pipeline: pair\nsteps: [{transform: {value: ctx.v + 1, output: w}}, {call: {pipeline: deeper, pass: [w]}}]"
DEEPER = "pipeline: deeper\nsteps: [{transform: {value: ctx.w, output: u}}, {transform: {value: u + 1}}]"


@pytest.fixture
def registry() -> Registry:
    registry = Registry()

    @agf.tool(registry=registry)
    def one(x: int) -> int:
        return x

    @agf.tool(registry=registry)
    def both(x: int, y: int) -> int:
        return x + y

    @agf.tool(registry=registry)
    def up(state: dict[str, object]) -> dict[str, object]:
        return {"n": int(str(state["n"])) + 1}

    @agf.agent(registry=registry)
    def writer(topic: str) -> dict[str, str]:
        return {"text": topic}

    @agf.agent(registry=registry)
    def critic(text: str) -> dict[str, str]:
        return {"verdict": text}

    agf.define(PLAN, language="plan", name="sums", registry=registry)
    agf.define(GRAPH, language="graph", name="counts", registry=registry)
    agf.define(POLICY, language="policy", name="article", registry=registry)
    for text in (SHORT, DEEPER, PAIR, OUTER):
        agf.define(text, registry=registry)
    return registry


def frames(drawn: Diagram) -> dict[str, list[str]]:
    return {frame.id: [part.id for part in frame.parts] for frame in drawn._scene.frames}


def test_a_called_flow_is_a_frame_with_its_steps(registry: Registry) -> None:
    element = "steps[3].do"
    assert frames(agf.draw("outer", registry=registry)) == {
        "steps[0]": ["steps[0]/calls[0]", "steps[0]/calls[1]", "steps[0]/calls[2]"],
        "steps[1]": ["steps[1]/nodes.add", "steps[1]/nodes.check"],
        "steps[3]": [element],
        element: [f"{element}/steps[0]", f"{element}/steps[1]"],
        f"{element}/steps[1]": [f"{element}/steps[1]/steps[0]", f"{element}/steps[1]/steps[1]"],
    }


def test_a_flow_of_one_step_is_a_box_that_says_that_it_calls(registry: Registry) -> None:
    boxes = {box.id: box for box in agf.draw("outer", registry=registry)._scene.boxes}
    assert boxes["steps[2]"].opens
    assert not any(box.opens for id, box in boxes.items() if id != "steps[2]")


def test_a_policy_that_an_agent_step_names_is_a_frame(registry: Registry) -> None:
    text = """id: agf.sequential
config: {steps: [{agent: article, input_mapping: {topic: parent.input.topic}}, {agent: article}]}
"""
    agf.define(text, language="policy", name="twice", registry=registry)
    drawn = frames(agf.draw("twice", registry=registry))
    assert [len(parts) for parts in drawn.values()] == [2, 2]


def test_the_states_of_inner_steps_and_the_numbers_of_inner_edges_are_shown(registry: Registry) -> None:
    run = agf.run("outer", registry=registry)
    svg = agf.draw(run).svg()
    texts_of_boxes = dict(re.findall(r'<g class="box" data-step="([^"]*)"><title>(?:[^<]*\n)?([^<]*)</title>', svg))
    for inner in ("steps[0]/calls[2]", "steps[1]/nodes.check", "steps[3].do/steps[1]/steps[1]"):
        assert texts_of_boxes[inner] == "ok", inner
    assert ">2, 4, 6<" in svg, "the rounds in which the edge of the called graph was taken"
    assert not covered(svg)


def test_the_values_of_a_called_plan_are_lines(registry: Registry) -> None:
    drawn = agf.draw("outer", registry=registry)
    lines = {(line.link.tail, line.link.head) for line in drawn._placed.layout.lines if line.link.kind == "value"}
    assert {("steps[0]/calls[0]", "steps[0]/calls[2]"), ("steps[0]/calls[1]", "steps[0]/calls[2]")} <= lines


def test_a_called_plan_begins_with_its_first_calls_and_ends_with_its_last(registry: Registry) -> None:
    """Its calls feed one another, so not each of them is first and last."""
    (plan,) = (frame for frame in agf.draw("outer", registry=registry)._scene.frames if frame.id == "steps[0]")
    assert [box.id for box in plan.first] == ["steps[0]/calls[0]", "steps[0]/calls[1]"]
    assert [box.id for box in plan.last] == ["steps[0]/calls[2]"]


def test_called_flows_are_opened_as_long_as_there_is_room(registry: Registry) -> None:
    steps = "\n".join(
        f"- call: {{pipeline: deeper, pass: {{w: '{number}'}}, output: o{number}}}" for number in range(20)
    )
    agf.define(f"pipeline: many\nsteps:\n{steps}\n", registry=registry)
    drawn = agf.draw("many", registry=registry)._scene
    calls = [part for part in drawn.parts if part.step is not None]
    assert sum(1 for _ in drawn.boxes) == MOST_OPENED
    assert [isinstance(call, Frame) for call in calls] == [True] * 5 + [False] * 15
    assert all(call.opens for call in calls[5:])


def test_an_opened_call_that_is_folded_is_a_box(registry: Registry) -> None:
    outer, inner = registry.flows["outer"], registry.flows["pair"]
    drawn = scene(outer, ["steps[3].do"], (), {"steps[3].do": inner})
    (call,) = (box for box in drawn.every if box.id == "steps[3].do")
    assert not isinstance(call, Frame)
    assert call.opens


def test_the_session_of_an_agent_is_not_opened() -> None:
    registry = Registry()
    agf.define(
        'pipeline: asks\nsteps: [{agent: {prompt: "Say {ctx.q}", output: a}}, {agent: {prompt: "And {ctx.a}"}}]',
        registry=registry,
    )
    registry.choose(TestModel())
    drawn = agf.draw("asks", registry=registry)
    assert frames(drawn) == {}
    assert not any(box.opens for box in drawn._scene.boxes)
