"""The workers that a person sees: what `%workers` lists."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple


class WorkerStatus(NamedTuple):
    """A worker, or the workers of an executor that does not report them one by one."""

    name: str
    lanes: int
    working: int | None = None
    """The number of chunks that it executes; None: not known."""
    memory: int | None = None
    """Bytes; None: not known."""
    memory_limit: int | None = None
    versions: Mapping[str, str] = {}
    """Of Python and of packages; empty: not known."""
    resources: Mapping[str, float] = {}


class BackendStatus(NamedTuple):
    """A worker backend."""

    name: str
    lanes: int
    in_flight: int | None
    """Chunks that were sent and have not ended; None: not known."""
    workers: tuple[WorkerStatus, ...] = ()
    dashboard: str = ""
    """The address of a page about it; empty: there is none."""
    restarts: bool = False
    """Whether its workers can be restarted."""
    starting: int = 0
    """How many workers are being started."""


def memory_of(pid: int) -> int | None:
    """The bytes of memory that a process of this machine uses; None where the system does not
    tell."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
