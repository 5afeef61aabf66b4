"""What a definition declares besides its steps: limits, allowed tools, fields it reads of results,
edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..text.source import Span
from .frame import Expr, Frame
from .values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The limits of one run of a definition, with all that it calls. They only narrow those of the
    outer run."""

    tool_calls: int | None = None
    model_calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    """US dollars."""
    depth: int | None = None
    """How deep flows and agents may call each other below it."""
    seconds: float | None = None
    span: Span | None = None


class Uses(NamedTuple):
    """A tool that a definition allows for itself and all that it calls (a local tool of an action
    space)."""

    alias: str
    registered: str = ""
    """The name of the registered tool, if none is registered as the alias."""


class DerivedTool(NamedTuple):
    """A tool that a definition makes from a registered tool."""

    name: str
    base: str
    """The name of the registered tool. Who may not use that one may not use this one."""
    description: str
    parameters: tuple[str, ...]
    """All are required; any JSON value is accepted."""
    arguments: Callable[[Mapping[str, Value]], Mapping[str, Value]]
    """The arguments for the registered tool."""
    result: Callable[[Value], Value]
    """The result, given that of the registered tool."""


class Taken(NamedTuple):
    """The fields that a text reads of a call's result, to be checked against the schema of the
    result."""

    step: str
    """The id of the `Invoke`."""
    whose: str
    """The name of the result: ``writer.output``."""
    fields: tuple[tuple[str, Span], ...]
    """The path of fields, each with its place; ``[]`` is every element of a list."""
    into: tuple[str, str] | None = None
    """The id of the call that gets it, and the field of its input."""


class Asking(NamedTuple):
    """What a step asks of the agent that answers it, beyond the prompt."""

    model: str = ""
    """``provider:model``, for an agent that has no model of its own; the configured model replaces
    it (decision B2)."""
    settings: Mapping[str, Value] = {}
    """For the requests of a model: ``temperature``, ``max_output_tokens``. They replace those of
    the agent."""
    steps: int | None = None
    """The largest number of requests of a session; None: the agent's."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the answer, for a definition that has one and no name for it."""
    no_tools: bool = False
    """Whether a model is offered none, whatever its agent lists."""
    calls: bool = False
    """Whether the value is ``{"answer", "calls"}``, with the tool calls of the session."""
    span: Span | None = None
    """The place of the model's name."""
    attach: tuple[Span, ...] = ()
    """The places of the expressions whose values are the argument ``attach``: images and
    documents."""
    wins: bool = False
    """Whether the model replaces that of the agent; an agent that has none is then an error."""


class Export(NamedTuple):
    """A file that a definition makes of a result, when a person exports a run."""

    name: str
    """The store."""
    format: str
    """``json``, ``markdown`` or ``text``."""
    file: str
    """Relative to the folder of the export."""
    span: Span | None = None


class Instead(NamedTuple):
    """How a person's answer replaces a call: with other arguments, or with its result."""

    result: str
    """The key of a result; all other keys are arguments."""
    take: Callable[[Frame, Mapping[str, Value]], None]
    """Called with the answer, without secrets, before it is used; may refuse it with a
    StepError."""


START, END = "START", "END"
"""The start and the end of a walk: names that no node can have."""


class Edge(NamedTuple):
    """An edge from one node of a `Walk` to another."""

    source: str
    target: str
    when: Expr | None = None
    """None: always taken."""
    otherwise: bool = False
    """Taken if none of the source's conditions is true."""
    span: Span | None = None
    label: str = ""
    """The condition, as it is written."""
