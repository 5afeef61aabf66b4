"""Tests of the rows of tables, in whatever order their pages are read."""

from __future__ import annotations

import json
import os
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import agf_magics as agf
from agf_magics.text.length import DEEPEST
from agf_magics.values.tables.files import Cases, CsvFile, FileRows, JsonLines, Parquet
from agf_magics.values.tables.rows import PAGE, ListRows, ValueRows

ROWS = [{"n": number, "text": f"{'é' * (number % 3)}\n" * (number % 2)} for number in range(4 * PAGE + 10)]
"""More pages than a table holds: texts of different lengths, some of several lines."""


def csv_file(path: Path, rows: list[dict[str, Any]]) -> FileRows:
    lines = [f'{row["n"]},"{row["text"]}"\n' + "\n" * (row["n"] % 5 == 0) for row in rows]
    path.write_bytes(('\ufeff"n", text\n' + "".join(lines)).encode())
    return CsvFile(path)


def json_lines(path: Path, rows: list[dict[str, Any]]) -> FileRows:
    lines = [json.dumps(row, ensure_ascii=False) + "\n" * (1 + (row["n"] % 5 == 0)) for row in rows]
    path.write_bytes("".join(lines).encode())
    return JsonLines(path)


def parquet_file(path: Path, rows: list[dict[str, Any]], group: int = 700) -> FileRows:
    parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=group)
    return Parquet(path)


def whole_groups(path: Path, rows: list[dict[str, Any]]) -> FileRows:
    return parquet_file(path, rows, PAGE)


def one_group(path: Path, rows: list[dict[str, Any]]) -> FileRows:
    return parquet_file(path, rows, len(rows))


def in_memory(_: Path, rows: list[dict[str, Any]]) -> ListRows:
    return ListRows(rows)


def values_of_a_flow(_: Path, rows: list[dict[str, Any]]) -> ListRows:
    return ValueRows(rows)


KINDS = (csv_file, json_lines, parquet_file, whole_groups, one_group, in_memory, values_of_a_flow)
ORDERS = ([0, 1, 2, 3], [3, 2, 1, 0], [2, 3, 0], [0, 0, 2, 1, 1, 3], [1, 3, 2])


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_has_its_rows_whichever_was_read_before(kind: Any, order: list[int], tmp_path: Path) -> None:
    rows = kind(tmp_path / "rows", ROWS)
    assert (len(rows), rows.columns) == (len(ROWS), ("n", "text"))
    expected = [{**row, "text": row["text"] or (None if kind is csv_file else "")} for row in ROWS]
    for page in order:
        assert rows.read(page) == expected[page * PAGE : (page + 1) * PAGE]


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_has_its_number_after_any_other(kind: Any, tmp_path: Path) -> None:
    rows = kind(tmp_path / "rows", ROWS)
    chosen = random.Random(1).sample(range(len(ROWS)), 12)
    assert [rows[number]["n"] for number in chosen] == chosen


@pytest.mark.parametrize("kind", KINDS[:3])
def test_a_row_that_cannot_be_read_has_the_number_of_its_line(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    kind(path, ROWS)
    if kind is parquet_file:
        times = pa.array([10**15, 10**15, 0], pa.timestamp("ms"))
        parquet.write_table(pa.table({"n": [1, 2, 3], "when": times}), path)
        expected = {number: f"row {number} cannot be used: Python cannot hold its 'when'" for number in (0, 1)}
    else:
        last = len(path.read_bytes().splitlines()) + 1
        with path.open("ab") as file:
            file.write(b"\n1,2,3\n" if kind is csv_file else b"\n[1]\n")
        why = "it has 3 cells, and there are 2 columns" if kind is csv_file else "it is a list, not an object"
        expected = {len(ROWS): f"line {last + 1:,} cannot be used: {why}"}
    rows = type(kind(tmp_path / "other", ROWS))(path)
    for number, message in expected.items():
        with pytest.raises(agf.StepError) as broken:
            rows[number]
        assert broken.value.diagnostic.message.startswith(message)
    assert rows[2]["n"] in (2, 3)


@pytest.mark.parametrize("group", [1, 3, 10])
def test_the_rows_beside_those_that_cannot_be_read_keep_their_numbers(group: int, tmp_path: Path) -> None:
    broken = {1, 4, 5, 9}
    times = pa.array([10**15 if number in broken else 0 for number in range(10)], pa.timestamp("ms"))
    parquet.write_table(pa.table({"n": range(10), "when": times}), tmp_path / "rows", row_group_size=group)
    read = Parquet(tmp_path / "rows").read(0)
    assert [number if isinstance(row, agf.StepError) else row["n"] for number, row in enumerate(read)] == list(
        range(10)
    )
    assert {number for number, row in enumerate(read) if isinstance(row, agf.StepError)} == broken


@pytest.mark.parametrize("kind", KINDS[:3])
def test_a_file_travels_as_its_path_and_is_refused_after_a_change(kind: Any, tmp_path: Path) -> None:
    rows = kind(tmp_path / "rows", ROWS[:3])
    sent = pickle.dumps(rows)
    assert pickle.loads(sent)[2]["n"] == 2
    kind(tmp_path / "rows", ROWS[:2])
    with pytest.raises(agf.DefinitionError, match="has changed since the start of the run") as refused:
        pickle.loads(sent)
    assert refused.value.code == "over.changed-file"


CHANGES: dict[str, tuple[Callable[[Any, Path], object], str]] = {
    "the same number of rows": (lambda kind, path: kind(path, [{"n": 1, "text": "later"}] * len(ROWS)), "changed-file"),
    "fewer rows": (lambda kind, path: kind(path, ROWS[:5]), "changed-file"),
    "another column first": (lambda kind, path: path.write_text("text,n\nlong,1\n" * len(ROWS)), "changed-file"),
    "an empty file": (lambda kind, path: path.write_bytes(b""), "changed-file"),
    "the time alone": (lambda kind, path: os.utime(path, ns=(0, 0)), "changed-file"),
    "no file": (lambda kind, path: path.unlink(), "file"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS[:3])
def test_a_page_of_a_file_that_was_saved_again_is_refused(kind: Any, change: str, tmp_path: Path) -> None:
    """Otherwise a run would go on with rows of another place, or of another table."""
    rows = kind(tmp_path / "rows", ROWS)
    first = rows[0]
    save_again, code = CHANGES[change]
    save_again(kind, tmp_path / "rows")
    with pytest.raises(agf.StepError) as refused:
        rows[2 * PAGE]
    assert refused.value.code == f"over.{code}"
    assert rows[0] == first  # a page that was read before


@pytest.mark.parametrize("kind", KINDS[:3])
def test_a_page_during_whose_reading_the_file_is_saved_is_refused(kind: Any, tmp_path: Path) -> None:
    rows = kind(tmp_path / "rows", ROWS)
    read = rows.read_unchecked

    def read_and_save(page: int) -> Any:
        cells = read(page)
        kind(tmp_path / "rows", ROWS[1:])
        return cells

    rows.read_unchecked = read_and_save
    with pytest.raises(agf.StepError, match="has changed since the start of the run"):
        rows[0]


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("kind", [json_lines, in_memory])
def test_a_row_that_nests_too_deep_is_broken_alone(kind: Any, tmp_path: Path) -> None:
    rows = kind(tmp_path / "rows", [{"n": 1, "a": 1}, {"n": 2, "a": deep(DEEPEST + 50)}, {"n": 3, "a": 3}])
    with pytest.raises(agf.StepError) as broken:
        rows[1]
    unit = "line" if kind is json_lines else "row"
    number = 2 if kind is json_lines else 1
    assert broken.value.diagnostic.code == "over.broken-row"
    assert broken.value.diagnostic.message.startswith(f"{unit} {number} cannot be used: 'a' is too large: it nests")
    assert [rows[number]["n"] for number in (0, 2)] == [1, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_a_negative_number_counts_from_the_end(kind: Any, tmp_path: Path) -> None:
    rows = kind(tmp_path / "rows", ROWS)
    assert [rows[number]["n"] for number in (-1, -len(ROWS))] == [len(ROWS) - 1, 0]
    with pytest.raises(IndexError):
        rows[-len(ROWS) - 1]


CELLS: dict[str, tuple[list[str], list[Any]]] = {
    "whole numbers": (["1", "-20", ""], [1, -20, None]),
    "numbers": (["1", "-0.5", "1e3"], [1.0, -0.5, 1000.0]),
    "a number larger than a float can be": (["1", "1e400"], [1.0, None]),
    "booleans": (["true", "False", "TRUE"], [True, False, True]),
    "codes": (["1", "007"], ["1", "007"]),
    "numbers and texts": (["1", "a"], ["1", "a"]),
    "booleans and numbers": (["true", "1"], ["true", "1"]),
    "the whole numbers that have their digits": (["9" * 18], [10**18 - 1]),
    "longer ones": (["9" * 19], ["9" * 19]),
    "ids beside floats": (["9" * 16, "0.5"], ["9" * 16, "0.5"]),
    "nothing": (["", ""], [None, None]),
}


@pytest.mark.parametrize("case", CELLS)
def test_the_cells_of_a_column_of_a_csv_file(case: str, tmp_path: Path) -> None:
    texts, cells = CELLS[case]
    path = tmp_path / "rows.csv"
    path.write_text("id,x\n" + "".join(f"a,{text}\n" for text in texts), "utf-8")
    read = [row["x"] for row in CsvFile(path)]
    assert list(map(repr, read)) == list(map(repr, cells))


def test_text_after_a_quoted_cell_belongs_to_it(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('a,b\n"x"y,1\n', "utf-8")
    assert list(CsvFile(tmp_path / "rows.csv")) == [{"a": "xy", "b": 1}]


def test_a_row_of_a_csv_file_may_be_shorter_than_the_names(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b,c\n1\n2,x\n", "utf-8")
    assert list(CsvFile(tmp_path / "rows.csv")) == [{"a": 1, "b": None, "c": None}, {"a": 2, "b": "x", "c": None}]


NO_TABLE: dict[str, tuple[type[Any], str, str, str]] = {
    "a column without a name": (CsvFile, "a,,c\n1,2,3\n", "over.columns", "a column has no name"),
    "two columns of a name": (CsvFile, "a,a\n1,2\n", "over.columns", "two columns are called 'a'"),
    "lines that are no rows": (JsonLines, "pear\nfig\n", "over.file", "has no rows: line 1 cannot be used"),
    "another file": (Parquet, "a,b\n", "over.file", "is not a Parquet file"),
    "a file without cases": (Cases, "rows: []\n", "over.file", "is not a data set: it has no list 'cases'"),
    "cases that are no list": (Cases, "cases: {a: 1}\n", "over.file", "is not a data set"),
    "an empty file": (Cases, "", "over.file", "is not a data set"),
}
"""For each case: the reader, the content of a file, the code of the error, and its message."""


@pytest.mark.parametrize("case", NO_TABLE)
def test_what_is_no_table_is_refused(case: str, tmp_path: Path) -> None:
    kind, content, code, message = NO_TABLE[case]
    (tmp_path / "rows").write_text(content, "utf-8")
    with pytest.raises(agf.DefinitionError, match=message) as refused:
        kind(tmp_path / "rows")
    assert refused.value.code == code


@pytest.mark.parametrize("kind", [CsvFile, JsonLines, Parquet, Cases])
def test_a_file_that_is_not_there_is_refused(kind: Any, tmp_path: Path) -> None:
    with pytest.raises(agf.DefinitionError, match="cannot be read: ") as refused:
        kind(tmp_path / "rows")
    assert refused.value.code == "over.file"


def test_one_row_makes_a_file_of_lines_a_table(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text('pear\n{"name": "fig"}\n{"kg": 2}\n', "utf-8")
    rows = JsonLines(tmp_path / "rows")
    assert (len(rows), rows.columns, rows[2]) == (3, ("name", "kg"), {"kg": 2})


def test_the_cases_of_a_data_set_are_rows(tmp_path: Path) -> None:
    (tmp_path / "cases.yaml").write_text(
        "cases:\n"
        "- {name: one, inputs: {a: 1}, expected_output: 2, metadata: {by: me}, evaluators: [Equals]}\n"
        "- {inputs: text, metadata: null}\n"
        "- seven\n",
        "utf-8",
    )
    rows = Cases(tmp_path / "cases.yaml")
    assert rows.columns == ("name", "expected_output", "metadata", "a", "input")
    assert rows[0] == {"name": "one", "expected_output": 2, "metadata": {"by": "me"}, "a": 1}
    assert rows[1] == {"input": "text"}
    with pytest.raises(agf.StepError, match="row 2 cannot be used: it is text, not a mapping of names"):
        rows[2]
