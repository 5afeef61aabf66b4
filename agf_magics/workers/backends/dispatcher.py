"""Lines of waiting calls, and the dispatcher that sends them as chunks and repeats what was lost.

A line has the calls of one function; call_queue.py fills lines and reads results. A lane is a place where
one call can run. As many chunks are in flight as keep the lanes busy, and no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from ...engine.host.remote_calls import Placement
from ...text.diagnostics import Diagnostic
from ..sending.sent_once import SentOnce
from .backend import Cancel, Lost, WorkerBackend, nothing
from .chunk_size import ChunkSize

LOSSES = 3
"""The number of times that a call is sent again after the loss of its worker."""


AHEAD = 2
"""Chunks in flight for each lane: one that runs and one that waits for it."""


class Parcel(NamedTuple):
    """The arguments of a chunk."""

    data: bytes
    """The pickles of the arguments of the calls, one after another."""
    sizes: Sequence[int]
    """The bytes of each pickle."""
    files: str = ""
    """The beginning of the paths of the chunk's files; empty if the chunk has no files."""
    kept_alive: Sequence[Any] = ()
    """Objects that keep files alive until the chunk is back."""
    shared: Sequence[SentOnce] = ()
    """Arguments that other chunks have, too, and that are sent once."""


class Entry:
    """A call on its way."""

    __slots__ = ("losses", "workers")

    def __init__(self) -> None:
        self.losses = 0
        """The number of losses for which the call may be to blame; after any loss at least 1, which
        makes the call travel alone and its chunk a suspect."""
        self.workers: list[str] = []
        """How the workers of the call were lost, one text for each loss."""


E = TypeVar("E", bound=Entry)


class Flight(ABC, Generic[E]):
    """A chunk: one trip of calls to a worker."""

    def __init__(self, entries: list[E], run: Callable[..., Any], order: tuple[Any, ...]) -> None:
        self.entries = entries
        self.run = run
        self.order = order
        self.shared = False
        """Whether other chunks were in flight at the same time; set by the dispatcher."""
        self.is_suspect = bool(entries[0].losses)
        """Whether a worker was lost with these calls before."""
        self.cancel: Cancel = nothing
        """Cancels the chunk; set by the dispatcher when it sends the chunk."""

    @abstractmethod
    def land(self, outcome: Any) -> None:
        """Take the outcome of the chunk, a `Lost`, or the exception with which the backend failed.
        Called once, on the loop."""


class Line(ABC, Generic[E]):
    """The calls of one function on their way to workers. Makes chunks of the calls that wait, and sends
    the calls of a lost worker again."""

    has_effect = False
    """Whether the calls have an effect, so that none is sent twice."""

    def __init__(self, dispatcher: Dispatcher, size: ChunkSize, limit: int | None) -> None:
        """``limit``: the most concurrent calls that the author allows, which is the most chunks in
        flight, because the calls of a chunk run one after another. None: `Dispatcher.ahead` for
        each lane."""
        self.dispatcher, self.backend = dispatcher, dispatcher.backend
        self.size, self.limit = size, limit
        self.waiting: deque[E] = deque()
        """Calls that wait to be sent."""
        self.lost: deque[E] = deque()
        """Calls whose worker was lost. They travel alone, so that the next loss names its cause."""
        self.flights: dict[Flight[E], None] = {}
        """The chunks in flight."""

    @property
    @abstractmethod
    def has_more(self) -> bool:
        """Whether a call waits and may be sent."""

    @abstractmethod
    def take(self, lanes: int) -> list[E]:
        """Take the calls of the next chunk from the line; empty if they were cancelled."""

    @abstractmethod
    def pack(self, entries: list[E]) -> Parcel:
        """The arguments of ``entries`` as bytes. Raises whatever pickling raises."""

    @abstractmethod
    def flight(self, entries: list[E], parcel: Parcel) -> Flight[E]:
        """A chunk of packed ``entries``."""

    @abstractmethod
    def refuse(self, entry: E, error: Exception) -> None:
        """Give a call that cannot be packed its error."""

    @abstractmethod
    def fail(self, entry: E, lost: Lost) -> None:
        """Give a call whose worker was lost too often its error."""

    def give_back(self, entries: Sequence[E], queue: deque[E]) -> None:
        """Let calls that have not started wait again, before the others of ``queue``."""
        queue.extendleft(reversed(entries))

    def next(self, lanes: int) -> Flight[E] | None:
        """The next chunk. None if nothing waits, the author's limit is reached, or the kernel has not
        caught up. After the loss of a worker: a chunk with one call that the worker had."""
        # Chunks that have landed count until the kernel has read them: a slow kernel is not flooded.
        most = lanes * self.dispatcher.ahead
        while self.has_more and len(self.flights) < min(self.limit or most, most):
            entries = self.take(lanes)
            flight = self._packed(entries) if entries else None
            if flight is not None:
                self.flights[flight] = None
                return flight
        return None

    def _packed(self, entries: list[E]) -> Flight[E] | None:
        """A chunk of ``entries``. If one of several calls cannot be packed, only the first call is tried
        now. None if a single call cannot be packed."""
        try:
            parcel = self.pack(entries)
        except Exception as error:
            if len(entries) > 1:
                self.give_back(entries[1:], self.waiting)
                return self._packed(entries[:1])
            self.refuse(entries[0], error)
            return None
        self.size.learn_argument_size(len(parcel.data) / len(entries))
        return self.flight(entries, parcel)

    def lose(self, flight: Flight[E], lost: Lost) -> None:
        """Handle the loss of a chunk's worker: the calls are sent again, each alone, or fail."""
        names_chunk = self.backend.identifies_lost_chunk
        was_alone = len(flight.entries) == 1 and (names_chunk or not flight.shared)
        # A call that was alone would be lost again if it passed its time limit, or if the backend has
        # repeated it already.
        would_be_lost_again = was_alone and (lost.last or lost.late is not None)
        is_last = self.has_effect or lost.gone or would_be_lost_again
        sent_again: list[E] = []
        for entry in flight.entries:
            if not lost.cancelled:
                # A pool that breaks loses all its chunks: only a call that was alone is to blame.
                entry.losses += was_alone or names_chunk
                entry.workers.append(str(lost))
            if is_last or entry.losses > LOSSES:
                entry.workers = entry.workers or [str(lost)]
                self.fail(entry, lost)
            else:
                # Also after a loss on purpose: the call is sent alone, so that it cannot take others
                # with it.
                entry.losses = max(1, entry.losses)
                sent_again.append(entry)
        self.give_back(sent_again, self.lost)


class Dispatcher:
    """Takes chunks from its lines in turn and sends them through a backend."""

    def __init__(
        self, backend: WorkerBackend, warn: Callable[[Diagnostic], None] = nothing
    ) -> None:
        """``warn``: receives the warnings of the run."""
        self.backend = backend
        self.ahead = int(getattr(backend, "ahead", AHEAD))
        """Chunks in flight for each lane."""
        self.in_flight: dict[Flight[Any], None] = {}
        """The chunks in flight, of all lines."""
        self.listeners: dict[Callable[[], None], None] = {}
        """Functions that are called after each chunk."""
        self.warn = warn
        self.fan_outs: dict[Shown, None] = {}
        """The fan-outs on workers that have not ended."""
        self.lines: dict[Line[Any], None] = {}
        """The lines of which chunks are made, in the order of their turns."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """The run's loop; None until the first call is queued."""
        self._context = contextvars.copy_context()
        self._due = False
        """Whether `send` is scheduled."""

    def wake(self) -> None:
        """Send what waits in the next turn of the loop: calls that are queued in one turn share a
        chunk."""
        if self._loop is None:
            # Everything runs in the context of the run, which has its rights and its prints, and not in
            # the context of the thread on which a backend reports.
            self._loop, self._context = asyncio.get_running_loop(), contextvars.copy_context()
            getattr(self.backend, "notify_started", nothing)(lambda: self._call(self._show_started))
            getattr(self.backend, "notify_warning", nothing)(self)
        # Sent in the next turn: the other calls of this turn belong into the same chunk.
        if not self._due:
            self._due = True
            self._loop.call_soon(self.send)

    def send(self) -> None:
        """Send what waits, now."""
        self._due = False
        lines = list(self.lines)
        while lines:
            for line in list(lines):
                if self._room() <= 0:
                    return
                flight = line.next(max(self.backend.lanes, 1))
                if flight is None:
                    lines.remove(line)
                    continue
                # The next turn begins with another line, so that no line waits for ever.
                self.lines[line] = self.lines.pop(line)
                self._send(flight)

    def _room(self) -> int:
        """The number of chunks that may be sent now."""
        # If a loss does not name its chunk, the call that ends its worker can be found only if it travels
        # alone. So there is one chunk at a time until the calls that were lost have ended.
        if not self.backend.identifies_lost_chunk and self._has_suspects:
            return 1 - len(self.in_flight)
        return max(self.backend.lanes, 1) * self.ahead - len(self.in_flight)

    @property
    def _has_suspects(self) -> bool:
        """Whether a call whose worker was lost is in flight or waits."""
        if any(flight.is_suspect for flight in self.in_flight):
            return True
        return any(line.lost and line.has_more for line in self.lines)

    def _send(self, flight: Flight[Any]) -> None:
        self.in_flight[flight] = None
        # Set for this chunk and for the others: a loss can be the fault of any chunk in flight.
        for open_flight in self.in_flight:
            open_flight.shared = len(self.in_flight) > 1

        def report(outcome: Any) -> None:
            self._call(self._land, flight, outcome)

        try:
            flight.cancel = self.backend.submit(flight.run, flight.order, report)
            # The arguments, up to 8 MB, belong to the backend now.
            flight.order = ()
        except Exception as error:  # of the backend
            report(error)

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call ``function`` on the loop, from any thread."""
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(function, *arguments, context=self._context)

    def warn_soon(self, warning: Diagnostic) -> None:
        """Warn, from any thread, if chunks are in flight."""
        if self.in_flight:
            self._call(self.warn, warning)

    def _show_started(self) -> None:
        for fan_out in list(self.fan_outs):
            fan_out.show(fan_out.count)

    def _land(self, flight: Flight[Any], outcome: Any) -> None:
        if flight not in self.in_flight:
            return  # the first outcome counts
        del self.in_flight[flight]
        flight.land(outcome)
        # `cancel` refers to the chunk: the circle would keep the arguments until the next garbage
        # collection.
        flight.cancel = nothing
        self.wake()
        for listener in list(self.listeners):
            listener()


class Shown:
    """The state of an open fan-out on workers for its live row: how many of its elements are with
    workers, and whether the workers are still being started. Each change is reported."""

    def __init__(self, dispatcher: Dispatcher, show: Callable[[Placement], None]) -> None:
        self.dispatcher, self._show = dispatcher, show
        self.count = 0
        self._last = Placement(0, dispatcher.backend.name)
        dispatcher.fan_outs[self] = None

    def show(self, count: int) -> None:
        """Show that ``count`` elements are with workers."""
        self.count = count
        backend = self.dispatcher.backend
        placement = Placement(count, backend.name, getattr(backend, "starting", 0) if count else 0)
        if placement != self._last:
            self._last = placement
            self._show(placement)

    def close(self) -> None:
        self.dispatcher.fan_outs.pop(self, None)
