"""Replaces the engine's thread in a browser (Pyodide), where Python has no threads.

A run uses the page's own loop. To wait for it, as `agf.run` does, the browser suspends the cell
(JSPI), and other tasks of the page continue meanwhile. If the browser cannot do that, the waiting
cell drives a separate loop for the run, which has timers and tasks but no promises of the page.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def can_suspend() -> bool:
    """Whether the current code can wait for the loop of the page."""
    from pyodide.ffi import can_run_sync  # type: ignore[import-not-found]

    return bool(can_run_sync())


def suspend(work: Coroutine[Any, Any, T]) -> T:
    """Wait for ``work`` while the loop of the page continues."""
    from pyodide.ffi import run_sync

    result: T = run_sync(work)
    return result


class OwnLoop(asyncio.BaseEventLoop):
    """A separate loop of timers and tasks, without sockets and signals. `drive` runs it inside the
    page's loop."""

    def __init__(self) -> None:
        super().__init__()
        # `BaseEventLoop` expects a selector here, which its own subclasses set, too.
        self._selector = self

    def select(self, timeout: float | None) -> list[Any]:
        """Sleep until the next timer."""
        if timeout is None:
            raise RuntimeError(
                "this waits for the page, which a cell can only await in this browser: "
                "use `await agf.arun(...)`"
            )
        # Not `sleep(0)`, which suspends with JSPI, so that other tasks would see no running loop.
        if timeout > 0:
            time.sleep(timeout)
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """Do nothing: there are no events of files."""

    def _write_to_self(self) -> None:
        """Do nothing: no other thread wakes this loop."""

    def drive(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` to its end, although another loop of this thread runs."""
        around = asyncio._get_running_loop()
        task = asyncio.current_task(around) if around is not None else None
        # The outer loop counts as running, which Python 3.14 checks here and below.
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
    """Run ``work``, which must call no user code, to its end in a separate context."""
    loop = OwnLoop()
    try:
        return contextvars.Context().run(loop.drive, work)
    finally:
        loop.close()
