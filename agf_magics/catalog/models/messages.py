"""The types of requests to a model and of its replies.

All parts are JSON, so that they can be journaled and shown, except the bytes of files.
flow/sessions/session.py describes the messages of a session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

from ...values.value import Value

NAMELESS = " "
"""The tool's name in a call that names no tool. No tool has a name with a blank."""


class ToolCall(TypedDict):
    """A call that a model asks for."""

    id: str
    tool: str
    """The name of the tool; empty: the call is the structured answer."""
    arguments: Value
    fault: NotRequired[str]
    """The reason why the arguments cannot be used."""


class File(TypedDict):
    """An image or a document of a message, without its bytes."""

    name: str
    """The path of the file; empty for a value."""
    type: str
    """The media type."""
    bytes: int
    """The size in bytes."""
    sha256: str


class UserMessage(TypedDict):
    role: Literal["user"]
    text: str
    files: NotRequired[list[File]]


class SystemMessage(TypedDict):
    role: Literal["system"]
    text: str


class ModelMessage(TypedDict):
    role: Literal["model"]
    text: str
    calls: list[ToolCall]
    kept: NotRequired[dict[str, Any]]
    """The reply as its provider sent it, if that has more than text and calls."""


class ToolMessage(TypedDict):
    """The result of a call."""

    role: Literal["tool"]
    id: str
    tool: str
    text: str
    failed: bool


Message = SystemMessage | UserMessage | ModelMessage | ToolMessage


class Tokens(TypedDict):
    """The tokens of a reply, as the model counts them."""

    input: int
    """The tokens of the whole prompt, cached tokens included."""
    output: int
    cache_read: NotRequired[int]
    """The tokens of the prompt that the provider had stored, which cost less."""
    cache_write: NotRequired[int]
    cost: NotRequired[str]
    """The price in US dollars, a decimal number; absent: unknown."""


class Reply(TypedDict):
    text: str
    calls: list[ToolCall]
    usage: Tokens
    answer: NotRequired[Value]
    """The structured answer."""
    cut: NotRequired[bool]
    """Whether the reply reached the largest number of tokens."""
    unended: NotRequired[bool]
    """Whether the stream had its end mark but no finish reason."""
    thinking: NotRequired[str]
    """The reasoning that the model wrote into its text; what it sends as reasoning is in
    ``kept``."""
    empty: NotRequired[str]
    """The reason why the reply has no content. The model is asked once more (decision D130)."""
    written_call: NotRequired[str]
    """The name of the tool, if the text is a call that the server failed to recognize."""
    kept: NotRequired[dict[str, Any]]
    """The reply as its provider sent it, if that has more than text and calls."""


class Offered(NamedTuple):
    """A tool that a model is offered."""

    name: str
    description: str
    accepts: Mapping[str, Any]
    """JSON Schema of its arguments."""


class Request(NamedTuple):
    messages: Sequence[Message]
    instructions: str = ""
    tools: tuple[Offered, ...] = ()
    tool_choice: str = "auto"
    """``auto``, ``required``, ``none``."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the answer; None: text."""
    settings: Mapping[str, Value] = {}
    """``temperature``, ``top_p``, ``top_k``, ``max_output_tokens``, ``stop_sequences``."""
    last: bool = False
    """Whether the model must answer now, without tools."""
    files: Mapping[str, bytes] = {}
    """The bytes of the files in the messages, by SHA-256."""


Part = Literal["text", "thinking", "call"]
"""A part of a reply: its text, the model's reasoning, or the calls of tools."""


class Delta(NamedTuple):
    """A piece of a reply that arrives in pieces."""

    part: Part
    text: str
    tool: str | None = ""
    """The name of the tool if the text belongs to the arguments of a call; None: the name of that
    tool is unknown yet; empty: the text belongs to no arguments."""
