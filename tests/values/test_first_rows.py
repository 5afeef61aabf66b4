"""Tests of the first rows of data frames, which stand for them in previews."""

from __future__ import annotations

import datetime
import decimal
import tracemalloc
from typing import Any

import numpy
import pandas
import polars
import pyarrow
import pytest

from agf_magics.text.length import ATOMS
from agf_magics.values.tables.first_rows import LONGEST_SHOWN, FrameSize, first_rows, frame_size, is_frame

MOST = 200


def named(value: Any) -> Any:
    return value if type(value) in ATOMS else f"<{type(value).__name__}>"


def table(**columns: Any) -> pandas.DataFrame:
    return pandas.DataFrame(columns)


FRUIT = {"fruit": ["pear", "fig"], "kg": [3, 0.5]}
ROWS = [{"fruit": "pear", "kg": 3.0}, {"fruit": "fig", "kg": 0.5}]

FRAMES: dict[str, tuple[Any, Any]] = {
    "pandas": (pandas.DataFrame(FRUIT), [*ROWS, "⟨DataFrame 2 × 2⟩"]),
    "polars": (polars.DataFrame(FRUIT, strict=False), [*ROWS, "⟨DataFrame 2 × 2⟩"]),
    "pyarrow": (pyarrow.table(FRUIT), [*ROWS, "⟨Table 2 × 2⟩"]),
    "one row": (table(a=[1]), [{"a": 1}, "⟨DataFrame 1 × 1⟩"]),
    "no row": (table(a=[], b=[]), "⟨DataFrame 0 × 2: a, b⟩"),
    "no row of many columns": (
        pandas.DataFrame(columns=range(14)),
        "⟨DataFrame 0 × 14: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …⟩",
    ),
    "no column": (pandas.DataFrame(index=range(3)), "⟨DataFrame 3 × 0⟩"),
    "an index of numbers": (
        table(a=[1, 2, 3])[1:],
        [{"index": 1, "a": 2}, {"index": 2, "a": 3}, "⟨DataFrame 2 × 1⟩"],
    ),
    "a named index": (
        table(a=[1], b=["x"]).set_index("b"),
        [{"b": "x", "a": 1}, "⟨DataFrame 1 × 1⟩"],
    ),
    "two levels of names": (
        pandas.DataFrame([[1, 2]], columns=pandas.MultiIndex.from_tuples([("kg", "sum"), ("n", "")])),
        [{"kg.sum": 1, "n": 2}, "⟨DataFrame 1 × 2⟩"],
    ),
    "two columns of one name": (
        pandas.DataFrame([[1, 2]], columns=["a", "a"]),
        [{"a": 1, "a (2)": 2}, "⟨DataFrame 1 × 2⟩"],
    ),
    "missing values": (
        table(a=[1.5, None], b=["x", None], c=pandas.to_datetime(["2026-01-02", None])),
        [
            {"a": 1.5, "b": "x", "c": "2026-01-02T00:00:00"},
            {"a": None, "b": None, "c": None},
            "⟨DataFrame 2 × 3⟩",
        ],
    ),
    "numbers of pandas": (
        table(a=pandas.array([1, None], dtype="Int64")),
        [{"a": 1}, {"a": None}, "⟨DataFrame 2 × 1⟩"],
    ),
    "an interval": (table(a=[pandas.Interval(0, 1)]), [{"a": "(0, 1]"}, "⟨DataFrame 1 × 1⟩"]),
    "objects": (table(a=[object()], b=[[1]]), [{"a": "<object>", "b": "<list>"}, "⟨DataFrame 1 × 2⟩"]),
    "a list": (polars.DataFrame({"a": [[1, 2]]}), [{"a": "<list>"}, "⟨DataFrame 1 × 1⟩"]),
    "a date": (pyarrow.table({"a": [datetime.date(2026, 1, 2)]}), [{"a": "2026-01-02"}, "⟨Table 1 × 1⟩"]),
    "a decimal": (pyarrow.table({"a": [decimal.Decimal("1.5")]}), [{"a": "<Decimal>"}, "⟨Table 1 × 1⟩"]),
    "a long text": (table(a=["x" * 999]), [{"a": "x" * LONGEST_SHOWN + "…"}, "⟨DataFrame 1 × 1⟩"]),
    "a series": (pandas.Series([1, 2], name="kg"), [{"kg": 1}, {"kg": 2}, "⟨Series 2⟩"]),
    "a series with an index": (
        table(a=["x", "y", "x"])["a"].value_counts(),
        [{"a": "x", "count": 2}, {"a": "y", "count": 1}, "⟨Series 2⟩"],
    ),
    "a series without a name": (polars.Series([1]), [{"value": 1}, "⟨Series 1⟩"]),
}
"""A frame, and what is shown of it."""


@pytest.mark.parametrize("case", FRAMES)
def test_the_first_rows_stand_for_a_frame(case: str) -> None:
    frame, shown = FRAMES[case]
    assert first_rows(frame, MOST, named) == shown
    assert (frame_size(shown) is not None) == (type(shown) is list)


LARGE = {f"c{number:02}": range(1000) for number in range(30)}


@pytest.mark.parametrize("frame", [pandas.DataFrame(LARGE), polars.DataFrame(LARGE), pyarrow.table(LARGE)], ids=type)
@pytest.mark.parametrize(
    ("cells", "rows", "columns"), [(MOST, 16, 12), (1000, 20, 12), (24, 2, 12), (5, 1, 5), (1, 1, 1), (0, 1, 1)]
)
def test_the_rows_and_columns_are_bounded_and_the_mark_says_what_is_left_out(
    frame: Any, cells: int, rows: int, columns: int
) -> None:
    *shown, mark = first_rows(frame, cells, named)
    assert (len(shown), list(shown[0])) == (rows, list(LARGE)[:columns])
    name = type(frame).__name__
    assert mark == f"⟨{name} 1,000 × 30 · {1000 - rows:,} more rows, {30 - columns} more columns⟩"
    assert frame_size([*shown, mark]) == FrameSize(name, 1000, 30, 1000 - rows, 30 - columns)


def test_the_index_is_one_of_the_columns_that_are_shown() -> None:
    frame = pandas.DataFrame(LARGE).set_index(["c00", "c01"])
    *shown, mark = first_rows(frame, MOST, named)
    assert list(shown[0]) == list(LARGE)[:12]
    assert mark.endswith("more rows, 18 more columns⟩")


def test_a_frame_stays_as_it_is_and_is_not_copied() -> None:
    frame = pandas.DataFrame({"a": numpy.arange(1_000_000)}, index=numpy.arange(1_000_000) * 2)
    first_rows(frame, MOST, named)  # the first time, pandas fills caches
    before = frame.iloc[:3].copy()
    tracemalloc.start()
    first_rows(frame, MOST, named)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000
    pandas.testing.assert_frame_equal(frame.iloc[:3], before)


class Sub(pandas.DataFrame):
    pass


class Unwritable:
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    "value",
    [
        Sub({"a": [1]}),
        type("DataFrame", (), {"shape": (1, 1)})(),
        polars.DataFrame({"a": [1]}).lazy(),
        pandas.DataFrame([[1]], columns=[Unwritable()]),
        polars.DataFrame({"a": [[0.5] * 20_000] * 20}),
        [{"a": 1}],
        None,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_frame_or_cannot_be_shown_has_no_rows(value: Any) -> None:
    assert first_rows(value, MOST, named) is None


def test_a_frame_is_of_the_class_of_the_library() -> None:
    assert is_frame(pandas.DataFrame())
    assert not is_frame(Sub())


@pytest.mark.parametrize(
    "value",
    [
        ["⟨DataFrame 0 × 1⟩"],
        [{"a": 1}, "⟨DataFrame 2 × 1⟩"],
        [{"a": 1}, {"a": 2}, "⟨DataFrame 2 × 2⟩"],
        [{"a": 1}, "⟨DataFrame 1 × 1 · 1 more row⟩"],
        [{"a": 1}, "⟨DataFrame 01 × 1⟩"],
        [{"a": 1}, "⟨Frame 1 × 1⟩"],
        [1, "⟨Series 1⟩"],
        [{"a": 1}, {"a": "⟨Series 1⟩"}],
    ],
)
def test_a_list_that_looks_like_a_preview_and_does_not_add_up_is_a_list(value: Any) -> None:
    assert frame_size(value) is None
