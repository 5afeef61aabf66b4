"""The transport to a server at an address: streamable HTTP with bounds.

The SDK would read a JSON answer of any length. Here an answer or an event of a stream has at most
`LONGEST` bytes, and no answer may be compressed, because a few bytes could become gigabytes. The
SDK follows a redirect only on the origin of the address, so headers with secrets go nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from .output_schemas import hide_output_schemas
from .stdio import LONGEST, Streams
from .transport_errors import NOT_ANSWERED, NOT_TAKEN, SESSION_OVER

CONNECTING = 30.0
"""Seconds in which the address must accept a connection."""
READING = 300.0
"""Seconds that may pass without a byte: a server may hold a stream open."""


@asynccontextmanager
async def bounded_http(
    address: str,
    headers: Mapping[str, str],
    ended: Callable[[str], None],
    auth: httpx2.Auth | None = None,
    longest: int = LONGEST,
) -> AsyncIterator[Streams]:
    """The streams of a connection. ``ended`` is called when the connection ends, with the reason if
    this file ended it. ``auth``: adds the token of OAuth to each request. ``longest``: in bytes."""
    client = httpx2.AsyncClient(
        headers={**headers, "accept-encoding": "identity"},
        timeout=httpx2.Timeout(CONNECTING, read=READING),
        transport=_Bounded(httpx2.AsyncHTTPTransport(), longest, ended, auth is not None),
        auth=auth,
    )
    inbound, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    async with (
        client,
        streamable_http_client(address, http_client=client, max_sse_event_size=longest) as streams,
        anyio.create_task_group() as group,
    ):
        group.start_soon(_forward, streams[0], inbound, ended)
        try:
            yield read, streams[1]
        finally:
            group.cancel_scope.cancel()
            inbound.close()
            read.close()


async def _forward(messages: Any, inbound: Any, ended: Callable[[str], None]) -> None:
    """Hand on the messages of the SDK's transport, up to their end, which has no reason here."""
    try:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for message in messages:
                if isinstance(message, SessionMessage):
                    hide_output_schemas(message.message)
                await inbound.send(message)
    finally:
        ended("")
        inbound.close()


class TooLong(httpx2.TransportError):
    """An answer exceeds its bound, or is compressed, and is not read to its end."""


class _Bounded(httpx2.AsyncBaseTransport):
    """A transport whose answers have a bound."""

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        longest: int,
        ended: Callable[[str], None],
        signs_in: bool,
    ) -> None:
        self._inner = inner
        self._longest = longest
        self._ended = ended
        self._signs_in = signs_in

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        encoding = response.headers.get("content-encoding", "identity")
        if encoding != "identity":
            await response.aclose()
            compressed = f"the answer is compressed ({encoding[:40]}), which was not asked for"
            self._ended(compressed)
            raise TooLong(compressed)
        kind = response.headers.get("content-type", "")
        # A stream of events has no end, so only its events are bounded, by the SDK.
        if not kind.startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Counted(response.stream, self._longest, self._ended)
        if response.status_code < 400:
            return response
        over = self._over(request, response)
        if _is_call(request) and not (self._signs_in and response.status_code in (401, 403)):
            return await _explained(response, over)
        if over:
            self._ended(over)
        return response

    def _over(self, request: httpx2.Request, response: httpx2.Response) -> str:
        """Why the server takes no further message of this session; empty if it may take one."""
        if request.method != "POST":  # a server without a stream of its own answers any error here
            return ""
        if response.status_code == 404 and "mcp-session-id" in request.headers:  # it was restarted
            return "it does not know the session any more"
        if response.status_code == 401 and not self._signs_in:
            return "it asks who you are (401): give a token with --header, or use --sign-in"
        return ""

    async def aclose(self) -> None:
        await self._inner.aclose()


def _is_call(request: httpx2.Request) -> bool:
    try:
        message = json.loads(request.content)
    except ValueError:
        return False
    return isinstance(message, dict) and message.get("method") == "tools/call"


async def _explained(response: httpx2.Response, over: str) -> httpx2.Response:
    """The answer to a call that is an error of HTTP, as an error of the protocol that says whether the
    server took the call; the SDK would tell neither that nor the status. An error of the protocol stays
    as it is. ``over``: why the server takes no further call of the session; empty if it may."""
    status = response.status_code
    body = await response.aread()
    with suppress(ValueError):
        message = json.loads(body)
        if not over and isinstance(message, dict) and isinstance(message.get("error"), dict):
            return httpx2.Response(status, headers=_JSON, content=body)
    why = over or f"it answers with HTTP {status} {response.reason_phrase[:80]}".strip()
    code = NOT_TAKEN
    if over:
        code = SESSION_OVER
    elif (
        status >= 500
    ):  # so a gateway answers, too, when the server behind it is lost during the call
        code = NOT_ANSWERED
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": why}}
    return httpx2.Response(status, headers=_JSON, json=error)


_JSON = {"content-type": "application/json"}


class _Counted(httpx2.AsyncByteStream):
    """The bytes of an answer, up to a bound."""

    def __init__(
        self, inner: httpx2.AsyncByteStream, longest: int, ended: Callable[[str], None]
    ) -> None:
        self._inner = inner
        self._ended = ended
        self._left = longest
        self._longest = longest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._inner:
                self._left -= len(piece)
                if self._left < 0:
                    raise TooLong(f"an answer of more than {self._longest:,} bytes")
                yield piece
        except httpx2.TransportError as error:
            self._ended(str(error) or "the connection broke")
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()
