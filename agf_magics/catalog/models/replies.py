"""Converts a provider's response to a `Reply`, and decides whether it is an answer (decision D130).

The rules are the same for all models, for streams and replies in one piece. A response that the
provider refused, filtered, failed or broke off raises `ModelFault`. A reply without content is
marked, and the session asks once more. Calls without a name, or of a tool that was not offered,
stay in the reply: the model gets an error and may correct itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai import messages as ai
from pydantic_ai.models import Model as Made

from ...flow.sessions.session import read_json
from ...values.value import Value
from .answer_schemas import WRAPPED
from .errors import breaks_off, filter_fault, server_failed
from .http_answers import Heard
from .messages import Delta, Reply, Request, Tokens, ToolCall
from .model_fault import ModelFault
from .reasoning import split_reasoning
from .streams import as_text, begin_call, end_call
from .tool_names import ToolNames

MOST_TOKENS = 10**12
"""The largest number of tokens of one request. A larger number is a server's mistake."""

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
"""The parts of a reply that the provider may need in the next request."""

_MARKS_END = frozenset({"openai", "anthropic", "google", "google-gla", "google-vertex", "azure"})
"""Providers that end each reply with the reason of its end."""

_MARKS_STREAMS = frozenset({"server", "ollama", "deepseek", "openrouter", "groq", "mistral"})
"""Providers that do it in streams. For a reply in one piece, its JSON shows that it is complete."""

_AROUND_CALL = re.compile(
    r"```(?:json)?|</?tool_calls?>|\[TOOL_CALLS\]|<\|(?:tool_call|python_tag)\|>"
)
_CALL_BEGINS = re.compile(r"<function=([\w.-]+)>")
_ARGUMENTS = frozenset({"arguments", "parameters", "args"})
"""The keys of the arguments in a call that a model writes as text."""

_NOT_ENDED = frozenset({"in_progress", "queued", "incomplete"})
"""The reasons of an end that mean that the reply has not ended."""
_FILTERED = frozenset(
    [
        "content_filter",
        "content_filtered",
        "refusal",
        "refused",
        "safety",
        "recitation",
        "prohibited_content",
        "blocklist",
        "spii",
        "guardrail_intervened",
        "sensitive",
    ]
)
"""The reasons of an end that mean a filter, in lower case, also in the words that proxies pass
on."""


@dataclass(frozen=True, slots=True)
class Response:
    """A response as pydantic-ai read it, with the facts about its arrival."""

    response: ai.ModelResponse
    model: Made
    name: str
    """The name of the model, for messages."""
    heard: Heard
    streamed: bool = False

    @property
    def details(self) -> Mapping[str, Any]:
        return self.response.provider_details or {}

    @property
    def why(self) -> str:
        """The reason of the end in the provider's words; empty: the provider gave none."""
        return str(self.details.get("finish_reason") or "")

    @property
    def spoken(self) -> tuple[str, str]:
        """The reasoning in the text, and the rest of the text."""
        text = self.written
        heard = self.heard.text or ""
        # In the Chat protocol, pydantic-ai removes tags from any place of the text.
        return split_reasoning(heard if "<think" in heard else text)

    @property
    def written(self) -> str:
        """The text as pydantic-ai read it."""
        return "".join(
            part.content for part in self.response.parts if isinstance(part, ai.TextPart)
        )


def read_reply(response: Response, request: Request, names: ToolNames) -> Reply:
    """The reply in ``response``. Raises ModelFault if it is unusable and the model is not asked
    again."""
    library_reply = _with_distinct_ids(response.response, request)
    usage = _usage(library_reply)
    calls = [
        _call(part, names) for part in library_reply.parts if isinstance(part, ai.ToolCallPart)
    ]
    reasoning, text = response.spoken
    if fault := _not_an_answer(response, text, bool(calls)):
        fault.used = usage
        fault.parts = tuple(_parts(library_reply, reasoning, text, names))
        raise fault
    reply: Reply = {"text": _unwrap_text(text, request.schema), "calls": calls, "usage": usage}
    # The answer is the call without the name of a tool.
    answer_call = next((call for call in calls if call["tool"] == ""), None)
    if answer_call is not None and "fault" not in answer_call:
        reply["answer"] = _unwrap(answer_call["arguments"], request.schema)
    if library_reply.finish_reason == "length":
        reply["cut"] = True
    if response.streamed and not _has_reason(response):
        reply["unended"] = True
    if not calls and not text.strip():
        reply["empty"] = _what_is_there(response)
    elif (
        not calls
        and request.schema is None
        and (tool := _tool_written_as_text(text, request, names))
    ):
        reply["written_call"] = tool
    if reasoning:
        reply["thinking"] = reasoning
    if any(not _plain(part) for part in library_reply.parts):
        (whole,) = ai.ModelMessagesTypeAdapter.dump_python([library_reply], mode="json")
        reply["kept"] = {name: whole[name] for name in _KEPT if whole.get(name) is not None}
    return reply


def _parts(
    response: ai.ModelResponse, reasoning: str, text: str, names: ToolNames
) -> Iterator[Delta]:
    """The parts of a reply, as a listener gets them while they arrive. ``reasoning``: what the text
    has; ``text``: its rest."""
    for part in response.parts:
        if isinstance(part, ai.ThinkingPart):
            yield Delta("thinking", part.content)
    yield Delta("thinking", reasoning)
    yield Delta("text", text)
    for part in response.parts:
        if isinstance(part, ai.ToolCallPart):
            yield from begin_call(names.tool_of(part.tool_name), part.args)
            yield end_call(part.args)


def _with_distinct_ids(response: ai.ModelResponse, request: Request) -> ai.ModelResponse:
    """``response`` with unique ids for the calls of the session (decision D191). Results refer to
    calls by id, but some servers send no ids, or count anew in each reply."""
    seen = {
        call["id"]
        for message in request.messages
        if message["role"] == "model"
        for call in message["calls"]
    }
    parts: list[Any] = []
    for part in response.parts:
        if isinstance(part, ai.ToolCallPart):
            reply_id = part.tool_call_id or "call"
            number = 2
            call_id = reply_id if part.tool_call_id else "call-1"
            while call_id in seen:
                call_id = f"{reply_id}-{number}"
                number = number + 1
            seen.add(call_id)
            if call_id != part.tool_call_id:
                part = replace(part, tool_call_id=call_id)
        parts.append(part)
    return replace(response, parts=parts)


def _not_an_answer(response: Response, text: str, has_calls: bool) -> ModelFault | None:
    """The error for a response that is unusable; None: it is usable, or the model is asked
    again."""
    library_reply = response.response
    why = response.why
    details = response.details
    if library_reply.finish_reason == "content_filter" or why.lower() in _FILTERED:
        words = details.get("refusal") or details.get("block_reason_message") or text.strip()
        words = words or why or details.get("block_reason") or "no reason"
        return filter_fault(response.name, str(words))
    if library_reply.finish_reason == "error" or why.lower() in ("error", "failed"):
        return server_failed(response.name, text.strip() or why or "it does not say why")
    is_silent = not text and not has_calls
    if not _has_reason(response) and not (
        response.heard.is_done or (is_silent and not response.streamed)
    ):
        return breaks_off(response.name)
    return None


def _tool_written_as_text(text: str, request: Request, names: ToolNames) -> str | None:
    """The name of the offered tool, if the whole text is its call in JSON or between tags; else
    None."""
    offered = {tool.name for tool in request.tools}
    if not offered:
        return None
    name: object = None
    if begin := _CALL_BEGINS.match(text.strip()):
        name = begin[1]
    else:
        with suppress(ValueError, RecursionError):
            read = json.loads(_AROUND_CALL.sub("", text))
            call = read[0] if isinstance(read, list) and read else read
            if isinstance(call, dict) and len(_ARGUMENTS & call.keys()) == 1:
                name = (
                    call.get("name") if call.keys() <= _ARGUMENTS | {"name", "id", "type"} else None
                )
    called = names.tool_of(name) if isinstance(name, str) else None
    return called if called in offered else None


def _has_reason(response: Response) -> bool:
    """Whether the reply has the reason of its end, if its protocol requires one."""
    if not response.streamed and not response.heard.kind:
        return True  # a model object without a server always replies completely
    system = response.model.system
    says = system in _MARKS_END or (response.streamed and system in _MARKS_STREAMS)
    return not says or (bool(response.why) and response.why not in _NOT_ENDED)


def _what_is_there(response: Response) -> str:
    """The words for the content of an empty reply."""
    if response.response.finish_reason == "length":
        return "nothing: it reached its maximum number of tokens before its answer"
    parts = response.response.parts
    has_reasoning = any(isinstance(part, ai.ThinkingPart) for part in parts)
    return "reasoning only" if has_reasoning or response.written.strip() else "nothing"


def _usage(response: ai.ModelResponse) -> Tokens:
    used = response.usage
    usage: Tokens = {"input": _tokens(used.input_tokens), "output": _tokens(used.output_tokens)}
    if used.cache_read_tokens:
        usage["cache_read"] = _tokens(used.cache_read_tokens)
    if used.cache_write_tokens:
        usage["cache_write"] = _tokens(used.cache_write_tokens)
    return usage


def _tokens(count: int) -> int:
    """``count``, or 0 if no model can have used so many tokens."""
    return count if 0 <= count < MOST_TOKENS else 0


def _plain(part: Any) -> bool:
    """Whether ``part`` is a text or a call without further data of the provider."""
    is_text_or_call = isinstance(part, ai.TextPart | ai.ToolCallPart)
    return (
        is_text_or_call
        and not getattr(part, "provider_details", None)
        and not getattr(part, "id", None)
    )


def _call(part: ai.ToolCallPart, names: ToolNames) -> ToolCall:
    """A call for the session. Arguments that are not a JSON object become its ``fault``."""
    tool = names.tool_of(part.tool_name)
    read, why = read_json(as_text(part.args) or "{}", once_each=True)
    if read is None and not why:  # some servers write null if there are no arguments
        read = {}
    call: ToolCall = {"id": part.tool_call_id, "tool": tool, "arguments": read}
    if why or not isinstance(read, dict):
        call["arguments"] = part.args
        call["fault"] = f"are not JSON: {why}" if why else "are not a JSON object"
    return call


def _unwrap_text(text: str, schema: Mapping[str, Any] | None) -> str:
    """A structured answer that is text, without the object that wraps it."""
    if schema is None or schema.get("type") == "object" or WRAPPED not in text:
        return text
    with suppress(ValueError, RecursionError):
        whole = json.loads(text)
        if isinstance(whole, dict) and {*whole} == {WRAPPED}:
            return json.dumps(whole[WRAPPED], ensure_ascii=False)
    return text


def _unwrap(answer: Value, schema: Mapping[str, Any] | None) -> Value:
    """A structured answer without the object that wraps it."""
    wrapped = schema is not None and schema.get("type") != "object"
    # Anything else stays as it is: the schema takes an object without the wrapper, or refuses it.
    is_wrapper = isinstance(answer, dict) and {*answer} == {WRAPPED}
    return answer[WRAPPED] if wrapped and is_wrapper else answer
