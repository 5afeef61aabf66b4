"""Any ``concurrent.futures.Executor`` as a backend: processes, ipyparallel, mpi4py, parsl, loky.
Dask has a folder of its own.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from typing import Any

from ..sending.functions import applied
from .backend import Cancel, Lost, nothing


class ExecutorBackend:
    """Sends chunks through ``submit`` of an executor."""

    identifies_lost_chunk = False
    """False: an executor that breaks loses all chunks in flight."""

    def __init__(
        self, executor: Executor, lanes: int | None = None, name: str | None = None
    ) -> None:
        """``lanes``: the number of calls that the executor makes at the same time; None: its
        ``_max_workers``, or the number of processors."""
        self.executor = executor
        self.name = name or type(executor).__name__
        max_workers: int | None = getattr(executor, "_max_workers", None)
        self.lanes = lanes or max_workers or os.cpu_count() or 1

    def submit(
        self, run: Callable[..., Any], order: tuple[Any, ...], report: Callable[[Any], None]
    ) -> Cancel:
        try:
            future = self.executor.submit(pickle.loads, applied(run, order))
        except RuntimeError as error:  # the executor was shut down, or is broken
            report(Lost(f"{self.name}: {error}", gone=True))
            return nothing
        future.add_done_callback(lambda ended: report(outcome_of(ended)))

        def cancel() -> None:
            future.cancel()

        return cancel


def outcome_of(ended: Future[Any]) -> Any:
    """The outcome of a chunk, as `WorkerBackend.submit` reports it, from a future that has ended."""
    try:
        return ended.result(0)
    except CancelledError:
        return Lost("cancelled", cancelled=True)
    except BrokenExecutor as error:
        return Lost(f"{type(error).__name__}: {error}")
    except BaseException as error:
        return error
