"""Agents and flows that a model may call as tools, and the choice of a model for one step."""

from __future__ import annotations

from typing import Any

import pytest

import agf_magics as agf
from agf_magics.pictures.pages.parts import progress_text
from tests.engine.test_react import Script, call, text

ASK = "{pipeline: main, steps: [{agent: {prompt: 'Is it good?', identity: lead}}]}"
FLOW = """
pipeline: double
description: Doubles a number.
steps:
- tool: {name: twice, args: {n: !expr ctx.n}}
"""


@pytest.fixture
def registry() -> agf.Registry:
    registry = agf.Registry()
    agf.tool(lambda n: n * 2, name="twice", registry=registry)

    @agf.agent(registry=registry, name="reviewer")
    def review(prompt: str, strict: bool = False) -> str:
        """Reviews a text."""
        return f"reviewed {prompt!r}, {'strictly' if strict else 'kindly'}"

    agf.define(FLOW, registry=registry)
    return registry


def lead(registry: agf.Registry, *turns: Any, tools: list[str], **options: Any) -> tuple[agf.Run, Script]:
    script = Script(*turns)
    agf.model_agent("lead", model=script.model(), tools=tools, registry=registry)
    return agf.run(ASK, registry=registry, raises=False, **options), script


def test_a_model_calls_an_agent_that_is_a_function(registry: agf.Registry) -> None:
    turns = call(("reviewer", {"prompt": "a poem", "strict": True})), text("It is good.")
    run, script = lead(registry, *turns, tools=["reviewer"])
    assert run.output == "It is good."
    assert script.told("reviewer") == ["reviewed 'a poem', strictly"]
    (tool,) = script.asked[0][1].function_tools
    assert (tool.name, tool.description) == ("reviewer", "Reviews a text.")
    assert set(tool.parameters_json_schema["properties"]) == {"prompt", "strict"}
    assert tool.parameters_json_schema["required"] == ["prompt"]


def test_a_model_calls_a_flow(registry: agf.Registry) -> None:
    run, script = lead(registry, call(("double", {"n": 4})), text("8"), tools=["double", "twice"])
    assert run.output == "8"
    assert script.told("double") == ["8"]
    assert script.asked[0][1].function_tools[0].description == "Doubles a number."
    assert run.steps["steps[0]/session.then.tools.call/steps[0]"].finished == 1


def test_a_model_calls_an_agent_that_is_a_model(registry: agf.Registry) -> None:
    inner = Script(text("Fine."))
    agf.model_agent("critic", model=inner.model(), instructions="Be strict.", tools=[], registry=registry)
    run, script = lead(registry, call(("critic", {"prompt": "a poem"})), text("ok"), tools=["critic"])
    assert run.output == "ok"
    assert script.told("critic") == ["Fine."]
    assert [part.content for part in inner.asked[0][0][-1].parts] == ["Be strict.", "a poem"]  # type: ignore[union-attr]
    assert run.usage.requests == 3
    assert run.sessions == 2


def test_the_model_learns_of_wrong_arguments_for_an_agent(registry: agf.Registry) -> None:
    turns = call(("reviewer", {"prompt": "a poem", "strict": "very"})), text("sorry")
    run, script = lead(registry, *turns, tools=["reviewer"])
    assert run.output == "sorry"
    assert script.told("reviewer")[0].startswith("Error: agent 'reviewer' expects true or false for 'strict'")


def test_an_agent_gets_no_more_tools_than_the_model_that_calls_it(registry: agf.Registry) -> None:
    offered: list[list[str]] = []

    @agf.agent(registry=registry, tools=["twice"])
    def worker(prompt: str, tools: Any) -> str:
        offered.append(sorted(tools))
        return "done"

    lead(registry, call(("worker", {"prompt": "x"})), text("ok"), tools=["worker"])
    lead(registry, call(("worker", {"prompt": "x"})), text("ok"), tools=["worker", "twice"])
    assert offered == [[], ["twice"]]


@pytest.mark.parametrize("through", [[], ["critic"]])
def test_a_model_cannot_call_itself(registry: agf.Registry, through: list[str]) -> None:
    agf.model_agent("critic", tools=["lead"], model=Script(text("x")).model(), registry=registry)
    with pytest.raises(agf.DefinitionError) as caught:
        lead(registry, text("ok"), tools=through or ["lead"])
    assert caught.value.code == "flow.call-cycle"
    assert "lead (a model) →" in str(caught.value)


def test_a_tool_is_called_before_an_agent_of_the_same_name(registry: agf.Registry) -> None:
    agf.tool(lambda n: "the tool", name="reviewer", registry=registry)
    _, script = lead(registry, call(("reviewer", {"n": 1})), text("ok"), tools=["reviewer"])
    assert script.told("reviewer") == ["the tool"]


# --- the model of one step ---


def test_a_step_names_the_model_that_answers(registry: agf.Registry) -> None:
    agf.model_agent("lead", model="openai:gpt-4o", instructions="Be brief.", registry=registry)
    flow_text = ASK.replace("identity: lead", "identity: lead, model: 'test:other'")
    flow = agf.define(flow_text, registry=registry)
    problems = {warning.code for warning in flow.warnings}
    assert "model.no-key" not in problems, "the agent's own model is not asked"


def test_the_configured_model_answers_instead_of_that_of_a_step_and_the_run_says_so(registry: agf.Registry) -> None:
    script = Script(text("5"))
    registry.choose(script.model())
    run = agf.run("{pipeline: main, steps: [{agent: {prompt: hi, model: 'openai:gpt-4o'}}]}", registry=registry)
    assert run.output == "5"
    assert "answers instead of 'openai:gpt-4o'" in run.note


@pytest.mark.parametrize("identity", ["reviewer", "double"])
def test_an_agent_that_is_not_a_model_has_none(registry: agf.Registry, identity: str) -> None:
    flow_text = ASK.replace("identity: lead", f"identity: {identity}, model: 'openai:gpt-4o'")
    with pytest.raises(agf.DefinitionError) as caught:
        agf.run(flow_text, registry=registry)
    problem = next(diagnostic for diagnostic in caught.value.diagnostics if diagnostic.code == "flow.agent-model")
    assert problem.span.text == "'openai:gpt-4o'"


# --- who is asked ---


def test_a_row_names_who_is_asked_and_the_tools(registry: agf.Registry) -> None:
    run, _ = lead(registry, text("ok"), tools=["reviewer", "twice"])
    view = progress_text(run.progress, now=0)
    assert "asks lead, tools: reviewer, twice" in view
    assert run.steps["steps[0]"].asked == "asks lead, tools: reviewer, twice"
    assert run.steps["steps[0]/session.ask"].asked == "", "its label is the model, and the row above has the tools"


def test_a_row_names_only_the_tools_that_the_step_allows(registry: agf.Registry) -> None:
    registry.choose(Script(text("ok")).model())
    run = agf.run("{pipeline: p, steps: [{agent: {prompt: x, capabilities: {tools: [twice]}}}]}", registry=registry)
    asked_models = {id: row.asked for id, row in run.steps.items() if row.asked}
    assert asked_models["steps[0]"].endswith("tools: twice")
    assert "tools" not in asked_models.get("steps[0]/session.ask", "")
