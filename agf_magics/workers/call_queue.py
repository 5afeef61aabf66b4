"""`CallQueue`, which takes the calls of one run to workers and their results back.

Calls wait in lines, one for each function, travel together in chunks, and end one by one: the engine,
its events, its limits and its journal see single calls. All methods run on the run's loop; a backend
reports on any thread. `backends.dispatcher` decides when a line sends its next chunk.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import types
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from ..catalog.tools.outcome_unknown import OutcomeUnknown
from ..compat.imports import for_the_person
from ..engine.host.remote_calls import Placement, Terms
from ..engine.threads.call_threads import ThreadCall, name_of
from ..engine.threads.user_code import Result, TimedOut
from ..limits.grants import Grant, granted
from ..text.diagnostics import Diagnostic, StepError
from . import chunk
from .backends.backend import Lost, WorkerBackend, nothing
from .backends.chunk_size import MOST_OPEN, ChunkSize
from .backends.dispatcher import Dispatcher, Entry, Flight, Line, Parcel, Shown
from .backends.prints import write_print
from .outcomes import OutcomeReader
from .sending.argument_files import ArgumentFiles, in_file
from .sending.functions import Program
from .sending.losses import NO_SIGN, worker_lost
from .sending.result_files import ResultFile, packed_size, prefix_in, remove_files, unpacked
from .sending.sent_once import SharedValues
from .sending.unsendable import (
    HEAVY,
    heavy_function,
    unsendable_arguments,
    unsendable_function,
)

RESULT = 256_000_000
"""The most bytes of the result of one call."""

KERNEL = secrets.token_hex(8)
"""The name of this process. A chunk that an executor runs in this process knows it by the name, and then
prints without a detour."""


C = TypeVar("C", bound=ThreadCall)


class CallQueue:
    """The calls of one run that workers make."""

    def __init__(
        self, backend: WorkerBackend, warn: Callable[[Diagnostic], None] = nothing
    ) -> None:
        """``warn``: receives the warnings of the run."""
        self.dispatcher = Dispatcher(backend, warn)
        self.listeners = self.dispatcher.listeners
        self.backend, self.warn = backend, warn
        self._lines: dict[object, CallLine] = {}
        """The lines by function and terms."""
        self._sizes: dict[int, ChunkSize] = {}
        """The learned sizes of chunks, by the identity of the function."""
        self._programs: dict[int, Program | Exception] = {}
        """The pickled functions, or why one cannot be sent, by the identity of the function."""
        state: Any = sys.modules.setdefault("_agf_chunk", types.ModuleType("_agf_chunk"))
        # Set before any chunk is sent, because a chunk that an executor runs in this process reads it.
        state.kernel = getattr(state, "kernel", KERNEL)

    @property
    def wanted_calls(self) -> int:
        return self.calls_for_lanes(max((size.size for size in self._sizes.values()), default=1))

    def calls_for_lanes(self, size: int, limit: int | None = None) -> int:
        """The number of calls that should have started and not ended, so that no lane waits.
        ``size``: the calls of a chunk. ``limit``: the largest number of concurrent calls; None: one
        for each lane."""
        lanes = max(self.backend.lanes, 1)
        lanes = min(limit or lanes, lanes)
        return min(lanes * (self.dispatcher.ahead + 1) * size, MOST_OPEN)

    def hand(self, call: ThreadCall, terms: Terms) -> None:
        """Make ``call`` on a worker. Its result is set on the loop."""
        self.line(call.function, terms, granted.get(), False).add([CallEntry(call, None)])

    def fan_out(
        self,
        function: Callable[..., Any],
        report: Callable[[list[C]], None],
        terms: Terms,
        halts: bool,
        show: Callable[[Placement], None],
    ) -> RemoteFanOut[C]:
        """See `RemoteCalls.fan_out`."""
        return RemoteFanOut(self, function, report, terms, halts, show)

    def line(
        self,
        function: Callable[..., Any],
        terms: Terms,
        grant: Grant,
        stops: bool,
        bound: object = None,
    ) -> CallLine:
        """The queue of calls with the same function and terms. ``stops``: whether a failure ends the
        chunk. ``bound``: the fan-out, which has a line of its own if it has a limit."""
        # The key has the id of the function, because two functions may be equal. The line keeps the
        # function alive, so that no other function gets the same id.
        key = (id(function), terms, grant, stops, bound if terms.limit is not None else None)
        line = self._lines.get(key)
        if line is None:
            # Calls with an effect travel alone, so nothing is learned from them about chunks.
            size = ChunkSize()
            if not terms.has_effect:
                size = self._sizes.setdefault(id(function), size)
            line = CallLine(self, size, terms, function)
            tools = None if grant.tools is None else tuple(sorted(grant.tools))
            line.options |= {
                "stops": stops,
                "grant": (grant.identity, tools, grant.only_if_asking, grant.barred),
            }
            self._lines[key] = line
            self.dispatcher.lines[line] = None
        return line

    def forget(self, line: CallLine) -> None:
        """Remove the line of a fan-out that had its own limit and has ended."""
        self.dispatcher.lines.pop(line, None)
        self._lines = {key: kept for key, kept in self._lines.items() if kept is not line}

    def program(self, function: Callable[..., Any]) -> Program | Exception:
        """The function as it is sent, or the error if it cannot be sent. The function is pickled once
        in a run, when its first call is sent."""
        program = self._programs.get(id(function))
        if program is None:
            try:
                program = Program(function)
                if len(program.pickled) > HEAVY:
                    self.warn(heavy_function(program))
            except Exception as error:
                program = unsendable_function(function, error)
            self._programs[id(function)] = program
        return program


class CallEntry(Entry):
    """A call in the queue."""

    __slots__ = ("call", "fan_out")

    def __init__(self, call: ThreadCall, fan_out: RemoteFanOut[Any] | None) -> None:
        """``fan_out``: the fan-out of the call; None: a single call, for which a task waits."""
        super().__init__()
        self.call, self.fan_out = call, fan_out

    def end(self, result: Result) -> None:
        """Set the result of the call and report it."""
        _report([(self, result)])


def _report(ended: list[tuple[CallEntry, Result]]) -> None:
    """Set the results of calls, and report to each fan-out all its calls at once."""
    calls_of = dict[Any, list[ThreadCall]]()
    for entry, result in ended:
        entry.call.end(result)
        if entry.fan_out is not None:
            calls_of.setdefault(entry.fan_out, []).append(entry.call)
            if entry.fan_out.halts and not result[0]:
                entry.fan_out.halt()
    for fan_out, calls in calls_of.items():
        fan_out.report(calls)


class CallLine(Line[CallEntry]):
    """The calls of one function under the same terms, in their order."""

    def __init__(
        self,
        queue: CallQueue,
        size: ChunkSize,
        terms: Terms,
        function: Callable[..., Any],
    ) -> None:
        super().__init__(queue.dispatcher, size, terms.limit)
        self.queue = queue
        self.function = function
        self.has_effect = terms.has_effect
        self.name = terms.name or name_of(function)
        self.options: dict[str, Any] = {
            "timeout": terms.timeout,
            "most": RESULT,
            "kernel": KERNEL,
            "effect": terms.has_effect,
            "resources": dict(terms.resources),
        }
        """The options of the line's chunks, as `chunk.run` takes them."""

    def add(self, entries: Sequence[CallEntry], first: Sequence[CallEntry] = ()) -> None:
        """Send ``entries`` after the calls that wait, and ``first`` before them."""
        self.waiting.extendleft(reversed(first))
        self.waiting.extend(entries)
        # Sent in the next turn, because the code that adds calls is not ready yet for their ends.
        self.dispatcher.wake()

    @property
    def has_more(self) -> bool:
        return bool(self.lost or self.waiting)

    def take(self, lanes: int) -> list[CallEntry]:
        source, most = self.waiting, 1
        if self.lost:
            source = self.lost
        elif not self.has_effect:
            most = self.size.next(len(self.waiting), min(lanes, self.limit or lanes))
        entries = list[CallEntry]()
        while source and len(entries) < most:
            entry = source.popleft()
            # A call that was cancelled meanwhile cannot be taken.
            if entry.call.take():
                entries.append(entry)
        return entries

    def pack(self, entries: list[CallEntry]) -> Parcel:
        program = self.queue.program(self.function)
        if isinstance(program, Exception):
            # Raised without its traceback, which would grow with each call that gets the same error.
            raise program.with_traceback(None)
        fan_out = entries[0].fan_out
        arguments = [entry.call.arguments for entry in entries]
        files = prefix_in(getattr(self.backend, "folder", None))
        shared = fan_out.shared if fan_out is not None else _shared(files, False)
        try:
            if type(shared) is ArgumentFiles:
                data, sizes, kept_alive = shared.packed(arguments, program)
                return Parcel(data, sizes, files, kept_alive)
            if type(shared) is SharedValues:
                after = self.waiting[0].call.arguments if self.waiting else {}
                data, sizes, sent_once = shared.packed(arguments, after, program)
                return Parcel(data, sizes, shared=sent_once)
            return Parcel(*program.dump_each(arguments))
        except BaseException:
            remove_files(files)
            raise

    def flight(self, entries: list[CallEntry], parcel: Parcel) -> CallFlight:
        program = self.queue.program(self.function)
        assert isinstance(program, Program), "`pack` has used it"
        packed = in_file(parcel.data, f"{parcel.files}given" if parcel.files else "")
        results = ResultFile(parcel.files, is_alone=len(entries) == 1)
        options = {**self.options, "results": results.paths}
        order = (program.pickled, program.digest, packed, parcel.sizes, *parcel.shared, options)
        flight = CallFlight(self, entries, order, parcel, results)
        flight.tell_fan_outs(1)
        return flight

    def refuse(self, entry: CallEntry, error: Exception) -> None:
        program = self.queue.program(self.function)
        if isinstance(program, Program):
            error = unsendable_arguments(program, entry.call.arguments, error)
        entry.end((False, error))

    def give_back(self, entries: Sequence[CallEntry], queue: deque[CallEntry]) -> None:
        for entry in reversed(entries):
            if entry.call.stopped:
                entry.end(_CANCELLED)
                continue
            entry.call.give_back()
            if entry.fan_out is not None and entry.fan_out.halted:
                entry.fan_out.held.insert(0, entry)
            else:
                queue.appendleft(entry)

    def fail(self, entry: CallEntry, lost: Lost) -> None:
        error: Exception
        if entry.call.stopped:
            return entry.end(_CANCELLED)
        if self.has_effect:
            error = OutcomeUnknown(f"its worker was lost: {lost}")
        elif lost.late is not None:
            error = TimedOut(lost.late, NO_SIGN)
        else:
            error = StepError(worker_lost(self.name, "call", entry.workers, lost.gone))
        entry.end((False, error))


class CallFlight(Flight[CallEntry]):
    """A chunk of calls."""

    def __init__(
        self,
        line: CallLine,
        entries: list[CallEntry],
        order: tuple[Any, ...],
        parcel: Parcel,
        results: ResultFile,
    ) -> None:
        super().__init__(entries, chunk.run, order)
        self.line, self.files, self._kept_alive = line, parcel.files, parcel.kept_alive
        self._results_file = results
        self.where = f" on {line.backend.name}"
        """The place, for the message about a call that is left running."""
        self.kills = bool(getattr(line.backend, "kills", False))
        """Whether `interrupt` with ``force`` can end the call; the engine's host reads this."""
        self._cancels_sent = 0
        for entry in entries:
            # To stop a call, the host calls `interrupt` of the call's waiter.
            entry.call.waiter = self

    def interrupt(self, call: ThreadCall, force: bool = False) -> None:
        """Note that a call is not needed any more. If no call of the chunk is needed, the chunk is
        cancelled; with ``force``, its worker ends."""
        # A chunk is one task: it cannot be cancelled for one call without the others.
        if any(not entry.call.stopped for entry in self.entries):
            return
        # The first cancel stops the task, the second one ends its worker.
        allowed = 2 if force and self.kills else 1
        if self._cancels_sent < allowed:
            self._cancels_sent += 1
            self.cancel()

    def tell_fan_outs(self, sign: int) -> None:
        """Tell each fan-out how many of its calls are with a worker from now on (``sign`` 1), or are
        back (-1)."""
        for fan_out, count in Counter(entry.fan_out for entry in self.entries).items():
            if fan_out is not None:
                fan_out.move(sign * count)

    def land(self, outcome: Any) -> None:
        line = self.line
        del line.flights[self]
        self.tell_fan_outs(-1)
        for entry in self.entries:
            entry.call.waiter = None
        if isinstance(outcome, Lost):
            line.lose(self, outcome)
        elif isinstance(outcome, BaseException):
            self._fail(outcome)
        else:
            try:
                self._read_outcome(*outcome)
            except Exception as error:
                # A backend of the person may return anything.
                self._fail(error)
        self._kept_alive = []
        self._results_file.close()
        remove_files(self.files)

    @property
    def _reader(self) -> OutcomeReader:
        return OutcomeReader(self.line.name, self.line.backend.name)

    def _fail(self, error: BaseException) -> None:
        """Fail all calls of the chunk."""
        failure = self._reader.failure(error)
        _report([(entry, (False, failure)) for entry in self.entries])

    def _read_outcome(
        self, marks: str, data: Any, seconds: float, prints: list[tuple[int, str, str]], worker: str
    ) -> None:
        """Take the outcome of a chunk that a worker has made, a `chunk.Outcome`."""
        line = self.line
        for i, name, text in prints:
            # Printed in the context of the call, so that a watched run shows the print at its step.
            self.entries[i].call.context.run(write_print, name, text)
        if len(marks) != len(self.entries):
            raise ValueError(f"{len(self.entries)} calls were sent, and {len(marks)} are back")
        # The marks at the end are of calls after a failure that ended the chunk.
        marks = marks.rstrip(chunk.NOT_STARTED)
        begun, not_started = self.entries[: len(marks)], self.entries[len(marks) :]
        # A worker that starts no call at all counts as lost, because the calls would be sent to it for
        # ever.
        if not begun:
            line.lose(self, Lost(f"{worker} made none of the calls that it was sent"))
            return
        if not line.has_effect:
            line.size.learn(seconds, len(begun), line.backend.lanes, sum(map(packed_size, data)))
        with for_the_person():  # may run the code of a user's class
            results = [self._result(*part, worker) for part in zip(marks, data, strict=True)]
        _report(list(zip(begun, results, strict=True)))
        line.give_back(not_started, line.waiting)

    def _result(self, mark: str, packed: Any, worker: str) -> Result:
        """The result of a call; a failure if this process cannot read it."""
        try:
            value = unpacked(packed, self._results_file)
        except BaseException as error:
            # Reading a pickle can raise SystemExit, too.
            return False, self._reader.unpacking_failed(error)
        return self._reader.result(mark, value, worker)


def _shared(files: str, sends_once: bool) -> ArgumentFiles | SharedValues | None:
    """The way in which large arguments travel apart from the others; None if they do not. ``files``: the
    beginning of the paths of their files, empty if there can be no files."""
    if files:
        return ArgumentFiles(files)
    return SharedValues() if sends_once else None


_CANCELLED: Result = (False, asyncio.CancelledError())
"""The result of a call that was cancelled before it started."""


class RemoteFanOut(Generic[C]):
    """The calls of one fan-out, as the engine's protocol `FanOutCalls` describes them."""

    def __init__(
        self,
        queue: CallQueue,
        function: Callable[..., Any],
        report: Callable[[list[C]], None],
        terms: Terms,
        halts: bool,
        show: Callable[[Placement], None],
    ) -> None:
        self.queue = queue
        self.report = report
        self.terms = terms
        self.halts = halts
        self.in_flight = 0
        """The number of calls that are with workers."""
        self._shown = Shown(queue.dispatcher, show)
        files = prefix_in(getattr(queue.backend, "folder", None))
        self.shared = _shared(files, getattr(queue.backend, "sends_once", False))
        self._is_closed = False
        self.halted = False
        """Whether a failure was reported that `hand` has not handled yet."""
        self.held = list[CallEntry]()
        """Calls that wait after a failure until the next `hand`."""
        self._line = queue.line(function, terms, granted.get(), halts, bound=self)

    @property
    def wanted_calls(self) -> int:
        size = 1 if self.terms.has_effect else self._line.size.size
        return self.queue.calls_for_lanes(size, self.terms.limit)

    def move(self, count: int) -> None:
        """Note that ``count`` more calls are with workers; a negative number: fewer."""
        self.in_flight += count
        self._shown.show(self.in_flight)
        self._remove_shared()

    def hand(self, calls: Sequence[C], first: Sequence[C] = (), resumes: bool = True) -> None:
        new = [CallEntry(call, self) for call in calls]
        early = [CallEntry(call, self) for call in first]
        # Calls in ``first`` stay first: an element that is tried again precedes waiting elements.
        if self.halted and not resumes:
            self.held = [*early, *self.held, *new]
            return
        early += self.held
        self.held, self.halted = [], False
        self._line.add(new, first=early)

    def halt(self) -> None:
        """Send no further call before the next `hand`."""
        self.halted = True
        self.held += self._withdraw()

    def close(self) -> None:
        self.held = []
        self._withdraw()
        self._shown.close()
        self._is_closed = True
        self._remove_shared()
        if self.terms.limit is not None:
            self.queue.forget(self._line)

    def _remove_shared(self) -> None:
        """Remove the files of the arguments, once the fan-out has ended and no worker needs them."""
        # A chunk on its way still needs the files: its worker may not have read them yet.
        if self._is_closed and not self.in_flight and self.shared is not None:
            self.shared.close()

    def _withdraw(self) -> list[CallEntry]:
        """Take the waiting calls of this fan-out out of the line."""
        entries = list[CallEntry]()
        for source in (self._line.lost, self._line.waiting):
            entries += [entry for entry in source if entry.fan_out is self]
            # Changed in place, because the dispatcher may be looking at this queue.
            others_entries = [entry for entry in source if entry.fan_out is not self]
            source.clear()
            source.extend(others_entries)
        return entries
