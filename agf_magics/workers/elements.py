"""Whole elements: the elements of a fan-out travel to workers in chunks, and each chunk is one trip.

A worker runs the same step engine for the body (`element_chunk`). The kernel keeps what only it may decide or store: it
applies ``on_error``, writes the records (one commit for each chunk), counts, and repeats what a lost worker had. What
cannot travel, or is too heavy, is left to the pool of the kernel, which sends calls. `Elements.pool` is the only way in.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from ..engine.linked import Linked
from ..engine.pool import Parts, Plan, Pool
from ..engine.replayed import replay_recorded
from ..engine.runner import CallSite, Scope, clock, is_rescuable
from ..engine.threaded import ThreadedPool
from ..flow.steps import Each
from ..flow.values import Value
from ..journal.collected import CollectedRecords, known_call
from ..journal.records import around
from ..journal.replay import ReplayLog
from ..progress import events as ev
from ..progress.progress import Progress
from ..text.diagnostics import Diagnostic, StepError
from .answers import Answered, Shift, read_answer
from .backend import AHEAD, Cancel, Lost, WorkerBackend
from .element_chunk import run_elements
from .eligible import calls_of, reason_to_stay, steps_of
from .pickles import dump_plain, load_plain
from .program import make_program, sources_of, version_of_workers
from .sizes import ChunkSize

LOSSES = 3
"""How often an element is sent again after its worker was lost."""

HEAVY = 10_000
"""Bytes of an element and its answer, above which calls are sent instead."""

KERNEL = f"{os.getpid()}"


class Elements:
    """Sends whole elements of one run to its workers."""

    def __init__(self, backend: WorkerBackend, write: Callable[[str, str], None] | None = None) -> None:
        """``write(stream, text)`` prints what a worker has printed."""
        self.backend, self.write = backend, write

    def pool(
        self, site: CallSite[Each], inside: Scope, keep: Callable[[int, Value], None], items: list[Value],
        rest: Pool | ThreadedPool,
    ) -> ElementPool | None:  # fmt: skip
        """The pool of a fan-out whose elements travel whole; None: they do not. ``rest``: runs those that stay."""
        if reason_to_stay(site, inside, len(items), self.backend.lanes) is not None:
            return None
        sources = sources_of(site.step, inside.linked)
        try:
            program = make_program(site, inside, sources)
        except Exception:  # calls are sent instead, and say what cannot be sent
            return None
        return ElementPool(self, site, inside, keep, items, rest, program, sources)


class Flight:
    """A chunk in flight."""

    __slots__ = ("cancel", "numbers", "sent", "weight")

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers
        self.cancel: Cancel = _nothing
        self.sent = clock()
        self.weight = 0


class ElementPool(Parts):
    """Runs the elements of one fan-out on workers."""

    def __init__(
        self, elements: Elements, site: CallSite[Each], inside: Scope, keep: Callable[[int, Value], None],
        items: list[Value], rest: Pool | ThreadedPool, program: bytes, sources: Any,
    ) -> None:  # fmt: skip
        path = self.path = site.path_of(site.step.body)
        super().__init__(site, keep, lambda i: (*path, i), items)
        self.elements, self.inside, self.kernel_pool = elements, inside, rest
        self.backend, self.program, self.sources = elements.backend, program, sources
        self.digest = hashlib.sha256(program).hexdigest()
        self.values: list[Value] = items
        self.sizes = ChunkSize()
        self.queue: deque[int] = deque()
        """Elements that were not sent yet."""
        self.again: deque[int] = deque()
        """Elements whose worker was lost: they travel alone."""
        self.losses: dict[int, int] = {}
        self.flights: dict[Flight, None] = {}
        self.landed: asyncio.Queue[tuple[Flight, Any]] = asyncio.Queue()
        self.stays: list[int] = []
        """Elements that the kernel runs after all."""
        self.leaves = True
        """Whether more elements are sent."""
        self.loop = asyncio.get_running_loop()
        self.records = self._records()

    def _records(self) -> CollectedRecords | None:
        journal = self.site.run.journal
        if journal is None:
            return None
        before = tuple(bit for bit in self.inside.before if isinstance(bit, str))
        calls = {
            ids: known_call(journal, step, callee_of(callee))
            for step, callee, ids in calls_of(self.site.step.body, self.inside.linked, before)
            if not isinstance(callee, Linked)
        }
        return CollectedRecords(journal, calls, self.inside.grant, load_plain)

    async def run(self, plan: Plan) -> dict[int, StepError]:
        known = self._recorded()
        numbers = list(plan.rest)
        if known:
            await self._run_here([i for i in numbers if i in known], plan)
        self.queue.extend(i for i in numbers if i not in known)
        try:
            await self._run_there()
        finally:
            self._cancel_flights()
        if self.failure is not None:
            raise self.failure
        if self.stays or self.queue or self.again:
            await self._run_here(sorted([*self.stays, *self.queue, *self.again]), plan)
        self.warn_if_all_dropped(plan.count)
        return self.failures

    def _recorded(self) -> frozenset[int]:
        """The elements of which an earlier session has a record: their outcomes are in the kernel."""
        journal = self.site.run.journal
        if journal is None or journal.earlier is None:
            return frozenset()
        places, path = recorded_places(journal.earlier), self.path
        return frozenset(i for i in range(len(self.values)) if (*path, i) in places)

    async def _run_here(self, numbers: list[int], plan: Plan) -> None:
        """Run elements in the kernel, which sends their calls."""
        if not numbers:
            return
        pool = self.kernel_pool
        pool.failures, pool.dropped, pool.failure = self.failures, self.dropped, None
        plan.rest = iter(numbers)
        replay_recorded(self.site, self.inside, plan, pool)
        await pool.run(plan)
        self.dropped = pool.dropped

    # --- chunks ---

    async def _run_there(self) -> None:
        while True:
            self._send_chunks()
            if not self.flights:
                return
            flight, outcome = await self.landed.get()
            if flight not in self.flights:
                continue  # a second outcome of a chunk
            del self.flights[flight]
            await self._land(flight, outcome)
            if self.failure is not None:  # P15: after a failure no further element starts
                return

    def _send_chunks(self) -> None:
        lanes = max(self.backend.lanes, 1)
        room = lanes * int(getattr(self.backend, "ahead", AHEAD))
        if self.losses and not self.backend.identifies_lost_chunk:
            room = 1  # an element that ends its worker is found when nothing else is there
        sent = len(self.flights)
        while self.leaves and len(self.flights) < room and (self.again or self.queue):
            if self.again:
                self._send([self.again.popleft()])
            else:
                count = min(self.sizes.next(len(self.queue), lanes), len(self.queue))
                self._send([self.queue.popleft() for _ in range(count)])
        if len(self.flights) != sent:
            self._show_placed()

    def _send(self, numbers: list[int]) -> None:
        try:
            given = dump_plain((numbers, [self.values[i] for i in numbers]))
        except Exception:
            if len(numbers) > 1:
                for i in numbers:
                    self._send([i])
            else:
                self.stays += numbers  # its call says what cannot be sent
            return
        flight = Flight(numbers)
        flight.weight = len(given)
        self.sizes.weigh(len(given) / len(numbers))
        self.flights[flight] = None
        loop, landed = self.loop, self.landed

        def done(outcome: Any) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(landed.put_nowait, (flight, outcome))

        order = (self.program, self.digest, version_of_workers(), given, KERNEL)
        flight.cancel = self.backend.submit(run_elements, order, done)

    async def _land(self, flight: Flight, outcome: Any) -> None:
        if isinstance(outcome, Lost):
            self._lose(flight, outcome)
            return
        secrets = self.site.run.secrets
        if isinstance(outcome, BaseException) or secrets.active or _is_refused(outcome):
            # The backend or the worker cannot run it; or the run has got a secret, which only the kernel masks.
            self.leaves = False
            self.stays += flight.numbers
            return
        for i in flight.numbers:
            self.losses.pop(i, None)
        now = clock()
        try:
            answer = read_answer(outcome, flight.numbers, self)
        except Exception as error:  # whatever reading a damaged pickle raises
            await self._fail_all(flight.numbers, _damaged(self.site.step, self.backend.name, error))
            return
        self.sizes.learn(max(answer.seconds, 1e-6), len(answer.elements), self.backend.lanes)
        self.leaves = self.leaves and (flight.weight + answer.weight) / len(answer.elements) <= HEAVY
        await self._apply(answer, Shift.between(flight.sent, now, answer.began, answer.ended))
        self.stays += flight.numbers[len(answer.elements) :] if self.failure is None else []

    async def _apply(self, answer: Answered, shift: Shift) -> None:
        """Write the records of a chunk, then count it and apply the outcomes of its elements in their order."""
        run = self.site.run
        if self.elements.write is not None:
            for stream, text in answer.prints:
                self.elements.write(stream, text)
        if self.records is not None:
            await self.records.write([record for element in answer.elements for record in element.records])
        run.calls += answer.calls
        if answer.counts is not None:
            cast("Progress", run.steps).count(answer.counts, shift.of(answer.began), shift.of(answer.ended))
        for element in answer.elements:
            for event in element.events:
                self._emit(shift.event(event))
            if element.ok:
                self.keep(element.number, element.value)
            else:
                self._end(element.number, element.value)
            if self.failure is not None:
                return
        await run.host.turn()

    def _emit(self, event: ev.Event) -> None:
        """Emit an event of a worker. A warning about a step of the run is emitted once."""
        run = self.site.run
        if type(event) is ev.Warned and event.diagnostic.code == "run.all-dropped":
            steps = steps_of(self.site.step.body, self.inside.linked)
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
            self.give_up(i, cast(StepError, error))

    # --- failures ---

    def _lose(self, flight: Flight, lost: Lost) -> None:
        """The worker of a chunk is lost: its elements are sent again, each alone."""
        alone = len(flight.numbers) == 1
        again: list[int] = []
        for i in flight.numbers:
            if not lost.cancelled:
                self.losses[i] = self.losses.get(i, 0) + 1
            if (alone and lost.last) or self.losses.get(i, 0) > LOSSES:
                count = self.losses.pop(i, 1)
                self._fail(i, _lost(self.site.step, self.backend.name, lost, count))
            else:
                again.append(i)
        self.again.extendleft(reversed(again))

    async def _fail_all(self, numbers: Iterable[int], error: Diagnostic) -> None:
        for i in numbers:
            if self.failure is None:
                self._fail(i, error)
        await self.site.run.host.turn()

    def _fail(self, i: int, found: Diagnostic) -> None:
        """An element failed without an answer."""
        run, at, error = self.site.run, self.at(i), StepError(found)
        error.path, error.where = at, ev.format_path(at)
        run.steps.start(at, clock(), 1)
        run.emit(ev.StepFailed(at, clock(), error))
        self._end(i, error)

    def _cancel_flights(self) -> None:
        """Cancel the chunks in flight: their elements count as cancelled, whatever the workers did."""
        flights, self.flights = list(self.flights), {}
        run = self.site.run
        for flight in flights:
            flight.cancel()
            for i in flight.numbers:
                run.steps.start(self.at(i), flight.sent, 1)
                run.emit(ev.StepCancelled(self.at(i), clock()))
        if flights:
            self._show_placed()

    def _show_placed(self) -> None:
        """Say how many elements are with workers."""


def recorded_places(earlier: ReplayLog) -> frozenset[ev.StepPath]:
    """The paths of all elements of which an earlier session has a record. Computed once for a session."""
    known: Any = getattr(earlier, "recorded_places", None)
    if known is None:
        keys = {key.at for key in (*earlier.outcomes, *earlier.answers)} | {key.at for _, key in earlier.marks}
        known = earlier.recorded_places = frozenset(place for at in keys for place in around(at))  # type: ignore[attr-defined]
    return cast("frozenset[ev.StepPath]", known)


def callee_of(callee: Any) -> Any:
    """A callee as the journal knows it."""
    from ..catalog import Transform
    from ..engine.invoke import _of_one

    return _of_one(callee) if isinstance(callee, Transform) else callee


def _is_refused(outcome: Any) -> bool:
    return type(outcome) is tuple and len(outcome) == 5 and outcome[0] == "no"


def _damaged(step: Each, workers: str, error: Exception) -> Diagnostic:
    message = f"the answer of {workers} for elements of {step.label or step.word!r} cannot be used: {error}"[:500]
    hint = "the workers may run another version of this package; restart them"
    return Diagnostic("step.worker-answer", message, step.body.span or step.span, hint)


def _lost(step: Each, workers: str, lost: Lost, count: int) -> Diagnostic:
    times = "once" if count == 1 else f"{count} times"
    message = f"the worker of this element was lost {times}, on {workers}: {lost}"
    hint = "the element may end its process, for example because the memory is full"
    return Diagnostic("step.worker-lost", message, step.body.span or step.span, hint)


def _nothing() -> None:
    pass
