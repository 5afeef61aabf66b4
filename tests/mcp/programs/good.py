"""A well-behaved server for tests: ``python good.py [http PORT]``."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import ResourceLink, ToolAnnotations
from pydantic import BaseModel, Field

server = MCPServer("good", instructions="Numbers and waiting.")
MARK = os.environ.get("MARK", "")


class Sum(BaseModel):
    total: int


def mark(word: str) -> None:
    """Record in a file that something happened."""
    if MARK:
        with open(MARK, "a", encoding="utf-8") as file:
            file.write(f"{word}\n")


@server.tool(annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True))
def add(a: int, b: int) -> Sum:
    """Add two numbers.

    Exactly."""
    mark("add")
    return Sum(total=a + b)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def plain(text: str, times: int = 1) -> str:
    """Gives its text."""
    return text * times


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def drop(table: Annotated[str, Field(pattern="^[a-z]+$")]) -> str:
    """Drops a table."""
    mark("drop")
    return f"dropped {table}"


@server.tool()
async def slow(seconds: float, ctx: Context) -> str:
    """Waits, and says how far it is."""
    try:
        ticks = max(int(seconds * 10), 1)
        for tick in range(ticks):
            await ctx.report_progress(tick + 1, ticks, f"tick {tick + 1}")
            await asyncio.sleep(seconds / ticks)
        return "done"
    except BaseException:
        mark("cancelled")
        raise


_inside: list[int] = []


@server.tool()
async def crowd(together: int) -> int:
    """Waits for so many calls at the same time; how many there are."""
    _inside.append(together)
    while len(_inside) < together:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)  # a call above the limit would be inside by now
    together = len(_inside)
    await asyncio.sleep(0.05)
    _inside.pop()
    return together


@server.tool(structured_output=False)
def picture() -> list[object]:
    """A text, an image and a link."""
    link = ResourceLink(type="resource_link", uri="memo://today", name="today")
    return ["here it is", Image(data=b"\x89PNG\r\n\x1a\n" + b"0" * 50, format="png"), link]


@server.resource("memo://today")
def memo() -> str:
    """The resource to which a link leads."""
    return "Buy figs."


@server.resource("memo://hidden")
def hidden() -> str:
    """A resource to which no result links."""
    return "Secret."


class Choice(BaseModel):
    colour: str = Field(description="Which colour?")
    sure: bool = False


def ask() -> Elicit[Choice]:
    return Elicit("Choose a colour", Choice)


@server.tool()
def choose(choice: Annotated[ElicitationResult[Choice], Resolve(ask)]) -> str:
    """Asks a person."""
    return f"{choice.action}: {choice.data.colour if choice.action == 'accept' else None}"


@server.tool()
def fail(why: str) -> str:
    """Fails."""
    raise ValueError(why)


@server.tool()
def env(name: str) -> str:
    """An environment variable."""
    value = os.environ.get(name, "(not set)")
    print(f"{name} is {value}", file=sys.stderr, flush=True)
    return value


@server.tool()
async def grow(ctx: Context) -> str:
    """Registers one more tool."""

    def late() -> str:
        return "late"

    server.add_tool(late, name="late", description="Came later.")
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "grown"


@server.tool()
def die() -> str:
    """Ends the process."""
    os._exit(3)


if __name__ == "__main__":
    mark(f"pid {os.getpid()}")
    if len(sys.argv) > 2:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("stdio")
