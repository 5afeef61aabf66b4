"""The runs of this process by id, as long as they run or somebody refers to them.

A background run that has ended is in the journal, so it is not kept here, where its values would
fill the memory. A run that the journal does not have is kept, because it could not be found
elsewhere.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator

from .run import Run, state_of

JUST_NOW = 2.0
"""The longest time between the interrupt and the request to exit when a kernel is shut down, in
seconds."""


class Live:
    """The running runs, and the last background runs that have ended."""

    MAX_ENDED = 100
    """Ended background runs that can be found here."""

    def __init__(self) -> None:
        self._running: dict[str, Run] = {}
        self._ended: dict[str, Callable[[], Run | None]] = {}
        """Weak references to the journaled runs, and functions that hold the others; the oldest
        first."""
        self.interrupted: deque[tuple[Run, float]] = deque(maxlen=8)
        """The last runs that an interrupt cancelled, each with its end by the monotonic clock."""
        self.watch: Callable[[Run], Callable[[], object] | None] | None = None
        """Called with each background run where it is started. What it returns is called at the end of
        the run, on the thread of the engine."""
        self._at_ends: dict[str, Callable[[], object]] = {}

    @property
    def running(self) -> tuple[Run, ...]:
        """All running runs, in the order of their starts."""
        return tuple(self._running.values())

    @property
    def ended(self) -> tuple[Run, ...]:
        """The last `MAX_ENDED` runs that ran in the background or left background calls, in the
        order of their ends, except journaled runs to which nobody else refers."""
        return tuple(
            run for reference in list(self._ended.values()) if (run := reference()) is not None
        )

    def __iter__(self) -> Iterator[Run]:
        return iter((*self.ended, *self.running))

    def find(self, run_id: str) -> Run | None:
        ended = self._ended.get(run_id)
        return self._running.get(run_id) or (ended() if ended is not None else None)

    def add(self, run: Run) -> None:
        self._running[run.run_id] = run
        self._ended.pop(run.run_id, None)  # a resumed run goes on as another `Run`
        at_end = self.watch(run) if self.watch is not None and run.background else None
        if at_end is not None:
            self._at_ends[run.run_id] = at_end

    def end(self, run: Run) -> None:
        if (run.background or state_of(run).background_calls) and run.progress.ended is not None:
            is_kept = run.journal is not None and run.journal.broken is None
            self._ended[run.run_id] = weakref.ref(run) if is_kept else lambda: run
            for old in list(self._ended)[: -self.MAX_ENDED]:
                self._ended.pop(old, None)
        self._running.pop(run.run_id, None)
        if (at_end := self._at_ends.pop(run.run_id, None)) is not None:
            at_end()

    def forget(self) -> None:
        """Forget the runs that have ended."""
        self._ended.clear()
        self.interrupted.clear()

    def leave_open(self) -> None:
        """Prepare for the exit of the process. A kernel restart interrupts the kernel first, so a
        run that was interrupted just now counts as interrupted, not as cancelled by the user."""
        now = time.monotonic()
        for run in (
            *self.running,
            *(run for run, ended in list(self.interrupted) if now - ended < JUST_NOW),
        ):
            state_of(run).leave_open()


live = Live()
"""The only `Live` of this process. Its dicts are changed by single operations and read as
snapshots, so that any thread may read them."""


def started_at(run: Run) -> float:
    """The time when a run of this process began, in seconds since 1970."""
    when = run.progress.when
    return time.time() - (time.monotonic() - when) if when is not None else time.time()
