"""A model of pydantic-ai that answers from a recording, for user code that calls that library
itself.

A recorded request is found by its conversation: instructions, texts, calls and their results. The
ids of calls and the schemas of tools do not count, because they differ from run to run.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from pydantic_ai import messages as ai
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage

from ...values.value import Value
from .messages import Reply

Conversation = list[Value]
"""The role, the text and the calls of each message."""


def recorded_model(name: str, ask: Callable[[Conversation], Reply]) -> Model:
    """A model whose replies come from ``ask``. Errors of ``ask`` pass through."""

    def reply(messages: list[ai.ModelMessage], info: AgentInfo) -> ai.ModelResponse:
        return _to_response(ask(_read_conversation(messages, info)), info)

    async def stream(
        messages: list[ai.ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        for index, part in enumerate(reply(messages, info).parts):
            if isinstance(part, ai.TextPart):
                yield part.content
            elif isinstance(part, ai.ToolCallPart):
                call = DeltaToolCall(
                    part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id
                )
                yield {index: call}

    return FunctionModel(reply, stream_function=stream, model_name=name)


def conversation_of(request: Any) -> Conversation:
    """The conversation of a recorded request."""
    conversation: Conversation = []
    _add(conversation, "system", str(request.get("instructions", "")))
    for message in request["messages"]:
        calls: Value = [[call["tool"], call["arguments"]] for call in message.get("calls", ())]
        name = message.get("tool")
        _add(
            conversation,
            message["role"] if name is None else f"tool {name}",
            message["text"],
            calls,
        )
    return conversation


def _read_conversation(messages: list[ai.ModelMessage], info: AgentInfo) -> Conversation:
    answers = {tool.name for tool in info.output_tools}
    conversation: Conversation = []
    _add(conversation, "system", info.instructions or "")
    for message in messages:
        if isinstance(message, ai.ModelResponse):
            calls: Value = [
                ["" if part.tool_name in answers else part.tool_name, part.args_as_dict()]
                for part in message.parts
                if isinstance(part, ai.ToolCallPart)
            ]
            _add(conversation, "model", message.text or "", calls)
            continue
        for part in message.parts:
            match part:
                case ai.SystemPromptPart(content=text):
                    _add(conversation, "system", text)
                case ai.UserPromptPart(content=content):
                    texts = [content] if isinstance(content, str) else content
                    text = "\n\n".join(piece for piece in texts if isinstance(piece, str))
                    _add(conversation, "user", text)
                case ai.RetryPromptPart(tool_name=None):
                    _add(conversation, "user", part.model_response())
                case ai.ToolReturnPart(tool_name=name) | ai.RetryPromptPart(tool_name=name):
                    text = (
                        part.model_response()
                        if isinstance(part, ai.RetryPromptPart)
                        else part.model_response_str()
                    )
                    _add(conversation, f"tool {'' if name in answers else name}", text)
    return conversation


def _add(conversation: Conversation, role: str, text: str, calls: Value = ()) -> None:
    if role == "system" and not text:
        return
    message: list[Value] = [role, text, list(calls or ())]
    # Instructions may be one text or several system prompts, which the model reads as the same.
    if (
        role == "system"
        and conversation
        and isinstance(conversation[-1], list)
        and conversation[-1][0] == role
    ):
        conversation[-1][1] = f"{conversation[-1][1]}\n\n{text}"
    else:
        conversation.append(message)


def _to_response(reply: Reply, info: AgentInfo) -> ai.ModelResponse:
    output = info.output_tools[0].name if info.output_tools else ""
    parts: list[ai.ModelResponsePart] = [
        ai.ToolCallPart(call["tool"] or output, json.dumps(call["arguments"]), call["id"])
        for call in reply["calls"]
    ]
    # The recorded model wrote its answer as text, but the agent expects a call.
    if not parts and output and not info.allow_text_output:
        parts = [ai.ToolCallPart(output, reply["text"])]
    elif reply["text"]:
        parts.insert(0, ai.TextPart(reply["text"]))
    used = reply["usage"]
    usage = RequestUsage(input_tokens=used["input"], output_tokens=used["output"])
    return ai.ModelResponse(parts=parts, usage=usage)
