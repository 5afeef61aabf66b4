"""Requests and replies translated to pydantic-ai and back, and replies while they arrive.

It is imported with the first request, since the library is slow to import.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import Any, Literal

from pydantic_ai import messages as ai
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import ContentFilterError, ModelAPIError, UnexpectedModelBehavior
from pydantic_ai.models import Model as Made
from pydantic_ai.models import ModelRequestParameters, infer_model
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from ...flow.sessions.session import read_json
from ...values.value import Value
from .messages import Delta, ModelMessage, Reply, Request, Tokens, ToolCall, UserMessage
from .sendable import sendable
from .streams import BrokenOff, Sent, as_text, has_end, stream_reply

MOST_TOKENS = 10**12
"""Tokens of one request; more is a server's mistake."""


_WRAPPED = "answer"
"""The field of the object that wraps any other answer: providers accept only objects."""

_KEPT = (
    "kind",
    "parts",
    "provider_name",
    "provider_url",
    "canonical_system",
    "provider_details",
    "provider_response_id",
    "model_name",
)
"""The parts of a reply that its provider may need in the next request."""

_NATIVE_WITH_TOOLS = frozenset({"openai", "anthropic"})
"""Providers that accept a schema of the answer together with tools. Gemini refuses both, and
servers that compile the schema into a grammar then cannot call tools: these get the answer as a
call of its own."""

_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_SETTINGS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_output_tokens": "max_tokens",
    "stop_sequences": "stop_sequences",
}


def made(provider: str, model: str, base_url: str) -> Made:
    """pydantic-ai's model. Raises the library's UserError, ImportError or ValueError."""
    if base_url and provider == "ollama":
        from pydantic_ai.models.ollama import OllamaModel
        from pydantic_ai.providers.ollama import OllamaProvider

        return OllamaModel(model, provider=OllamaProvider(base_url=base_url))
    if base_url:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        class ServerProvider(OpenAIProvider):
            name = "server"  # what only OpenAI's own service supports is not asked of it

        # Without a key here the provider would send OPENAI_API_KEY to this server.
        return OpenAIChatModel(
            model, provider=ServerProvider(base_url=base_url, api_key="api-key-not-set")
        )
    infer_provider_class(provider)  # raises ValueError for an unknown one
    return infer_model(f"{provider}:{model}")


async def entered(model: Made) -> AsyncGenerator[None]:
    """Hold a model open until this is closed."""
    async with model:
        yield


running_loop = asyncio.get_running_loop  # this is the only module of the room that uses asyncio


async def asked(model: Made, request: Request) -> Reply:
    sent, names = _sent(model, request)
    try:
        response = await model_request(
            sent.model,
            sent.messages,
            model_settings=sent.settings,
            model_request_parameters=sent.parameters,
        )
    except ContentFilterError:
        raise
    except UnexpectedModelBehavior:
        if model.system not in ("server", "ollama", "openai"):
            raise
        streamed = await _only_streamed(sent)
        if streamed is None:
            raise
        response = streamed
    return _reply(response, request, names)


async def streamed(model: Made, request: Request, listen: Callable[[Delta], None]) -> Reply | None:
    """The reply; ``listen`` gets each part of it when it arrives. None: the model replies in one
    piece."""
    sent, names = _sent(model, request)
    response = await stream_reply(sent, listen)
    if response is None:
        return None
    reply = _reply(response, request, names)
    if not has_end(response, model):
        reply["unended"] = True
    return reply


def _sent(model: Made, request: Request) -> tuple[Sent, _Names]:
    """The request as the library takes it."""
    request = sendable(request)
    names = _Names(request)
    parameters = _parameters(model, request, names)
    settings = _settings(model, request, bool(parameters.function_tools))
    return Sent(model, _history(request, names), settings, parameters, names.tool_of), names


async def _only_streamed(sent: Sent) -> ai.ModelResponse | None:
    """The reply of a server that only streams; None if it has another fault."""
    with suppress(BrokenOff, UnexpectedModelBehavior, ModelAPIError):
        response = await stream_reply(sent, lambda delta: None)
        if response is not None and response.parts:
            return response
    return None


class _Names:
    """The names of tools in a form that all providers accept, and back."""

    def __init__(self, request: Request) -> None:
        self.sent: dict[str, str] = {}
        for tool in request.tools:
            self.sent[tool.name] = self._free(_NAME.sub("_", tool.name)[:64])
        self.ours = {sent: name for name, sent in self.sent.items()}
        self.answer = self._free("final_answer")

    def _free(self, name: str) -> str:
        taken = set(self.sent.values())
        return next(
            free
            for free in (name, *(f"{name[:60]}_{i}" for i in range(2, len(taken) + 3)))
            if free not in taken
        )

    def tool_of(self, sent: str) -> str:
        """Our name of a tool; empty for the structured answer."""
        return "" if sent == self.answer else self.ours.get(sent, sent)

    def of(self, name: str) -> str:
        return self.sent.get(name, _NAME.sub("_", name)[:64] or "_")


def _parameters(model: Made, request: Request, names: _Names) -> ModelRequestParameters:
    # The last request offers no tools, except to providers that require the called ones to be
    # declared.
    keeps = not request.last or model.system in ("anthropic", "bedrock")
    tools = [
        ToolDefinition(
            name=names.sent[name],
            parameters_json_schema=dict(accepts),
            description=description or None,
        )
        for name, description, accepts in (request.tools if keeps else ())
    ]
    if request.schema is None:
        return ModelRequestParameters(function_tools=tools)
    schema, can = _wrapped(request.schema), _profile(model)
    if can.get("supports_json_schema_output") and (not tools or model.system in _NATIVE_WITH_TOOLS):
        wanted = OutputObjectDefinition(json_schema=schema, name="final_answer")
        return ModelRequestParameters(
            function_tools=tools, output_mode="native", output_object=wanted
        )
    if not can.get("supports_tools", True):
        return ModelRequestParameters(
            output_mode="prompted", output_object=OutputObjectDefinition(json_schema=schema)
        )
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
    with suppress(NotImplementedError):  # a model that wraps several
        return model.profile
    return {}


def _wrapped(schema: Mapping[str, Any]) -> dict[str, Any]:
    """``schema`` as the schema of an object."""
    plain = {name: value for name, value in schema.items() if name != "$schema"}
    if plain.get("type") == "object":
        return plain
    defs = {"$defs": plain.pop("$defs")} if "$defs" in plain else {}
    return {"type": "object", "properties": {_WRAPPED: plain}, "required": [_WRAPPED], **defs}


def _settings(model: Made, request: Request, tools: bool) -> ModelSettings:
    """The library omits unsupported settings. The engine retries, so that retries can be
    cancelled."""
    named = {
        theirs: request.settings[ours]
        for ours, theirs in _SETTINGS.items()
        if ours in request.settings
    }
    settings: ModelSettings = dict(named)  # type: ignore[assignment]
    if "max_retries" not in model.unsupported_settings:
        settings["max_retries"] = 0
    if tools and request.last:
        settings["tool_choice"] = "none"
    elif tools and request.tool_choice == "required":
        settings["tool_choice"] = "required"
    return settings


def _history(request: Request, names: _Names) -> list[ai.ModelMessage]:
    """The messages so far; those between two replies become one request."""
    found: list[ai.ModelMessage] = []
    waiting: list[ai.ModelRequestPart] = []
    if request.instructions:
        waiting.append(ai.SystemPromptPart(request.instructions))
    for message in request.messages:
        if message["role"] == "model":
            found += [ai.ModelRequest(parts=waiting), _response(message, names)]
            waiting = []
        elif message["role"] == "tool":
            name = names.answer if message["tool"] == "" else names.of(message["tool"])
            outcome: Literal["success", "failed"] = "failed" if message["failed"] else "success"
            waiting.append(ai.ToolReturnPart(name, message["text"], message["id"], outcome=outcome))
        elif message["role"] == "system":
            waiting.append(ai.SystemPromptPart(message["text"]))
        else:
            waiting.append(_user_part(message, request.files))
    return [*found, ai.ModelRequest(parts=waiting)]


def _tokens(count: int) -> int:
    """A server may answer any number; one that no model can have used is no number."""
    return count if 0 <= count < MOST_TOKENS else 0


def _user_part(message: UserMessage, data: Mapping[str, bytes]) -> ai.UserPromptPart:
    """A prompt with its images and documents; a text becomes part of the text, which all models
    accept."""
    if not message.get("files"):
        return ai.UserPromptPart(message["text"])
    parts: list[ai.UserContent] = [message["text"]]
    for file in message["files"]:
        content, name = data[file["sha256"]], file["name"] or "attachment"
        if file["type"] == "text/plain":
            parts.append(f"{name}:\n\n{content.decode('utf-8-sig')}")
        else:
            parts.append(ai.BinaryContent(content, media_type=file["type"]))
    return ai.UserPromptPart(parts)


def _response(message: ModelMessage, names: _Names) -> ai.ModelResponse:
    if "kept" in message:
        (kept,) = ai.ModelMessagesTypeAdapter.validate_python([message["kept"]])
        assert isinstance(kept, ai.ModelResponse), "``kept`` is a reply"
        return kept
    parts: list[ai.ModelResponsePart] = [ai.TextPart(message["text"])] if message["text"] else []
    for call in message["calls"]:
        name = names.of(call["tool"]) if call["tool"] else names.answer
        parts.append(ai.ToolCallPart(name, call["arguments"], call["id"]))
    return ai.ModelResponse(parts=parts)


def _reply(response: ai.ModelResponse, request: Request, names: _Names) -> Reply:
    text = _unwrapped_text(
        "".join(p.content for p in response.parts if isinstance(p, ai.TextPart)), request.schema
    )
    calls = [_call(part, names) for part in response.parts if isinstance(part, ai.ToolCallPart)]
    used = response.usage
    usage: Tokens = {"input": _tokens(used.input_tokens), "output": _tokens(used.output_tokens)}
    if used.cache_read_tokens:
        usage["cache_read"] = _tokens(used.cache_read_tokens)
    if used.cache_write_tokens:
        usage["cache_write"] = _tokens(used.cache_write_tokens)
    reply: Reply = {"text": text, "calls": calls, "usage": usage}
    given = next((call for call in calls if call["tool"] == ""), None)
    if given is not None and "fault" not in given:
        reply["answer"] = _unwrapped(given["arguments"], request.schema)
    if response.finish_reason == "length":
        reply["cut"] = True
    if any(not _plain(part) for part in response.parts):
        (whole,) = ai.ModelMessagesTypeAdapter.dump_python([response], mode="json")
        reply["kept"] = {name: whole[name] for name in _KEPT if whole.get(name) is not None}
    return reply


def _plain(part: Any) -> bool:
    """Whether a text or a call without provider data."""
    known = isinstance(part, ai.TextPart | ai.ToolCallPart)
    return known and not getattr(part, "provider_details", None) and not getattr(part, "id", None)


def _call(part: ai.ToolCallPart, names: _Names) -> ToolCall:
    tool = names.tool_of(part.tool_name)
    read, why = read_json(as_text(part.args) or "{}")
    call: ToolCall = {"id": part.tool_call_id, "tool": tool, "arguments": read}
    if why or not isinstance(read, dict):
        call["arguments"] = part.args
        call["fault"] = f"are not JSON: {why}" if why else "are not a JSON object"
    return call


def _unwrapped_text(text: str, schema: Mapping[str, Any] | None) -> str:
    """A structured answer that is text, without the object that wraps it."""
    if schema is None or schema.get("type") == "object" or _WRAPPED not in text:
        return text
    with suppress(ValueError, RecursionError):
        whole = json.loads(text)
        if isinstance(whole, dict) and {*whole} == {_WRAPPED}:
            return json.dumps(whole[_WRAPPED], ensure_ascii=False)
    return text


def _unwrapped(answer: Value, schema: Mapping[str, Any] | None) -> Value:
    wrapped = schema is not None and schema.get("type") != "object"
    return answer.get(_WRAPPED) if wrapped and isinstance(answer, dict) else answer
