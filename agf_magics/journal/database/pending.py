"""`PendingWrite`, rows that wait for a commit, and the notification of the tasks that wait for
them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .errors import JournalError


class PendingWrite(NamedTuple):
    """Rows that wait for a commit."""

    statement: str
    rows: Sequence[Sequence[Any]]
    written: asyncio.Future[None] | None
    """The future that wakes the waiting task; None: no task waits."""
    loop: asyncio.AbstractEventLoop | None
    """The loop of ``written``; None: no task waits."""
    failed: Callable[[JournalError], None] | None
    """Is called on any thread for each row that failed, if no task waits."""


def notify(
    batch: list[PendingWrite], error: JournalError | None, here: asyncio.AbstractEventLoop | None
) -> None:
    """Wake the tasks that wait for ``batch``: the rows are durable, or ``error`` tells why not.
    ``here``: the loop of this thread, if it runs one."""
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for write in batch:
        if write.written is not None and write.loop is not None:
            by_loop.setdefault(write.loop, []).append(write.written)
        elif error is not None and write.failed is not None:
            for _ in write.rows:
                write.failed(error)
    for loop, futures in by_loop.items():
        if loop is here:
            _wake(futures, error)
        else:
            with contextlib.suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(_wake, futures, error)


def _wake(futures: list[asyncio.Future[None]], error: JournalError | None) -> None:
    for written in futures:
        if written.done():
            continue
        if error is None:
            written.set_result(None)
        else:
            written.set_exception(error)
