"""Compares fan-outs on processes with a chunked map of Dask and of a process pool, and measures the throughput of the
kernel.

``python -m tests.bench.workers`` prints these two tables, ``python -m tests.bench.workers lanes`` only the second one.
docs/scale.md explains them.
"""

from __future__ import annotations

import asyncio
import heapq
import importlib.util
import multiprocessing
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import agf_magics as agf
from agf_magics.journal.database.store import Store
from agf_magics.settings.settings import current
from agf_magics.workers.backends.processes import Processes
from tests.bench.rounds import Row, paired
from tests.fans import fan_out

WORKERS = 2

FAN = fan_out(collect="count(pipe)")


def spin(loops: int) -> int:
    total = 0
    for i in range(loops):
        total += i * i % 7
    return total


def loops_of_a_millisecond() -> int:
    start = time.process_time()
    spin(200_000)
    return int(200 / (time.process_time() - start))


class Case(NamedTuple):
    """A fan-out that is measured in several ways: the heading of its table, its function and its elements."""

    name: str
    work: Callable[[Any], Any]
    xs: list[Any]
    chunk: int
    """The number of elements in a chunk of the baselines."""
    ways: tuple[str, ...]
    """The rows of the table. If the cost of the journal is too small to measure, there is no row without the
    journal."""


MAPS = ("dask: client.map, chunked", "ProcessPoolExecutor.map, chunked")
BOTH = ("agf: Dask, journal on", "agf: processes, journal on")
OFF = ("agf: Dask, journal off", "agf: processes, journal off")


def cases() -> Iterator[Case]:
    loops = loops_of_a_millisecond()

    def wait(milliseconds: int) -> Callable[[int], int]:
        def work(x: int) -> int:
            spin(loops * milliseconds)
            return x

        return work

    yield Case("0 ms", wait(0), list(range(10_000)), 500, (*MAPS, *BOTH, *OFF))
    yield Case("1 ms", wait(1), list(range(1_000)), 100, (*MAPS, *BOTH))
    yield Case("10 ms", wait(10), list(range(200)), 10, (MAPS[0], *BOTH))
    large = [f"{i:06d}" + "x" * 100_000 for i in range(300)]
    yield Case("100 kB in and out", lambda x: x[::-1], large, 10, (*MAPS, *BOTH, *OFF))


def call_chunk(pickled: bytes, xs: list[Any]) -> list[Any]:
    work = pickle.loads(pickled)
    return [work(x) for x in xs]


class Ways:
    """All ways to execute a fan-out, each started once."""

    def __init__(self, stack: ExitStack, with_dask: bool = True) -> None:
        self.processes = Processes(WORKERS)
        stack.callback(self.processes.close)
        context = multiprocessing.get_context("spawn")
        self.pool = stack.enter_context(ProcessPoolExecutor(WORKERS, mp_context=context))
        self.client: Any = None
        if with_dask and importlib.util.find_spec("distributed") is not None:
            from distributed import Client, LocalCluster

            cluster = LocalCluster(
                n_workers=WORKERS, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
            )
            stack.callback(cluster.close)
            self.client = Client(cluster)
            stack.callback(self.client.close)
        folder = Path(stack.enter_context(TemporaryDirectory()))
        self.journal = str(folder / "runs.sqlite")
        stack.callback(Store.close_all)

    def candidates(self, case: Case) -> dict[str, Callable[[], Any]]:
        import cloudpickle

        registry = agf.Registry()
        agf.tool(case.work, name="work", registry=registry)
        flow = agf.load(FAN, registry=registry)
        pickled = cloudpickle.dumps(case.work)
        chunks = [case.xs[i : i + case.chunk] for i in range(0, len(case.xs), case.chunk)]

        def mapped() -> None:
            client = self.client
            lists = client.gather(client.map(call_chunk, [pickled] * len(chunks), chunks, pure=False))
            assert sum(map(len, lists)) == len(case.xs)

        def pooled() -> None:
            assert sum(map(len, self.pool.map(call_chunk, [pickled] * len(chunks), chunks))) == len(case.xs)

        def ours(journal: str | None, on: Any = self.processes) -> Callable[[], None]:
            def run() -> None:
                current.settings = replace(current.settings, journal=journal)
                assert agf.run(flow, {"xs": case.xs}, registry=registry, on=on).output == len(case.xs)

            return run

        ways = {MAPS[1]: pooled, BOTH[1]: ours(self.journal), OFF[1]: ours(None)}
        if self.client is not None:
            ways |= {MAPS[0]: mapped, BOTH[0]: ours(self.journal, self.client), OFF[0]: ours(None, self.client)}
        return {name: ways[name] for name in case.ways if name in ways}


def rows(rounds: int = 3) -> Iterator[tuple[str, list[Row]]]:
    """For each case, the wall time of an element and the CPU time of an element in the kernel.

    The scheduler of the LocalCluster runs in this process. Even without work it takes 2 to 3 % of a CPU, also while
    other ways are measured."""
    before = current.settings
    try:
        with ExitStack() as stack:
            ways = Ways(stack)
            for case in cases():
                yield case.name, paired(ways.candidates(case), per=len(case.xs), rounds=rounds)
    finally:
        current.settings = before


# --- how many elements the kernel sustains ---


class Lanes:
    """A simulated backend of ``lanes`` lanes without workers. A chunk ends after the time that its calls and its
    transfer would take."""

    name, identifies_lost_chunk = "lanes", True

    def __init__(self, lanes: int, seconds: float, trip: float = 0.005) -> None:
        self.lanes, self.seconds, self.trip = lanes, seconds, trip
        self.chunks, self.busy = 0, 0.0
        self._free = [0.0] * lanes

    def submit(self, run: Any, order: tuple[Any, ...], done: Callable[[Any], None]) -> Callable[[], None]:
        loop, count = asyncio.get_running_loop(), order[3]
        elements = pickle.loads(order[2])
        begin = max(heapq.heappop(self._free), loop.time() + self.trip / 2)
        end = begin + self.seconds * count
        heapq.heappush(self._free, end)
        self.chunks, self.busy = self.chunks + 1, self.busy + self.seconds * count
        outcome = ("v" * count, pickle.dumps([element["x"] for element in elements]), self.seconds * count, [], "lane")  # type: ignore[var-annotated]
        loop.call_at(end + self.trip / 2, done, outcome)
        return lambda: None


class Load(NamedTuple):
    lanes: int
    milliseconds: float
    """The milliseconds of a call."""
    journal: bool
    rate: float
    """The number of elements a second."""
    ideal: float
    """The number of elements a second if the lanes never waited."""
    micros: float
    """The CPU time of the kernel for one element."""
    busy: float
    """The share of the time in which the lanes execute calls."""
    chunks: float
    """The number of chunks a second."""


GOALS: dict[str, dict[str, float]] = {
    "0 ms": dict.fromkeys(BOTH, 1.3),
    "1 ms": dict.fromkeys(BOTH, 1.3),
    "10 ms": dict.fromkeys(BOTH, 1.3),
    "100 kB in and out": dict.fromkeys(BOTH, 2.0) | dict.fromkeys(OFF, 1.3),
}
"""The largest allowed ratio to the first row."""

LOADS = ((2, 0.2, 10_000), (16, 2.0, 10_000), (100, 20.0, 10_000), (1000, 10.0, 20_000), (1000, 200.0, 10_000),
         (1000, 1000.0, 4_000))  # fmt: skip
"""The loads: the number of lanes, the milliseconds of a call, the number of elements."""


def loads() -> Iterator[Load]:
    """Measure the control loop of the kernel with lanes that do no work."""
    before, registry = current.settings, agf.Registry()
    agf.tool(lambda x: x, name="work", registry=registry)
    flow = agf.load(FAN, registry=registry)
    with _journal() as journal:
        try:
            for lanes, milliseconds, count in LOADS:
                for where in (None, journal):
                    current.settings = replace(before, journal=where)
                    yield _load(flow, registry, lanes, milliseconds, count, where is not None)
        finally:
            current.settings = before


def _load(flow: Any, registry: agf.Registry, lanes: int, milliseconds: float, count: int, journal: bool) -> Load:
    backend, xs = Lanes(lanes, milliseconds / 1000), list(range(count))
    wall, cpu = time.perf_counter(), time.process_time()
    assert agf.run(flow, {"xs": xs}, registry=registry, on=backend).output == count
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    ideal = lanes / (milliseconds / 1000)
    share = backend.busy / lanes / wall
    return Load(lanes, milliseconds, journal, count / wall, ideal, cpu / count * 1e6, share, backend.chunks / wall)


@contextmanager
def _journal() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        try:
            yield str(Path(folder) / "runs.sqlite")
        finally:
            Store.close_all()


def main(parts: list[str]) -> None:
    rounds = int(os.environ.get("ROUNDS", "3"))
    if "lanes" not in parts:
        for name, table in rows(rounds):
            for row in table:
                print(f"{name:18} {row.name:34} {row.micros:9.1f} µs  x{row.ratio:5.2f}  kernel {row.cpu:7.1f} µs",
                      flush=True)  # fmt: skip
    print("| lanes | call | journal | elements/s | of ideal | CPU of an element | lanes busy | chunks/s |")
    for load in loads():
        print(f"| {load.lanes:,} | {load.milliseconds:g} ms | {'on' if load.journal else 'off'} | {load.rate:,.0f} |"
              f" {100 * load.rate / load.ideal:.0f} % | {load.micros:.0f} µs | {100 * load.busy:.0f} % |"
              f" {load.chunks:.0f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
