"""Measures what large results cost: `python -m tests.bench.large_results --megabytes 1000 --rounds 3`.

Runs with and without the journal alternate in pairs, each in a process of its own. In the flows, five steps pass on a
growing table of numbers or of texts, ten steps pass on one table, and 300 elements return 100 kB each. Every result is
stored, even if it was quick to make. Finally, another process resumes a run that failed after two tables, of which it
needs one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

MEGABYTES = 200
"""The megabytes of the first table, for the page."""
ROUNDS = 2

SESSION = """
import json, os, sys
from dataclasses import replace
from pathlib import Path

os.environ["BENCH_TOKEN"] = "nobody knows these words"

import numpy as np
import pandas as pd

import agf_magics as agf
from agf_magics.journal.database import value_files
from agf_magics.settings.settings import current

flow, what, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
journal = None if what == "off" else os.path.abspath("runs.sqlite")
current.settings = replace(current.settings, journal=journal)
value_files.RATE = 1e18  # every result took longer than it takes to store it
made, random = [], np.random.default_rng(1)

@agf.tool
def load(name: str) -> object:
    made.append(name)
    if name == "text":
        return pd.DataFrame({c: random.integers(10**9, 10**10, size // 72).astype(str) for c in "abcd"})
    return pd.DataFrame({c: random.random(size // 64) for c in "abcdefgh"})

@agf.tool
def grow(frame: object, name: str) -> object:
    made.append(name)
    of = name if flow == "text" else float(ord(name))
    return frame.assign(**{f"{name}{c}": frame[c] + of for c in "ab"})

@agf.tool
def same(frame: object) -> object:
    return frame

@agf.tool
def small(number: int) -> object:
    return np.full(12_500, number)

@agf.tool
def last(frame: object) -> list:
    made.append("last")
    if what == "fails":
        raise LookupError("not yet")
    return [str(frame[name].max()) for name in frame]

def pipeline(*steps):
    return "\\n".join([f"pipeline: {flow}", "steps:", *(f"- {step}" for step in steps)])

def load_as(name, output="t0"):
    return f"tool: {{name: load, args: {{name: {name}}}, output: {output}}}"

def five(name):
    grown = (f"frame: !expr t{n}, name: {c}}}, output: t{n + 1}}}" for n, c in enumerate("xyz"))
    grown = (f"tool: {{name: grow, args: {{{given}" for given in grown)
    return pipeline(load_as(name), *grown, "tool: {name: last, args: {frame: !expr t3}}")

passed = (f"tool: {{name: same, args: {{frame: !expr t{n}}}, output: t{n + 1}}}" for n in range(9))
each = (
    "for_each: {over: ctx.numbers, on_error: abort, max_parallel: 1, collect: {transform: {value: pipe}},"
    " do: {tool: {name: small, args: {number: !expr item}}}}"
)
agf.define({
    "numbers": lambda: five("numbers"),
    "text": lambda: five("text"),
    "ten": lambda: pipeline(load_as("numbers"), *passed, "transform: {value: '1'}"),
    "small": lambda: pipeline(each),
    "two": lambda: pipeline(load_as("numbers"), load_as("others", "t1"), "tool: {name: last, args: {frame: !expr t1}}"),
}[flow]())

# What the first run of a process loads is measured elsewhere.
os.makedirs("warm", exist_ok=True)
current.settings = replace(current.settings, journal=journal and os.path.abspath("warm/runs.sqlite"))
whole, size = size, 15_000_000
agf.define(pipeline(load_as("text"), "tool: {name: same, args: {frame: !expr t0}}").replace(flow, "warm", 1))
agf.run("warm")
size, made[:] = whole, []
current.settings = replace(current.settings, journal=journal)

def of_kernel(file, name):
    path = Path("/proc/self") / file
    lines = path.read_text().splitlines() if path.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)

def read():
    return of_kernel("io", "rchar")

def highest():
    return of_kernel("status", "VmHWM")

def user_and_system():
    times = os.times()
    return times.user, times.system

read_before, begun = read(), user_and_system()
if what == "resumed":
    run = agf.resume(flow)
else:
    run = agf.run(flow, {"numbers": list(range(300))}, raises=what != "fails")
user, system = (now - before for now, before in zip(user_and_system(), begun))
print(json.dumps({
    "calls": made, "cpu": user, "system": system, "memory": highest() / 1000, "read": read() - read_before,
    "output": str(run.output)[:1000],
}))
"""


class Cost(NamedTuple):
    """What the journal costs a flow, as medians of all rounds."""

    flow: str
    without: float
    """Seconds of user CPU of the run without the journal. System time is separate: on a virtual machine the first use
    of the memory takes 0.1 to 2 s a GB, more than all other work."""
    more: float
    """Additional seconds of user CPU with the journal."""
    ratio: float
    more_system: float
    """Additional seconds of system CPU with the journal."""
    stored: float
    """The GB of the store, which has each distinct column once."""
    memory: float
    """The additional MB of the highest memory with the journal. Linux only."""

    @property
    def more_a_gb(self) -> float:
        """Additional seconds of user CPU with the journal for each GB of the store."""
        return self.more / self.stored if self.stored else 0.0


def session(folder: Path, flow: str, case: str, size: int) -> dict[str, Any]:
    command = [sys.executable, "-c", SESSION, flow, case, str(size)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert ran.returncode == 0, ran.stderr
    measured: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return measured


def cost(flow: str, megabytes: int, rounds: int) -> Cost:
    """Measure pairs of runs. The order within a pair alternates from round to round."""
    pairs, stored = list[dict[str, dict[str, Any]]](), 0.0
    for number in range(rounds):
        pair = {}
        for journal in ("off", "on") if number % 2 else ("on", "off"):
            with tempfile.TemporaryDirectory() as name:
                pair[journal] = session(Path(name), flow, journal, megabytes * 1_000_000)
                stored = max(stored, _stored(Path(name)))
        assert pair["on"]["output"] == pair["off"]["output"]
        pairs.append(pair)

    def median(name: str, other: str = "on") -> float:
        return float(statistics.median(pair[other][name] for pair in pairs))

    more = statistics.median(pair["on"]["cpu"] - pair["off"]["cpu"] for pair in pairs)
    ratio = statistics.median(pair["on"]["cpu"] / pair["off"]["cpu"] for pair in pairs)
    more_system = statistics.median(pair["on"]["system"] - pair["off"]["system"] for pair in pairs)
    return Cost(
        flow, median("cpu", "off"), more, ratio, more_system, stored, median("memory") - median("memory", "off")
    )


def _stored(folder: Path) -> float:
    values = folder / "values"
    return sum(path.stat().st_size for path in values.iterdir()) / 1e9 if values.exists() else 0.0


class Resumed(NamedTuple):
    """A run with two tables that failed and was resumed by another process, which needs one of the tables."""

    calls: int
    """The number of calls that the resumed run made."""
    cpu: float
    """Seconds of user CPU."""
    read: float
    """The GB that the process read from all files. Linux only."""
    stored: float
    """The GB of the store when the run failed."""


def resumed(megabytes: int) -> Resumed:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session(folder, "two", "fails", megabytes * 1_000_000)
        stored = _stored(folder)
        measured = session(folder, "two", "resumed", megabytes * 1_000_000)
    return Resumed(len(measured["calls"]), measured["cpu"], measured["read"] / 1e9, stored)


FLOWS = ("numbers", "text", "ten", "small")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--megabytes", type=int, default=MEGABYTES, help="of the first table")
    options.add_argument("--rounds", type=int, default=ROUNDS)
    options.add_argument("--flows", nargs="*", choices=FLOWS, default=FLOWS)
    chosen = options.parse_args()
    for flow in chosen.flows:
        result = cost(flow, chosen.megabytes, chosen.rounds)
        print(
            f"{flow}: {result.without:.2f} s of user CPU without the journal, {result.more:.2f} s more with it"
            f" ({result.ratio:.2f} x, {result.more_a_gb:.2f} s a GB) and {result.more_system:.2f} s of the system;"
            f" {result.stored:.2f} GB stored, {result.memory:,.0f} MB more memory",
            flush=True,
        )
    print(resumed(chosen.megabytes))


if __name__ == "__main__":
    main()
