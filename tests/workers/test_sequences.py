"""Sequences in fan-outs on workers: their elements are read for a few chunks at a time, never all at once."""

from __future__ import annotations

import threading
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import agf_magics as agf
from agf_magics.engine.shapes.elements import READ_AHEAD
from agf_magics.workers.backends.chunk_size import CHUNK_BYTES, GROWTH
from agf_magics.workers.backends.dispatcher import AHEAD
from tests.engine import kept
from tests.workers.fans import run_fan

BYTES = 100_000


class Blocks:
    """A sequence of large elements that counts how many of them exist in this process. A worker gets their bytes."""

    alive: ClassVar = set[int]()
    most = 0

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Any:
        return Block(number)


class Block:
    def __init__(self, number: int) -> None:
        self.data = bytes(BYTES)
        Blocks.alive.add(id(self))
        Blocks.most = max(Blocks.most, len(Blocks.alive))

    def __del__(self) -> None:
        Blocks.alive.discard(id(self))

    def __reduce__(self) -> Any:
        return bytes, (self.data,)


def double(x: int) -> int:
    if x < 0:
        raise KeyError(f"negative: {x}")
    return x * 2


def size(x: Any) -> int:
    return len(x)


class Numbers:
    """A sequence that cannot be pickled, so it stays in the kernel."""

    def __init__(self, items: list[int]) -> None:
        self.items, self.lock = items, threading.Lock()

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> int:
        if self.items[number] == -2:
            raise OSError("a bad block")
        return self.items[number]


@pytest.mark.parametrize("make", [Numbers, np.array], ids=["class", "array"])
def test_a_sequence_gives_the_same_on_workers_as_in_the_kernel(executor: Executor, make: Any) -> None:
    items = [*range(300), -1, -2 if make is Numbers else -1, *range(100)]
    in_kernel, on_workers = (run_fan(double, make(items), on, "continue") for on in (None, executor))
    assert in_kernel.output == on_workers.output == [x * 2 for x in items if x >= 0]
    failures = [
        sorted((failure.at, f"{failure.element}") for failure in run.progress.failures)
        for run in (in_kernel, on_workers)
    ]
    assert failures[0] == failures[1] == [(("steps[0].do", 300), "-1"), (("steps[0].do", 301), failures[0][1][1])]


@pytest.mark.parametrize("journal", [False, True])
def test_large_elements_are_read_for_the_chunks_in_flight_and_the_next_ones(
    executor: Executor, journal: bool, tmp_path: Path
) -> None:
    Blocks.most = 0
    xs: Any = Blocks(1000)
    if journal:
        with kept.journal_in(tmp_path):
            run = run_fan(size, xs, executor)
    else:
        run = run_fan(size, xs, executor)
    assert run.output == [BYTES] * 1000
    chunks = 2 * (AHEAD + 1)
    # A chunk has at most CHUNK_BYTES bytes. The estimate of the bytes of a call decreases by at most a tenth in each
    # chunk.
    assert Blocks.most <= chunks * CHUNK_BYTES / BYTES * 1.5 + READ_AHEAD + GROWTH
    while Blocks.alive:  # a thread releases its last chunk a moment later; the faulthandler ends an endless test
        executor.submit(int).result()


NESTED = """
pipeline: main
steps:
  - for_each:
      over: ctx.xs
      on_error: abort
      do:
        for_each:
          over: ctx.ys
          on_error: abort
          do: {tool: {name: work, args: {x: !expr item}}}
          collect: {transform: {value: sum(pipe)}}
      collect: {transform: {value: pipe}}
"""


def test_a_journaled_fan_out_over_a_range_in_whole_elements(executor: Executor, tmp_path: Path) -> None:
    registry = agf.Registry()
    agf.tool(double, name="work", registry=registry)
    with kept.journal_in(tmp_path):
        run = agf.run(NESTED, {"xs": range(40), "ys": np.arange(3)}, registry=registry, on=executor)
    assert run.output == [6] * 40
