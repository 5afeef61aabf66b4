"""Requests translated to pydantic-ai, and replies as it reads them.

It is imported with the first request, since the library is slow to import.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import Any, Literal

from pydantic_ai import messages as ai
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import ContentFilterError, UnexpectedModelBehavior
from pydantic_ai.models import Model as LibraryModel
from pydantic_ai.models import ModelRequestParameters, infer_model
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from .http_answers import hearing
from .messages import Delta, ModelMessage, Reply, Request, UserMessage
from .replies import WRAPPED, Response, read_reply
from .sendable import sendable
from .streams import Sent, stream_reply
from .tool_names import ToolNames

_NATIVE_WITH_TOOLS = frozenset({"openai", "anthropic"})
"""Providers that accept a schema of the answer together with tools. Gemini refuses both, and
servers that compile the schema into a grammar then cannot call tools: these get the answer as a
call of its own."""

_SETTINGS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_output_tokens": "max_tokens",
    "stop_sequences": "stop_sequences",
}


def library_model(provider: str, model: str, base_url: str) -> LibraryModel:
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


async def hold_open(model: LibraryModel) -> AsyncGenerator[None]:
    """Hold a model open until this is closed."""
    async with model:
        yield


running_loop = asyncio.get_running_loop  # this is the only module of the room that uses asyncio


async def request_whole(model: LibraryModel, request: Request, name: str) -> Reply:
    """The reply in one piece. ``name``: of the model, for messages."""
    sent, names = _translate(model, request)
    with hearing() as heard:
        try:
            reply = await model_request(
                sent.model,
                sent.messages,
                model_settings=sent.settings,
                model_request_parameters=sent.parameters,
            )
        except ContentFilterError:
            raise
        except UnexpectedModelBehavior:
            if heard.kind != "pieces":
                raise
            response = await _stream_silently(sent, name)
            if response is None:
                raise
            return read_reply(response, request, names)
    return read_reply(Response(reply, model, name, heard), request, names)


async def request_stream(
    model: LibraryModel, request: Request, name: str, listen: Callable[[Delta], None]
) -> Reply | None:
    """The reply; ``listen`` gets each part of it when it arrives. None: the model replies in one
    piece. ``name``: of the model, for messages."""
    sent, names = _translate(model, request)
    with hearing() as heard:
        reply = await stream_reply(sent, heard, listen)
    if reply is None:
        return None
    return read_reply(Response(reply, model, name, heard, streamed=True), request, names)


def _translate(model: LibraryModel, request: Request) -> tuple[Sent, ToolNames]:
    """The request as the library takes it."""
    request = sendable(request)
    names = ToolNames(request)
    parameters = _parameters(model, request, names)
    names.offers_answer = bool(parameters.output_tools)
    settings = _settings(model, request, bool(parameters.function_tools))
    return Sent(model, _history(request, names), settings, parameters, names.tool_of), names


async def _stream_silently(sent: Sent, name: str) -> Response | None:
    """The reply of a server that only streams; None if it has another fault. Raises what a reply
    that breaks off raises, and the error that the server sends instead of one."""
    with hearing() as heard, suppress(UnexpectedModelBehavior):
        reply = await stream_reply(sent, heard, lambda delta: None)
        if reply is not None and reply.parts:
            return Response(reply, sent.model, name, heard, streamed=True)
    return None


def _parameters(model: LibraryModel, request: Request, names: ToolNames) -> ModelRequestParameters:
    """The tools of a request, and how its structured answer is asked for."""
    # The last request offers no tools, except to providers that require the called ones to be
    # declared.
    keeps = not request.last or model.system in ("anthropic", "bedrock")
    tools = [
        ToolDefinition(
            name=names.sent_names[name],
            parameters_json_schema=dict(accepts),
            description=description or None,
        )
        for name, description, accepts in (request.tools if keeps else ())
    ]
    if request.schema is None:
        return ModelRequestParameters(function_tools=tools)
    schema = _wrap_schema(request.schema)
    profile = _profile(model)
    is_native = profile.get("supports_json_schema_output")
    if is_native and (not tools or model.system in _NATIVE_WITH_TOOLS):
        output = OutputObjectDefinition(json_schema=schema, name="final_answer")
        return ModelRequestParameters(
            function_tools=tools, output_mode="native", output_object=output
        )
    if not profile.get("supports_tools", True):
        output = OutputObjectDefinition(json_schema=schema)
        return ModelRequestParameters(output_mode="prompted", output_object=output)
    answer = ToolDefinition(
        name=names.answer,
        parameters_json_schema=schema,
        description="Give your answer with this, once you have it.",
        kind="output",
    )
    return ModelRequestParameters(
        function_tools=tools, output_mode="tool", output_tools=[answer], allow_text_output=False
    )


def _profile(model: LibraryModel) -> Mapping[str, Any]:
    """What the library knows of the abilities of a model."""
    with suppress(NotImplementedError):  # a model that wraps several
        return model.profile
    return {}


def _wrap_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """``schema`` as the schema of an object."""
    plain = {name: value for name, value in schema.items() if name != "$schema"}
    if plain.get("type") == "object":
        return plain
    defs = {"$defs": plain.pop("$defs")} if "$defs" in plain else {}
    return {"type": "object", "properties": {WRAPPED: plain}, "required": [WRAPPED], **defs}


def _settings(model: LibraryModel, request: Request, tools: bool) -> ModelSettings:
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


def _history(request: Request, names: ToolNames) -> list[ai.ModelMessage]:
    """The messages so far; those between two replies become one request."""
    messages: list[ai.ModelMessage] = []
    waiting: list[ai.ModelRequestPart] = []
    if request.instructions:
        waiting.append(ai.SystemPromptPart(request.instructions))
    for message in request.messages:
        if message["role"] == "model":
            messages += [ai.ModelRequest(parts=waiting), _response(message, names)]
            waiting = []
        elif message["role"] == "tool":
            name = names.answer if message["tool"] == "" else names.of(message["tool"])
            outcome: Literal["success", "failed"] = "failed" if message["failed"] else "success"
            waiting.append(ai.ToolReturnPart(name, message["text"], message["id"], outcome=outcome))
        elif message["role"] == "system":
            waiting.append(ai.SystemPromptPart(message["text"]))
        else:
            waiting.append(_user_part(message, request.files))
    return [*messages, ai.ModelRequest(parts=waiting)]


def _user_part(message: UserMessage, data: Mapping[str, bytes]) -> ai.UserPromptPart:
    """A prompt with its images and documents; a text becomes part of the text, which all models
    accept."""
    if not message.get("files"):
        return ai.UserPromptPart(message["text"])
    parts: list[ai.UserContent] = [message["text"]]
    for file in message["files"]:
        content = data[file["sha256"]]
        name = file["name"] or "attachment"
        if file["type"] == "text/plain":
            parts.append(f"{name}:\n\n{content.decode('utf-8-sig')}")
        else:
            parts.append(ai.BinaryContent(content, media_type=file["type"]))
    return ai.UserPromptPart(parts)


def _response(message: ModelMessage, names: ToolNames) -> ai.ModelResponse:
    """A reply of the model as the library had it."""
    if "kept" in message:
        (kept,) = ai.ModelMessagesTypeAdapter.validate_python([message["kept"]])
        assert isinstance(kept, ai.ModelResponse), "``kept`` is a reply"
        return kept
    parts: list[ai.ModelResponsePart] = [ai.TextPart(message["text"])] if message["text"] else []
    for call in message["calls"]:
        name = names.of(call["tool"]) if call["tool"] else names.answer
        parts.append(ai.ToolCallPart(name, call["arguments"], call["id"]))
    return ai.ModelResponse(parts=parts)
