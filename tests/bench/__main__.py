"""Measures everything in one run and writes docs/benchmarks.md and its plot: ``make bench``.

Half of the expressions and pipelines are drawn from a seed, which is printed: ``make bench ARGS="--seed 7"`` draws the
same ones again. ``--only expressions journal`` prints some sections and writes nothing.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import math
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import SystemRandom
from typing import Any

from agf_magics.lifecycle.settings import current
from tests.bench import (
    display,
    expressions,
    fan_outs,
    first_minute,
    generated_flows,
    isolation,
    journal,
    languages,
    large,
    loading,
    memory,
    orchestration,
    peers,
    reading,
    reuse,
    startup,
    workers,
)
from tests.bench.plot import plot
from tests.bench.rounds import Row

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
PLOT = PAGE.with_name("benchmarks.svg")

HEAD = """# Benchmarks

`make bench` measures everything on this page in one run, and writes it. This run was on {machine}. Half of the
expressions and pipelines are drawn from a seed: `make bench ARGS="--seed {seed}"` draws the same ones again.

How it is measured:

- In each round every candidate runs once, one after the other. A ratio is computed within its round, and the median of
  all rounds is shown. So a busy machine disturbs all candidates alike.
- Times are CPU time, unless a table says otherwise.
- Times differ between machines, **ratios** hardly do. "Normalized" µs are those of a machine on which
  `asyncio.gather` with a `Semaphore` takes {reference} µs for an element.
- A step is one call in a chain, an element is one call in a fan-out. "Linked before" leaves out the lookup of a flow's
  names, which a run does once.
- A benchmark never fails a build. A goal that is missed is listed as missed.

The average load of the machine was {load:.1f} during the run.{busy}
"""
BUSY = """ Other programs were running, so times that include waiting (worker threads,
the first minute) are longer than on an idle machine."""

REFERENCE = 3.5
"""Microseconds of an element of `gather` with a `Semaphore` on the machine on which the goals were set."""


@dataclass
class Goals:
    """The goals and what was measured."""

    rows: list[tuple[str, float, float, str]] = field(default_factory=list)

    def hold(self, name: str, most: float, measured: float, unit: str = "µs") -> None:
        self.rows.append((name, most, measured, unit))

    @property
    def lines(self) -> Iterator[str]:
        missed = [row for row in self.rows if row[2] > row[1]]
        yield f"## Goals: {len(self.rows) - len(missed)} reached, {len(missed)} missed\n"
        yield "Times in µs are normalized.\n"
        yield "| goal | at most | measured | |\n|---|---|---|---|"
        for name, most, measured, unit in self.rows:
            digits = 2 if unit in ("×", "s") else 1
            by = f"**missed** by {100 * (measured / most - 1):.0f} %" if measured > most else "reached"
            yield _line([name, f"{most:.3g} {unit}", f"{measured:.{digits}f} {unit}", by])
        yield ""


@dataclass
class Run:
    """One run of the benchmark."""

    seed: int
    goals: Goals = field(default_factory=Goals)
    chains: list[Row] = field(default_factory=list)
    fans: list[Row] = field(default_factory=list)


Section = Callable[[Run], Iterator[str]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--seed", type=int, help="draws the expressions and pipelines of an earlier run")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, help="prints these sections and writes nothing")
    options = parser.parse_args()
    for name in (*expressions.PEERS, *peers.LIBRARIES):
        if importlib.util.find_spec(name) is None:
            print(f"{name} is not installed and is left out")
    seed = options.seed if options.seed is not None else SystemRandom().randrange(1_000_000)
    print(f"seed {seed}", flush=True)
    current.settings = replace(current.settings, journal=None)
    run, parts = Run(seed), list[str]()
    for name in options.only or SECTIONS:
        print(name, flush=True)
        parts += SECTIONS[name](run)
    if options.only:
        print("\n".join([*run.goals.lines, *parts]))
        return
    PAGE.write_text("\n".join([_head(run), *run.goals.lines, *_where(run), *parts]), encoding="utf-8")
    PLOT.write_text(_plot(run), encoding="utf-8")
    print(f"wrote {PAGE.name} and {PLOT.name}")


def _head(run: Run) -> str:
    machine = f"{os.cpu_count()} cores with {platform.python_implementation()} {platform.python_version()}"
    load = os.getloadavg()[1]
    busy = BUSY if load > 1.5 else ""
    return HEAD.format(machine=machine, seed=run.seed, reference=REFERENCE, load=load, busy=busy)


# --- where the time goes ----------------------------------------------------------------------------------------------


def _where(run: Run) -> Iterator[str]:
    yield "## Where the time goes\n"
    yield "![CPU time of a step and of an element, ours and other libraries](benchmarks.svg)\n"
    yield f"The upper panel is a chain of {peers.STEPS} trivial calls, each with the result of the call before it. The"
    yield f"lower panel is a fan-out over {peers.ITEMS:,} elements, {peers.WIDTH} at a time. Events are counted, the"
    yield "journal is off. Our figures include linking the flow and checking its input for each run.\n"
    known = {row.name: row.micros for row in run.chains}
    looped, transform, plain = (
        known[f"ours: {name}"] for name in ("plain tool, where=loop", "transform", "plain tool")
    )
    yield f"- A transform takes {transform:.1f} µs: the expression, its frame, and the counters of its row."
    yield f"- A tool on the loop takes {looped - transform:.1f} µs more: building and checking its arguments, the call."
    yield f"- A plain tool in a chain takes {plain - looped:.1f} µs more: it runs on the thread that waits for the run,"
    yield '  so that Ctrl-C stops it, and each call changes the thread twice. `where="loop"` avoids it.\n'


def _plot(run: Run) -> str:
    return plot(
        [
            (f"A step of a chain of {peers.STEPS} calls, µs of CPU time", run.chains),
            (f"An element of a fan-out over {peers.ITEMS:,}, µs of CPU time", run.fans),
        ]
    )


def _peers(run: Run) -> Iterator[str]:
    yield "## Other libraries\n"
    run.chains, run.fans = peers.rows()
    known = {row.name: row.micros for row in run.chains}
    for name in ("ours: transform", "ours: plain tool, where=loop") if "Hamilton" in known else ():
        run.goals.hold(f"a step of a chain, {name.removeprefix('ours: ')}, to Hamilton", 1,
                       known[name] / known["Hamilton"], "×")  # fmt: skip
    yield from _table(run.chains, "µs a step", 1, "× gather")
    yield from _table(run.fans, "µs an element", 1, "× gather")


# --- the sections -----------------------------------------------------------------------------------------------------


def _expressions(run: Run) -> Iterator[str]:
    yield "## Expressions: ratios to a Python lambda\n"
    yield "E, F and G are fixed, S is drawn from the seed. Goal: at most 2.0 on average and 3 for the worst.\n"
    found = expressions.rows(run.seed)
    names = [name for name in found[0] if name not in ("name", "text", "parse")]
    yield f"| | expression | {' | '.join(names)} | parse / `ast.parse` |"
    yield "|---" * (len(names) + 3) + "|"
    for row in found:
        cells = [_ratio(row.get(name)) for name in names]
        yield _line([row["name"], f"`{row['text']}`", *cells, _ratio(row["parse"])])
    for group, about in (("E", "the first ones"), ("F", "seen"), ("G", "not seen"), ("S", "drawn from the seed")):
        those = [row for row in found if row["name"].startswith(group)]
        means = [_ratio(_mean(row.get(name) for row in those)) for name in names]
        mean, worst = _mean(row["R1"] for row in those) or 0, max(row["R1"] for row in those)
        run.goals.hold(f"R1 {group} ({about}): geometric mean, to a lambda", 2.0, mean, "×")
        run.goals.hold(f"R1 {group} ({about}): the worst, to a lambda", 3.0, worst, "×")
        yield _line([f"**{group}**", "geometric mean", *means, _ratio(_mean(row["parse"] for row in those))])
        yield _line([f"**{group}**", "worst", _ratio(worst), *[""] * len(names)])
    yield ""


def _loading(run: Run) -> Iterator[str]:
    yield "## Loading a document of 1,000 lines\n\nGoal: from text to a checked flow at most 4 × YAML's C `compose`.\n"
    found = loading.rows()
    run.goals.hold("text to checked flow, to the C compose", 4, found[-1].ratio, "×")
    yield from _table(found, "ms", 1000, "× compose")


def _steps(run: Run) -> Iterator[str]:
    yield "## Steps and elements\n"
    yield "Goals, normalized: a linear async step 4 µs, a transform 2 µs, an async element 2.7 µs.\n"
    steps, elements = orchestration.rows()
    for name, most in (
        ("agf: linear async tool, linked before", 4),
        ("agf: linear transform, linked before", 2),
    ):
        run.goals.hold(f"{name.removeprefix('agf: ')}, a step", most, _normal(steps, name))
    for name in ("agf: for_each async tool", "agf: for_each plain tool, where=loop"):
        run.goals.hold(f"{name.removeprefix('agf: ')}, an element", 2.7, _normal(elements, name))
    yield from _table(steps, "µs a step", 1, "× floor")
    yield from _table(elements, "µs an element", 1, "× gather")
    yield "### Plain functions in a fan-out\n"
    yield "Goal: an element of a trivial function at most 1 × `ThreadPoolExecutor.map` without the journal, and 3 ×"
    yield "with it. With the journal, at most `max_parallel` calls have started without a durable record. One at a time"
    yield "a call waits for the one before, so it is compared to a loop that awaits each call on a thread. A waiting"
    yield "function sleeps for 1 ms; it has no goal, since the sleep is most of its time.\n"
    for (trivial, waiting), ratio in ((fan_outs.rows(), "map"), (fan_outs.single_rows(), "awaited calls")):
        for row in trivial[1:]:
            name, most = f"{row.name.removeprefix('agf: ')}, to {ratio}", 3 if row.name.endswith("on") else 1
            run.goals.hold(name, most, row.ratio, "×")
        yield from _table(trivial, "µs an element", 1, f"× {ratio}")
        yield from _table(waiting, "µs an element", 1, f"× {ratio}")
    yield "### Pipelines drawn from the seed\n"
    yield "Per finished step, for short pipelines: linking and the run's own start are a large part.\n"
    yield from _table(generated_flows.rows(run.seed), "µs a step", 1, "× gather")


def _languages(run: Run) -> Iterator[str]:
    yield "## The other languages\n"
    yield "Direction, normalized: 6 µs for a policy's step, a plan's call and a graph's node, however many there are.\n"
    found = languages.rows()
    for name in languages.TEXTS:
        run.goals.hold(name, 6, _normal(found, name))
    yield from _table(found, "µs", 1, "× gather")
    yield "Goal: a condition or a value at most 5 × a lambda.\n"
    yield "| | | × lambda |\n|---|---|---|"
    for language, text, ratio in reading.expressions():
        run.goals.hold(f"{language}: `{text}`, to a lambda", 5, ratio, "×")
        yield _line([language, f"`{text}`", _ratio(ratio)])
    yield "\nGoal: reading a reference and appending a message do not grow with the messages of other paths.\n"
    for what, rows in (("reading", reading.references()), ("appending", reading.appends())):
        run.goals.hold(f"{what} with 100,000 messages, to 100", 2, rows[-1].ratio, "×")
        yield from _table(rows, f"µs, {what}", 1, "× 100 messages")


def _isolation(run: Run) -> Iterator[str]:
    yield "## Isolation\n\nGoal: the cost of an element does not depend on the stores that it does not read.\n"
    yield from _table(isolation.rows(), "µs", 1, "×")


def _journal(run: Run) -> Iterator[str]:
    yield "## The journal: calls with results of 276 bytes\n"
    yield "Goals, normalized: a linear step 100 µs; an element of a fan-out, 16 at a time, 16 µs. Its record is durable"
    yield "before the next call in its place starts.\n"
    steps, elements = journal.rows()
    run.goals.hold("a linear step with the journal", 100, _normal(steps, "on"))
    run.goals.hold("an element with the journal, 16 at a time", 16, _normal(elements, "on"))
    yield from _table(steps, "µs a step", 1, "× off")
    yield from _table(elements, "µs an element", 1, "× off")
    yield f"Goal: reusing or resuming {reuse.CALLS:,} trivial calls costs at most a third of the run that made them.\n"
    found = reuse.rows()
    for row in found[1:]:
        run.goals.hold(f"{row.name}, to the run", 1 / 3, row.ratio, "×")
    yield from _table(found, "µs a call", 1, "× a run")


def _view(run: Run) -> Iterator[str]:
    yield "## The live view\n\nGoal: a run of 10,000 elements costs at most 5 % more with it.\n"
    found = display.rows()
    for row in found[1:]:
        run.goals.hold(f"10,000 elements with the {row.name}, to without", 1.05, row.ratio, "×")
    yield from _table(found, "µs an element", 1, "× no view")


def _workers(run: Run) -> Iterator[str]:
    yield "## Workers\n"
    yield "Fan-outs on two processes, by the wall clock. Goals, to a chunked `client.map` of Dask with the same seconds"
    yield "in a chunk: 1.3 × for 0 ms, 1 ms and 10 ms; for 100 kB in and out 1.3 ×, and 2 × with the journal."
    yield f"A whole element of one call takes at most {workers.KERNEL_CPU:.0f} µs of the kernel's CPU: see the first"
    yield "three tables, without Dask. In the others, the scheduler of Dask is in the kernel: the CPU time of each row"
    yield "contains what it does meanwhile. [Scale](scale.md) explains the last table.\n"
    for name, found in itertools.chain(workers.element_rows(), workers.rows()):
        yield f"| {name} | µs an element | × the first | µs of the kernel's CPU |\n|---|---|---|---|"
        for row in found:
            yield _line([row.name, f"{row.micros:.1f}", _ratio(row.ratio), f"{row.cpu:.1f}"])
        yield ""
        known = {row.name: row for row in found}
        for way, most in workers.GOALS.get(name, {}).items():
            if way in known:
                run.goals.hold(f"{name}, {way}", most, known[way].ratio, "×")
        if name.startswith("one call"):
            run.goals.hold(f"kernel CPU of {name}, whole", workers.KERNEL_CPU, known["agf: whole elements"].cpu, "µs")
    yield "| lanes | call | journal | elements a second | lanes busy | µs of CPU an element | chunks a second |"
    yield "|---|---|---|---|---|---|---|"
    for load in workers.loads():
        journal, busy = "on" if load.journal else "off", f"{100 * load.busy:.0f} %"
        yield _line([f"{load.lanes:,}", f"{load.milliseconds:g} ms", journal, f"{load.rate:,.0f}", busy,
                     f"{load.micros:.0f}", f"{load.chunks:.0f}"])  # fmt: skip
    yield ""


def _startup(run: Run) -> Iterator[str]:
    yield "## The first minute\n\nGoal: `%load_ext agf_magics` at most 150 ms in a fresh kernel.\n"
    found = startup.rows()
    run.goals.hold("%load_ext", 150, found[0].micros / 1000, "ms")
    yield from _table(found, "ms", 1000, "× %load_ext")
    yield "The cells of a fresh kernel, in this order. Goals: 100 ms for the first picture and 250 ms for the first"
    yield "policy.\n"
    waits = {wait.name: wait for wait in first_minute.waits()}
    run.goals.hold("the first picture", 100, waits["its picture"].cpu, "ms")
    run.goals.hold("the first policy", 250, waits["the first policy"].cpu, "ms")
    yield "| | ms of CPU | ms until the reply |\n|---|---|---|"
    for wait in waits.values():
        yield _line([wait.name, f"{wait.cpu:.0f}", f"{wait.reply:.0f}"])
    yield ""


def _memory(run: Run) -> Iterator[str]:
    yield "## Memory\n"
    yield "Goal: at most 200 bytes for an element of 100,000, beyond its result. Runs that have ended leave nothing.\n"
    taken, told = memory.element(), memory.curve()
    run.goals.hold("memory of an element of 100,000", 200, taken, "bytes")
    grown = (told[-1][1] - told[1][1]) / (told[-1][0] - told[1][0]) * 1000
    yield f"An element of a fan-out of 100,000 takes at most {taken:.0f} bytes beyond its result.\n"
    yield f"From the second point on, each run leaves {grown:.2f} kB.\n"
    yield "| runs in a process | MB in use |\n|---|---|"
    for runs, megabytes in told:
        yield _line([str(runs), f"{megabytes:.3f}"])
    yield ""


def _large(run: Run) -> Iterator[str]:
    yield "## Large flows, tables and pages\n"
    yield "Goal: a picture takes at most 1 s from the flow to the SVG. The table has the slowest of three flows from"
    yield "the seed, in seconds. A flow with more than 500 boxes, or with too many edges, is displayed as an outline.\n"
    found = large.pictures(run.seed)
    yield f"| steps | {' | '.join(f'{size:,}' for size in large.SIZES)} |"
    yield "|---" * (len(large.SIZES) + 1) + "|"
    for language in sorted({one.language for one in found}):
        those = [one for one in found if one.language == language]
        run.goals.hold(f"the slowest picture of a {language}", 1, max(one.seconds for one in those), "s")
        yield _line([language, *(f"{one.seconds:.2f}" if one.seconds else "outline" for one in those)])
    slowest = max(one.longest_refusal for one in found)
    yield f"\nIt takes at most {slowest:.1f} s until it is known that a flow is displayed as an outline.\n"
    yield "Goal: a table of 1 GB passes through ten steps in 1 s, with the journal, and is not copied.\n"
    yield "| | s | MB more of memory |\n|---|---|---|"
    for kind, seconds, megabytes in large.tables():
        run.goals.hold(f"1 GB through ten steps, {kind}", 1, seconds, "s")
        run.goals.hold(f"1 GB through ten steps, {kind}: memory", 50, megabytes, "MB")
        yield _line([kind, f"{seconds:.2f}", f"{megabytes:.1f}"])
    size = large.page()
    run.goals.hold(f"the page of {large.CALLS:,} calls", 1, size, "MB")
    yield f"\nGoal: the page of a plan of {large.CALLS:,} calls has at most 1 MB. It has {size:.2f} MB.\n"


SECTIONS: dict[str, Section] = {
    "peers": _peers,
    "steps": _steps,
    "expressions": _expressions,
    "loading": _loading,
    "languages": _languages,
    "isolation": _isolation,
    "journal": _journal,
    "view": _view,
    "workers": _workers,
    "startup": _startup,
    "memory": _memory,
    "large": _large,
}


def _normal(rows: list[Row], name: str) -> float:
    """Microseconds of ``name`` on the machine of reference."""
    known = {row.name: row for row in rows}
    return REFERENCE * known[name].ratio / known[orchestration.GATHER].ratio


def _table(rows: Iterable[Row], unit: str, scale: float, ratio: str) -> Iterator[str]:
    yield f"| | {unit} | {ratio} |\n|---|---|---|"
    for row in rows:
        yield _line([row.name, f"{row.micros / scale:.2f}", _ratio(row.ratio)])
    yield ""


def _mean(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value]
    return math.exp(statistics.fmean(math.log(value) for value in found)) if found else None


def _ratio(value: Any) -> str:
    return "" if value is None else f"{value:.2f}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
