"""Rows that wait for a commit, and the tasks that wait for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .errors import JournalError


class PendingWrite(NamedTuple):
    statement: str
    rows: Sequence[Sequence[Any]]
    done: asyncio.Future[None] | None
    """Wakes the task that waits."""
    loop: asyncio.AbstractEventLoop | None
    """That of ``done``."""
    failed: Callable[[JournalError], None] | None
    """Called on any thread for each row, if no task waits."""


def notify(
    batch: list[PendingWrite], error: JournalError | None, here: asyncio.AbstractEventLoop | None
) -> None:
    """Tell those who wait that the rows are durable, or why they cannot be written. ``here``: the
    loop of this thread."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for write in batch:
        if write.done is not None and write.loop is not None:
            by_loop.setdefault(write.loop, []).append(write.done)
        elif error is not None and write.failed is not None:
            for _ in write.rows:
                write.failed(error)
    for loop, waiting in by_loop.items():
        if loop is here:
            _wake(waiting, error)
        else:
            with contextlib.suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(_wake, waiting, error)


def _wake(waiting: list[asyncio.Future[None]], error: JournalError | None) -> None:
    for done in waiting:
        if done.done():
            continue
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)
