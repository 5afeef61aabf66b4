"""`agf.mcp.serve`, which serves the flows of a notebook as MCP tools, as long as the kernel
lives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...catalog import Registry, default
from ...catalog.tools.throttle import check_at_once
from ...engine.run_options import check_limits
from ...flow.flow import Flow
from ...lifecycle.launch.find_flow import find_flow
from ...limits.limits import Limits
from ..sdk import require_sdk
from .token import checked_token, new_token

if TYPE_CHECKING:
    from .http import HttpServer


class FlowsServed:
    """A server of flows over HTTP on this machine."""

    def __init__(self, server: HttpServer, names: Iterable[str], token: str) -> None:
        self._server = server
        self.tools = tuple(names)
        """The names of the flows that are its tools."""
        self._token = token

    @property
    def url(self) -> str:
        """The address, for a client that is given a URL."""
        return self._server.url

    @property
    def headers(self) -> Mapping[str, str]:
        """The header that each request must have. It is a password: whoever has it runs the flows."""
        return {"Authorization": f"Bearer {self._token}"}

    @property
    def config(self) -> Mapping[str, Any]:
        """What a client's file of servers has, as ``.mcp.json``: the address with the header."""
        entry = {"type": "http", "url": self.url, "headers": dict(self.headers)}
        return {"mcpServers": {"agf-magics": entry}}

    @property
    def is_open(self) -> bool:
        """Whether the server takes requests."""
        return self._server.is_open

    def close(self) -> None:
        """Take no more requests. What waits for a result is cancelled; runs that were launched with
        ``run_pipeline_async`` go on as background runs of the kernel."""
        self._server.close()

    def __enter__(self) -> FlowsServed:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed"
        return f"<MCP server {self.url} {state}: {', '.join(self.tools)}; .config has its token>"


def serve(
    flows: Flow | str | Path | Iterable[Flow | str | Path] | None = None,
    *,
    port: int = 0,
    token: str | None = None,
    at_once: int = 8,
    limits: Limits | None = None,
    registry: Registry | None = None,
) -> FlowsServed:
    """Serve flows as the tools of an MCP server over HTTP on 127.0.0.1, until `FlowsServed.close` or the
    end of the kernel.

    Parameters:

    - ``flows``: a `Flow`, the name of a registered flow, the `Path` of a file, or a list of these.
      Default None: all registered flows, as they are now.
    - ``port``: the port. Default 0: a free one.
    - ``token``: what clients send in the header ``Authorization: Bearer TOKEN``. Default None: a new
      random one, which ``.headers`` and ``.config`` have.
    - ``at_once``: the number of runs at the same time; further calls wait. Default 8.
    - ``limits``: the `Limits` of each run. Default None: those of the settings.
    - ``registry``: the `Registry` of the flows. Default None: the registry of this process.

    Raises DefinitionError if the SDK is not installed, a flow is unknown or its name is no name of a
    tool, or the port is taken; TypeError and ValueError if another argument has a wrong type or value.
    """
    require_sdk()
    from .http import HttpServer
    from .protocol import FlowServer

    registry = default(registry)
    named = [flows] if isinstance(flows, Flow | str | Path) else flows
    named = registry.flows.values() if named is None else named
    chosen = [find_flow(flow, registry) for flow in named]
    token = checked_token(new_token() if token is None else token)
    check_at_once(at_once)
    check_limits(limits)
    server = HttpServer(FlowServer(chosen, registry, at_once, limits), port, token)
    return FlowsServed(server, [flow.name for flow in chosen], token)
