"""``%mcp``: MCP servers are connected, shown, restarted and closed."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from IPython.core.magic import line_magic, magics_class

from ...catalog.models.model_fault import without_keys
from ...commands import magics
from ...commands.line import ParsedLine
from ...commands.values import amount, count
from ...commands.words import Token, line_error
from ...compat.imports import module_if_loaded
from ...pictures.amounts import counted
from ...pictures.plain import line
from ...pictures.text_tables import list_rows
from ...text.suggestions import suggest
from ..output.output import Bundle, show
from .base import NotebookMagics, takes

if TYPE_CHECKING:
    from ...mcp.client.server import Server
    from ...mcp.client.servers import Servers

SERVER_COLUMNS = ("server", "state", "protocol", "tools", "problems", "reached by")
TOOL_COLUMNS = ("tool", "arguments", "description")
NO_SERVER = "no MCP server is connected: %mcp connect NAME -- COMMAND"
CONNECT = "connect"


def connected() -> Servers | None:
    """The servers of this process; None if the MCP client was never imported, thus never used."""
    module = module_if_loaded("agf_magics.mcp.client.servers")
    return module.servers if module is not None else None


def server_names() -> Collection[str]:
    return connected() or ()


@magics_class
class McpMagics(NotebookMagics):
    """``%mcp``."""

    @line_magic
    @takes(magics.MCP)
    def mcp(self, parsed: ParsedLine) -> Any:
        word = parsed.word("SERVER")
        if word is not None and word.text == CONNECT:
            self._connect(parsed)
        elif word is not None:
            _act(_server(word), parsed)
        elif "--close" in parsed:
            servers = connected()
            print(f"closed {counted(len(servers or ()), 'MCP server')}")
            if servers is not None:
                servers.close_all()
        else:
            show(list_servers())

    def _connect(self, parsed: ParsedLine) -> None:
        """Connect the server that the line describes."""
        from ...mcp import connect
        from ...mcp.client.servers import entry_text

        name = parsed.word("NAME")
        command = [word.text for word in parsed.words("COMMAND")]
        address = parsed.text("ADDRESS")
        file = parsed.text("--from")
        if name is None or (bool(command) + bool(address) + bool(file) != 1):
            message = "connect needs a name and a command, an address or a file"
            place = parsed.source.span()
            raise line_error("missing", message, place, "write %mcp connect NAME -- COMMAND")
        only = parsed.text("--only")
        options = dict[str, Any](
            command=command or None,
            env=dict(map(_pair, parsed.words("--env"))),
            headers=dict(map(_pair, parsed.words("--header"))),
            file=file,
            sign_in="--sign-in" in parsed,
            tools=only.split(",") if only is not None else None,
            trust="--trust" in parsed,
            ref=parsed.text("--ref") or "",
            timeout=amount(parsed, "--timeout", 60.0),
            wait=amount(parsed, "--wait", 10.0),
            rate=parsed.text("--rate"),
            at_once=count(parsed, "--at-once", None, least=1),
            registry=self.notebook.registry,
        )
        shown = " ".join(command) or without_keys(address or "")
        print(f"starting: {shown or entry_text(file or '', name.text)}")
        print(_summary(connect(name.text, address, **options)))


def _act(server: Server, parsed: ParsedLine) -> None:
    if "--close" in parsed:
        server.close()
        print(f"closed {server.name}")
    elif "--restart" in parsed:
        server.restart()
        print(_summary(server))
    elif "--log" in parsed:
        print(server.log or f"{server.name} has logged nothing")
    elif "--tools" in parsed:
        show(list_tools(server))
    else:
        print(_summary(server))


def _server(word: Token) -> Server:
    servers = connected()
    if servers is None or word.text not in servers:
        hint = suggest(word.text, server_names(), "servers") or NO_SERVER
        raise line_error("server", f"no MCP server {word.text!r} is connected", word, hint)
    return servers[word.text]


def _pair(word: Token) -> tuple[str, str]:
    name, equals, value = word.text.partition("=")
    if not equals or not name:
        raise line_error("set", f"{word.text!r} is no NAME=VALUE", word, "write NAME=$NAME")
    return name, value


def _summary(server: Server) -> str:
    """A server, its tools and its problems, as text."""
    tools = ", ".join(server.tools[:20]) + ", …" * (len(server.tools) > 20)
    lines = [f"{server.name}: {server.state}, {counted(len(server.tools), 'tool')}: {tools}"]
    lines += [f"{problem.severity}: {problem}" for problem in server.problems]
    return "\n".join(lines)


def list_servers() -> Bundle:
    """The connected servers as a table by MIME type."""
    servers = [*(connected() or {}).values()]
    rows = [
        (
            line(server.name, 40),
            server.state,
            server.protocol,
            f"{len(server.tools):,}",
            f"{len(server.problems):,}" if server.problems else "",
            line(server.target, 80),
        )
        for server in servers
    ]
    return list_rows(SERVER_COLUMNS, rows, counted(len(servers), "MCP server"), NO_SERVER)


def list_tools(server: Server) -> Bundle:
    """The tools of a server as a table by MIME type."""
    tools = [server.registry.tools[name] for name in server.tools]
    rows = [(tool.name, line(tool.takes, 120), line(tool.description, 120)) for tool in tools]
    title = counted(len(tools), "tool")
    return list_rows(TOOL_COLUMNS, rows, title, f"{server.name} has no tools")
