"""Values in the cells of a user's table that Python or JSON cannot hold, and rows without names."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import agf_magics as agf


def registry() -> agf.Registry:
    registry = agf.Registry()
    agf.define("{pipeline: same, steps: [{transform: {value: ctx.v}}]}", registry=registry)
    return registry


def table_of(rows: Any) -> Any:
    return agf.run("same", over=rows, registry=registry()).table


NOT_UTF8 = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], dtype=np.int32).tobytes()), pa.py_buffer(b"a\xff")]
)

TOO_LARGE: dict[str, Any] = {
    "a time": lambda: pa.table({"v": pa.array([1, 2**62], type=pa.timestamp("s"))}),
    "a date": lambda: pa.table({"v": pa.array([1, 2**30], type=pa.date32())}),
    "a duration": lambda: pa.table({"v": pa.array([1, 2**62], type=pa.duration("s"))}),
    "a text that is not UTF-8": lambda: pa.table({"v": NOT_UTF8}),
    "a duration of polars": lambda: pl.DataFrame({"v": pl.Series([1, 2**62]).cast(pl.Duration("ms"))}),
    "a time of polars": lambda: pl.DataFrame({"v": pl.Series([1, 2**62]).cast(pl.Datetime("ms"))}),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_cell_that_python_cannot_hold_fails_its_row_and_names_the_column(name: str) -> None:
    table = table_of(TOO_LARGE[name]())
    assert [row["status"] for row in table] == ["ok", "failed"]
    assert table[1]["error"] == "over.broken-row"
    assert table[1]["error_text"].startswith("row 1 cannot be used: Python cannot hold its 'v': ")


def test_a_parquet_file_with_a_date_that_python_cannot_hold_fails_its_row(tmp_path: Path) -> None:
    parquet.write_table(TOO_LARGE["a date"](), tmp_path / "rows.parquet")
    assert [row["status"] for row in table_of(tmp_path / "rows.parquet")] == ["ok", "failed"]


CELLS: dict[str, tuple[Any, Any]] = {
    "a time of numpy": (np.datetime64("2024-03-01T10:00", "ns"), "2024-03-01T10:00:00.000000000"),
    "a year that Python does not have": (np.datetime64("12000-01-01"), "12000-01-01"),
    "a duration of numpy": (np.timedelta64(90, "m"), 5400.0),
    "months": (np.timedelta64(3, "M"), "P3M"),
    "NaT of numpy": (np.datetime64("NaT"), None),
    "NaT of pandas": (pd.NaT, None),
    "NA": (pd.NA, None),
    "a number of numpy that is none": (np.float32("inf"), None),
}


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_becomes_json_by_one_rule(name: str) -> None:
    value, cell = CELLS[name]
    row = table_of([{"v": value}])[0]
    assert [row["v"], row["output"]] == [cell, cell]


def test_a_number_of_a_csv_file_that_is_larger_than_a_float_is_null(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("v\n1e400\n2\n")
    assert [row["output"] for row in table_of(tmp_path / "rows.csv")] == [None, 2.0]


@pytest.mark.parametrize(
    ("texts", "cells"),
    [
        (["9007199254740993", "1.5"], ["9007199254740993", "1.5"]),
        (["9007199254740993", "1"], [9007199254740993, 1]),
        (["12345678901234567.25", "1.5"], ["12345678901234567.25", "1.5"]),
        (["900719925474099", "1.5"], [900719925474099.0, 1.5]),
        (["-9007199254740993", "1e3"], ["-9007199254740993", "1e3"]),
    ],
)
def test_a_column_of_a_csv_file_is_numbers_only_if_they_stay_the_same(
    tmp_path: Path, texts: list[str], cells: list[Any]
) -> None:
    (tmp_path / "rows.csv").write_text("\n".join(["v", *texts]) + "\n")
    assert [row["output"] for row in table_of(tmp_path / "rows.csv")] == cells


Point = namedtuple("Point", "v")


@dataclasses.dataclass
class Weight:
    v: int


NO_ROWS: dict[str, tuple[Any, str, str]] = {
    "texts": (["a", "b"], "row 0 of the table is text, not a mapping of names to values", "write a mapping"),
    "lists": ([[1], [2]], "row 0 of the table is a list, not a mapping of names to values", "write a mapping"),
    "named tuples": ([Point(1)], "row 0 of the table is an opaque Point", "_asdict()"),
    "dataclasses": ([Weight(1)], "row 0 of the table is an opaque Weight", "dataclasses.asdict(row)"),
}
"""For each case: what is given as a table, the message, and the hint."""


@pytest.mark.parametrize("name", NO_ROWS)
def test_a_list_without_mappings_is_named_as_such(name: str) -> None:
    rows, message, hint = NO_ROWS[name]
    with pytest.raises(agf.DefinitionError) as error:
        table_of(rows)
    assert error.value.code == "over.no-table"
    assert error.value.diagnostic.message.startswith(message)
    assert hint in str(error.value.diagnostic.hint)


def test_a_file_of_json_lines_without_objects_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("[1]\n[2]\n")
    with pytest.raises(agf.DefinitionError, match="has no rows: line 1 cannot be used: it is a list, not an object"):
        table_of(tmp_path / "rows.jsonl")
