"""Runs a whole policy that a vector row describes: its agents, its tools, its transforms and its input."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import agf_magics as agf
from agf_magics.engine.host.host import NoUser
from agf_magics.flow.progress.question import Question
from tests.engine.virtual_time import run_virtual

if TYPE_CHECKING:
    from pydantic_ai.models.function import AgentInfo

TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}


class Agents:
    """The names that the sources of a row may use, and the calls of the agents and tools.

    A source is a Python lambda over the input object. It may use the coroutines ``sleep(seconds, value)``, in virtual
    time, and ``meet(value)``, which returns when every agent of the row waits in it. Agents that do not overlap wait
    there for ever.
    """

    def __init__(self, row: Mapping[str, Any]) -> None:
        self.row = row
        self.calls: list[list[Any]] = []
        self.tools: list[list[Any]] = []
        """The tools that were called, with their results."""
        self.script = Script(row.get("model", []))
        self._barrier: asyncio.Barrier | None = None

    async def sleep(self, seconds: float, value: Any) -> Any:
        await asyncio.sleep(seconds)
        return value

    async def meet(self, value: Any) -> Any:
        if self._barrier is None:
            self._barrier = asyncio.Barrier(len(self.row["agents"]))
        await self._barrier.wait()
        return value

    def function(self, name: str, source: str) -> Callable[..., Any]:
        answer = eval(source, {"sleep": self.sleep, "meet": self.meet})

        def call(fields):  # type: ignore[no-untyped-def]  # without an annotation it gets the whole input
            self.calls.append([name, copy.deepcopy(fields)])
            return answer(fields)

        def by_field(**fields: Any) -> Any:
            return call(fields)

        schema = self.row.get("schemas", {}).get(name)
        if schema is None:
            return call
        by_field.__signature__ = inspect.Signature(_parameters(schema))  # type: ignore[attr-defined]
        return by_field

    def tool(self, name: str, answer: Callable[[Any], Any]) -> Callable[..., Any]:
        def call(**arguments: Any) -> Any:
            value = answer(arguments)
            self.tools.append([name, value])
            return value

        return call

    def registry(self) -> agf.Registry:
        registry = agf.Registry()
        if "model" in self.row:
            registry.choose(self.script.model())
        for name, source in self.row.get("agents", {}).items():
            # The tools run on the loop, so the calls are in the order of the definition.
            agf.agent(self.function(name, source), name=name, registry=registry, where="loop")
        for name, source in self.row.get("tools", {}).items():
            agf.tool(self.tool(name, eval(source)), name=name, registry=registry, where="loop")
        for name, source in self.row.get("transforms", {}).items():
            agf.transform(eval(source), name=name, registry=registry, where="loop")
        return registry


def _parameters(schema: Mapping[str, Any]) -> list[inspect.Parameter]:
    """The parameters that a JSON Schema describes."""
    kind, required = inspect.Parameter.KEYWORD_ONLY, schema.get("required", [])
    return [
        inspect.Parameter(
            name,
            kind,
            annotation=TYPES[schema_of_field["type"]],
            default=schema_of_field.get("default", inspect.Parameter.empty if name in required else None),
        )
        for name, schema_of_field in schema["properties"].items()
    ]


class Script:
    """A model that gives the replies of its row in order, and repeats the last one."""

    def __init__(self, turns: Sequence[Mapping[str, Any]]) -> None:
        self.turns = turns
        self.asked: list[AgentInfo] = []
        self.told: list[str] = []
        """The instructions of each request."""
        self.prompts: list[str] = []
        """The first message of each request."""
        self.heard: list[str] = []
        """The results of tools in each request."""

    def model(self) -> Any:
        from pydantic_ai.models.function import FunctionModel

        return FunctionModel(self.answer)

    async def answer(self, messages: list[Any], info: AgentInfo) -> Any:
        from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

        turn = self.turns[min(len(self.asked), len(self.turns) - 1)]
        self.asked.append(info)
        self.told.append(_said(messages[:1], "system-prompt"))
        self.prompts.append(_said(messages[:1], "user-prompt"))
        self.heard.append(_said(messages, "tool-return", "retry-prompt"))
        if "output" in turn:
            text = turn["output"] if isinstance(turn["output"], str) else json.dumps(turn["output"])
            return ModelResponse(parts=[TextPart(text)])
        return ModelResponse(parts=[ToolCallPart(call["tool"], call["args"]) for call in turn["tool_calls"]])


def _said(messages: Sequence[Any], *kinds: str) -> str:
    return " ".join(str(part.content) for message in messages for part in message.parts if part.part_kind in kinds)


# --- policies as texts ---

HEAD = """schema_version: "1.0.0"
metadata: {id: t, name: T, version: "1.0.0", description: a test}
"""
OPEN = "interface: {input: {}, output: {}}\n"


def sequential(*aliases: str) -> str:
    steps = ", ".join(f"{{agent: {alias}}}" for alias in aliases)
    return f"execution_policy: {{id: agf.sequential, config: {{steps: [{steps}]}}}}\n"


def registry_of(**agents: Callable[[Any], Any]) -> agf.Registry:
    registry = agf.Registry()
    for name, function in agents.items():
        agf.agent(function, name=name, registry=registry, where="loop")
    return registry


def run(text: str | Path, fields: Mapping[str, Any] | None = None, *, registry: agf.Registry, **more: Any) -> agf.Run:
    flow = agf.load(text, registry=registry)
    run_made: agf.Run = run_virtual(agf.arun(flow, dict(fields or {}), registry=registry, **more))
    return run_made


def failure(text: str | Path, fields: Mapping[str, Any] | None = None, **more: Any) -> agf.StepError:
    with pytest.raises(agf.StepError) as caught:
        run(text, fields, **more)
    return caught.value


def echo(fields):  # type: ignore[no-untyped-def]
    return fields


def definition(policy: str, agents: str, name: str = "t", interface: str = OPEN, more: str = "") -> str:
    head = HEAD.replace("id: t", f"id: {name}")
    return f"{head}{interface}{more}action_space: {{local_agents: [{agents}]}}\n{policy}"


def recording_asker(answers: Any) -> tuple[list[str], Callable[[Question], Any]]:
    questions: list[str] = []

    def ask(question: Question) -> Any:
        assert question.approval
        questions.append(question.text)
        if answers is NoUser:
            raise NoUser
        return answers

    return questions, ask
