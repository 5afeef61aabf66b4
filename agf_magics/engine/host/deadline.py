"""Time limits of a run, a flow and a call: they pause while a person thinks about a question
(`Host.ask`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from math import inf
from types import TracebackType
from typing import Protocol, TypeVar

from ..threads.user_code import Result, TimedOut

NO_MOMENT = float("-inf")
"""The last turn of the loop, for a run that must check for its cancellation before the next
step."""


FORCE = 1.0
"""Seconds in which a call on the waiting thread that did not stop in time is interrupted by
force."""


class Stoppable(Protocol):
    """What a time limit needs of the host of a run."""

    @property
    def grace(self) -> float: ...
    def stop(self, late: bool = False) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


time_limits: ContextVar[tuple[Clock | Stoppable, ...]] = ContextVar("time_limits", default=())
"""The time limits around the task that runs. They pause while a person thinks about a question of
this task."""


class Clock:
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
        # Counted: two questions of one flow may overlap.
        self._pauses += 1
        if self._pauses == 1 and not self.closed:
            # What is left now, not the seconds of the start: a limit that pauses twice would last
            # too long.
            self._left = self.ends - self._loop.time()
            self.ends = inf
            self._set_timer(None)

    def _resume(self) -> None:
        self._pauses -= 1
        if not self._pauses and not self.closed:
            self._start(self._left)

    def _start(self, seconds: float) -> None:
        self.ends = self._loop.time() + seconds
        self._set_timer(self.ends)


@contextlib.asynccontextmanager
async def pausing(seconds: float) -> AsyncIterator[Callable[[], bool]]:
    """`asyncio.timeout` for its block, which pauses while a person thinks about a question that is
    asked in it. Yields a function that returns True when the time is over, also if the block has
    kept the loop from its timers."""
    loop = asyncio.get_running_loop()
    # No time yet: the clock sets it, and moves it.
    async with asyncio.timeout(None) as scope:
        clock = Clock(seconds, lambda when: None if scope.expired() else scope.reschedule(when))
        outer = time_limits.set((*time_limits.get(), clock))
        try:
            yield lambda: scope.expired() or loop.time() > clock.ends
        finally:
            clock.closed = True
            time_limits.reset(outer)


D = TypeVar("D")


class OutOfTime(Exception):
    """A run exceeded its time limit."""


class Deadline:
    """Cancels the task that runs its block after ``seconds`` (None: never); then the block raises
    OutOfTime.

    Unlike `asyncio.timeout`, a tool cannot get around it: if a tool catches the cancellation and
    calls ``Task.uncancel``, the task is cancelled again, no further step starts, and the block
    fails even if nothing is raised in it.
    """

    def __init__(self, seconds: float | None, host: Stoppable) -> None:
        self._seconds = seconds
        self._host = host
        self._sent = 0
        """How often the task was cancelled."""
        self._clock: Clock | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._before = task.cancelling()
        self._loop = asyncio.get_running_loop()
        # The host pauses, too: the watchdog's limit of the run counts the same time.
        around: tuple[Clock | Stoppable, ...] = (*time_limits.get(), self._host)
        if self._seconds is not None:
            self._clock = Clock(self._seconds, self._set_timer)
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
        # Also if no timer fired: a tool that blocks the loop keeps its timers from running.
        expired = self._sent > 0 or (kind is None and self._loop.time() > self._clock.ends)
        self._set_timer(None)
        # Our own cancellations are taken back, so that `cancelling` tells those of others.
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
        # Before the task is cancelled: a call that is stopped asks whether it may be forced.
        self._host.stop(late=True)
        self._task.cancel()
        # Later than a call has to stop: another cancellation would end its grace.
        self._set_timer(self._loop.time() + self._host.grace + 2 * FORCE)


async def within(seconds: float | None, work: Awaitable[D], late: Callable[[], Exception]) -> D:
    """Await ``work``. Raises ``late()`` if it takes longer than ``seconds`` (None: no limit), also
    if it blocks the loop meanwhile."""
    if seconds is None:
        return await work
    try:
        async with pausing(seconds) as expired:
            result = await work
    except TimeoutError:
        assert expired(), "what user code raises is a StepError here, not a TimeoutError"
        raise late() from None
    if expired():
        raise late()
    return result


async def in_time(
    work: Callable[[], Awaitable[Result]], remaining: float | None, timeout: float | None
) -> Result:
    """The result of ``work()``, or a `TimedOut` if it takes longer than the ``remaining`` part of
    ``timeout`` seconds (None: no limit)."""
    if timeout is None:
        return await work()

    async def begin() -> Result:
        return await work()  # a plain function runs in this call: its time counts

    try:
        return await within(remaining, begin(), lambda: TimedOut(timeout))
    except TimedOut as late:
        return False, late
