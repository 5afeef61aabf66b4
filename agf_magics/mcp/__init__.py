"""The Model Context Protocol (MCP): flows call tools of servers, and a server offers flows as
tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client.server import Server
    from .client.servers import close_all, connect, servers
    from .server.serve import FlowsServed, serve
else:
    _MODULES = {
        "FlowsServed": ".server.serve",
        "Server": ".client.server",
        "close_all": ".client.servers",
        "connect": ".client.servers",
        "serve": ".server.serve",
        "servers": ".client.servers",
    }
    """The module that defines a name: each of them needs the SDK."""

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        from .sdk import require_sdk

        require_sdk()
        globals()[name] = getattr(import_module(_MODULES[name], __name__), name)
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES})


__all__ = ["FlowsServed", "Server", "close_all", "connect", "serve", "servers"]
