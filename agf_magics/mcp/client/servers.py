"""Connects servers, finds a connected server by name, and closes all of them.

Only a person connects a server (decision B3). A definition names servers, and never starts one.
"""

from __future__ import annotations

import asyncio
import atexit
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ...catalog import Registry, Throttle, default
from ...catalog.tools.throttle import make_throttle
from ...text.diagnostics import DefinitionError, Diagnostic
from ...text.folder import notebook_folder
from .config_files import read_entries, read_entry
from .connecting import Address, Command, Target
from .home_loop import HomeLoop
from .server import Server
from .session import CLOSING, MODES

SIGNING_IN = 300.0
"""Seconds that connecting may take if a person signs in."""

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
"""The name of a server, which begins the names of its tools."""


class Servers(Mapping[str, Server]):
    """The connected servers, by name."""

    def __init__(self) -> None:
        self._servers: dict[str, Server] = {}

    def _connected(self) -> dict[str, Server]:
        """The servers without those that a person has closed."""
        servers = self._servers.items()
        return {name: server for name, server in servers if not server.was_closed}

    def __getitem__(self, name: str) -> Server:
        return self._connected()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._connected())

    def __len__(self) -> int:
        return len(self._connected())

    def __repr__(self) -> str:
        return f"<MCP servers: {', '.join(self) or 'none'}>"

    def add(self, server: Server) -> None:
        """Connect a server. A server of the same name is closed first. Raises DefinitionError."""
        if not self._servers:
            atexit.register(self.close_all)
        before = self._servers.pop(server.name, None)
        if before is not None:
            before.close()
        self._servers[server.name] = server
        try:
            HomeLoop.current().wait(server.open())
        except BaseException:
            self._servers.pop(server.name, None)
            server.close()
            raise

    def close_all(self) -> None:
        """Close all servers, at the same time."""
        closing = list(self._servers.values())
        self._servers = {}
        atexit.unregister(self.close_all)
        if closing:
            # At the exit of the process nobody may be left who could stop the wait.
            with suppress(TimeoutError):
                HomeLoop.current().wait(_end_all(closing), 2 * CLOSING)


async def _end_all(closing: Sequence[Server]) -> None:
    async with asyncio.TaskGroup() as group:
        for server in closing:
            group.create_task(server.end())


servers = Servers()
"""The connected servers of this process."""


def connect(
    name: str,
    address: str | None = None,
    *,
    command: Sequence[str] | None = None,
    env: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    file: str | Path | None = None,
    sign_in: bool = False,
    tools: Sequence[str] | None = None,
    timeout: float = 60.0,
    wait: float = 10.0,
    rate: str | None = None,
    at_once: int | None = None,
    trust: bool = False,
    protocol: Literal["auto", "old"] = "auto",
    ref: str = "",
    registry: Registry | None = None,
) -> Server:
    """Connect an MCP server and return it: its tools are tools of the registry from now on, named
    ``NAME__TOOL``. A server of the same name is closed first.

    Parameters:

    - ``name``: the name of the server here. Required.
    - ``address``: the address of a server that is reached over HTTP, ``https://…/mcp``. Default None.
    - ``command``: the words of a command that starts the server as a process; ``python`` is the
      Python of this process. Default None.
    - ``env``: environment variables of the process. A value ``$NAME`` is read from this process's
      environment at each start and masked. Default None: only HOME, LOGNAME, PATH, SHELL, TERM
      and USER, and those that the entry of ``file`` sets.
    - ``headers``: headers of each request to the address, with values as in ``env``. Default None.
    - ``file``: a file that lists servers, as other programs have them (``.mcp.json``): the server is
      its entry ``name``. Default None.
    - ``sign_in``: whether you sign in to the address with a browser (OAuth). The tokens are kept in
      the system's keyring if there is one (``pip install keyring``), else in this process. Default
      False.
    - ``tools``: the names of the server's tools to register. Default None: all.
    - ``timeout``: the longest time that one call may take, in seconds. Default 60.
    - ``wait``: the longest time that connecting may take, in seconds. Default 10.
    - ``rate``: how many calls of all its tools start in an interval, such as ``"20/s"`` or
      ``"100/min"``; others wait. Default None: no limit.
    - ``at_once``: how many calls of all its tools run at the same time; others wait. Default None: no
      limit.
    - ``trust``: whether to believe what the server says about its tools: read-only ones are reused
      (``--reuse``), and no call that a model picks asks you first. Default False.
    - ``protocol``: ``"old"``: only the protocols before 2026. Default ``"auto"``: what the server
      speaks.
    - ``ref``: the ``server_ref`` by which policy documents may name it. Default: empty.
    - ``registry``: the `Registry` that gets the tools. Default None: the registry of this process.

    Raises DefinitionError ``mcp.unreachable`` if it cannot be connected, and ``mcp.config`` for
    wrong parameters.
    """
    _check_name(name)
    mode = _mode(protocol)
    server = Server(
        name,
        _target(name, address, command, env, headers, file, sign_in),
        only=tools,
        timeout=timeout,
        wait=max(wait, SIGNING_IN) if sign_in else wait,
        throttle=_throttle(name, rate, at_once),
        is_trusted=trust,
        mode=mode,
        ref=ref,
        registry=default(registry),
    )
    servers.add(server)
    return server


def connect_file(path: Path, is_allowed: bool, registry: Registry | None = None) -> list[Server]:
    """Connect all servers that a file lists. ``is_allowed``: whether the person who names the file
    allows that; the file may be a stranger's. Raises DefinitionError ``mcp.not-allowed``."""
    entries = read_entries(path)
    if not is_allowed:
        targets = "; ".join(f"{name}: {target.text}" for name, target in entries.items())
        message = f"{path.name} lists MCP servers, which are not started: {targets:.500}"
        hint = "--allow-mcp starts them: each command runs with your rights"
        raise DefinitionError(Diagnostic("mcp.not-allowed", message, hint=hint))
    return [connect(name, file=path.resolve(), registry=registry, wait=60) for name in entries]


def entry_text(file: str | Path, name: str) -> str:
    """The command that an entry of a file would start, or the address that it would reach. Raises
    DefinitionError ``mcp.config``."""
    return read_entry(notebook_folder.path / file, name).text


def close_all() -> None:
    """Close all connected servers, and remove their tools from the registry."""
    servers.close_all()


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        message = f"{name!r} cannot be the name of an MCP server"
        hint = "a name begins with a letter and has up to 32 letters, digits, _ and -"
        raise DefinitionError(Diagnostic("mcp.config", message, hint=hint))


def _mode(protocol: str) -> str:
    """The mode of a session that speaks these protocols."""
    if protocol not in MODES:
        message = f"protocol must be 'auto' or 'old', got {protocol!r}"
        raise DefinitionError(Diagnostic("mcp.config", message))
    return MODES[protocol]


def _throttle(name: str, rate: str | None, at_once: int | None) -> Throttle | None:
    try:
        return make_throttle(None, rate, at_once, None)
    except (TypeError, ValueError) as error:
        why = f"MCP server {name!r}: {error}"
    raise DefinitionError(Diagnostic("mcp.config", why, hint='for example rate="20/s", at_once=4'))


def _target(
    name: str,
    address: str | None,
    command: Sequence[str] | None,
    env: Mapping[str, str] | None,
    headers: Mapping[str, str] | None,
    file: str | Path | None,
    sign_in: bool,
) -> Target:
    """The target that the parameters of `connect` name: a command, an address, or an entry of a
    file, whose variables or headers are added to."""
    if (address is not None) + (command is not None) + (file is not None) != 1:
        message = f"MCP server {name!r} needs one of an address, a command and a file"
        hint = 'for example command=["python", "server.py"]'
        raise DefinitionError(Diagnostic("mcp.config", message, hint=hint))
    if file is not None:
        target = read_entry(notebook_folder.path / file, name)
    elif address is not None:
        target = Address(address)
    elif isinstance(command, str) or not command:
        message = f"the command of MCP server {name!r} must be a list of words"
        hint = 'for example command=["python", "server.py"]'
        raise DefinitionError(Diagnostic("mcp.config", message, hint=hint))
    else:
        target = Command(list(command))
    if isinstance(target, Command):
        if headers or sign_in:
            message = f"MCP server {name!r} is a command: it has no headers and no sign-in"
            hint = 'its process gets variables: env={"TOKEN": "$TOKEN"}'
            raise DefinitionError(Diagnostic("mcp.config", message, hint=hint))
        return replace(target, environment={**target.environment, **(env or {})})
    if env:
        message = f"MCP server {name!r} is an address: it has no process and no variables"
        hint = 'its requests get headers: headers={"Authorization": "$TOKEN"}'
        raise DefinitionError(Diagnostic("mcp.config", message, hint=hint))
    if not re.match(r"https?://[^/\s@]+(/|$)", target.address):
        message = f"{target.text!r} is no address of an MCP server"
        hint = "it is https://HOST/PATH; secrets belong into headers"
        raise DefinitionError(Diagnostic("mcp.config", message, hint=hint))
    return replace(target, headers={**target.headers, **(headers or {})}, signs_in=sign_in)
