"""The registered flows and tools as tables, in HTML and in text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from ..flow.steps import Flow, outermost
from .plain import counted, line
from .values import drop_empty_columns, table_html, table_text


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


def list_flows(flows: Iterable[Flow]) -> dict[str, str]:
    """The table by MIME type."""
    rows = [
        (
            line(flow.name, 60),
            flow.language,
            f"{len(outermost(flow)):,}",
            _inputs(flow),
            line(flow.description, 100),
        )
        for flow in flows
    ]
    columns = ("name", "language", "steps", "inputs", "description")
    return list_rows(columns, rows, "flow", "no flows are registered: define one with %%pipeline")


def list_tools(tools: Iterable[ToolLike]) -> dict[str, str]:
    """The table by MIME type."""
    rows = [
        (
            line(tool.name, 60),
            line(tool.takes, 100),
            line(tool.description, 100),
            tool.where or "",
            line(", ".join(sorted(tool.secret)), 60),
        )
        for tool in tools
    ]
    columns = ("name", "arguments", "description", "runs", "secret")
    return list_rows(columns, rows, "tool", "no tools are registered: put @tool above a function")


def list_rows(
    columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], noun: str, none: str
) -> dict[str, str]:
    """``none``: the text of an empty table."""
    if not rows:
        return {"text/html": f"<p>{none}</p>", "text/plain": none}
    table = drop_empty_columns(columns, tuple(rows))
    return {
        "text/html": table_html(*table, counted(len(rows), noun)),
        "text/plain": "\n".join(table_text(*table)),
    }


def _inputs(flow: Flow) -> str:
    return line(", ".join(dict.fromkeys(str(ref.path[-1]) for ref in flow.inputs)), 80)
