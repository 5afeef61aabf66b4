"""`PendingWrite`, rows that wait for a commit, and the notification of the tasks that wait for
them."""

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
    """The future that wakes the waiting task; None: no task waits."""
    loop: asyncio.AbstractEventLoop | None
    """The loop of ``done``."""
    failed: Callable[[JournalError], None] | None
    """Is called on any thread for each row that failed, if no task waits."""


def notify(
    batch: list[PendingWrite], error: JournalError | None, here: asyncio.AbstractEventLoop | None
) -> None:
    """Wake the tasks that wait for ``batch``: the rows are durable, or ``error`` tells why not.
    ``here``: the loop of this thread, if it runs one."""
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
