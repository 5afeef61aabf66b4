"""A run on the loop that runs already, which is that of the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from .host import Host
from .signals import woken_by_signals

T = TypeVar("T")


async def here(main: Callable[[Host], Awaitable[T]]) -> T:
    """Run ``main`` on the running loop. Cancelling the task that awaits this cancels the run."""
    # The signal of a notebook's ■ sets a flag that only a turn of the loop sees.
    with woken_by_signals(asyncio.get_running_loop()):
        return await main(Host())
