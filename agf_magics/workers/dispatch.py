"""Chunks in flight: as many as keep the lanes busy, and no more."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable
from typing import Any, Protocol

from ..host.remote import Placement
from ..text.diagnostics import Diagnostic
from .backend import AHEAD, Cancel, WorkerBackend


class Chunk(Protocol):
    """One trip to a worker."""

    run: Callable[..., Any]
    order: tuple[Any, ...]
    shared: bool
    """Whether other chunks were in flight at the same time; set by the dispatcher."""
    is_suspect: bool
    """Whether its worker was lost before."""
    cancel: Cancel
    """Set by the dispatcher."""

    def land(self, outcome: Any) -> None:
        """Its outcome, or `Lost`, or the exception with which the backend failed; on the loop,
        once."""


class Source(Protocol):
    """What chunks are made of: the calls of a function, the elements of a fan-out."""

    @property
    def has_suspects(self) -> bool:
        """Whether a call of it was lost with its worker and was not sent again yet."""

    def next(self, lanes: int) -> Chunk | None:
        """The next chunk, if there is one. While there are suspects: a chunk with one of them."""


class Dispatcher:
    """Takes chunks from its sources in turn and sends them through a backend."""

    def __init__(
        self, backend: WorkerBackend, warn: Callable[[Diagnostic], None] | None = None
    ) -> None:
        """``warn`` receives the warnings of the run."""
        self.backend = backend
        self.in_flight: dict[Chunk, None] = {}
        self.listeners: dict[Callable[[], None], None] = {}
        """Called after each chunk."""
        self.warn = warn
        self._fan_outs: dict[Shown, None] = {}
        self._sources: dict[Source, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context = contextvars.copy_context()
        self._due = False

    @property
    def ahead(self) -> int:
        """Chunks in flight for each lane."""
        return int(getattr(self.backend, "ahead", AHEAD))

    def add(self, source: Source) -> None:
        self._sources[source] = None

    def remove(self, source: Source) -> None:
        self._sources.pop(source, None)

    def open(self, fan_out: Shown) -> None:
        """A fan-out begins."""
        self._fan_outs[fan_out] = None

    def close(self, fan_out: Shown) -> None:
        """A fan-out has no more work."""
        self._fan_outs.pop(fan_out, None)

    def wake(self) -> None:
        """Send what waits in the next turn of the loop: calls that are queued in one turn share a
        chunk."""
        if self._loop is None:
            self._loop, self._context = asyncio.get_running_loop(), contextvars.copy_context()
            notify_started: Any = getattr(self.backend, "notify_started", None)
            if notify_started is not None:
                notify_started(lambda: self._call(self._show_started))
            notify_warning: Any = getattr(self.backend, "notify_warning", None)
            if notify_warning is not None:
                notify_warning(self.warn_soon)
        if not self._due:
            self._due = True
            self._loop.call_soon(self.send)

    def send(self) -> None:
        """Send what waits, now."""
        self._due = False
        sources = list(self._sources)
        while sources:
            for source in list(sources):
                if self._room() <= 0:
                    return
                chunk = source.next(max(self.backend.lanes, 1))
                if chunk is None:
                    sources.remove(source)
                    continue
                self._sources[source] = self._sources.pop(
                    source
                )  # the next turn begins with another one
                self._send(chunk)

    def _room(self) -> int:
        # Where a loss names no chunk, the call that ends its worker is known if it is alone.
        if not self.backend.identifies_lost_chunk and (
            any(chunk.is_suspect for chunk in self.in_flight)
            or any(source.has_suspects for source in self._sources)
        ):
            return 1 - len(self.in_flight)
        return max(self.backend.lanes, 1) * self.ahead - len(self.in_flight)

    def _send(self, chunk: Chunk) -> None:
        self.in_flight[chunk] = None
        for one in self.in_flight if len(self.in_flight) > 1 else ():
            one.shared = True

        def done(outcome: Any) -> None:
            self._call(self._land, chunk, outcome)

        try:
            chunk.cancel = self.backend.submit(chunk.run, chunk.order, done)
            chunk.order = ()  # its arguments, up to 8 MB, belong to the backend now
        except Exception as error:  # of the backend
            done(error)

    def _call(self, function: Callable[..., None], *given: Any) -> None:
        """Call ``function`` on the loop, from any thread."""
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(function, *given, context=self._context)

    def warn_soon(self, found: Diagnostic) -> None:
        """Warn, from any thread, if chunks are in flight."""
        if self.in_flight and self.warn is not None:
            self._call(self.warn, found)

    def _show_started(self) -> None:
        for fan_out in list(self._fan_outs):
            fan_out.again()

    def _land(self, chunk: Chunk, outcome: Any) -> None:
        if chunk not in self.in_flight:
            return  # the first outcome counts
        del self.in_flight[chunk]
        chunk.land(outcome)
        # it refers to the chunk: a circle would keep its arguments until the next collection
        chunk.cancel = _nothing
        self.wake()
        for listener in list(self.listeners):
            listener()


class Shown:
    """What the live row says about an open fan-out on workers: how many of its elements they have,
    and whether the workers are still being started. Reports each change."""

    def __init__(self, dispatcher: Dispatcher, place: Callable[[Placement], None]) -> None:
        self.dispatcher, self._place = dispatcher, place
        self._count = 0
        self._last = Placement(0, dispatcher.backend.name)
        dispatcher.open(self)

    def show(self, count: int) -> None:
        """So many elements are with workers."""
        self._count = count
        backend = self.dispatcher.backend
        now = Placement(count, backend.name, getattr(backend, "starting", 0) if count else 0)
        if now != self._last:
            self._last = now
            self._place(now)

    def again(self) -> None:
        """The workers have started."""
        self.show(self._count)

    def close(self) -> None:
        self.dispatcher.close(self)


def _nothing() -> None:
    """Nothing is in flight."""
