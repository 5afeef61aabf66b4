"""Background calls, which may outlive their run: starts, counts and cancels them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any


def start_background(work: Coroutine[Any, Any, None], run: object) -> None:
    """Start ``work``, a background call of ``run``, which may end after the run (decision C4)."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    # A loop has only weak references to its tasks, so an unreferenced task may be collected while
    # it waits.
    _outliving[task] = loop, run
    task.add_done_callback(lambda ended: _outliving.pop(ended, None))


def count_background_calls(run: object = None) -> int:
    """The number of running background calls of ``run``; None: of all runs."""
    return len(_of(run))


def cancel_background_calls(run: object = None) -> int:
    """Cancel the background calls of ``run`` (None: of all runs), from any thread. Returns their
    number."""
    running = _of(run)
    for task, loop in running:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and so the call has ended
            loop.call_soon_threadsafe(task.cancel)
    return len(running)


def _of(run: object) -> list[tuple[asyncio.Task[None], asyncio.AbstractEventLoop]]:
    """The background calls of ``run`` (None: of all runs), with their loops."""
    # A copy, because calls may end on other threads meanwhile.
    calls = _outliving.copy().items()
    return [(task, loop) for task, (loop, owner) in calls if run is None or owner is run]


_outliving: dict[asyncio.Task[None], tuple[asyncio.AbstractEventLoop, object]] = {}
"""The running background calls, with their loops and runs."""
