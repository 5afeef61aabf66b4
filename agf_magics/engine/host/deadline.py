"""Time limits of runs, flows and calls, which pause while a person thinks about a question."""

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
"""The time of the loop's last turn in a run that must check for its cancellation before the next
step."""


FORCE = 1.0
"""The seconds in which a call on the waiting thread, which did not stop in time, is interrupted by
force."""


class Stoppable(Protocol):
    """The methods of a run's host that a time limit calls."""

    @property
    def grace(self) -> float: ...
    def stop(self, late: bool = False) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


time_limits: ContextVar[tuple[Clock | Stoppable, ...]] = ContextVar("time_limits", default=())
"""The time limits around the current task. They pause while a person thinks about a question of
this task."""


class Clock:
    """A time limit that any thread can pause."""

    def __init__(self, seconds: float, set_timer: Callable[[float | None], None]) -> None:
        """``seconds``: the limit. ``set_timer``: gets the loop's time at which the limit ends; None
        while the limit pauses."""
        self._loop = asyncio.get_running_loop()
        self._set_timer = set_timer
        self._pauses = 0
        self.ends = inf
        """The loop's time at which the limit ends; infinite while it pauses."""
        self._left = inf
        """The seconds that are left while it pauses."""
        self.closed = False
        """Whether the block has ended. Background calls may still ask questions then."""
        self._start(seconds)

    def pause(self) -> None:
        self._on_loop(self._pause)

    def resume(self) -> None:
        self._on_loop(self._resume)

    def _on_loop(self, change: Callable[[], None]) -> None:
        if asyncio.get_running_loop() is self._loop:
            change()
        else:  # a tool runs a flow on another loop
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(change)

    def _pause(self) -> None:
        # A counter, because two questions of one flow may overlap.
        self._pauses += 1
        if self._pauses == 1 and not self.closed:
            # Keep the remaining seconds, not those of the start: otherwise a limit that pauses
            # twice would last too long.
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
    """`asyncio.timeout` that pauses while a person thinks about a question that the block asks.
    Yields a function that returns True when the time is over, even if the block keeps the loop from
    its timers."""
    loop = asyncio.get_running_loop()
    # The timeout has no time at first. The clock sets and moves it.
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
    """Cancels the task of its block after ``seconds`` (None: never). The block then raises
    OutOfTime.

    Unlike `asyncio.timeout`, a tool cannot get around it: if a tool catches the cancellation and
    calls ``Task.uncancel``, the task is cancelled again, no further step starts, and the block
    fails even if nothing is raised in it.
    """

    def __init__(self, seconds: float | None, host: Stoppable) -> None:
        self._seconds = seconds
        self._host = host
        self._sent = 0
        """The number of times that the task was cancelled."""
        self._clock: Clock | None = None
        """None: there is no time limit."""
        self._timer: asyncio.TimerHandle | None = None
        """The timer of the next cancellation; None: the clock pauses, or there is no limit."""

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._before = task.cancelling()
        """The number of the task's cancellations before the block."""
        self._loop = asyncio.get_running_loop()
        # The host pauses, too, because the watchdog counts the same time.
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
        # Checked even if no timer fired, because a tool that blocks the loop blocks its timers.
        expired = self._sent > 0 or (kind is None and self._loop.time() > self._clock.ends)
        self._set_timer(None)
        # Our cancellations are taken back, so that `cancelling` counts only those of others.
        for _ in range(self._sent):
            self._task.uncancel()
        is_cancelled = kind is not None and issubclass(kind, asyncio.CancelledError)
        is_ours = is_cancelled and self._task.cancelling() <= self._before
        if expired and (kind is None or is_ours):
            raise OutOfTime

    def _set_timer(self, when: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._expire) if when is not None else None

    def _expire(self) -> None:
        self._sent += 1
        # Set before the task is cancelled, because a call that is stopped asks whether it may be
        # forced.
        self._host.stop(late=True)
        self._task.cancel()
        # The next cancellation comes after the grace of a call, which it would end.
        self._set_timer(self._loop.time() + self._host.grace + 2 * FORCE)


async def within(seconds: float | None, work: Awaitable[D], late: Callable[[], Exception]) -> D:
    """Await ``work``. Raises ``late()`` if it takes longer than ``seconds`` (None: no limit), even
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
    late = TimedOut(timeout)

    async def begin() -> Result:
        result = await work()  # a plain function runs in this call, so that its time counts
        # Needed if the work kept the loop from its timers, so that nothing has stopped it.
        late.late_result = result
        return result

    try:
        return await within(remaining, begin(), lambda: late)
    except TimedOut:
        return False, late
