"""`OpenCalls`, the started calls of a fan-out on workers: waits for their ends, and stops them."""

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
    """One attempt of an element: the call and its place in the fan-out."""

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
    """The number of the element."""
    attempt: int
    site: CallSite[Any]
    record: StartedCall | None
    """The call for the journal; None: the run has no journal."""
    task: asyncio.Task[None] | None
    """The task that awaits the result, or stops the call; None: there is none."""
    stopped_by: asyncio.CancelledError | None
    """The cancellation of `task`; None: it was not cancelled."""
    prints: StepPrints | None
    """The prints of the call; None: the run is not watched."""

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
            self.prints = StepPrints(site.run, loop, site.path)
            # Set in the context of the call, because a chunk has many calls with separate prints.
            context.run(printing.set, self.prints)

    def close(self) -> None:
        """Emit the remaining prints before the end of the call. A call that is left running emits
        nothing more."""
        if self.prints is not None:
            self.prints.close()


class OpenCalls:
    """The open calls of one fan-out. All methods run on the loop."""

    def __init__(
        self,
        runner: Runner,
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context,
    ) -> None:
        """``context``: the context for the tasks that await results."""
        self.runner = runner
        self.host = runner.host
        self.loop = loop
        self.context = context
        self.open: dict[Element, None] = {}
        """The elements that have started and not ended, in order. Each takes one slot."""
        self.ended: list[Element] = []
        """The open elements whose calls have ended."""
        self._woken: asyncio.Future[None] | None = None
        """The future that `wait` awaits; None: it was never called."""

    async def wait(self) -> list[Element]:
        """Wait until calls have ended, and return their elements, at least one."""
        if not self.ended:
            self._woken = self.loop.create_future()
            await self._woken
        return self.take_ended()

    def take_ended(self) -> list[Element]:
        """The elements whose calls have ended since the last time."""
        # A new list, because a report may come while the batch is journaled.
        batch = self.ended
        self.ended = []
        return batch

    def wake(self) -> None:
        """End the wait: `ended` may have elements."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def finish(self, element: Element) -> None:
        """Finish, in a separate task, a call that was interrupted or whose value must be
        awaited."""

        async def ended() -> None:
            try:
                printing.set(element.prints)
                result = await self.host.finish_call(element)
            except asyncio.CancelledError as stop:
                # Stored for `_cancel_one`: a StillRunning tells what is left running.
                element.stopped_by = stop
                result = (False, stop)
            except Exception as error:  # otherwise the fan-out would wait for ever
                result = False, error
            element.result = result
            element.task = None
            self.ended.append(element)
            self.wake()

        element.task = self.loop.create_task(ended(), context=self.context.copy())

    # --- cancellation ---

    async def cancel(self) -> None:
        """Stop all open calls, and wait for them during their grace."""
        # All are stopped at the same time, so that each has the whole grace. A second cancellation,
        # which the group passes on, ends the grace, but each call still reports its end.
        async with asyncio.TaskGroup() as group:
            for element in list(self.open):
                group.create_task(self._cancel_one(element))

    async def _cancel_one(self, element: Element) -> None:
        """Stop the call of ``element``, and report its end."""
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
        # The end may have been handled while the call was being stopped.
        self.open.pop(element, None)
        element.close()
        with contextlib.suppress(asyncio.CancelledError):
            self.runner.fail_step(error or asyncio.CancelledError(), element.site)
