"""The two ways to reach an MCP server: `Command` starts a process, `Address` connects over HTTP."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ...catalog.models.model_fault import without_keys
from ...journal.codec.signatures import sign, user_key
from ...text.diagnostics import Diagnostic
from ...text.folder import notebook_folder
from .environment import literal_secrets, read_values, shown_words
from .foreign_text import Masked


class Prepared(NamedTuple):
    """A target whose variables are filled in."""

    opens: Any
    """Opens the transport; its argument is called when the transport ends."""
    masked: Masked
    """The secrets to mask in texts."""
    digest: str | None
    """The digest of the program or the address with all its values, made with the user's key,
    because a secret could be guessed from a plain one. None: this user has no key."""


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

    def prepare(self, who: str, complain: Callable[[str], None]) -> Prepared:
        """The target as it is opened now. ``complain`` is called with each text that a process
        writes to stderr. Raises DefinitionError."""
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

    def prepare(self, who: str, complain: Callable[[str], None]) -> Prepared:
        from .http import bounded_http

        headers, secrets = read_values(who, self.headers)
        digest = _digest(self.address, headers, self.signs_in)
        if self.signs_in:
            from .signed_in import signed_in_http

            signed_in = lambda ended: signed_in_http(self.address, headers, ended)  # noqa: E731
            return Prepared(signed_in, Masked(secrets), digest)
        opens = lambda ended: bounded_http(self.address, headers, ended)  # noqa: E731
        return Prepared(opens, Masked(secrets), digest)


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

    def prepare(self, who: str, complain: Callable[[str], None]) -> Prepared:
        from .stdio import bounded_stdio

        environment, secrets = read_values(who, self.environment)
        program, *arguments = self.words
        # `python` is the kernel's own, as in %pip: PATH may lead to one without the server.
        words = [sys.executable if program == "python" else program, *arguments]
        folder = notebook_folder.path
        opens = lambda ended: bounded_stdio(words, environment, folder, complain, ended)  # noqa: E731
        # The folder counts, because a program looks there for its files.
        digest = _digest(list(self.words), environment, str(folder))
        return Prepared(opens, Masked(secrets), digest)


def _digest(*parts: Any) -> str | None:
    key = user_key()
    return sign(key, "mcp", json.dumps(parts, sort_keys=True)).hex() if key is not None else None
