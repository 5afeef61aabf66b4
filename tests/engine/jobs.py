"""Starts jobs of the engine without a run."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from agf_magics.engine.host.host import Host
from agf_magics.engine.host.job import Job
from agf_magics.engine.threads.call_threads import CallThreads

T = TypeVar("T")


def start(main: Callable[[Host], Awaitable[T]], **options: Any) -> Job[T]:
    """Start ``main`` on the engine's loop."""
    job = Job(main, **options)
    job.start()
    return job


def no_call_is_away() -> bool:
    """Whether every call is counted as returned. A thread does this right after it has reported the end of its call."""
    until = time.monotonic() + 60
    while CallThreads.shared().away and time.monotonic() < until:
        time.sleep(0.001)
    return not CallThreads.shared().away
