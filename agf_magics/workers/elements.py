"""Whole elements: the elements of a fan-out travel to workers in chunks, and each chunk is one
trip.

A worker runs the same step engine for the body (`element_chunk`). The kernel keeps what only it may
decide or store: it applies ``on_error``, writes the records (one commit for each chunk), counts,
and repeats what a lost worker had. What cannot travel, or is too heavy, is left to the pool of the
kernel, which sends calls. `Elements.pool` is the way in.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any, cast

from ..catalog import Transform
from ..engine.concurrent import replay_recorded
from ..engine.invoke import of_one
from ..engine.linked import Linked
from ..engine.pool import Parts, Plan, calls_of, one_call
from ..engine.runner import CallSite, Scope, clock, is_rescuable
from ..engine.sequences import Elements as Sequenced
from ..engine.user_code import StillRunning
from ..flow import events as ev
from ..flow.progress import Progress
from ..flow.rows import key_of
from ..flow.steps import Each
from ..flow.values import Value
from ..journal.collected import CollectedRecords, known_call
from ..text.diagnostics import Diagnostic, StepError
from .backend import ChunkSize, Dispatcher, Lost, Shown
from .outcomes import LOSSES
from .pickles import Answered, Shift, Unread, dump_plain, load_plain, read_answer, write_prints
from .program import (
    HEAVY_ELEMENT,
    make_program,
    reason_to_stay,
    sources_of,
    steps_of,
    time_limit_of,
)
from .queue import (
    ElementFlight,
    Landed,
    Sent,
    damaged_answer,
    element_lost,
    explained,
    is_refused,
    stopped,
)
from .sending import HEAVY, own_modules

Items = list[Value] | Sequenced


class Elements:
    """Sends whole elements of one run to its workers."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatcher = dispatcher

    def pool(
        self,
        site: CallSite[Each],
        inside: Scope,
        keep: Callable[[int, Value], None],
        items: Items,
        rest: Parts,
    ) -> ElementPool | None:
        """The pool of a fan-out whose elements travel whole; None: they do not. ``rest``: runs
        those that stay."""
        if (
            isinstance(items, Sequenced) and not items.is_quick
        ):  # code of a user reads them, a few ahead
            return None
        if reason_to_stay(site, inside, len(items), self.dispatcher.backend.lanes) is not None:
            return None
        sources, modules = sources_of(site.step, inside.linked), own_modules()
        try:
            program = make_program(site, inside, sources, modules)
        except Exception:
            program = b""
        if not 0 < len(program) <= HEAVY:
            return None  # calls are sent instead: their errors and warnings name the part
        limit = time_limit_of(site.step.body, inside.linked, site.run.budget.limits.step_timeout)
        sent = Sent(program, sources, modules, limit)
        return ElementPool(self.dispatcher, site, inside, keep, items, rest, sent)


class ElementPool(Parts):
    """Runs the elements of one fan-out on workers. A source of chunks for the dispatcher."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        site: CallSite[Each],
        inside: Scope,
        keep: Callable[[int, Value], None],
        items: Items,
        rest: Parts,
        sent: Sent,
    ) -> None:
        path = self.path = site.path_of(site.step.body)
        self.each = site
        super().__init__(site, keep, lambda i: (*path, i), items)
        self.dispatcher, self.backend, self.limit = dispatcher, dispatcher.backend, site.step.limit
        self.inside, self.rest, self.sent, self.values = inside, rest, sent, items
        self.sizes = ChunkSize()
        self.numbers: Iterator[int] = iter(())
        """Elements that were not sent yet; there may be millions."""
        self.left = 0
        """How many of them there are."""
        self.early: deque[int] = deque()
        """Those of them that come first: they were in a chunk that could not be made."""
        self.again: deque[int] = deque()
        """Elements whose worker was lost: they travel alone."""
        self.losses: dict[int, int] = {}
        self.how_lost: dict[int, list[str]] = {}
        self.flights: dict[ElementFlight, None] = {}
        self.landed: Landed = asyncio.Queue()
        self.stays: list[int] = []
        """Elements that the kernel runs after all."""
        self.leaves = True
        """Whether more elements are sent."""
        self.records = self._records()

    def _records(self) -> CollectedRecords | None:
        journal = self.site.run.journal
        if journal is None:
            return None
        before = key_of(self.inside.before)
        calls = {
            ids: known_call(
                journal, step, of_one(callee) if isinstance(callee, Transform) else callee
            )
            for step, callee, ids in calls_of(self.each.step.body, self.inside.linked, before)
            if not isinstance(callee, Linked)
        }
        inside = self.inside
        return CollectedRecords(
            journal, calls, inside.grant, load_plain, inside.before, self.each.index
        )

    async def run(self, plan: Plan) -> dict[int, StepError]:
        known, numbers = self._recorded(), plan.rest
        self.left = plan.count - len(known)
        if known:
            every = list(numbers)
            await self._run_here(iter([i for i in every if i in known]), plan)
            numbers = iter([i for i in every if i not in known])
        self.numbers = numbers
        await self._run_there()
        if self.failure is not None:
            raise self.failure
        if self.stays or self.again or self.left:
            await self._run_here(
                chain(sorted([*self.stays, *self.again, *self.early]), self.numbers), plan
            )
        self.warn_if_all_dropped(plan.count)
        return self.failures

    def _recorded(self) -> frozenset[int]:
        """The elements of which an earlier session has a record: their outcomes are in the
        kernel."""
        journal = self.site.run.journal
        if journal is None or journal.earlier is None:
            return frozenset()
        places, path = journal.earlier.places, self.path
        return frozenset(i for i in range(len(self.values)) if (*path, i) in places)

    async def _run_here(self, numbers: Iterator[int], plan: Plan) -> None:
        """Run elements in the kernel, which sends their calls."""
        pool = self.rest
        pool.failures, pool.dropped = self.failures, self.dropped
        plan.rest = numbers
        replay_recorded(self.each, self.inside, one_call(self.each, self.inside), plan, pool)
        await pool.run(plan)
        self.dropped = pool.dropped

    # --- chunks ---

    @property
    def has_suspects(self) -> bool:
        return bool(self.again) and self.leaves

    def next(self, lanes: int) -> ElementFlight | None:
        """The next chunk; None: nothing waits, the author's limit is reached, or the kernel has not
        caught up."""
        while self.failure is None and self._has_more:
            most = self.limit or lanes * self.dispatcher.ahead
            if len(self.flights) >= most or self.landed.qsize() >= lanes * self.dispatcher.ahead:
                return None
            flight = self._packed([self.again.popleft()] if self.again else self._take(lanes))
            if flight is not None:
                self.flights[flight] = None
                return flight
        return None

    def _take(self, lanes: int) -> list[int]:
        """The numbers of the next chunk."""
        count = min(self.sizes.next(self.left, lanes), self.left)
        found = [self.early.popleft() for _ in range(min(count, len(self.early)))]
        found += islice(self.numbers, count - len(found))
        self.left -= len(found)
        return found

    def _packed(self, numbers: list[int]) -> ElementFlight | None:
        """A chunk; None: none of its elements can be sent. Then its call in the kernel has the
        error."""
        try:
            given = dump_plain(
                (numbers, [self.values[i] for i in numbers]), modules=self.sent.modules
            )
        except Exception:
            if len(numbers) == 1:
                self.stays += numbers
                return None
            self.early.extendleft(reversed(numbers[1:]))
            self.left += len(numbers) - 1
            return self._packed(numbers[:1])
        self.sizes.weigh_given(len(given) / len(numbers))
        return ElementFlight(
            self.landed, self.sent, numbers, given, bool(self.losses.get(numbers[0]))
        )

    async def _run_there(self) -> None:
        loop = asyncio.get_running_loop()
        self.dispatcher.add(self)
        run, at = self.site.run, self.site.at
        self.shown = Shown(self.dispatcher, lambda found: run.emit(ev.Placed(at, clock(), *found)))
        try:
            while self.failure is None and (self.flights or self._has_more):
                self.dispatcher.wake()
                loop.call_soon(self._show_placed)
                flight, outcome = await self.landed.get()
                del self.flights[flight]
                await self._land(flight, outcome)
        except asyncio.CancelledError:
            self.dispatcher.remove(self)
            left = await self._stop_flights()
            if left is None:
                raise
            stop = StillRunning(left)
            stop.reported = True
            raise stop from None
        finally:
            self.dispatcher.remove(self)
            self.shown.close()
        if self.flights:
            await self._stop_flights()
        self._show_placed()

    @property
    def _has_more(self) -> bool:
        """Whether more elements can be sent."""
        return self.leaves and bool(self.again or self.left)

    async def _land(self, flight: ElementFlight, outcome: Any) -> None:
        if isinstance(outcome, Lost):
            self._lose(flight, outcome)
            return
        if (
            isinstance(outcome, BaseException)
            or self.site.run.secrets.active
            or is_refused(outcome)
        ):
            # The backend or the worker cannot run it; or the run has got a secret, which only the
            # kernel masks.
            self.leaves, self.stays = False, [*self.stays, *flight.numbers]
            return
        for i in flight.numbers if self.losses else ():
            self._forget(i)
        now = clock()
        try:
            answer = read_answer(outcome, flight.numbers, self, self.sent.sources)
        except Unread:  # the calls say which of the results cannot be read
            self.leaves, self.stays = False, [*self.stays, *flight.numbers]
            return
        except BaseException as error:  # whatever reading a damaged pickle raises
            for i in flight.numbers if self.failure is None else ():
                self._fail(i, damaged_answer(self.each.step.body, self.backend.name, error))
            await self.site.run.host.turn()
            return
        self.sizes.weigh_returned(answer.weight / (count := len(answer.elements)))
        self.sizes.learn(max(answer.seconds, 1e-6), count, self.backend.lanes)
        self.leaves = self.leaves and (flight.weight + answer.weight) / count <= HEAVY_ELEMENT
        if answer.elements[-1][1][0]:  # with ``abort``, a failure is the last one
            self.dispatcher.send()  # so the workers do not wait until this chunk is written
        await self._apply(answer, Shift.between(flight.when, now, answer.began, answer.ended))
        self.stays += flight.numbers[count:] if self.failure is None else []

    async def _apply(self, answer: Answered, shift: Shift) -> None:
        """Write the records of a chunk, then count it and apply the outcomes of its elements in
        their order."""
        run = self.site.run
        write_prints(answer.prints)
        if self.records is not None:
            await self.records.write([(i, records) for i, (_, _, _, records) in answer.elements])
        run.calls += answer.calls
        if answer.counts is not None:
            cast("Progress", run.steps).count(
                answer.counts, shift.of(answer.began), shift.of(answer.ended)
            )
        for i, (ok, value, events, _) in answer.elements:
            for event in events:
                self._emit(shift.event(event))
            if ok:
                self.keep(i, value)
            else:
                self._end(i, value)
            if self.failure is not None:
                return
        await run.host.turn()

    def _emit(self, event: ev.Event) -> None:
        """Emit an event of a worker. A warning about a step of the run is emitted once."""
        run = self.site.run
        if type(event) is ev.Warned and event.diagnostic.code == "run.all-dropped":
            steps = steps_of(self.each.step.body, self.inside.linked)
            place = next((id(step) for step in steps if step.span == event.diagnostic.span), None)
            if place in run.all_dropped:
                return
            if place is not None:
                run.all_dropped.add(place)
        run.emit(event)

    def _end(self, i: int, error: BaseException) -> None:
        """The failure of an element: what ``on_error`` says about it."""
        if not is_rescuable(error):
            self.failure = self.failure or error
            return
        with contextlib.suppress(StepError):  # it ends the fan-out: `failure`
            self.give_up(
                i, explained(cast(StepError, error), self.each.step.body, self.backend.name)
            )

    def _lose(self, flight: ElementFlight, lost: Lost) -> None:
        """The worker of a chunk is lost: its elements are sent again, each alone."""
        names_one = self.backend.identifies_lost_chunk
        alone = len(flight.numbers) == 1 and (names_one or not flight.shared)
        again: list[int] = []
        for i in flight.numbers:
            how = self.how_lost.setdefault(i, [])
            if not lost.cancelled:
                # A pool that breaks loses all its chunks: only an element that was alone is to
                # blame.
                known = self.losses.get(i, 0)
                self.losses[i] = known + 1 if alone or names_one else max(1, known)
                how.append(str(lost))
            is_last = lost.gone or (alone and (lost.last or lost.late is not None))
            if is_last or self.losses.get(i, 0) > LOSSES:
                self._forget(i)
                self._fail(i, element_lost(self.each.step.body, how, lost))
            else:
                again.append(i)
        self.again.extendleft(reversed(again))

    def _forget(self, i: int) -> None:
        self.losses.pop(i, None)
        self.how_lost.pop(i, None)

    def _fail(self, i: int, found: Diagnostic) -> None:
        """An element failed without an answer."""
        if self.failure is not None:
            return
        run, at, error = self.site.run, self.at(i), StepError(found)
        error.path, error.where = at, ev.format_path(at)
        run.steps.start(at, clock(), 1)
        run.emit(ev.StepFailed(at, clock(), error))
        self._end(i, error)

    async def _stop_flights(self) -> str | None:
        """Cancel the chunks in flight; their elements count as cancelled, whatever their workers
        did. Returns a text if workers are left running."""
        run, running = (
            self.site.run,
            await stopped(self.flights, self.landed, self.backend, self.site.run.host.grace),
        )
        chunks = f"{len(running)} chunk{'s' * (len(running) != 1)} of elements"
        left = f"left running: {chunks} on {self.backend.name}" if running else None
        for flight in self.flights:
            for i in flight.numbers:
                at, is_left = self.at(i), flight in running and i == flight.numbers[0]
                run.steps.start(at, flight.when, 1)
                run.emit(
                    ev.StepAbandoned(at, clock(), left or "")
                    if is_left
                    else ev.StepCancelled(at, clock())
                )
        self.flights = {}
        self._show_placed()
        return left

    def _show_placed(self) -> None:
        """Say how many elements are with workers."""
        self.shown.show(sum(len(flight.numbers) for flight in self.flights))
