"""The status of a worker backend: what it reports, or else its name and its lanes."""

from __future__ import annotations

from collections.abc import Callable

from .backend import WorkerBackend
from .status import BackendStatus, WorkerStatus


def describe(backend: WorkerBackend) -> BackendStatus:
    """The state of a backend; of one that does not report it, its name and its lanes."""
    own: Callable[[], BackendStatus] | None = getattr(backend, "describe", None)
    if own is not None:
        return own()
    return BackendStatus(
        backend.name, backend.lanes, None, (WorkerStatus(backend.name, backend.lanes),)
    )
