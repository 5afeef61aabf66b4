"""The inside of an agent: its model, the tools that the model may call, and the state of each tool."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import agf_magics as agf
from agf_magics.flow.progress import events as ev
from agf_magics.flow.progress.progress import Progress
from agf_magics.flow.session_tools import MANY_TOOLS
from agf_magics.flow.steps import Invoke
from agf_magics.lifecycle.run_internals import linked_flow
from agf_magics.notebook.explorer.arguments import row_of
from agf_magics.notebook.explorer.requests import picture_json
from agf_magics.pictures.diagram import Diagram, states
from agf_magics.pictures.pages.updates import STATE_NAMES, Updates, describe_tree
from agf_magics.pictures.pages.wire import UpdateRow
from agf_magics.pictures.row_words import does, listed, shown_name
from agf_magics.pictures.scene.builder import scene
from agf_magics.pictures.scene.session_boxes import tool_boxes

ASKS = """\
pipeline: support
steps:
- agent: {prompt: "Where is A7?", capabilities: {tools: [lookup_order, lookup_customer, refund]}, output: answer}
"""
INSIDE = [
    "session.ask",
    *(f"session.then.tools.call[{tool}]" for tool in ("lookup_order", "lookup_customer", "refund")),
]
PLUMBING = ("model's choice", "each of", "reply of", "ask again", "final reply", "?")


@pytest.fixture
def registry(journaled: Path) -> agf.Registry:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def lookup_order(order: str) -> str:
        return f"{order} was sent"

    @agf.tool(registry=registry)
    def lookup_customer(name: str) -> str:
        raise ValueError(f"no customer {name}")

    @agf.tool(registry=registry)
    def refund(order: str) -> str:
        return "done"

    def talk(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse([TextPart("It was sent.")])
        orders = [ToolCallPart("lookup_order", {"order": order}) for order in ("A7", "B8")]
        return ModelResponse([*orders, ToolCallPart("lookup_customer", {"name": "Ann"})])

    registry.choose(FunctionModel(talk))
    return registry


def corners(progress: Progress) -> dict[str, tuple[str, str]]:
    """The state and the corner of each box that the page gets, by its id."""
    ids = [row.id for row in describe_tree(progress)["rows"]]
    rows = [UpdateRow(*row) for row in Updates(progress).complete(0.0)["rows"]]
    return {ids[row.number]: (STATE_NAMES[row.state], row.corner) for row in rows}


def test_an_agent_opens_to_its_model_and_its_tools_with_their_states(registry: agf.Registry) -> None:
    run = agf.run(ASKS, registry=registry)
    for shown in (run, agf.runs(run.run_id)):
        picture = picture_json(linked_flow(shown), {"flow": ["steps[0]"]})
        assert (picture["boxes"], picture["frames"]) == (INSIDE, [])
        assert not [word for word in PLUMBING if word in picture["svg"]]
        now = corners(shown.progress)
        assert [now[f"steps[0]/{id}"] for id in INSIDE] == [
            ("ok", "✓ 2×"),
            ("ok", "✓ 2×"),
            ("kept", "! handled"),
            ("pending", "· pending"),
        ]
        # The box of a tool says what the list of steps says, and opens the same row.
        row = row_of(shown, {"step": f"steps[0]/{INSIDE[1]}"})
        assert row in listed(shown.progress)
        assert row.turns is not None
        assert row.turns.tools == {"lookup_order": [2, 0], "lookup_customer": [1, 1]}


def test_a_saved_picture_of_a_run_has_the_states_of_the_tools(registry: agf.Registry) -> None:
    run = agf.run(ASKS, registry=registry)
    corner = states(run.progress)["steps[0]/session.then.tools.call[lookup_customer]"]
    assert (corner.words, corner.look.word) == ("! handled", "failed, handled")
    assert "steps[0]/session.then.tools.call[refund]" not in states(run.progress)


POLICY = """\
execution_policy: {id: agf.react, config: {model: "openai:gpt-4o", max_steps: 4, instructions: Help.}}
"""
TOOLS = """\
schema_version: "1.0.0"
metadata: {id: desk, name: Desk, version: "1.0.0", description: A desk.}
interface: {input: {type: object, properties: {order: {type: string}}}, output: {type: object}}
action_space:
  local_tools:
  - {alias: lookup_order, description: The order.}
"""


def test_a_policy_shows_its_model_and_its_tools(registry: agf.Registry) -> None:
    flow = agf.define(TOOLS + POLICY, language="policy", registry=registry)
    assert flow is not None
    (frame,) = scene(flow).frames
    assert (frame.name, frame.does) == ("openai:gpt-4o", "until it answers · at most 4 requests")
    assert [(box.name, box.does) for box in frame.parts] == [("model", ""), ("lookup_order", "")]
    outlined = Diagram(flow).outline()
    assert "⚙ tool lookup_order" in outlined
    assert not [word for word in PLUMBING[:-1] if word in outlined]


def test_a_box_says_the_model_that_answers_in_place_of_the_one_that_is_named(registry: agf.Registry) -> None:
    flow = agf.define(TOOLS + POLICY, language="policy", registry=registry)
    assert flow is not None
    run = agf.run(flow, {"order": "A7"}, registry=registry, raises=False)
    drawn = agf.draw(run)._scene
    (frame,) = drawn.frames
    assert frame.name == "function:talk"
    assert "instead of openai:gpt-4o" in frame.tooltip
    assert not any("openai:gpt-4o" in box.name + box.does for box in drawn.every)
    # The outline and the rows name the same one, and what it stands for only beside it.
    outlined = agf.draw(run).outline()
    assert "function:talk" in outlined
    assert "openai:gpt-4o" not in outlined
    rows = listed(run.progress)
    words = {f"{shown_name(row)} {does(row)}" for row in rows}
    assert any("function:talk" in text for text in words), words
    assert not [text for text in words if "openai:gpt-4o" in text or text.count("function:talk") > 1]
    assert all(row.asked.startswith("instead of openai:gpt-4o") for row in rows if row.is_request)
    assert ">⟳ function:talk<" in picture_json(linked_flow(run), {})["svg"].replace("✦", "⟳")


@pytest.mark.parametrize(("count", "shown"), [(MANY_TOOLS, MANY_TOOLS), (40, MANY_TOOLS)])
def test_of_very_many_tools_the_last_ones_are_one_box(count: int, shown: int, registry: agf.Registry) -> None:
    run = agf.run(ASKS, registry=registry)
    (call,) = (row.step for row in run.progress.rows.values() if row.turns is not None and row.word == "tool")
    assert isinstance(call, Invoke)
    boxes = tool_boxes("call", call, [f"tool_{number}" for number in range(count)])
    assert len(boxes) == shown
    assert boxes[-1].name == ("tool_11" if count == MANY_TOOLS else "29 more tools")
    assert [box.name for box in tool_boxes("call", call, None)] == ["tools"]
    assert tool_boxes("call", call, ()) == ()


def test_a_tool_that_runs_or_was_stopped_is_not_ok(registry: agf.Registry) -> None:
    events: list[ev.Event] = []
    run = agf.run(ASKS, registry=registry, on_event=events.append)
    progress = Progress(run.flow, linked_flow(run).callees)
    begin = next(place for place, event in enumerate(events) if getattr(event, "name", "") == "lookup_order")
    for event in events[: begin + 1]:
        progress.apply(event)
    assert corners(progress)[f"steps[0]/{INSIDE[1]}"] == ("running", "▶ running")
    begun = events[begin]
    assert isinstance(begun, ev.StepStarted | ev.CallStarted)
    progress.apply(ev.StepCancelled(begun.at, 1.0))
    assert corners(progress)[f"steps[0]/{INSIDE[1]}"] == ("cancelled", "■ cancelled")


def test_updates_of_tools_are_what_changed(registry: agf.Registry) -> None:
    events: list[ev.Event] = []
    run = agf.run(ASKS, registry=registry, on_event=events.append)
    progress = Progress(run.flow, linked_flow(run).callees)
    updates, sent = Updates(progress), dict[int, list[object]]()
    for event in events:
        progress.apply(event)
        for counters in (False, True):
            update = updates.changes(0.0, counters=counters) or {"rows": []}
            sent |= {number: row for number, *row in update["rows"]}
    whole = {number: row for number, *row in Updates(progress).complete(0.0)["rows"]}
    tools = range(len(progress.rows), len(progress.rows) + 3)
    assert [sent[number] for number in tools] == [whole[number] for number in tools]
    assert updates.changes(0.0) is None
