"""Whole elements: the elements of a fan-out travel to workers in chunks, and each chunk is one
trip.

A worker runs the same step engine for the body (`element_chunk`). The kernel keeps what only it may
decide or store: it applies ``on_error``, writes the records (one commit for each chunk), counts,
and repeats what a lost worker had. What cannot travel, or is too heavy, is left to the pool of the
kernel, which sends calls. `element_pool` is the way in.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, NamedTuple, cast

from ..catalog import Transform
from ..engine.invoke import of_one
from ..engine.linked import Linked
from ..engine.pool import Parts, Plan, calls_of
from ..engine.runner import CallSite, Scope, clock, is_rescuable
from ..engine.sequences import Elements
from ..engine.user_code import StillRunning, TimedOut
from ..flow import events as ev
from ..flow.progress import Progress, key_of
from ..flow.step import Step
from ..flow.steps import Each, Invoke
from ..flow.values import Value
from ..journal.collected import CollectedRecords, known_call
from ..text.diagnostics import Diagnostic, Source, StepError
from .backend import (
    KERNEL,
    RESULT,
    ChunkSize,
    Dispatcher,
    Entry,
    Flight,
    Line,
    Lost,
    Shown,
    write_print,
)
from .element_chunk import body_name, read_program, run_elements
from .pickles import Answered, Shift, Unread, dump_plain, load_plain, read_answer
from .program import (
    HEAVY_ELEMENT,
    make_program,
    reason_to_stay,
    sources_of,
    time_limit_of,
    version_of_workers,
)
from .sending import NO_SIGN, applied, is_here, lacking_module, own_modules, worker_lost

FORCE = 1.0
"""Seconds in which the worker of a chunk that did not end in time is ended."""


def element_pool(
    dispatcher: Dispatcher,
    site: CallSite[Each],
    inside: Scope,
    keep: Callable[[int, Value], None],
    items: Elements,
    rest: Callable[[Plan], Parts],
) -> ElementPool | None:
    """The pool of a fan-out whose elements travel whole; None: they do not. ``rest``: makes what
    runs those of a plan that stay."""
    # The elements of a sequence that is not quick are read by code of a user, a few ahead.
    if not items.is_quick:
        return None
    if reason_to_stay(site, inside, len(items), dispatcher.backend.lanes) is not None:
        return None
    sources, modules = sources_of(site.step, inside.linked), own_modules()
    try:
        pickled = make_program(site, inside, sources, modules)
    except Exception:
        # Calls are sent instead: their errors and warnings name the part.
        return None
    program = applied(read_program, (version_of_workers(), pickled))
    options = {
        "kernel": KERNEL,
        "most": RESULT,
        "timeout": time_limit_of(
            site.step.body, inside.linked, site.run.budget.limits.step_timeout
        ),
    }
    sent = Sent(program, hashlib.sha256(program).hexdigest(), sources, modules, options)
    return ElementPool(dispatcher, site, inside, keep, items, rest, sent)


class Sent(NamedTuple):
    """What all chunks of a fan-out share."""

    program: bytes
    digest: str
    sources: Sequence[Source]
    modules: Sequence[str]
    options: dict[str, Any]


class ElementEntry(Entry):
    """An element in a chunk, or one whose worker was lost."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class ElementFlight(Flight[ElementEntry]):
    """A chunk of elements."""

    def __init__(
        self,
        landed: asyncio.Queue[tuple[ElementFlight, Any]],
        sent: Sent,
        entries: list[ElementEntry],
        given: bytes,
    ) -> None:
        """``given``: the pickled numbers and elements."""
        order = (sent.program, sent.digest, given, len(entries), sent.options)
        super().__init__(entries, run_elements, order)
        self.landed, self.weight, self.when = landed, len(given), clock()

    @property
    def numbers(self) -> list[int]:
        return [entry.number for entry in self.entries]

    def land(self, outcome: Any) -> None:
        self.landed.put_nowait((self, outcome))


class ElementPool(Parts, Line[ElementEntry]):
    """Runs the elements of one fan-out on workers."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        site: CallSite[Each],
        inside: Scope,
        keep: Callable[[int, Value], None],
        items: Elements,
        rest: Callable[[Plan], Parts],
        sent: Sent,
    ) -> None:
        path = self.path = site.path_of(site.step.body)
        self.each = site
        Parts.__init__(self, site, keep, lambda i: (*path, i), items)
        Line.__init__(self, dispatcher, ChunkSize(), site.step.limit)
        self.inside, self.rest, self.sent, self.values = inside, rest, sent, items
        self.numbers: Iterator[int] = iter(())
        """Elements that were not sent yet; there may be millions, so they have no entries."""
        self.left = 0
        """How many of them there are."""
        self.landed: asyncio.Queue[tuple[Any, Any]] = asyncio.Queue()
        """The chunks that are back, with their outcomes; None: an element was not sent."""
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
        # The kernel has the outcomes of these. They come first, as in a run without
        # workers: what they decide must be known before others start.
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
        back = [entry.number for entry in (*self.lost, *self.waiting)]
        if self.stays or back or self.left:
            await self._run_here(chain(sorted([*self.stays, *back]), self.numbers), plan)
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
        plan.rest = numbers
        pool = self.rest(plan)
        pool.failures, pool.dropped = self.failures, self.dropped
        await pool.run(plan)
        self.dropped = pool.dropped

    # --- chunks ---

    @property
    def has_more(self) -> bool:
        return self.leaves and self.failure is None and bool(self.lost or self.waiting or self.left)

    def take(self, lanes: int) -> list[ElementEntry]:
        if self.lost:
            return [self.lost.popleft()]
        left = self.left + len(self.waiting)
        count = min(self.size.next(left, lanes), left)
        entries = [self.waiting.popleft() for _ in range(min(count, len(self.waiting)))]
        numbers = list(islice(self.numbers, count - len(entries)))
        self.left -= len(numbers)
        return entries + [ElementEntry(i) for i in numbers]

    def pack(self, entries: list[ElementEntry]) -> bytes:
        numbers = [entry.number for entry in entries]
        return dump_plain((numbers, [self.values[i] for i in numbers]), modules=self.sent.modules)

    def flight(self, entries: list[ElementEntry], given: bytes) -> ElementFlight:
        return ElementFlight(self.landed, self.sent, entries, given)

    def refuse(self, entry: ElementEntry, error: Exception) -> None:
        # Its call in the kernel has the error.
        self.stays.append(entry.number)
        # No chunk may be in flight, and none may follow.
        self.landed.put_nowait((None, None))

    def fail(self, entry: ElementEntry, lost: Lost) -> None:
        body = self.each.step.body
        name, span = body_name(body)
        if lost.late is not None and not lost.gone:
            message = f"{name!r} {TimedOut(lost.late, NO_SIGN)}"
            hint = "timeout= of @tool, or step_timeout, sets how long a call may take"
            failure = Diagnostic("step.timeout", message, span, hint)
        else:
            what = "call" if isinstance(body, Invoke) else "element"
            failure = replace(worker_lost(name, what, entry.workers, lost.gone), span=span)
        self._fail(entry.number, failure)

    async def _run_there(self) -> None:
        loop = asyncio.get_running_loop()
        # Before the first `wake`, which takes chunks from all lines.
        self.dispatcher.lines[self] = None
        run, at = self.site.run, self.site.at
        self.shown = Shown(self.dispatcher, lambda found: run.emit(ev.Placed(at, clock(), *found)))
        try:
            while self.failure is None and (self.flights or self.has_more):
                self.dispatcher.wake()
                # After the turn in which the chunks are sent.
                loop.call_soon(self._show_placed)
                flight, outcome = await self.landed.get()
                if flight is not None:
                    del self.flights[flight]
                    await self._land(flight, outcome)
        except asyncio.CancelledError:
            self.dispatcher.lines.pop(self, None)
            left = await self._stop_flights()
            if left is None:
                raise
            stop = StillRunning(left)
            stop.reported = True
            raise stop from None
        finally:
            self.dispatcher.lines.pop(self, None)
            self.shown.close()
        # After a failure, others may be in flight.
        await self._stop_flights()

    async def _land(self, flight: ElementFlight, outcome: Any) -> None:
        if isinstance(outcome, Lost):
            self.lose(flight, outcome)
            return
        numbers, now = flight.numbers, clock()
        try:
            # The backend cannot run it; or the run has got a secret, which only the kernel masks.
            if isinstance(outcome, BaseException) or self.site.run.secrets.active:
                raise Unread
            answer = read_answer(outcome, numbers, self, self.sent.sources)
        except Unread:
            # The calls are sent instead, and say which of the results cannot be read.
            self.leaves, self.stays = False, [*self.stays, *numbers]
            return
        except BaseException as error:
            # Whatever reading a damaged pickle raises.
            for i in numbers:
                self._fail(i, damaged_answer(self.each.step.body, self.backend.name, error))
            await self.site.run.host.turn()
            return
        count = len(answer.elements)
        self.size.learn(max(answer.seconds, 1e-6), count, self.backend.lanes, answer.weight)
        # A heavy element would travel three times: its calls travel once.
        self.leaves = self.leaves and (flight.weight + answer.weight) / count <= HEAVY_ELEMENT
        # The workers do not wait until this chunk is written; with ``abort``, its last element may
        # have failed, and then nothing more is sent.
        if answer.elements[-1][1][0]:
            self.dispatcher.send()
        await self._apply(answer, Shift.between(flight.when, now, answer.began, answer.ended))
        self.stays += numbers[count:]

    async def _apply(self, answer: Answered, shift: Shift) -> None:
        """Write the records of a chunk, then count it and apply the outcomes of its elements in
        their order."""
        run = self.site.run
        for stream, text in answer.prints:
            write_print(stream, text)
        if self.records is not None:
            await self.records.write([(i, records) for i, (_, _, _, records) in answer.elements])
        run.calls += answer.calls
        if answer.counts is not None:
            cast("Progress", run.progress).count(
                answer.counts, shift.of(answer.began), shift.of(answer.ended)
            )
        for i, (ok, value, events, _) in answer.elements:
            for event in events:
                self._emit(shift.event(event))
            if ok:
                self.keep(i, value)
            else:
                self._end(i, value)
            # Elements after the failure that ends the fan-out count as never started.
            if self.failure is not None:
                return
        await run.host.turn()

    def _emit(self, event: ev.Event) -> None:
        """Emit an event of a worker. A warning about a step of the run is emitted once."""
        if type(event) is ev.Warned and event.diagnostic.code == "run.all-dropped":
            warning = event.diagnostic
            self.site.run.warn_once(warning, (warning.code, warning.span))
        else:
            self.site.run.emit(event)

    def _end(self, i: int, error: BaseException) -> None:
        """The failure of an element: what ``on_error`` says about it."""
        if not is_rescuable(error):
            self.failure = self.failure or error
            return
        # It ends the fan-out: `failure`.
        with contextlib.suppress(StepError):
            self.give_up(i, explained(error, self.each.step.body, self.backend.name))

    def _fail(self, i: int, found: Diagnostic) -> None:
        """An element failed without an answer."""
        if self.failure is not None:
            return
        run, at, error = self.site.run, self.at(i), StepError(found)
        error.path, error.where = at, ev.format_path(at)
        run.emit(ev.StepStarted(at, clock()))
        run.emit(ev.StepFailed(at, clock(), error))
        self._end(i, error)

    async def _stop_flights(self) -> str | None:
        """Cancel the chunks in flight; their elements count as cancelled, whatever their workers
        did. Returns a text if workers are left running."""
        run, running = self.site.run, await self._stopped()
        chunks = f"{len(running)} chunk{'s' * (len(running) != 1)} of elements"
        left = f"left running: {chunks} on {self.backend.name}" if running else None
        for flight in cast("list[ElementFlight]", list(self.flights)):
            for i in flight.numbers:
                at, is_left = self.at(i), flight in running and i == flight.numbers[0]
                run.emit(ev.StepStarted(at, flight.when))
                run.emit(
                    ev.StepAbandoned(at, clock(), left or "")
                    if is_left
                    else ev.StepCancelled(at, clock())
                )
        self.flights = {}
        self._show_placed()
        return left

    async def _stopped(self) -> dict[Flight[ElementEntry], None]:
        """Cancel the chunks in flight, and wait until they have landed, at most the grace of the
        run; then end their workers, if the backend may. Returns those that are left running. A
        second cancellation of this task ends the waiting."""
        running, kills = dict(self.flights), bool(getattr(self.backend, "kills", False))
        for seconds in (self.site.run.host.grace, FORCE)[: 1 + kills]:
            for flight in running:
                flight.cancel()
            if not await self._wait(running, seconds):
                break
        return running

    async def _wait(self, flights: dict[Flight[ElementEntry], None], seconds: float) -> bool:
        """Wait until chunks have landed, and remove these. Returns False if this task was cancelled
        meanwhile."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while flights:
            # Before CPython 3.12, `asyncio.timeout` raises no TimeoutError in a task that was
            # cancelled before.
            next_one = loop.create_task(self.landed.get())
            try:
                await asyncio.wait([next_one], timeout=max(0.0, until - loop.time()))
            except asyncio.CancelledError:
                next_one.cancel()
                return False
            if not next_one.done():
                next_one.cancel()
                return True
            flights.pop(next_one.result()[0], None)
        return True

    def _show_placed(self) -> None:
        """Say how many elements are with workers."""
        self.shown.show(sum(len(flight.entries) for flight in self.flights))


def damaged_answer(body: Step, workers: str, error: BaseException) -> Diagnostic:
    """The failure of elements whose answer cannot be used."""
    name, span = body_name(body)
    message = f"{workers} returned an answer for {name!r} that cannot be used: {error}"[:500]
    hint = (
        "the workers may have another version of this package, or of a library: install the "
        "same versions there"
    )
    return Diagnostic("step.worker-answer", message, span, hint)


def explained(error: StepError, body: Step, workers: str) -> StepError:
    """A failure of a worker; if a module is missing there that this process has, it says so."""
    cause, found = error.__cause__, error.diagnostic
    if found.code == "step.tool-failed" and is_here(cause):
        error.diagnostics = (
            replace(lacking_module(body_name(body)[0], workers, cause), span=found.span),
        )
    return error
