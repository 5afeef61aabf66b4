"""Plain functions in a fan-out, the default of most users, against `ThreadPoolExecutor.map`. Paired rounds, CPU time.

``python -m tests.bench.fan_outs`` prints these tables alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import agf_magics as agf
from agf_magics.journal.store import Store
from agf_magics.settings import current
from tests.bench.rounds import Row, paired

LIMITS = (1, 8, 16)
TRIVIAL, WAITING = 10_000, 500
"""Elements."""

FAN = """
pipeline: fan
steps:
  - for_each:
      over: ctx.xs
      max_parallel: {limit}
      on_error: abort
      do: {{tool: {{name: {tool}, args: {{x: !expr item}}}}}}
      collect: {{transform: {{value: count(pipe)}}}}
"""


def trivial(x: int) -> int:
    return x + 1


def waiting(x: int) -> int:
    time.sleep(0.001)
    return x + 1


def rows(rounds: int = 9) -> tuple[list[Row], list[Row]]:
    """An element of a trivial function, and of one that waits for 1 ms."""
    before = current.settings
    with TemporaryDirectory() as folder:
        try:
            journal = str(Path(folder) / "runs.sqlite")
            return _rows(trivial, TRIVIAL, journal, rounds), _rows(waiting, WAITING, journal, rounds)
        finally:
            Store.close_all()
            current.settings = before


def _rows(function: Callable[[int], int], count: int, journal: str, rounds: int) -> list[Row]:
    registry = agf.Registry()
    agf.tool(function, registry=registry)
    xs = list(range(count))

    def mapped() -> None:
        with ThreadPoolExecutor(16) as executor:
            assert len(list(executor.map(function, xs))) == count

    candidates: dict[str, Callable[[], Any]] = {"ThreadPoolExecutor(16).map": mapped}
    for limit in LIMITS:
        flow = agf.load(FAN.format(limit=limit, tool=function.__name__), registry=registry)
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
    for table in rows(int(os.environ.get("ROUNDS", "9"))):
        for row in table:
            print(f"{row.name:55} {row.micros:8.1f} µs  x{row.ratio:6.2f}")
