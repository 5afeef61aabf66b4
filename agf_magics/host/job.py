"""A run on the engine's loop, driven or only watched from other threads: how it is started, waited for, cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar

from .calls import StillRunning
from .host import Host
from .interrupts import POLL, Waiter, waiters
from .loop import EngineLoop, on_an_engine_loop
from .rights import held
from .threads import Call
from .threads import here as on_this_thread
from .watchdog import Watchdog

T = TypeVar("T")

UNANSWERED = 2.0
"""Seconds a cancel may go unanswered before the loop is looked at."""

LATE = 4.0
"""Seconds after its time limit at which a run that has not ended is ended from outside: more than the grace that its
calls have to stop (`Host.grace`), and the time in which a call that holds the waiting thread is forced to."""


class Limit(NamedTuple):
    """The time that a job may take."""

    seconds: float
    exceeded: Callable[[str], BaseException]
    """Makes what a job that took longer has raised, from what is left running."""


class Job(Generic[T]):
    """A run on the engine's loop, driven from another thread."""

    def __init__(
        self,
        main: Callable[[Host], Awaitable[T]],
        enter: Callable[[], None] | None,
        waited: bool,
        over: Callable[[tuple[T] | BaseException], None] | None,
        limit: Limit | None = None,
    ) -> None:
        self.reason: str | None = None
        """Why it was cancelled; None if it was not."""
        self.asked: float | None = None
        """When it was cancelled, by the monotonic clock."""
        self._over = over
        self._limit = limit
        self._late = float("inf")
        self.begun = False
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._host = Host(self._calls if waited else None, enter)
        self._ended = threading.Event()
        self._outcome: tuple[T] | BaseException = asyncio.CancelledError()
        self._lock = threading.Lock()
        self._heard: list[Callable[[], object]] = []
        self._task: asyncio.Task[None] | None = None
        self._main, self._enter = main, enter
        self._engine = EngineLoop.current()

    def begin(self) -> None:
        """Start it, in the context of the caller."""
        if self._limit is not None:
            self._late = time.monotonic() + self._limit.seconds + LATE
            Watchdog.shared().watch(self._watched, self._late)
        self.begun = True
        with held():
            self._engine.loop.call_soon_threadsafe(self._begin)

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    def cancel(self, reason: str) -> None:
        """Ask it to stop, from any thread. Only the first time counts: a second cancel would hit its clean-up."""
        if self.asked is None and not self.done and self.begun:
            self.reason, self.asked = reason, time.monotonic()
            with contextlib.suppress(RuntimeError):  # its loop is closed: it has ended
                self._engine.loop.call_soon_threadsafe(self._cancel)
            Watchdog.shared().watch(self._watched, self.asked + UNANSWERED)

    def wait(self) -> T:
        """Block this thread until the end, running what the run hands it; its value, or raise what it raised.

        The first interrupt cancels the run, and everything around it, and the end is awaited; the second raises
        KeyboardInterrupt. When the loop is blocked and cannot end the run, raises StillRunning.
        """
        _refuse_on_a_loop()
        around = on_this_thread.call
        if around is not None:
            around.inner = self.cancel
            if around.stopped:
                self.cancel("the run around it was stopped")
        try:
            Waiter(self._calls, self.cancel).serve(self._ended, self.look)
        except KeyboardInterrupt:
            self.cancel("interrupt")
            raise
        finally:
            if around is not None:
                around.inner = None
        interrupted = bool(waiters.stack) and waiters.stack[0].hits > 0
        if around is not None and (around.stopped or interrupted):
            around.interrupted = around.interrupted or interrupted
            raise KeyboardInterrupt  # the call that waited is to end as well
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome[0]

    def join(self, timeout: float | None = None) -> bool:
        """Block this thread until the end of a job that nobody drives; whether it has ended.

        An interrupt ends the waiting and not the job.
        """
        if self.done:
            return True
        _refuse_on_a_loop()
        around = on_this_thread.call
        until = None if timeout is None else time.monotonic() + timeout
        while not self._ended.wait(POLL if until is None else max(0.0, min(POLL, until - time.monotonic()))):
            if until is not None and time.monotonic() >= until:
                return False
            self.look()
            if around is not None and around.stopped:
                raise KeyboardInterrupt  # the call that waits is to end
        return True

    async def ended(self) -> None:
        """Wait for the end on the loop that is running; whoever cancels this ends the waiting and not the job."""
        loop = asyncio.get_running_loop()
        told = loop.create_future()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # that loop was closed
                loop.call_soon_threadsafe(_wake, told)

        self._heard.append(tell)
        try:
            while not self.done:
                await asyncio.wait((told,), timeout=UNANSWERED)
                self.look()
        finally:
            self._heard.remove(tell)

    def look(self) -> None:
        """End a run that does not end by itself: its loop is blocked and answers no cancel, or its time has been over
        for long. For whoever waits, every now and then."""
        now = time.monotonic()
        late = now >= self._late + self._host.seconds_asking
        cancelled = self.asked is not None and now - self.asked >= UNANSWERED
        if not (late or cancelled) or self.done:
            return
        stuck = self._engine.stuck()
        if not stuck and not late:
            return
        left = f"left running: blocked in {self._engine.blocked_in()}" if stuck else "left running: it does not stop"
        if late and self._limit is not None and self.asked is None:
            self._finish(self._limit.exceeded(left))
        else:
            self._finish(StillRunning(left))
        if stuck:
            self._engine.abandon()
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            self._engine.loop.call_soon_threadsafe(self._cancel)

    def _watched(self) -> bool:
        """`look`, for the watchdog; whether it has ended."""
        self.look()
        return self.done

    def _begin(self) -> None:
        if self.done:  # its loop was blocked for so long that it was ended before it began
            return
        self._engine.jobs.add(self)
        self._task = self._engine.loop.create_task(self._run(self._main, self._enter))
        self._task.add_done_callback(self._end)

    async def _run(self, main: Callable[[Host], Awaitable[T]], enter: Callable[[], None] | None) -> None:
        try:
            if enter is not None:
                enter()
            outcome: tuple[T] | BaseException = (await main(self._host),)
        except BaseException as error:
            outcome = error
        if isinstance(outcome, BaseException):
            outcome.__context__ = None
        self._finish(outcome)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._engine.jobs.discard(self)
        self._finish(self._outcome)  # it was cancelled before it began

    def _finish(self, outcome: tuple[T] | BaseException) -> None:
        """Its end, from the loop or from whoever leaves that loop: the first one counts."""
        with self._lock:
            if self.done:
                return
            self._outcome = outcome
            try:
                if self._over is not None:
                    self._over(outcome)
            finally:
                self._ended.set()
        Watchdog.shared().forget(self._watched)
        self._calls.put(None)
        for tell in list(self._heard):
            tell()

    def _cancel(self) -> None:
        self._host.stop()
        if self._task is not None:
            self._task.cancel()


def start(
    main: Callable[[Host], Awaitable[T]],
    *,
    enter: Callable[[], None] | None = None,
    waited: bool = True,
    over: Callable[[tuple[T] | BaseException], None] | None = None,
    limit: Limit | None = None,
) -> Job[T]:
    """Run ``main`` on the engine's loop, in the context of the caller, and hand the job back at once: see `prepare`."""
    job = prepare(main, enter=enter, waited=waited, over=over, limit=limit)
    job.begin()
    return job


def prepare(
    main: Callable[[Host], Awaitable[T]],
    *,
    enter: Callable[[], None] | None = None,
    waited: bool = True,
    over: Callable[[tuple[T] | BaseException], None] | None = None,
    limit: Limit | None = None,
) -> Job[T]:
    """A job that runs ``main`` once it is begun. Whoever holds it first can cancel it whatever happens meanwhile.

    ``enter`` is called first in the run's own context and before each call in a worker thread. ``waited``: a thread
    will call `Job.wait`, and what belongs on the waiting thread is kept for it; otherwise it runs by itself. ``over``:
    told of the end, on some thread, before anybody who waits is. ``limit``: when it is ended from outside, where it
    does not end by itself; None: never.
    """
    if waited:
        _refuse_on_a_loop()
    return Job(main, enter, waited, over, limit)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _refuse_on_a_loop() -> None:
    if on_an_engine_loop():
        message = "a run cannot be waited for on the loop that drives runs: use `await agf.arun(...)`"
        raise RuntimeError(message)
