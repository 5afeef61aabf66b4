"""`Host`, which runs the calls of user code in four places and stops them there.

The places are the engine's loop; the thread that waits for the run, where a blocking function can
be interrupted and sqlite, matplotlib and ``pdb.set_trace()`` work; other threads; and workers,
which are other processes. `Host.make_call` returns the exceptions of user code and never raises
them.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from ...catalog import Where as Place
from ...compat.browser import IN_BROWSER
from ...flow.progress.question import Question
from ...values.value import is_awaitable
from ..threads.call_threads import CallThreads, ThreadCall
from ..threads.prints import Streams
from ..threads.user_code import (
    Arrived,
    LeftRunning,
    Result,
    StillRunning,
    TimedOut,
    await_result,
    call_here,
)
from .deadline import FORCE, NO_MOMENT, in_time, time_limits
from .remote_calls import RemoteCalls, Terms

__all__ = ["Asker", "Host", "NoUser"]


TURN = 0.01
"""The seconds after which steps that never wait give the loop a turn, for its timers and
cancellations."""


REPEAT = 0.1
"""The seconds after which a call that was asked to stop is asked again."""


class NoUser(Exception):
    """An asker raises this error if there is no user to answer a question."""


Asker = Callable[[Question], Any]
"""Puts a question to a person and returns the answer: a bool for an approval, otherwise a text. It
is called as ``asker(question)`` and may be async."""


class Host:
    """The places where the calls of one run are made."""

    def __init__(
        self,
        calls: SimpleQueue[ThreadCall | None] | None = None,
        grace: float = 2.0,
        *,
        in_background: bool = False,
    ) -> None:
        """``in_background``: whether other code of the person runs beside the run."""
        self.grace = grace
        """The seconds in which user code must stop before it is left running."""
        self._calls = calls
        self._released = threading.Event()
        """Set when no thread waits for the run any more, also for the host of `apart`."""
        self._streams = Streams(in_background)
        self.turned = time.monotonic()
        """The time of the loop's last turn."""
        self._stopped = False
        """Whether no further step may start."""
        self._late = False
        """Whether the time of the run is over."""
        self.asker: Asker | None = None
        """Puts questions to a person; None: there is no user."""
        self._asking = asyncio.Lock()
        self._turn: asyncio.Task[Any] | None = None
        """The task that keeps the turn to ask after its question was answered."""
        self._questions = 0
        """The number of open questions."""
        self._asked_at = 0.0
        """When the first of the open questions was asked, by the monotonic clock."""
        self._answered_in = 0.0
        """The seconds in which questions were open, without the questions that are open now."""
        self._lock = threading.Lock()
        self.queue: RemoteCalls | None = None
        """The calls that workers make; None: the run has no workers."""

    @property
    def waited(self) -> bool:
        """Whether a thread waits for the run. If not, the place ``kernel`` means the loop between two
        turns."""
        return self._calls is not None and not self._released.is_set()

    async def call(
        self,
        place: Place,
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        timeout: float | None = None,
    ) -> Result:
        """`make_call`, after a turn of the loop if a turn is due. It is for the engine's own calls:
        a question, a file, a sequence."""
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
        before: Callable[[], None] | None = None,
    ) -> Result:
        """Call ``function(**arguments)`` in ``place``. An awaitable result is awaited on the loop.
        ``timeout``: in seconds; None: no limit. ``terms``: the terms of a call on a worker.
        ``before``: called on the loop before the call, within its time limit.

        After ``timeout`` seconds the result is a `TimedOut`. Raises CancelledError if the task is
        cancelled, and `StillRunning` if the call could not be stopped.
        """
        if place == "worker":  # the worker counts the time of the call
            terms = terms or Terms(timeout)
            return await self._elsewhere(place, function, arguments, None, before, terms)
        if not IN_BROWSER and place == "kernel" and self._calls is not None:
            return await self._elsewhere(place, function, arguments, timeout, before)
        if not IN_BROWSER and place == "thread":
            with self._streams():
                return await self._elsewhere(place, function, arguments, timeout, before)
        if place == "kernel":  # between two turns
            await self.turn()
        return await in_time(partial(self._here, function, arguments, before), timeout, timeout)

    async def _here(
        self,
        function: Callable[..., Any],
        arguments: Mapping[str, Any],
        before: Callable[[], None] | None,
    ) -> Result:
        """`make_call` in this task."""
        if before is not None:
            before()
        # Copied inside the time limit of the call, so that the context has it. A copy here, too: a
        # step must not see the variables that the one before it has set.
        context = copy_context()
        return await call_here(function, arguments, self.grace, context)

    async def ask(self, question: Question, is_busy: bool = False) -> Result:
        """Put a question to a person, one at a time: on the thread that waits for the run, where
        `input` works.

        ``is_busy``: whether that thread makes the asking call, so that another thread must ask.
        Without a user the result is a failure, a `NoUser`. The time limits around the question
        pause until its answer.
        """
        if self.asker is None:
            return False, NoUser("there is no user to answer")
        # A person may think for an hour, which no limit of the run, the flow or the step counts.
        limits = time_limits.get()
        for limit in limits:
            limit.pause()
        try:
            # Only one question at a time, because `input` of two threads would share one line.
            async with self._turn_for(question):
                asker = self.asker
                place: Place = "thread"
                if asyncio.iscoroutinefunction(asker):
                    place = "loop"
                elif self.waited and not is_busy:
                    place = "kernel"
                ok, answer = await self.call(place, partial(asker, question), {})
        finally:
            for limit in limits:
                limit.resume()
        # A kernel without a frontend ends `input` in this way.
        if not ok and isinstance(answer, EOFError):
            return False, NoUser("there is no user to answer")
        return ok, answer

    @contextlib.asynccontextmanager
    async def _turn_for(self, question: Question) -> AsyncIterator[None]:
        """The block in which no other question is asked. After a question whose answer may replace the
        call, its task keeps the turn until `end_turn`: if the answer cannot be used, it asks again, and
        no other question may come into the place where the person types the correction."""
        task = asyncio.current_task()
        if self._turn is not task:
            await self._asking.acquire()
        self._turn = task if question.result else None
        try:
            yield
        except BaseException:
            self._turn = None
            raise
        finally:
            if self._turn is None:
                self._asking.release()

    def end_turn(self) -> None:
        """Let others ask, if the current task has kept the turn."""
        if self._turn is not None and self._turn is asyncio.current_task():
            self._turn = None
            self._asking.release()

    def pause(self) -> None:
        """Note that a question was asked in this run, or in a run that one of its tools started."""
        with self._lock:
            if not self._questions:
                self._asked_at = time.monotonic()
            self._questions += 1

    def resume(self) -> None:
        """Note that such a question was answered."""
        with self._lock:
            self._questions -= 1
            if not self._questions:
                self._answered_in += time.monotonic() - self._asked_at

    @property
    def seconds_asking(self) -> float:
        """The seconds in which questions were open, by the monotonic clock."""
        with self._lock:
            open_for = time.monotonic() - self._asked_at if self._questions else 0.0
            return self._answered_in + open_for

    def make_soon(self, call: ThreadCall) -> None:
        """Queue ``call`` for the thread that waits for the run."""
        assert self._calls is not None, "a thread waits for the run"
        self._calls.put(call)

    def release_thread(self) -> None:
        """Note that the run has ended, so that no thread waits for it any more. Its background calls go
        on, and other threads put their questions."""
        self._released.set()
        while self._calls is not None:
            try:
                call = self._calls.get_nowait()
            except Empty:
                return
            if call is not None:
                try:
                    CallThreads.shared().hand(call)
                except RuntimeError as error:  # no thread can be started
                    call.tell((False, error))

    def apart(self) -> Host:
        """These places for calls that the end of the run does not stop (decision C4)."""
        host = copy.copy(self)
        host._stopped = host._late = False
        return host

    def stop(self, late: bool = False) -> None:
        """Start no further step, even if a tool undoes the cancellation of its task.

        ``late``: whether the time of the run is over, so that a call that does not stop is forced
        to stop. After a person's cancellation a call may clean up, and the person may interrupt
        again.
        """
        self._stopped = True
        # Once set, it stays, because a person may cancel after the time of the run is over.
        self._late = late or self._late
        # The next step takes a turn, which raises. A tool can swallow the cancellation of its task
        # with `uncancel`, but not this error.
        self.turned = NO_MOMENT

    async def turn(self) -> None:
        """Let the loop run its other tasks and timers. Raises CancelledError after `stop`."""
        # Twice, because a due timer is called only after the ready tasks.
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
        before: Callable[[], None] | None,
        terms: Terms | None = None,
    ) -> Result:
        """`make_call` for a place other than this task. ``terms``: the terms of a call on a
        worker."""
        call: ThreadCall | None = None

        async def ended() -> Result:
            nonlocal call
            if before is not None:
                before()
            # Created inside the time limit of the call, so that the call's context has the limit,
            # and its questions pause it.
            call = ThreadCall(function, arguments, asyncio.get_running_loop())
            return await self._handed(call, place, terms, timeout)

        result: Result | None = None
        try:
            result = await in_time(ended, timeout, timeout)
        except asyncio.CancelledError:
            if call is None or call.result is not None:
                raise _cancelled(call) from None
        assert call is not None, "it is made before anything waits"
        # Outside of `except`, because stopping the call awaits and its error must have no cause.
        if result is None:
            raise await self.cancel_call(call)
        if timeout is None or not isinstance(result[1], TimedOut):
            return result
        return await self.end_late_call(call, timeout, result[1])

    async def _handed(
        self, call: ThreadCall, place: Place, terms: Terms | None, timeout: float | None
    ) -> Result:
        """Pass ``call`` on, and wait for its end."""
        # It must exist first, because the call may end before `_hand` returns.
        call.ended = ended = call.loop.create_future()
        try:
            self._hand(call, place, terms)
        except RuntimeError as error:  # no thread can be started
            return False, error
        if timeout is None:
            await ended
        else:
            # The limit would cancel the awaited future itself. The call goes on until it is stopped
            # in `_elsewhere`, where it reports its end.
            await asyncio.wait((ended,))
        return await self.finish_call(call)

    def _hand(self, call: ThreadCall, place: Place, terms: Terms | None) -> None:
        """Pass ``call`` to the thread or the workers of ``place``. Raises RuntimeError if no thread
        can be started."""
        if terms is not None:
            assert self.queue is not None, "only a run with workers has this place"
            self.queue.hand(call, terms)
        elif place == "thread" or self._calls is None:
            CallThreads.shared().hand(call)
        else:
            self._calls.put(call)

    async def cancel_call(self, call: ThreadCall) -> asyncio.CancelledError:
        """Stop a call whose step is cancelled. Returns the error of the step: `StillRunning` if the
        call did not stop, `Arrived` if it ended by itself."""
        left_running, _ = await self._stop(call, force=self._late)
        return _still_running(call, left_running) if left_running else _cancelled(call)

    async def end_late_call(self, call: ThreadCall, timeout: float, late: TimedOut) -> Result:
        """Stop a call that has exceeded ``timeout`` seconds. Raises as `make_call` does if this
        task is cancelled. ``late``: the failure, if the call has ended all the same."""
        if call.result is not None:
            # It ended in the turn in which its time was over. `in_time` has what was awaited.
            if not is_awaitable(call.result[1]):
                late.late_result = _own_end(call)
            return False, late
        left_running, is_cancelled = await self._stop(call, force=True)
        if is_cancelled:
            raise _still_running(call, left_running) if left_running else _cancelled(call)
        late = TimedOut(timeout)
        if left_running:
            late = LeftRunning(timeout, left_running)
            late.when_ended = call.when_ended
        late.late_result = _own_end(call)
        return False, late

    async def finish_call(self, call: ThreadCall) -> Result:
        """The result of a call that has ended. An awaitable result is awaited."""
        if call.interrupted:
            # The interrupt of the person also cancels the run. The cancellation ends this wait.
            await asyncio.sleep(self.grace)
        assert call.result is not None
        return await await_result(call.result, self.grace, call.context)

    async def _stop(self, call: ThreadCall, force: bool) -> tuple[str | None, bool]:
        """Ask the call to stop, wait for the grace, then ``force`` it. Returns a text if it is left
        running, and whether this task was cancelled meanwhile."""
        # If the call is taken here first, no thread begins it.
        if call.result is not None or call.take():
            return None, False
        loop = asyncio.get_running_loop()
        # A new future, because the cancellation of this task has cancelled the awaited future.
        call.ended = loop.create_future()
        is_cancelled = False
        try:
            # Repeated, because a signal just before a call goes to sleep does not wake it.
            await self._repeat(call, call.stop, self.grace)
            # Only a call on a thread that signals reach can be forced. Other calls are left
            # running, and the error says so.
            if call.result is None and call.waiter is not None and (force or call.waiter.kills):
                await self._repeat(call, call.force, FORCE)
        except asyncio.CancelledError:
            is_cancelled = True
        if call.result is not None:
            return None, is_cancelled
        where = "" if call.waiter is None else call.waiter.where
        return f"left running: {call.name}{where}", is_cancelled

    async def _repeat(self, call: ThreadCall, stop: Callable[[], None], seconds: float) -> None:
        """Call ``stop`` every `REPEAT` seconds until ``call`` ends or ``seconds`` are over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while call.result is None:
            stop()
            assert call.ended is not None
            await asyncio.wait((call.ended,), timeout=min(REPEAT, until - loop.time()))
            if loop.time() >= until:
                break


def _still_running(call: ThreadCall, left_running: str) -> StillRunning:
    """The error of a cancelled step whose call is left running."""
    error = StillRunning(left_running)
    error.when_ended = call.when_ended
    return error


def _own_end(call: ThreadCall) -> Result | None:
    """The result of a call that ended by itself; None: it has no result, or something in it was told
    to stop, so that its value may be only a part."""
    if call.result is None or call.interrupted or call.interrupted_once or call.was_told:
        return None
    return None if is_awaitable(call.result[1]) else call.result


def _cancelled(call: ThreadCall | None) -> asyncio.CancelledError:
    """The error of a cancelled step: `Arrived` if its call has ended with a value by itself."""
    end = _own_end(call) if call is not None else None
    return Arrived(end) if end is not None and end[0] else asyncio.CancelledError()
