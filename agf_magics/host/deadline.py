"""Time limits of a run and of the flows in it. They pause while a person thinks about a question
(`Host.ask`)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from math import inf
from types import TracebackType
from typing import TypeVar

from .host import FORCE, Host, Pausable, time_limits

D = TypeVar("D")


class OutOfTime(Exception):
    """A run, or a flow in it, exceeded its time limit."""


class _Clock:
    """A time limit that can pause, from any thread."""

    def __init__(self, seconds: float, set_timer: Callable[[float | None], None]) -> None:
        """``set_timer`` receives the time of the loop at which the limit is over; None: not now."""
        self._loop = asyncio.get_running_loop()
        self._set_timer = set_timer
        self._pauses = 0
        self.ends = self._left = inf
        self.closed = False
        """Whether its block has ended. Calls in the background may still ask questions."""
        self._start(seconds)

    def pause(self) -> None:
        self._on_loop(self._pause)

    def resume(self) -> None:
        self._on_loop(self._resume)

    def _on_loop(self, change: Callable[[], None]) -> None:
        if asyncio.get_running_loop() is self._loop:
            change()
        else:  # a tool runs a flow on a loop of its own
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(change)

    def _pause(self) -> None:
        self._pauses += 1
        if self._pauses == 1 and not self.closed:
            self._left, self.ends = self.ends - self._loop.time(), inf
            self._set_timer(None)

    def _resume(self) -> None:
        self._pauses -= 1
        if not self._pauses and not self.closed:
            self._start(self._left)

    def _start(self, seconds: float) -> None:
        self.ends = self._loop.time() + seconds
        self._set_timer(self.ends)


class Deadline:
    """Cancels the task that runs its block after ``seconds`` (None: never); then the block raises
    OutOfTime.

    Unlike `asyncio.timeout`, a tool cannot get around it: if a tool catches the cancellation and
    calls ``Task.uncancel``, the task is cancelled again, no further step starts, and the block
    fails even if nothing is raised in it.
    """

    def __init__(self, seconds: float | None, host: Host) -> None:
        self._seconds = seconds
        self._host = host
        self._sent = 0
        """How often the task was cancelled."""
        self._clock: _Clock | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._before = task.cancelling()
        self._loop = asyncio.get_running_loop()
        around: tuple[Pausable, ...] = (*time_limits.get(), self._host)
        if self._seconds is not None:
            self._clock = _Clock(self._seconds, self._set_timer)
            around = (*around, self._clock)
        self._outer = time_limits.set(around)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        time_limits.reset(self._outer)
        if self._clock is None:
            return
        self._clock.closed = True
        expired = self._sent > 0 or (kind is None and self._loop.time() > self._clock.ends)
        self._set_timer(None)
        for _ in range(self._sent):
            self._task.uncancel()
        ours = kind is None or (
            issubclass(kind, asyncio.CancelledError) and self._task.cancelling() <= self._before
        )
        if expired and ours:
            raise OutOfTime

    def _set_timer(self, when: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._expire) if when is not None else None

    def _expire(self) -> None:
        self._sent += 1
        self._host.stop(late=True)
        self._task.cancel()
        # Later than a call has to stop: another cancellation would end its grace.
        self._set_timer(self._loop.time() + self._host.grace + 2 * FORCE)


async def within(seconds: float, work: Awaitable[D]) -> D:
    """Await ``work``. Raises OutOfTime if it takes longer than ``seconds``, also if it blocks the
    loop meanwhile."""
    try:
        async with asyncio.timeout(None) as scope:
            clock = _Clock(
                seconds, lambda when: None if scope.expired() else scope.reschedule(when)
            )
            outer = time_limits.set((*time_limits.get(), clock))
            try:
                done = await work
            finally:
                clock.closed = True
                time_limits.reset(outer)
    except TimeoutError:
        assert scope.expired(), "what user code raises is a StepError here, not a TimeoutError"
        raise OutOfTime from None
    if scope.expired() or asyncio.get_running_loop().time() > clock.ends:
        raise OutOfTime
    return done
