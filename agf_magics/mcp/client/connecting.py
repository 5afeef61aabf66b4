"""The two ways to reach an MCP server: `Command` starts a process, `Address` connects over HTTP."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...catalog.models.model_fault import without_keys
from ...text.diagnostics import Diagnostic
from ...text.folder import notebook_folder
from .environment import literal_secrets, read_values, shown_words
from .foreign_text import Masked


class Target(Protocol):
    """The way in which a server is reached."""

    @property
    def text(self) -> str:
        """The target as a person wrote it."""
        ...

    @property
    def line(self) -> str:
        """The words that follow ``%mcp connect NAME`` to connect the same server."""
        ...

    def warnings(self, who: str) -> list[Diagnostic]:
        """A warning for each secret that is written out. ``who``: the name of the server in
        messages."""
        ...

    def prepare(self, who: str, complain: Callable[[str], None]) -> tuple[Any, Masked]:
        """A function that opens the transport, and the secrets to mask in texts. ``complain`` is
        called with each text that a process writes to stderr. Raises DefinitionError."""
        ...


@dataclass(frozen=True)
class Address:
    """A server that is reached over HTTP."""

    address: str
    headers: Mapping[str, str] = field(default_factory=dict)
    signs_in: bool = False
    """Whether a person signs in to the address with a browser."""

    @property
    def text(self) -> str:
        return without_keys(self.address)

    @property
    def line(self) -> str:
        signs_in = ["--sign-in"] if self.signs_in else []
        return shlex.join([self.text, *shown_words("--header", self.headers), *signs_in])

    def warnings(self, who: str) -> list[Diagnostic]:
        return literal_secrets(who, self.headers)

    def prepare(self, who: str, complain: Callable[[str], None]) -> tuple[Any, Masked]:
        from .http import bounded_http

        headers, secrets = read_values(who, self.headers)
        if self.signs_in:
            from .signed_in import signed_in_http

            return lambda ended: signed_in_http(self.address, headers, ended), Masked(secrets)
        return lambda ended: bounded_http(self.address, headers, ended), Masked(secrets)


@dataclass(frozen=True)
class Command:
    """A server that is a process: it reads messages from stdin and writes messages to stdout."""

    words: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return shlex.join(self.words)

    @property
    def line(self) -> str:
        return shlex.join([*shown_words("--env", self.environment), "--", *self.words])

    def warnings(self, who: str) -> list[Diagnostic]:
        return literal_secrets(who, self.environment)

    def prepare(self, who: str, complain: Callable[[str], None]) -> tuple[Any, Masked]:
        from .stdio import bounded_stdio

        environment, secrets = read_values(who, self.environment)
        program, *arguments = self.words
        # `python` is the kernel's own, as in %pip: PATH may lead to one without the server.
        words = [sys.executable if program == "python" else program, *arguments]
        folder = notebook_folder.path
        opens = lambda ended: bounded_stdio(words, environment, folder, complain, ended)  # noqa: E731
        return opens, Masked(secrets)
