"""What a step declares besides its kind: limits, questions, exports, replacements, rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..text.source import Span
from ..values.value import Value
from .protocols import Expr, Frame, Name


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLimits:
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
    asks: bool = False
    """Whether a person must approve each call: then only a step that asks may make it."""


EVERY_TOOL = "*"
"""In the place of a tool's name, ``SERVER__*``: every tool of an MCP server."""


class ServerUse(NamedTuple):
    """An MCP server that a definition needs."""

    alias: Name
    ref: str = ""
    """Its name everywhere, by which a person may have connected it."""


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


class ResultRead(NamedTuple):
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
    """What a step asks of the agent, the model or the vendor's policy that answers it, beyond the
    arguments."""

    model: str = ""
    """``provider:model``, for an agent that has no model of its own; the configured model replaces
    it (decision B2)."""
    settings: Mapping[str, Value] = {}
    """Settings for the requests of a model: ``temperature``, ``max_output_tokens``. They replace
    those of the agent."""
    steps: int | None = None
    """The largest number of requests of a session; None: the agent's."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the answer, for a definition that has one and no name for it."""
    no_tools: bool = False
    """True if the model gets no tools, whatever its agent lists."""
    calls: bool = False
    """Whether the value is ``{"answer", "calls"}``, with the tool calls of the session."""
    span: Span | None = None
    """The place of the model's name."""
    attach: tuple[Span, ...] = ()
    """The places of the expressions whose values are the argument ``attach``: images and
    documents."""
    overrides_agent: bool = False
    """Whether the model replaces that of the agent; an agent that has none is then an error."""
    config: Mapping[str, Value] = {}
    """The configuration of a model or a vendor's policy."""
    counts_as_session: bool = True
    """Whether an agent that answers it counts as a session of the run (decision A15): a pipeline's
    do."""


class Export(NamedTuple):
    """A file that a definition makes of a result, when a person exports a run."""

    name: str
    """The store."""
    format: str
    """``json``, ``markdown`` or ``text``."""
    file: str
    """Relative to the folder of the export."""
    span: Span | None = None


class CallReplacement(NamedTuple):
    """How a person's answer replaces a call: with other arguments, or with its result."""

    result: str
    """The key of a result; all other keys are arguments."""
    take: Callable[[Frame, Mapping[str, Value]], None]
    """Called with the answer, without secrets, before it is used; may refuse it with a
    StepError."""


class Permit(NamedTuple):
    """The question to a person before a call."""

    ask: Callable[[Frame, Mapping[str, Value], Any], str | None]
    """Makes the question from the frame, the arguments with the defaults of those that are left
    out, and the given ones without secrets; None: the call needs no permission."""
    instead: CallReplacement | None = None
    """How the person's answer can replace the call; None: only yes or no."""


class RowTerms(NamedTuple):
    """How the call of a flow for one row of a table differs from any other call: its outcome is
    journaled, and a limit that it reaches fails the row, not the run."""

    sessions: int
    """The agent sessions of one row, at most; 0: no limit."""
    row_of: Callable[[Frame], Value]
    """The row as it was given, of the frame in which the flow is called."""


class Pick(NamedTuple):
    """How a step chooses its callee while it runs."""

    by: Expr
    """Its value is the name."""
    among: tuple[Name, ...] | None = None
    """The names to choose from; None: all that are registered."""


class Lookup(NamedTuple):
    """What the names of a call mean where nothing is registered under them."""

    file: Name | None = None
    """Defines the callee: the file of a definition, or a function of a Python file
    (``tools.py:add``). A path is relative to the file that names it, else to the notebook's folder
    (decision A16)."""
    files: Mapping[str, Name] = {}
    """The files for names of `Pick.among` and of the step's tools, as `file` for the step's own."""
    registered: Mapping[str, str] = {}
    """The registered names of `Pick.among` and of the step's tools (B5)."""
    derived: tuple[DerivedTool, ...] = ()
    """Tools that the definition itself makes."""
    only_tools: bool = False
    """Whether a tool's name must not be a flow's (decision P22)."""


class Exchange(NamedTuple):
    """What passes between a step and its callee, beyond the arguments and the result."""

    with_schema: bool = False
    """Whether the arguments are built with the schema of the callee's input."""
    extra_arguments: tuple[str, ...] = ()
    """Additional arguments, for a tool that has parameters with these names."""
    keep_arguments: bool = False
    """Whether the step's target gets the arguments of the call."""
    pipe: Expr | None = None
    """The pipe of a called flow."""
    while_waiting: Callable[[Frame, Mapping[str, Value]], Frame] | None = None
    """Makes the frame that a run shows while the called flow waits for an answer, from the frame of
    the step and the stores of that flow; None: the frame of the step is shown."""
    row: RowTerms | None = None
    """The terms of a row of a table, if the called flow runs for one (decision D53); None: for all
    other calls."""
