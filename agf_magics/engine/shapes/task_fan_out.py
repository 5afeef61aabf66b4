"""Runs the parts of a fan-out as steps: a limited number of tasks take the parts from one iterator.

100,000 elements need ``limit`` tasks (0.1 µs and 40 bytes for each element), not 100,000 tasks that
wait for a semaphore (3.4 µs, 1,600 bytes).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from ...flow.graph_steps import Walk
from ...flow.step_path import StepPath
from ...flow.steps import Branches, Each
from ...text.diagnostics import StepError
from ...values.value import Value
from ..calls.step_prints import separate_prints
from ..host.host import TURN
from ..host.remote_calls import RemoteCalls
from ..runner import CallSite, StepResult, clock, is_rescuable
from .elements import Elements
from .fan_out_parts import FanOutParts
from .start_order import StartOrder


class TaskFanOut(FanOutParts):
    """Runs the parts as steps."""

    def __init__(
        self,
        site: CallSite[Each] | CallSite[Branches] | CallSite[Walk],
        start: Callable[[int, int], Awaitable[StepResult]],
        keep: Callable[[int, Value], None],
        path_of: Callable[[int], StepPath],
        items: Elements | None = None,
        queue: RemoteCalls | None = None,
    ) -> None:
        """``start(i, attempt)``: runs part ``i``. ``queue``: the workers, if they make all calls of
        the parts, so that as many parts run as the workers need; None: they do not."""
        super().__init__(site, keep, path_of, items)
        self.start, self.queue = start, queue
        self.active = 0
        """The number of running tasks of `_run_wide`."""

    async def run(self, order: StartOrder) -> dict[int, StepError]:
        await self._work(order.ended)
        if order.width <= 1:
            await self._work(order.rest)
        else:
            try:
                async with asyncio.TaskGroup() as group:
                    if self.queue is not None:
                        await self._run_wide(group, order, self.queue)
                    else:
                        for _ in range(order.width):
                            group.create_task(self._work(order.rest))
            except BaseExceptionGroup as several:
                self.failure = self.failure or several.exceptions[0]
            # Raised outside of `except`, because IPython prints a whole traceback for an error
            # whose context is a group.
            if self.failure is not None:
                raise self.failure
        self.warn_if_all_dropped(order.count)
        return self.failures

    async def _run_wide(
        self, group: asyncio.TaskGroup, order: StartOrder, queue: RemoteCalls
    ) -> None:
        """Run as many parts as the workers need. That number follows the size of their chunks."""
        ended, all_started = asyncio.Event(), False

        async def work() -> None:
            nonlocal all_started
            try:
                # Some more than wanted may go on, so that not each small change ends tasks.
                if await self._work(order.rest, lambda: self.active > 1.5 * queue.wanted_calls):
                    all_started = True
            finally:
                self.active -= 1
                if not self.active:
                    ended.set()

        def grow() -> None:
            most = min(queue.wanted_calls, order.count)
            while self.active < most and self.failure is None and not all_started:
                self.active += 1
                group.create_task(work())

        queue.listeners[grow] = None
        try:
            grow()
            await ended.wait()
        finally:
            del queue.listeners[grow]

    async def _work(
        self, numbers: Iterable[int], is_too_many: Callable[[], bool] | None = None
    ) -> bool:
        """Run parts until all have started, one has ended the fan-out, or ``is_too_many()``.
        Returns False in the last case, in which other parts may be left."""
        separate_prints(self.site.run)
        host = self.site.run.host
        for i in numbers:
            attempt = 1
            while True:
                if self.items is not None and not self.items.retain(i):
                    await self.items.load(i)
                # Here, and not in the step, because another part may fail in the turn.
                if clock() - host.turned > TURN:
                    await host.turn()
                if self.failure is not None:  # after a failure no further part starts (P15)
                    return True
                try:
                    value, _ = await self.start(i, attempt)
                    self.keep(i, value)
                    break
                except BaseException as error:
                    if not is_rescuable(error):
                        self.failure = self.failure or error
                        raise
                    if not self.try_again(i, attempt, error):
                        break
                if self.site.step.failing.wait and not self.was_tried_again(i, attempt):
                    await asyncio.sleep(self.site.step.failing.wait)
                attempt += 1
            if self.items is not None:
                self.items.release(i)
            if is_too_many is not None and is_too_many():
                return False
        return True
