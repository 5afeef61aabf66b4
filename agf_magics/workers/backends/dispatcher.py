"""Lines of waiting calls, and the dispatcher that sends them as chunks and repeats what was lost.

As many chunks are in flight as keep the lanes busy, and no more.
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
    files: str = ""
    """Where the names of the files of the chunk begin; empty: it has none."""
    held: Sequence[Any] = ()
    """What keeps files that must stay until the chunk is back."""
    shared: Sequence[SentOnce] = ()


class Entry:
    """A call on its way."""

    __slots__ = ("losses", "workers")

    def __init__(self) -> None:
        self.losses = 0
        self.workers: list[str] = []
        """How its workers were lost."""


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
        """Whether its worker was lost before."""
        self.cancel: Cancel = nothing
        """Set by the dispatcher."""

    @abstractmethod
    def land(self, outcome: Any) -> None:
        """Its outcome, or `Lost`, or the exception with which the backend failed; on the loop,
        once."""


class Line(ABC, Generic[E]):
    """The calls of one function on their way to workers. Makes chunks of what waits, and sends again
    what a lost worker had."""

    has_effect = False
    """Whether nothing is sent twice."""

    def __init__(self, dispatcher: Dispatcher, size: ChunkSize, limit: int | None) -> None:
        """``limit``: the chunks in flight that the author allows; None: two for each lane."""
        self.dispatcher, self.backend = dispatcher, dispatcher.backend
        self.size, self.limit = size, limit
        self.waiting: deque[E] = deque()
        self.lost: deque[E] = deque()
        """Those whose worker was lost: they travel alone, so that the next loss names its cause."""
        self.flights: dict[Flight[E], None] = {}

    @property
    @abstractmethod
    def has_more(self) -> bool:
        """Whether something waits and may be sent."""

    @abstractmethod
    def take(self, lanes: int) -> list[E]:
        """Take what the next chunk has; empty if that was cancelled."""

    @abstractmethod
    def pack(self, entries: list[E]) -> Parcel:
        """Their arguments as bytes. Raises whatever pickling raises."""

    @abstractmethod
    def flight(self, entries: list[E], parcel: Parcel) -> Flight[E]:
        """A chunk of packed ``entries``."""

    @abstractmethod
    def refuse(self, entry: E, error: Exception) -> None:
        """One that cannot be packed."""

    @abstractmethod
    def fail(self, entry: E, lost: Lost) -> None:
        """One whose worker was lost too often."""

    def give_back(self, entries: Sequence[E], queue: deque[E]) -> None:
        """They have not started, and wait again, before the others of ``queue``."""
        queue.extendleft(reversed(entries))

    def next(self, lanes: int) -> Flight[E] | None:
        """The next chunk; None: nothing waits, the author's limit is reached, or the kernel has not
        caught up. While workers were lost: a chunk with one call that was there."""
        # Those that have landed count until the kernel has read them: a slow kernel is not
        # flooded.
        most = lanes * self.dispatcher.ahead
        while self.has_more and len(self.flights) < min(self.limit or most, most):
            entries = self.take(lanes)
            flight = self._packed(entries) if entries else None
            if flight is not None:
                self.flights[flight] = None
                return flight
        return None

    def _packed(self, entries: list[E]) -> Flight[E] | None:
        """A chunk; None: the only one in it cannot be sent. Of a chunk with such a one, only the
        first is sent now."""
        try:
            parcel = self.pack(entries)
        except Exception as error:
            if len(entries) > 1:
                self.give_back(entries[1:], self.waiting)
                return self._packed(entries[:1])
            self.refuse(entries[0], error)
            return None
        self.size.weigh_given(len(parcel.data) / len(entries))
        return self.flight(entries, parcel)

    def lose(self, flight: Flight[E], lost: Lost) -> None:
        """The worker of a chunk is lost: what it had is sent again, each alone."""
        names_one = self.backend.identifies_lost_chunk
        alone = len(flight.entries) == 1 and (names_one or not flight.shared)
        # A time limit that is over, or a loss that the backend has repeated by itself,
        # comes again.
        is_last = self.has_effect or lost.gone or (alone and (lost.last or lost.late is not None))
        again: list[E] = []
        for entry in flight.entries:
            if not lost.cancelled:
                # A pool that breaks loses all its chunks: only what was alone is to blame.
                entry.losses += alone or names_one
                entry.workers.append(str(lost))
            if is_last or entry.losses > LOSSES:
                entry.workers = entry.workers or [str(lost)]
                self.fail(entry, lost)
            else:
                # Also after a loss on purpose: it is sent alone, so that it cannot
                # take others with it.
                entry.losses = max(1, entry.losses)
                again.append(entry)
        self.give_back(again, self.lost)


class Dispatcher:
    """Takes chunks from its sources in turn and sends them through a backend."""

    def __init__(
        self, backend: WorkerBackend, warn: Callable[[Diagnostic], None] = nothing
    ) -> None:
        """``warn`` receives the warnings of the run."""
        self.backend = backend
        self.ahead = int(getattr(backend, "ahead", AHEAD))
        """Chunks in flight for each lane."""
        self.in_flight: dict[Flight[Any], None] = {}
        self.listeners: dict[Callable[[], None], None] = {}
        """Called after each chunk."""
        self.warn = warn
        self.fan_outs: dict[Shown, None] = {}
        """Those on workers that have not ended."""
        self.lines: dict[Line[Any], None] = {}
        """What chunks are made of, in the order of their turns."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context = contextvars.copy_context()
        self._due = False

    def wake(self) -> None:
        """Send what waits in the next turn of the loop: calls that are queued in one turn share a
        chunk."""
        if self._loop is None:
            # The context of the run, not of the thread on which a backend reports: its
            # rights and its prints.
            self._loop, self._context = asyncio.get_running_loop(), contextvars.copy_context()
            getattr(self.backend, "notify_started", nothing)(lambda: self._call(self._show_started))
            getattr(self.backend, "notify_warning", nothing)(self)
        # Not now: the other calls of this turn belong into the same chunk.
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
                # The next turn begins with another one, so that none waits for ever.
                self.lines[line] = self.lines.pop(line)
                self._send(flight)

    def _room(self) -> int:
        # Where a loss names no chunk, the call that ends its worker is known if it is alone.
        if not self.backend.identifies_lost_chunk and (
            any(flight.is_suspect for flight in self.in_flight)
            or any(line.lost and line.has_more for line in self.lines)
        ):
            # One at a time, until the calls that were lost have ended: with two in
            # flight, the next loss would blame both.
            return 1 - len(self.in_flight)
        return max(self.backend.lanes, 1) * self.ahead - len(self.in_flight)

    def _send(self, flight: Flight[Any]) -> None:
        self.in_flight[flight] = None
        # Both ways: a loss can be the fault of whatever was in flight at any moment of it.
        for other in self.in_flight:
            other.shared = len(self.in_flight) > 1

        def done(outcome: Any) -> None:
            self._call(self._land, flight, outcome)

        try:
            flight.cancel = self.backend.submit(flight.run, flight.order, done)
            # Its arguments, up to 8 MB, belong to the backend now.
            flight.order = ()
        except Exception as error:  # of the backend
            done(error)

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
        # It refers to the chunk: a circle would keep its arguments until the next collection.
        flight.cancel = nothing
        self.wake()
        for listener in list(self.listeners):
            listener()


class Shown:
    """What the live row says about an open fan-out on workers: how many of its elements they have,
    and whether the workers are still being started. Reports each change."""

    def __init__(self, dispatcher: Dispatcher, show: Callable[[Placement], None]) -> None:
        self.dispatcher, self._show = dispatcher, show
        self.count = 0
        self._last = Placement(0, dispatcher.backend.name)
        dispatcher.fan_outs[self] = None

    def show(self, count: int) -> None:
        """``count`` elements are with workers."""
        self.count = count
        backend = self.dispatcher.backend
        now = Placement(count, backend.name, getattr(backend, "starting", 0) if count else 0)
        if now != self._last:
            self._last = now
            self._show(now)

    def close(self) -> None:
        self.dispatcher.fan_outs.pop(self, None)
