"""The warning ``on.starved``: the workers wait for the kernel."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.workers import starvation
from tests.workers.in_process import InProcess

FAN = """
pipeline: main
steps:
  - for_each:
      over: ctx.xs
      {limit}on_error: abort
      do: {{tool: {{name: work, args: {{x: !expr item}}}}}}
      collect: {{transform: {{value: count(pipe)}}}}
"""
PARALLEL = """
pipeline: main
steps:
  - parallel:
      branches:
        far: {tool: {name: far, args: {}}}
        here: {tool: {name: here, args: {}}}
      collect: {transform: {value: "[far, here]"}}
"""


@pytest.fixture(autouse=True)
def short_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starvation, "WINDOW", 0.1)


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(8) as found:
        yield found


def warnings(work: Any, count: int, on: object, limit: str = "", **options: Any) -> list[str]:
    registry = agf.Registry()
    agf.tool(work, name="work", registry=registry, **options)
    run = agf.run(FAN.format(limit=limit), {"xs": list(range(count))}, registry=registry, on=on)
    assert run.output == count
    return [str(found.message) for found in run.warnings if found.code == "on.starved"]


@pytest.mark.parametrize("where", ["worker", None], ids=["calls", "whole elements"])
def test_lanes_that_the_kernel_cannot_fill_are_reported_once(where: Any) -> None:
    """The kernel is busy all the time, as these lanes take none."""
    backend = InProcess(lanes=64)
    assert warnings(lambda x: x, 20_000, backend, where=where) == [
        "the workers (this process) were idle for more than half of 0.1 s: the kernel cannot send work faster"
    ]
    assert bool(backend.numbers) == (where is None)


def test_a_lane_that_works_is_not_reported() -> None:
    assert warnings(lambda x: sum(range(50_000)), 400, InProcess(lanes=1)) == []


def test_lanes_that_the_author_does_not_use_are_not_reported(threads: Executor) -> None:
    """Seven of eight lanes are idle, and so is the kernel."""
    assert warnings(lambda x: time.sleep(0.02), 30, threads, "max_parallel: 1\n      ") == []


def test_one_long_call_beside_a_busy_kernel_is_not_reported(threads: Executor, tmp_path: Path) -> None:
    """There is no work for the other lanes."""
    registry, mark = agf.Registry(), str(tmp_path / "ended")

    async def here() -> int:
        found = sum(range(10_000_000))  # it blocks the loop
        Path(mark).touch()
        return found

    def far() -> str:
        import pathlib

        while not pathlib.Path(mark).exists():
            time.sleep(0.01)
        return "far"

    agf.tool(here, registry=registry)
    agf.tool(far, registry=registry)
    run = agf.run(PARALLEL, registry=registry, on=threads)
    assert run.output[0] == "far"
    assert run.warnings == ()
