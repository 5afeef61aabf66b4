"""`agf.stale` and `agf.rerun` of a run over a table: the flow of its rows is the one that is registered now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import agf_magics as agf
from agf_magics.lifecycle.past.past_run import find_past_run

FLOW = "{pipeline: gr, steps: [{tool: {name: grade, args: {n: !expr ctx.n}, output: g}}]}"
ROWS = [{"n": number} for number in range(6)]


def graded(text: str) -> agf.Registry:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def grade(n: int) -> str:
        return text

    agf.define(FLOW, registry=registry)
    return registry


def of_file(folder: Path) -> str:
    path = folder / "rows.csv"
    path.write_text("n\n" + "\n".join(map(str, range(6))))
    return str(path)


TABLES: dict[str, Callable[[Path], Any]] = {
    "all": lambda folder: ROWS,
    "limit": lambda folder: agf.Over(table=ROWS, limit=4),
    "sample": lambda folder: agf.Over(table=ROWS, sample=3),
    "repeat": lambda folder: agf.Over(table=ROWS, repeat=2),
    "a DataFrame": lambda folder: agf.Over(table=pd.DataFrame(ROWS), limit=4),
    "a large DataFrame": lambda folder: agf.Over(table=pd.DataFrame({"n": range(30_000)}), limit=4),
    "a file": of_file,
    "some rows of a file": lambda folder: agf.Over(table=of_file(folder), limit=4),
}


@pytest.mark.parametrize("is_past", [False, True])
@pytest.mark.parametrize("case", TABLES)
def test_an_edited_tool_makes_the_rows_stale(case: str, is_past: bool, tmp_path: Path) -> None:
    run = agf.run("gr", over=TABLES[case](tmp_path), registry=graded("a"))
    earlier = find_past_run(run.run_id) if is_past else run
    same, edited = (agf.stale(earlier, registry=graded(text)) for text in "ab")
    assert (same.again, same.summary) == ((), "no step would run again")
    assert (edited.again, edited.summary) == (("rows.do/steps[0]",), "1 step would run again")


def test_a_past_run_over_a_table_runs_again() -> None:
    run = agf.run("gr", over=agf.Over(table=ROWS, limit=4), registry=graded("a"))
    again = agf.rerun(run.run_id, "rows", registry=graded("b"))
    assert [row["output"] for row in again.table] == ["b"] * 4


def test_the_flow_of_the_rows_must_be_registered() -> None:
    run = agf.run("gr", over=ROWS, registry=graded("a"))
    with pytest.raises(agf.DefinitionError, match="no flow 'gr' is registered"):
        agf.stale(run.run_id, registry=agf.Registry())
