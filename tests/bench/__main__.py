"""All tables in one run, written to docs/benchmarks.md: ``make bench``."""

from __future__ import annotations

import importlib.util
import math
import os
import platform
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from agf_magics.settings import current
from tests.bench import (
    display,
    expressions,
    first_minute,
    isolation,
    journal,
    languages,
    loading,
    memory,
    orchestration,
    reading,
    reuse,
    startup,
)
from tests.bench.rounds import Row

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"

HEAD = """# Benchmarks

Made by `make bench` on {machine}. Every round times each candidate back to back and a ratio is taken within its round;
medians of the rounds are shown. What is done on one thread (§ 3, and the other languages' expressions) is told in CPU
time. Absolute numbers move from machine to machine, the **ratios** are the goals. Nothing here fails a build.
"""


BUSY = """ Others worked on it: what waits for another thread (worker threads,
§ 5) or is told in milliseconds (§ 7) takes longer than it would alone, also as a ratio."""

REFERENCE = 3.5
"""Microseconds that `gather` and a `Semaphore` take an item where the goals were set: what is measured is told for that
machine, from the ratio to them."""


class Goals:
    """What was to be reached, and what was."""

    def __init__(self) -> None:
        self.lines = [
            "## Goals\n",
            f"Microseconds are those of a machine on which `gather` + `Semaphore` take {REFERENCE} µs an item:",
            "the ratio to them, measured in the same rounds, times that.\n",
            "| goal | at most | measured | |\n|---|---|---|---|",
        ]

    def hold(self, what: str, most: float, measured: float, unit: str = "µs") -> None:
        said = "reached" if measured <= most else "**missed**"
        self.lines.append(_line([what, f"{most:.3g} {unit}", f"{measured:.{2 if unit == '×' else 1}f} {unit}", said]))


def main() -> None:
    current.settings = replace(current.settings, journal=None)
    machine = f"{os.cpu_count()} cores, {platform.python_implementation()} {platform.python_version()}"
    goals, parts = Goals(), list[str]()
    for section in (
        _expressions,
        _loading,
        _orchestration,
        _languages,
        _isolation,
        _journal,
        _display,
        _startup,
        _memory,
    ):
        parts += section(goals)
    loaded = (
        f"The load of the machine was {os.getloadavg()[1]:.1f} meanwhile.{BUSY if os.getloadavg()[1] > 1.5 else ''}\n"
    )
    PAGE.write_text("\n".join([HEAD.format(machine=machine), loaded, *goals.lines, "", *parts]), encoding="utf-8")
    print(f"wrote {PAGE.name}")


def _normal(rows: list[Row], name: str) -> float:
    """Microseconds of ``name`` on the machine of reference."""
    known = {row.name: row for row in rows}
    return REFERENCE * known[name].ratio / known[orchestration.GATHER].ratio


def _expressions(goals: Goals) -> Iterator[str]:
    yield "## 1. Expressions: ratios to a native Python lambda\n"
    yield "Goal: ≤ 2.0 on E1–E8; ≤ 3.0 on expressions not looked at while shaping (G), the worst ≤ 5; parse ≤ 2.5.\n"
    found = expressions.rows()
    names = [name for name in found[0] if name not in ("name", "text", "parse")]
    yield f"| | expression | {' | '.join(names)} | parse / `ast.parse` |"
    yield "|---" * (len(names) + 3) + "|"
    for row in found:
        yield _line([row["name"], f"`{row['text']}`", *(_ratio(row.get(name)) for name in names), _ratio(row["parse"])])
    for group in ("E", "F", "G"):
        those = [row for row in found if row["name"].startswith(group)]
        means = [_ratio(_mean(row.get(name) for row in those)) for name in names]
        goals.hold(
            f"R1, {group}: geometric mean to a lambda",
            2.0 if group == "E" else 3.0,
            _mean(r["R1"] for r in those) or 0,
            "×",
        )
        yield _line([f"**{group}**", "geometric mean", *means, _ratio(_mean(row["parse"] for row in those))])
        yield _line([f"**{group}**", "worst", _ratio(max(row["R1"] for row in those)), *[""] * len(names)])
    yield ""


def _loading(goals: Goals) -> Iterator[str]:
    yield "## 2. Loading a document of 1,000 lines\n\nGoal: text to checked flow ≤ 4 × the bare C `compose`.\n"
    found = loading.rows()
    goals.hold("text → checked flow, to the bare C compose", 4, found[-1].ratio, "×")
    yield from _table(found, "ms", 1000, "× compose")


def _orchestration(goals: Goals) -> Iterator[str]:
    yield "## 3. Orchestration: trivial tools, events folded\n"
    yield "Goal: a linear async step ≤ 4 µs, a transform ≤ 2 µs and an async element ≤ 2.7 µs, on a machine where the"
    yield "bare `gather` + `Semaphore` takes 3.5 µs an element; transforms and tools on the loop at most what"
    yield "Hamilton takes for a function.\n"
    steps, elements = orchestration.rows()
    for name, most in (
        ("agf: linear async tool, linked before", 4),
        ("agf: linear transform, linked before", 2),
    ):
        goals.hold(f"{name.removeprefix('agf: ')}, a step", most, _normal(steps, name))
    for name in ("agf: for_each async tool", "agf: for_each plain tool, where=loop"):
        goals.hold(f"{name.removeprefix('agf: ')}, an element", 2.7, _normal(elements, name))
    yield from _table(steps, "µs a step", 1, "× floor")
    yield from _table(elements, "µs an element", 1, "× gather")


def _languages(goals: Goals) -> Iterator[str]:
    yield "### The other languages\n"
    yield "Goal: ≤ 6 µs a policy's step, a plan's call, a graph's node, however many there are.\n"
    found = languages.rows()
    for name in languages.TEXTS:
        goals.hold(name, 6, _normal(found, name))
    yield from _table(found, "µs", 1, "× gather")
    yield "Goal: a condition or a value ≤ 5 × a native lambda, parsed once.\n"
    yield "| | | × lambda |\n|---|---|---|"
    for language, text, ratio in reading.expressions():
        goals.hold(f"{language}: `{text}`, to a lambda", 5, ratio, "×")
        yield _line([language, f"`{text}`", _ratio(ratio)])
    yield "\nGoal: reading a reference and appending a message do not grow with messages of other paths.\n"
    for what, rows in (("reading", reading.references()), ("appending", reading.appends())):
        goals.hold(f"{what} with 100,000 messages, to 100", 2, rows[-1].ratio, "×")
        yield from _table(rows, f"µs, {what}", 1, "× 100 messages")


def _memory(goals: Goals) -> Iterator[str]:
    yield "## 8. Memory\n"
    yield "Goal: ≤ 200 bytes an element of 100,000 beyond its result; runs that have ended leave nothing.\n"
    taken, told = memory.element(), memory.curve()
    goals.hold("memory of an element of 100,000", 200, taken, "bytes")
    grown = (told[-1][1] - told[1][1]) / (told[-1][0] - told[1][0]) * 1000
    yield f"An element of a fan-out of 100,000 takes {taken:.0f} bytes at most, beyond its result.\n"
    yield f"From the second point on, a run more leaves {grown:.2f} kB.\n"
    yield "| runs in a process | MB in use |\n|---|---|"
    for runs, megabytes in told:
        yield _line([str(runs), f"{megabytes:.3f}"])
    yield ""


def _isolation(goals: Goals) -> Iterator[str]:
    yield "## 4. Isolation\n\nGoal: an element costs the same whatever stores it does not read.\n"
    yield from _table(isolation.rows(), "µs", 1, "×")


def _display(goals: Goals) -> Iterator[str]:
    yield "## 6. The live view\n\nGoal: 10,000 elements cost at most 5 % more with it, in the kernel's CPU time.\n"
    found = display.rows()
    for row in found[1:]:
        goals.hold(f"10,000 elements with the {row.name}, to without", 1.05, row.ratio, "×")
    yield from _table(found, "µs an element", 1, "× no view")


def _journal(goals: Goals) -> Iterator[str]:
    yield "## 5. Keeping a run: calls of 276-byte results\n"
    yield "Goal: a kept linear step ≤ 100 µs; an element of a fan-out of 1,000 at 16 side by side ≤ 16 µs, its line on"
    yield "the disk before the next one starts in its slot. Off costs nothing.\n"
    steps, elements = journal.rows()
    goals.hold("a kept linear step", 100, _normal(steps, "on"))
    goals.hold("an element of a kept fan-out of 1,000, 16 side by side", 16, _normal(elements, "on"))
    yield from _table(steps, "µs a step", 1, "× off")
    yield from _table(elements, "µs an element", 1, "× off")
    yield f"Goal: reusing or resuming {reuse.CALLS:,} trivial calls costs at most a third of the run that made them.\n"
    found = reuse.rows()
    for row in found[1:]:
        goals.hold(f"{row.name}, to the run", 1 / 3, row.ratio, "×")
    yield from _table(found, "µs a call", 1, "× a run")


def _startup(goals: Goals) -> Iterator[str]:
    yield "## 7. Start-up\n\nGoal: `%load_ext agf_magics` ≤ 150 ms in a fresh kernel.\n"
    found = startup.rows()
    goals.hold("%load_ext", 150, found[0].micros / 1000, "ms")
    yield from _table(found, "ms", 1000, "× %load_ext")
    yield "### The first minute\n"
    yield "The cells of a fresh kernel, in this order. Goal: of CPU, the first picture ≤ 100 ms and the first policy"
    yield "≤ 250 ms.\n"
    waits = {wait.name: wait for wait in first_minute.waits()}
    goals.hold("the first picture", 100, waits["its picture"].cpu, "ms")
    goals.hold("the first policy", 250, waits["the first policy"].cpu, "ms")
    yield "| | ms of CPU | ms until the reply |\n|---|---|---|"
    for wait in waits.values():
        yield _line([wait.name, f"{wait.cpu:.0f}", f"{wait.reply:.0f}"])
    yield ""


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
    for peer in expressions.PEERS:
        if importlib.util.find_spec(peer) is None:
            print(f"{peer} is not installed and is left out")
    main()
