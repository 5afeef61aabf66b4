"""`DaskFlight`, a chunk that the Dask backend sent or that waits for the cluster, and how it fails.

A chunk itself never raises, so a task of Dask that did not finish is a loss, or Dask cannot run it at
all. A large function, or an argument that
chunks share, is sent once to the cluster and not with each chunk. It becomes the result of a task of its
own, because Dask repeats a task whose worker was lost. With Dask's ``scatter`` the data, and all chunks
that need them, would be lost with the worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from logging import DEBUG
from typing import Any

from ....text.giving_up import giving_up
from ...sending.functions import other_python
from ..backend import CLOSED, Lost


class DaskFlight:
    """A chunk in flight. The worker calls ``run(*order)``."""

    def __init__(
        self,
        key: str,
        run: Callable[..., Any],
        order: tuple[Any, ...],
        report: Callable[[Any], None],
    ) -> None:
        self.key = key
        self.run = run
        self.order = order
        self.report = report
        self.future: Any = None
        """The future of its task; None: it was not submitted, or has ended."""
        self.worker = ""
        """The only worker that may run the chunk; empty if any worker may."""
        self.needs: Mapping[str, float] = {}
        """The resources that it needs of that worker, by name."""
        self.cancels = 0
        """The number of times that it was cancelled."""
        self.ended = False

    def end(self, outcome: Any) -> None:
        """Report the outcome. The first call counts."""
        if not self.ended:
            self.ended = True
            self.order = ()
            self.report(outcome)


MEMORY_TOPIC = "worker-restart-memory"
"""The topic of Dask's events in which a nanny reports a worker that it ends because of its memory. A
nanny is Dask's process that watches and restarts a worker."""

CONNECTED = ("running", "connecting")
"""The statuses of a client that can send chunks, now or when it has connected again."""

SOON = 5.0
"""Seconds in which the scheduler must answer."""


async def find_failure(
    client: Any, future: Any, is_cancelled: bool, is_closed: bool
) -> BaseException:
    """The outcome of a chunk whose ``future`` did not finish. ``is_closed``: whether the workers
    were closed."""
    from distributed import KilledWorker

    if future.status != "error":
        if is_cancelled:
            return Lost("cancelled", cancelled=True)
        return lost_connection(client.status, is_closed)
    error: BaseException = await future.exception()
    if isinstance(error, KilledWorker):
        why = await explain_end(client, error.last_worker.address)
        if error.allowed_failures:
            why = f"{error.allowed_failures + 1} workers ended during it; the last one: {why}"
        return Lost(why, last=True)
    if python := other_python(error):
        # A worker with another Python came after the check of versions; another one can run the chunk.
        return Lost(f"a worker cannot read it: {python}")
    return error


def lost_connection(status: str, is_closed: bool) -> Lost:
    """The outcome of a chunk that was sent when the client had this status. While the client connects
    again, the chunk can be repeated. ``is_closed``: whether the person has closed the workers; Dask
    itself closes a client that cannot connect again."""
    why = CLOSED if is_closed else "the connection to the scheduler was lost"
    return Lost(why, gone=status not in CONNECTED)


async def explain_end(client: Any, worker: str) -> str:
    """The words for how the worker at an address ended. Only the end because of its memory is known: the
    worker's nanny reports it."""
    events: Sequence[Any] = ()
    # If this fails, the scheduler is lost, too.
    with giving_up(__name__, "the Dask scheduler did not say how a worker ended", DEBUG):
        events = await asyncio.wait_for(client.get_events(MEMORY_TOPIC), SOON)
    for _, event in reversed(events):
        if isinstance(event, Mapping) and event.get("worker") == worker:
            used = event.get("rss")
            size = f" at {used / 1e6:,.0f} MB" if isinstance(used, int | float) else ""
            return f"worker {worker} was out of memory{size}, so its nanny restarted it"
    return f"worker {worker} ended during it"


def submit_bytes(client: Any, key: str, data: bytes) -> Any:
    """The future of a pickled function or argument, for the chunks that depend on it. ``key``: the
    name of its task."""
    from dask import config

    with config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
        # Our own warning `on.heavy` says it.
        return client.submit(bytes, data, key=key, pure=False)
