"""The way of chunks to a Dask client: chunks wait until there is a client, and then go at once."""

from __future__ import annotations

import threading
from collections.abc import Callable

from .flights import DaskFlight


class Outlet:
    """Takes chunks, on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._send: Callable[[DaskFlight], object] | None = None
        """Sends a chunk; None until there is a client."""
        self._kept: list[DaskFlight] = []
        self._to_call: list[Callable[[], None]] = []
        """The functions to call when there is a client."""

    @property
    def is_open(self) -> bool:
        """Whether there is a client, or it is sure that there will be none."""
        return self._send is not None

    @property
    def kept_count(self) -> int:
        """The number of chunks that wait for the client."""
        return len(self._kept)

    def take(self, flight: DaskFlight) -> None:
        """Send a chunk, or keep it until there is a client."""
        # In the lock: a chunk that is kept after the kept ones were sent would wait for ever.
        with self._lock:
            if self._send is None:
                self._kept.append(flight)
            else:
                self._send(flight)

    def open(self, send: Callable[[DaskFlight], object]) -> None:
        """Send the chunks that were kept, and from now on each chunk at once."""
        with self._lock:
            self._send = send
            kept_flights, self._kept = self._kept, []
            to_call, self._to_call = self._to_call, []
        for flight in kept_flights:
            send(flight)
        for call in to_call:
            call()

    def call_when_open(self, call: Callable[[], None]) -> None:
        """Call ``call`` on any thread when the outlet opens; not at all if it is open already."""
        with self._lock:
            if self._send is None:
                self._to_call.append(call)
