"""`Watchdog`, a thread that notices when user code blocks the engine's loop, and ends its runs.

A tool that blocks the loop also blocks the loop's timers. A run is watched from its start if it has
a time limit, otherwise from its cancellation. The thread that waits for a run checks the run, too;
the watchdog is for background runs, and for tools that block the waiting thread. A signal handler
calls `Watchdog.watch`, and an interrupt may end it at any line. So it must not use anything that an
interrupt leaves locked, such as a `Condition` or the start of a `Thread`.
"""

from __future__ import annotations

import _thread
import os
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import ClassVar

from ...compat.browser import IN_BROWSER
from ..threads.rights import NO_RIGHTS, under

AGAIN = 0.25
"""The seconds between two checks of a run that is due."""

DAY = 86_400.0
"""The longest wait in seconds: a time limit may be longer than a wait can be, or infinite."""

Look = Callable[[], bool]
"""Checks a run, and returns True if the run needs no further check."""


class Watchdog:
    """The watchdog of this process. Call `shared` to get it."""

    _shared: ClassVar[Watchdog | None] = None

    def __init__(self) -> None:
        self._requests: SimpleQueue[tuple[Look, float | None]] = SimpleQueue()
        """The queue of checks with their times, by the monotonic clock; the time None ends the
        checks."""
        self._started = False
        self._pid = os.getpid()

    @classmethod
    def shared(cls) -> Watchdog:
        watchdog = cls._shared
        # A fork has none of its parent's threads.
        if watchdog is None or watchdog._pid != os.getpid():
            watchdog = cls._shared = Watchdog()
        return watchdog

    def watch(self, look: Look, when: float) -> None:
        """Call ``look`` at ``when`` (by the monotonic clock) or sooner, and again until it returns
        True."""
        if IN_BROWSER:
            return  # in a browser, nothing could run beside a blocked loop
        # A signal handler comes here, and the code that it interrupts may hold the lock of a Queue
        # or of a Thread's start. So this uses a SimpleQueue and `_thread`.
        self._requests.put((look, when))
        # No lock is needed: a second thread that starts at the same moment does no harm.
        if not self._started:
            _thread.start_new_thread(under, (NO_RIGHTS, self._serve))
            self._started = True

    def forget(self, look: Look) -> None:
        """Do not call ``look`` again."""
        if not IN_BROWSER:
            self._requests.put((look, None))

    def _serve(self) -> None:
        due: dict[Look, float] = {}
        while True:
            wait = min(DAY, max(0.0, min(due.values()) - time.monotonic())) if due else None
            try:
                look, when = self._requests.get(timeout=wait)
            except Empty:
                _check(due)
                continue
            if when is None:
                due.pop(look, None)
            else:
                due[look] = min(when, due.get(look, when))
            del look  # keep no reference while waiting


def _check(due: dict[Look, float]) -> None:
    """Make the checks that are due."""
    for look in [look for look, when in due.items() if when <= time.monotonic()]:
        if look():
            del due[look]
        else:
            due[look] = time.monotonic() + AGAIN
