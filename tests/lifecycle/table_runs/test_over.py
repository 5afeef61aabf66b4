"""A flow over the rows of a table: which rows run, what the result has, and what is refused before the first row."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import agf_magics as agf
from agf_magics.flow.progress.events import StepReplayed
from agf_magics.journal.database.errors import JournalError
from agf_magics.journal.database.store import ROOM, Store
from agf_magics.journal.row_records import RowRecords
from agf_magics.journal.run_journal import Journal
from agf_magics.lifecycle.past.calls_of_run import calls_of
from agf_magics.lifecycle.past.past_run import find_past_run
from agf_magics.lifecycle.past.past_runs import delete
from agf_magics.lifecycle.past.retried_rows import choose_rows
from agf_magics.lifecycle.storage.lookup import journal
from agf_magics.lifecycle.table_runs.table import RowTable
from agf_magics.settings.settings import current
from notebooks.scripted_server import ScriptedServer

ROWS: list[dict[str, Any]] = [{"n": number, "label": "x"} for number in range(6)]


def over(registry: agf.Registry, table: Any, flow: str = "doubled", **options: Any) -> agf.Run:
    return agf.run(flow, over=table, registry=registry, **options)


def test_each_row_is_a_row_of_the_result_even_if_it_fails(registry: agf.Registry) -> None:
    run = over(registry, ROWS)
    assert run.output == {"rows": 6, "ok": 5, "failed": 1}
    assert [row.get("twice") for row in run.table] == [0, 2, 4, None, 8, 10]
    assert run.table[3]["error"] == "step.tool-failed"
    assert run.table[3]["error_text"] == "tool 'double' failed: ValueError: no three"
    # A display says first what differs between rows: the name of the call does not.
    assert [row["error_text"] for row in run.table.shown_at([3])] == ["ValueError: no three"]
    assert "ValueError: no three" in repr(run.table)
    assert "tool 'double'" not in repr(run.table)
    assert run.table.counts == {"ok": 5, "failed": 1}
    assert run.table.columns == ("row", "n", "label", "twice", *agf_about())
    past = find_past_run(run.run_id)
    assert list(past.table) == list(run.table)
    assert [call["kind"] for call in past.calls] == ["tool"] * 6  # rows do not count as calls


def agf_about() -> tuple[str, ...]:
    return ("status", "error", "error_text", "seconds", "tokens", "cost")


TABLES = {
    "a list": lambda rows, folder: rows,
    "pandas": lambda rows, folder: pd.DataFrame(rows),
    "polars": lambda rows, folder: pl.DataFrame(rows),
    "lazy polars": lambda rows, folder: pl.LazyFrame(rows),
    "arrow": lambda rows, folder: pa.Table.from_pylist(rows),
    "csv": lambda rows, folder: write_rows(rows, folder / "rows.csv"),
    "parquet": lambda rows, folder: write_rows(rows, folder / "rows.parquet"),
    "jsonl": lambda rows, folder: write_rows(rows, folder / "rows.jsonl"),
}


def write_rows(rows: list[dict[str, Any]], path: Path) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    elif path.suffix == ".csv":
        pd.DataFrame(rows).to_csv(path, index=False)
    else:
        pd.DataFrame(rows).to_parquet(path)
    return path


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_of_table_gives_the_same_rows(registry: agf.Registry, folder: Path, kind: str) -> None:
    rows: list[dict[str, Any]] = [
        {"n": 0, "x": 1.5, "t": "a"},
        {"n": 1, "x": None, "t": None},
        {"n": 2, "x": 2.0, "t": "c, d\n"},
    ]
    run = over(registry, TABLES[kind](rows, folder))
    assert [{name: row[name] for name in ("n", "x", "t", "twice")} for row in run.table] == [
        {**row, "twice": 2 * row["n"]} for row in rows
    ]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_file_is_read_a_page_at_a_time(registry: agf.Registry, folder: Path, suffix: str) -> None:
    rows: list[dict[str, Any]] = [
        {"n": number + 10, "t": f"{number}\n" if number % 7 == 0 else "é"} for number in range(2_345)
    ]
    run = over(registry, write_rows(rows, folder / f"rows{suffix}"))
    assert run.output["ok"] == len(rows)
    assert [(row["n"], row["t"], row["twice"]) for row in run.table] == [
        (row["n"], row["t"], 2 * row["n"]) for row in rows
    ]


def test_missing_values_and_times_become_json(registry: agf.Registry) -> None:
    frame = pd.DataFrame({"n": [1, 2], "when": pd.to_datetime(["2026-01-02", None]), "x": [float("nan"), float("inf")]})
    assert [(row["when"], row["x"]) for row in over(registry, frame).table] == [
        ("2026-01-02T00:00:00", None),
        (None, None),
    ]


INDEXES = {
    "numbers": None,
    "other numbers": pd.RangeIndex(2, 8, 2),
    "a name": pd.Index(["x", "y", "z"], name="id"),
    "no name": pd.Index([7, 5, 6]),
    "two levels": pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["group", None]),
    "times": pd.date_range("2026-03-28", periods=3, tz="Europe/Berlin", name="day"),
}


@pytest.mark.parametrize("index", INDEXES)
def test_a_frame_of_pandas_keeps_its_index_and_its_types(registry: agf.Registry, index: str) -> None:
    frame = pd.DataFrame(
        {
            "n": pd.array([1, 2, 3], dtype="int8"),
            "category": pd.Categorical(["b", "a", None], categories=["b", "a", "z"], ordered=True),
            "nullable": pd.array([None, 2**60 + 1, 3], dtype="Int64"),
            "flag": pd.array([True, None, False], dtype="boolean"),
            "day": pd.to_datetime(["2026-03-28 12:00", "2026-03-29 12:00", None]).tz_localize("Europe/Berlin"),
            "naive": pd.to_datetime(["2026-03-28", None, "2026-03-29"]),
            "span": pd.to_timedelta([1, 2, None], unit="h"),
            "days": pd.Categorical(pd.to_datetime(["2026-03-28", None, "2026-03-29"])),
            "spans": pd.Categorical(pd.to_timedelta([1, None, 2], unit="h")),
            "grades": pd.Categorical([1, None, 2]),
            "true": pd.Categorical([True, None, False]),
            "nothing": pd.Categorical([None, None, None]),
            "dates": pd.Series([date(2026, 3, 28), None, date(2026, 3, 29)], dtype=object).to_numpy(),
            "times": pd.Series([time(7, 30), time(8, tzinfo=UTC), None], dtype=object).to_numpy(),
            "text": ["x", None, "y"],
            "mixed": pd.Series([1, "a", None], dtype=object).to_numpy(),
        }
    ).rename(columns={"day": "when"} if index == "times" else {})
    if INDEXES[index] is not None:
        frame.index = INDEXES[index]  # type: ignore[assignment]
    result = find_past_run(over(registry, frame).run_id).table.to_pandas()
    pd.testing.assert_frame_equal(result[list(frame.columns)], frame, check_freq=False, check_index_type=False)
    assert result.index.names == frame.index.names
    assert list(result["status"]) == ["ok", "ok", "failed"]


def test_a_missing_cell_of_a_column_of_booleans_stays_missing(registry: agf.Registry) -> None:
    deep: Any = []
    for _ in range(300):
        deep = [deep]
    frame = pd.DataFrame({"n": [1, 2, 3], "flag": [True, True, False]})
    frame["cell"] = pd.Series([1, deep, 3], dtype=object)
    result = over(registry, frame).table.to_pandas()  # the row of the deep cell cannot be read
    assert [None if pd.isna(flag) else bool(flag) for flag in result["flag"]] == [True, None, False]


def test_a_broken_line_is_a_failed_row_with_its_number(registry: agf.Registry, folder: Path) -> None:
    path = folder / "rows.jsonl"
    path.write_text('{"n": 1}\n\n{"n": \n[2]\n{"n": 5}\n')
    run = over(registry, path)
    assert [row["status"] for row in run.table] == ["ok", "failed", "failed", "ok"]
    assert [row["error_text"] for row in run.table][1:3] == [
        "line 3 cannot be used: it is not valid JSON at character 6",
        "line 4 cannot be used: it is a list, not an object",
    ]


def test_a_row_that_is_not_a_mapping_fails_alone(registry: agf.Registry) -> None:
    run = over(registry, [{"n": 1}, 7, {"n": 2}])
    assert run.table[1]["error"] == "over.broken-row"
    assert run.output == {"rows": 3, "ok": 2, "failed": 1}


def test_a_row_that_lacks_a_name_fails_alone(registry: agf.Registry) -> None:
    run = over(registry, [{"n": 1}, {"m": 7}, {"n": 2}])
    assert [row["error"] for row in run.table] == [None, "r1.missing-path", None]
    assert run.output == {"rows": 3, "ok": 2, "failed": 1}


def test_a_row_with_two_names_of_the_same_text_fails_alone(registry: agf.Registry) -> None:
    run = over(registry, [{"n": 1}, {"n": 2, 3: "a", "3": "b"}, {"n": 4, 3: "c"}])
    assert [row["error"] for row in run.table] == [None, "over.broken-row", None]
    assert run.table[2]["3"] == "c"


UNREADABLE = {
    "a quote that is open takes the rows after it": (b'n,m\n1,"a"\n2,"b\n3,c\n', "a quote of line 3 is not closed"),
    "a quote of the names": (b'"n,m\n1,a\n', "a quote of line 1 is not closed"),
    "text in another encoding": ("n,m\n1,a\n2,é\n".encode("latin-1"), "line 3 is not UTF-8"),
    "lines of another system": (b"n,m\r1,a\r", "line 1: it ends with a carriage return alone"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_csv_file_with_an_ambiguous_cell_is_refused(
    registry: agf.Registry, folder: Path, calls: list[int], case: str
) -> None:
    content, reason = UNREADABLE[case]
    (folder / "rows.csv").write_bytes(content)
    with pytest.raises(agf.DefinitionError, match=reason) as error:
        over(registry, folder / "rows.csv")
    assert [diagnostic.code for diagnostic in error.value.diagnostics] == ["over.file"]
    assert not calls


def test_a_quoted_cell_of_a_csv_file_has_several_lines(registry: agf.Registry, folder: Path) -> None:
    (folder / "rows.csv").write_bytes(b'n,m\n1,"a\nb"\n\n2,a"b\n3,"c"')
    assert [row["m"] for row in over(registry, folder / "rows.csv").table] == ["a\nb", 'a"b', "c"]


REFUSED: dict[str, tuple[Any, str]] = {
    "no rows": ([], "over.empty"),
    "no table": (7, "over.no-table"),
    "a misspelt column": ([{"nn": 1, "m": 2}], "over.column"),
    "a mapped column that is missing": (agf.Over(table=ROWS, map={"n": "m"}), "over.column"),
    "a column mapped to a misspelt input": (agf.Over(table=ROWS, map={"m": "n"}), "over.column"),
    "another file": ("rows.txt", "over.file"),
    "no file": ("rows.csv", "over.file"),
    "two columns of a name": (pd.DataFrame([[1, 2]], columns=["n", "n"]), "over.columns"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_table_that_cannot_be_used_is_an_error_before_the_first_row(
    registry: agf.Registry, calls: list[int], case: str
) -> None:
    table, code = REFUSED[case]
    with pytest.raises(agf.DefinitionError) as error:
        over(registry, table)
    assert error.value.code == code
    assert error.value.diagnostic.hint or code == "over.file"
    assert calls == []


def test_a_sample_has_a_seed_and_the_limit_the_first_rows(registry: agf.Registry) -> None:
    table = [{"n": number + 10} for number in range(50)]
    run = over(registry, agf.Over(table=table, sample=5))
    seed = int(run.note.rpartition(" ")[2])
    again = over(registry, agf.Over(table=table, sample=5, seed=seed))
    assert [row["row"] for row in again.table] == [row["row"] for row in run.table]
    assert len(run.table) == 5
    assert [row["n"] for row in over(registry, agf.Over(table=table, limit=3)).table] == [10, 11, 12]


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ({"limit": 2}, [1, 3]),
        ({"limit": 9}, [1, 3, 5]),
        ({"sample": 9}, [1, 3, 5]),
        ({"sample": 2, "seed": 1}, [1, 5]),
        ({"limit": 2, "sample": 1, "seed": 1}, [1]),
    ],
)
@pytest.mark.parametrize("is_table_given", [True, False])
def test_some_of_the_rows_that_failed_run_again(
    registry: agf.Registry, options: Any, numbers: list[int], is_table_given: bool
) -> None:
    agf.tool(lambda n: 1 // ((n + 1) % 2), name="odd", registry=registry)
    agf.define("pipeline: odds\nsteps: [tool: {name: odd, args: {n: !expr ctx.n}}]", registry=registry)
    failed = over(registry, ROWS, "odds")
    again = over(registry, choose_rows(ROWS if is_table_given else None, failed.run_id, **options), "odds")
    assert [row["row"] for row in again.table] == numbers


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"numbers": [-2]}, "numbers are the numbers of rows, from 0 on, not [-2]"),
        ({"numbers": [1.5]}, "numbers are the numbers of rows, from 0 on, not [1.5]"),
        ({"numbers": []}, "numbers are the numbers of rows, from 0 on, not []"),
        ({"numbers": [1, 6]}, "the table has no row 6: it has 6 rows"),
        ({"names": [7, 8]}, "names has 2 numbers for 6 rows"),
        ({"names": [-1] * 6}, "names are the numbers of rows, from 0 on, not [-1, -1, -1, -1, -1, -1]"),
    ],
)
def test_numbers_of_rows_that_are_not_there_are_refused(
    registry: agf.Registry, calls: list[int], options: Any, error: str
) -> None:
    with pytest.raises((ValueError, agf.DefinitionError)) as refused:
        over(registry, agf.Over(table=ROWS, **options))
    assert error in str(refused.value)
    assert calls == []


@pytest.mark.parametrize(
    ("same", "mapped", "expected"),
    [
        (None, {"word": "body"}, ["a", "unknown"]),
        (None, {}, ["unknown", "own"]),
        ({"word": "same"}, {"word": "body"}, ["a", "same"]),
        ({"word": "same"}, {}, ["same", "own"]),
    ],
)
def test_a_row_without_a_column_has_no_such_input_under_any_name(
    registry: agf.Registry, same: Any, mapped: Any, expected: list[str]
) -> None:
    agf.define("pipeline: said\nsteps:\n- transform: {value: ctx.word}\n", registry=registry)
    rows = [{"body": "a"}, {"word": "own"}]
    table = agf.run("said", same, over=agf.Over(table=rows, map=mapped), registry=registry).table
    assert [row["output"] if row["status"] == "ok" else "unknown" for row in table.shown_at([0, 1])] == expected
    assert [table.input_of(row).get("word", "unknown") for row in table.rows()] == expected


def test_a_value_for_all_rows_that_each_row_has_itself_is_a_warning(registry: agf.Registry) -> None:
    run = agf.run("doubled", {"n": 1, "other": 2}, over=ROWS, registry=registry)
    messages = [warning.message for warning in run.warnings if warning.code == "over.column"]
    assert messages == ["'n' is given for all rows, and each row has its own from the table"]


@pytest.mark.parametrize("is_file", [False, True])
@pytest.mark.parametrize("mapped", [{}, {"n": "kg"}])
def test_a_value_for_the_rows_that_lack_a_column_is_no_warning(
    registry: agf.Registry, folder: Path, mapped: dict[str, str], is_file: bool
) -> None:
    rows = [{mapped.get("n", "n"): 4}, {"other": 5}]
    file = folder / "rows.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    run = agf.run("doubled", {"n": 1}, over=agf.Over(table=file if is_file else rows, map=mapped), registry=registry)
    assert [row["twice"] for row in run.table] == [8, 2]
    assert [warning for warning in run.warnings if "for all rows" in warning.message] == []


def test_without_a_journal_a_row_whose_failure_is_not_listed_failed(
    registry: agf.Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agf_magics.flow.progress.progress.FAILURES_KEPT", 2)
    monkeypatch.setattr(current, "settings", replace(current.settings, journal=""))
    run = over(registry, [{"n": 3}] * 5)
    assert run.journal is None
    assert run.table.counts == {"failed": 5}
    assert run.table.failed == [0, 1, 2, 3, 4]


def test_a_row_can_be_repeated_and_an_input_mapped(registry: agf.Registry, calls: list[int]) -> None:
    run = over(registry, agf.Over(table=[{"m": 1}, {"m": 2}], map={"n": "m"}, repeat=2))
    assert [(row["row"], row["repeat"], row["twice"]) for row in run.table] == [
        (0, 0, 2), (0, 1, 2), (1, 0, 4), (1, 1, 4),
    ]  # fmt: skip
    assert sorted(calls) == [1, 1, 2, 2]


def test_a_row_that_failed_in_a_later_repetition_runs_again(registry: agf.Registry) -> None:
    times: list[int] = []

    @agf.tool(registry=registry, where="loop")
    async def once(n: int) -> int:
        times.append(n)
        if len(times) == 2:
            raise ValueError("the second time")
        return n

    agf.define("pipeline: one\nsteps:\n- tool: {name: once, args: {n: !expr ctx.n}}\n", registry=registry)
    run = over(registry, agf.Over(table=[{"n": 7}], repeat=2), "one")
    assert run.table.failed == [1]
    again = over(registry, choose_rows(None, run.run_id), "one")
    assert [(row["row"], row["repeat"], row["output"]) for row in again.table] == [(0, 0, 7), (0, 1, 7)]
    assert len(times) == 3, "the time that failed is made again, and no other"
    fewer = over(registry, choose_rows(None, run.run_id, repeat=1), "one")
    assert [row["output"] for row in fewer.table] == [7]


def test_a_flow_that_reads_its_whole_input_reads_each_mapped_name(registry: agf.Registry) -> None:
    agf.define("pipeline: whole\nsteps:\n- transform: {value: '{all: ctx}'}\n", registry=registry)
    run = over(registry, agf.Over(table=[{"a": 1}], map={"b": "a"}), "whole")
    assert run.table[0]["all"] == {"a": 1, "b": 1}


def test_the_input_is_what_all_rows_have_in_common(registry: agf.Registry) -> None:
    assert over(registry, [{"label": "x"}], input={"n": 4}).table[0]["twice"] == 8


EACH_LANGUAGE = {
    "pipeline": "pipeline: f\nsteps:\n- tool: {name: double, args: {n: !expr ctx.n}}\n",
    "policy": "id: agf.sequential\nconfig:\n  steps:\n  - agent: twice\n    input_mapping: {n: parent.input.n}\n",
    "plan": "calls:\n- {_tool: double, n: †input.n, _outputPath: †state.d}\noutput: †state.d\n",
    "graph": 'state: {n: int}\nnodes:\n  t: {type: passthrough, output: {n: "{state.n * 2}"}}\nedges:\n'
    "- {from: START, to: t}\n- {from: t, to: END}\n",
}


@pytest.mark.parametrize("language", EACH_LANGUAGE)
def test_flows_of_every_language_run_over_rows(registry: agf.Registry, language: str) -> None:
    agf.agent(lambda input: 2 * input["n"], name="twice", registry=registry)
    flow = agf.load(EACH_LANGUAGE[language], registry=registry, name="f")
    run = agf.run(flow, over=[{"n": 4}, {"n": 5}], registry=registry)
    assert "8" in str(run.table[0]["output" if language != "graph" else "output.n"])
    assert run.output["ok"] == 2
    with pytest.raises(agf.DefinitionError) as error:
        agf.run(flow, over=[{"other": 4}], registry=registry)
    assert error.value.code == "over.column"


def test_the_limits_of_a_run_count_for_each_row(registry: agf.Registry) -> None:
    agf.agent(lambda prompt: "ok", name="writer", registry=registry)
    text = (
        "pipeline: asks\nsteps:\n"
        "- for_each: {over: ctx.words, on_error: abort, do: {agent: {identity: writer, prompt: x}}, "
        "collect: {transform: {value: 'count(pipe)'}}}\n"
    )
    agf.define(text, registry=registry)
    table = [{"words": ["a", "b"]}, {"words": ["a"] * 4}, {"words": ["c"]}]
    run = over(registry, table, "asks", limits=agf.Limits(spawns=3, fan_out_depth=1))
    assert [row.get("output") for row in run.table] == [2, None, 1]
    assert run.table[1]["error"] == "limit.spawns"
    # The time limit also counts for each row.
    assert over(registry, ROWS[:3], limits=agf.Limits(timeout=5)).output["ok"] == 3


def test_only_failed_rows_run_again_and_nothing_that_succeeded_is_repeated(
    registry: agf.Registry, calls: list[int], folder: Path
) -> None:
    flag = folder / "mended"

    @agf.tool(registry=registry)
    def halve(n: int) -> float:
        if not flag.exists() and n % 4 == 0:
            raise ValueError("not yet")
        return n / 2

    agf.define(
        "pipeline: both\nsteps:\n- tool: {name: double, args: {n: !expr ctx.n}, output: d}\n"
        "- tool: {name: halve, args: {n: !expr ctx.d}}\n",
        registry=registry,
    )
    table = [{"n": number} for number in (0, 1, 2, 5)]
    run = over(registry, table, "both")
    assert run.table.failed == [0, 2]
    flag.touch()
    calls.clear()
    again = over(registry, choose_rows(None, run.run_id), "both")
    assert [(row["row"], row["output"]) for row in again.table] == [(0, 0), (2, 2)]
    assert calls == []
    with pytest.raises(agf.DefinitionError) as error:
        choose_rows(None, again.run_id)
    assert error.value.code == "over.none-failed"


def test_reuse_makes_only_the_calls_of_an_edited_step_again(registry: agf.Registry, calls: list[int]) -> None:
    table = [{"n": number} for number in (0, 1, 2)]
    over(registry, table)
    calls.clear()
    edited = (
        "pipeline: doubled\nsteps:\n- tool: {name: double, args: {n: !expr ctx.n}, output: d}\n"
        "- transform: {value: '{thrice: ctx.d + ctx.n}'}\n"
    )
    agf.define(edited, registry=registry)
    run = over(registry, table, reuse=True)
    assert [row["thrice"] for row in run.table] == [0, 3, 6]
    assert calls == []


def test_without_a_journal_the_table_is_in_memory(registry: agf.Registry) -> None:
    agf.settings.current.settings = agf.settings.Settings(journal=None)  # type: ignore[attr-defined]
    run = over(registry, ROWS)
    assert run.journal is None
    assert [row.get("twice") for row in run.table] == [0, 2, 4, None, 8, 10]
    assert run.table[3]["error"] == "step.tool-failed"


def test_a_dry_run_makes_a_table_and_calls_nothing(registry: agf.Registry, calls: list[int]) -> None:
    assert [row["status"] for row in over(registry, ROWS, dry=True).table] == ["ok"] * 6
    assert calls == []


def test_names_that_the_input_has_already_are_told_apart(registry: agf.Registry) -> None:
    row = over(registry, [{"n": 1, "twice": "old", "status": "new"}]).table[0]
    assert (row["twice"], row["output.twice"], row["status"], row["run.status"]) == ("old", 2, "new", "ok")


def test_the_table_can_be_taken_as_a_frame_and_saved(registry: agf.Registry, folder: Path) -> None:
    table = over(registry, [{"n": 1, "tag": "a"}, {"n": 2, "tag": {"x": 1}}, {"n": 3, "tag": None}]).table
    assert table.to_pandas()["twice"].dropna().tolist() == [2, 4]
    assert table.to_polars()["tag"].to_list() == ["a", '{"x": 1}', None]
    assert table.to_arrow().column_names == list(table.columns)
    for suffix in (".csv", ".jsonl", ".parquet"):
        table.save(folder / f"out{suffix}")
    assert pd.read_csv(folder / "out.csv")["status"].tolist() == ["ok", "ok", "failed"]
    assert json.loads((folder / "out.jsonl").read_text().splitlines()[1])["twice"] == 4
    assert pd.read_parquet(folder / "out.parquet")["row"].tolist() == [0, 1, 2]
    with pytest.raises(agf.DefinitionError, match="is not a file of rows"):
        table.save("out.xyz")


def test_the_table_is_escaped_and_bounded(registry: agf.Registry) -> None:
    table = over(registry, [{"n": 1, "<b>": "<script>" * 100}] * 30).table
    page = table._repr_html_()
    assert "<script>" not in page
    assert "&lt;b&gt;" in page
    assert "30 rows: 30 ok; the first 20 are shown" in page
    assert len(page) < 60_000


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (10, "30 rows: 30 ok; the first 20 are shown"),
        (30, "30 rows: 30 ok; the first 8 are shown"),
        (300, "30 rows: 30 ok; the first 7 are shown; without 265 more columns"),
    ],
)
def test_a_wide_table_tells_what_it_leaves_out_and_fits_into_the_page_of_its_run(
    registry: agf.Registry, columns: int, shown: str
) -> None:
    wide = {f"column_{number}": "long " * 100 for number in range(columns)}
    run = over(registry, [{"n": 1, **wide}] * 30)
    page = run._repr_mimebundle_()["text/html"]
    caption = re.search(r"<caption[^>]*>([^<]*)", page)
    assert caption is not None
    assert caption[1] == shown
    assert shown in repr(run.table)
    assert "not saved here" not in page
    assert len(page) < 240_000


def test_a_page_whose_rows_cannot_be_read_says_so(registry: agf.Registry, folder: Path) -> None:
    run = over(registry, [{"n": 1}, {"n": 2}])
    with sqlite3.connect(folder / "runs.sqlite") as connection:
        connection.execute("DROP TABLE records")
    for page in run._repr_mimebundle_().values():
        assert "the rows cannot be read: " in page
        assert "steps" in page


def test_a_secret_of_a_row_is_masked_on_the_page_of_a_run_without_a_journal(
    registry: agf.Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    @agf.tool(registry=registry, secret=["key"])
    def use(n: int, key: str) -> str:
        return f"used {key}"

    agf.define("pipeline: used\nsteps: [{tool: {name: use, args: {n: !expr ctx.n, key: !expr ctx.key}}}]",
               registry=registry)  # fmt: skip
    monkeypatch.setattr(current, "settings", replace(current.settings, journal=""))
    run = over(registry, [{"n": number, "key": "xyzzy-plugh-42"} for number in range(3)], "used")
    assert run.table[0]["output"] == "used xyzzy-plugh-42"
    shown = "".join([repr(run.table), *run._repr_mimebundle_().values()])
    assert "3 rows: 3 ok" in shown
    assert "xyzzy" not in shown


def test_another_run_has_no_table(registry: agf.Registry) -> None:
    with pytest.raises(agf.DefinitionError) as error:
        _ = agf.run("doubled", {"n": 1}, registry=registry).table
    assert error.value.code == "over.no-rows"


def test_calls_of_rows_go_to_workers(registry: agf.Registry) -> None:
    run = over(registry, [{"n": number + 10} for number in range(30)], on="processes:2")
    assert [row["twice"] for row in run.table] == [2 * (number + 10) for number in range(30)]


ASK = "pipeline: ask\nsteps:\n- agent: {prompt: 'word {ctx.word}'}\n"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    with ScriptedServer(lambda request: "fine") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-to-be-seen")
        yield server


@pytest.fixture
def asking(model: ScriptedServer) -> agf.Registry:
    registry = agf.Registry()
    registry.choose("openai-chat:gpt-4o")
    agf.define(ASK, registry=registry)
    return registry


WORDS = [{"word": f"w{number}"} for number in range(60)]


def test_a_run_with_a_known_price_asks_after_twenty_rows(asking: agf.Registry, model: ScriptedServer) -> None:
    questions: list[str] = []

    def ask(question: agf.Question) -> bool:
        questions.append(question.text)
        assert len(model.requests) == 20
        return True

    run = agf.run("ask", over=WORDS, registry=asking, ask=ask)
    assert questions == ["the first 20 of 60 rows cost $0.0015: about $0.0045 for all. Go on?"]
    assert run.output["ok"] == 60
    assert run.table[5]["tokens"] == 15
    assert run.table[5]["cost"] == pytest.approx(0.000075)


def test_where_nobody_answers_the_run_waits_and_keeps_its_rows(asking: agf.Registry, model: ScriptedServer) -> None:
    def nobody(question: agf.Question) -> bool:
        raise EOFError

    run = agf.run("ask", over=WORDS, registry=asking, ask=nobody, raises=False)
    assert run.status == "waiting"
    assert run.error.code == "over.go-on"
    assert run.table.counts == {"ok": 20, "not run": 40}
    ended = agf.resume(run.run_id, answer="yes", registry=asking)
    assert ended.table.counts == {"ok": 60}
    assert len(model.requests) == 60


def test_a_resumed_run_asks_again_and_keeps_what_its_rows_have_cost(
    asking: agf.Registry, model: ScriptedServer
) -> None:
    def nobody(question: agf.Question) -> bool:
        raise EOFError

    run = agf.run("ask", over=WORDS, registry=asking, ask=nobody, raises=False)
    events: list[Any] = []
    again = agf.resume(run.run_id, registry=asking, ask=nobody, raises=False, on_event=events.append)
    assert (again.status, again.error.code, len(model.requests)) == ("waiting", "over.go-on", 20)
    assert [event.run for event in events if isinstance(event, StepReplayed)] == [run.run_id] * 20
    assert again.cost == run.cost == Decimal("0.0015")
    limits = agf.Limits(max_cost=0.002)
    limited = agf.resume(run.run_id, registry=asking, limits=limits, raises=False)
    assert limited.error.code == "limit.cost"
    assert len(model.requests) < 40, "the limit counts the first twenty rows"
    paid = agf.runs(run.run_id).cost
    assert limited.cost == paid
    refused = agf.resume(run.run_id, registry=asking, limits=agf.Limits(max_tokens=200), raises=False)
    assert (refused.error.code, agf.runs(run.run_id).cost) == ("limit.tokens", paid)
    ended = agf.resume(run.run_id, registry=asking, limits=agf.Limits(max_cost=1.0))
    assert (ended.usage.requests, ended.usage.tokens) == (60, 900)
    assert ended.cost == agf.runs(run.run_id).cost == sum(Decimal(str(row["cost"])) for row in ended.table)


@pytest.mark.parametrize("how", ["yes", "max_cost"])
def test_with_a_cost_limit_the_user_is_not_asked(asking: agf.Registry, how: str) -> None:
    def ask(question: agf.Question) -> bool:
        raise AssertionError(question)

    limits = agf.Limits(max_cost=1.0 if how == "max_cost" else 0.0)
    over_words = agf.Over(table=WORDS, yes=how == "yes")
    assert agf.run("ask", over=over_words, registry=asking, ask=ask, limits=limits).output["ok"] == 60


def test_the_largest_cost_is_that_of_all_rows(asking: agf.Registry, model: ScriptedServer) -> None:
    limits = agf.Limits(max_cost=0.00075)  # the cost of ten rows
    run = agf.run("ask", over=WORDS, registry=asking, limits=limits, raises=False)
    assert run.error.code == "limit.cost"
    assert run.table.counts["ok"] >= 9
    assert len(model.requests) < 25


KILLED = """
import os, signal, sys
from dataclasses import replace
from datetime import UTC, date, time
from pathlib import Path
import agf_magics as agf
from agf_magics.lifecycle.past.retried_rows import choose_rows
from agf_magics.settings.settings import current

current.settings = replace(current.settings, journal=str(Path("runs.sqlite").absolute()))
agf.registry.choose("openai-chat:gpt-4o")

@agf.tool(where="loop")
async def check(n: int, reply: str) -> int:
    if n == 25 and not Path("killed").exists():
        Path("killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if n % 10 == 0 and not Path("mended").exists():
        raise ValueError("not yet")
    return n

agf.define('''
pipeline: words
steps:
- agent: {prompt: 'word {ctx.n}', output: reply}
- tool: {name: check, args: {n: !expr ctx.n, reply: !expr ctx.reply}}
''')
rows = agf.Over(table=[{"n": n} for n in range(40)], yes=True)
if sys.argv[1] == "run":
    agf.run("words", over=rows)
elif sys.argv[1] == "resume":
    run = agf.resume()
    assert run.table.counts == {"ok": 36, "failed": 4}, run.table[25:26] + [run.table[i] for i in run.table.failed]
else:
    run = agf.run("words", over=choose_rows(None, sys.argv[2]))
    assert run.table.counts == {"ok": 4}, run.table.counts
print(agf.runs()[0].run_id)
"""


@pytest.mark.slow
def test_each_row_is_paid_for_once_after_a_kill_and_a_repair(model: ScriptedServer, folder: Path) -> None:
    (folder / "session.py").write_text(KILLED)

    def session(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "session.py", *arguments], cwd=folder, text=True, capture_output=True, timeout=120
        )

    first = session("run")
    assert first.returncode == -signal.SIGKILL, first.stderr
    resumed = session("resume")
    assert resumed.returncode == 0, resumed.stderr
    (folder / "mended").touch()
    mended = session("retry", resumed.stdout.strip())
    assert mended.returncode == 0, mended.stderr
    prompts = Counter(str(request["messages"][-1]["content"]) for request in model.requests)
    assert len(prompts) == 40
    # The replies in progress at the moment of the kill were paid for, but nobody has received them.
    again = [prompt for prompt, count in prompts.items() if count > 1]
    assert len(again) <= 8
    assert max(prompts.values()) <= 2


def test_the_rows_of_a_file_that_is_saved_again_during_the_run_fail(registry: agf.Registry, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("n\n" + "".join(f"{n}\n" for n in range(2_500)))

    @agf.tool(registry=registry)
    def save_again(n: int) -> dict[str, int]:
        if n == 5:
            path.write_text("n\n" + "".join(f"{n}\n" for n in range(3, 2_400)))
        return {"same": n}

    agf.define("{pipeline: again, steps: [{tool: {name: save_again, args: {n: !expr n}}}]}", registry=registry)
    run = agf.run("again", over=str(path), registry=registry, raises=False)
    rows = list(run.table.rows())
    assert all(row.output == {"same": row.number} for row in rows if row.status == "ok")
    assert {row.error.code for row in rows if row.error is not None} == {"over.changed-file"}
    assert run.table[2_400]["error"] == "over.changed-file"


READINGS: dict[str, Callable[[Any], object]] = {
    "the table": lambda run: run.table,
    "the calls in the journal": lambda run: calls_of(run).count(list(run.progress.rows.values())[-1]),
    "scores": lambda run: agf.score_over(run, bool, seed=1),
}
READINGS_OF_TABLES: dict[str, Callable[[Any], object]] = {
    "rows": list,
    "a saved file": lambda table: table.save("lost.csv"),
    "a label": lambda table: table.label(0, "good"),
    "a column": lambda table: table.add_column("judged", [1] * len(table)),
}
READINGS_OF_PAST_RUNS: dict[str, Callable[[Any], object]] = {
    "calls": lambda run: list(run.calls),
    "trace": lambda run: run.trace,
    "a result": lambda run: run.load("rows"),
    "a comparison": lambda run: run.compare(run),
    "a file": lambda run: run.export("lost.json"),
}


def test_a_deleted_run_says_so_and_not_that_nothing_has_run(registry: agf.Registry, folder: Path) -> None:
    live = over(registry, ROWS)
    past = find_past_run(live.run_id)
    unread = find_past_run(live.run_id)
    runs = {"run": live, "past run": past, "unread past run": unread}
    tables = {"table": live.table, "past table": past.table, "unread table": RowTable(live)}
    assert [len(list(tables[name])) for name in ("table", "past table")] == [6, 6]
    assert delete([live.run_id]) == [live.run_id]
    cases = [
        *((f"{name}: {what}", read, run) for name, run in runs.items() for what, read in READINGS.items()),
        *(
            (f"{name}: {what}", read, table)
            for name, table in tables.items()
            for what, read in READINGS_OF_TABLES.items()
        ),
        *((what, read, unread) for what, read in READINGS_OF_PAST_RUNS.items()),
        ("counts", lambda table: table.counts, tables["unread table"]),
    ]
    codes = {}
    for name, read, subject in cases:
        try:
            codes[name] = f"it gives {read(subject)!r}"
        except agf.DefinitionError as error:
            codes[name] = error.code
    assert codes == dict.fromkeys(codes, "journal.unknown-run")
    assert not list(folder.glob("lost*"))
    with journal().reading() as connection:
        assert connection.execute("SELECT num FROM large").fetchall() == []


def test_a_run_whose_row_is_not_written_yet_is_not_deleted(tmp_path: Path) -> None:
    store = Store.at(tmp_path / "runs.sqlite")
    Journal(store, ROOM, "p-1", 1_000)
    assert RowRecords(store, ROOM, "rows.do", 3).lacking == [0, 1, 2]
    with pytest.raises(JournalError):
        RowRecords(store, 2 * ROOM, "rows.do", 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"map": "ab"}, "map is "),
        ({"map": {"n": ["q"]}}, "map is "),
        ({"yes": "no"}, "yes is True or False"),
        ({"seed": "x"}, "seed is a whole number"),
    ],
)
def test_wrong_options_of_a_table_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        agf.Over(table=ROWS, **options)


def test_a_seed_may_be_a_number_of_numpy(registry: agf.Registry) -> None:
    seed: Any = np.int64(3)
    chosen = [
        [row["n"] for row in over(registry, agf.Over(table=ROWS, sample=3, seed=given)).table] for given in (3, seed)
    ]
    assert chosen[0] == chosen[1]
    run = over(registry, ROWS)
    agf.score_over(run, lambda output: 1.0, seed=seed, registry=registry)
    assert "seed 3" in repr(run.table) or run.table.added


def test_a_run_over_a_changed_file_is_refused_in_the_words_of_the_table(registry: agf.Registry) -> None:
    handle: list[agf.Run] = []

    @agf.tool(registry=registry)
    def stop(n: int) -> int:
        if n == 2:
            handle[0].cancel()
        return n

    agf.define("pipeline: stopped\nsteps: [{tool: {name: stop, args: {n: !expr ctx.n}}}]", registry=registry)
    file = Path("table.csv")
    file.write_text("n\n" + "".join(f"{number}\n" for number in range(30)))
    handle.append(agf.start("stopped", over=agf.Over(table=str(file), width=1), registry=registry))
    run_id = handle[0].wait().run_id
    file.write_text("n\n1\n")
    with pytest.raises(agf.DefinitionError) as error:
        agf.resume(run_id, registry=registry)
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.code == "over.changed-file"
    assert diagnostic.message.endswith("table.csv' has changed since the start of the run")
    assert diagnostic.hint == "start a new run, or restore the file"
    assert "Error" not in diagnostic.message


def test_a_failure_has_the_number_of_its_row(registry: agf.Registry) -> None:
    run = over(registry, agf.Over(table=ROWS, numbers=[3, 5]))
    page = run._repr_mimebundle_()["text/plain"]
    assert [row["row"] for row in run.table] == [3, 5]
    assert "#3" in page
    assert "#0" not in page


@pytest.mark.parametrize(("prices", "says"), [("gpt-4o", "≈ $0.00030"), ("our-own", "unknown")])
def test_the_cost_of_a_comparison_is_written_as_everywhere(asking: agf.Registry, prices: str, says: str) -> None:
    first = agf.run("ask", over=WORDS[:4], registry=asking)
    asking.choose(f"openai-chat:{prices}")
    second = agf.run("ask", over=WORDS[:4], registry=asking)
    text = repr(agf.compare_over(first, second))
    (costs,) = (line.split("  ") for line in text.splitlines() if line.startswith("cost"))
    assert [cell.strip() for cell in costs if cell.strip()] == ["cost", "≈ $0.00030", says]
