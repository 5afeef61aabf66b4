"""A thread that notices when user code blocks the engine's loop, and ends the runs that wait for
it.

A tool that blocks the loop also blocks the loop's timers. A run is watched from its start if it has
a time limit, otherwise from its cancellation. The thread that waits for a run checks it too; the
watchdog is for background runs, and for a tool that blocks that thread.

A handler of signals calls `Watchdog.watch`, and an interrupt can end it anywhere. So it must not
use what an interrupt leaves locked, such as a `Condition` or the start of a `Thread` of
`threading`.
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
"""Seconds between two checks of a run that is due."""


Look = Callable[[], bool]
"""Checks a run; whether it needs no further check."""


class Watchdog:
    """The watchdog of this process. Use `shared`."""

    _shared: ClassVar[Watchdog | None] = None

    def __init__(self) -> None:
        self._requests: SimpleQueue[tuple[Look, float | None]] = SimpleQueue()
        """What to check and when, by the monotonic clock; None: no longer."""
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
        """Call ``look`` at ``when`` (by the monotonic clock) or sooner, and from then on until it
        says True."""
        if IN_BROWSER:
            return  # nothing runs beside a blocked loop
        # A SimpleQueue and `_thread`: a signal handler comes here, and the lock of a Queue or of
        # the start of a Thread may be held by the very code that it interrupts.
        self._requests.put((look, when))
        # Without a lock: a second thread that starts at the same moment does no harm.
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
            wait = max(0.0, min(due.values()) - time.monotonic()) if due else None
            try:
                look, when = self._requests.get(timeout=wait)
            except Empty:
                _check(due)
                continue
            if when is None:
                due.pop(look, None)
            else:
                due[look] = min(when, due.get(look, when))
            del look  # a waiting thread has no references


def _check(due: dict[Look, float]) -> None:
    """Call the looks that are due."""
    for look in [look for look, when in due.items() if when <= time.monotonic()]:
        if look():
            del due[look]
        else:
            due[look] = time.monotonic() + AGAIN
