"""Hides the schemas of a server's results from the SDK, which would run their patterns.

The SDK checks each result by the schema that the server has listed, with Python's `re`: one pattern
such as ``^(a+)+$`` and one result stop the whole kernel. So a listing reaches the SDK without these
schemas, and `server` checks each result with RE2 instead (decision D5).
"""

from __future__ import annotations

from typing import Any, TypeVar

KEPT = "agf.outputSchema"
"""The key in the ``_meta`` of a tool that has the schema of the tool's result."""

T = TypeVar("T")


def hide_output_schemas(message: T) -> T:
    """``message``; if it is a list of tools, the schemas of results are moved to ``_meta``."""
    result = getattr(message, "result", None)
    tools = result.get("tools") if isinstance(result, dict) else None
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict):
            meta = tool.get("_meta")
            meta = {**meta} if isinstance(meta, dict) else {}
            meta.pop(KEPT, None)
            if isinstance(schema := tool.pop("outputSchema", None), dict):
                meta[KEPT] = schema
            if meta:
                tool["_meta"] = meta
    return message


def output_schema(tool: Any) -> dict[str, Any] | None:
    """The schema of the results of a listed tool; None: the server declares no schema."""
    schema = (tool.meta or {}).get(KEPT)
    return schema if isinstance(schema, dict) else None
