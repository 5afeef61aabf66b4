"""Local servers that speak the protocols of the model providers, streamed or plain, with or without faults.

A `Said` is what a model replies, independent of a protocol. A `Protocol` writes it as the provider documents it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from notebooks.scripted_server import LocalServer, Raw, Stream

JSON = {"Content-Type": "application/json"}
EVENTS = {"Content-Type": "text/event-stream"}


@dataclass(frozen=True)
class Call:
    """A call that a model asks for."""

    tool: str | None
    """None means that the call names no tool."""
    arguments: Mapping[str, Any] | str
    """The arguments, or a text that is sent for them as it is."""
    id: str = ""


@dataclass(frozen=True, kw_only=True)
class Said:
    """A reply of a model, independent of a protocol."""

    text: str = ""
    pieces: Sequence[str] = ()
    """The pieces in which the text is streamed. Empty: pieces of three letters."""
    thinking: str = ""
    calls: Sequence[Call] = ()
    end: str = "stop"
    """The reason of the end: ``stop``, ``length``, ``refused`` or ``filtered``. ``none``: the reply has no end mark."""
    refusal: str = ""
    """The words of a refusal, for protocols that have a field for them."""

    @property
    def streamed(self) -> Sequence[str]:
        return self.pieces or [self.text[start : start + 3] for start in range(0, len(self.text), 3)]


@dataclass(frozen=True)
class Fails:
    """An error of the server in an answer with status 200."""

    message: str
    status: int


class Protocol(ABC):
    """A protocol of a provider, and the name of the model with which this package speaks it."""

    model: str
    variable: str
    """The environment variable with the address of the server."""
    key: str
    prefix = ""

    @abstractmethod
    def plain(self, reply: Said) -> dict[str, Any]:
        """The reply as one object."""

    @abstractmethod
    def events(self, reply: Said) -> Iterator[dict[str, Any]]:
        """The reply as a stream of objects."""

    def error(self, fails: Fails) -> dict[str, Any]:
        return {"error": {"message": fails.message, "code": fails.status}}

    def is_stream(self, path: str, body: Mapping[str, Any]) -> bool:
        return bool(body.get("stream"))

    def line(self, event: Mapping[str, Any]) -> bytes:
        return f"data: {json.dumps(event)}\n\n".encode()

    def end(self, reply: Said) -> bytes:
        return b""


class Chat(Protocol):
    model, variable, key, prefix = "openai-chat:m", "OPENAI_BASE_URL", "OPENAI_API_KEY", "/v1"
    ends: Mapping[str, str | None] = {"refused": "stop", "filtered": "content_filter", "none": None}

    def _end(self, reply: Said) -> str | None:
        return self.ends.get(reply.end, reply.end) if reply.end != "stop" or not reply.calls else "tool_calls"

    def plain(self, reply: Said) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.refusal:
            message = {**message, "content": None, "refusal": reply.refusal}
        if reply.thinking:
            message["reasoning_content"] = reply.thinking
        if reply.calls:
            message["tool_calls"] = [
                {"id": call.id or f"c{number}", "type": "function", "function": _function(call)}
                for number, call in enumerate(reply.calls)
            ]
        choice = {"index": 0, "message": message, "finish_reason": self._end(reply)}
        return {**_completion("chat.completion"), "choices": [choice], "usage": CHAT_USAGE}

    def events(self, reply: Said) -> Iterator[dict[str, Any]]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"reasoning_content": reply.thinking}] if reply.thinking else []
        deltas += [{"refusal": piece} for piece in (reply.refusal[:4], reply.refusal[4:]) if piece]
        deltas += [{"content": piece} for piece in reply.streamed] if not reply.refusal else []
        for number, call in enumerate(reply.calls):
            function = _function(call)
            half = len(function["arguments"]) // 2
            head = {"index": number, "id": call.id or f"c{number}", "type": "function"}
            first = {"name": function["name"], "arguments": function["arguments"][:half]}
            deltas.append({"tool_calls": [{**head, "function": first}]})
            deltas.append({"tool_calls": [{"index": number, "function": {"arguments": function["arguments"][half:]}}]})
        for delta in deltas:
            yield {**_completion("chat.completion.chunk"), "choices": [{"index": 0, "delta": delta}]}
        if (end := self._end(reply)) is not None:
            last = {"index": 0, "delta": {}, "finish_reason": end}
            yield {**_completion("chat.completion.chunk"), "choices": [last]}
            yield {**_completion("chat.completion.chunk"), "choices": [], "usage": CHAT_USAGE}

    def end(self, reply: Said) -> bytes:
        return b"data: [DONE]\n\n" if reply.end != "none" else b""


class Responses(Protocol):
    model, variable, key, prefix = "openai-responses:m", "OPENAI_BASE_URL", "OPENAI_API_KEY", "/v1"

    def _whole(self, reply: Said) -> dict[str, Any]:
        output: list[dict[str, Any]] = []
        if reply.thinking:
            output.append({"type": "reasoning", "id": "rs_1", "summary": [_summary(reply.thinking)]})
        if reply.refusal:
            output.append(_message([{"type": "refusal", "refusal": reply.refusal}]))
        elif reply.text:
            output.append(_message([{"type": "output_text", "text": reply.text, "annotations": []}]))
        output += [_item(number, call) for number, call in enumerate(reply.calls)]
        status = {"filtered": "incomplete", "length": "incomplete", "none": "in_progress"}.get(reply.end, "completed")
        why = {"filtered": "content_filter", "length": "max_output_tokens"}.get(reply.end)
        details = {"reason": why} if why else None
        return {**_response(status), "output": output, "incomplete_details": details, "usage": RESPONSES_USAGE}

    def plain(self, reply: Said) -> dict[str, Any]:
        return self._whole(reply)

    def error(self, fails: Fails) -> dict[str, Any]:
        error = {"code": "server_error", "message": fails.message}
        return {**_response("failed"), "output": [], "error": error, "incomplete_details": None, "usage": None}

    def events(self, reply: Said) -> Iterator[dict[str, Any]]:
        whole = self._whole(reply)
        numbered = iter(range(1000))
        yield {"type": "response.created", "sequence_number": next(numbered), "response": {**whole, "output": []}}
        for index, item in enumerate(whole["output"]):
            place = {"output_index": index, "item_id": item["id"]}
            opened = {**item, "content": []} if item["type"] == "message" else item
            if item["type"] == "function_call":
                opened = {**item, "arguments": ""}
            yield _event("response.output_item.added", numbered, output_index=index, item=opened)
            if item["type"] == "message":
                (part,) = item["content"]
                kind = "refusal" if part["type"] == "refusal" else "output_text"
                empty = {**part, "refusal": ""} if kind == "refusal" else {**part, "text": ""}
                yield _event("response.content_part.added", numbered, **place, content_index=0, part=empty)
                pieces = [part["refusal"]] if kind == "refusal" else reply.streamed
                for piece in pieces:
                    more = {"content_index": 0, "delta": piece, "logprobs": []}  # type: ignore[var-annotated]
                    yield _event(f"response.{kind}.delta", numbered, **place, **more)
                ended = {"refusal": part["refusal"]} if kind == "refusal" else {"text": part["text"], "logprobs": []}
                yield _event(f"response.{kind}.done", numbered, **place, content_index=0, **ended)
            elif item["type"] == "function_call":
                arguments = item["arguments"]
                yield _event("response.function_call_arguments.delta", numbered, **place, delta=arguments)
                yield _event("response.function_call_arguments.done", numbered, **place, arguments=arguments)
            else:
                (part,) = item["summary"]
                yield _event("response.reasoning_summary_part.added", numbered, **place, summary_index=0, part=part)
            yield _event("response.output_item.done", numbered, output_index=index, item=item)
        if reply.end != "none":
            kind = "incomplete" if whole["status"] == "incomplete" else "completed"
            yield {"type": f"response.{kind}", "sequence_number": next(numbered), "response": whole}

    def failed(self, fails: Fails) -> list[dict[str, Any]]:
        return [{"type": "response.failed", "sequence_number": 0, "response": self.error(fails)}]

    def line(self, event: Mapping[str, Any]) -> bytes:
        return f"event: {event.get('type')}\n".encode() + super().line(event)


class Anthropic(Protocol):
    model, variable, key = "anthropic:claude-sonnet-4-5", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"

    def _content(self, reply: Said) -> list[dict[str, Any]]:
        content: list[dict[str, Any]] = []
        if reply.thinking:
            content.append({"type": "thinking", "thinking": reply.thinking, "signature": "sig"})
        if reply.text:
            content.append({"type": "text", "text": reply.text})
        for number, call in enumerate(reply.calls):
            block = {"type": "tool_use", "id": call.id or f"c{number}", "name": call.tool, "input": call.arguments}
            content.append(block)
        return content

    def plain(self, reply: Said) -> dict[str, Any]:
        return {**self._head(reply), "content": self._content(reply)}

    def _head(self, reply: Said) -> dict[str, Any]:
        ends = {"stop": "end_turn", "length": "max_tokens", "refused": "refusal", "filtered": "refusal", "none": None}
        end = "tool_use" if reply.calls and reply.end == "stop" else ends[reply.end]
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
        details = {"type": "refusal", "explanation": reply.refusal, "category": None} if reply.refusal else None
        usage = {"input_tokens": 10, "output_tokens": 5}
        return {**head, "stop_reason": end, "stop_details": details, "usage": usage}

    def error(self, fails: Fails) -> dict[str, Any]:
        return {"type": "error", "error": {"type": "overloaded_error", "message": fails.message}}

    def events(self, reply: Said) -> Iterator[dict[str, Any]]:
        head = self._head(reply)
        yield {"type": "message_start", "message": {**head, "content": [], "stop_reason": None, "stop_details": None}}
        for index, block in enumerate(self._content(reply)):
            match block["type"]:
                case "text":
                    empty = {**block, "text": ""}
                    deltas = [{"type": "text_delta", "text": piece} for piece in reply.streamed]
                case "thinking":
                    empty = {**block, "thinking": "", "signature": ""}
                    deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
                    deltas.append({"type": "signature_delta", "signature": "sig"})
                case _:
                    empty = {**block, "input": {}}
                    arguments = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
                    deltas = [{"type": "input_json_delta", "partial_json": arguments}]
            yield {"type": "content_block_start", "index": index, "content_block": empty}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            if reply.end != "none":
                yield {"type": "content_block_stop", "index": index}
        if reply.end != "none":
            delta = {"stop_reason": head["stop_reason"], "stop_sequence": None, "stop_details": head["stop_details"]}
            yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}}
            yield {"type": "message_stop"}

    def line(self, event: Mapping[str, Any]) -> bytes:
        return f"event: {event.get('type', 'error')}\n".encode() + super().line(event)


class Google(Protocol):
    model, variable, key = "google:gemini-2.5-flash", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_API_KEY"

    def _parts(self, reply: Said) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = [{"text": reply.thinking, "thought": True}] if reply.thinking else []
        parts += [{"text": reply.text}] if reply.text else []
        calls = [{"name": call.tool, "args": call.arguments} for call in reply.calls]
        return [*parts, *({"functionCall": {k: v for k, v in call.items() if v is not None}} for call in calls)]

    def _answer(self, parts: list[dict[str, Any]], end: str | None) -> dict[str, Any]:
        ends = {"stop": "STOP", "length": "MAX_TOKENS", "refused": "SAFETY", "filtered": "SAFETY", "none": None}
        candidate: dict[str, Any] = {"index": 0, **({"content": {"role": "model", "parts": parts}} if parts else {})}
        if end is not None and ends[end]:
            candidate["finishReason"] = ends[end]
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r1"}

    def plain(self, reply: Said) -> dict[str, Any]:
        if reply.refusal:
            blocked = {"blockReason": "OTHER", "blockReasonMessage": reply.refusal}
            return {"promptFeedback": blocked, "usageMetadata": {"promptTokenCount": 10, "totalTokenCount": 10}}
        return self._answer(self._parts(reply), reply.end)

    def error(self, fails: Fails) -> dict[str, Any]:
        return {"error": {"code": fails.status, "message": fails.message, "status": "UNAVAILABLE"}}

    def events(self, reply: Said) -> Iterator[dict[str, Any]]:
        if reply.refusal:
            yield self.plain(reply)
            return
        for part in self._parts(reply):
            pieces = reply.streamed if part.get("text") == reply.text and reply.text else [part.get("text", "")]
            for piece in pieces:
                yield self._answer([{**part, "text": piece} if "text" in part else part], None)
        yield self._answer([], reply.end)

    def is_stream(self, path: str, body: Mapping[str, Any]) -> bool:
        return "stream" in path


class ProtocolServer(LocalServer):
    """A server that gives the replies of a script in order, and repeats the last one."""

    def __init__(self, protocol: Protocol, script: Sequence[Said | Fails | Raw | Stream]) -> None:
        super().__init__()
        self.protocol, self.script = protocol, script
        self.requests: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"{self.address}{self.protocol.prefix}"

    def reply(self, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Raw | Stream:
        with self._lock:
            reply = self.script[min(len(self.requests), len(self.script) - 1)]
            self.requests.append(body)
        if isinstance(reply, Raw | Stream):
            return reply
        protocol, is_stream = self.protocol, self.protocol.is_stream(path, body)
        if isinstance(reply, Fails):
            retry = {"Retry-After": "0"}
            return Raw(json.dumps(protocol.error(reply)), headers={**JSON, **retry})
        if is_stream:
            lines = b"".join([*map(protocol.line, protocol.events(reply)), protocol.end(reply)])
            return Raw(lines, headers=EVENTS)
        return Raw(json.dumps(protocol.plain(reply)), headers=JSON)


CHAT_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
RESPONSES_USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 15,
}


def _completion(kind: str) -> dict[str, Any]:
    return {"id": "x", "object": kind, "created": 1, "model": "m"}


def _response(status: str) -> dict[str, Any]:
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": status, "error": None}
    return {**head, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "metadata": {}}


def _event(kind: str, numbered: Iterator[int], **fields: Any) -> dict[str, Any]:
    return {"type": kind, "sequence_number": next(numbered), **fields}


def _message(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def _summary(text: str) -> dict[str, Any]:
    return {"type": "summary_text", "text": text}


def _item(number: int, call: Call) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    head = {"type": "function_call", "id": f"fc_{number}", "call_id": call.id or f"c{number}"}
    return {**head, "name": call.tool, "arguments": arguments, "status": "completed"}


def _function(call: Call) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    return {"name": call.tool, "arguments": arguments}
