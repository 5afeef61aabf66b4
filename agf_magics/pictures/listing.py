"""The registered flows and tools as tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from ..flow.steps import Flow, outermost
from .plain import counted, line
from .values import Table, drop_empty_columns, table_html, table_text


class ToolLike(Protocol):
    """What the table reads of a tool."""

    @property
    def name(self) -> str: ...
    @property
    def takes(self) -> str:
        """Its arguments on one line."""
        ...

    @property
    def description(self) -> str: ...
    @property
    def where(self) -> str | None: ...
    @property
    def secret(self) -> Collection[str]: ...


_NO_FLOWS = "no flows are registered: define one with %%pipeline"
_NO_TOOLS = "no tools are registered: put @tool above a function"


def flows_html(flows: Iterable[Flow]) -> str:
    return _html(_flows(flows), "flow", _NO_FLOWS)


def flows_text(flows: Iterable[Flow]) -> str:
    return _text(_flows(flows), _NO_FLOWS)


def tools_html(tools: Iterable[ToolLike]) -> str:
    return _html(_tools(tools), "tool", _NO_TOOLS)


def tools_text(tools: Iterable[ToolLike]) -> str:
    return _text(_tools(tools), _NO_TOOLS)


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


def _html(table: Table, noun: str, none: str) -> str:
    columns, rows = drop_empty_columns(*table)
    return table_html(columns, rows, counted(len(rows), noun)) if rows else f"<p>{none}</p>"


def _text(table: Table, none: str) -> str:
    columns, rows = drop_empty_columns(*table)
    return "\n".join(table_text(columns, rows)) if rows else none
