"""Workers and kernels are killed by SIGKILL in all shapes of runs: the outcome stays the same, with one record for each
call.

``python -m tests.workers.test_killed MINUTES`` repeats this for some time and prints the number of killed processes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agf_magics as agf
from tests.workers import kernel

ROOT = Path(__file__).parents[2]


class Killed(NamedTuple):
    """How many processes died until a run had ended, and how many chunks were sent."""

    workers: int
    kernels: int
    chunks: int


def undisturbed(shape: str) -> Any:
    """The status and the output of a run without workers."""
    registry = agf.Registry()
    agf.tool(lambda x: x * 2, name="work", registry=registry)
    for language, text in kernel.SHAPES[shape]:
        agf.define(text, language, registry=registry)
    run = agf.run("main", {"xs": list(range(kernel.COUNT))}, registry=registry)
    return ["ok", json.loads(json.dumps(run.output)), None]


def run_killed(folder: Path, shape: str, dies: int, kills: list[int]) -> Killed:
    """Run a shape to its end. ``kills``: the number of steps after which each kernel ends, except the last one."""
    (folder / "died").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    kernels = 0
    for after in [*kills, 0, 0]:  # a call in the kernel may end the kernel once
        command = [sys.executable, "-m", "tests.workers.kernel", str(folder), shape, str(dies), str(after)]
        status = subprocess.run(command, cwd=ROOT, env=environment, timeout=120).returncode
        assert status in (0, -signal.SIGKILL)
        kernels += status != 0
        if (folder / "end.json").exists():
            break
    assert json.loads((folder / "end.json").read_text("utf-8")) == undisturbed(shape)
    twice = {record: count for record, count in records(folder).items() if count > 1}
    assert twice == {}
    chunks = len((folder / "chunks").read_text("utf-8").split())
    return Killed(len(os.listdir(folder / "died")), kernels, chunks)


def records(folder: Path) -> Counter[tuple[str, str]]:
    """The number of outcomes that the journal has for each call."""
    with closing(sqlite3.connect(folder / "runs.sqlite")) as connection:
        rows = connection.execute("select at, tries from records where what = 'finished'").fetchall()
    assert rows
    return Counter(rows)


@pytest.mark.slow
@pytest.mark.law
@settings(max_examples=3)
@given(
    shape=st.sampled_from(sorted(kernel.SHAPES)),
    dies=st.sampled_from([0, 3, 7, 20]),
    kills=st.lists(st.integers(1, 40), max_size=2),
)
def test_killed_workers_and_kernels_do_not_change_the_outcome(shape: str, dies: int, kills: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_killed(Path(folder), shape, dies, kills)


def main(minutes: float) -> None:
    end, runs, workers, kernels = time.monotonic() + minutes * 60, 0, 0, 0
    chunks, shapes = 0, sorted(kernel.SHAPES)
    while time.monotonic() < end:
        shape = shapes[runs % len(shapes)]
        with tempfile.TemporaryDirectory() as folder:
            kills = [random.randint(1, 60) for _ in range(random.randint(0, 3))]
            killed = run_killed(Path(folder), shape, random.choice([2, 3, 5]), kills)
        runs, workers, kernels = runs + 1, workers + killed.workers, kernels + killed.kernels
        chunks += killed.chunks
        if runs % len(shapes) == 0:
            print(f"{runs} runs, {workers} workers and {kernels} kernels were killed", flush=True)
    print(f"{runs} runs, {workers} workers and {kernels} kernels were killed: equal outcomes, one record for each call")
    print(f"{chunks} chunks of calls were sent")


if __name__ == "__main__":
    main(float(sys.argv[1]))
