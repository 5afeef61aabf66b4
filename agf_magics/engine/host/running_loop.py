"""Runs a flow on the loop of the caller, which is already running."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from .host import Host
from .signals import woken_by_signals

T = TypeVar("T")


async def here(main: Callable[[Host], Awaitable[T]]) -> T:
    """Run ``main`` on the running loop. A cancellation of the awaiting task cancels the run."""
    # An interrupt of the notebook sets a flag that only a turn of the loop sees.
    with woken_by_signals(asyncio.get_running_loop()):
        return await main(Host())
