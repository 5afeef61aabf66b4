"""The calls of one run on their way to workers: queued, packed into chunks, sent, and taken apart
again.

For the engine, its events, its limits and its journal, a call is a call: only its way is shared.
All methods run on the run's loop; a backend reports on any thread.

Chunks of elements in flight, and the failures of elements without an answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar

from ..engine.limits import Grant, granted
from ..engine.runner import clock
from ..engine.threads import Call, Placement, Terms
from ..engine.user_code import TimedOut
from ..flow.step import Step
from ..flow.steps import Invoke
from ..text.diagnostics import Diagnostic, StepError
from ..text.source import Source
from . import chunk
from .backend import WANTED, Cancel, ChunkSize, Dispatcher, Lost, Shown, WorkerBackend
from .element_chunk import body_name, run_elements
from .outcomes import NO_SIGN, Entry, Flight, end_call, is_here, lacking_module, worker_lost
from .program import version_of_workers
from .sending import (
    HEAVY,
    Program,
    SharedData,
    heavy_function,
    unsendable_arguments,
    unsendable_function,
)

C = TypeVar("C", bound=Call)

RESULT = 256_000_000
"""Bytes of the result of one call, at most."""

KERNEL = secrets.token_hex(8)
"""The name of this process: a chunk that an executor runs in it prints without a detour."""


class CallQueue:
    """The calls of one run that workers make."""

    def __init__(
        self, backend: WorkerBackend, warn: Callable[[Diagnostic], None] | None = None
    ) -> None:
        """``warn`` receives the warnings of the run."""
        self.dispatcher = Dispatcher(backend, warn)
        self.warn = warn
        self._lines: dict[object, Line] = {}
        self._sizes: dict[int, ChunkSize] = {}
        self._programs: dict[int, Program | Exception] = {}
        state: Any = sys.modules.setdefault("_agf_chunk", types.ModuleType("_agf_chunk"))
        state.kernel = getattr(state, "kernel", KERNEL)

    @property
    def backend(self) -> WorkerBackend:
        return self.dispatcher.backend

    @property
    def lanes(self) -> int:
        return max(self.backend.lanes, 1)

    @property
    def wanted(self) -> int:
        return self.wanted_of(max((size.size for size in self._sizes.values()), default=1))

    def wanted_of(self, size: int, limit: int | None = None) -> int:
        """``size``: of the chunks; ``limit``: of concurrent calls."""
        lanes = self.lanes if limit is None else min(limit, self.lanes)
        return min(lanes * (self.dispatcher.ahead + 1) * size, WANTED)

    def hand(self, call: Call, terms: Terms) -> None:
        """Make ``call`` on a worker. Its result is set on the loop."""
        self.line(call.function, terms, granted.get(), False).add([Entry(call, None)])

    def pool(
        self,
        report: Callable[[list[C]], None],
        terms: Terms,
        halts: bool,
        place: Callable[[Placement], None],
    ) -> RemotePool[C]:
        return RemotePool(self, report, terms, halts, place)

    def on_change(self, wake: Callable[[], None]) -> Callable[[], None]:
        self.dispatcher.listeners[wake] = None
        return partial(self.dispatcher.listeners.pop, wake, None)

    def line(
        self,
        function: Callable[..., Any],
        terms: Terms,
        grant: Grant,
        stops: bool,
        bound: object = None,
    ) -> Line:
        """The queue of calls with the same function and terms."""
        key = (id(function), terms, grant, stops, bound if terms.limit is not None else None)
        found = self._lines.get(key)
        if found is None:
            program = self._program(function)
            size = (
                ChunkSize()
                if terms.has_effect
                else self._sizes.setdefault(id(function), ChunkSize())
            )
            found = self._lines[key] = Line(self, function, program, terms, grant, stops, size)
            self.dispatcher.add(found)
        return found

    def forget(self, line: Line) -> None:
        """A fan-out with a limit of its own has ended."""
        self.dispatcher.remove(line)
        self._lines = {key: other for key, other in self._lines.items() if other is not line}

    def _program(self, function: Callable[..., Any]) -> Program | Exception:
        found = self._programs.get(id(function))
        if found is None:
            try:
                found = Program(function)
                if self.warn is not None and len(found.pickled) > HEAVY:
                    self.warn(heavy_function(found))
            except Exception as error:
                found = unsendable_function(function, error)
            self._programs[id(function)] = found
        return found


class Line:
    """The calls of one function under the same terms, in their order; a source of chunks."""

    def __init__(
        self,
        queue: CallQueue,
        function: Callable[..., Any],
        program: Program | Exception,
        terms: Terms,
        grant: Grant,
        stops: bool,
        size: ChunkSize,
    ) -> None:
        self.queue, self.function, self.program, self.terms, self.size = (
            queue,
            function,
            program,
            terms,
            size,
        )
        self.stops = stops
        self.waiting: deque[Entry] = deque()
        self.lost: deque[Entry] = deque()
        """Calls whose worker was lost: they are sent again, alone."""
        self.flights = 0
        tools = None if grant.tools is None else tuple(sorted(grant.tools))
        self.order = {
            "timeout": terms.timeout,
            "stops": stops,
            "grant": (grant.identity, tools),
            "most": RESULT,
            "kernel": KERNEL,
            "effect": terms.has_effect,
            "resources": dict(terms.resources),
        }

    @property
    def backend(self) -> WorkerBackend:
        return self.queue.backend

    def add(self, entries: Sequence[Entry], first: bool = False) -> None:
        if isinstance(self.program, Exception):
            loop = asyncio.get_running_loop()
            loop.call_soon(self._refuse, list(entries), self.program)
            return
        if first:
            self.waiting.extendleft(reversed(entries))
        else:
            self.waiting.extend(entries)
        self.queue.dispatcher.wake()

    def _refuse(self, entries: list[Entry], error: Exception) -> None:
        for entry in entries:
            if entry.call.take():
                end_call(entry, (False, error))

    @property
    def has_suspects(self) -> bool:
        return bool(self.lost)

    def next(self, lanes: int) -> Flight | None:
        """The next chunk; None: nothing waits, or the author's limit is reached."""
        lanes = min(lanes, self.terms.limit or lanes)
        most = 1 if self.terms.has_effect else self.size.next(len(self.waiting), lanes)
        while (self.lost or self.waiting) and not (
            self.terms.limit and self.flights >= self.terms.limit
        ):
            entries = self._take(1, self.lost) if self.lost else self._take(most, self.waiting)
            flight = self._packed(entries) if entries else None
            if flight is not None:
                self.flights += 1
                flight.place(1)
                return flight
        return None

    def _take(self, most: int, source: deque[Entry]) -> list[Entry]:
        found = list[Entry]()
        while source and len(found) < most:
            entry = source.popleft()
            if entry.call.take():  # else it was cancelled
                found.append(entry)
        return found

    def _packed(self, entries: list[Entry]) -> Flight | None:
        """A chunk; None: its only call cannot be sent. Of a chunk with such a call, only the first
        call is sent now."""
        program = self.program
        assert isinstance(program, Program)
        try:
            pool = entries[0].pool
            given = program.pack(
                [entry.call.given for entry in entries], pool.shared if pool is not None else None
            )
        except Exception as error:
            if len(entries) == 1:
                end_call(
                    entries[0], (False, unsendable_arguments(program, entries[0].call.given, error))
                )
                return None
            for entry in reversed(entries[1:]):
                entry.call.give_back()
                self.waiting.appendleft(entry)
            return self._packed(entries[:1])
        self.size.weigh_given(len(given) / len(entries))
        order = (program.pickled, program.digest, given, len(entries), self.order)
        return Flight(self, entries, chunk.run, order)


class RemotePool(Generic[C]):
    """The calls of one fan-out; see `host.remote.CallPool`."""

    is_quick = False

    def __init__(
        self,
        queue: CallQueue,
        report: Callable[[list[C]], None],
        terms: Terms,
        halts: bool,
        place: Callable[[Placement], None],
    ) -> None:
        self.queue, self.report, self.terms, self.halts = queue, report, terms, halts
        self.in_flight = 0
        self._shown = Shown(queue.dispatcher, place)
        self.grant = granted.get()
        share: Callable[[], str] | None = getattr(queue.backend, "folder", None)
        self.shared = SharedData(share()) if share is not None else None
        self.halted = False
        self.held = list[Entry]()
        """Calls that wait for the next `hand` after a failure."""
        self._line: Line | None = None

    @property
    def running(self) -> list[C]:
        return []

    @property
    def wanted(self) -> int:
        size = self._line.size.size if self._line is not None else 1
        return self.queue.wanted_of(1 if self.terms.has_effect else size, self.terms.limit)

    def move(self, count: int) -> None:
        """So many more calls are with workers."""
        self.in_flight += count
        self._shown.show(self.in_flight)

    def hand(self, calls: Sequence[C], first: Sequence[C] = (), resumes: bool = True) -> None:
        new, early = [Entry(call, self) for call in calls], [Entry(call, self) for call in first]
        if self.halted and not resumes:
            self.held = [*early, *self.held, *new]
            return
        early += self.held
        self.held, self.halted = [], False
        if self._line is None:
            if not calls and not first:
                return
            function = next(iter((*first, *calls))).function
            self._line = self.queue.line(function, self.terms, self.grant, self.halts, bound=self)
        if early:
            self._line.add(early, first=True)
        if new:
            self._line.add(new)

    def halt(self) -> None:
        """Send no further call before the next `hand`."""
        self.halted = True
        self.held += self._withdraw()

    def take_back(self) -> list[C]:
        held, self.held = self.held, []
        found: list[Any] = [entry.call for entry in (*held, *self._withdraw())]
        return found

    def close(self) -> None:
        self.take_back()
        self._shown.close()
        if self.shared is not None:
            self.shared.close()
        if self._line is not None and self.terms.limit is not None:
            self.queue.forget(self._line)

    def _withdraw(self) -> list[Entry]:
        found = list[Entry]()
        for source in (self._line.lost, self._line.waiting) if self._line is not None else ():
            found += [entry for entry in source if entry.pool is self]
            rest = [entry for entry in source if entry.pool is not self]
            source.clear()
            source.extend(rest)
        return found


FORCE = 1.0
"""Seconds in which the worker of a chunk that did not end in time is ended."""

Landed = asyncio.Queue[tuple["ElementFlight", Any]]
"""The chunks that are back, with their outcomes."""


class Sent:
    """What all chunks of a fan-out share."""

    def __init__(
        self,
        program: bytes,
        sources: Sequence[Source],
        modules: Sequence[str],
        limit: float | None,
    ) -> None:
        """``limit``: seconds that each call of an element may take; None: one has no limit."""
        self.program, self.sources, self.modules = program, sources, modules
        self.limit = limit
        self.digest = hashlib.sha256(program).hexdigest()


class ElementFlight:
    """A chunk of elements."""

    def __init__(
        self, landed: Landed, sent: Sent, numbers: list[int], given: bytes, is_suspect: bool
    ) -> None:
        """``given``: the pickled numbers and elements; ``is_suspect``: their worker was lost
        before."""
        self.landed, self.numbers, self.weight = landed, numbers, len(given)
        self.run: Callable[..., Any] = run_elements
        options = {
            "kernel": KERNEL,
            "version": version_of_workers(),
            "most": RESULT,
            "timeout": sent.limit,
        }
        self.order: tuple[Any, ...] = (sent.program, sent.digest, given, len(numbers), options)
        self.shared = False
        self.is_suspect = is_suspect
        self.cancel: Cancel = _nothing
        self.when = clock()

    def land(self, outcome: Any) -> None:
        self.landed.put_nowait((self, outcome))


async def stopped(
    flights: Iterable[ElementFlight], landed: Landed, backend: WorkerBackend, grace: float
) -> dict[ElementFlight, None]:
    """Cancel chunks, and wait until they have landed, at most ``grace`` seconds; then end their
    workers, if the backend may. Returns those that are left running. A second cancellation of this
    task ends the waiting."""
    running = dict.fromkeys(flights)
    for flight in running:
        flight.cancel()
    waited = await _wait(running, landed, grace)
    if running and waited and getattr(backend, "kills", False):
        for flight in running:
            flight.cancel()
        await _wait(running, landed, FORCE)
    return running


async def _wait(flights: dict[ElementFlight, None], landed: Landed, seconds: float) -> bool:
    """Wait until chunks have landed, and remove these. Returns False if this task was cancelled
    meanwhile."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while flights:
        # Before CPython 3.12, `asyncio.timeout` raises no TimeoutError in a task that was cancelled
        # before.
        next_one = loop.create_task(landed.get())
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


def is_refused(outcome: Any) -> bool:
    return type(outcome) is tuple and len(outcome) == 5 and outcome[0] == "no"


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
    if (
        found.code == "step.tool-failed"
        and isinstance(cause, ModuleNotFoundError)
        and is_here(cause)
    ):
        error.diagnostics = (
            replace(lacking_module(body_name(body)[0], workers, cause), span=found.span),
        )
    return error


def element_lost(body: Step, losses: Sequence[str], lost: Lost) -> Diagnostic:
    """The failure of an element whose worker was lost: see `outcomes.worker_lost`."""
    name, span = body_name(body)
    if lost.late is not None and not lost.gone:
        message = f"{name!r} {TimedOut(lost.late, NO_SIGN)}"
        hint = "timeout= of @tool, or step_timeout, sets how long a call may take"
        return Diagnostic("step.timeout", message, span, hint)
    what = "call" if isinstance(body, Invoke) else "element"
    return replace(worker_lost(name, what, losses or [str(lost)], lost.gone), span=span)


def _nothing() -> None:
    pass
