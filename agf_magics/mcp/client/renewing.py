"""A token is renewed by one process at a time, and the others take the new one.

Two notebooks may be signed in to one address. A service that gives a new refresh token at each
renewal takes the second use of an old one for a theft, and ends the sign-in of both. So whoever
renews holds a lock of the person's files, and reads the entry again before. A service may also end
a token early, or not say when it expires: what it refuses is renewed once before a person is asked.
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
"""Seconds that a process waits for another one, which may hang at the service; then it goes on."""

EXPIRED = 1.0
"""A time at which every token has expired."""


class Provider(OAuthClientProvider):
    """What authorizes the requests to one address, for as long as the connection."""

    def __init__(self, address: str, tokens: Tokens, **handlers: Any) -> None:
        """``handlers``: what else the SDK takes: who we are, what asks a person, what waits for
        the answer."""
        super().__init__(address, storage=tokens, **handlers)
        self._tokens = tokens
        self._turn = _Turn(address)
        tokens.context = self.context

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The SDK's flow, from its beginning again if the token was refused and there may be a better
        one: that of another process, and then ours, renewed."""
        for may_renew in (True, True, False):
            await self._prepare()
            flow = super().async_auth_flow(request)
            try:
                # Ours, or one of the SDK to the service that renews the token.
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
        """Take the token that another process has renewed; else it is our turn to renew ours."""
        if self.context.is_token_valid():
            return
        await self._turn.begin()
        await self._adopt()
        if self.context.is_token_valid():
            self._turn.end()

    async def _prepare_retry(self) -> bool:
        """Take the entry's token instead of the one that was refused, or let ours expire, so that the
        SDK renews it; False if neither is possible."""
        if await self._adopt():
            return True
        if self.context.can_refresh_token():
            self.context.token_expiry_time = EXPIRED
            return True
        return False

    async def _adopt(self) -> bool:
        """Take the entry's token; True if it is another one than ours."""
        entry = await self._tokens.read()
        ours = self.context.current_tokens
        if entry is None or (ours is not None and entry.tokens == ours):
            return False
        self.context.current_tokens = entry.tokens
        self.context.token_expiry_time = entry.until
        self.context.client_info = entry.client
        self.context.oauth_metadata = entry.service or self.context.oauth_metadata
        return True


class _Turn:
    """The lock of one address, which ends with its process."""

    def __init__(self, address: str) -> None:
        settings = user_file()
        name = hashlib.sha256(address.encode()).hexdigest()[:16]
        self._path = settings.parent / "sign-in" / f"{name}.lock" if settings else None
        self._file = -1

    async def begin(self) -> None:
        """Wait until no other process has it. Without a place for the file nobody waits."""
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
            # Not a record lock, which does not keep out another connection of this process.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
