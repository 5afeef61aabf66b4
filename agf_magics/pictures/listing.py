"""What is registered, as a table: flows and tools."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from typing import Protocol

from ..flow.steps import Flow, outermost
from ..progress.progress import Progress
from . import theme as look
from .page import status
from .plain import counted, duration, line
from .values import table_html, table_text


class ToolLike(Protocol):
    """What a listing reads of a tool."""

    @property
    def name(self) -> str: ...
    @property
    def takes(self) -> str:
        """Its arguments in a line."""
        ...

    @property
    def description(self) -> str: ...
    @property
    def where(self) -> str | None: ...
    @property
    def secret(self) -> Collection[str]: ...


class RunLike(Protocol):
    """What a listing reads of a run."""

    @property
    def run_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def progress(self) -> Progress: ...
    @property
    def origin(self) -> str:
        """Where its result is shown."""
        ...


Table = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]

NO_FLOWS = "no flows are registered: define one with %%pipeline"
NO_RUNS = "no runs: %run_pipeline_async NAME starts one in the background"
NO_TOOLS = "no tools are registered: put @tool above a function"


def flows_html(flows: Iterable[Flow]) -> str:
    return _html(_flows(flows), "flow", NO_FLOWS)


def flows_text(flows: Iterable[Flow]) -> str:
    return _text(_flows(flows), NO_FLOWS)


def tools_html(tools: Iterable[ToolLike]) -> str:
    return _html(_tools(tools), "tool", NO_TOOLS)


def tools_text(tools: Iterable[ToolLike]) -> str:
    return _text(_tools(tools), NO_TOOLS)


def runs_html(runs: Iterable[RunLike]) -> str:
    return _html(_runs(runs), "run", NO_RUNS, "in this kernel: ")


def runs_text(runs: Iterable[RunLike]) -> str:
    return _text(_runs(runs), NO_RUNS)


def _runs(runs: Iterable[RunLike]) -> Table:
    columns = ("run", "name", "status", "took", "tokens", "shown in")
    rows = (
        (
            line(run.run_id, 80),
            line(run.name, 60),
            _state(run),
            _took(run.progress),
            _tokens(run.progress),
            line(run.origin, 60),
        )
        for run in runs
    )
    return columns, tuple(rows)


def _state(run: RunLike) -> str:
    shown = look.state(status(run.progress))
    return f"{shown.mark} {shown.word}"


def _tokens(progress: Progress) -> str:
    return f"{progress.usage.tokens:,}" if progress.usage.requests else ""


def _took(progress: Progress) -> str:
    if progress.when is None:
        return ""
    return duration(progress.seconds if progress.seconds is not None else time.monotonic() - progress.when)


def _flows(flows: Iterable[Flow]) -> Table:
    columns = ("name", "language", "steps", "inputs", "description")
    rows = (
        (line(flow.name, 60), flow.language, f"{len(outermost(flow)):,}", _inputs(flow), line(flow.description, 100))
        for flow in flows
    )
    return columns, tuple(rows)


def _inputs(flow: Flow) -> str:
    return line(", ".join(dict.fromkeys(str(ref.path[-1]) for ref in flow.inputs)), 80)


def _tools(tools: Iterable[ToolLike]) -> Table:
    columns = ("name", "arguments", "description", "runs", "secret")
    rows = (
        (line(tool.name, 60), line(tool.takes, 100), line(tool.description, 100), tool.where or "",
         line(", ".join(sorted(tool.secret)), 60))
        for tool in tools
    )  # fmt: skip
    return columns, tuple(rows)


def _html(table: Table, noun: str, none: str, where: str = "") -> str:
    columns, rows = _filled(table)
    return table_html(columns, rows, where + counted(len(rows), noun)) if rows else f"<p>{none}</p>"


def _text(table: Table, none: str) -> str:
    columns, rows = _filled(table)
    return "\n".join(table_text(columns, rows)) if rows else none


def _filled(table: Table) -> Table:
    """Without the columns in which nobody has anything."""
    columns, rows = table
    kept = [place for place in range(len(columns)) if any(row[place] for row in rows)]
    return tuple(columns[place] for place in kept), tuple(tuple(row[place] for place in kept) for row in rows)
