"""The reply of a model while it arrives: parts, the mark of its end, and the bound of its size."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple

from pydantic_ai import messages as ai
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import ContentFilterError, UnexpectedModelBehavior
from pydantic_ai.models import Model as Made
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from .messages import Delta

_MARKS_END = frozenset({"server", "openai", "ollama"})
"""Providers whose protocol ends a reply with the reason of its end."""


MOST_ANSWER = 64_000_000
"""Bytes of a server's answer, unpacked."""


class BrokenOff(Exception):
    """A reply ended before its end. Its argument is what the library raised."""


class Sent(NamedTuple):
    """A request as the library takes it."""

    model: Made
    messages: list[ai.ModelMessage]
    settings: ModelSettings
    parameters: ModelRequestParameters
    name_of: Callable[[str], str]
    """Our name of a tool, from the name that was sent; empty for the structured answer."""


async def stream_reply(sent: Sent, listen: Callable[[Delta], None]) -> ai.ModelResponse | None:
    """The reply; each part of it goes to ``listen`` when it arrives. None: the model does not
    stream.

    Raises `BrokenOff` if the reply ends in the middle, and otherwise what a plain request raises.
    """
    arrived = False
    try:
        async with model_request_stream(
            sent.model,
            sent.messages,
            model_settings=sent.settings,
            model_request_parameters=sent.parameters,
        ) as stream:
            parts = _Parts(sent.name_of)
            async for event in stream:
                for delta in parts.deltas(event):
                    arrived = True
                    listen(delta)
            response = stream.get()
    except ContentFilterError:
        raise
    except Exception as error:
        if arrived:
            raise BrokenOff(error) from None
        # A model object without a stream; a server that replies in one piece.
        if isinstance(error, NotImplementedError | AssertionError | UnexpectedModelBehavior):
            return None
        raise
    return response


def has_end(response: ai.ModelResponse, model: Made) -> bool:
    """Whether a streamed reply ended as its protocol says. Some servers never do that, so it is not
    an error."""
    return model.system not in _MARKS_END or "finish_reason" in (response.provider_details or {})


class _Parts:
    """The deltas in the events of a stream."""

    def __init__(self, name_of: Callable[[str], str]) -> None:
        self._name_of = name_of
        self._calls: dict[int, str] = {}
        """The tool of each open call, by the index of its part."""

    def deltas(self, event: Any) -> list[Delta]:
        match event:
            case ai.PartStartEvent(part=ai.TextPart() | ai.ThinkingPart() as part):
                return [Delta(part.part_kind, part.content)]
            case ai.PartStartEvent(index=index, part=ai.ToolCallPart(tool_name=sent, args=args)):
                tool = self._calls[index] = self._name_of(sent)
                return [
                    Delta("call", f"{tool or 'answer'}(", ""),
                    Delta("call", as_text(args), tool),
                ]
            case ai.PartDeltaEvent(delta=ai.TextPartDelta() | ai.ThinkingPartDelta() as delta):
                return [Delta(delta.part_delta_kind, delta.content_delta or "")]
            case ai.PartDeltaEvent(index=index, delta=ai.ToolCallPartDelta(args_delta=args)):
                return [Delta("call", as_text(args), self._calls.get(index))]
            case ai.PartEndEvent(index=index) if index in self._calls:
                return [Delta("call", ")\n", "")]
        return []


def as_text(args: Any) -> str:
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False) if args else ""


class AnswerTooLarge(Exception):
    """A server's answer has more than `MOST_ANSWER` bytes, or comes packed in a way whose size
    cannot be bounded."""


def bound_answers(model: Made) -> None:
    """Bound what the server of ``model`` can make this process read."""
    provider = getattr(model, "_provider", None)
    for holder, name in (
        (provider, "_own_http_client"),
        (getattr(model, "client", None), "_client"),
    ):
        hooks = getattr(getattr(holder, name, None), "event_hooks", None)
        if isinstance(hooks, dict) and bounded not in hooks.setdefault("response", []):
            hooks["response"].append(bounded)


async def bounded(response: Any) -> None:
    """Count the bytes of an answer while it is unpacked; a hook of an HTTP client."""
    packing = response.headers.get("content-encoding", "identity").strip().lower()
    if packing not in ("identity", "gzip", "deflate"):
        raise AnswerTooLarge(f"the server packs its answer as {packing[:40]!r}, not as gzip")
    read = response.aiter_bytes

    async def counted(chunk_size: int | None = None) -> AsyncGenerator[bytes]:
        # A packed piece of 64 kB has at most a thousand times as many bytes: no piece is too large.
        size = 0
        async for piece in read(chunk_size):
            size += len(piece)
            if size > MOST_ANSWER:
                raise AnswerTooLarge(f"the answer has more than {MOST_ANSWER // 10**6} MB")
            yield piece

    response.aiter_bytes = counted
