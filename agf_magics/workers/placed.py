"""What the live row says about an open fan-out on workers: how many of its elements they have, and
whether the workers are still being started."""

from __future__ import annotations

from collections.abc import Callable

from ..host.remote import Placement
from .dispatch import Dispatcher


class Shown:
    """Reports each change, also the one that the workers have started."""

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
