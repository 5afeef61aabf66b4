"""An event loop in virtual time: when nothing else is ready, its clock jumps to the next timer.

    outcome = run_virtual(flow_with_a_timeout_of_an_hour())

The engine measures all times with the clock of the loop, so an hour takes no real time. Work on other threads is real,
and stops the clock until it is done.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from agf_magics.engine.host.host import TURN
from agf_magics.engine.threads.call_threads import CallThreads
from agf_magics.journal.database.store import Store

T = TypeVar("T")

POLL = 0.005
"""Real seconds between two checks whether a thread still stops the clock."""

DEADLOCK = 60.0
"""Real seconds without an event, after which none is expected."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time, which begins at 0."""

    def __init__(self) -> None:
        super().__init__(_Selector(self))
        self.now = 0.0
        self.executing = 0
        """The number of functions in executors that have not returned."""

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        future = super().run_in_executor(executor, func, *args)
        self.executing += 1
        future.add_done_callback(lambda _: setattr(self, "executing", self.executing - 1))
        return future

    @property
    def held(self) -> bool:
        """Whether a thread works for this loop."""
        return self.executing > 0 or any(call.loop is self for call in list(CallThreads.shared().away))


class _Selector(selectors.DefaultSelector):
    """Waits for files and threads in real time. If nothing comes and no thread works, it moves the clock instead."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        until = time.monotonic() + DEADLOCK
        while timeout is None or self._loop.held:
            ready = super().select(POLL)
            if ready:
                return ready
            assert time.monotonic() < until, "nothing is ready and no thread came back: this would wait for ever"
        for store in list(Store._open.values()):  # work that waits for the disk does not wait for the clock
            store.flush()
        ready = super().select(0)  # a thread reports its end before it counts as returned
        if not ready:
            self._loop.now += timeout
        return ready


def busy_listener(event: object) -> None:
    """A listener that takes so long that each step gives the loop a turn, as on a busy computer."""
    until = time.monotonic() + 1.1 * TURN
    while time.monotonic() < until:
        pass


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
