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
from tests.bench import display, expressions, isolation, journal, loading, orchestration, startup
from tests.bench.rounds import Row

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"

HEAD = """# Benchmarks

Made by `make bench` on {machine}. Every round times each candidate back to back and a ratio is taken within its round;
medians of the rounds are shown. Absolute numbers move from machine to machine, the **ratios** are the goals. Nothing
here fails a build.
"""


def main() -> None:
    current.settings = replace(current.settings, journal=None)
    machine = f"{os.cpu_count()} cores, {platform.python_implementation()} {platform.python_version()}"
    parts = [HEAD.format(machine=machine), *_expressions(), *_loading(), *_orchestration(), *_isolation()]
    parts += [*_journal(), *_display(), *_startup()]
    PAGE.write_text("\n".join(parts), encoding="utf-8")
    print(f"wrote {PAGE.name}")


def _expressions() -> Iterator[str]:
    yield "## 1. Expressions: ratios to a native Python lambda\n"
    yield "Goal: ≤ 2.0 on E1–E8; ≤ 3.0 on expressions not looked at while shaping (G), the worst ≤ 5; parse ≤ 2.5.\n"
    found = expressions.rows()
    names = [name for name in found[0] if name not in ("name", "text", "parse")]
    yield f"| | expression | {' | '.join(names)} | parse + compile / `ast.parse` |"
    yield "|---" * (len(names) + 3) + "|"
    for row in found:
        yield _line([row["name"], f"`{row['text']}`", *(_ratio(row.get(name)) for name in names), _ratio(row["parse"])])
    for group in ("E", "F", "G"):
        those = [row for row in found if row["name"].startswith(group)]
        means = [_ratio(_mean(row.get(name) for row in those)) for name in names]
        yield _line([f"**{group}**", "geometric mean", *means, _ratio(_mean(row["parse"] for row in those))])
        yield _line([f"**{group}**", "worst", _ratio(max(row["R1"] for row in those)), *[""] * len(names)])
    yield ""


def _loading() -> Iterator[str]:
    yield "## 2. Loading a document of 1,000 lines\n\nGoal: text to checked flow ≤ 4 × the bare C `compose`.\n"
    yield from _table(loading.rows(), "ms", 1000, "× compose")


def _orchestration() -> Iterator[str]:
    yield "## 3. Orchestration: trivial tools, events folded\n"
    yield 'Goal: ≤ 3 µs a step and an element for async and `where="loop"` tools, on a machine where the bare'
    yield "`gather` + `Semaphore` takes 3.5 µs an element.\n"
    steps, elements = orchestration.rows()
    yield from _table(steps, "µs a step", 1, "× floor")
    yield from _table(elements, "µs an element", 1, "× gather")


def _isolation() -> Iterator[str]:
    yield "## 4. Isolation\n\nGoal: an element costs the same whatever stores it does not read.\n"
    yield from _table(isolation.rows(), "µs", 1, "×")


def _display() -> Iterator[str]:
    yield "## 6. The live view\n\nGoal: 10,000 elements cost at most 5 % more with it.\n"
    yield from _table(display.rows(), "µs an element", 1, "× no view")


def _journal() -> Iterator[str]:
    yield "## 5. Keeping a run: calls of 276-byte results\n"
    yield "Goal: a kept linear step ≤ 100 µs; an element of a fan-out of 1,000 at 16 side by side ≤ 12 µs, its line on"
    yield "the disk before the next one starts in its slot. Off costs nothing.\n"
    steps, elements = journal.rows()
    yield from _table(steps, "µs a step", 1, "× off")
    yield from _table(elements, "µs an element", 1, "× off")


def _startup() -> Iterator[str]:
    yield "## 7. Start-up\n\nGoal: `%load_ext agf_magics` ≤ 150 ms in a fresh kernel.\n"
    yield from _table(startup.rows(), "ms", 1000, "× %load_ext")


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
