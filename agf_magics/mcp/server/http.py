"""Serves flows over HTTP on 127.0.0.1 for clients that send the token. The SDK refuses requests of
foreign web pages, by the headers Host and Origin."""

from __future__ import annotations

import asyncio
import atexit
import hmac
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from threading import Event, Thread
from typing import Any

import uvicorn

from ...text.diagnostics import refused
from ...text.source import path_error_reason
from .protocol import GONE, FlowServer

HOST = "127.0.0.1"
PATH = "/mcp"

LARGEST_BODY = 16_000_000
"""Bytes of one message."""

MOST_SESSIONS = 100
"""Clients of protocols before 2026-07-28, each of which has a session."""

LAST_PORT = 65_535
FREE = "take another port; 0 takes a free one"

CLOSING = 2
"""Seconds that open requests have to end when the server is closed."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class HttpServer:
    """A server on a thread of its own, from its creation until `close`."""

    def __init__(self, flows: FlowServer, port: int, token: str) -> None:
        """Raises DefinitionError ``mcp.port`` if the port is taken or not allowed."""
        self._socket = bind(port)
        self.url = _address(self._socket)
        self._uvicorn = uvicorn.Server(_config(flows, token))
        self._started = Event()
        """Set when the loop of the server runs, or its thread has ended."""
        self._thread = Thread(target=self._serve, name="agf-mcp-server", daemon=True)
        self._thread.start()
        self._started.wait()
        atexit.register(self.close)

    @property
    def is_open(self) -> bool:
        return self._thread.is_alive() and not self._uvicorn.should_exit

    def close(self) -> None:
        """Take no more requests, and wait until the thread has ended."""
        self._uvicorn.should_exit = True
        self._thread.join()
        atexit.unregister(self.close)

    def _serve(self) -> None:
        async def serve() -> None:
            asyncio.get_running_loop().call_soon(self._started.set)  # the socket listens already
            await self._uvicorn.serve(sockets=[self._socket])

        try:
            asyncio.run(serve())
        finally:
            self._socket.close()
            self._started.set()


def serve_here(flows: FlowServer, port: int, token: str, tell: Callable[[str], object]) -> None:
    """Serve on this thread until an interrupt. ``tell``: called with the address."""
    listening = bind(port)
    tell(_address(listening))
    with suppress(KeyboardInterrupt):
        asyncio.run(uvicorn.Server(_config(flows, token)).serve(sockets=[listening]))


def bind(port: int) -> socket.socket:
    """A socket that listens on this port of the loopback; 0: a free one. Raises DefinitionError
    ``mcp.port`` if no socket can."""
    whole: object = port
    if not isinstance(whole, int) or isinstance(whole, bool) or not 0 <= whole <= LAST_PORT:
        raise refused(
            "mcp.port", f"a port is a whole number from 0 to {LAST_PORT}, not {port!r:.40}", FREE
        )
    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen()
    except OSError as error:
        listening.close()
        message = f"the server cannot listen on this port: {path_error_reason(error)}"
        raise refused("mcp.port", message, FREE) from None
    return listening


def _address(listening: socket.socket) -> str:
    _, port = listening.getsockname()
    return f"http://{HOST}:{port}{PATH}"


def _config(flows: FlowServer, token: str) -> uvicorn.Config:
    """The SDK's server behind the token, as an application for uvicorn."""
    app = flows.server().streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=LARGEST_BODY,
        max_sessions=MOST_SESSIONS,
        host=HOST,  # the SDK then checks the headers Host and Origin
    )
    return uvicorn.Config(
        _guarded(app, token),
        log_config=None,  # the logging of the kernel stays as it is
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=CLOSING,
        ws="none",
    )


def _guarded(app: App, token: str) -> App:
    """``app`` for requests with the token; others are refused, because every person on a shared
    machine reaches the loopback."""
    expected = f"Bearer {token}".encode()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            header = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(header, expected):
                await _refuse(send)
                return
            scope[GONE] = gone = asyncio.Event()
            await app(scope, _watched(receive, gone), send)
        else:
            await app(scope, receive, send)

    return guarded


def _watched(receive: Receive, gone: asyncio.Event) -> Receive:
    """``receive`` that also sets ``gone`` when the client disconnects. The SDK notices that only in
    the protocol of 2026-07-28. An older client that comes back gets nothing of the request either,
    because this server stores no events."""

    async def watched() -> Any:
        message = await receive()
        if message["type"] == "http.disconnect":
            gone.set()
        return message

    return watched


async def _refuse(send: Send) -> None:
    body = b"the header Authorization: Bearer TOKEN is missing or wrong [mcp.token]"
    headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})
