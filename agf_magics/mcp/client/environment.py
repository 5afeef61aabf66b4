"""Reads the environment variables and headers for a server: texts, or names of variables
(``$NAME``).

A value that begins with ``$`` is read from the environment of this process at every start of the
server, so that no notebook contains a token. The values that were read are masked wherever a text
of the server is shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ...text.diagnostics import DefinitionError, Diagnostic

_NAMED = re.compile(
    r"\$(?:\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}|([A-Za-z_][A-Za-z0-9_]*))"
)
"""A name of a variable: ``$NAME``, ``${NAME}``, or, as other programs write it, ``${env:NAME}`` and
``${NAME:-default}``."""
NAMED_IN_FILE = re.compile(r"\$\{[^{}]*\}")
"""A variable in any part of an entry of a file."""
_SECRET_NAME = re.compile(r"(?i)token|secret|password|passwd|api.?key|authorization|credential")
_SECRET_VALUE = re.compile(
    r"(?i)^(?:bearer |basic )?(?:sk|pk|ghp|gho|xox[a-z]|glpat|eyJ)[-_A-Za-z0-9.]{12,}$"
)

INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""The variables of this process's environment that every server gets, as in the SDK."""


def read_values(owner: str, values: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """``values`` with the variables that they name filled in, and the secrets: all values that were
    read from the environment. ``owner``: the server in messages, as in ``MCP server 'good'``.
    Raises DefinitionError ``mcp.environment`` for a variable that is not set."""
    secrets: list[str] = []

    def read(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        value = os.environ.get(name)
        if match[2] is not None and not value:
            return match[2]
        if value is None:
            message = f"{owner} needs the environment variable {name!r}, which is not set"
            hint = (
                "set it before the kernel starts, or in a cell: import os, getpass; "
                f"os.environ[{name!r}] = getpass.getpass()"
            )
            raise DefinitionError(Diagnostic("mcp.environment", message, hint=hint))
        secrets.append(value)
        return value

    return {name: _NAMED.sub(read, value) for name, value in values.items()}, secrets


def literal_secrets(owner: str, values: Mapping[str, str]) -> list[Diagnostic]:
    """A warning for each value that looks like a secret and is written out, not named."""
    return [
        Diagnostic(
            "mcp.literal-secret",
            f"{owner}: the value of {name!r} looks like a secret and is written out",
            hint=f"set an environment variable and write '${_variable(name)}' in its place",
            severity="warning",
        )
        for name, value in values.items()
        if value
        and not _NAMED.search(value)
        and (_SECRET_NAME.search(name) or _SECRET_VALUE.match(value))
    ]


def shown_words(option: str, values: Mapping[str, str]) -> list[str]:
    """``values`` as the words of a magic's line. A value that names no variable is left out,
    because it may be a secret."""
    pairs = ((name, value if _NAMED.search(value) else "…") for name, value in values.items())
    return [word for name, value in pairs for word in (option, f"{name}={value}")]


def _variable(name: str) -> str:
    return re.sub(r"\W", "_", name).upper()
