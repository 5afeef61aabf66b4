"""What a run borrows: the places where user code runs, and how it is stopped there.

Three places. The engine's own loop; the thread that waits for the run, where a blocking function can be interrupted
and sqlite, matplotlib and ``breakpoint()`` behave; worker threads. `Host.call` is the way to all of them and never
raises what user code raised. A `Job` is a run being driven from a thread that is not its loop's.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from queue import SimpleQueue
from typing import Any, Generic, Literal, TypeVar

from .calls import Result, StillRunning, TimedOut, awaited, cross, is_awaitable
from .events import Question
from .loop import EngineLoop, on_an_engine_loop
from .threads import Call, Workers
from .threads import here as on_this_thread
from .waiting import POLL, Waiter, waiters, woken_by_signals

__all__ = ["EngineLoop", "Host", "Job", "Place", "Result", "StillRunning", "TimedOut", "here", "start"]

Place = Literal["loop", "kernel", "worker"]
"""The engine's loop, the thread that waits for the run, a worker thread."""

T = TypeVar("T")

TURN = 0.01
"""Seconds after which a chain of calls that never wait gives the loop a turn: timers and cancels live on it."""

REPEAT = 0.1
"""Seconds after which a call that was told to stop is told again."""

UNANSWERED = 2.0
"""Seconds a cancel may go unanswered before the loop is looked at."""


class Nobody(Exception):
    """A question that nobody is there to answer: what an asker raises."""


Asker = Callable[[Question], Any]
"""Puts a question to a person and gives the answer: a bool for an approval, else a text. Called as
``asker(question=…)``; may be async."""


class Host:
    """The places one run borrows."""

    def __init__(
        self,
        calls: SimpleQueue[Call | None] | None = None,
        enter: Callable[[], None] | None = None,
        grace: float = 2.0,
    ) -> None:
        self.grace = grace
        """Seconds that user code has to stop, once told, before it is left behind."""
        self._calls = calls
        self._enter = enter
        self.turned = time.monotonic()
        """When the loop last had a turn."""
        self.asker: Asker | None = None
        """Who puts a question to a person; None: nobody is there."""
        self._asking = asyncio.Lock()

    @property
    def waited(self) -> bool:
        """Whether a thread waits for the run; without one, ``kernel`` is the loop, between two turns."""
        return self._calls is not None

    async def call(
        self, place: Place, function: Callable[..., Any], given: Mapping[str, Any], timeout: float | None = None
    ) -> Result:
        """Call ``function(**given)`` there and await what it returns, if that can be awaited: on the loop.

        ``timeout`` seconds later the result is a `TimedOut`. Raises CancelledError when the task is cancelled, a
        `StillRunning` when the call could not be stopped.
        """
        if place == "worker" or (place == "kernel" and self._calls is not None):
            return await self._elsewhere(place, function, given, timeout)
        if place == "kernel" or time.monotonic() - self.turned > TURN:
            await self.turn()
        if timeout is not None:
            return await self._inline_in_time(function, given, timeout)
        result = cross(function, given)
        if result[0] and is_awaitable(result[1]):
            return await awaited(result[1], self.grace)
        return result

    async def ask(self, question: Question) -> Result:
        """Put it to a person, one question at a time: on the thread that waits for the run, where `input` works.

        A result that is no success is a `Nobody` where nobody is there to answer.
        """
        if self.asker is None:
            return False, Nobody("nobody is there to answer")
        async with self._asking:
            asker = self.asker
            place: Place = "loop" if asyncio.iscoroutinefunction(asker) else "kernel" if self.waited else "worker"
            ok, answer = await self.call(place, asker, {"question": question})
        if not ok and isinstance(answer, EOFError):
            return False, Nobody("nobody is there to answer")
        return ok, answer

    async def turn(self) -> None:
        """Let the loop do what else is due."""
        await asyncio.sleep(0)
        self.turned = time.monotonic()

    async def _inline_in_time(self, function: Callable[..., Any], given: Mapping[str, Any], timeout: float) -> Result:
        deadline = asyncio.get_running_loop().time() + timeout
        result = cross(function, given)
        return await self._awaited_in_time(result, timeout, deadline)

    async def _awaited_in_time(self, result: Result, timeout: float, deadline: float) -> Result:
        expired = asyncio.get_running_loop().time() > deadline
        if result[0] and is_awaitable(result[1]):
            try:
                async with asyncio.timeout_at(deadline) as scope:
                    result = await awaited(result[1], self.grace)
            except TimeoutError:
                pass  # what the tool raised came back as a value: this is the scope's
            expired = scope.expired()
        return (False, TimedOut(timeout)) if expired else result

    async def _elsewhere(
        self, place: Place, function: Callable[..., Any], given: Mapping[str, Any], timeout: float | None
    ) -> Result:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (timeout or 0)
        call = Call(function, given, loop, self._enter if place == "worker" else None)
        cancelled = False
        try:
            self._hand(place, call)
        except RuntimeError as error:  # no thread left
            return False, error
        try:
            if timeout is None:
                await call.ended
            else:
                await asyncio.wait((call.ended,), timeout=timeout)
            if call.interrupted:
                await asyncio.sleep(self.grace)  # the person's interrupt also cancels the run: here it comes
        except asyncio.CancelledError:
            cancelled = True
        if cancelled or call.result is None:
            left, again = await self._stop(call)
            if cancelled or again:
                raise StillRunning(left) if left else asyncio.CancelledError
            assert timeout is not None
            return False, TimedOut(timeout, left)
        if timeout is not None:
            return await self._awaited_in_time(call.result, timeout, deadline)
        if call.result[0] and is_awaitable(call.result[1]):
            return await awaited(call.result[1], self.grace)
        return call.result

    def _hand(self, place: Place, call: Call) -> None:
        if place == "worker":
            Workers.shared().hand(call)
        else:
            assert self._calls is not None
            self._calls.put(call)

    async def _stop(self, call: Call) -> tuple[str | None, bool]:
        """Stop it and give it the grace to end. What is left running, and whether we were cancelled meanwhile."""
        if call.result is not None or call.take():
            return None, False
        loop = asyncio.get_running_loop()
        call.ended = loop.create_future()
        until = loop.time() + self.grace
        again = False
        try:
            while call.result is None:
                call.stop()
                await asyncio.wait((call.ended,), timeout=min(REPEAT, until - loop.time()))
                if loop.time() >= until:
                    break
        except asyncio.CancelledError:
            again = True
        if call.result is not None:
            return None, again
        held = "" if call.waiter is None else ", and the thread that waits for the run cannot leave it"
        return f"left running: {call.name}{held}", again


class Job(Generic[T]):
    """A run on the engine's loop, driven from another thread."""

    def __init__(
        self,
        main: Callable[[Host], Awaitable[T]],
        enter: Callable[[], None] | None,
        waited: bool,
        over: Callable[[tuple[T] | BaseException], None] | None,
    ) -> None:
        self.reason: str | None = None
        """Why it was cancelled; None if it was not."""
        self._over = over
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._host = Host(self._calls if waited else None, enter)
        self._ended = threading.Event()
        self._outcome: tuple[T] | BaseException = asyncio.CancelledError()
        self._lock = threading.Lock()
        self._heard: list[Callable[[], object]] = []
        self._asked: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._engine = EngineLoop.current()
        self._engine.loop.call_soon_threadsafe(self._begin, main, enter)  # in the context of the cell that starts it

    @property
    def done(self) -> bool:
        return self._ended.is_set()

    def cancel(self, reason: str) -> None:
        """Ask it to stop, from any thread. Only the first time counts: a second cancel would hit its clean-up."""
        if self._asked is None and not self.done:
            self._asked = time.monotonic()
            self.reason = reason
            self._engine.loop.call_soon_threadsafe(self._cancel)

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
                loop.call_soon_threadsafe(lambda: told.done() or told.set_result(None))

        self._heard.append(tell)
        try:
            while not self.done:
                await asyncio.wait((told,), timeout=UNANSWERED)
                self.look()
        finally:
            self._heard.remove(tell)

    def look(self) -> None:
        """Leave a loop that is blocked: it will answer no cancel. For whoever waits, every now and then."""
        if self._asked is None or time.monotonic() - self._asked < UNANSWERED or not self._engine.stuck():
            return
        self._finish(StillRunning(f"left running: blocked in {self._engine.blocked_in()}"))
        self._engine.abandon()

    def _begin(self, main: Callable[[Host], Awaitable[T]], enter: Callable[[], None] | None) -> None:
        self._engine.jobs.add(self)
        self._task = self._engine.loop.create_task(self._run(main, enter))
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
        self._calls.put(None)
        for tell in list(self._heard):
            tell()

    def _cancel(self) -> None:
        assert self._task is not None
        self._task.cancel()


def start(
    main: Callable[[Host], Awaitable[T]],
    *,
    enter: Callable[[], None] | None = None,
    waited: bool = True,
    over: Callable[[tuple[T] | BaseException], None] | None = None,
) -> Job[T]:
    """Run ``main`` on the engine's loop, in the context of the caller, and hand the job back at once.

    ``enter`` is called first in the run's own context and before each call in a worker thread. ``waited``: a thread
    will call `Job.wait`, and what belongs on the waiting thread is kept for it; otherwise it runs by itself. ``over``:
    told of the end, on some thread, before anybody who waits is.
    """
    if waited:
        _refuse_on_a_loop()
    return Job(main, enter, waited, over)


async def here(main: Callable[[Host], Awaitable[T]]) -> T:
    """Run ``main`` on the loop that is running. Whoever cancels the task that awaits this cancels the run."""
    with woken_by_signals(asyncio.get_running_loop()):
        return await main(Host())


def _refuse_on_a_loop() -> None:
    if on_an_engine_loop():
        message = "a run cannot be waited for on the loop that drives runs: use `await agf.arun(...)`"
        raise RuntimeError(message)
