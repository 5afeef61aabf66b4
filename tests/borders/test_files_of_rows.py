"""Files of rows as programs and people write them: long cells, separators, line ends, keys that occur twice.

Classes that inherit from a DataFrame are tables, too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from tests.engine import kept


@pytest.fixture(autouse=True)
def _flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with kept.journal_in(tmp_path):
        agf.define("pipeline: same\nsteps:\n- transform: {value: ctx.x}\n")
        yield
    agf.registry.flows.remove("same")


# The module csv refuses cells of more than 131,072 characters if nobody raises its limit.
@pytest.mark.parametrize("length", [131_071, 131_072, 131_073, 400_000])
@pytest.mark.parametrize("quoted", [False, True])
def test_a_cell_of_a_csv_file_may_be_long(length: int, quoted: bool) -> None:
    letters = random.Random(length).choices('ab\n"' if quoted else "ab", k=length)
    text = "".join(letters)
    cell = f'"{text.replace(chr(34), chr(34) * 2)}"' if quoted else text
    Path("t.csv").write_text(f"x,y\n{cell},1\nlast,2\n", newline="")
    table = agf.run("same", over="t.csv").table
    assert [row["output"] for row in table] == [text, "last"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"x": 1, "x": 2}', "it has 'x' twice"),
        ('{"x": 1, "y": {"a": 1, "a": 2}}', "it has 'a' twice"),
        ('{"x": [{"é": 1, "\\u00e9": 2}]}', "it has 'é' twice"),
    ],
)
def test_a_key_that_occurs_twice_is_a_broken_row(line: str, why: str) -> None:
    Path("t.jsonl").write_text(f'{{"x": 0}}\n{line}\n{{"x": {{"a": 1}}, "y": {{"a": 1}}}}\n')
    run = agf.run("same", over="t.jsonl", raises=False)
    assert [row["status"] for row in run.table] == ["ok", "failed", "ok"]
    assert why in run.table[1]["error_text"]


@pytest.mark.parametrize(("separator", "name"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_another_separator_is_named_where_a_column_is_missing(separator: str, name: str) -> None:
    Path("t.csv").write_text(f"x{separator}y\n1{separator}2\n")
    with pytest.raises(agf.DefinitionError) as caught:
        agf.run("same", over="t.csv")
    assert caught.value.code == "over.column"
    assert f"{name} separate its names" in (caught.value.diagnostic.hint or "")


def test_a_separator_in_the_name_of_a_column_is_correct() -> None:
    Path("t.csv").write_text("a;b\n1\n")
    assert agf.run("same", over=agf.Over(table="t.csv", map={"x": "a;b"})).table[0]["output"] == 1


def test_a_carriage_return_alone_is_reported_in_the_authors_words() -> None:
    Path("t.csv").write_bytes(b"x,y\r1,2\r")
    with pytest.raises(agf.DefinitionError, match="save the file with LF or CR LF"):
        agf.run("same", over="t.csv")


def frames() -> list[Any]:
    import pandas
    import polars

    class Ours(pandas.DataFrame):
        @property
        def _constructor(self) -> Any:
            return Ours

    class Theirs(polars.DataFrame):
        pass

    return [Ours({"x": [1, 2]}), Theirs({"x": [1, 2]})]


@pytest.mark.parametrize("which", [0, 1], ids=["pandas", "polars"])
def test_a_class_that_is_a_data_frame_is_a_table(which: int) -> None:
    table = agf.run("same", over=frames()[which]).table
    assert [row["output"] for row in table] == [1, 2]
    assert list(table.to_pandas()["output"]) == [1, 2]
