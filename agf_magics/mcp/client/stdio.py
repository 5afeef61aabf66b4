"""The transport to a server that is a process: lines of JSON with bounds, and no process left behind.

The SDK's own transport reads a line of any length into memory, so a server could fill the memory of
the kernel. Here a line has at most `LONGEST` bytes, a line that is no message is reported and
skipped, only the end of stderr is stored, and the whole process group ends with the session. On
Windows the SDK's transport is used, whose lines have no bound. Only this file and http.py know the
SDK's transports; tests/mcp/test_sdk.py says which parts of the SDK they rely on.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from mcp.client.stdio import StdioServerParameters, get_default_environment, stdio_client
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError

from ..unreadable import ENDS, id_of, read_line
from .output_schemas import hide_output_schemas

LONGEST = 16_000_000
"""Bytes of a line."""

PATIENCE = 2.0
"""Seconds that a process gets to end: after its stdin is closed, after SIGTERM, after SIGKILL."""

UNREADABLE = "it is no message of the protocol"
"""The reason for an answer that cannot be used."""

_ANSWER = re.compile(rb'"(?:result|error)"\s*:')
"""The key that only an answer has."""

Streams = tuple[Any, Any]
"""The stream from which the SDK reads messages, and the stream to which it writes them."""


@asynccontextmanager
async def bounded_stdio(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    complain: Callable[[str], None],
    ended: Callable[[str], None],
    longest: int = LONGEST,
) -> AsyncIterator[Streams]:
    """The streams of a process, which ends with the block. ``complain`` is called with the texts
    that the process writes to stderr. ``ended`` is called when its stdout ends, with the reason if
    this file ended it. ``longest``: in bytes. Raises OSError if the process cannot be started."""
    if sys.platform == "win32":
        program, *arguments = command
        server = StdioServerParameters(
            command=program, args=arguments, env=dict(environment), cwd=folder
        )
        async with stdio_client(server) as streams:
            yield streams
        return
    process = await _start(command, environment, folder, longest)
    # No await from here to the task group: a cancel in between would leave the process.
    inbound, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outbound = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as group:
        group.start_soon(_read, process, inbound, ended, longest)
        group.start_soon(_write, process, outbound, inbound)
        group.start_soon(_listen_to_stderr, process, complain)
        try:
            yield read, write
        finally:
            try:
                with anyio.CancelScope(shield=True):
                    await _end(process)
            finally:
                group.cancel_scope.cancel()
                for stream in (read, write, inbound, outbound):
                    stream.close()


async def _start(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, longest: int
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *command,
        env={**get_default_environment(), **environment},
        cwd=folder,
        limit=longest,
        # Jupyter interrupts the process group of the kernel, which would end the server too.
        start_new_session=True,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def _read(
    process: asyncio.subprocess.Process,
    inbound: Any,
    ended: Callable[[str], None],
    longest: int,
) -> None:
    """Hand on the messages from the stdout of a process, up to its end or a line that is too
    long."""
    assert process.stdout is not None
    why = ""
    try:
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:
                why = f"it wrote a line of more than {longest:,} bytes"
                return
            if not line:
                return
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                for message in _messages(line):
                    await inbound.send(message)
    finally:
        # Called before the stream is closed, so that a waiting call reports the reason.
        ended(why)
        inbound.close()


def _messages(line: bytes) -> list[SessionMessage | Exception]:
    """The message of a line. If the line is an answer that cannot be read, the exception, and an
    error in place of the answer; without it the call would wait until its timeout."""
    with suppress(ValueError):
        _, message = read_line(line)
        return [SessionMessage(hide_output_schemas(message))]
    line_start = line[:80].decode(errors="replace").strip()
    noise = ValueError(f"it wrote what is no message: {line_start!r}")
    start = line[:ENDS]
    end = line[-ENDS:]
    is_answer = b'"jsonrpc"' in start + end and _ANSWER.search(start) is not None
    if not is_answer or (id := id_of(start, end)) is None:
        return [noise]
    error = ErrorData(code=PARSE_ERROR, message=UNREADABLE)
    return [noise, SessionMessage(JSONRPCError(jsonrpc="2.0", id=id, error=error))]


async def _write(process: asyncio.subprocess.Process, outbound: Any, inbound: Any) -> None:
    assert process.stdin is not None
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        async for session_message in outbound:
            message = session_message.message
            text = message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(text.encode() + b"\n")
            await process.stdin.drain()
    inbound.close()


async def _listen_to_stderr(
    process: asyncio.subprocess.Process, complain: Callable[[str], None]
) -> None:
    assert process.stderr is not None
    while piece := await process.stderr.read(4096):
        complain(piece.decode(errors="replace"))


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close the stdin of a process, and kill the process and its group if they do not end."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        for sign in (None, signal.SIGTERM, signal.SIGKILL):
            if sign is not None:
                _signal(process, sign)
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    # Not `wait`, which also waits for the pipes: a child of the server may hold them.
                    while process.returncode is None:
                        await asyncio.sleep(0.01)
                    break
    finally:
        # Also if this task is cancelled meanwhile, because the shield of anyio does not stop asyncio's
        # own cancellation. It ends the processes that the server started and that are still running.
        _signal(process, signal.SIGKILL)
        # Otherwise the pipes stay open while a process outside of the group holds their other ends.
        # There is no public way to close them.
        process._transport.close()  # type: ignore[attr-defined]


def _signal(process: asyncio.subprocess.Process, sign: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, sign)
