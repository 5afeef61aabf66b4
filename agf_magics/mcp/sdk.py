"""Checks that the SDK of the Model Context Protocol is installed; the extra ``mcp`` installs it.

The SDK may be missing, and its import takes a second. So a function that needs a file of this room
first calls `require_sdk`, and then imports the file.
"""

from __future__ import annotations

from ..compat.imports import installed_only
from ..text.diagnostics import DefinitionError, Diagnostic


def require_sdk() -> None:
    """Import the SDK. Raises DefinitionError ``mcp.not-installed`` if it is missing, or older than
    the version that this room needs."""
    try:
        with installed_only():
            from mcp import Client  # noqa: F401  # SDK 2 has it, SDK 1 has not
    except ImportError:
        message = "MCP needs the package mcp, version 2.3, which is not installed"
        hint = "pip install 'agf-magics[mcp]'"
        raise DefinitionError(Diagnostic("mcp.not-installed", message, hint=hint)) from None
