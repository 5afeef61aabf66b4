"""A server's tool as a tool of the registry."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ...catalog import Throttle, Tool, ToolContext
from ...catalog.tools.schema_arguments import SchemaArguments
from ...values.value import Value
from .listing import Listed

CONTEXT = "tool context"
"""The name under which the function of such a tool gets its `ToolContext`: no argument of a server
that a definition can name has a blank, so none is hidden."""

Calls = Callable[[str, dict[str, Value], ToolContext], Awaitable[Value]]
"""Calls a tool of the server by the server's own name."""


class Owner(NamedTuple):
    """The server that has a tool."""

    name: str
    ref: str
    version: str
    """What it says of its own version."""
    timeout: float
    """Seconds that a call may take."""
    throttle: Throttle | None
    """How many calls are made at a time, of all its tools together."""
    is_trusted: bool


def make_tool(listed: Listed, owner: Owner, calls: Calls) -> Tool:
    """The tool that a flow calls."""

    async def call(**arguments: Any) -> Value:
        context = arguments.pop(CONTEXT, None) or ToolContext()
        return await calls(listed.name, arguments, context)

    call.__name__ = call.__qualname__ = listed.registered
    call.__doc__ = listed.description
    reuse = listed.is_read_only and owner.is_trusted
    return Tool(
        name=listed.registered,
        function=call,
        arguments=SchemaArguments(listed.accepts, _unwrapped(listed.gives), (CONTEXT,)),
        description=listed.description,
        timeout=owner.timeout,
        reuse=reuse,
        is_async=True,
        kernel_only=True,
        listed_only=listed.is_ours,
        digest=_digest(listed, owner.version) if reuse else None,
        asks_first=not owner.is_trusted,
        server=owner.name,
        server_ref=owner.ref,
        throttle=owner.throttle,
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
