"""Lets a person iterate over the events of a run while the run goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable

from ...flow.progress.events import Event


class EventQueue:
    """Filled on the engine's thread, read on any loop."""

    def __init__(self) -> None:
        self._events: deque[Event | None] = deque()
        """None: no event follows."""
        self._wake: Callable[[], object] | None = None
        """Continues the reader that waits."""

    def put(self, event: Event | None) -> None:
        """Add an event; None: no event follows."""
        self._events.append(event)
        if (wake := self._wake) is not None:
            with contextlib.suppress(RuntimeError):  # the loop of the reader is closed
                wake()

    async def read(self) -> AsyncIterator[Event]:
        """The events that are not read yet, then each new one, until the queue is closed."""
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        self._wake = lambda: loop.call_soon_threadsafe(ready.set)
        try:
            while True:
                ready.clear()
                while self._events:
                    event = self._events[0]
                    if event is None:  # the end mark stays, for another reader
                        return
                    self._events.popleft()
                    yield event
                await ready.wait()
        finally:
            self._wake = None
