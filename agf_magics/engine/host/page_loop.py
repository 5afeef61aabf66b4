"""Python without threads, in a browser (Pyodide): what stands in for the engine's thread.

The loop of a run is the page's own. Whoever must wait for it, as `agf.run` does, lets the browser
suspend the cell (JSPI); other tasks of the page continue meanwhile. Where the browser cannot do
that, a run that a cell waits for gets a loop of its own, which the waiting cell drives: it knows
timers and tasks, and no promises of the page.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def can_suspend() -> bool:
    """Whether the code that runs now can wait for the loop of the page."""
    from pyodide.ffi import can_run_sync  # type: ignore[import-not-found]

    return bool(can_run_sync())


def suspend(work: Coroutine[Any, Any, T]) -> T:
    """Wait for ``work`` while the loop of the page continues."""
    from pyodide.ffi import run_sync

    result: T = run_sync(work)
    return result


class OwnLoop(asyncio.BaseEventLoop):
    """A loop of timers and tasks, without sockets and signals. `drive` runs it inside the page's
    loop."""

    def __init__(self) -> None:
        super().__init__()
        # What `BaseEventLoop` asks for events; its own subclasses set it in the same way.
        self._selector = self

    def select(self, timeout: float | None) -> list[Any]:
        """Sleep until the next timer."""
        if timeout is None:
            raise RuntimeError(
                "this waits for the page, which a cell can only await in this browser: "
                "use `await agf.arun(...)`"
            )
        # Not `sleep(0)`: with JSPI that suspends too, and other tasks would see no running loop.
        if timeout > 0:
            time.sleep(timeout)
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """No other thread has to wake this loop."""

    def drive(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` to its end, although another loop of this thread runs."""
        around = asyncio._get_running_loop()
        task = asyncio.current_task(around) if around is not None else None
        # While the outer loop is the running one: Python 3.14 checks it here and below.
        if around is not None and task is not None:
            asyncio._leave_task(around, task)
        asyncio._set_running_loop(None)
        try:
            return self.run_until_complete(work)
        finally:
            asyncio._set_running_loop(around)
            if around is not None and task is not None:
                asyncio._enter_task(around, task)


def run_alone(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work``, which calls no code of a user, to its end in a context of its own."""
    loop = OwnLoop()
    try:
        return contextvars.Context().run(loop.drive, work)
    finally:
        loop.close()
