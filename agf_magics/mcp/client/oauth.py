"""Lets a person sign in to a server in a browser (OAuth), so that no notebook contains a token.

The SDK leads through the flow of OAuth: it checks the ``state``, uses PKCE, and follows no redirect
to another origin. This file opens the page for the person, and receives the browser's answer on a
port of this computer. On a JupyterHub the browser runs on another computer, so the person pastes
the address of the page that the browser shows at the end. `tokens` stores the tokens.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import webbrowser
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

from .renewing import Provider
from .tokens import Tokens

SIGN_IN_SECONDS = 300.0
"""Seconds that a person has to sign in."""
LONGEST_REQUEST = 20_000
"""Bytes of the first line of a browser's request."""

Paste = Callable[[str], Awaitable[str]]
"""Asks the person to paste a text."""


class SignIn:
    """The sign-in of one connection. ``attended`` tells whether a person waits for the connection:
    a call in the middle of a run opens no browser. ``paste`` asks the person for an address."""

    def __init__(self, address: str, paste: Paste, attended: Callable[[], bool]) -> None:
        self._address = address
        self._paste = paste
        self._attended = attended
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """The address to which the service sent the browser, with its answer."""
        self._listener: asyncio.Server | None = None
        self._state = ""
        """The text that the answer must repeat, because any program on this computer, and any page
        of the browser, can send an answer to the port."""

    async def start(self) -> Provider:
        """Listen on a port of this computer, and return the provider that authorizes requests."""
        self._listener = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, limit=LONGEST_REQUEST
        )
        _, port = self._listener.sockets[0].getsockname()
        metadata = OAuthClientMetadata.model_validate(
            {
                "client_name": "agf-magics",
                "redirect_uris": [f"http://127.0.0.1:{port}/callback"],
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
            }
        )
        return Provider(
            self._address,
            Tokens(self._address),
            client_metadata=metadata,
            redirect_handler=self._open,
            callback_handler=self._called_back,
        )

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        self._answer.cancel()

    async def _open(self, address: str) -> None:
        """Send the person to the page of the service. Raises OAuthFlowError."""
        if not self._attended():
            raise OAuthFlowError("the sign-in has expired: connect the server again")
        if urlsplit(address).scheme not in ("http", "https"):
            raise OAuthFlowError("the page to sign in on is no web page")
        self._state = _first(address, "state") or ""
        print(f"sign in: {address}")
        if not _is_remote():
            await asyncio.to_thread(webbrowser.open, address)

    async def _called_back(self) -> AuthorizationCodeResult:
        """Wait for the answer of the service. Raises OAuthFlowError if it refuses the person."""
        if _is_remote():
            text = await self._paste("paste the address of the page to which you were sent: ")
        else:
            async with asyncio.timeout(SIGN_IN_SECONDS):
                text = await self._answer
        self._answer = asyncio.get_running_loop().create_future()
        if why := _first(text, "error"):
            raise OAuthFlowError(f"the sign-in was refused: {why[:100]}")
        return AuthorizationCodeResult(
            code=_first(text, "code") or "", state=_first(text, "state"), iss=_first(text, "iss")
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of the browser."""
        with suppress(OSError, ValueError, TimeoutError):
            async with asyncio.timeout(10):
                words = (await reader.readline()).decode("latin-1").split(" ")
            target = words[1] if len(words) > 2 else ""
            is_answer = self._is_answer(target)
            page = b"You are signed in. Close this page." if is_answer else b"Nothing is here."
            if is_answer and _first(target, "error"):
                page = b"The sign-in was refused. Close this page."
            status = "200 OK" if is_answer else "404 Not Found"
            head = (
                f"HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {len(page)}\r\n"
            )
            writer.write(head.encode() + b"connection: close\r\n\r\n" + page)
            await writer.drain()
            if is_answer and not self._answer.done():
                self._answer.set_result(target)
        writer.close()

    def _is_answer(self, target: str) -> bool:
        """Whether a request is the answer of the opened page. An answer with another state is
        forged: it is ignored, and the sign-in goes on."""
        state = (_first(target, "state") or "").encode()
        is_ours = bool(self._state) and secrets.compare_digest(state, self._state.encode())
        return is_ours and urlsplit(target).path == "/callback"


def _first(address: str, name: str) -> str | None:
    """The first value of a field of an address."""
    return next(iter(parse_qs(urlsplit(address.strip()).query).get(name, [])), None)


def _is_remote() -> bool:
    """Whether the browser runs on another computer than this process."""
    return any(
        name in os.environ for name in ("JUPYTERHUB_USER", "SSH_CONNECTION", "COLAB_RELEASE_TAG")
    )
