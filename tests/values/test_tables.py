"""Tests of the objects that count as tables."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from pyarrow import parquet

import agf_magics as agf
from agf_magics.values.tables.tables import Picked, open_rows

ROWS = [{"n": 1, "m": "a"}, {"n": 2, "m": "b"}]

TABLES: dict[str, Any] = {
    "a list": ROWS,
    "a tuple": tuple(ROWS),
    "pandas": pd.DataFrame(ROWS),
    "pandas, from the second row on": pd.DataFrame([{"n": 0, "m": "-"}, *ROWS])[1:].reset_index(drop=True),
    "polars": polars.DataFrame(ROWS),
    "polars, lazy": polars.LazyFrame(ROWS),
    "Arrow": pa.Table.from_pylist(ROWS),
    "a class that is a frame": type("Frame", (pd.DataFrame,), {})(ROWS),
    "rows": open_rows(ROWS),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_table_has_rows_and_columns(case: str) -> None:
    rows = open_rows(TABLES[case])
    assert (list(rows), rows.columns) == (ROWS, ("n", "m"))
    assert open_rows(rows) is rows


@pytest.mark.parametrize(
    ("index", "columns"),
    [
        (None, ("n", "m")),
        (pd.RangeIndex(1, 3), ("index", "n", "m")),
        (pd.RangeIndex(0, 4, 2), ("index", "n", "m")),
        (pd.RangeIndex(2, name="id"), ("id", "n", "m")),
        (pd.Index(["x", "y"]), ("index", "n", "m")),
        (pd.MultiIndex.from_tuples([("x", 1), ("y", 2)], names=["a", "b"]), ("a", "b", "n", "m")),
    ],
    ids=str,
)
def test_an_index_that_numbers_the_rows_is_no_column(index: Any, columns: tuple[str, ...]) -> None:
    assert open_rows(pd.DataFrame(ROWS, index=index)).columns == columns


Pair = namedtuple("Pair", "n m")


@dataclasses.dataclass
class Kept:
    n: int


class Alike:
    """A class with the attributes of tables whose objects are not tables."""

    columns = column_names = ("n",)
    iloc = to_dicts = to_pylist = collect = None


NO_TABLE: dict[str, tuple[Any, str, str, str]] = {
    "a number": (7, "over.no-table", "expected a table, got a number", "a DataFrame, an Arrow table"),
    "an array": (np.eye(2), "over.no-table", "expected a table, got an opaque ndarray", "a list of mappings"),
    "a column of pandas": (pd.Series([1]), "over.no-table", "expected a table, got an opaque Series", "a DataFrame"),
    "a column of polars": (
        polars.Series([1]),
        "over.no-table",
        "expected a table, got an opaque Series",
        "a DataFrame",
    ),
    "a column of Arrow": (pa.array([1]), "over.no-table", "expected a table, got an opaque Int64Array", "a DataFrame"),
    "what only looks like a table": (Alike(), "over.no-table", "expected a table, got an opaque Alike", "a DataFrame"),
    "a mapping": ({"n": [1]}, "over.no-table", "expected a table, got an object", "a DataFrame"),
    "a list of numbers": ([1], "over.no-table", "row 0 of the table is a number", "write a mapping for each row"),
    "a list of tuples with names": (
        [Pair(1, 2)],
        "over.no-table",
        "row 0 of the table is",
        "[row._asdict() for row in rows]",
    ),
    "a list of dataclasses": (
        [Kept(1)],
        "over.no-table",
        "row 0 of the table is",
        "[dataclasses.asdict(row) for row in rows]",
    ),
    "another file": ("rows.TXT", "over.file", "'rows.TXT' is not a file of rows", ".csv, .jsonl, .ndjson, .parquet"),
    "two columns of a name": (
        pd.DataFrame([[1, 2]], columns=["n", "n"]),
        "over.columns",
        "two columns are called 'n'",
        "rename",
    ),
    "two of the same text": (
        pd.DataFrame([[1, 2]], columns=[1, "1"]),
        "over.columns",
        "two columns are called '1'",
        "rename",
    ),
    "two of Arrow": (pa.table([[1], [2]], names=["n", "n"]), "over.columns", "two columns are called 'n'", "rename"),
}
"""For each case: what is given as a table, the code of the error, and texts in its message and in its hint."""


@pytest.mark.parametrize("case", NO_TABLE)
def test_what_is_no_table_is_refused(case: str) -> None:
    table, code, message, hint = NO_TABLE[case]
    with pytest.raises(agf.DefinitionError) as refused:
        open_rows(table)
    problem = refused.value.diagnostic
    assert (problem.code, message in problem.message, hint in (problem.hint or "")) == (code, True, True), problem


@pytest.mark.parametrize(
    ("suffix", "content"),
    [(".CSV", "n\n1\n"), (".ndjson", '{"n": 1}'), (".jsonl", '{"n": 1}'), (".yml", "cases: [{inputs: {n: 1}}]")],
)
@pytest.mark.parametrize("kind", [str, Path])
def test_the_end_of_its_name_says_what_a_file_is(suffix: str, content: str, kind: Any, tmp_path: Path) -> None:
    path = tmp_path / f"rows{suffix}"
    path.write_text(content, "utf-8")
    assert list(open_rows(kind(path))) == [{"n": 1}]


def test_two_columns_of_a_file_have_different_names(tmp_path: Path) -> None:
    parquet.write_table(pa.table([[1], ["a"]], names=["n", "n"]), tmp_path / "rows.parquet")
    (tmp_path / "rows.csv").write_text("n,n\n1,a\n", "utf-8")
    for name in ("rows.parquet", "rows.csv"):
        with pytest.raises(agf.DefinitionError, match="two columns are called 'n'") as refused:
            open_rows(tmp_path / name)
        assert refused.value.code == "over.columns"


@pytest.mark.parametrize("text", ["n,m\n1,a\n2,b\n", "\n\nn,m\n1,a\n2,b\n", "\ufeff\r\nn,m\r\n\r\n1,a\r\n2,b\r\n\r\n"])
def test_blank_lines_of_a_csv_file_do_not_count(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(text.encode())
    rows = open_rows(path)
    assert (list(rows), rows.columns) == (ROWS, ("n", "m"))


def test_no_row_is_a_table_too() -> None:
    assert (len(open_rows([])), open_rows([]).columns) == (0, ())


def test_one_mapping_makes_a_list_a_table() -> None:
    assert open_rows([1, {"n": 1}])[1] == {"n": 1}


def test_some_rows_of_a_table_each_several_times() -> None:
    picked = Picked(open_rows(ROWS), [1, 0], repeat=2)
    assert (len(picked), [row["n"] for row in picked]) == (4, [2, 2, 1, 1])
