"""Whether the workers wait for the kernel: the warning ``on.starved``.

The lanes are compared with the seconds that the workers report, because a chunk in flight may
already have ended and wait for the kernel. Idle lanes alone are not a fault: the author may have
set a limit, a call may be long, the network slow. So two more things must be true: in the same time
as many calls have ended as there are lanes, and the thread of the engine was busy. Only fan-outs
count: while none is open, the lanes have nothing to do. A thread that waits for a processor is busy
too, so that other programs on this machine do not hide it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from itertools import islice
from typing import Any

from ..text.diagnostics import Diagnostic
from .backend import WorkerBackend

WINDOW = 10.0
"""Seconds that are looked at together."""
IDLE_LANES = 0.5
"""The share of the lanes' time without work, above which they wait."""
BUSY = 0.75
"""The share of the time in which the thread of the engine must have been busy."""

clock = time.perf_counter


class Trip:
    """The times of a chunk in flight."""

    __slots__ = ("ended", "sent")

    def __init__(self, sent: float) -> None:
        self.sent = sent
        self.ended: float | None = None
        """When the backend reported it; set on any thread."""


class Starvation:
    """Looks at the trips of one run. Its methods are called on the loop of the run."""

    def __init__(self, backend: WorkerBackend, warn: Callable[[Diagnostic], None] | None) -> None:
        """``warn`` receives the warning, once."""
        self.backend, self.warn = backend, warn
        self._fan_outs: set[object] = set()
        """Those that are open."""
        self._window: tuple[float, float] | None = None
        """When it began, and how long the thread had been busy then. None: no fan-out has sent a
        chunk."""
        self._worked = 0.0
        """Seconds of work of the chunks that landed in the window."""
        self._calls = 0

    def open(self, fan_out: object) -> None:
        """A fan-out on workers begins."""
        self._fan_outs.add(fan_out)

    def close(self, fan_out: object) -> None:
        """A fan-out has no more to send."""
        self._fan_outs.discard(fan_out)
        if not self._fan_outs:
            self._window = None

    def send(self) -> Trip:
        """A chunk is sent now."""
        now = clock()
        if self._window is None and self._fan_outs and self.warn is not None:
            self._begin(now)
        return Trip(now)

    def land(self, trip: Trip, outcome: Any, count: int, in_flight: Collection[Trip]) -> None:
        """A chunk of ``count`` calls or elements has landed. ``in_flight``: the others, the oldest
        first."""
        if self.warn is None or self._window is None:
            return
        now = clock()
        began, busy = self._window
        self._worked += min(_seconds(outcome, (trip.ended or now) - trip.sent), now - began)
        self._calls += count
        if now - began < WINDOW:
            return
        lanes = max(self.backend.lanes, 1)
        # Of those in flight, no more than one in each lane is executed.
        oldest = islice(in_flight, lanes)
        worked = self._worked + sum(
            max(0.0, (one.ended or now) - max(one.sent, began)) for one in oldest
        )
        is_idle = worked < (1 - IDLE_LANES) * lanes * (now - began)
        if is_idle and self._calls >= lanes and busy_seconds() - busy >= BUSY * (now - began):
            self.warn(starved(self.backend.name))
            self.warn = None
        self._begin(now)

    def _begin(self, now: float) -> None:
        self._window, self._worked, self._calls = (now, busy_seconds()), 0.0, 0


def _seconds(outcome: Any, otherwise: float) -> float:
    """The seconds that a worker reports; ``otherwise`` if it reports none."""
    seconds = outcome[2] if type(outcome) is tuple and len(outcome) == 5 else None
    return seconds if type(seconds) is float and seconds >= 0 else otherwise


def busy_seconds() -> float:
    """The seconds that this thread has run or waited for a processor; where the system does not
    tell, its CPU time."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            ran, waited = file.read().split()[:2]
        return (int(ran) + int(waited)) / 1e9
    except (OSError, ValueError):
        return time.thread_time()


def starved(name: str) -> Diagnostic:
    """The warning. ``name``: of the workers."""
    message = (
        f"the workers ({name}) were idle for more than half of {WINDOW:g} s: the kernel "
        f"cannot send work faster"
    )
    hint = (
        "give each call more work, such as a list of items instead of one item; or use fewer "
        "workers"
    )
    return Diagnostic("on.starved", message, hint=hint, severity="warning")
