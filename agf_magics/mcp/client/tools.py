"""Makes a tool of the registry from a tool that a server lists; `server` registers it."""

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
"""The parameter through which the function of a tool gets its `ToolContext`. The name has a blank,
so that it hides no argument of a server that a definition can name."""

Calls = Callable[[str, dict[str, Value], ToolContext], Awaitable[Value]]
"""Calls a tool of the server by the server's own name."""


class Owner(NamedTuple):
    """The server that has a tool, as far as the tool needs it."""

    name: str
    ref: str
    version: str
    """The version that the server says it has."""
    target: str | None
    """The digest of the program or the address, by which two servers of one name differ; None:
    unknown, so no result is reused."""
    timeout: float
    """Seconds that a call may take."""
    throttle: Throttle | None
    """The limit of concurrent calls of all tools of the server together; None: no limit."""
    is_trusted: bool


def make_tool(listed: Listed, owner: Owner, calls: Calls) -> Tool:
    """The tool that flows call. ``calls`` sends a call to the server."""

    async def call(**arguments: Any) -> Value:
        context = arguments.pop(CONTEXT, None) or ToolContext()
        return await calls(listed.name, arguments, context)

    call.__name__ = call.__qualname__ = listed.registered
    call.__doc__ = listed.description
    digest = _digest(listed, owner)
    reuse = listed.is_read_only and owner.is_trusted and digest is not None
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
        digest=digest if reuse else None,
        asks_first=not owner.is_trusted,
        server=owner.name,
        server_ref=owner.ref,
        throttle=owner.throttle,
    )


def _unwrapped(gives: dict[str, Any] | None) -> dict[str, Any] | None:
    """The schema of the value of a step: without the object that a server puts around a value that
    is no object; None: there is no schema."""
    fields = gives.get("properties") if gives else None
    if gives is None or not isinstance(fields, dict) or set(fields) != {"result"}:
        return gives
    inner = fields["result"]
    if not isinstance(inner, dict):
        return None
    return {**inner, **({"$defs": gives["$defs"]} if "$defs" in gives else {})}


def _digest(listed: Listed, owner: Owner) -> str | None:
    if owner.target is None:
        return None
    schema = hashlib.sha256(json.dumps(listed.accepts, sort_keys=True).encode()).hexdigest()
    return "\0".join(("mcp", listed.registered, owner.target, owner.version, schema))
