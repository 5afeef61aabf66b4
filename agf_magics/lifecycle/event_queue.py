"""The events of a run for `async for`: they wait in order until they are read."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable

from ..progress.events import Event


class EventQueue:
    """Filled on the engine's thread, read on any loop."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._is_closed = False
        self._wake: Callable[[], object] | None = None
        """Continues the reader that waits."""

    def put(self, event: Event) -> None:
        self._events.append(event)
        self._notify()

    def close(self) -> None:
        """No event follows."""
        self._is_closed = True
        self._notify()

    async def read(self) -> AsyncIterator[Event]:
        """The events that are not read yet, then each new one, until the queue is closed."""
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        self._wake = lambda: loop.call_soon_threadsafe(ready.set)
        try:
            while True:
                ready.clear()
                is_last = self._is_closed
                while self._events:
                    yield self._events.popleft()
                if is_last:
                    return
                await ready.wait()
        finally:
            self._wake = None

    def _notify(self) -> None:
        if (wake := self._wake) is not None:
            with contextlib.suppress(RuntimeError):  # the loop of the reader is closed
                wake()
