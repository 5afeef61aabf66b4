"""Rows of which the journal has no outcome: however the run ends, each row says what is known of it."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import agf_magics as agf
from agf_magics.journal.database.store import Store
from agf_magics.lifecycle.past.past_run import find_past_run
from agf_magics.settings.settings import current

TEXT = """
pipeline: measured
steps:
- for_each:
    over: "[1, ctx.n]"
    do: {tool: {name: part, args: {n: !expr item}}}
    on_error: continue
    collect: {transform: {value: pipe}}
- tool: {name: measure, args: {n: !expr ctx.n}}
"""

ASKED = """
nodes:
  ask: {type: interrupt, message: "well?", resume_key: answer}
edges:
- {from: START, to: ask, condition: "n == 3"}
- {from: START, to: END}
- {from: ask, to: END}
"""

ROWS = [{"n": number} for number in range(12)]
COUNTS = {"ok": 10, "failed": 2}


@pytest.fixture
def stopping(registry: agf.Registry) -> list[agf.Run]:
    """The handle of a run that row 6 cancels; empty: no row does."""
    handle: list[agf.Run] = []
    started = threading.Event()

    @agf.tool(registry=registry)
    def part(n: int) -> int:
        if n == 3:
            raise ValueError("a part is missing")
        return n

    @agf.tool(registry=registry)
    def measure(n: int) -> str:
        if n == 6 and handle:
            handle[0].cancel()
            started.wait(0.1)
        if n in (2, 7):
            raise ValueError(f"no {n}")
        return f"{n} mm"

    agf.define(TEXT, registry=registry)
    return handle


@pytest.fixture
def off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current, "settings", replace(current.settings, journal=""))


def _check(table: Any) -> None:
    """Require that all ways to read a whole table tell the same."""
    statuses = [row["status"] for row in table]
    assert table.counts == Counter(statuses)
    assert table.failed == [place for place, status in enumerate(statuses) if status == "failed"]
    table.save("rows.csv")
    assert pd.read_csv("rows.csv")["status"].tolist() == statuses
    for row in table:
        assert (row["error"] is not None) == (row["status"] == "failed")
        assert (row["seconds"] is not None) == (row["status"] != "not run")
        assert row.get("output") == (f"{row['n']} mm" if row["status"] == "ok" else None)


def _recorded(registry: agf.Registry) -> agf.Run:
    run = agf.run("measured", over=ROWS, registry=registry)
    agf.record(run, "run.jsonl")
    with agf.replay("run.jsonl"):
        return agf.run("measured", over=ROWS, registry=registry)


@pytest.mark.usefixtures("stopping")
def test_a_run_with_an_off_journal_tells_of_each_row(registry: agf.Registry, off: None) -> None:
    table = agf.run("measured", over=ROWS, registry=registry).table
    _check(table)
    assert table.counts == COUNTS
    # An element that was dropped inside of row 3 is no failure of the row.
    assert (table[3]["status"], table[3]["error"]) == ("ok", None)
    assert table[7]["error_text"] == "tool 'measure' failed: ValueError: no 7"


@pytest.mark.usefixtures("stopping")
def test_so_does_a_replay(registry: agf.Registry) -> None:
    table = _recorded(registry).table
    _check(table)
    assert table.counts == COUNTS


def test_a_cancelled_run_has_the_rows_that_ended(registry: agf.Registry, stopping: list[agf.Run], off: None) -> None:
    stopping.append(agf.start("measured", over=agf.Over(table=ROWS, width=1), registry=registry))
    stopping[0].wait()
    table = stopping[0].table
    _check(table)
    assert table.counts == {"ok": 5, "failed": 1, "not run": 6}


def test_a_waiting_run_has_the_rows_that_ended(registry: agf.Registry, off: None) -> None:
    agf.define(ASKED, "graph", name="asked", registry=registry)
    run = agf.run("asked", over=agf.Over(table=ROWS, width=1), registry=registry, raises=False)
    assert run.status == "waiting"
    assert run.table.counts == {"ok": 3, "not run": 9}


@pytest.mark.usefixtures("stopping")
def test_a_full_disk_loses_no_status_and_few_values(registry: agf.Registry, folder: Path) -> None:
    def fill(n: int) -> str:
        if n == 20:
            connection = Store.at(folder / "runs.sqlite").writer._connection
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count={pages + 4}")
        return str(n) * 4000

    agf.tool(fill, registry=registry)
    agf.define("pipeline: filled\nsteps: [{tool: {name: fill, args: {n: !expr ctx.n}}}]", registry=registry)
    run = agf.run("filled", over=agf.Over(table=[{"n": n} for n in range(200)], width=1), registry=registry)
    assert run.output == {"rows": 200, "ok": 200, "failed": 0}
    assert [warning.code for warning in run.warnings] == ["journal.full"]
    assert run.table.counts == {"ok": 200}
    lost = [row for row in run.table.rows() if row.is_lost]
    assert len(lost) < 20
    held = [row.output for row in run.table.rows() if not row.is_lost]
    assert held == [str(row.number) * 4000 for row in run.table.rows() if not row.is_lost]
    for row in lost:
        with pytest.raises(agf.DefinitionError, match=r"over\.not-stored"):
            _ = row.output
    # What only the journal knows is said to be unknown.
    past = find_past_run(run.run_id).table
    assert sum(past.counts.values()) == 200
    assert set(past.counts) - {"ok"} <= {"not stored", "not run"}
