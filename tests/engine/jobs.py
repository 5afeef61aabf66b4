"""Jobs of their own, without a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from agf_magics.host.host import Host
from agf_magics.host.job import Job, prepare

T = TypeVar("T")


def start(main: Callable[[Host], Awaitable[T]], **options: Any) -> Job[T]:
    """Start ``main`` on the engine's loop."""
    job = prepare(main, **options)
    job.start()
    return job
