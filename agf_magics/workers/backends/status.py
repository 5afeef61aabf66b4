"""The status of workers as a person sees it: what `%workers` lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from .backend import WorkerBackend


class WorkerStatus(NamedTuple):
    """A worker, or the workers of an executor that does not report them one by one."""

    name: str
    lanes: int
    working: int | None = None
    """The number of chunks that the worker executes; None: not known."""
    memory: int | None = None
    """The bytes of memory that the worker uses; None: not known."""
    memory_limit: int | None = None
    """The bytes of memory that the worker may use; None: not known."""
    versions: Mapping[str, str] = {}
    """The versions of Python and of packages; empty: not known."""
    resources: Mapping[str, float] = {}
    """The resources that the worker offers, by name."""


class BackendStatus(NamedTuple):
    """A worker backend."""

    name: str
    lanes: int
    in_flight: int | None
    """Chunks that were sent and have not ended; None: not known."""
    workers: tuple[WorkerStatus, ...] = ()
    """The workers that run now, as far as the backend knows them."""
    dashboard: str = ""
    """The address of a page about the workers; empty if there is no such page."""
    starting: int = 0
    """The number of workers that are being started."""


def describe(backend: WorkerBackend) -> BackendStatus:
    """The status of a backend; for a backend that reports no status, its name and its lanes."""
    describe_itself: Callable[[], BackendStatus] | None = getattr(backend, "describe", None)
    if describe_itself is not None:
        return describe_itself()
    return BackendStatus(
        backend.name, backend.lanes, None, (WorkerStatus(backend.name, backend.lanes),)
    )
