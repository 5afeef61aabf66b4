"""Connects to an address to which a person signs in: `http` is the transport, `oauth` the
sign-in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from .home_loop import HomeLoop
from .http import bounded_http
from .oauth import SignIn
from .stdio import Streams


@asynccontextmanager
async def signed_in_http(
    address: str, headers: Mapping[str, str], ended: Callable[[str], None]
) -> AsyncIterator[Streams]:
    """The streams of a connection whose requests have the token of the person."""
    home = HomeLoop.current()
    sign_in = SignIn(address, home.ask, lambda: home.is_attended)
    try:
        auth = await sign_in.start()
        async with bounded_http(address, headers, ended, auth) as streams:
            yield streams
    finally:
        sign_in.close()
