"""Serves flows over stdin and stdout. A line has a bound, and the prints of tools go to stderr, so
that stdout has only messages of the protocol."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError
from contextlib import suppress
from io import BufferedReader
from threading import Lock, Thread
from typing import Any, BinaryIO, cast

from mcp.server.stdio import stdio_server
from mcp_types import INVALID_REQUEST, PARSE_ERROR

from ...compat.protocol_streams import claim
from ...text.diagnostics import DefinitionError, refused
from ..unreadable import ENDS, id_of, read_line
from .envelopes import error_text
from .protocol import FlowServer

LONGEST_LINE = 16_000_000
"""Bytes of one message."""

SETTLING = 3.0
"""Seconds that cancelled runs have to end before the process ends."""


async def serve_stdio(flows: FlowServer) -> None:
    """Serve one client until it closes stdin. Runs that the client launched and does not wait for
    stay open in the journal, so that the next server can resume them."""
    streams = claim()
    replies = _Replies(streams.write)
    lines = _Lines(streams.read, replies)
    server = flows.server()
    # The SDK only iterates over the lines, and calls `write` and `flush`: both objects have these.
    async with stdio_server(stdin=cast(Any, lines), stdout=cast(Any, replies)) as (read, write):
        await server.run(read, write, server.create_initialization_options())
    await flows.served.settle(SETTLING)


def too_long(size: int) -> DefinitionError:
    """The error for a message that is not read."""
    message = f"a message has {size:,} bytes, and may have {LONGEST_LINE:,}"
    return refused("mcp.large-message", message, "put what is large into a file, and send its path")


def unreadable() -> DefinitionError:
    """The error for a line that is no message."""
    message = "this is no message of the protocol, or a value in it cannot be read"
    hint = "a message is an object of JSON, with numbers of up to 4,300 digits and 100 levels"
    return refused("mcp.unreadable-message", message, hint)


class _Replies:
    """Writes whole lines to the client. A client that has gone ends the writing, and nothing
    else."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lock = Lock()

    async def write(self, text: str) -> None:
        await asyncio.to_thread(self.put, text.encode())

    async def flush(self) -> None:
        """Nothing is held back."""

    def put(self, line: bytes) -> None:
        # the client reads no more; the end of stdin ends the server
        with self._lock, suppress(OSError):
            unwritten = memoryview(line)
            while unwritten:
                unwritten = unwritten[self._file.write(unwritten) :]


class _Lines:
    """The lines of the client. A line that is too long gets an error, and is never read as JSON."""

    def __init__(self, file: BufferedReader, replies: _Replies) -> None:
        self._file = file
        self._replies = replies
        self._loop = asyncio.get_running_loop()
        self._read = asyncio.Queue[bytes](maxsize=1)

    async def __aiter__(self) -> AsyncIterator[str]:
        # A daemon thread, because reading stdin would block an interrupt of the server.
        Thread(target=self._put_all, name="agf-mcp-stdin", daemon=True).start()
        while line := await self._read.get():
            yield line.decode("utf-8", "replace")

    def _put_all(self) -> None:
        """Hand each line to the loop when it has taken the one before."""
        with suppress(RuntimeError, CancelledError):  # the loop is closed
            line = b"more"
            while line:
                line = self._next()
                asyncio.run_coroutine_threadsafe(self._read.put(line), self._loop).result()

    def _next(self) -> bytes:
        """The next line that is not too long; empty at the end."""
        while True:
            line = self._file.readline(LONGEST_LINE)
            if len(line) < LONGEST_LINE or line.endswith(b"\n"):
                if not line.strip():  # at the end, and where there is nothing to answer
                    return line
                with suppress(ValueError):
                    readable, _ = read_line(line)
                    return readable
                self._refuse(line[:ENDS], line[-ENDS:], PARSE_ERROR, unreadable())
                continue
            size = len(line)
            end = line[-ENDS:]
            while not end.endswith(b"\n") and (more := self._file.readline(1_000_000)):
                size += len(more)
                end = (end + more)[-ENDS:]
            self._refuse(line[:ENDS], end, INVALID_REQUEST, too_long(size))

    def _refuse(self, start: bytes, end: bytes, code: int, why: DefinitionError) -> None:
        """Tell the client why a line is refused, if the id of the request is found; else the
        person."""
        message = error_text(why)
        id = id_of(start, end)
        if id is None:
            print(f"agf-magics: {message}", file=sys.stderr)
            return
        reply = {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}
        self._replies.put(json.dumps(reply).encode() + b"\n")
