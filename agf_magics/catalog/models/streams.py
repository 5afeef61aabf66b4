"""Reads the stream of a model's reply, and passes on its parts while they arrive."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic_ai import messages as ai
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import (
    ContentFilterError,
    ModelConnectionError,
    UnexpectedModelBehavior,
)
from pydantic_ai.models import Model as LibraryModel
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from ...flow.sessions.session import read_json
from .http_answers import AnswerUnended, Heard
from .messages import Delta
from .model_fault import caused_by
from .reasoning import Piece, ReasoningSplitter


class BrokenOff(Exception):
    """A reply broke off. The argument is the error of the library."""


class Sent(NamedTuple):
    """A request in the types of pydantic-ai."""

    model: LibraryModel
    messages: list[ai.ModelMessage]
    settings: ModelSettings
    parameters: ModelRequestParameters
    name_of: Callable[[str], str]
    """Returns our name of a tool from the name that was sent; empty for the structured answer."""


async def stream_reply(
    sent: Sent, heard: Heard, listen: Callable[[Delta], None]
) -> ai.ModelResponse | None:
    """The reply; None: the model does not stream. ``heard``: the facts about the answer.
    ``listen``: gets each part when it arrives.

    Raises `BrokenOff` if the reply ends in the middle, and otherwise the errors of a plain request.
    """
    parts = _Parts(sent.name_of)
    try:
        async with model_request_stream(
            sent.model,
            sent.messages,
            model_settings=sent.settings,
            model_request_parameters=sent.parameters,
        ) as stream:
            async for event in stream:
                for delta in parts.deltas(event):
                    listen(delta)
            response = stream.get()
    except ContentFilterError:
        raise
    except Exception as error:
        for delta in parts.end():
            listen(delta)
        # Compared by name, because most of these classes are from libraries that are imported late.
        if caused_by(error, "AnswerUnended"):
            raise
        is_cut = isinstance(error, ModelConnectionError) and heard.kind == "pieces"
        if parts.have_arrived or is_cut:
            raise BrokenOff(error) from None
        # The model object has no streams.
        if isinstance(error, NotImplementedError | AssertionError):
            return None
        if isinstance(error, UnexpectedModelBehavior):
            # An event stream without events is cut off, not a refusal to stream.
            if heard.kind == "pieces" and not heard.has_events:
                raise AnswerUnended from None
            # The server replies in one piece, or the user's model object says that it does.
            if heard.kind in ("", "json"):
                return None
        raise
    for delta in parts.end():
        listen(delta)
    return response


class _Parts:
    """The deltas in the events of a stream."""

    def __init__(self, name_of: Callable[[str], str]) -> None:
        self._name_of = name_of
        self._calls: dict[int, str] = {}
        """The name of the tool of each open call, by the index of its part."""
        self._text = ReasoningSplitter()
        self.have_arrived = False

    def deltas(self, event: Any) -> list[Delta]:
        self.have_arrived = self.have_arrived or isinstance(event, ai.PartStartEvent)
        match event:
            case ai.PartStartEvent(part=ai.TextPart(content=text)):
                return _deltas(self._text.feed(text))
            case ai.PartStartEvent(part=ai.ThinkingPart(content=text)):
                return [Delta("thinking", text)]
            case ai.PartStartEvent(index=index, part=ai.ToolCallPart(tool_name=sent, args=args)):
                tool = self._calls[index] = self._name_of(sent)
                return begin_call(tool, args)
            case ai.PartDeltaEvent(delta=ai.TextPartDelta(content_delta=text)):
                return _deltas(self._text.feed(text or ""))
            case ai.PartDeltaEvent(delta=ai.ThinkingPartDelta(content_delta=text)):
                return [Delta("thinking", text or "")]
            case ai.PartDeltaEvent(index=index, delta=ai.ToolCallPartDelta(args_delta=args)):
                return [Delta("call", as_text(args), self._calls.get(index))]
            case ai.PartEndEvent(index=index, part=ai.ToolCallPart(args=args)) if (
                index in self._calls
            ):
                return [end_call(args)]
        return []

    def end(self) -> list[Delta]:
        """The deltas that remain at the end of the reply."""
        return _deltas(self._text.end())


def _deltas(pieces: list[Piece]) -> list[Delta]:
    return [Delta(piece.part, piece.text) for piece in pieces]


def begin_call(tool: str, args: Any) -> list[Delta]:
    """The begin of a call: the name of its tool, then its arguments so far."""
    return [Delta("call", f"{tool or 'answer'}(", ""), Delta("call", as_text(args), tool)]


def end_call(args: Any) -> Delta:
    """The end of a call; dots if its arguments are not complete: the library also ends a call in which
    the reply broke off."""
    _, why = read_json(as_text(args) or "{}")
    return Delta("call", " …\n" if why else ")\n", "")


def as_text(args: Any) -> str:
    """The arguments of a call as JSON text. Most libraries return a text, some an object."""
    if isinstance(args, str):
        return args
    return json.dumps(args, ensure_ascii=False) if args else ""
