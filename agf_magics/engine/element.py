"""One attempt of an element of a fan-out over a plain function, as a call."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

from ..flow.values import Value
from ..host.prints import printing
from ..host.threads import Call
from ..journal.call_rows import StartedCall
from .runner import CallSite
from .streaming import NEVER, StepPrints


class Element(Call):
    """One attempt of an element: its call and where it belongs."""

    __slots__ = (
        "announce",
        "announced",
        "attempt",
        "closed",
        "deadline",
        "i",
        "prints",
        "record",
        "site",
        "stopped_by",
        "task",
    )

    i: int
    attempt: int
    site: CallSite[Any]
    announced: bool
    """Whether its StepStarted was emitted."""
    record: StartedCall | None
    task: asyncio.Task[None] | None
    """Awaits what the function returned, or stops it."""
    stopped_by: asyncio.CancelledError | None
    """How `task` was cancelled."""
    prints: StepPrints | None
    """None: it has printed nothing yet."""
    deadline: float
    """The loop's time at which its time is over."""

    def __init__(
        self,
        site: CallSite[Any],
        function: Callable[..., Any],
        given: dict[str, Value],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context,
        announce: Callable[[Element], None],
    ) -> None:
        """``announce`` emits its StepStarted, if that has not been done."""
        site.run.host.admit()
        super().__init__(function, given, loop, context)
        self.site, self.announce = site, announce
        self.prints = self.task = self.stopped_by = None
        self.closed, self.deadline = False, 0.0
        if site.run.stream:
            context.run(printing.set, self)

    def print_here(self) -> None:
        """Let the present task print for it."""
        if self.site.run.stream:
            printing.set(self)

    def add(self, text: str) -> None:
        """Emit what it prints, on any thread."""
        if self.prints is None:
            prints = StepPrints(self.site.run, self.loop, lambda: self.announce(self))
            prints.at = self.site.at
            self.prints = prints
            if self.closed:
                prints.at = NEVER
        self.prints.add(text)

    def close(self) -> None:
        """Emit the rest of what it printed, before its end. A call that is left running emits
        nothing more."""
        self.closed = True  # first: its thread may print at this moment
        if self.prints is not None:
            self.prints.close()
