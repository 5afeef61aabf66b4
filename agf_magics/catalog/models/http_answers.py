"""Checks and repairs the HTTP answers of a model's server before pydantic-ai reads them.

The size of an answer is bounded. An error counts as an error even with the status 200. A reply that
is paid for is not refused because of common mistakes in its form: wrong numbers of tokens, a call
without a name, calls with the same index. The library's HTTP client calls `hear` with each
response.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from .http_repairs import CallNumbers, TokenNumbers, error_status, is_reply, repair_reply
from .reasoning import TAGS

MOST_ANSWER = 64_000_000
"""The largest number of bytes of a server's answer, after decompression."""


class AnswerUnreadable(Exception):
    """A server's answer has more than `MOST_ANSWER` bytes, or a compression whose size cannot be
    bounded."""


class AnswerBroken(Exception):
    """The connection ended in the middle of a server's answer."""


class AnswerUnended(Exception):
    """A server's answer in one piece is only the beginning of a JSON text."""


@dataclass
class Heard:
    """The facts about an answer that pydantic-ai does not report."""

    kind: str = ""
    """``pieces``: a stream of events. ``json``: a reply in one piece. ``other``: any other answer.
    Empty: no answer came."""
    has_events: bool = False
    """Whether a stream had any event."""
    is_done: bool = False
    """True if a stream had OpenAI's end mark."""
    text: str | None = None
    """The text of a reply of the Chat protocol in one piece, as it was sent: the library removes
    tags of reasoning from any place. None: it is another kind of reply."""
    calls: CallNumbers = field(default_factory=CallNumbers)
    """The numbers of the calls in a stream, repaired."""
    tokens: TokenNumbers = field(default_factory=TokenNumbers)
    """The numbers of tokens in the answer."""


_heard: ContextVar[Heard | None] = ContextVar("heard", default=None)
"""The facts about the answer to this task's request; None: the request is not from this package."""


@contextmanager
def hearing() -> Iterator[Heard]:
    """Collect the facts about the answer to the request that the block makes."""
    token = _heard.set(heard := Heard())
    try:
        yield heard
    finally:
        _heard.reset(token)


def listen_to(model: Any) -> None:
    """Let `hear` read the answers to ``model`` first. If a user's model object has no known HTTP
    client, only the library reads its answers."""
    provider = getattr(model, "_provider", None)
    for holder, name in (
        (provider, "_own_http_client"),
        (getattr(model, "client", None), "_client"),
    ):
        hooks = getattr(getattr(holder, name, None), "event_hooks", None)
        if isinstance(hooks, dict) and hear not in hooks.setdefault("response", []):
            hooks["response"].append(hear)


async def hear(response: Any) -> None:
    """Check and repair an answer before the library reads it. This is a hook of the HTTP client."""
    packing = response.headers.get("content-encoding", "identity").strip().lower()
    if packing not in ("identity", "gzip", "deflate"):
        raise AnswerUnreadable(f"the server packs its answer as {packing[:40]!r}, not as gzip")
    pieces = _count_bytes(response.aiter_bytes)
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    heard = _heard.get()
    if heard is None:  # the user makes a request with the same client
        response.aiter_bytes = _as_iterator(pieces)
        return
    if not 200 <= response.status_code < 300:
        response.aiter_bytes = _as_iterator(pieces)
    elif kind == "text/event-stream":
        heard.kind = "pieces"
        response.aiter_bytes = _as_iterator(_events(pieces, heard))
    elif kind == "application/json" or kind.endswith("+json"):
        heard.kind = "other"
        whole = await _whole(pieces)
        status, body = _read_whole(whole, heard)
        response.status_code = status or response.status_code
        response.aiter_bytes = _as_iterator(_once(body))
        # The body has been read. An error is returned as it is.
        await response.aread()
        del response.aiter_bytes
    else:
        heard.kind = "other"
        response.aiter_bytes = _as_iterator(pieces)


async def _count_bytes(read: Any) -> AsyncGenerator[bytes]:
    """The bytes of an answer, counted while they are decompressed."""
    # A compressed piece of 64 kB becomes at most a thousand times as large, so one piece always
    # fits.
    size = 0
    async for piece in read(None):
        size += len(piece)
        if size > MOST_ANSWER:
            raise AnswerUnreadable(f"the answer has more than {MOST_ANSWER // 10**6} MB")
        yield piece


def _as_iterator(pieces: AsyncGenerator[bytes]) -> Any:
    def aiter_bytes(chunk_size: int | None = None) -> AsyncGenerator[bytes]:
        return pieces

    return aiter_bytes


async def _once(body: bytes) -> AsyncGenerator[bytes]:
    yield body


async def _whole(pieces: AsyncIterator[bytes]) -> bytes:
    """The bytes of an answer in one piece. Raises AnswerBroken if the connection ends early."""
    parts: list[bytes] = []
    try:
        async for piece in pieces:
            parts.append(piece)
    except AnswerUnreadable:
        raise
    except Exception as error:  # each provider's package has its own HTTP client
        if any(parts):
            raise AnswerBroken(str(error) or type(error).__name__) from error
        raise
    return b"".join(parts)


def _read_whole(body: bytes, heard: Heard) -> tuple[int, bytes]:
    """The status that the answer should have, or 0 if its status is right; and its repaired
    body."""
    try:
        reply = json.loads(body)
    except json.JSONDecodeError as error:
        # An answer that begins as JSON but is incomplete was cut off.
        if error.doc.lstrip()[:1] == "{" and _CUT.match(error.doc, error.pos):
            raise AnswerUnended from None
        return 0, body
    except (ValueError, RecursionError):
        return 0, body
    if not isinstance(reply, dict):
        return 0, body
    if status := error_status(reply):
        return status, body
    if not is_reply(reply):
        return 0, body
    heard.kind = "json"
    is_wrong = repair_reply(reply, heard.calls, is_whole=True, tokens=heard.tokens)
    heard.text = _text_of(reply)
    return 0, json.dumps(reply).encode() if is_wrong else body


_CUT = re.compile(
    r'(?:"[^"\\]*+(?:\\.[^"\\]*+)*\\?|[-a-z]{0,5}|\\u?[0-9a-fA-F]{0,3})\s*\Z', re.DOTALL
)
"""The end of a JSON text that was cut: nothing, a text without its quote, the beginning of a
word."""


async def _events(pieces: AsyncIterator[bytes], heard: Heard) -> AsyncGenerator[bytes]:
    """The lines of a stream of events, each as soon as it is complete."""
    waiting: list[bytes] = []
    async for piece in pieces:
        waiting.append(piece)
        # A line may arrive in many pieces. They are joined once, when its end has arrived.
        if b"\n" not in piece and b"\r" not in piece:
            continue
        lines = b"".join(waiting).splitlines(keepends=True)
        waiting = [] if lines[-1].endswith((b"\n", b"\r")) else [lines.pop()]
        yield b"".join(_line(line, heard) for line in lines)
    if waiting:
        line = b"".join(waiting)
        if line.startswith(b"data:") and line[5:].strip() != b"[DONE]" and not _is_json(line[5:]):
            raise AnswerUnended
        yield _line(line, heard)


_LOOKED_INTO = re.compile(
    rb"oken|tool_calls|tool_use|function_?[cC]all|\"error\"|</?think", re.IGNORECASE
)
"""The words in a piece that may need a repair."""


def _line(line: bytes, heard: Heard) -> bytes:
    """A line of a stream, repaired."""
    if not line.startswith(b"data:"):
        return line
    heard.has_events = True
    if line[5:].strip() == b"[DONE]":
        heard.is_done = True
        return line
    if not _LOOKED_INTO.search(line):
        return line
    try:
        event = json.loads(line[5:])
    except (ValueError, RecursionError):
        return line
    if not isinstance(event, dict):
        return line
    is_wrong = repair_reply(event, heard.calls, is_whole=False, tokens=heard.tokens)
    if event.get("object") == "error" and "error" not in event:
        event = {"error": event}
        is_wrong = True
    events = _apart(event)
    if not is_wrong and len(events) == 1:
        return line
    ending = line[len(line.rstrip(b"\r\n")) :]
    return (ending * 2).join(b"data: " + json.dumps(part).encode() for part in events) + ending


def _apart(event: dict[str, Any]) -> list[dict[str, Any]]:
    """Split a piece of the Chat protocol that is exactly a tag of reasoning into two: the library
    would interpret such a piece, but not the same tag inside a larger piece."""
    choice = _first_choice(event)
    delta = choice.get("delta")
    content = delta.get("content") if isinstance(delta, dict) else None
    if not isinstance(delta, dict) or not isinstance(content, str) or content not in TAGS:
        return [event]
    first = {**choice, "delta": {**delta, "content": content[:3]}, "finish_reason": None}
    second = {**choice, "delta": {"content": content[3:]}}
    return [{**event, "choices": [first], "usage": None}, {**event, "choices": [second]}]


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _text_of(reply: dict[str, Any]) -> str | None:
    """The text of a reply of the Chat protocol in one piece."""
    message = _first_choice(reply).get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, str) else None


def _first_choice(reply: dict[str, Any]) -> dict[str, Any]:
    choices = reply.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    return choice if isinstance(choice, dict) else {}
