"""The thread that checks runs that may be stuck: a tool that blocks the engine's loop also blocks the loop's timers.

A run is watched from its start if it has a time limit, otherwise from its cancellation. The thread that waits for a run
checks it too; the watchdog is for background runs, and for a tool that blocks that thread.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import ClassVar

from .rights import NO_RIGHTS, under

AGAIN = 0.25
"""Seconds between two checks of a run that is due."""

WATCHDOG_IDLE = 10.0
"""Seconds after which the thread ends if it has nothing to watch."""

Look = Callable[[], bool]
"""Checks a run; whether it needs no further check."""


class Watchdog:
    """The watchdog of this process. Use `shared`."""

    _shared: ClassVar[Watchdog | None] = None

    def __init__(self) -> None:
        self._due: dict[Look, float] = {}
        """When each run is checked next, by the monotonic clock."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    @classmethod
    def shared(cls) -> Watchdog:
        found = cls._shared
        if found is None or found._pid != os.getpid():  # a fork has none of its parent's threads
            found = cls._shared = Watchdog()
        return found

    def watch(self, look: Look, when: float) -> None:
        """Call ``look`` at ``when`` (by the monotonic clock) or sooner, and from then on until it says True."""
        with self._changed:
            self._due[look] = min(when, self._due.get(look, when))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=under, args=(NO_RIGHTS, self._serve), name="agf-watchdog", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def forget(self, look: Look) -> None:
        if self._due:
            with self._changed:
                self._due.pop(look, None)

    def _serve(self) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                due = [look for look, when in self._due.items() if when <= now]
                if not due:
                    wait = min(self._due.values()) - now if self._due else WATCHDOG_IDLE
                    if not self._changed.wait(wait) and not self._due:
                        self._thread = None
                        return
                    continue
            for look in due:
                over = look()
                with self._changed:
                    if over:
                        self._due.pop(look, None)
                    elif look in self._due:
                        self._due[look] = time.monotonic() + AGAIN
            del due, look  # a waiting thread has no references
