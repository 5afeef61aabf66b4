"""A fan-out of steps: as many tasks as the author allows pull its parts from one iterator.

100,000 elements are ``limit`` tasks (0.1 µs and 40 bytes an element), not 100,000 tasks that wait
for a semaphore (3.4 µs, 1,600 bytes).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

from ...flow.graph_steps import Walk
from ...flow.progress import events as ev
from ...flow.steps import Branches, Each
from ...journal.codec.encoding import preview
from ...journal.records.records import CallKey, again
from ...text.diagnostics import Diagnostic, StepError
from ...values.value import Value
from ..calls.streams import separate_prints
from ..host.remote_calls import RemoteCalls
from ..runner import CallSite, Scope, StepResult, clock, is_rescuable
from .elements import Elements


class Plan:
    """The order in which a pool starts its parts.

    A resumed run starts with those that ended, so that the failure that stopped the others is known
    before they start.
    """

    def __init__(
        self, count: int, width: int, done: Sequence[int] = (), first: Sequence[int] = ()
    ) -> None:
        self.count, self.width = count, min(width, count)
        self.done = done
        """In order, in the order of their ends."""
        ahead = {*done, *first}
        self.rest: Iterator[int] = chain(first, (i for i in range(count) if i not in ahead))
        """Concurrently."""

    def begin(self, count: int) -> Plan:
        """The first ``count`` parts, which this plan then no longer has."""
        first = Plan(count, self.width, self.done)
        first.rest, self.done = islice(self.rest, count), ()
        return first


class Parts(ABC):
    """The elements or branches of a fan-out, and what their failures mean for it."""

    @abstractmethod
    async def run(self, plan: Plan) -> dict[int, StepError]:
        """Run the parts. Returns the failures that did not end the fan-out, and raises the one that
        did."""

    def __init__(
        self,
        site: CallSite[Each] | CallSite[Branches] | CallSite[Walk],
        keep: Callable[[int, Value], None],
        at: Callable[[int], ev.StepPath],
        items: Elements | None = None,
    ) -> None:
        """``keep(i, value)`` receives the value of part ``i``; ``at(i)`` is its path."""
        self.site, self.keep, self.at, self.items = site, keep, at, items
        self.failures: dict[int, StepError] = {}
        """Failures that do not end the fan-out, if the step needs them."""
        self.failure: BaseException | None = None
        """The failure that ends the fan-out."""
        self.dropped = 0

    def retries(self, i: int, attempt: int, error: StepError) -> bool:
        """Whether to try again. Raises the error if it ends the fan-out."""
        run, at = self.site.run, self.at(i)
        if attempt <= self.site.step.failing.retries and not isinstance(error, ev.Denied):
            run.emit(ev.StepRetried(at, clock(), error))
            run.mark("retried", CallKey(at, retry_scope(self.site.scope, at, attempt).tries))
            return True
        self.give_up(i, error)
        return False

    def give_up(self, i: int, error: StepError) -> None:
        """The last attempt of a part has failed. Raises the error if it ends the fan-out."""
        step, run, tries = self.site.step, self.site.run, self.site.scope.tries
        on_error = step.failing.on_error
        if on_error == "abort":
            self.failure = self.failure or error
            raise error
        if step.gather is not None or on_error == "finish" or step.failing.kept:
            self.failures[i] = error
        if on_error == "continue":
            # None if it cannot be read, or if the parts are branches.
            value = self.items.shown(i) if self.items is not None else None
            element = preview(run.secrets.shown(value))
            run.emit(ev.ElementDropped(self.at(i), clock(), error, element))
            run.mark("dropped", CallKey(self.at(i), tries), error)
            self.dropped += 1

    def warn_if_all_dropped(self, count: int) -> None:
        """Warn that nothing of ``count`` parts is left; once for a step, which may be inside
        another fan-out."""
        step, run = self.site.step, self.site.run
        if self.items is not None and count < len(self.items):  # others follow
            return
        is_call = self.items is None and step.gather is not None  # its failure is in the headline
        if self.dropped == count > 0 and not is_call:
            parts = "elements" if self.items is not None else "branches"
            message = (
                f"{step.word or step.label}: all {parts} failed and were dropped ({self.dropped:,})"
            )
            warning = Diagnostic("run.all-dropped", message, step.span, severity="warning")
            run.warn_once(warning, (warning.code, step.span))


class Pool(Parts):
    """Runs the parts as steps."""

    def __init__(
        self,
        site: CallSite[Each] | CallSite[Branches] | CallSite[Walk],
        start: Callable[[int, int], Awaitable[StepResult]],
        keep: Callable[[int, Value], None],
        at: Callable[[int], ev.StepPath],
        items: Elements | None = None,
        queue: RemoteCalls | None = None,
    ) -> None:
        """``start(i, attempt)`` runs part ``i``. ``queue``: the workers, if they make all calls of
        the parts: then as many parts run as the workers want."""
        super().__init__(site, keep, at, items)
        self.start, self.queue = start, queue
        self.active = 0

    async def run(self, plan: Plan) -> dict[int, StepError]:
        await self._work(plan.done)
        if plan.width <= 1:
            await self._work(plan.rest)
        else:
            try:
                async with asyncio.TaskGroup() as group:
                    if self.queue is not None:
                        await self._run_wide(group, plan, self.queue)
                    else:
                        for _ in range(plan.width):
                            group.create_task(self._work(plan.rest))
            except BaseExceptionGroup as several:
                self.failure = self.failure or several.exceptions[0]
            # Raised outside of `except`: IPython prints a whole traceback for an error whose
            # context is a group.
            if self.failure is not None:
                raise self.failure
        self.warn_if_all_dropped(plan.count)
        return self.failures

    async def _run_wide(self, group: asyncio.TaskGroup, plan: Plan, queue: RemoteCalls) -> None:
        """Run as many parts as the workers want: that number follows the size of their chunks."""
        ended, all_started = asyncio.Event(), False

        async def work() -> None:
            nonlocal all_started
            try:
                all_started = (
                    await self._work(plan.rest, lambda: self.active > 1.5 * queue.wanted)
                    or all_started
                )
            finally:
                self.active -= 1
                if not self.active:
                    ended.set()

        def grow() -> None:
            while (
                self.active < min(queue.wanted, plan.count)
                and self.failure is None
                and not all_started
            ):
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
        """Run parts until all have run, or until ``is_too_many()``; returns whether all have
        run."""
        separate_prints(self.site.run)
        for i in numbers:
            if self.failure is not None:  # P15: after a failure no further element starts
                return True
            if self.items is not None and not self.items.hold(i):
                await self.items.load(i)
            attempt = 1
            while True:
                try:
                    value, _ = await self.start(i, attempt)
                    self.keep(i, value)
                    break
                except BaseException as error:
                    if not is_rescuable(error):
                        self.failure = self.failure or error
                        raise
                    if not self.retries(i, attempt, error):
                        break
                    attempt += 1
                if self.site.step.failing.wait:
                    await asyncio.sleep(self.site.step.failing.wait)
            if self.items is not None:
                self.items.release(i)
            if is_too_many is not None and is_too_many():
                return False
        return True


def retry_scope(scope: Scope, at: ev.StepPath, attempt: int) -> Scope:
    """The scope of this attempt at the part ``at``."""
    if attempt == 1:
        return scope
    return scope._replace(tries=again(scope.tries, at, attempt))
