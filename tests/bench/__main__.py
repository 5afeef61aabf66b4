"""Measures everything in one run and writes docs/benchmarks.md: ``make bench``.

Each part runs in a process of its own with a time limit. A part that hangs or fails is left out, and the page shows the
reason. ``--only felt-draws calls`` prints some parts, measured in this process, and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tests.bench import calls, expressions, felt, first_minute, large, large_results, memory, workers, workloads
from tests.bench.apart import LeftOut, run_apart

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
SEED = 7
"""The seed of the random flows whose pictures are drawn."""

HEAD = """# Benchmarks

`make bench` measures everything on this page in one run, and writes it. This run was on {machine}, with
{libraries}.

How it is measured:

- In each round every candidate runs once, one after the other. A ratio is computed within its round, and the median
  of all rounds is shown. So a busy machine disturbs all candidates alike.
- Everything has the settings of a fresh installation: plain functions and the journal. Where the journal is off, the
  table says so.
- Times differ between machines, ratios hardly do. A benchmark never fails a build. A goal that is missed is listed as
  missed.

The average load of the machine was {load:.1f} during the run.
"""

LIBRARIES = ("joblib", "langgraph", "apache-hamilton", "apache-burr", "pydantic-ai-slim", "prefect", "dask")

Goal = tuple[str, float, float, str]
"""A goal: the description, the largest allowed value, the measured value, the unit."""
Section = Callable[[list[Goal]], Iterator[str]]


LONGEST = 360.0
"""The largest number of seconds of a part."""
SILENT = 60.0
"""The largest number of seconds of a call of another library."""
ALL = 14 * 60.0
"""The largest number of seconds of all parts together."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, help="prints these parts and writes nothing")
    parser.add_argument("--part", choices=SECTIONS, help="prints one part as JSON")
    options = parser.parse_args()
    goals, parts = list[Goal](), list[str]()
    if options.part is not None:
        parts += SECTIONS[options.part](goals)
        print(json.dumps([goals, parts]))
        return
    if options.only:
        for name in options.only:
            parts += SECTIONS[name](goals)
        print("\n".join([*_goals(goals), *parts]))
        return
    until, left_out = time.monotonic() + ALL, list[str]()
    for name in SECTIONS:
        print(name, flush=True)
        parts += HEADINGS.get(name, ())
        try:
            goals_of_part, lines = _apart(name, until - time.monotonic())
        except LeftOut as ended_early:
            left_out.append(f"- {name}: {ended_early}")
            continue
        goals += goals_of_part
        parts += lines
    PAGE.write_text("\n".join([_head(), *_goals(goals, left_out), *parts]).rstrip() + "\n", encoding="utf-8")
    print(f"wrote {PAGE.name}")


def _apart(name: str, seconds_left: float) -> tuple[list[Goal], list[str]]:
    """Measure a part in a process of its own, for at most ``seconds_left``. Returns its goals and its lines. Raises
    LeftOut."""
    if seconds_left < 1:
        raise LeftOut("the time of the benchmark was over", [])
    # These parts only wait for processes of their own.
    if name.startswith(WORKLOAD):
        return [], [*_workload(name.removeprefix(WORKLOAD), [], min(SILENT, seconds_left))]
    goals, lines = json.loads(run_apart("tests.bench", "--part", name, seconds=min(LONGEST, seconds_left))[-1])
    return [(what, most, measured, unit) for what, most, measured, unit in goals], lines


def _head() -> str:
    machine = f"{os.cpu_count()} cores with {platform.python_implementation()} {platform.python_version()}"
    return HEAD.format(machine=machine, libraries=", ".join(_installed()), load=os.getloadavg()[2])


def _installed() -> Iterator[str]:
    for name in LIBRARIES:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            yield f"{name} not installed and left out"


def _goals(goals: list[Goal], left_out: Sequence[str] = ()) -> Iterator[str]:
    missed = sum(measured > most for _, most, measured, _ in goals)
    yield f"## Goals: {len(goals) - missed} reached, {missed} missed\n"
    yield "| goal | at most | measured | |\n|---|---|---|---|"
    for name, most, measured, unit in goals:
        by = f"**missed** by {100 * (measured / most - 1):.0f} %" if measured > most else "reached"
        yield _line([name, f"{most:.3g} {unit}", f"{measured:.3g} {unit}", by])
    if left_out:
        yield "\nLeft out:\n\n" + "\n".join(left_out)
    yield ""


# --- the sections -----------------------------------------------------------------------------------------------------


def _felt(name: str, goals: list[Goal]) -> Iterator[str]:
    for measured in felt.PARTS[name]():
        goals.append(
            (
                measured.what + (f" ({measured.beside})" if measured.beside else ""),
                measured.most,
                measured.measured,
                measured.unit,
            )
        )
    yield from ()


WORKLOAD = "workload-"


def _workload(name: str, goals: list[Goal], seconds: float = SILENT) -> Iterator[str]:
    workload = workloads.WORKLOADS[name]
    rows, reasons = workloads.measure(name, seconds)
    yield f"### {workload.title}\n\n{workload.about}\n"
    yield f"| | keeps | s | s of CPU | µs a {workload.unit} | × ours |\n|---|---|---|---|---|---|"
    for row in rows:
        yield _line([row.name, row.keeps or "nothing", f"{row.seconds:.3g}", f"{row.cpu:.3g}",
                     f"{row.seconds / workload.units * 1e6:,.0f}", f"{row.ratio:.2f}"])  # fmt: skip
        print("  ", workload.title, row.name, f"{row.seconds:.3g} s", flush=True)
    for library, why in reasons.items():
        yield f"\nLeft out: {library}, because {why}."
    yield ""


def _calls(goals: list[Goal]) -> Iterator[str]:
    yield "## A call in each language\n"
    yield _prose(
        "Microseconds of CPU time for a call of a trivial plain function. One call after another changes the thread",
        'twice for each, because the function runs where Ctrl-C stops it; `where="loop"` avoids it. With the',
        "journal, its record is durable before the next call starts.",
    )
    yield "| | journal off | journal on |\n|---|---|---|"
    for name, off, on in calls.rows():
        yield _line([name, f"{off.micros:.0f}", f"{on.micros:.0f}"])
        goals.append((f"a journaled call of a plain function, {name}", 100, on.micros, "µs"))
    yield ""


def _expressions(goals: list[Goal]) -> Iterator[str]:
    yield "## Expressions, to a Python lambda\n"
    yield "| | µs | × lambda |\n|---|---|---|"
    rows = expressions.rows()
    for row in rows:
        yield _line([f"`{row.text}`", f"{row.micros:.2f}", f"{row.evaluated:.2f}"])
    mean = math.exp(statistics.fmean(math.log(row.evaluated) for row in rows))
    goals.append(("R1 expressions, geometric mean, to a lambda", 6, mean, "×"))
    yield _line(["**geometric mean**", "", f"{mean:.2f}"]) + "\n"


def _workers(goals: list[Goal]) -> Iterator[str]:
    yield "## Workers\n"
    yield _prose(
        "Fan-outs on two processes, by the wall clock. Goals, to a chunked `client.map` of Dask with the same seconds",
        "in a chunk: 1.3 × for 0 ms, 1 ms and 10 ms; for 100 kB in and out 1.3 ×, and 2 × with the journal. Dask's",
        "scheduler is in the kernel: the CPU time of each row contains what it does meanwhile. [Scale](scale.md)",
        "explains the last table.",
    )
    for name, rows in workers.rows():
        yield f"| {name} | µs an element | × the first | µs of the kernel's CPU |\n|---|---|---|---|"
        for row in rows:
            yield _line([row.name, f"{row.micros:.1f}", f"{row.ratio:.2f}", f"{row.cpu:.1f}"])
        yield ""
        by_name = {row.name: row for row in rows}
        for way, most in workers.GOALS.get(name, {}).items():
            if way in by_name:
                goals.append((f"{name}, {way}", most, by_name[way].ratio, "×"))
    yield "| lanes | call | journal | elements a second | lanes busy | µs of CPU an element | chunks a second |"
    yield "|---|---|---|---|---|---|---|"
    for load in workers.loads():
        journal, busy = "on" if load.journal else "off", f"{100 * load.busy:.0f} %"
        yield _line([f"{load.lanes:,}", f"{load.milliseconds:g} ms", journal, f"{load.rate:,.0f}", busy,
                     f"{load.micros:.0f}", f"{load.chunks:.0f}"])  # fmt: skip
    yield ""


def _first_minute(goals: list[Goal]) -> Iterator[str]:
    yield "## The first minute\n\nThe cells of a fresh kernel, in this order.\n"
    waits = {wait.name: wait for wait in first_minute.waits()}
    goals.append(("the first picture: CPU", 100, waits["its picture"].cpu, "ms"))
    goals.append(("the first policy: CPU", 300, waits["the first policy"].cpu, "ms"))
    yield "| | ms of CPU | ms until the reply |\n|---|---|---|"
    for wait in waits.values():
        yield _line([wait.name, f"{wait.cpu:.0f}", f"{wait.reply:.0f}"])
    yield ""


def _memory(goals: list[Goal]) -> Iterator[str]:
    yield "## Memory\n"
    taken, growth = memory.element(), memory.curve()
    goals.append(("memory of an element of 100,000", 200, taken, "bytes"))
    grown = (growth[-1][1] - growth[1][1]) / (growth[-1][0] - growth[1][0]) * 1000
    yield _prose(
        f"An element of a fan-out of 100,000 takes at most {taken:.0f} bytes beyond its result. Runs that have ended",
        f"leave nothing: from the second point on, each run leaves {grown:.2f} kB.",
    )
    yield "| runs in a process | MB in use |\n|---|---|"
    for runs, megabytes in growth:
        yield _line([str(runs), f"{megabytes:.3f}"])
    yield ""


def _large(goals: list[Goal]) -> Iterator[str]:
    yield "## Large flows, tables and pages\n"
    yield _prose(
        "A picture, from the flow to the SVG: seconds of CPU for the slowest of three random flows. A flow with more",
        "than 500 boxes, or with too many edges, is displayed as an outline.",
    )
    drawn = large.pictures(SEED)
    yield f"| steps | {' | '.join(f'{size:,}' for size in large.SIZES)} |"
    yield "|---" * (len(large.SIZES) + 1) + "|"
    for language in sorted({picture.language for picture in drawn}):
        pictures_of_language = [picture for picture in drawn if picture.language == language]
        goals.append(
            (f"the slowest picture of a {language}", 1, max(picture.seconds for picture in pictures_of_language), "s")
        )
        yield _line(
            [
                language,
                *(f"{picture.seconds:.2f}" if picture.seconds else "outline" for picture in pictures_of_language),
            ]
        )
    yield "\nA table of 1 GB passes through ten steps with the journal, and is not copied.\n"
    yield "| | s | MB more of memory |\n|---|---|---|"
    for kind, seconds, megabytes in large.tables():
        goals.append((f"1 GB through ten steps, {kind}", 1, seconds, "s"))
        goals.append((f"1 GB through ten steps, {kind}: memory", 50, megabytes, "MB"))
        yield _line([kind, f"{seconds:.2f}", f"{megabytes:.1f}"])
    size = large.page()
    goals.append((f"the page of {large.CALLS:,} calls", 1, size, "MB"))
    yield f"\nThe page of a plan of {large.CALLS:,} calls has {size:.2f} MB.\n"


def _large_results(goals: list[Goal]) -> Iterator[str]:
    yield "## Large results\n"
    yield _prose(
        "Runs with the journal and without it, in pairs, each in a process of its own; a secret of the environment is",
        "known, and all is stored, also what was quicker to make. `numbers` and `text` are five steps with a table",
        "that grows, `ten` passes one table through ten steps, and `small` has 300 elements that return 100 kB each.",
    )
    most = {"numbers": 1.5, "text": 3.0}
    yield "| | s of user CPU without | more with it | × | GB stored | s a GB | s of system | MB more of memory |"
    yield "|---|---|---|---|---|---|---|---|"
    for flow in large_results.FLOWS:
        result = large_results.cost(flow, large_results.MEGABYTES, large_results.ROUNDS)
        if flow in most:
            goals.append((f"five steps with {flow}: user CPU for each GB stored", most[flow], result.more_a_gb, "s"))
        if flow == "ten":
            goals.append(
                ("ten steps that pass a table on: user CPU, to the run without the journal", 1.1, result.ratio, "×")
            )
        yield _line([flow, f"{result.without:.2f}", f"{result.more:.2f}", f"{result.ratio:.2f}", f"{result.stored:.2f}",
                     f"{result.more_a_gb:.2f}", f"{result.more_system:.2f}", f"{result.memory:.0f}"])  # fmt: skip
    again = large_results.resumed(large_results.MEGABYTES)
    goals.append(
        ("a resumed run that needs one of two tables: read, to what is stored", 0.51, again.read / again.stored, "×")
    )
    yield ""


SECTIONS: dict[str, Section] = {
    **{f"felt-{name}": partial(_felt, name) for name in felt.PARTS},
    **{f"{WORKLOAD}{name}": partial(_workload, name) for name in workloads.WORKLOADS},
    "calls": _calls,
    "expressions": _expressions,
    "workers": _workers,
    "first-minute": _first_minute,
    "memory": _memory,
    "large": _large,
    "large-results": _large_results,
}

HEADINGS = {
    WORKLOAD + next(iter(workloads.WORKLOADS)): (
        "## Whole workloads\n",
        "Seconds until the result is there, seconds of CPU time of the process, and the seconds to ours with the\n"
        "journal. Each library does the work as its documentation shows it; the second column is what it keeps on the\n"
        "disk.\n",
    )
}
"""The text of the page before each part."""


def _prose(*words: str) -> str:
    return textwrap.fill(" ".join(words), 140) + "\n"


def _line(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
