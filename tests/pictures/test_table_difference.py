"""The difference of two tables: sizes, columns, rows and cells."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from agf_magics.journal.codec.encoding import preview
from agf_magics.pictures.difference import MISSING, find_differences
from agf_magics.pictures.table_difference import MOST_ROWS, table_difference


def rows(*names: str) -> list[dict[str, Any]]:
    return [{"city": name, "n": len(name)} for name in names]


def frame(count: int, **more: object) -> Any:
    return preview(pd.DataFrame({"city": [f"city {n}" for n in range(count)], "n": range(count), **more}))


CASES: dict[str, tuple[Any, Any, str, list[str]]] = {
    "a cell": (
        *(rows("a", "b"), [*rows("a"), {"city": "b", "n": 5}]),
        "2 rows · 1 of the 2 rows differs",
        ["[1].n"],
    ),
    "a row is inserted": (
        *(rows("a", "b"), rows("new", "a", "b")),
        "2 rows → 3 rows · 1 row only in the second",
        ["[0]"],
    ),
    "a row is removed and another one differs": (
        *(rows("a", "b", "c", "d"), [*rows("b"), {"city": "c", "n": 7}, *rows("d")]),
        "4 rows → 3 rows · 1 of the 4 rows differs · 1 row only in the first",
        ["[0]", "[2].n"],
    ),
    "no column names the rows": (
        *([{"n": 1}, {"n": 1}, {"n": 2}], [{"n": 1}, {"n": 1}, {"n": 3}]),
        "3 rows · 1 of the 3 rows differs",
        ["[2].n"],
    ),
    "a column": (
        *(rows("a", "b"), [{"city": row["city"], "m": 0} for row in rows("a", "b")]),
        "2 rows · column n only in the first · column m only in the second",
        ["[*].n", "[*].m"],
    ),
    "a type": (
        *(rows("a", "b"), [{**row, "n": float(row["n"])} for row in rows("a", "b")]),
        "2 rows · 2 of the 2 rows differ",
        ["[0].n", "[1].n"],
    ),
    "a frame is longer": (frame(30), frame(55), "30 × 2 → 55 × 2 · the first 20 rows are the same", [""]),
    "the first row of a long frame is removed": (
        *(frame(30), preview(pd.DataFrame({"city": [f"city {n}" for n in range(1, 30)], "n": range(1, 30)}))),
        "30 × 2 → 29 × 2 · 1 row only in the first",  # the last one that the second preview has is in both
        ["", "[0]"],
    ),
    "a column of a frame": (
        *(frame(3, kg=[1.0, 2.0, 3.0]), frame(3)),
        "3 × 3 → 3 × 2 · column kg only in the first",
        ["", "[*].kg"],
    ),
    "nothing": (rows("a", "b"), rows("a", "b"), "", []),
    "not a number": (frame(2, x=[float("nan")] * 2), frame(2, x=[float("nan")] * 2), "", []),
}


@pytest.mark.parametrize(("first", "other", "words", "paths"), CASES.values(), ids=CASES)
def test_what_differs_between_two_tables(first: Any, other: Any, words: str, paths: list[str]) -> None:
    found = table_difference(first, other)
    assert (found.words() if found is not None else "") == words
    assert [path for path, *_ in find_differences(first, other)] == paths


@pytest.mark.parametrize("other", [[1, 2], [], {"a": 1}, [{"a": [1]}, {"a": [2]}], [{"a": 1}] * (MOST_ROWS + 1)])
def test_what_is_no_table_is_compared_part_by_part(other: Any) -> None:
    assert table_difference(rows("a", "b"), other) is None
    assert list(find_differences(rows("a", "b"), other))


def test_a_column_that_one_table_has_is_one_part_with_its_cells() -> None:
    parts = list(find_differences({"t": frame(2, kg=[3, 4])}, {"t": frame(2)}))
    assert parts == [(".t", "⟨DataFrame 2 × 3⟩", "⟨DataFrame 2 × 2⟩"), (".t[*].kg", [3, 4], MISSING)]
