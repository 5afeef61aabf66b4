"""The way of chunks to a Dask client: they are kept until there is one, and sent at once from then on."""

from __future__ import annotations

import threading
from collections.abc import Callable

from .flights import DaskFlight


class Outlet:
    """Takes chunks, on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._send: Callable[[DaskFlight], object] | None = None
        """None: there is no client yet."""
        self._kept: list[DaskFlight] = []
        self._to_call: list[Callable[[], None]] = []
        """What waits for the client."""

    @property
    def is_open(self) -> bool:
        """Whether there is a client, or there will be none."""
        return self._send is not None

    @property
    def kept(self) -> int:
        """The number of chunks that are kept."""
        return len(self._kept)

    def take(self, flight: DaskFlight) -> None:
        """Send a chunk, or keep it until then."""
        # In the lock: a chunk that is kept after the others were sent would wait for ever.
        with self._lock:
            if self._send is None:
                self._kept.append(flight)
            else:
                self._send(flight)

    def open(self, send: Callable[[DaskFlight], object]) -> None:
        """Send the chunks that were kept, and from now on each at once."""
        with self._lock:
            self._send = send
            kept, self._kept = self._kept, []
            to_call, self._to_call = self._to_call, []
        for flight in kept:
            send(flight)
        for call in to_call:
            call()

    def call_when_open(self, call: Callable[[], None]) -> None:
        """Call ``call`` on any thread when it opens; not at all if it is open already."""
        with self._lock:
            if self._send is None:
                self._to_call.append(call)
