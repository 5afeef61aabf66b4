"""Time limits of a run and of the flows in it, on the loop that drives them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import TracebackType
from typing import TypeVar

from .host import FORCE, Host

T = TypeVar("T")


class OutOfTime(Exception):
    """A run, or a flow in it, took longer than it may."""


class Deadline:
    """Cancels the task that runs its block after ``seconds`` (None: never), and raises OutOfTime at the end of it.

    Like `asyncio.timeout`, but a tool cannot get around it: a tool that catches the cancel and calls
    ``Task.uncancel`` is cancelled again, no further step starts, and the block fails although nothing is raised in it.
    """

    def __init__(self, seconds: float | None, host: Host) -> None:
        self._seconds = seconds
        self._host = host
        self._sent = 0
        """How often the task was cancelled."""
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._before = task.cancelling()
        self._loop = asyncio.get_running_loop()
        if self._seconds is not None:
            self._ends = self._loop.time() + self._seconds
            self._timer = self._loop.call_at(self._ends, self._expire)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is None:
            return
        self._timer.cancel()
        expired = self._sent > 0 or (kind is None and self._loop.time() > self._ends)
        for _ in range(self._sent):
            self._task.uncancel()
        ours = kind is None or (issubclass(kind, asyncio.CancelledError) and self._task.cancelling() <= self._before)
        if expired and ours:
            raise OutOfTime

    def _expire(self) -> None:
        self._sent += 1
        self._host.stop(late=True)
        self._task.cancel()
        self._timer = self._loop.call_later(self._host.grace + 2 * FORCE, self._expire)  # a cancel ends the grace


async def within(seconds: float, work: Awaitable[T]) -> T:
    """Do ``work``. Raises OutOfTime when it takes longer than ``seconds``, also when it blocks its loop meanwhile."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + seconds
    try:
        async with asyncio.timeout_at(ends) as scope:
            done = await work
    except TimeoutError:
        assert scope.expired(), "what user code raises is a StepError here, not a TimeoutError"
        raise OutOfTime from None
    if scope.expired() or loop.time() > ends:
        raise OutOfTime
    return done
