"""The calls of a fan-out on workers that have started and not ended: the wait for their ends, and how
they are stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable
from typing import Any

from ...journal.calls.started_call import StartedCall
from ...values.value import Value
from ..calls.step_prints import StepPrints
from ..runner import CallSite, Runner
from ..threads.call_threads import ThreadCall
from ..threads.prints import printing


class Element(ThreadCall):
    """One attempt of an element: its call and where it belongs."""

    __slots__ = (
        "attempt",
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
    record: StartedCall | None
    task: asyncio.Task[None] | None
    """Awaits what the function returned, or stops it."""
    stopped_by: asyncio.CancelledError | None
    """How `task` was cancelled."""
    prints: StepPrints | None
    """None: the run is not watched."""

    def __init__(
        self,
        site: CallSite[Any],
        function: Callable[..., Any],
        arguments: dict[str, Value],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context,
    ) -> None:
        super().__init__(function, arguments, loop, context)
        self.site = site
        self.prints = self.task = self.stopped_by = None
        if site.run.stream:
            self.prints = StepPrints(site.run, loop, site.at)
            # In the context of the call: a chunk has many calls, and this one's prints are its own.
            context.run(printing.set, self.prints)

    def close(self) -> None:
        """Emit the rest of what it printed, before its end. A call that is left running emits
        nothing more."""
        if self.prints is not None:
            self.prints.close()


class OpenCalls:
    """The open calls of one fan-out. Everything here runs on the loop."""

    def __init__(
        self,
        runner: Runner,
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context,
    ) -> None:
        """``context``: for the tasks of calls that must be awaited."""
        self.runner = runner
        self.host = runner.host
        self.loop = loop
        self.context = context
        self.open: dict[Element, None] = {}
        """The elements that have started and not ended, in this order: one for each slot that is
        taken."""
        self.ended: list[Element] = []
        """Those of them whose calls have ended."""
        self._woken: asyncio.Future[None] | None = None

    async def wait(self) -> list[Element]:
        """The elements whose calls have ended since the last time; at least one."""
        if not self.ended:
            self._woken = self.loop.create_future()
            await self._woken
        # A new list: a report may come while the batch is journaled.
        batch = self.ended
        self.ended = []
        return batch

    def wake(self) -> None:
        """End the wait: `ended` may have elements."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def finish(self, element: Element) -> None:
        """End a call that was interrupted, or whose value must be awaited, in a task of its own."""

        async def ended() -> None:
            try:
                printing.set(element.prints)
                result = await self.host.finish_call(element)
            except asyncio.CancelledError as stop:
                # Kept for `_cancel_one`: a StillRunning says what is left running.
                element.stopped_by = stop
                result = (False, stop)
            except Exception as error:  # the element fails, and the fan-out does not wait for ever
                result = False, error
            element.result = result
            element.task = None
            self.ended.append(element)
            self.wake()

        element.task = self.loop.create_task(ended(), context=self.context.copy())

    # --- cancellation ---

    async def cancel(self) -> None:
        """Stop all open calls, and wait for them as long as they have to stop."""
        # All at the same time: each has the whole grace. A second cancellation, which the group
        # passes on, ends the grace of the calls, but each still reports its end.
        async with asyncio.TaskGroup() as group:
            for element in list(self.open):
                group.create_task(self._cancel_one(element))

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
