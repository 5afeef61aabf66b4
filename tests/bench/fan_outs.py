"""Plain functions in a fan-out, the default of most users. Paired rounds, CPU time.

Several at a time are compared to `ThreadPoolExecutor.map`, which like them need not wait for one call before the next.
One at a time (``max_parallel: 1``) is compared to a loop that awaits each call on a thread: there too, each call ends
before the next one starts, which `map` does not do.

``python -m tests.bench.fan_outs`` prints these tables alone.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import agf_magics as agf
from agf_magics.journal.store import Store
from agf_magics.lifecycle.settings import current
from tests.bench.rounds import Row, paired
from tests.fans import fan_out

LIMITS = (8, 16)
TRIVIAL, WAITING = 10_000, 500
"""Elements."""


def trivial(x: int) -> int:
    return x + 1


def waiting(x: int) -> int:
    time.sleep(0.001)
    return x + 1


def rows(rounds: int = 9) -> tuple[list[Row], list[Row]]:
    """Several at a time: an element of a trivial function, and of one that waits for 1 ms."""
    return _both(lambda function, count, journal: _several(function, count, journal, rounds))


def single_rows(rounds: int = 9) -> tuple[list[Row], list[Row]]:
    """The same, one at a time."""
    return _both(lambda function, count, journal: _single(function, count, journal, rounds))


def _both(measure: Callable[[Callable[[int], int], int, str], list[Row]]) -> tuple[list[Row], list[Row]]:
    before = current.settings
    with TemporaryDirectory() as folder:
        try:
            journal = str(Path(folder) / "runs.sqlite")
            return measure(trivial, TRIVIAL, journal), measure(waiting, WAITING, journal)
        finally:
            Store.close_all()
            current.settings = before


def _several(function: Callable[[int], int], count: int, journal: str, rounds: int) -> list[Row]:
    def mapped() -> None:
        with ThreadPoolExecutor(16) as executor:
            assert len(list(executor.map(function, range(count)))) == count

    return _rows("ThreadPoolExecutor(16).map", mapped, LIMITS, function, count, journal, rounds)


def _single(function: Callable[[int], int], count: int, journal: str, rounds: int) -> list[Row]:
    async def each_after_the_one_before() -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as executor:
            for x in range(count):
                await loop.run_in_executor(executor, function, x)

    peer = "await run_in_executor, one after the other"
    return _rows(peer, lambda: asyncio.run(each_after_the_one_before()), (1,), function, count, journal, rounds)


def _rows(
    peer: str, run: Callable[[], Any], limits: Sequence[int], function: Callable[[int], int], count: int, journal: str,
    rounds: int,
) -> list[Row]:  # fmt: skip
    registry = agf.Registry()
    agf.tool(function, registry=registry)
    candidates, xs = {peer: run}, list(range(count))
    for limit in limits:
        flow = agf.load(fan_out(function.__name__, limit=limit, collect="count(pipe)"), registry=registry)
        for name, where in (("off", None), ("on", journal)):
            candidates[f"agf: {function.__name__}, max_parallel {limit}, journal {name}"] = _ours(
                flow, registry, xs, where
            )
    return paired(candidates, per=count, rounds=rounds, clock=time.process_time)


def _ours(flow: Any, registry: agf.Registry, xs: list[int], journal: str | None) -> Callable[[], None]:
    def run() -> None:
        current.settings = replace(current.settings, journal=journal)
        assert agf.run(flow, {"xs": xs}, registry=registry).output == len(xs)

    return run


if __name__ == "__main__":
    rounds = int(os.environ.get("ROUNDS", "9"))
    for table in (*rows(rounds), *single_rows(rounds)):
        for row in table:
            print(f"{row.name:55} {row.micros:8.1f} µs  x{row.ratio:6.2f}")
