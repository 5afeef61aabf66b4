"""The home loop: the event loop of all connected servers, on a separate daemon thread.

Messages of servers are read and parsed on this loop, so they cannot make the engine's loop wait. A
session lives on it as well, and so outlives the run and the cell that used it first. Calls come
from any thread or loop.
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
"""Seconds of one part of a wait; between the parts an interrupt of the kernel is noticed."""


class HomeLoop:
    """The loop with its thread. `current` returns the one of this process."""

    _current: ClassVar[HomeLoop | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._waiting = 0
        """The threads that are in `wait`."""
        self._prompts = SimpleQueue[tuple[str, Future[str]]]()
        """The questions of `ask`, each with its answer."""
        self._thread = threading.Thread(target=self._live, name="agf-mcp", daemon=True)
        self._thread.start()

    @classmethod
    def current(cls) -> HomeLoop:
        """The loop of this process. A fork gets a new one, because it has no threads of its
        parent."""
        with cls._lock:
            if cls._current is None or cls._current._pid != os.getpid():
                cls._current = HomeLoop()
            return cls._current

    def _live(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start ``work`` on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def wait(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        """Wait on another thread for the result of ``work``. An interrupt cancels ``work``, and so
        does the end of ``seconds`` (None: no limit)."""
        future = self.submit(work)
        self._waiting += 1
        end = None if seconds is None else time.monotonic() + seconds
        try:
            while True:
                # A signal that another thread receives does not end a wait, so waits are short.
                seconds_left = PART if end is None else min(PART, end - time.monotonic())
                ended, _ = futures.wait([future], max(seconds_left, 0))
                if ended or seconds_left <= 0:
                    return future.result(0)
                self._prompt()
        except BaseException:
            future.cancel()
            raise
        finally:
            self._waiting -= 1

    @property
    def is_attended(self) -> bool:
        """Whether a person waits for work of the loop, because they are connecting a server."""
        return self._waiting > 0

    async def ask(self, text: str) -> str:
        """The text that the waiting person types. The question is put on the thread that waits in
        `wait`, because only that thread may ask."""
        answer = Future[str]()
        self._prompts.put((text, answer))
        return await asyncio.wrap_future(answer)

    def _prompt(self) -> None:
        with suppress(Empty):
            text, answer = self._prompts.get_nowait()
            answer.set_result(input(text))

    async def cross(self, work: Coroutine[Any, Any, T]) -> T:
        """Await ``work`` from another loop; a cancellation of the caller also cancels ``work``."""
        return await asyncio.wrap_future(self.submit(work))
