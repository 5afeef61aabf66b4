"""Finds the registered tools of the MCP servers that a document names.

A document names a server by an alias, and perhaps by its global name (``server_ref``). The server
is the one that is connected under the alias, or else under the global name. A definition never
starts a server (decision B3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...catalog import Registry, Tool
from ...flow.step_options import EVERY_TOOL, ServerUse
from ...text.diagnostics import Diagnostic


def server_tools(alias: str, ref: str, registry: Registry) -> dict[str, Tool]:
    """The registered tools of a server, by the server's own names; empty: it is not connected."""
    tools = [tool for tool in registry.tools.values() if tool.server]
    owned = [tool for tool in tools if tool.server == alias]
    owned = owned or [tool for tool in tools if ref and tool.server_ref == ref]
    return {tool.name.removeprefix(f"{tool.server}__"): tool for tool in owned}


def expand(name: str, registered: str, registry: Registry) -> list[tuple[str, str]]:
    """A name that a definition offers or allows, with its registered name; for ``ALIAS__*`` each
    tool of that server. ``registered``: the registered name that the definition tells."""
    alias, _, tool = name.partition("__")
    if tool == EVERY_TOOL:
        ref = registered.removesuffix(f"__{EVERY_TOOL}")
        tools = server_tools(alias, ref, registry)
        return [(f"{alias}__{local}", tool.name) for local, tool in tools.items()]
    ref, _, local = registered.rpartition("__")
    if ref and name not in registry.tools and registered not in registry.tools:
        of_server = server_tools(alias, ref, registry).get(local)
        return [(name, of_server.name if of_server is not None else registered)]
    return [(name, registered or name)]


def absent(servers: Iterable[ServerUse], registry: Registry) -> Iterator[ServerUse]:
    """The needed servers that are not connected."""
    return (
        server for server in servers if not server_tools(server.alias.text, server.ref, registry)
    )


def not_connected(server: ServerUse, registry: Registry) -> Diagnostic:
    """The error for a server that is not connected."""
    alias = server.alias.text
    ref = server.ref
    gone = registry.tools.gone(f"{alias}__")
    message = f"MCP server {alias!r}{f' ({ref})' if ref else ''} is not connected"
    hint = gone.hint if gone is not None else f"connect it: %mcp connect {alias} -- COMMAND"
    return Diagnostic("policy.mcp-not-connected", message, server.alias.span, hint)
