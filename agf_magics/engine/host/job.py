"""`Job`, a run on the engine's loop that other threads start, wait for and cancel."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable
from math import inf
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar

from ...compat.browser import IN_BROWSER
from ..threads.call_threads import ThreadCall
from ..threads.call_threads import running as on_this_thread
from ..threads.rights import rights, under
from ..threads.user_code import StillRunning
from .held_interrupt import INTERRUPT
from .host import Host
from .loop import EngineLoop, on_an_engine_loop
from .page_loop import OwnLoop, can_suspend, suspend
from .waiting_thread import POLL, Waiter, waiters
from .watchdog import Watchdog

T = TypeVar("T")

UNANSWERED = 2.0
"""The seconds after a cancellation before the loop is checked."""

LATE = 4.0
"""The seconds after its time limit at which a run is ended from outside. They are more than its
calls have to stop (`Host.grace` and `FORCE`)."""


class Limit(NamedTuple):
    """The time limit of a job, for its end from outside."""

    seconds: float
    exceeded: Callable[[str], BaseException]
    """Returns the error of a job that took longer, from a text about the calls that are left
    running."""


class OnceSet:
    """An event that is set once. An interrupt in `threading.Event.wait` can leave the event's lock
    locked, so that its ``set`` would wait for ever. This ``set`` never waits."""

    def __init__(self) -> None:
        self._set = False
        # A bare lock, because its `release` never waits.
        self._closed = threading.Lock()
        self._closed.acquire()

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        """Set the event. It must be called only once."""
        self._set = True
        self._closed.release()

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds``. Returns whether the event is set."""
        if not self._set and self._closed.acquire(timeout=seconds):
            self._closed.release()
        return self._set


class Job(Generic[T]):
    """A run on the engine's loop, driven from another thread."""

    def __init__(
        self,
        main: Callable[[Host], Awaitable[T]],
        *,
        waited: bool = True,
        over: Callable[[tuple[T] | BaseException], None] | None = None,
        limit: Limit | None = None,
        cancelling: Callable[[], object] = lambda: None,
    ) -> None:
        """``waited``: whether a thread will call `Job.wait` and run the calls that belong on it.
        ``over``: is called with the result, on any thread, before the waiting threads continue.
        ``limit``: the time limit after which the job is ended from outside; None: never.
        ``cancelling``: is called on the loop when the job is cancelled."""
        if waited:
            _refuse_on_a_loop()
        self.reason: str | None = None
        """The reason of the cancellation; None: not cancelled."""
        self.cancelled_at: float | None = None
        """The time of the cancellation, by the monotonic clock; None: not cancelled."""
        self._over = over
        self._cancelling = cancelling
        self._limit = limit
        self._late = inf
        """The time from which on the job is ended from outside, by the monotonic clock."""
        self.started = False
        self._calls: SimpleQueue[ThreadCall | None] = SimpleQueue()
        """The calls for the thread that waits; None only wakes it."""
        self._host = Host(self._calls if waited else None, in_background=not waited)
        self._ended = OnceSet()
        self._outcome: tuple[T] | BaseException = asyncio.CancelledError()
        """The value in a tuple, or the error, once the job has ended. Until then: the error of a
        job that is cancelled before its first step."""
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], object]] = []
        """Functions that are called at the end."""
        self._task: asyncio.Task[None] | None = None
        self._main = main
        self._engine = EngineLoop.current(waited)

    def start(self) -> None:
        """Start the run on the loop."""
        if self._limit is not None:
            self._late = time.monotonic() + self._limit.seconds + LATE
            # Watched before the run is on the loop, because a tool may block the loop at once.
            Watchdog.shared().watch(self.look, self._late)
        self.started = True
        # The callback inherits the rights of the caller: a run that a tool starts may use no more
        # than the tool.
        under(rights(), self._engine.loop.call_soon_threadsafe, self._begin)

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self._ended.is_set()

    def cancel(self, reason: str) -> None:
        """Cancel the run, from any thread. Only the first call counts: another cancellation would
        interrupt the clean-up."""
        if self.cancelled_at is None and not self.done and self.started:
            # Set first, because `look` counts from here if the loop is blocked and the line below
            # has no effect.
            self.reason, self.cancelled_at = reason, time.monotonic()
            with contextlib.suppress(RuntimeError):  # the loop is closed, so the job has ended
                self._engine.loop.call_soon_threadsafe(self._cancel)
            Watchdog.shared().watch(self.look, self.cancelled_at + UNANSWERED)

    def wait(self, meanwhile: Callable[[], object] = lambda: None) -> T:
        """Wait for the end and run the calls that belong on this thread; return the value or raise
        the error. ``meanwhile`` is called regularly while no call has the thread.

        The first interrupt cancels the run and all runs around it; the second raises
        KeyboardInterrupt. Raises StillRunning if a blocked loop cannot end the run.
        """
        _refuse_on_a_loop()
        around = on_this_thread.call
        if around is not None:
            # From now on, the call that waits here is stopped through this run. It may have been
            # stopped before, when there was no run to stop.
            around.inner = self.cancel
            if around.must_stop():
                self.cancel("the run around it was stopped")
        try:
            if IN_BROWSER:
                self._wait_on_loop()
            else:

                def watch() -> None:
                    self.look()
                    meanwhile()

                Waiter(self._calls, self.cancel).serve(self._ended.is_set, watch)
        except KeyboardInterrupt:
            self.cancel(INTERRUPT)
            raise
        finally:
            if around is not None:
                around.inner = None
        # A person's interrupt also ends the runs around this run, so no tool may go on with the
        # value.
        interrupted = bool(waiters.stack) and waiters.stack[0].user_interrupts > 0
        if around is not None and (around.must_stop() or interrupted):
            around.interrupted = around.interrupted or interrupted
            raise KeyboardInterrupt  # the call that waits ends, too
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome[0]

    def join(
        self, timeout: float | None = None, meanwhile: Callable[[], object] = lambda: None
    ) -> None:
        """Wait for the end of a background job, at most ``timeout`` seconds; default None: no
        limit. An interrupt only ends the waiting. ``meanwhile`` is called regularly."""
        if self.done:
            return
        _refuse_on_a_loop()
        if IN_BROWSER:
            return self._join_on_loop(timeout)
        around = on_this_thread.call
        until = time.monotonic() + (inf if timeout is None else timeout)
        while not self._ended.wait(max(0.0, min(POLL, until - time.monotonic()))):
            if time.monotonic() >= until:
                return
            self.look()
            meanwhile()
            if around is not None and around.must_stop():
                raise KeyboardInterrupt  # the call that waits ends

    def every(
        self, seconds: float, tick: Callable[[], object], close: Callable[[], object]
    ) -> None:
        """Call ``tick`` on the loop every ``seconds`` seconds until the end, then ``close``."""

        def again() -> None:
            if not self.done:
                tick()
                self._engine.loop.call_later(seconds, again)

        if self.done:
            close()
        else:
            self._listeners.append(close)
            loop = self._engine.loop
            loop.call_soon_threadsafe(loop.call_later, seconds, again)

    def _wait_on_loop(self) -> None:
        loop = self._engine.loop
        if isinstance(loop, OwnLoop):
            loop.drive(self.ended())
            loop.close()
        else:
            suspend(self.ended())

    def _join_on_loop(self, timeout: float | None) -> None:
        if not can_suspend():
            message = (
                "a run in the background cannot be waited for in this browser, which has no "
                "JSPI: use `await run`"
            )
            raise RuntimeError(message)

        async def ended() -> None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.ended(), timeout)

        suspend(ended())

    async def ended(self) -> None:
        """Wait for the end on the running loop. A cancellation only ends the waiting."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def notify() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(_wake, future)

        # Registered before `done` is read: a run that ends in between would not wake this.
        self._listeners.append(notify)
        try:
            while not self.done:
                # The wait has a timeout, because a blocked loop of the engine notifies nobody. Then
                # `look` ends the run.
                await asyncio.wait((future,), timeout=UNANSWERED)
                self.look()
        finally:
            self._listeners.remove(notify)

    def look(self) -> bool:
        """End a run that does not end by itself, because its loop is blocked after a cancellation,
        or it is long over its time limit. Returns whether it has ended.

        Called regularly by the threads that wait."""
        now = time.monotonic()
        is_late = now >= self._late + self._host.seconds_asking
        is_overdue = self.cancelled_at is not None and now - self.cancelled_at >= UNANSWERED
        if not (is_late or is_overdue) or self.done:
            return self.done
        # The check may wait for an answer of the loop, so it is made only if the run is due.
        is_stuck = self._engine.stuck()
        if not is_stuck and not is_late:
            return False
        where = f"blocked in {self._engine.blocked_in()}" if is_stuck else "it does not stop"
        left_running = f"left running: {where}"
        if is_late and self._limit is not None and self.cancelled_at is None:
            self._finish(self._limit.exceeded(left_running))
        else:
            self._finish(StillRunning(left_running))
        if is_stuck:
            self._engine.abandon()
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            self._engine.loop.call_soon_threadsafe(self._cancel)
        return True

    def _begin(self) -> None:
        if self.done:  # the loop was blocked, and the job ended before it started
            return
        self._engine.jobs.add(self)
        self._task = self._engine.loop.create_task(self._run(self._main))
        # If a task is cancelled before its first step, `_run` does not run at all.
        self._task.add_done_callback(self._end)

    async def _run(self, main: Callable[[Host], Awaitable[T]]) -> None:
        try:
            outcome: tuple[T] | BaseException = (await main(self._host),)
        except BaseException as error:
            outcome = error
        if isinstance(outcome, BaseException):
            # Drop the frames of the engine's loop, which hold the values of the run and which
            # nobody reads.
            outcome.__context__ = None
        self._host.release_thread()
        self._finish(outcome)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._engine.jobs.discard(self)
        self._finish(self._outcome)  # it was cancelled before it started

    def _finish(self, outcome: tuple[T] | BaseException) -> None:
        """Set the outcome, on the loop or from outside. The first call counts."""
        with self._lock:
            if self.done:
                return
            self._outcome = outcome
            # `over` comes before the end is set, because waiting threads must see what it stores.
            try:
                if self._over is not None:
                    self._over(outcome)
            finally:
                self._ended.set()
        if self._limit is not None or self.cancelled_at is not None:
            # Forgotten, because the watchdog would keep the run in memory.
            Watchdog.shared().forget(self.look)
        self._calls.put(None)
        # A copy, because a listener may leave on another thread meanwhile.
        for notify in list(self._listeners):
            notify()

    def _cancel(self) -> None:
        # The host is stopped first, because a tool may swallow the cancellation of the task.
        self._host.stop()
        if self._task is not None:
            self._task.cancel()
        self._cancelling()


def _wake(future: asyncio.Future[None]) -> None:
    with contextlib.suppress(asyncio.InvalidStateError):  # another thread has woken it
        future.set_result(None)


def _refuse_on_a_loop() -> None:
    if on_an_engine_loop():
        message = (
            "a run cannot be waited for on the loop that drives runs: use `await agf.arun(...)`"
        )
        raise RuntimeError(message)
