"""A server's tool as a tool of the registry."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Any

from ...catalog import Tool, ToolContext
from ...catalog.tools.schema_arguments import SchemaArguments
from ...values.value import Value
from .listing import Listed

CONTEXT = "tool context"
"""The name under which the function of such a tool gets its `ToolContext`: no argument of a server
that a definition can name has a blank, so none is hidden."""

Calls = Callable[[str, dict[str, Value], ToolContext], Awaitable[Value]]
"""Calls a tool of the server by the server's own name."""


def make_tool(listed: Listed, version: str, calls: Calls, timeout: float, is_trusted: bool) -> Tool:
    """The tool that a flow calls. ``version``: what the server says of its own version."""

    async def call(**given: Any) -> Value:
        context = given.pop(CONTEXT, None) or ToolContext()
        return await calls(listed.name, given, context)

    call.__name__ = call.__qualname__ = listed.registered
    call.__doc__ = listed.description
    reuse = listed.is_read_only and is_trusted
    return Tool(
        name=listed.registered,
        function=call,
        arguments=SchemaArguments(listed.accepts, _unwrapped(listed.gives), (CONTEXT,)),
        description=listed.description,
        timeout=timeout,
        reuse=reuse,
        is_async=True,
        kernel_only=True,
        digest=_digest(listed, version) if reuse else None,
        asks_first=not is_trusted,
    )


def _unwrapped(gives: dict[str, Any] | None) -> dict[str, Any] | None:
    """The schema of the value that a step gets, without the object around a value that is none."""
    fields = gives.get("properties") if gives else None
    if gives is None or not isinstance(fields, dict) or set(fields) != {"result"}:
        return gives
    inner = fields["result"]
    if not isinstance(inner, dict):
        return None
    return {**inner, **({"$defs": gives["$defs"]} if "$defs" in gives else {})}


def _digest(listed: Listed, version: str) -> str:
    schema = json.dumps(listed.accepts, sort_keys=True)
    return "\0".join(
        ("mcp", listed.registered, version, hashlib.sha256(schema.encode()).hexdigest())
    )
