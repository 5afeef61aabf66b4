"""What the Dask backend knows of a chunk that it sent, or that waits for the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class DaskFlight:
    """A chunk in flight."""

    def __init__(
        self, key: str, run: Callable[..., Any], order: tuple[Any, ...], done: Callable[[Any], None]
    ) -> None:
        self.key, self.run, self.order, self.done = key, run, order, done
        self.future: Any = None
        self.worker = ""
        """The only worker that may run it."""
        self.cancels = 0
        self.ended = False

    def end(self, outcome: Any) -> None:
        if not self.ended:
            self.ended = True
            self.order = ()
            self.done(outcome)
