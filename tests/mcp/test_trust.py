"""The calls of a server that the user does not trust: a call that a model chooses needs the user's approval."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic_ai.messages as ai
import pytest
from pydantic_ai.models.function import FunctionModel

import agf_magics as agf
from tests.lifecycle.planning.scripted_planner import Planner, plan
from tests.lifecycle.planning.scripted_planner import call as planned
from tests.mcp.servers import call, marks, program

TEXT = "pipeline: main\nsteps: [{agent: {prompt: 'How much?'}}]"


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "mark"
    agf.mcp.close_all()


def connect(mark: Path, registry: agf.Registry, **options: Any) -> None:
    agf.mcp.connect("quick", command=program("quick"), env={"MARK": str(mark)}, registry=registry, **options)


def model_that_calls(name: str) -> FunctionModel:
    """A model that calls one tool, and then answers with the result that it received."""

    def reply(messages: list[ai.ModelMessage], _: object) -> ai.ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, ai.ToolReturnPart | ai.RetryPromptPart):
            return ai.ModelResponse(parts=[ai.TextPart(str(last.content))])
        return ai.ModelResponse(parts=[ai.ToolCallPart(name, {"a": 1}, "1")])

    return FunctionModel(reply, model_name="m")


def run(registry: agf.Registry, **options: Any) -> agf.Run:
    agf.model_agent("clerk", model=model_that_calls("quick__add"), default=True, registry=registry)
    return agf.run(TEXT, registry=registry, **options)


def test_a_call_that_a_model_picks_asks_first(mark: Path) -> None:
    registry, questions = agf.Registry(), list[agf.Question]()
    connect(mark, registry)

    def ask(question: agf.Question) -> bool:
        questions.append(question)
        return True

    assert run(registry, ask=ask).output == "2"
    assert questions[0].text == "the model calls quick__add(a=1): make the call?"
    assert questions[0].approval


@pytest.mark.parametrize("ask", [None, lambda question: False], ids=["nobody", "no"])
def test_without_a_yes_the_call_is_not_made_and_the_model_learns_it(mark: Path, ask: Any) -> None:
    registry = agf.Registry()
    connect(mark, registry)
    assert "was not called" in run(registry, ask=ask).output
    assert marks(mark) == []


def test_a_trusted_server_does_not_ask(mark: Path) -> None:
    registry = agf.Registry()
    connect(mark, registry, trust=True)
    assert run(registry).output == "2"


def test_a_step_that_the_user_wrote_is_called(mark: Path) -> None:
    registry = agf.Registry()
    connect(mark, registry)
    assert call("quick__add", args={"a": 1}, registry=registry).output == "2"


def test_an_agent_that_is_a_function_also_asks_first(mark: Path) -> None:
    registry = agf.Registry()
    connect(mark, registry)

    @agf.agent(default=True, registry=registry)
    async def clerk(prompt: str, tools: dict[str, Any]) -> str:
        return str(await tools["quick__add"](a=1))

    assert agf.run(TEXT, registry=registry, ask=lambda question: "yes").output == "2"
    with pytest.raises(agf.StepError, match="was denied"):
        agf.run(TEXT, registry=registry, ask=lambda question: "no")


def test_a_planner_asks_before_the_calls_of_its_plan(mark: Path) -> None:
    registry, questions = agf.Registry(), list[str]()
    connect(mark, registry)

    def ask(question: agf.Question) -> bool:
        questions.append(question.text)
        return True

    add = plan(planned("quick__add", "†state.sum", a=1, b=2), output="†state.sum")
    ended = agf.planning.run_planner(Planner(add).model, "Add.", tools=["quick__add"], registry=registry, ask=ask)
    assert ended.output == "3"
    assert questions == ["call quick__add(a=1, b=2)?"]
