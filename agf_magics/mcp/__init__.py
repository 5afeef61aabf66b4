"""MCP both ways: the tools of a server in flows, and flows as the tools of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .server.serve import FlowsServed, serve
else:
    _MODULES = {
        "FlowsServed": ".server.serve",
        "serve": ".server.serve",
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


__all__ = ["FlowsServed", "serve"]
