"""The thread that looks at runs that may be stuck: a tool that blocks the engine's loop also blocks the loop's timers.

Most runs need no watchdog: a run is watched from its start if it has a time limit, else from its cancel. The thread
that waits for a run looks at it as well; the watchdog is for background runs, and for when a tool holds that thread.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import ClassVar

from .rights import NOBODY, under

AGAIN = 0.25
"""Seconds between two looks at a run that is due."""

IDLE_SECONDS = 10.0
"""How long the thread stays when there is nothing to watch."""

Look = Callable[[], bool]
"""Looks at a run; whether it needs no further look."""


class Watchdog:
    """The watchdog of this process: `shared` is the one to use."""

    _shared: ClassVar[Watchdog | None] = None

    def __init__(self) -> None:
        self._due: dict[Look, float] = {}
        """When each run is to be looked at next, by the monotonic clock."""
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
                    target=under, args=(NOBODY, self._serve), name="agf-watchdog", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def forget(self, look: Look) -> None:
        """Look at it no more."""
        if self._due:
            with self._changed:
                self._due.pop(look, None)

    def _serve(self) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                due = [look for look, when in self._due.items() if when <= now]
                if not due:
                    wait = min(self._due.values()) - now if self._due else IDLE_SECONDS
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
            del due, look  # nothing is kept alive by a thread that waits
