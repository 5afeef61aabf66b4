"""Our requests and replies as pydantic-ai's, and back. Imported when a model is first asked."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic_ai import messages as said
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import ContentFilterError, ModelAPIError, UnexpectedModelBehavior
from pydantic_ai.models import Model as Made
from pydantic_ai.models import ModelRequestParameters, infer_model
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from ..flow.values import TooDeep, Value, is_json, isolate
from .models import Offered, Request

WRAPPED = "answer"
"""The one field of the object that an answer which is no object is asked for in: providers want an object."""

KEPT = ("kind", "parts", "provider_name", "provider_url", "canonical_system", "provider_details",
        "provider_response_id", "model_name")  # fmt: skip
"""What of a reply its provider may want to see again."""

_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_SETTINGS = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "max_output_tokens": "max_tokens",
             "stop_sequences": "stop_sequences"}  # fmt: skip


def made(provider: str, model: str, base_url: str) -> Made:
    """What talks to the provider. Raises the library's UserError, ImportError or ValueError."""
    if base_url and provider == "ollama":
        from pydantic_ai.models.ollama import OllamaModel
        from pydantic_ai.providers.ollama import OllamaProvider

        return OllamaModel(model, provider=OllamaProvider(base_url=base_url))
    if base_url:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        return OpenAIChatModel(model, provider=OpenAICompatibleProvider("server", base_url=base_url))
    infer_provider_class(provider)  # a ValueError for one that it does not know
    return infer_model(f"{provider}:{model}")


def loop() -> asyncio.AbstractEventLoop:
    """The one that a request is about to be made on."""
    return asyncio.get_running_loop()


async def asked(model: Made, request: Request) -> dict[str, Value]:
    """The model's reply, as flow/session.py has it."""
    names = _Names(request)
    messages = _history(request, names)
    parameters = _parameters(model, request, names)
    settings = _settings(model, request, bool(parameters.function_tools))
    try:
        response = await model_request(model, messages, model_settings=settings, model_request_parameters=parameters)
    except ContentFilterError:
        raise
    except UnexpectedModelBehavior:
        if model.system not in ("server", "ollama", "openai"):
            raise
        streamed = await _streamed(model, messages, settings, parameters)
        if streamed is None:
            raise
        response = streamed
    return _reply(response, request, names)


async def _streamed(
    model: Made, messages: list[said.ModelMessage], settings: ModelSettings, parameters: ModelRequestParameters
) -> said.ModelResponse | None:
    """The reply of a server that only streams; None when that is not what is wrong with it."""
    try:
        async with model_request_stream(
            model, messages, model_settings=settings, model_request_parameters=parameters
        ) as stream:
            async for _ in stream:
                pass
            response = stream.get()
    except (UnexpectedModelBehavior, ModelAPIError):
        return None
    return response if response.parts else None


class _Names:
    """Tools by the names that every provider takes, and back."""

    def __init__(self, request: Request) -> None:
        self.sent: dict[str, str] = {}
        for tool in request.tools:
            self.sent[tool.name] = self._free(_NAME.sub("_", tool.name)[:64])
        self.ours = {sent: name for name, sent in self.sent.items()}
        self.answer = self._free("final_answer")

    def _free(self, name: str) -> str:
        taken = set(self.sent.values())
        return next(
            free for free in (name, *(f"{name[:60]}_{i}" for i in range(2, len(taken) + 3))) if free not in taken
        )

    def of(self, name: str) -> str:
        return self.sent.get(name, _NAME.sub("_", name)[:64] or "_")


def _parameters(model: Made, request: Request, names: _Names) -> ModelRequestParameters:
    # In the last request no tool is offered; providers that want those that were called declared may not use them.
    keeps = not request.last or model.system in ("anthropic", "bedrock")
    tools = [_tool(tool, names) for tool in request.tools] if keeps else []
    if request.schema is None:
        return ModelRequestParameters(function_tools=tools)
    schema, can = _wrapped(request.schema), _profile(model)
    if not request.tools and can.get("supports_json_schema_output"):
        wanted = OutputObjectDefinition(json_schema=schema, name="final_answer")
        return ModelRequestParameters(output_mode="native", output_object=wanted)
    if not can.get("supports_tools", True):
        return ModelRequestParameters(output_mode="prompted", output_object=OutputObjectDefinition(json_schema=schema))
    answer = ToolDefinition(
        name=names.answer,
        parameters_json_schema=schema,
        description="Give your answer with this, once you have it.",
        kind="output",
    )
    return ModelRequestParameters(
        function_tools=tools, output_mode="tool", output_tools=[answer], allow_text_output=False
    )


def _profile(model: Made) -> Mapping[str, Any]:
    try:
        return model.profile
    except NotImplementedError:  # one that stands for several
        return {}


def _tool(tool: Offered, names: _Names) -> ToolDefinition:
    name, accepts = names.sent[tool.name], dict(tool.accepts)
    return ToolDefinition(name=name, parameters_json_schema=accepts, description=tool.description or None)


def _wrapped(schema: Mapping[str, Any]) -> dict[str, Any]:
    """``schema`` as an object's."""
    plain = {name: value for name, value in schema.items() if name != "$schema"}
    if plain.get("type") == "object":
        return plain
    defs = {"$defs": plain.pop("$defs")} if "$defs" in plain else {}
    return {"type": "object", "properties": {WRAPPED: plain}, "required": [WRAPPED], **defs}


def _settings(model: Made, request: Request, tools: bool) -> ModelSettings:
    """What is not supported is left out by the library; retrying is the engine's, which can be cancelled."""
    named = {theirs: request.settings[ours] for ours, theirs in _SETTINGS.items() if ours in request.settings}
    settings: ModelSettings = dict(named)  # type: ignore[assignment]
    if "max_retries" not in model.unsupported_settings:
        settings["max_retries"] = 0
    if tools and request.last:
        settings["tool_choice"] = "none"
    elif tools and request.tool_choice == "required":
        settings["tool_choice"] = "required"
    return settings


def _history(request: Request, names: _Names) -> list[said.ModelMessage]:
    """What was said so far; what stands between two replies is one request."""
    found: list[said.ModelMessage] = []
    waiting: list[said.ModelRequestPart] = []
    if request.instructions:
        waiting.append(said.SystemPromptPart(request.instructions))
    for message in request.messages:
        if message["role"] == "model":
            found += [said.ModelRequest(parts=waiting), _response(message, names)]
            waiting = []
        elif message["role"] == "tool":
            name = names.answer if message["tool"] == "" else names.of(message["tool"])
            outcome: Literal["success", "failed"] = "failed" if message["failed"] else "success"
            waiting.append(said.ToolReturnPart(name, message["text"], message["id"], outcome=outcome))
        else:
            waiting.append(said.UserPromptPart(message["text"]))
    return [*found, said.ModelRequest(parts=waiting)]


def _response(message: Mapping[str, Any], names: _Names) -> said.ModelResponse:
    if "kept" in message:
        (kept,) = said.ModelMessagesTypeAdapter.validate_python([message["kept"]])
        assert isinstance(kept, said.ModelResponse), "what is kept is a reply"
        return kept
    parts: list[said.ModelResponsePart] = [said.TextPart(message["text"])] if message["text"] else []
    for call in message["calls"]:
        name = names.of(call["tool"]) if call["tool"] else names.answer
        parts.append(said.ToolCallPart(name, call["arguments"], call["id"]))
    return said.ModelResponse(parts=parts)


def _reply(response: said.ModelResponse, request: Request, names: _Names) -> dict[str, Value]:
    text = "".join(part.content for part in response.parts if isinstance(part, said.TextPart))
    calls = [_call(part, names) for part in response.parts if isinstance(part, said.ToolCallPart)]
    usage = {"input": response.usage.input_tokens, "output": response.usage.output_tokens}
    reply: dict[str, Value] = {"text": text, "calls": calls, "usage": usage}
    given = next((call for call in calls if call["tool"] == ""), None)
    if given is not None and "fault" not in given:
        reply["answer"] = _unwrapped(given["arguments"], request.schema)
    if response.finish_reason == "length":
        reply["cut"] = True
    if any(not _plain(part) for part in response.parts):
        (whole,) = said.ModelMessagesTypeAdapter.dump_python([response], mode="json")
        reply["kept"] = {name: whole[name] for name in KEPT if whole.get(name) is not None}
    return reply


def _plain(part: Any) -> bool:
    """Whether a part says no more than our own form of it."""
    known = isinstance(part, said.TextPart | said.ToolCallPart)
    return known and not getattr(part, "provider_details", None) and not getattr(part, "id", None)


def _call(part: said.ToolCallPart, names: _Names) -> dict[str, Value]:
    """A call; that which gives the answer has no tool's name."""
    tool = "" if part.tool_name == names.answer else names.ours.get(part.tool_name, part.tool_name)
    call: dict[str, Value] = {"id": part.tool_call_id, "tool": tool}
    read = part.args if part.args is not None else {}
    try:
        read = json.loads(read or "{}") if isinstance(read, str) else read
        found = isolate(read)
        why = "" if isinstance(found, dict) and is_json(found) else "are no JSON object"
    except json.JSONDecodeError as error:
        why = f"are not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
    except (TooDeep, RecursionError, ValueError):
        why = "nest too deep, or hold a number that is too long"
    return {**call, "arguments": part.args, "fault": why} if why else {**call, "arguments": found}


def _unwrapped(answer: Value, schema: Mapping[str, Any] | None) -> Value:
    wrapped = schema is not None and schema.get("type") != "object"
    return answer.get(WRAPPED) if wrapped and isinstance(answer, dict) else answer
