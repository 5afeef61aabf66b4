"""What a run borrows: the places where user code runs, and how it is stopped there.

Three places. The engine's own loop; the thread that waits for the run, where a blocking function can be interrupted
and sqlite, matplotlib and ``breakpoint()`` behave; worker threads. `Host.begin` is the way to all of them and never
raises what user code raised.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from queue import SimpleQueue
from typing import Any, Literal, TypeVar

from ..progress.events import Question
from .calls import Pending, Result, StillRunning, TimedOut, awaited, cross, is_awaitable, resolve
from .interrupts import woken_by_signals
from .threads import Call, Workers

__all__ = ["Asker", "Host", "Nobody", "Place", "Result", "StillRunning", "TimedOut", "here"]

Place = Literal["loop", "kernel", "worker"]
"""The engine's loop, the thread that waits for the run, a worker thread."""

T = TypeVar("T")

TURN = 0.01
"""Seconds after which a chain of calls that never wait gives the loop a turn: timers and cancels live on it."""

NEVER = float("-inf")
"""When the loop last had a turn, for a run that must look before its next step."""

REPEAT = 0.1
"""Seconds after which a call that was told to stop is told again."""

FORCE = 1.0
"""Seconds in which a call that holds the waiting thread, and did not stop within the grace, is interrupted by force."""


class Nobody(Exception):
    """A question that nobody is there to answer: what an asker raises."""


Asker = Callable[[Question], Any]
"""Puts a question to a person and gives the answer: a bool for an approval, else a text. Called as
``asker(question)``, whatever it calls its parameter; may be async."""


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
        self._stopped = self._late = False
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
        """`begin`, after the loop has had a turn where one is due, and to its end."""
        if place == "loop" and time.monotonic() - self.turned > TURN:
            await self.turn()
        return await resolve(self.begin(place, function, given, timeout))

    def begin(
        self, place: Place, function: Callable[..., Any], given: Mapping[str, Any], timeout: float | None = None
    ) -> Result | Pending[Result]:
        """Call ``function(**given)`` there and await what it returns, if that can be awaited: on the loop.

        ``timeout`` seconds later the result is a `TimedOut`. Raises CancelledError when the task is cancelled, a
        `StillRunning` when the call could not be stopped.
        """
        if place == "loop":
            if timeout is None:
                return awaited(cross(function, given), self.grace)
            return Pending(self._inline_in_time(function, given, timeout))
        if place == "worker" or self._calls is not None:
            return Pending(self._elsewhere(place, function, given, timeout))
        return Pending(self._between_turns(function, given, timeout))

    async def ask(self, question: Question) -> Result:
        """Put it to a person, one question at a time: on the thread that waits for the run, where `input` works.

        A result that is no success is a `Nobody` where nobody is there to answer.
        """
        if self.asker is None:
            return False, Nobody("nobody is there to answer")
        async with self._asking:
            asker = self.asker
            place: Place = "loop" if asyncio.iscoroutinefunction(asker) else "kernel" if self.waited else "worker"
            ok, answer = await self.call(place, partial(asker, question), {})
        if not ok and isinstance(answer, EOFError):
            return False, Nobody("nobody is there to answer")
        return ok, answer

    def stop(self, late: bool = False) -> None:
        """The run is to end: no further step starts, also where a tool took back the cancel of its task.

        ``late``: its time is over. A call that does not stop is then forced to; a person's cancel lets it clean up, and
        the person may interrupt again.
        """
        self._stopped, self._late = True, late or self._late
        self.turned = NEVER

    async def turn(self) -> None:
        """Let the loop do what else is due. Raises CancelledError after `stop`."""
        await asyncio.sleep(0)
        if self._stopped:
            raise asyncio.CancelledError
        await asyncio.sleep(0)  # a timer that is due is only called after the tasks that are ready
        if self._stopped:
            raise asyncio.CancelledError
        self.turned = time.monotonic()

    async def _between_turns(
        self, function: Callable[..., Any], given: Mapping[str, Any], timeout: float | None
    ) -> Result:
        await self.turn()
        return await resolve(self.begin("loop", function, given, timeout))

    async def _inline_in_time(self, function: Callable[..., Any], given: Mapping[str, Any], timeout: float) -> Result:
        deadline = asyncio.get_running_loop().time() + timeout
        result = cross(function, given)
        return await self._awaited_in_time(result, timeout, deadline)

    async def _awaited_in_time(self, result: Result, timeout: float, deadline: float) -> Result:
        expired = asyncio.get_running_loop().time() > deadline
        if result[0] and is_awaitable(result[1]):
            try:
                async with asyncio.timeout_at(deadline) as scope:
                    result = await resolve(awaited(result, self.grace))
            except TimeoutError:
                pass  # what the tool raised came back as a value: this is the scope's
            # A coroutine that blocked instead of waiting gave its timer no turn.
            expired = scope.expired() or asyncio.get_running_loop().time() > deadline
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
            left, again = await self._stop(call, force=not cancelled or self._late)
            if cancelled or again:
                raise StillRunning(left) if left else asyncio.CancelledError
            assert timeout is not None
            return False, TimedOut(timeout, left)
        if timeout is not None:
            return await self._awaited_in_time(call.result, timeout, deadline)
        return await resolve(awaited(call.result, self.grace))

    def _hand(self, place: Place, call: Call) -> None:
        if place == "worker":
            Workers.shared().hand(call)
        else:
            assert self._calls is not None
            self._calls.put(call)

    async def _stop(self, call: Call, force: bool) -> tuple[str | None, bool]:
        """Stop it and give it the grace to end, then ``force`` it. What is left running, and whether we were
        cancelled meanwhile."""
        if call.result is not None or call.take():
            return None, False
        loop = asyncio.get_running_loop()
        call.ended = loop.create_future()
        again = False
        try:
            await self._tell(call, call.stop, self.grace)
            if force and call.result is None and call.waiter is not None:
                await self._tell(call, call.force, FORCE)
        except asyncio.CancelledError:
            again = True
        if call.result is not None:
            return None, again
        held = "" if call.waiter is None else ", and the thread that waits for the run cannot leave it"
        return f"left running: {call.name}{held}", again

    async def _tell(self, call: Call, stop: Callable[[], None], seconds: float) -> None:
        """Call ``stop`` again and again until ``call`` ends or ``seconds`` are over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while call.result is None:
            stop()
            await asyncio.wait((call.ended,), timeout=min(REPEAT, until - loop.time()))
            if loop.time() >= until:
                break


async def here(main: Callable[[Host], Awaitable[T]]) -> T:
    """Run ``main`` on the loop that is running. Whoever cancels the task that awaits this cancels the run."""
    with woken_by_signals(asyncio.get_running_loop()):
        return await main(Host())
