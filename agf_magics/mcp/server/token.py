"""The token that clients of the HTTP server send: a random text, or a text that a person
chooses."""

from __future__ import annotations

import os
import secrets

from ...text.diagnostics import refused

VARIABLE = "AGF_MAGICS_MCP_TOKEN"
"""The environment variable with the token of ``agf-magics mcp --http``."""

SHORTEST = 16
"""Characters of a token that a person chooses: a shorter one could be guessed."""


def new_token() -> str:
    return secrets.token_urlsafe(24)


def token_of_environment() -> str | None:
    """The token in the variable `VARIABLE`; None if it is not set. Raises DefinitionError
    ``mcp.token`` if the text is no valid token."""
    token = os.environ.get(VARIABLE, "")
    return checked_token(token) if token else None


def checked_token(token: str) -> str:
    """``token``, if a header can contain it and nobody guesses it. Raises DefinitionError
    ``mcp.token``."""
    text: object = token
    letters = token if isinstance(text, str) and token.isascii() and token.isprintable() else ""
    if len(letters) < SHORTEST or " " in letters:
        message = f"a token has at least {SHORTEST} letters, digits and signs, and no blank"
        raise refused("mcp.token", message, "without one, a new token is made for the server")
    return token
