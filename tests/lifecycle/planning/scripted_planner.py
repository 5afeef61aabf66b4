"""A scripted model that replies with one plan after another, and records the requests that it received."""

from __future__ import annotations

import json
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

Turn = dict[str, Any] | str | BaseException


def plan(*calls: dict[str, Any], output: Any = None) -> dict[str, Any]:
    return {"calls": list(calls), "output": output}


def call(tool: str, path: str | None = None, **arguments: Any) -> dict[str, Any]:
    return {"_tool": tool, **arguments, **({"_outputPath": path} if path else {})}


class Planner:
    """A model that gives its turns in order, and repeats the last one."""

    def __init__(self, *turns: Turn) -> None:
        self.turns = turns
        self.asked: list[tuple[list[ModelMessage], AgentInfo]] = []

    @property
    def model(self) -> FunctionModel:
        async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            turn = self.turns[min(len(self.asked), len(self.turns) - 1)]
            self.asked.append((messages, info))
            if isinstance(turn, BaseException):
                raise turn
            if isinstance(turn, dict) and info.output_tools:
                return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, turn)])
            return ModelResponse(parts=[TextPart(turn if isinstance(turn, str) else json.dumps(turn))])

        return FunctionModel(answer)

    @property
    def prompts(self) -> list[str]:
        """The last text of each request."""
        return [str(getattr(messages[-1].parts[-1], "content", "")) for messages, _ in self.asked]

    @property
    def schema(self) -> dict[str, Any]:
        """The schema of a reply, as the last request has it."""
        parameters = self.asked[0][1].model_request_parameters
        schema = (
            parameters.output_object.json_schema
            if parameters.output_object
            else parameters.output_tools[0].parameters_json_schema
        )
        return dict(schema)

    @property
    def received(self) -> str:
        """Everything that the model ever received."""
        parts = [
            repr([part.content if hasattr(part, "content") else part for message in messages for part in message.parts])
            + json.dumps(self.schema, ensure_ascii=False)
            for messages, _ in self.asked
        ]
        return "\n".join(parts)
