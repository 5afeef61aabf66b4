"""Renews tokens: one process at a time renews a token, and the other processes take the new one.

Two notebooks may be signed in to one address. A service that gives a new refresh token at each
renewal takes the second use of an old one for a theft, and ends the sign-in of both. So a process
locks a file of the person before it renews, and then reads the stored token again. A service may
also end a token early, or not say when it expires. So a refused token is renewed once before a
person is asked to sign in.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import httpx2
from mcp.client.auth import OAuthClientProvider

from ...settings.settings import user_file
from .tokens import Tokens

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LONGEST_TURN = 30.0
"""Seconds that a process waits for the lock; then it renews without, because the process that has
the lock may hang at the service."""

EXPIRED = 1.0
"""A time of expiry long ago, in seconds since 1970: the SDK renews a token that has it."""


class Provider(OAuthClientProvider):
    """Adds the token to the requests of one connection, and renews it when it is needed."""

    def __init__(self, address: str, tokens: Tokens, **handlers: Any) -> None:
        """``handlers``: the SDK's other parameters: the data of this client, the function that
        sends a person to the page, and the function that waits for the answer."""
        super().__init__(address, storage=tokens, **handlers)
        self._tokens = tokens
        self._turn = _Turn(address)
        tokens.context = self.context

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The SDK's flow. If the token is refused, the flow begins again with a better token: first
        the one that another process has stored, then our own, renewed."""
        for may_renew in (True, True, False):
            await self._prepare()
            flow = super().async_auth_flow(request)
            try:
                # `sent` is our request, or a request of the SDK to the service that renews tokens.
                sent = await anext(flow)
                while True:
                    if sent is request:
                        self._turn.end()
                    response = yield sent
                    is_refused = sent is request and response.status_code == 401
                    if is_refused and may_renew and await self._prepare_retry():
                        break
                    sent = await flow.asend(response)
            except StopAsyncIteration:
                return
            finally:
                self._turn.end()
                await flow.aclose()

    async def _prepare(self) -> None:
        """Take the token that another process has renewed; if there is none, keep the lock, so that
        the SDK renews our token."""
        if self.context.is_token_valid():
            return
        await self._turn.begin()
        await self._adopt()
        if self.context.is_token_valid():
            self._turn.end()

    async def _prepare_retry(self) -> bool:
        """Take the stored token instead of the refused one, or mark our token as expired, so that
        the SDK renews it; False if neither is possible."""
        if await self._adopt():
            return True
        if self.context.can_refresh_token():
            self.context.token_expiry_time = EXPIRED
            return True
        return False

    async def _adopt(self) -> bool:
        """Take the stored token; True if it differs from our token."""
        entry = await self._tokens.read()
        own_tokens = self.context.current_tokens
        if entry is None or (own_tokens is not None and entry.tokens == own_tokens):
            return False
        self.context.current_tokens = entry.tokens
        self.context.token_expiry_time = entry.until
        self.context.client_info = entry.client
        self.context.oauth_metadata = entry.service or self.context.oauth_metadata
        return True


class _Turn:
    """The turn to renew the token of one address: a locked file, unlocked when its process ends."""

    def __init__(self, address: str) -> None:
        settings = user_file()
        name = hashlib.sha256(address.encode()).hexdigest()[:16]
        self._path = settings.parent / "sign-in" / f"{name}.lock" if settings else None
        self._file = -1
        """The descriptor of the open file; -1: it is not open."""

    async def begin(self) -> None:
        """Wait for the lock. If the file cannot be made, go on without a lock."""
        end = time.monotonic() + LONGEST_TURN
        with suppress(OSError):
            if self._file < 0 and self._path is not None:
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
                self._file = os.open(self._path, flags, 0o600)
        while self._file >= 0 and not _try_lock(self._file) and time.monotonic() < end:
            await asyncio.sleep(0.05)

    def end(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _try_lock(file: int) -> bool:
    """Lock the file, unless another process has it: False. Closing the file ends the lock."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            # A record lock (lockf) would not keep out another connection of this process.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
