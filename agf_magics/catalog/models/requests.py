"""Translates requests for pydantic-ai, sends them, and reads the replies.

This module is imported with the first request, because pydantic-ai is slow to import.
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

from .answer_schemas import wrap_schema
from .http_answers import Heard, hearing
from .messages import Delta, ModelMessage, Reply, Request, UserMessage
from .replies import Response, read_reply
from .sendable import sendable
from .streams import Sent, stream_reply
from .tool_names import ToolNames

_NATIVE_WITH_TOOLS = frozenset({"openai", "anthropic"})
"""Providers that accept a schema of the answer together with tools. Gemini refuses the combination,
and servers that compile the schema into a grammar cannot call tools then. From other providers, the
answer is requested as a call."""

_SETTINGS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_output_tokens": "max_tokens",
    "stop_sequences": "stop_sequences",
}
"""pydantic-ai's names of the settings, by ours."""


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
            name = "server"  # prevents features that only OpenAI's own service supports

        # Without this key, the provider would send OPENAI_API_KEY to the server.
        return OpenAIChatModel(
            model, provider=ServerProvider(base_url=base_url, api_key="api-key-not-set")
        )
    infer_provider_class(provider)  # raises ValueError for an unknown provider
    return infer_model(f"{provider}:{model}")


async def hold_open(model: LibraryModel) -> AsyncGenerator[None]:
    """Keep the connections of a model open until this generator is closed."""
    async with model:
        yield


running_loop = asyncio.get_running_loop  # this is the only module of the room that uses asyncio


async def request_whole(model: LibraryModel, request: Request, name: str) -> tuple[Reply, bool]:
    """The reply in one piece, and whether the server only streams: then it was asked again for a
    stream. ``name``: the name of the model, for messages."""
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
            return _with_discarded(read_reply(response, request, names), heard), True
    return read_reply(Response(reply, model, name, heard), request, names), False


def _with_discarded(reply: Reply, heard: Heard) -> Reply:
    """``reply`` with the tokens of the answer before it, which could not be read and is paid for all
    the same (decision D130)."""
    read, written = heard.tokens.used()
    reply["usage"]["input"] += read
    reply["usage"]["output"] += written
    return reply


async def request_stream(
    model: LibraryModel, request: Request, name: str, listen: Callable[[Delta], None]
) -> tuple[Reply, bool]:
    """The reply, of which ``listen`` gets each part when it arrives, and whether the model streams: if
    it does not, it was asked again. ``name``: the name of the model, for messages."""
    sent, names = _translate(model, request)
    with hearing() as heard:
        reply = await stream_reply(sent, heard, listen)
    if reply is None:
        whole, _ = await request_whole(model, request, name)
        return _with_discarded(whole, heard), False
    return read_reply(Response(reply, model, name, heard, streamed=True), request, names), True


def _translate(model: LibraryModel, request: Request) -> tuple[Sent, ToolNames]:
    """The request in the types of pydantic-ai, and the names of its tools."""
    request = sendable(request)
    names = ToolNames(request)
    parameters = _parameters(model, request, names)
    names.offers_answer = bool(parameters.output_tools)
    settings = _settings(model, request, bool(parameters.function_tools))
    return Sent(model, _history(request, names), settings, parameters, names.tool_of), names


async def _stream_silently(sent: Sent, name: str) -> Response | None:
    """The reply of a server that can only stream; None if the server has another fault. Raises as a
    broken-off reply does, or the error that the server sends in place of a reply."""
    with hearing() as heard, suppress(UnexpectedModelBehavior):
        reply = await stream_reply(sent, heard, lambda delta: None)
        if reply is not None and reply.parts:
            return Response(reply, sent.model, name, heard, streamed=True)
    return None


def _parameters(model: LibraryModel, request: Request, names: ToolNames) -> ModelRequestParameters:
    """The tools of a request, and the form in which the structured answer is requested."""
    # The last request offers no tools, except to providers that require the declaration of called
    # tools.
    keeps = not request.last or model.system in ("anthropic", "bedrock")
    tools = [
        ToolDefinition(
            name=names.sent_names[name],
            parameters_json_schema=dict(accepts),
            description=names.described(name, description) or None,
        )
        for name, description, accepts in (request.tools if keeps else ())
    ]
    if request.schema is None:
        return ModelRequestParameters(function_tools=tools)
    schema = wrap_schema(request.schema)
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
    """The abilities of a model, as pydantic-ai knows them."""
    with suppress(NotImplementedError):  # the model wraps several models
        return model.profile
    return {}


def _settings(model: LibraryModel, request: Request, tools: bool) -> ModelSettings:
    """The settings of a request; pydantic-ai omits unsupported ones. The library does not retry,
    because the engine does, and can cancel its retries."""
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
    """The messages so far. All messages between two replies become one request."""
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
    """A prompt with its images and documents. Text documents become part of the prompt's text,
    which all models accept."""
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
    """An earlier reply of the model in the types of pydantic-ai."""
    if "kept" in message:
        (provider_reply,) = ai.ModelMessagesTypeAdapter.validate_python([message["kept"]])
        assert isinstance(provider_reply, ai.ModelResponse), "``kept`` is a reply"
        return provider_reply
    parts: list[ai.ModelResponsePart] = [ai.TextPart(message["text"])] if message["text"] else []
    for call in message["calls"]:
        name = names.of(call["tool"]) if call["tool"] else names.answer
        parts.append(ai.ToolCallPart(name, call["arguments"], call["id"]))
    return ai.ModelResponse(parts=parts)
