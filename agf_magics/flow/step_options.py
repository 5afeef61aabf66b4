"""The options of steps and definitions: limits, questions, exports, replacements, rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..text.source import Span
from ..values.value import Value
from .protocols import Expr, Frame, Name


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLimits:
    """The limits that a definition sets for one run of it and everything that it calls. They can
    only narrow the limits of the outer run. None: the definition does not limit this."""

    tool_calls: int | None = None
    model_calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    """US dollars."""
    depth: int | None = None
    """The largest depth of flows and agents that call each other."""
    seconds: float | None = None
    """The longest duration of one run of the definition."""
    span: Span | None = None
    """The place of the limits in the text."""


class Uses(NamedTuple):
    """A tool that a definition allows for itself and all that it calls (a local tool of an action
    space)."""

    alias: str
    registered: str = ""
    """The name of the registered tool, if no tool is registered under the alias."""
    asks: bool = False
    """Whether a person must approve each call. If so, only a step that asks a person may call the
    tool."""


EVERY_TOOL = "*"
"""The end of ``SERVER__*``, which stands for every tool of an MCP server."""


class ServerUse(NamedTuple):
    """An MCP server that a definition needs."""

    alias: Name
    ref: str = ""
    """The global name under which a person may have connected the server."""


class DerivedTool(NamedTuple):
    """A tool that a definition makes from a registered tool."""

    name: str
    base: str
    """The name of the registered tool. A step that may not use it may not use the derived tool
    either."""
    description: str
    parameters: tuple[str, ...]
    """The names of the parameters. All are required and accept any JSON value."""
    arguments: Callable[[Mapping[str, Value]], Mapping[str, Value]]
    """Converts the arguments to those of the registered tool."""
    result: Callable[[Value], Value]
    """Converts the result of the registered tool."""


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
    """The id of the call that gets the value, and the field of its input; None: no call gets it."""


class Asking(NamedTuple):
    """The settings for the agent, the model or the vendor's policy that answers a step, besides the
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
    """The JSON Schema of the answer, if the definition has a schema without a name."""
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
    """Whether ``model`` replaces the model of the agent. An agent without a model is then an
    error."""
    config: Mapping[str, Value] = {}
    """The configuration of a model or a vendor's policy."""
    counts_as_session: bool = True
    """Whether an agent that answers the step counts as a session of the run (decision A15), as in
    pipelines."""


class Export(NamedTuple):
    """A file that holds a result when a person exports a run."""

    name: str
    """The name of the store with the result."""
    format: str
    """``json``, ``markdown`` or ``text``."""
    file: str
    """The path of the file, relative to the folder of the export."""
    span: Span | None = None


class CallReplacement(NamedTuple):
    """How a person's answer replaces a call: with other arguments, or with its result."""

    result: str
    """The key of the result in the answer; all other keys are arguments."""
    take: Callable[[Frame, Mapping[str, Value]], None]
    """Checks the answer, without secrets, before it is used. Raises StepError to refuse it."""


class Permit(NamedTuple):
    """The question to a person before a call."""

    ask: Callable[[Frame, Mapping[str, Value], Any], str | None]
    """Returns the question from the frame, the arguments with their defaults, and the arguments as
    the caller passed them, without secrets; None: the call needs no permission."""
    instead: CallReplacement | None = None
    """How the person's answer can replace the call; None: only yes or no."""
    reads: tuple[Name, ...] = ()
    """The arguments of a tool that decide whether the person is asked; a tool without one of them
    would fail."""
    of: Callable[[str], Permit | None] | None = None
    """Returns the permit for a callee that the step chooses, by its alias; None: it is the same for
    each."""


class RowTerms(NamedTuple):
    """The terms of a flow's call for one row of a table. Its outcome is journaled, and a limit that
    it reaches fails the row, not the run."""

    sessions: int
    """The largest number of agent sessions of one row; 0: no limit."""
    row_of: Callable[[Frame], Value]
    """Returns the original row from the frame in which the flow is called."""
    columns: Mapping[str, str] = {}
    """The name of each argument that a cell gives, and the name of the cell's column."""


class Pick(NamedTuple):
    """How a step chooses its callee while it runs."""

    by: Expr
    """The expression whose value is the name of the callee."""
    among: tuple[Name, ...] | None = None
    """The names to choose from; None: all registered names."""


class Lookup(NamedTuple):
    """The meanings of a call's names if nothing is registered under them."""

    file: Name | None = None
    """Defines the callee: the file of a definition, or a function of a Python file
    (``tools.py:add``). A path is relative to the file that names it, else to the notebook's folder
    (decision A16)."""
    files: Mapping[str, Name] = {}
    """The files for the names of `Pick.among` and of the step's tools."""
    registered: Mapping[str, str] = {}
    """The registered names of `Pick.among` and of the step's tools (B5)."""
    derived: tuple[DerivedTool, ...] = ()
    """Tools that the definition itself makes."""
    only_tools: bool = False
    """Whether the name of a tool must not be the name of a flow (decision P22)."""


class Exchange(NamedTuple):
    """The exchange between a step and its callee besides the arguments and the result."""

    with_schema: bool = False
    """Whether the arguments are built with the schema of the callee's input."""
    extra_arguments: tuple[str, ...] = ()
    """Additional arguments, for a tool that has parameters with these names."""
    keep_arguments: bool = False
    """Whether the step's target gets the arguments of the call."""
    pipe: Expr | None = None
    """The pipe of a called flow; None: it gets none."""
    while_waiting: Callable[[Frame, Mapping[str, Value]], Frame] | None = None
    """Returns the frame that a run shows while the called flow waits for an answer, from the frame
    of the step and the stores of that flow; None: the frame of the step is shown."""
    row: RowTerms | None = None
    """The terms of a row of a table, if the called flow runs for one (decision D53); None: for all
    other calls."""
