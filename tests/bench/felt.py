"""Measures what a user waits for: each figure with its goal.

Parts that need a fresh process or a kernel start one. `python -m tests.bench.felt draws loads` prints some parts.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from jupyter_client.manager import start_new_kernel

import agf_magics as agf
from agf_magics.journal.database.store import Store
from agf_magics.settings.settings import current
from tests.bench.flows import graph
from tests.bench.rounds import paired
from tests.fans import fan_out


class Felt(NamedTuple):
    """A wait or a cost that a user notices, as measured, and its goal."""

    what: str
    """The words of its row in the table of goals."""
    most: float
    """The goal."""
    measured: float
    unit: str
    """The unit of the goal and of the measured value: ``ms``, ``×``, ``kB`` …"""
    beside: str = ""
    """What the same takes in another tool."""


# --- in a kernel ------------------------------------------------------------------------------------------------------

FAN = """%%pipeline {options} --run --set xs=$xs
pipeline: p{name}
steps:
- for_each:
    over: ctx.xs
    on_error: abort
    do: {{tool: {{name: work, args: {{x: !expr item}}}}}}
    collect: {{transform: {{value: sum(pipe)}}}}
    output: total
- transform: {{value: ctx.total + 1}}
"""


def draws() -> Iterator[Felt]:
    """The cost of `--draw --run` with the first example of the README, with 2,000 plain functions, and with a small
    cell."""
    manager, client = start_new_kernel(env={**os.environ, "JPY_SESSION_NAME": "bench.ipynb"})
    try:
        _cell(client, "%load_ext agf_magics\nfrom agf_magics import tool\n@tool\ndef work(x: int) -> int: return x * x")
        _cell(client, "xs = list(range(2000))")
        rounds = list[tuple[float, float, int, int, float]]()
        for number in range(6):
            plain, *_ = _cell(client, FAN.format(options="", name=f"a{number}"))
            drawn, kilobytes, updates, seconds = _cell(client, FAN.format(options="--draw", name=f"b{number}"))
            rounds.append((drawn / plain, kilobytes, updates, updates / max(seconds, 1), drawn))  # type: ignore[arg-type]
        ratio, kilobytes, _, a_second, _ = (statistics.median(column) for column in zip(*rounds[1:], strict=True))
        yield Felt("`--draw --run`, 2,000 plain functions: CPU, to the run without `--draw`", 1.2, ratio, "×")
        yield Felt("its updates of the picture in a second", 10, a_second, "")
        yield Felt("what it sends to the page", 300, kilobytes, "kB")
        _cell(client, "xs = [1, 2, 3]")
        small = [_cell(client, FAN.format(options="--draw", name=f"c{number}")) for number in range(12)][2:]
        yield Felt("a cell with `--draw --run`", 40, statistics.median(cpu for cpu, *_ in small) * 1e3, "ms")
        yield Felt("what it sends to the page", 30, statistics.median(kilobytes for _, kilobytes, *_ in small), "kB")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _cell(client: Any, code: str) -> tuple[float, float, int, float]:
    """Run a cell. Returns the seconds of the kernel's CPU, the kB of its messages, the updates of displays, and the
    seconds."""
    sizes, kinds = list[int](), Counter[str]()

    def hook(message: Any) -> None:
        kinds[message["msg_type"]] += 1
        sizes.append(len(json.dumps(message["content"], default=str)))

    clock = {"cpu": "__import__('time').process_time()"}
    before = client.execute_interactive("", silent=True, user_expressions=clock, output_hook=hook)
    start = time.perf_counter()
    reply = client.execute_interactive(code, timeout=120, user_expressions=clock, output_hook=hook)
    assert reply["content"]["status"] == "ok", reply["content"]
    used = _figure(reply) - _figure(before)
    return used, sum(sizes) / 1e3, kinds["update_display_data"], time.perf_counter() - start


def _figure(reply: Any) -> float:
    return float(reply["content"]["user_expressions"]["cpu"]["data"]["text/plain"])


# --- in a fresh process -----------------------------------------------------------------------------------------------

LOAD_EXT = """
import time
import ipykernel.ipkernel, ipykernel.zmqshell
from IPython.core.interactiveshell import InteractiveShell
ip = InteractiveShell.instance()
start = time.perf_counter()
ip.run_line_magic('load_ext', 'agf_magics')
print((time.perf_counter() - start) * 1e3)
"""

FIRST_RUN = """
import time
import numpy, pandas, polars
import agf_magics as agf
@agf.tool
def none(x: int) -> int: return x
@agf.tool
def three(x: int) -> int:
    return int(numpy.sum([x])) + int(pandas.Series([x]).sum()) + int(polars.Series([x]).sum())
def timed(name):
    flow = agf.load(f"pipeline: q\\nsteps:\\n- tool: {{name: {name}, args: {{x: 1}}}}\\n")
    start = time.process_time()
    agf.run(flow)
    return time.process_time() - start
timed("none"), three(1)
print((timed("three") - timed("none")) * 1e3)
"""


def starts() -> Iterator[Felt]:
    yield Felt("`%load_ext` in a fresh kernel", 150, _fresh(LOAD_EXT), "ms")
    yield Felt(
        "the first journaled run of a tool that names NumPy, pandas and polars: CPU, more than of one that names none",
        20, _fresh(FIRST_RUN), "ms",
    )  # fmt: skip


def _fresh(code: str, rounds: int = 7) -> float:
    """The median of the figures that ``code`` prints in fresh processes."""
    # The first round writes the bytecode, so the others measure an installed package.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPATH"] = str(Path.cwd())
    figures = []
    for _ in range(rounds + 1):
        with TemporaryDirectory() as folder:
            Path(folder, "pyproject.toml").touch()
            script = Path(folder, "code.py")
            script.write_text(code)
            ran = subprocess.run([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, check=True,
                                 env=env, cwd=folder)  # fmt: skip
            figures.append(float(ran.stdout.splitlines()[-1]))
    return statistics.median(figures[1:])


# --- large values -----------------------------------------------------------------------------------------------------

HANDED = (
    "pipeline: handed\nsteps:\n- tool: {name: make, output: rows}\n"
    "- tool: {name: count, args: {rows: !expr rows}, output: a}\n"
    "- tool: {name: count, args: {rows: !expr rows}, output: b}\n- transform: {value: ctx.a + ctx.b}\n"
)


def value_of_one_mb() -> list[dict[str, Any]]:
    """A value of 1 MB."""
    return [{"id": n, "text": "x" * 50} for n in range(12_500)]


def large() -> Iterator[Felt]:
    rows = value_of_one_mb()

    def bump(state: dict[str, Any]) -> dict[str, Any]:
        return {"n": state["n"] + 1}

    def count(rows: list[Any]) -> int:
        return len(rows)

    registry = agf.Registry()
    agf.tool(bump, name="node", registry=registry)
    agf.tool(value_of_one_mb, name="make", registry=registry)
    agf.tool(count, registry=registry)
    flows = {number: agf.load(_with_rows(graph(number)), "graph", registry=registry) for number in (20, 60)}
    handed = agf.load(HANDED, registry=registry)
    for journal, most in ((False, 2.5), (True, 6.0)):
        with _journal(journal):
            few, many = (
                _cpu(lambda flow=flow: agf.run(flow, {"n": 0, "rows": rows}, registry=registry))  # type: ignore[misc]
                for flow in flows.values()
            )
        name = "on" if journal else "off"
        yield Felt(f"one more node of a graph with 1 MB of state, journal {name}: CPU", most, (many - few) / 40, "ms")
    for journal, most in ((False, 30.0), (True, 70.0)):
        with _journal(journal):
            taken = _cpu(lambda: agf.run(handed, registry=registry))
        name = "on" if journal else "off"
        yield Felt(f"1 MB of JSON from a tool to two others, journal {name}: CPU", most, taken, "ms")


def _with_rows(text: str) -> str:
    return text.replace('"state": {', '"state": {"rows": "list", ')


def _cpu(do: Callable[[], object], rounds: int = 7) -> float:
    """The median of the CPU milliseconds of ``do``."""
    do()
    taken = []
    for _ in range(rounds):
        start = time.process_time()
        do()
        taken.append(time.process_time() - start)
    return statistics.median(taken) * 1e3


class _journal:
    """A context with a fresh journal, or without a journal."""

    def __init__(self, on: bool) -> None:
        self.on, self.folder, self.before = on, TemporaryDirectory(), current.settings

    def __enter__(self) -> None:
        where = str(Path(self.folder.name, "runs.sqlite")) if self.on else None
        current.settings = replace(self.before, journal=where)

    def __exit__(self, *_: object) -> None:
        Store.close_all()
        current.settings = self.before
        self.folder.cleanup()


# --- on processes -----------------------------------------------------------------------------------------------------


def first(a: Any) -> float:
    return float(a[0])


def array(x: int) -> Any:
    import numpy as np

    return np.zeros(125_000) + x


def cell(df: Any, x: int) -> float:
    return float(df.iloc[x, 0])


SHARED = (
    "pipeline: shared\nsteps:\n- for_each:\n    over: ctx.xs\n    max_parallel: 16\n    on_error: abort\n"
    "    do: {tool: {name: cell, args: {df: !expr ctx.df, x: !expr item}}}\n    collect: {transform: {value: pipe}}\n"
)


def processes() -> Iterator[Felt]:
    import numpy as np
    import pandas as pd

    registry = agf.Registry()
    for function in (first, array, cell):
        agf.tool(function, registry=registry)
    arrays = [np.zeros(125_000) + n for n in range(100)]
    frame = pd.DataFrame(np.random.default_rng(1).random((1_250_000, 10)))
    pool = ProcessPoolExecutor(2)
    try:
        for name, function, argument, xs in (
            ("arguments", first, "a", arrays),
            ("results", array, "x", list(range(100))),
        ):
            flow = agf.load(fan_out(function.__name__, argument=argument, limit=16), registry=registry)
            with _journal(True):
                pair = paired(
                    {
                        "pool": lambda function=function, xs=xs: list(pool.map(function, xs, chunksize=6)),  # type: ignore[misc]
                        "ours": lambda flow=flow, xs=xs: agf.run(flow, {"xs": xs}, registry=registry, on="processes:2"),  # type: ignore[misc]
                    },
                    rounds=5,
                )
            yield Felt(f"arrays of 1 MB as {name} on two processes, journal on, to a process pool", 1.5,
                       pair[1].ratio, "×")  # fmt: skip
    finally:
        pool.shutdown()
    try:
        from joblib import Parallel, delayed
    except ImportError:
        return
    flow = agf.load(SHARED, registry=registry)
    with _journal(True):
        pair = paired(
            {
                "loky": lambda: Parallel(2)(delayed(cell)(frame, x) for x in range(24)),
                "ours": lambda: agf.run(
                    flow, {"df": frame, "xs": list(range(24))}, registry=registry, on="processes:2"
                ),
            },
            rounds=3,
        )
    yield Felt("a DataFrame of 100 MB as an argument of 24 calls on two processes, journal on, to joblib's loky", 2,
               pair[1].ratio, "×", f"{pair[1].micros / 1e6:.1f} s, loky {pair[0].micros / 1e6:.1f} s")  # fmt: skip


# --- a large journal and long definitions -----------------------------------------------------------------------------

RUNS = 5_000


def reuse() -> Iterator[Felt]:
    registry = agf.Registry()
    agf.tool(lambda x: x, name="one", registry=registry)
    text = fan_out("one") + "  - tool: {name: one, args: {x: !expr ctx.n}}\n"
    flow = agf.load(text, registry=registry)
    with _journal(True):
        for number in range(RUNS):
            agf.run(flow, {"n": number, "xs": [1, 2, 3]}, registry=registry)
        fields = {"n": 1, "xs": [1, 2, 3]}
        run, again = paired(
            {
                "a run": lambda: agf.run(flow, fields, registry=registry),
                "reuse": lambda: agf.run(flow, fields, registry=registry, reuse=True),
            },
            rounds=31,
        )
    yield Felt(f"`--reuse` in a journal of {RUNS:,} runs: more than the run takes", 5,
               (again.micros - run.micros) / 1e3, "ms")  # fmt: skip


STEP = "pipeline: p\nsteps: [{transform: {value: '1'}}]\n"
LONG: dict[str, tuple[str, str]] = {
    "a schema with an enum of 16,000 values": (
        "pipeline",
        f"schema: A\nfields:\n  x: {{type: enum, values: [{','.join(f'v{n}' for n in range(16_000))}]}}\n---\n{STEP}",
    ),
    "4,800 schemas in a chain": (
        "pipeline",
        "".join(f"schema: A{n}\nfields:\n  x: {{type: ref, schema: A{n + 1}}}\n---\n" for n in range(4_800))
        + f"schema: A4800\nfields: {{x: {{type: string}}}}\n---\n{STEP}",
    ),
    "3,200 calls of a plan on one path": (
        "plan",
        json.dumps([{"_tool": "t", "x": "$state.a", "_outputPath": "$state.a"}] * 3_200),
    ),
    "4,800 steps of a policy": (
        "policy",
        'schema_version: "1.0.0"\nmetadata: {id: t, name: T, version: "1.0.0", description: d}\n'
        "interface: {input: {}, output: {}}\nexecution_policy:\n  id: agf.sequential\n  config:\n    steps:\n"
        + "".join(
            f"    - {{agent: a, alias: x{n}, input_mapping: {{q: x{max(n - 1, 0)}.output.q}}}}\n" for n in range(4_800)
        ),
    ),
}


def loads() -> Iterator[Felt]:
    for name, (language, text) in LONG.items():

        def load(language: str = language, text: str = text) -> None:
            with contextlib.suppress(agf.AgfError):
                agf.load(text, language, name="p")

        yield Felt(f"loading {name}", 2, _cpu(load, rounds=1) / 1e3, "s")


PARTS: dict[str, Callable[[], Iterator[Felt]]] = {
    "draws": draws,
    "starts": starts,
    "large": large,
    "processes": processes,
    "reuse": reuse,
    "loads": loads,
}


if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        for one in PARTS[part]():
            print(f"{one.what:110} {one.measured:8.2f} {one.unit:3} (at most {one.most:g}) {one.beside}", flush=True)
