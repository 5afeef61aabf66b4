"""The CPU time of loading, running, reporting and tables grows at most with the power 1.2 of the size.

Each action is measured at 1, 2, 4 and 8 times the size, each as the least of two measurements. Only ratios count. These
tests are slow.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf

pytestmark = pytest.mark.slow

MOST = 1.2


def pipeline(*steps: Any) -> Any:
    return agf.load(json.dumps({"pipeline": "p", "steps": list(steps)}), "pipeline")


def step(i: int, value: str = "1") -> Any:
    return {"transform": {"value": value, "output": f"s{i}"}}


def csv_of(columns: int, rows: int, folder: Path) -> str:
    path = folder / f"{columns}x{rows}.csv"
    line = ",".join(["1"] * columns)
    path.write_text("\n".join([",".join(f"c{i}" for i in range(columns)), *[line] * rows]))
    return str(path)


def parquet_of(rows: int, group: int, folder: Path) -> str:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = folder / f"{rows}-{group}.parquet"
    parquet.write_table(pyarrow.table({"c1": list(range(rows))}), path, row_group_size=group)
    return str(path)


def over(path: str) -> None:
    agf.run(agf.load("pipeline: p\nsteps: [{transform: {value: ctx.c1}}]"), over=path)


def report_of(steps: int, folder: Path) -> Callable[[], object]:
    run = agf.run(pipeline(*(step(i) for i in range(steps))))
    return lambda: agf.report(run, folder / "r.html")


def report_of_calls(steps: int, folder: Path) -> Callable[[], object]:
    agf.define(json.dumps({"pipeline": "sub", "steps": [{"transform": {"value": "ctx.n"}}]}))
    run = agf.run(pipeline(*[{"call": {"pipeline": "sub", "pass": {"n": "1"}}}] * steps))
    return lambda: agf.report(run, folder / "r.html")


def skipped(n: int) -> Any:
    sub = {"transform": {"value": "1"}}
    cases = {f"c{i}": {"pipeline": "sub"} for i in range(n)}
    agf.define(json.dumps({"pipeline": "sub", "steps": [sub]}))
    return pipeline({"match": {"on": "ctx.a", "cases": cases, "default": {"pipeline": "sub"}}})


KINDS: dict[str, tuple[int, Callable[[int, Path], Callable[[], object]]]] = {
    "load, by steps": (400, lambda n, _: lambda: pipeline(*(step(i) for i in range(n)))),
    "load, by steps that read all": (400, lambda n, _: lambda: pipeline(*(step(i, "text(ctx)") for i in range(n)))),
    "run, by steps": (400, lambda n, _: (lambda flow: lambda: agf.run(flow))(pipeline(*(step(i) for i in range(n))))),
    "run, by cases that are skipped": (200, lambda n, _: (lambda flow: lambda: agf.run(flow, {"a": "z"}))(skipped(n))),
    "report, by steps": (50, report_of),
    "report, by steps that call a flow": (250, report_of_calls),
    "over, by rows of a CSV file": (500, lambda n, folder: (lambda path: lambda: over(path))(csv_of(2, n, folder))),
    "over, by columns": (2_000, lambda n, folder: (lambda path: lambda: over(path))(csv_of(n, 2, folder))),
    "over, by rows of one row group": (
        2_000,
        lambda n, folder: (lambda path: lambda: over(path))(parquet_of(n, n, folder)),
    ),
    "over, by row groups": (
        2_000,
        lambda n, folder: (lambda path: lambda: over(path))(parquet_of(n, 100, folder)),
    ),
}


def cpu(act: Callable[[], object]) -> float:
    times = []
    for _ in range(2):
        start = time.process_time()
        act()
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("kind", KINDS)
def test_the_time_grows_with_the_size(kind: str, tmp_path: Path) -> None:
    size, make = KINDS[kind]
    make(10, tmp_path)()
    times = [cpu(make(size * more, tmp_path)) for more in (1, 2, 4, 8)]
    # The fit begins with the second size. The costs that do not depend on the size can only make the first one too
    # expensive.
    exponent = math.log(times[3] / times[1], 4)
    assert exponent <= MOST, f"{exponent:.2f}: {times}"
