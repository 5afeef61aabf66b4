"""What a task of Dask that did not finish means for its chunk: chunks themselves never raise."""

from __future__ import annotations

from typing import Any

from ..backend import Lost
from ..sending import other_python


async def find_failure(future: Any, is_cancelled: bool) -> BaseException:
    """The outcome of a chunk whose ``future`` did not finish."""
    from distributed import KilledWorker

    if future.status != "error":
        if is_cancelled:
            return Lost("cancelled", cancelled=True)
        return Lost("the scheduler was lost", last=True)
    error: BaseException = await future.exception()
    if isinstance(error, KilledWorker):
        last = error.last_worker.address
        return Lost(f"{error.allowed_failures + 1} workers ended during it, the last one was {last}", last=True)
    if python := other_python(error):  # such a worker came after the first look; another one can run the chunk
        return Lost(f"a worker cannot read it: {python}")
    return error


def gone(worker: str) -> str:
    """Why a chunk that only ``worker`` may run is lost."""
    return f"worker {worker} ended during it"
