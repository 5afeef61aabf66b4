"""§ 5: what resuming and reusing cost: a run of many trivial calls that fails at its last one, its resumed rest, and a
new run that reuses all results. CPU time of the process, paired rounds."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import agf_magics as agf
from agf_magics.journal.store import Store
from agf_magics.lifecycle.settings import current
from tests.bench.rounds import Row
from tests.fans import fan_out

CALLS, ROUNDS = 20_000, 5

TEXT = fan_out(limit=16, collect="count(pipe)") + "  - tool: {name: last, args: {x: !expr pipe}}\n"


def rows(calls: int = CALLS, rounds: int = ROUNDS) -> list[Row]:
    """Microseconds a call; the ratios are to a run that makes all calls."""
    registry, before = agf.Registry(), current.settings

    @agf.tool(registry=registry)
    async def work(x: int) -> dict[str, object]:
        return {"n": x, "text": "some text of a result"}

    @agf.tool(registry=registry, where="loop")
    def last(x: int) -> int:
        raise ValueError("the last call fails")

    flow, given = agf.load(TEXT, registry=registry), {"xs": list(range(calls))}

    def whole(reuse: bool = False) -> agf.Run:
        return agf.run(flow, given, registry=registry, raises=False, reuse=reuse)

    def seconds(folder: Path) -> list[float]:
        current.settings = replace(before, journal=str(folder / "runs.sqlite"))
        try:
            first, made = _timed(whole)
            return [made, _timed(lambda: whole(reuse=True))[1], _timed(lambda: agf.resume(first.run_id, **again))[1]]
        finally:
            Store.close_all()
            current.settings = before

    again: Any = {"registry": registry, "raises": False}
    found: dict[str, list[float]] = {"a run": [], "a run that reuses all": [], "a resumed run": []}
    for number in range(rounds + 1):
        with TemporaryDirectory() as folder:
            times = seconds(Path(folder))
        for name, taken in zip(found, times, strict=True) if number else ():
            found[name].append(taken)
    base = found["a run"]
    return [
        Row(name, statistics.median(each) / calls * 1e6, statistics.median(map(lambda a, b: a / b, each, base)))
        for name, each in found.items()
    ]


def _timed(do: Callable[[], agf.Run]) -> tuple[agf.Run, float]:
    gc.collect()
    start = time.process_time()
    return do(), time.process_time() - start


def main() -> None:
    for row in rows():
        print(f"{row.name:25} {row.micros:7.2f} us a call  x {row.ratio:.2f}")


if __name__ == "__main__":
    main()
