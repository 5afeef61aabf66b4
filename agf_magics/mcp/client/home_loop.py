"""The event loop of all connected servers, on a daemon thread of its own.

What a server sends is read and parsed here, so it cannot make the engine's loop wait; and a session
outlives the run, the cell and the loop that called it first. Calls come from any thread or loop.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Coroutine
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, TypeVar

T = TypeVar("T")

PART = 0.2
"""Seconds."""


class HomeLoop:
    """A loop and its thread. Use `current`."""

    _current: ClassVar[HomeLoop | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._waiting = 0
        self._prompts = SimpleQueue[tuple[str, Future[str]]]()
        self._thread = threading.Thread(target=self._live, name="agf-mcp", daemon=True)
        self._thread.start()

    @classmethod
    def current(cls) -> HomeLoop:
        """The loop of this process: a fork has none of its parent's threads."""
        with cls._lock:
            if cls._current is None or cls._current._pid != os.getpid():
                cls._current = HomeLoop()
            return cls._current

    def _live(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start ``work`` there."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def wait(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        """The result of ``work``, on any other thread. An interrupt, and the end of ``seconds``,
        cancel it."""
        future = self.submit(work)
        self._waiting += 1
        end = None if seconds is None else time.monotonic() + seconds
        try:
            while True:
                # In parts: a signal that another thread receives does not end a wait.
                left = PART if end is None else min(PART, end - time.monotonic())
                done, _ = futures.wait([future], max(left, 0))
                if done or left <= 0:
                    return future.result(0)
                self._prompt()
        except BaseException:
            future.cancel()
            raise
        finally:
            self._waiting -= 1

    @property
    def is_attended(self) -> bool:
        """Whether a person waits for what happens here: they are connecting a server."""
        return self._waiting > 0

    async def ask(self, text: str) -> str:
        """What the person types who waits; on the thread that waits, which alone may ask."""
        answer = Future[str]()
        self._prompts.put((text, answer))
        return await asyncio.wrap_future(answer)

    def _prompt(self) -> None:
        with suppress(Empty):
            text, answer = self._prompts.get_nowait()
            answer.set_result(input(text))

    async def cross(self, work: Coroutine[Any, Any, T]) -> T:
        """Await ``work`` from another loop; a cancel crosses too."""
        return await asyncio.wrap_future(self.submit(work))
