"""The places where the code of users runs, and how it is stopped there.

There are four: the engine's loop; the thread that waits for the run, where a blocking function can
be interrupted and sqlite, matplotlib and ``breakpoint()`` work; other threads; and workers, which
are other processes. `Host.make_call` never raises what user code raised.

Time limits of a run, of the flows in it and of calls pause while a person thinks about a question
(`Host.ask`).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import partial
from math import inf
from queue import SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

from ..catalog import Tool
from ..catalog import Where as Place
from ..flow.events import Question
from ..text.late_imports import IN_BROWSER
from .threads import RemoteCalls, Terms
from .user_code import Call, Result, StillRunning, TimedOut, Workers, awaited, cross

__all__ = [
    "Asker",
    "Host",
    "NoUser",
    "Place",
    "Result",
    "StillRunning",
    "TimedOut",
    "has_effect",
    "runs_on_workers",
    "where",
]


TURN = 0.01
"""Seconds after which steps that never wait give the loop a turn, for its timers and
cancellations."""

NO_MOMENT = float("-inf")
"""The last turn of the loop, for a run that must check for its cancellation before the next
step."""

REPEAT = 0.1
"""Seconds after which a call that was asked to stop is asked again."""

FORCE = 1.0
"""Seconds in which a call on the waiting thread that did not stop in time is interrupted by
force."""


class NoUser(Exception):
    """There is no user to answer a question; an asker raises it."""


Asker = Callable[[Question], Any]
"""Puts a question to a person and returns the answer: a bool for an approval, else a text. Called
as ``asker(question)``, with any name of its parameter; may be async."""


time_limits: ContextVar[tuple[Clock | Host, ...]] = ContextVar("time_limits", default=())
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
            self._left, self.ends = self.ends - self._loop.time(), inf
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
    asked in it. Gives what says whether the time is over, also if the block has kept the loop from
    its timers."""
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


class Host:
    """The places where the calls of one run are made."""

    def __init__(
        self,
        calls: SimpleQueue[Call | None] | None = None,
        grace: float = 2.0,
    ) -> None:
        self.grace = grace
        """Seconds that user code has to stop, before it is left running."""
        self.where = ""
        """What a message about a call that is left running ends with: `` on process 7 on host``."""
        self._calls, self.waited = calls, calls is not None
        """Whether a thread waits for the run; otherwise ``kernel`` is the loop, between two
        turns."""
        self.turned = time.monotonic()
        """When the loop had its last turn."""
        self._stopped = self._late = False
        self.asker: Asker | None = None
        """Puts questions to a person; None: there is no user."""
        self._asking = asyncio.Lock()
        self._questions = 0
        self._asked_at = 0.0
        self._answered_in = 0.0
        """Seconds in which questions were open, without the present ones."""
        self._lock = threading.Lock()
        self.queue: RemoteCalls | None = None
        """The calls that workers make; None: the run has no workers."""

    async def call(
        self,
        place: Place,
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        timeout: float | None = None,
    ) -> Result:
        """`make_call`, after a turn of the loop if one is due: for what the engine itself needs, a
        question, a file, a sequence."""
        if place == "loop" and time.monotonic() - self.turned > TURN:
            await self.turn()
        return await self.make_call(place, function, arguments, timeout)

    async def make_call(
        self,
        place: Place,
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        timeout: float | None = None,
        terms: Terms | None = None,
    ) -> Result:
        """Call ``function(**arguments)`` in that place; an awaitable result is awaited on the loop.
        ``terms``: of a call on a worker.

        After ``timeout`` seconds the result is a `TimedOut`. Raises CancelledError if the task is
        cancelled, and `StillRunning` if the call could not be stopped.
        """
        if place == "worker":  # it counts the time of the call
            return await self._elsewhere(place, function, arguments, None, terms or Terms(timeout))
        on_thread = place == "thread" or (place == "kernel" and self._calls is not None)
        if on_thread and not IN_BROWSER:
            return await self._elsewhere(place, function, arguments, timeout)
        if place == "kernel":  # between two turns
            await self.turn()
        return await in_time(
            lambda: awaited(cross(function, arguments), self.grace), timeout, timeout
        )

    async def ask(self, question: Question, is_busy: bool = False) -> Result:
        """Put a question to a person, one at a time: on the thread that waits for the run, where
        `input` works.

        ``is_busy``: whether that thread makes the call that asks, so that another one must ask.
        Without a user the result is a failure, a `NoUser`. The time limits around the question
        pause until its answer.
        """
        if self.asker is None:
            return False, NoUser("there is no user to answer")
        # A person may think for an hour: the limits of the run, of the flow and of the step do not
        # count that.
        limits = time_limits.get()
        for limit in limits:
            limit.pause()
        try:
            # One question at a time: `input` of two threads would read one line.
            async with self._asking:
                asker = self.asker
                place: Place = (
                    "loop"
                    if asyncio.iscoroutinefunction(asker)
                    else "kernel"
                    if self.waited and not is_busy
                    else "thread"
                )
                ok, answer = await self.call(place, partial(asker, question), {})
        finally:
            for limit in limits:
                limit.resume()
        # A kernel without a frontend ends `input` in this way.
        if not ok and isinstance(answer, EOFError):
            return False, NoUser("there is no user to answer")
        return ok, answer

    def pause(self) -> None:
        """A question was asked in this run, or in a run that one of its tools has started."""
        with self._lock:
            if not self._questions:
                self._asked_at = time.monotonic()
            self._questions += 1

    def resume(self) -> None:
        with self._lock:
            self._questions -= 1
            if not self._questions:
                self._answered_in += time.monotonic() - self._asked_at

    @property
    def seconds_asking(self) -> float:
        """How long questions were open, by the monotonic clock."""
        with self._lock:
            return self._answered_in + (
                time.monotonic() - self._asked_at if self._questions else 0.0
            )

    def stop(self, late: bool = False) -> None:
        """No further step starts, even if a tool undoes the cancellation of its task.

        ``late``: the time of the run is over, so a call that does not stop is forced to. After the
        cancellation of a person it may clean up, and the person may interrupt again.
        """
        # `_late` stays: a person may cancel after the time of the run is over.
        self._stopped, self._late = True, late or self._late
        # The next step then takes a turn, which raises: a tool can swallow the cancellation of its
        # task with `uncancel`, but not this.
        self.turned = NO_MOMENT

    async def turn(self) -> None:
        """Let the loop run its other tasks and timers. Raises CancelledError after `stop`."""
        # Twice: a timer that is due is only called after the tasks that are ready.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if self._stopped:
            raise asyncio.CancelledError
        self.turned = time.monotonic()

    async def _elsewhere(
        self,
        place: Place,
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        timeout: float | None,
        terms: Terms | None = None,
    ) -> Result:
        """`make_call` for a call that this task only waits for. ``terms``: of one on a worker."""
        call: Call | None = None

        async def ended() -> Result:
            nonlocal call
            # In the time limit of the call, which its context then has: its questions pause it.
            call = Call(function, arguments, asyncio.get_running_loop())
            call.ended = call.loop.create_future()
            try:
                # After `ended` exists: the call may end before this returns.
                if terms is not None:
                    assert self.queue is not None, "only a run with workers has this place"
                    self.queue.hand(call, terms)
                elif place == "thread" or self._calls is None:
                    Workers.shared().hand(call)
                else:
                    self._calls.put(call)
            except RuntimeError as error:  # no thread left
                return False, error
            if timeout is None:
                await call.ended
            else:
                # Not the future itself, which the limit would cancel: the call goes on until it is
                # stopped below, and then reports its end there.
                await asyncio.wait((call.ended,))
            return await self.finish_call(call)

        result: Result | None = None
        try:
            result = await in_time(ended, timeout, timeout)
        except asyncio.CancelledError:
            if call is None or call.result is not None:
                raise
        assert call is not None, "it is made before anything waits"
        # Outside of `except`: stopping the call awaits, and its error has no cause.
        if result is None:
            raise await self.cancel_call(call)
        if call.result is None and timeout is not None and isinstance(result[1], TimedOut):
            return await self.end_late_call(call, timeout)
        return result

    async def cancel_call(self, call: Call) -> asyncio.CancelledError:
        """Stop a call whose step is cancelled. Returns the error of the step: a `StillRunning` if
        it did not stop."""
        left, _ = await self._stop(call, force=self._late)
        return StillRunning(left) if left else asyncio.CancelledError()

    async def end_late_call(self, call: Call, timeout: float) -> Result:
        """Stop a call that has exceeded ``timeout`` seconds. Raises as `make_call` if this task is
        cancelled."""
        left, again = await self._stop(call, force=True)
        if again:
            raise StillRunning(left) if left else asyncio.CancelledError
        return False, TimedOut(timeout, left)

    async def finish_call(self, call: Call) -> Result:
        """The result of a call that has ended, after what it returned was awaited."""
        if call.interrupted:
            await asyncio.sleep(self.grace)  # the interrupt of the person also cancels the run
        assert call.result is not None
        return await awaited(call.result, self.grace)

    async def _stop(self, call: Call, force: bool) -> tuple[str | None, bool]:
        """Ask the call to stop, wait for the grace, then ``force`` it. Returns a text if it is left
        running, and whether this task was cancelled meanwhile."""
        # Whoever takes the call first decides: a thread that comes later does not begin it.
        if call.result is not None or call.take():
            return None, False
        loop = asyncio.get_running_loop()
        # A new future: the cancellation of this task has cancelled the one that it awaited.
        call.ended = loop.create_future()
        again = False
        try:
            # Repeated: a signal that comes just before a call goes to sleep does not wake it.
            await self._repeat(call, call.stop, self.grace)
            # Only a call on a thread that signals reach can be forced: the others are left running,
            # and told.
            if call.result is None and call.waiter is not None and (force or call.waiter.kills):
                await self._repeat(call, call.force, FORCE)
        except asyncio.CancelledError:
            again = True
        if call.result is not None:
            return None, again
        where = self.where if call.waiter is None else call.waiter.where
        return f"left running: {call.name}{where}", again

    async def _repeat(self, call: Call, stop: Callable[[], None], seconds: float) -> None:
        """Call ``stop`` every `REPEAT` seconds until ``call`` ends or ``seconds`` are over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while call.result is None:
            stop()
            assert call.ended is not None
            await asyncio.wait((call.ended,), timeout=min(REPEAT, until - loop.time()))
            if loop.time() >= until:
                break


def runs_on_workers(callee: object) -> bool:
    """Whether concurrent calls go to the workers of a run that has some: a plain tool without a
    place of its own, and without a secret, which stays in the kernel; and whatever has
    ``where="worker"``."""
    where = getattr(callee, "where", None)
    if where is not None:
        return bool(where == "worker")
    return type(callee) is Tool and not (callee.is_async or callee.secret or callee.kernel_only)


def has_effect(callee: object) -> bool:
    """Whether a call must not be repeated without a confirmation (``reuse=False``, decision D7)."""
    return isinstance(callee, Tool) and not callee.reuse


def where(callee: Any, concurrent: bool, host: Host) -> Place:
    """Where a call runs. ``concurrent``: other steps may run at the same time. The table in
    docs/design.md, "Engine and host"."""
    if IN_BROWSER:
        return "loop"
    if callee.where is not None and (callee.where != "worker" or host.queue is not None):
        return callee.where  # type: ignore[no-any-return]  # a Where
    if callee.is_async:
        return "loop"
    if concurrent and host.queue is not None and runs_on_workers(callee):
        return "worker"
    return "kernel" if host.waited and not concurrent else "thread"


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

    def __init__(self, seconds: float | None, host: Host) -> None:
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
        around: tuple[Clock | Host, ...] = (*time_limits.get(), self._host)
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
            done = await work
    except TimeoutError:
        assert expired(), "what user code raises is a StepError here, not a TimeoutError"
        raise late() from None
    if expired():
        raise late()
    return done


async def in_time(
    work: Callable[[], Awaitable[Result]], left: float | None, timeout: float | None
) -> Result:
    """The result of ``work()``, or a `TimedOut` if it takes longer than what is ``left`` of
    ``timeout`` seconds (None: no limit)."""
    if timeout is None:
        return await work()

    async def begin() -> Result:
        return await work()  # a plain function runs in this call: its time counts

    try:
        return await within(left, begin(), lambda: TimedOut(timeout))
    except TimedOut as late:
        return False, late
