"""Runs the elements of a fan-out as calls on workers; one turn of the loop handles all ended calls.

Only the calls are sent to workers (`Host.queue`). Everything else happens on the loop, as for any
other step: the arguments, the events, the journal, limits, secrets, ``on_error``. An element needs
no task of its own. Several calls travel together as a chunk, to keep the workers busy. The author's
limit is on the chunks that run at a time, so more calls than that are with the workers. Otherwise
the behaviour is that of a `TaskFanOut`, which `tests/engine/test_fan_out.py` checks.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

from ...flow.progress import events as ev
from ...flow.protocols import Frame, finished
from ...flow.steps import Each
from ...journal.calls.started_call import StartedCall
from ...limits.grants import granted
from ...limits.shortest import shortest
from ...text.diagnostics import StepError
from ...values.value import Value, is_awaitable
from ..calls.arguments import build_arguments, permit
from ..calls.call import call_tool, finish, resources_of, start_record, value_of
from ..host.host import TURN
from ..host.placement import has_effect
from ..host.remote_calls import FanOutCalls, Placement, Terms
from ..late_values import late_value, when_read
from ..runner import CallSite, Scope, clock, is_rescuable, store_value
from .elements import Elements
from .fan_out_parts import FanOutParts, retry_scope
from .one_call import OneCall
from .open_calls import Element, OpenCalls
from .start_order import StartOrder


class WorkerFanOut(FanOutParts):
    """Runs the elements of a fan-out as calls on workers."""

    def __init__(
        self,
        site: CallSite[Each],
        inside: Scope,
        one_call: OneCall,
        keep: Callable[[int, Value], None],
        items: Elements,
    ) -> None:
        """``inside``: the scope of the elements."""
        body, tool = one_call.step, one_call.tool
        path = self.path = site.path_of(body)
        super().__init__(site, keep, lambda i: (*path, i), items)
        self.is_secret = one_call.is_secret
        self.body = body
        self.tool = tool
        self.inside = inside
        self.elements = items
        self.each = site.step
        """The step of the fan-out."""
        self.runner = site.run
        self.host = site.run.host
        self.journal = site.run.journal
        timeout = shortest(tool.timeout, body.timeout, site.run.budget.limits.step_timeout)
        self.terms = Terms(
            timeout, has_effect(tool), site.step.limit, resources_of(tool), tool.name
        )
        self.loop = asyncio.get_running_loop()
        self.context = contextvars.copy_context()
        self.context.run(granted.set, inside.grant)
        self.again: deque[tuple[int, int]] = deque()
        """The elements to try again, with the numbers of the attempts."""
        self.calls = OpenCalls(self.runner, self.loop, self.context)
        self.open = self.calls.open
        """The elements that have started and not ended."""

    async def run(self, order: StartOrder) -> dict[int, StepError]:
        halts = self.each.failing.on_error == "abort" or self.each.failing.retries > 0
        assert self.host.queue is not None, "its calls run on workers"
        fan_out, function = self.host.queue.fan_out, self.tool.function
        self.remote: FanOutCalls[Element] = self.context.run(
            fan_out, function, self._collect, self.terms, halts, self._show
        )
        try:
            await self._run((i, 1) for i in chain(order.ended, order.rest))
        except (asyncio.CancelledError, Exception):
            await self._stop()
            raise
        finally:
            self.remote.close()
        if self.failure is not None:
            raise self.failure
        self.warn_if_all_dropped(order.count)
        return self.failures

    async def _run(self, attempts: Iterator[tuple[int, int]]) -> None:
        """Start and end elements until all have ended, or one failure ends the fan-out."""
        while True:
            await self._start_elements(attempts, self.remote.wanted_calls)
            if self.failure is not None:  # after a failure no further element starts (P15)
                return await self._stop()
            if not self.open:
                return None
            await self._end_elements(await self.calls.wait())

    async def _stop(self) -> None:
        """Stop the open calls. Those that have ended by now keep their results (decision A17)."""
        try:
            await self._end_elements(self.calls.take_ended())
        finally:
            await self.calls.cancel()

    async def _start_elements(self, attempts: Iterator[tuple[int, int]], width: int) -> None:
        """Start elements in all free slots. ``attempts``: the numbers of the elements and of their
        attempts."""
        calls = list[Element]()
        while self.failure is None and len(self.open) < width:
            # Before each wait the started calls go to the workers. Calls that are held after a
            # failure do not: a failure that is reported during the wait is not handled yet.
            if clock() - self.host.turned > TURN:
                self._hand(calls, resumes=False)
                calls = []
                await self.host.turn()
            # Elements that are tried again come before the waiting ones.
            next_attempt = self.again.popleft() if self.again else next(attempts, None)
            if next_attempt is None:
                break
            i, attempt = next_attempt
            if not self.elements.retain(i):
                self._hand(calls, resumes=False)
                calls = []
                await self.elements.load(i)
            if self.runner.has_unread:
                await self._read(i)
            element = self._start(i, attempt)
            if element is not None:
                self.open[element] = None
                calls.append(element)
        self._hand(calls)

    async def _read(self, i: int) -> None:
        """Read the values that the call of an element needs, unless an earlier session made it."""
        with contextlib.suppress(StepError):  # `_start` raises it again
            site = self._site_of(i, 1)
            if self.journal is not None and not self.journal.unread.has(site.key):
                await when_read(partial(build_arguments, site, self.tool))

    def _site_of(self, i: int, attempt: int, frame: Frame | None = None) -> CallSite[Any]:
        """The call of element ``i``, with the element in its frame. Raises StepError if the element
        cannot be read."""
        if frame is None:
            outcome = finished((self.elements[i], None, None, "finished"))
            frame = self.each.element.store(self.site.frame, outcome)
        path, index = (*self.path, i), (*self.site.index, i)
        scope = retry_scope(self.inside, path, attempt)
        return CallSite(self.runner, self.body, frame, scope, index, path)

    def _start(self, i: int, attempt: int) -> Element | None:
        """Build the call of an element; None: the element has ended without a call."""
        # The event comes first, with the outer frame: an element that cannot be read has begun, too.
        inner = self._site_of(i, attempt, self.site.frame)
        self.runner.emit(ev.StepStarted(inner.path, clock(), attempt))
        call: StartedCall | tuple[Value] | None = None
        arguments: dict[str, Value] = {}
        try:
            inner = self._site_of(i, attempt)
            # A value in brackets is known already, and no call is made.
            call = late_value(inner, self.tool, call_tool)
            if call is None:
                arguments = permit(inner, self.tool)
            if self.journal is not None and call is None:
                grant = inner.scope.grant
                call = start_record(inner, self.journal, self.tool, arguments, grant)
        except BaseException as error:
            self._fail(i, attempt, inner, error)
            return None
        if call is not None and not isinstance(call, StartedCall):
            (recorded,) = call
            self._finish(i, attempt, inner, arguments, recorded)
            return None
        element = Element(inner, self.tool.function, arguments, self.loop, self.context.copy())
        element.i = i
        element.attempt = attempt
        element.record = call._replace(is_apart=True) if call is not None else None
        return element

    def _hand(self, calls: list[Element], resumes: bool = True) -> None:
        """Hand calls to the workers. ``resumes``: whether calls that wait after a failure may
        start, too."""
        may_resume = resumes and self.remote.halted and self.failure is None
        if not calls and not may_resume:
            return
        first_attempts = [element for element in calls if element.attempt == 1]
        repeated = [element for element in calls if element.attempt > 1]
        try:
            self.remote.hand(first_attempts, repeated, resumes and not self.calls.ended)
        except RuntimeError as error:  # no thread can be started
            for element in calls:
                element.end((False, error))
            self._collect(calls)

    def _show(self, placement: Placement) -> None:
        """Emit where the elements are."""
        self.runner.emit(ev.Placed(self.site.path, clock(), *placement))

    # --- ends ---

    def _collect(self, calls: list[Element]) -> None:
        """Take the calls that have ended since the last turn."""
        # `OpenCalls.cancel` ends the calls that are stopped.
        for element in [element for element in calls if not element.stopped]:
            assert element.result is not None
            ok, value = element.result
            if element.interrupted or (ok and is_awaitable(value)):
                self.calls.finish(element)
            else:
                self.calls.ended.append(element)
        self.calls.wake()

    async def _end_elements(self, batch: list[Element]) -> None:
        """Journal the outcomes of the elements whose calls have ended, and free their slots."""
        outcomes = [self._outcome(element) for element in batch]
        if self.journal is not None:
            rows = [
                (element.record, value, error, is_secret)
                for element, (value, error, is_secret) in zip(batch, outcomes, strict=True)
                if element.record is not None and (error is None or isinstance(error, StepError))
            ]
            if rows:
                await self.journal.write_outcomes(rows)
            self.journal.warn_broken()
        for element, (value, error, _) in zip(batch, outcomes, strict=True):
            del self.open[element]
            if error is None:
                self._finish(element.i, element.attempt, element.site, element.arguments, value)
            else:
                self._fail(element.i, element.attempt, element.site, error)

    def _outcome(self, element: Element) -> tuple[Value, BaseException | None, bool]:
        """The value, the error, and whether the value is secret, of an element whose call has
        ended."""
        assert element.result is not None
        element.close()
        try:
            return value_of(element.site, element.result, self.tool, "tool"), None, self.is_secret
        except BaseException as error:
            return None, error, False

    def _finish(
        self, i: int, attempt: int, site: CallSite[Any], arguments: Any, value: Value
    ) -> None:
        """Keep the value of an element that has ended."""
        try:
            value, _ = store_value(site, finish(site, arguments, value))
        except BaseException as error:
            self._fail(i, attempt, site, error)
            return
        self.runner.emit(ev.StepFinished(site.path, clock(), value))
        self.keep(i, value)
        self.elements.release(i)

    def _fail(self, i: int, attempt: int, site: CallSite[Any], error: BaseException) -> None:
        """Handle a failed attempt: by the rescue of the step, another attempt, a dropped element,
        or the end of the fan-out."""
        rescued = self.runner.fail_step(error, site)
        if rescued is not None:
            value, _ = rescued
            self.keep(i, value)
            self.elements.release(i)
        elif not is_rescuable(error):
            self.failure = self.failure or error
        else:
            with contextlib.suppress(StepError):  # `failure` has it, and it ends the fan-out
                if self.try_again(i, attempt, error):
                    self.again.append((i, attempt + 1))
                else:
                    self.elements.release(i)
