"""Times candidates in paired rounds: every round runs all candidates back to back, and each ratio is taken within its
round."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Row(NamedTuple):
    """The cost of a candidate."""

    name: str
    micros: float
    """Microseconds for one unit of work, the median over the rounds."""
    ratio: float
    """The ratio to the first candidate of the table, the median of the ratios within rounds."""
    cpu: float = 0.0
    """Microseconds of CPU time of this process for one unit of work."""


def paired(
    candidates: Mapping[str, Callable[[], Any]],
    *,
    per: int = 1,
    times: int = 1,
    rounds: int = 15,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Row]:
    """Time each candidate ``times`` times in a round. ``per``: the units of work in one call.

    ``clock``: `time.thread_time` if all work is on one thread. On a busy machine long calls are interrupted and short
    ones are not, so by the wall clock long calls would seem slower than they are.
    """
    for run in candidates.values():
        run()
    taken: dict[str, list[float]] = {name: [] for name in candidates}
    used: dict[str, list[float]] = {name: [] for name in candidates}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, run in candidates.items():
                start, cpu = clock(), time.process_time()
                for _ in range(times):
                    run()
                taken[name].append((clock() - start) / times / per * 1e6)
                used[name].append((time.process_time() - cpu) / times / per * 1e6)
    finally:
        gc.enable()
    base = next(iter(taken.values()))
    median = statistics.median
    return [
        Row(name, median(seconds), median(a / b for a, b in zip(seconds, base, strict=True)), median(used[name]))
        for name, seconds in taken.items()
    ]
