"""Large results that cannot change are written while the next steps run, and are recorded in their order."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

import agf_magics as agf
from agf_magics.journal.database import value_files
from tests.engine import kept
from tests.processes import script
from tests.slow import slow_but

N = 2_000_000

GO_ON: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame({"a": np.arange(N) * 1.5, "b": np.arange(N)}),
    "pandas with text": lambda: pd.DataFrame({"a": ["some words of a text"] * 600_000}),
    "a column": lambda: pd.Series(np.arange(N) * 1.5, index=pd.date_range("2020", periods=N, freq="s")),
    "polars": lambda: pl.DataFrame({"a": np.arange(N)}),
    "arrow": lambda: pa.table({"a": np.arange(N)}),
    "bytes": lambda: b"x" * 12_000_000,
    "text": lambda: "x" * 12_000_000,
    "rows": lambda: [{"n": n, "text": "word" * 50} for n in range(60_000)],
    "frames in a dict": lambda: {"one": pl.DataFrame({"a": np.arange(N)}), "text": "words"},
}

WAIT: dict[str, Callable[[], Any]] = {
    "numpy": lambda: np.arange(N) * 1.5,
    "pandas with objects": lambda: pd.DataFrame(
        {"a": np.arange(N), "b": pd.Series([[1]], dtype=object).repeat(N).array}
    ),
    "an array in a dict": lambda: {"frame": pl.DataFrame({"a": [1]}), "array": np.arange(N)},
    "arrays in a list": lambda: [np.arange(N)],
}


class Disk:
    """A stand-in for the module os, whose `write` waits for permission, and reports that it waits."""

    def __init__(self) -> None:
        self.may_write = threading.Event()
        self.begun = threading.Event()
        self.seen = list[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, file: int, data: Any) -> int:
        self.begun.set()
        assert self.may_write.wait(60), "nobody lets it write"
        self.seen.append("written")
        return os.write(file, data)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with kept.journal_in(tmp_path) as path:
        yield path


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """Pretend that every result took longer to make than to store, so that all are stored."""
    disk = Disk()
    monkeypatch.setattr(value_files, "RATE", 1e18)
    monkeypatch.setattr(value_files, "os", disk)
    yield disk
    disk.may_write.set()


TWO = """
pipeline: two
steps:
- tool: {name: load, output: data}
- tool: {name: then, output: more}
- tool: {name: last}
"""


def tools(disk: Disk, make: Callable[[], Any], then: Callable[[], Any], **options: Any) -> agf.Registry:
    """Three tools that record their calls. `load` makes a large result, which the other two do not get."""
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def load() -> Any:
        disk.seen.append("load")
        return make()

    @agf.tool(registry=registry, name="then", **options)
    def _then() -> Any:
        disk.seen.append("then")
        return then()

    @agf.tool(registry=registry)
    def last() -> str:
        disk.seen.append("last")
        return "done"

    agf.define(TWO, registry=registry)
    return registry


def finished(path: Path) -> list[str]:
    """The steps with a result in the file, in their order."""
    kept.flush(path)
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT at FROM records WHERE what IN ('finished', 'failed') ORDER BY line"
        ).fetchall()
    return [json.loads(path_text)[0] for (path_text,) in rows]


@pytest.mark.parametrize("kind", GO_ON)
def test_the_next_step_begins_while_a_result_that_cannot_change_is_written(kind: str, path: Path, disk: Disk) -> None:
    before = list[list[str]]()

    def then() -> int:
        assert disk.begun.wait(60)
        return 1

    def last() -> str:
        before.append(finished(path))
        disk.may_write.set()
        return "done"

    registry = tools(disk, GO_ON[kind], then)
    agf.tool(last, registry=registry)
    run = agf.run("two", registry=registry)
    assert disk.seen[:3] == ["load", "then", "written"]
    assert before == [[]], "no result is recorded before that of the first step"
    assert finished(path) == ["steps[0]", "steps[1]", "steps[2]"]
    loaded, value = agf.runs(run.run_id).load("steps[0]"), GO_ON[kind]()
    assert is_same(loaded, value)


def is_same(first: Any, second: Any) -> bool:
    if isinstance(first, dict):
        return all(is_same(first[name], second[name]) for name in {*first, *second})
    return bool(first.equals(second)) if hasattr(first, "equals") else bool(first == second)


@pytest.mark.parametrize("kind", WAIT)
def test_a_step_waits_for_a_result_that_may_change(kind: str, path: Path, disk: Disk) -> None:
    disk.may_write.set()
    registry = tools(disk, WAIT[kind], lambda: finished(path))
    run = agf.run("two", registry=registry)
    assert agf.runs(run.run_id).load("steps[1]") == ["steps[0]"]
    assert disk.seen.index("then") > disk.seen.index("written")


def test_a_call_with_an_effect_begins_after_all_earlier_results_are_stored(path: Path, disk: Disk) -> None:
    recorded = list[list[str]]()
    registry = tools(disk, GO_ON["polars"], lambda: recorded.append(finished(path)), reuse=False)
    run = agf.start("two", registry=registry)
    assert disk.begun.wait(60)
    disk.may_write.set()
    assert (run.wait().status, recorded) == ("ok", [["steps[0]"]])


def change_pandas(frame: Any) -> None:
    frame.loc[0, "a"] = 99.0
    frame["new"] = 1


def change_polars(frame: Any) -> None:
    frame[0, "a"] = 99
    frame.insert_column(0, pl.Series("new", np.arange(N)))


CHANGES = {"pandas": change_pandas, "polars": change_polars}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_result_is_stored_as_it_was_before_the_next_step_changes_it(kind: str, path: Path, disk: Disk) -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def load() -> Any:
        return GO_ON[kind]()

    @agf.tool(registry=registry)
    def change(data: Any) -> int:
        assert disk.begun.wait(60)
        CHANGES[kind](data)
        disk.may_write.set()
        return 1

    @agf.tool(registry=registry)
    def last(data: Any) -> list[str]:
        return list(data.columns)

    agf.define(
        """
pipeline: changed
steps:
- tool: {name: load, output: data}
- tool: {name: change, args: {data: !expr data}}
- tool: {name: last, args: {data: !expr data}}
""",
        registry=registry,
    )
    run = agf.run("changed", registry=registry)
    assert "new" in run.output
    assert [warning.code for warning in run.warnings] == ["journal.unkept"]
    assert is_same(agf.runs(run.run_id).load("steps[0]"), GO_ON[kind]())


ENDS = ("error", "cancelled")


@pytest.mark.parametrize("end", ENDS)
def test_a_run_that_ends_early_records_results_that_are_being_written(end: str, path: Path, disk: Disk) -> None:
    stops = threading.Event()

    def then() -> int:
        assert disk.begun.wait(60)
        if stops.is_set():  # in the resumed run
            return 1
        stops.set()
        if end == "error":
            raise LookupError("not yet")
        run.cancel("a test")
        return 1

    registry = tools(disk, GO_ON["polars"], then)
    run = agf.start("two", registry=registry)
    assert stops.wait(60)
    disk.may_write.set()
    run.wait()
    assert (run.status, finished(path)[:1]) == (end, ["steps[0]"])
    again = agf.resume(run.run_id, registry=registry)
    assert (again.output, disk.seen.count("load")) == ("done", 1)


def test_a_run_that_is_out_of_time_ends_without_results_that_are_being_written(path: Path, disk: Disk) -> None:
    registry = tools(disk, GO_ON["polars"], lambda: 1)
    run = agf.run("two", registry=registry, limits=agf.Limits(timeout=1), raises=False)
    assert (run.error.code, finished(path)) == ("limit.timeout", [])
    disk.may_write.set()
    disk.seen.clear()
    again = agf.resume(run.run_id, registry=registry, limits=agf.Limits(timeout=60))
    assert again.output == "done"
    assert [event for event in disk.seen if event != "written"] == ["load", "then", "last"]


def test_other_runs_continue_while_a_run_ends(path: Path, disk: Disk) -> None:
    registry = agf.Registry()
    agf.tool(GO_ON["polars"], name="load", registry=registry)
    agf.define("pipeline: one\nsteps:\n- tool: {name: load}", registry=registry)
    agf.define("pipeline: other\nsteps:\n- transform: {value: 1 + 1}", registry=registry)
    run = agf.start("one", registry=registry)
    assert disk.begun.wait(60)
    assert agf.run("other", registry=registry).status == "ok"
    assert run.status == "running"
    disk.may_write.set()
    run.wait()
    assert run.status == "ok"
    assert is_same(agf.runs(run.run_id).output, GO_ON["polars"]())


def test_one_result_is_written_at_a_time(path: Path, disk: Disk) -> None:
    def then() -> Any:
        assert disk.begun.wait(60)
        threading.Timer(0.2, disk.may_write.set).start()
        return pl.DataFrame({"b": np.arange(N) * 2})

    registry = tools(disk, GO_ON["polars"], then)
    agf.run("two", registry=registry)
    order = [event for event in disk.seen if event != "written"]
    assert order == ["load", "then", "last"]
    assert disk.seen.index("written") < disk.seen.index("last")


async def _awaited(registry: agf.Registry, disk: Disk) -> str:
    task = asyncio.ensure_future(agf.arun("two", registry=registry))
    await asyncio.to_thread(disk.begun.wait, 60)
    disk.may_write.set()
    return str((await task).output)


def test_an_awaited_run_ends_when_all_is_recorded(path: Path, disk: Disk) -> None:
    registry = tools(disk, GO_ON["arrow"], lambda: 1)
    assert asyncio.run(_awaited(registry, disk)) == "done"
    assert finished(path) == ["steps[0]", "steps[1]", "steps[2]"]


SESSION = """
import json, os, signal, sys
from dataclasses import replace

import numpy as np
import polars as pl

import agf_magics as agf
from agf_magics.journal.database import value_files
from agf_magics.settings.settings import current

current.settings = replace(current.settings, journal=os.path.abspath("runs.sqlite"))
value_files.RATE = 1e18
value_files.PIECE = 1 << 20
last = int(sys.argv[1])


class Dying:
    "The module os, whose last call kills this process; with 0, the last tool does."

    left = last

    def __getattr__(self, name):
        there = getattr(os, name)
        if name not in ("open", "write", "replace", "close", "lstat") or last <= 0:
            return there

        def call(*given, **options):
            Dying.left -= 1
            if not Dying.left:
                os.kill(os.getpid(), signal.SIGKILL)
            return there(*given, **options)

        return call


value_files.os = Dying()
made = []


@agf.tool
def load() -> object:
    made.append("load")
    return pl.DataFrame({"a": np.arange(1_500_000), "b": np.arange(1_500_000) * 0.5})


@agf.tool
def count() -> int:
    made.append("count")
    return 7


@agf.tool
def grow(data: object, by: int) -> object:
    made.append("grow")
    return data.with_columns(c=pl.col("a") * by)


@agf.tool
def total(data: object) -> float:
    made.append("total")
    if not last:
        os.kill(os.getpid(), signal.SIGKILL)
    return float(data["c"].sum())


agf.define('''
pipeline: main
steps:
- tool: {name: load, output: one}
- tool: {name: count, output: n}
- tool: {name: grow, args: {data: !expr one, by: !expr n}, output: two}
- tool: {name: total, args: {data: !expr two}}
''')
unfinished = [each for each in agf.runs() if each.status == "interrupted"]
run = agf.resume(unfinished[0].run_id) if unfinished else agf.run("main")
print(json.dumps([run.output, made, [warning.code for warning in run.warnings]]))
"""

STEPS = ["load", "count", "grow", "total"]


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("last", slow_but([0], [0, 1, 2, 3, 5, 9, 14, 21, 26, 30, 33, 36]))
def test_a_process_that_is_killed_has_no_result_without_all_before_it(last: int, tmp_path: Path) -> None:
    ran = script(SESSION, tmp_path, str(last))
    assert ran.returncode in (-signal.SIGKILL, 0), ran.stderr
    if ran.returncode == 0:
        return
    kept_steps = finished_steps(tmp_path / "runs.sqlite")
    assert kept_steps == [f"steps[{n}]" for n in range(len(kept_steps))]
    ran = script(SESSION, tmp_path, "-1")
    assert ran.returncode == 0, ran.stderr
    output, calls, warned = json.loads(ran.stdout.splitlines()[-1])
    assert (output, calls, warned) == (float(sum(range(1_500_000)) * 7), STEPS[len(kept_steps) :], [])


def finished_steps(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT at FROM records WHERE what='finished' ORDER BY line").fetchall()
    return [json.loads(path_text)[0] for (path_text,) in rows]
