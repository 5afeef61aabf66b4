"""One attempt of an element of a fan-out over a plain function, as a call.

The calls of a fan-out on threads that have started and not ended: the wait for their ends, their
time limit, and how they are stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..flow.values import Value
from ..journal.call_rows import StartedCall
from .runner import NEVER, CallSite, Runner, StepPrints, clock
from .threads import Call
from .user_code import Result, printing


class Element(Call):
    """One attempt of an element: its call and where it belongs."""

    __slots__ = (
        "announce",
        "announced",
        "attempt",
        "closed",
        "deadline",
        "i",
        "prints",
        "record",
        "site",
        "stopped_by",
        "task",
    )

    i: int
    attempt: int
    site: CallSite[Any]
    announced: bool
    """Whether its StepStarted was emitted."""
    record: StartedCall | None
    task: asyncio.Task[None] | None
    """Awaits what the function returned, or stops it."""
    stopped_by: asyncio.CancelledError | None
    """How `task` was cancelled."""
    prints: StepPrints | None
    """None: it has printed nothing yet."""
    deadline: float
    """The loop's time at which its time is over."""

    def __init__(
        self,
        site: CallSite[Any],
        function: Callable[..., Any],
        arguments: dict[str, Value],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context,
        announce: Callable[[Element], None],
    ) -> None:
        """``announce`` emits its StepStarted, if that has not been done."""
        site.run.host.admit()
        super().__init__(function, arguments, loop, context)
        self.site, self.announce = site, announce
        self.prints = self.task = self.stopped_by = None
        self.closed, self.deadline = False, 0.0
        if site.run.stream:
            # In the context of the call: the threads of the pool make many calls, and this one's
            # prints are its own.
            context.run(printing.set, self)

    def print_here(self) -> None:
        """Let the present task print for it."""
        if self.site.run.stream:
            printing.set(self)

    def add(self, text: str) -> None:
        """Emit what it prints, on any thread."""
        if self.prints is None:
            prints = StepPrints(self.site.run, self.loop, lambda: self.announce(self))
            prints.at = self.site.at
            self.prints = prints
            # The pool may have closed it on the loop while this thread was on its way here.
            if self.closed:
                prints.at = NEVER
        self.prints.add(text)

    def close(self) -> None:
        """Emit the rest of what it printed, before its end. A call that is left running emits
        nothing more."""
        self.closed = True  # first: its thread may print at this moment
        if self.prints is not None:
            self.prints.close()


class OpenCalls:
    """The open calls of one fan-out. Everything here runs on the loop."""

    def __init__(
        self,
        runner: Runner,
        timeout: float | None,
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context,
    ) -> None:
        """``timeout``: the longest time of one call in seconds; None: no limit, or the worker
        applies it. ``context``: for the tasks of calls that must be awaited."""
        self.runner, self.host, self.timeout, self.loop, self.context = (
            runner,
            runner.host,
            timeout,
            loop,
            context,
        )
        self.open: dict[Element, None] = {}
        """The elements that have started and not ended, in this order: one for each slot that is
        taken."""
        self.ended: list[Element] = []
        """Those of them whose calls have ended."""
        self._woken: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self) -> list[Element]:
        """The elements whose calls have ended since the last time; at least one."""
        if not self.ended:
            self._woken = self.loop.create_future()
            await self._woken
        # A new list: a report may come while the batch is journaled.
        batch, self.ended = self.ended, []
        return batch

    def wake(self) -> None:
        """End the wait: `ended` may have elements."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def announce(self, element: Element) -> None:
        """Emit the start of an element whose call has started, once."""
        # `open` no longer has one that was taken back: it starts again later, under the same path.
        if not element.announced and element in self.open:
            element.announced = True
            # When its thread began it, which is before this turn of the loop.
            when = element.began if element.began is not None else clock()
            element.site.row = self.runner.steps.start(element.site.at, when, element.attempt)

    def finish(self, element: Element) -> None:
        """End a call that has returned too late, was interrupted, or whose value must be
        awaited."""
        self._end_in_task(
            element, lambda element: self.host.finish_call(element, self.timeout, element.deadline)
        )

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end_in_task(self, element: Element, end: Callable[[Element], Awaitable[Result]]) -> None:
        """End an element that needs to wait, in a task of its own."""

        async def ended() -> None:
            try:
                element.print_here()
                result: Result = await end(element)
            except asyncio.CancelledError as stop:
                # Kept for `_cancel_one`: a StillRunning says what is left running.
                element.stopped_by, result = stop, (False, stop)
            except Exception as error:  # the element fails, and the fan-out does not wait for ever
                result = False, error
            element.result, element.task = result, None
            self.ended.append(element)
            self.wake()

        element.task = self.loop.create_task(ended(), context=self.context.copy())

    # --- the time limit ---

    def limit_time(self, elements: Sequence[Element]) -> None:
        """The time of calls that are handed over now begins."""
        if self.timeout is not None:
            for element in elements:
                element.deadline = self.loop.time() + self.timeout
            self._set_timer()

    def is_late(self, element: Element) -> bool:
        """Whether the time of a call is over."""
        return self.timeout is not None and self.loop.time() > element.deadline

    def _set_timer(self) -> None:
        """Set the timer to the first deadline."""
        # They start in this order and have the same time, so the first one is due first.
        waits = (e for e in self.open if e.result is None and e.task is None)
        first, timer = next(waits, None), self._timer
        if first is not None and (
            timer is None or timer.cancelled() or timer.when() < self.loop.time()
        ):
            self._timer = self.loop.call_at(first.deadline, self._expire)

    def _expire(self) -> None:
        timeout, now = self.timeout, self.loop.time()
        assert timeout is not None
        for element in self.open:
            if element.result is None and element.task is None and element.deadline <= now:
                self._end_in_task(
                    element, lambda element: self.host.end_late_call(element, timeout)
                )
        self._timer = None
        self._set_timer()

    # --- cancellation ---

    async def cancel(self) -> None:
        """Stop all open calls, and wait for them as long as they have to stop."""
        for element in [
            element for element in self.open if not element.announced and element.take()
        ]:
            del self.open[element]  # its call never began
            self.runner.calls -= 1
        for element in self.open:
            self.announce(element)
        # All at the same time: each has the whole grace.
        stops = [self.loop.create_task(self._cancel_one(element)) for element in list(self.open)]
        cancelled = False
        while stops and not all(stop.done() for stop in stops):
            try:
                await asyncio.wait(stops)
            # A second cancellation ends the grace of the calls, but each still reports its end.
            except asyncio.CancelledError:
                cancelled = True
                for stop in stops:
                    stop.cancel()
        if cancelled:
            raise asyncio.CancelledError

    async def _cancel_one(self, element: Element) -> None:
        error: BaseException | None = None
        if element.task is not None:
            task = element.task
            task.cancel()
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError:
                task.cancel()
            error = element.stopped_by
        else:
            error = await self.host.cancel_call(element)
        # Perhaps gone: its end was handled while it was being stopped.
        self.open.pop(element, None)
        element.close()
        with contextlib.suppress(asyncio.CancelledError):
            self.runner.fail_step(error or asyncio.CancelledError(), element.site)
