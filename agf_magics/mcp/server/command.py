"""The command ``agf-magics mcp``, which serves the definitions of files as tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from ...catalog import Registry
from ...commands.line import ParsedLine
from ...commands.named_definitions import all_definitions
from ...commands.values import count, limits_of
from ...commands.words import line_error
from ...flow.flow import Flow
from ...lifecycle.definitions.define import register
from ...lifecycle.definitions.file_sets import registry_with
from ...lifecycle.runs.live import live
from ...settings.settings import current
from ..sdk import require_sdk
from .token import new_token, token_of_environment

GREATEST_PORT = 65_535


def serve_command(parsed: ParsedLine, registry: Registry, tell: Callable[[str], object]) -> int:
    """Serve until the client goes. ``tell`` writes to stderr. Raises DefinitionError."""
    require_sdk()
    from .protocol import FlowServer
    from .served_runs import MOST_RUNNING

    port = count(parsed, "--http", None)
    if port is not None and port > GREATEST_PORT:
        raise line_error("count", f"a port is at most {GREATEST_PORT}", parsed.words("--http")[0])
    at_once = count(parsed, "--at-once", MOST_RUNNING, least=1)
    limits = limits_of(parsed, current.settings.limits)
    server = FlowServer([*_flows(parsed, registry, tell)], registry, at_once, limits)
    try:
        if port is None:
            from .stdio import serve_stdio

            asyncio.run(serve_stdio(server))
        else:
            from .http import serve_here

            token = token_of_environment()
            if token is None:
                token = new_token()
                tell(f"Authorization: Bearer {token}")  # alone, so that no line is wrapped
            serve_here(server, port, token, tell)
    finally:
        live.leave_open()  # launched runs that have not ended can be resumed
    return 0


def _flows(parsed: ParsedLine, registry: Registry, tell: Callable[[str], object]) -> Iterator[Flow]:
    """Register the definitions of the line, which may call each other in any order."""
    files = all_definitions(parsed.words("FILE"))
    names_from, _ = registry_with(files, registry)
    for file in files:
        defined = register(
            file, registry=registry, origin=str(file.resolve()), names_from=names_from
        )
        for note in defined.replacements:
            tell(f"note: {note}")
        if defined.flow is not None:
            yield registry.flows[_name_of(defined.flow, file.stem)]


def _name_of(flow: Flow, file: str) -> str:
    return flow.name or file
