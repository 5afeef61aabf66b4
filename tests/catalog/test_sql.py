"""Tests of the tool `sql`: it runs one SELECT over frames, which reaches nothing else."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import agf_magics as agf
from agf_magics.catalog.builtin.sql import query_frames
from agf_magics.catalog.builtin.sql_process import QUERIES
from agf_magics.text.diagnostics import StepError
from tests.slow import slow_but

ENDLESS = "select count(*) from range(1000000000) a, range(1000000000) b where a.range * b.range = 7"


def sql(query: str, **options: Any) -> Any:
    tool = agf.registry.tools["sql"]
    return tool.function(**tool.check({"query": query, **options}))


ROWS = [{"fruit": "pear", "kg": 3}, {"fruit": "fig", "kg": 1}, {"fruit": "pear", "kg": 4}]
KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.Table.from_pylist, "records": list}


@pytest.mark.parametrize("kind", KINDS)
def test_the_result_is_of_the_kind_of_the_first_frame(kind: str) -> None:
    frame = KINDS[kind](ROWS)
    result = sql("select fruit, sum(kg) kg from t group by fruit order by kg", frames={"t": frame, "u": ROWS})
    assert type(result) is type(frame)
    rows = {"pandas": lambda: result.to_dict("records"), "polars": lambda: result.to_dicts()}
    expected = [{"fruit": "fig", "kg": 1}, {"fruit": "pear", "kg": 7}]
    assert rows.get(kind, lambda: result if kind == "records" else result.to_pylist())() == expected


def test_a_frame_passes_by_reference_between_steps() -> None:
    registry = agf.Registry()
    registry.tools.add(agf.registry.tools["sql"])

    @agf.tool(registry=registry)
    def kilos(frame: pd.DataFrame) -> int:
        return int(frame["kg"].sum())

    query = "select kg from orders where fruit = 'pear'"
    text = f"""
pipeline: main
steps:
- tool: {{name: sql, args: {{query: "{query}", frames: !expr "{{orders: ctx.orders}}"}}, output: pears}}
- tool: {{name: kilos, args: {{frame: !expr pears}}}}
"""
    run = agf.run(text, {"orders": pd.DataFrame(ROWS)}, registry=registry)
    assert run.output == 7
    assert isinstance(run.stores["pears"], pd.DataFrame)


def test_types_and_an_index_survive_a_query() -> None:
    frame = pd.DataFrame(
        {"c": pd.Categorical(["a", "b"], categories=["b", "a", "z"]), "i": pd.array([None, 2**60 + 1], dtype="Int64")},
        index=pd.Index([5, 6], name="k"),
    )
    result = sql("select * from t order by k", frames={"t": frame})
    assert result["k"].tolist() == [5, 6]
    assert list(result["c"].dtype.categories) == ["b", "a", "z"]
    assert result["i"].iloc[1] == 2**60 + 1


BIG = 2**60 + 1
"""A whole number that a float would change."""


class Sales(pd.DataFrame):
    """A class of a notebook, as GeoDataFrame is one of a library."""


class Orders(pl.DataFrame):
    """The same of polars."""


SAME: dict[str, tuple[Any, str, list[Any]]] = {
    "a text that is a number": ([{"x": "10"}, {"x": 20}], "select x from t where x = '10'", [{"x": "10"}]),
    "a text that is JSON": ([{"x": "true"}, {"x": [1]}], "select x from t", [{"x": "true"}, {"x": "[1]"}]),
    "objects of pandas": (pd.DataFrame({"x": ["10", 20]}), "select x from t where x = '10'", [{"x": "10"}]),
    "objects of polars": (
        pl.DataFrame({"x": pl.Series(["10", 20], dtype=pl.Object)}),
        "select x from t",
        [{"x": "10"}, {"x": "20"}],
    ),
    "lists with NULL": (pd.DataFrame({"x": [[1, None], [BIG]]}), "select x from t", [{"x": [1, None]}, {"x": [BIG]}]),
    "structs with NULL": (
        pd.DataFrame({"x": [{"a": BIG}, {"a": None}]}),
        "select x from t",
        [{"x": {"a": BIG}}, {"x": {"a": None}}],
    ),
    "a subclass of pandas": (Sales({"x": [1, 2]}), "select x from t", [{"x": 1}, {"x": 2}]),
    "a subclass of polars": (Orders({"x": [1, 2]}), "select x from t", [{"x": 1}, {"x": 2}]),
    "half floats": (
        pd.DataFrame({"x": np.array([1.5, 65504], dtype="float16")}),
        "select x from t",
        [{"x": 1.5}, {"x": 65504.0}],
    ),
    "half floats of Arrow": (
        pl.DataFrame({"y": [1]}).to_arrow().append_column("x", pa.array([np.float16(0.5)])),
        "select x from t",
        pa.table({"x": pa.array([0.5], pa.float32())}),
    ),
    "dates beside None": (
        pd.DataFrame({"x": [date(2026, 1, 2), None]}),
        "select typeof(x) as type, x from t",
        [{"type": "DATE", "x": date(2026, 1, 2)}, {"type": "DATE", "x": None}],
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_a_value_is_the_same_in_the_query_and_in_its_result(name: str) -> None:
    frame, query, expected = SAME[name]
    result = sql(query, frames={"t": frame})
    if isinstance(result, pd.DataFrame):
        result = result.to_dict("records")
    elif isinstance(result, pl.DataFrame):
        result = result.to_dicts()
    assert result == expected


NO_SQL = "its column 'x' has values that SQL does not have: pandas."
CUT = "its column 'x' has durations that SQL would cut to microseconds"
REFUSED_COLUMNS: dict[str, tuple[Any, str, str]] = {
    "periods": (pd.DataFrame({"x": pd.period_range("2026", periods=1)}), f"{NO_SQL}period", "convert it"),
    "intervals": (pd.DataFrame({"x": pd.interval_range(0, 1)}), f"{NO_SQL}interval", "convert it"),
    "nanoseconds of pandas": (pd.DataFrame({"x": [pd.Timedelta("1ns")]}), CUT, "round them"),
    "nanoseconds of polars": (pl.DataFrame({"x": pl.Series([1], dtype=pl.Duration("ns"))}), CUT, "round them"),
    "nanoseconds of Arrow": (pa.table({"x": pa.array([1], type=pa.duration("ns"))}), CUT, "round them"),
    "objects": (pl.DataFrame({"x": pl.Series([object()], dtype=pl.Object)}), "'x' is an opaque object", "convert it"),
    "complex numbers": (pd.DataFrame({"x": [1j]}), "'x' is an opaque complex", "convert it"),
    "one name twice": (pd.DataFrame([[1, 2]], columns=["x", "x"]), "two columns are called 'x'", "rename one"),
}


@pytest.mark.parametrize("name", REFUSED_COLUMNS)
def test_a_column_that_a_query_would_change_is_refused(name: str) -> None:
    frame, message, hint = REFUSED_COLUMNS[name]
    with pytest.raises(StepError) as caught:
        sql("select x from t", frames={"t": frame})
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == "tool.sql-frame"
    assert message in diagnostic.message
    assert (diagnostic.hint or "").startswith(hint)


def test_durations_of_whole_microseconds_stay_durations() -> None:
    frame = pd.DataFrame({"x": pd.to_timedelta([1_500, None], unit="us")})
    assert sql("select x from t", frames={"t": frame})["x"].tolist() == [pd.Timedelta("1500us"), pd.NaT]


@pytest.mark.parametrize(
    "query",
    [
        "select 1; select 2",
        "",
        "attach 'x.db'",
        "copy (select 1) to 'x.csv'",
        "install httpfs",
        "load httpfs",
        "pragma database_list",
        "set enable_external_access = true",
        "create table t as select 1",
        "export database 'x'",
        "select * from read_csv('secret.csv')",
        "select * from read_text('secret.csv')",
        "select * from glob('*')",
        "select * from sniff_csv('secret.csv')",
        "select * from read_parquet('https://example.org/x.parquet')",
        "from query('attach ''x.db''')",
        "select * from 'secret.csv'",
        "select * from frame",
    ],
)
def test_a_query_reaches_nothing_but_its_frames(query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"x": ["secret"]})
    frame.to_csv("secret.csv")
    with pytest.raises(StepError) as failure:
        sql(query)
    assert failure.value.code in ("tool.sql-refused", "tool.sql-query")
    assert "secret\n" not in str(failure.value)
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]


@pytest.mark.parametrize("frame", ["orders.csv", Path("orders.csv"), 1, [1], [], {"a": 1}])
def test_what_is_no_table_is_no_frame(frame: object) -> None:
    with pytest.raises(StepError) as failure:
        sql("select 1", frames={"orders": frame})
    assert failure.value.code == "tool.sql-frame"
    assert failure.value.diagnostic.message.startswith("the frame 'orders' cannot be used: ")


TOO_LARGE = ("select * from range(10000000000)", "select list(range) from range(1000000000)")


@pytest.mark.parametrize("query", slow_but(TOO_LARGE[:1], TOO_LARGE))
def test_a_query_and_its_result_have_a_limit_of_memory(
    query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StepError) as failure:
        sql(query)
    assert failure.value.code == "tool.sql-memory"
    assert not list(tmp_path.iterdir())  # DuckDB would go on in a file


def test_a_query_ends_with_its_time() -> None:
    start = time.monotonic()
    with pytest.raises(StepError) as failure:
        sql(ENDLESS, timeout=0.2)
    assert failure.value.code == "tool.sql-time"
    assert time.monotonic() - start < 10


def test_a_query_that_was_stopped_did_not_exceed_its_time() -> None:
    with pytest.raises(StepError) as failure:
        query_frames(ENDLESS, {}, 3600, lambda: True)
    assert failure.value.code == "tool.sql-stopped"
    assert "3600" not in str(failure.value)


def test_a_cancelled_run_ends_its_query() -> None:
    text = f"pipeline: main\nsteps:\n- tool: {{name: sql, args: {{query: '{ENDLESS}', timeout: 3600}}}}\n"

    async def cancelled() -> str:
        run = agf.start(text, stream=True)
        async for event in run.events():
            if type(event).__name__ == "StepStarted":
                break
        run.cancel()
        with pytest.raises(agf.RunCancelled):
            await run
        return run.status

    assert asyncio.run(asyncio.wait_for(cancelled(), 30)) == "cancelled"


def test_a_model_is_offered_it_only_where_it_is_listed() -> None:
    assert agf.registry.tools["sql"].listed_only


def nested(levels: int) -> str:
    """Each level doubles what the planner expands."""
    parts = [f"c{i} as not materialized (select a.x from c{i - 1} a, c{i - 1} b)" for i in range(1, levels + 1)]
    return f"with c0 as (select 1 x), {', '.join(parts)} select count(*) from c{levels}"


HOSTILE = {
    "a plan of 2^24 scans": nested(24),
    "unions": " union all ".join(["select 1"] * 20_000),
    "lateral joins": "select count(*) from range(2) t0(x)"
    + "".join(f", lateral (select t{i}.x + 1 as x) t{i + 1}" for i in range(300)),
    "joins": "select count(*) from " + ", ".join(f"range(3) t{i}(x)" for i in range(200)),
    "parentheses": f"select {'(' * 50_000}1{')' * 50_000}",
    "terms": "select " + " + ".join(["1"] * 300_000),
    "a recursion without an end": "with recursive r(x) as (select 1 union all select x + 1 from r) from r",
    "a long text": "select length(repeat(repeat(repeat('x', 10000), 10000), 10000))",
    "a long list": "select len(list(range)) from range(100000000000)",
    "an endless count": ENDLESS,
}
ENDING = ("terms", "joins", "lateral joins", "unions", "parentheses")
"""Those that a fast machine, or a better planner, may finish in time."""
FAST = ["a plan of 2^24 scans", "joins", "a long list"]


@pytest.mark.parametrize("name", slow_but(FAST, HOSTILE))
def test_a_hostile_query_is_ended_at_its_limits_and_the_next_one_runs(name: str) -> None:
    resource = pytest.importorskip("resource")
    sql("select 1")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with suppress(StepError):
        sql(HOSTILE[name], timeout=1)
        assert name in ENDING
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB: nothing of it is planned here
    assert sql("select 1 as one") == [{"one": 1}]


def test_a_process_that_a_query_needed_is_used_again_and_one_that_was_ended_is_not() -> None:
    sql("select 1")
    first = QUERIES.idle
    sql("select 2")
    assert QUERIES.idle is first
    with pytest.raises(StepError):
        sql(ENDLESS, timeout=0.2)
    assert QUERIES.idle is None
    assert first is not None
    assert first.poll() is not None


def test_a_column_of_values_of_different_kinds_is_text() -> None:
    assert sql("select x from t", frames={"t": pd.DataFrame({"x": [1, "a"]})})["x"].tolist() == ["1", "a"]


def test_an_empty_folder_that_an_uninstalled_package_left_is_not_where_the_process_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("select 1")  # what is imported late is here before the packages are away
    installed = str(Path(pa.__file__).parents[1])
    (tmp_path / "left" / "duckdb").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "left"), *(part for part in sys.path if part != installed)])
    monkeypatch.delitem(sys.modules, "duckdb", raising=False)
    QUERIES.close()  # the next query starts a process
    assert sql("select 1 as one") == [{"one": 1}]
