"""Tool calls in the replies of a model: each call has its own id, and a call that is written as text gets a warning."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai import messages as ai
from pydantic_ai.models.function import FunctionModel

import agf_magics as agf

Parts = list[ai.ModelResponsePart]


class Scripted(FunctionModel):
    """A model that gives these replies in order, and keeps the messages that it received."""

    def __init__(self, *replies: Parts) -> None:
        self.told: list[ai.ModelMessage] = []
        remaining = iter(replies)

        def reply(messages: list[ai.ModelMessage], _: object) -> ai.ModelResponse:
            self.told = messages
            return ai.ModelResponse(parts=next(remaining))

        super().__init__(reply, model_name="m")


def call(fruit: str, id: str) -> ai.ToolCallPart:
    return ai.ToolCallPart("price", {"fruit": fruit}, id)


def registry_of(model: Scripted) -> agf.Registry:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def price(fruit: str) -> int:
        return len(fruit)

    agf.model_agent("clerk", model=model, tools=["price"], registry=registry)
    return registry


IDS: dict[str, list[Parts]] = {
    "one id in a reply": [[call("fig", "x"), call("apple", "x")]],
    "one id in each reply": [[call("fig", "call_0")], [call("apple", "call_0")]],
    "no ids": [[call("fig", ""), call("apple", "")]],
    "no ids in several replies": [[call("fig", "")], [call("apple", "")]],
    "an id that looks like ours": [[call("fig", "x"), call("apple", "x"), call("fig", "x-2")]],
    "ids with reasoning, which the provider gets back": [[ai.ThinkingPart("hm"), call("fig", "x"), call("apple", "x")]],
    "ids of their own": [[call("fig", "x"), call("apple", "y")]],
}
GRAPH = """
state: {answer: str, used: list}
nodes:
  ask: {type: agent, identity: clerk, prompt: "hi", tools: [price], state_key: answer, tool_results_key: used}
edges: [{from: START, to: ask}, {from: ask, to: END}]
"""


@pytest.mark.parametrize("name", IDS)
def test_each_call_keeps_its_arguments_and_its_result(name: str) -> None:
    model = Scripted(*IDS[name], [ai.TextPart("done")])
    registry = registry_of(model)
    used = agf.run(agf.load(GRAPH, "graph", name="asked", registry=registry), {}, registry=registry).output["used"]
    expected = [part.args for parts in IDS[name] for part in parts if isinstance(part, ai.ToolCallPart)]
    assert [tool_call["args"] for tool_call in used] == expected
    lengths = [str(len(args["fruit"])) for args in expected if isinstance(args, dict)]  # type: ignore[typeddict-item]
    assert [tool_call["output"] for tool_call in used] == lengths
    parts: list[Any] = [part for message in model.told for part in message.parts]
    calls = [part.tool_call_id for part in parts if isinstance(part, ai.ToolCallPart)]
    assert len({*calls}) == len(calls)
    assert sorted(calls) == sorted(part.tool_call_id for part in parts if isinstance(part, ai.ToolReturnPart))


CALL = '{"name": "price", "arguments": {"fruit": "fig"}}'
TEXTS: dict[str, tuple[str, bool]] = {
    "JSON": (CALL, True),
    "JSON in a fence": (f"```json\n{CALL}\n```", True),
    "tags": (f"<tool_call>\n{CALL}\n</tool_call>", True),
    "a list": (f"[TOOL_CALLS][{CALL}]", True),
    "parameters": (CALL.replace("arguments", "parameters"), True),
    "a function tag": ('<function=price>{"fruit": "fig"}</function>', True),
    "a tool that is not offered": (CALL.replace("price", "weight"), False),
    "words around it": (f"I would call {CALL}.", False),
    "an answer with a name": ('{"name": "price", "fruit": "fig"}', False),
    "a record with arguments": ('{"name": "price", "arguments": {}, "result": 7}', False),
    "words": ("seven", False),
    "a list of nothing": ("[]", False),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_call_that_is_written_as_text_is_reported(name: str) -> None:
    text, is_call = TEXTS[name]
    registry = registry_of(Scripted([ai.TextPart(text)]))
    run = agf.run("{pipeline: p, steps: [{agent: {prompt: hi, identity: clerk}}]}", registry=registry)
    assert run.output == text
    assert [warning.code for warning in run.warnings] == ["model.call-as-text"] * is_call
