"""A model's reply while it arrives. Imported with the first request."""

from __future__ import annotations

import json
from collections.abc import Callable
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


class BrokenOff(Exception):
    """A reply ended before its end. ``error``: what the library raised."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


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
    except (NotImplementedError, AssertionError):  # a model object without a stream
        if arrived:
            raise
        return None
    except ContentFilterError:
        raise
    except (
        UnexpectedModelBehavior
    ) as error:  # a server that replies in one piece, and whatever else has no events
        if not arrived:
            return None
        raise BrokenOff(error) from None
    except Exception as error:
        if not arrived:
            raise
        raise BrokenOff(error) from None
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
            case ai.PartStartEvent(part=ai.TextPart(content=text)):
                return [Delta("text", text)]
            case ai.PartStartEvent(part=ai.ThinkingPart(content=text)):
                return [Delta("thinking", text)]
            case ai.PartStartEvent(index=index, part=ai.ToolCallPart(tool_name=sent, args=args)):
                tool = self._calls[index] = self._name_of(sent)
                return [
                    Delta("call", f"{tool or 'answer'}(", ""),
                    Delta("call", _as_text(args), tool),
                ]
            case ai.PartDeltaEvent(delta=ai.TextPartDelta(content_delta=text)):
                return [Delta("text", text)]
            case ai.PartDeltaEvent(delta=ai.ThinkingPartDelta(content_delta=text)):
                return [Delta("thinking", text or "")]
            case ai.PartDeltaEvent(index=index, delta=ai.ToolCallPartDelta(args_delta=args)):
                return [Delta("call", _as_text(args), self._calls.get(index))]
            case ai.PartEndEvent(index=index) if index in self._calls:
                return [Delta("call", ")\n", "")]
        return []


def _as_text(args: Any) -> str:
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False) if args else ""
