"""Frames and arrays in a text that others read: all of their elements, which `str` would cut."""

from __future__ import annotations

import json
from collections import deque
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from agf_magics.flow.sessions.session import LONGEST, format_for_model, format_prompt
from agf_magics.languages.graph.expressions.written_text import format_value

LONG = "x" * 60
"""A text that pandas and polars cut in their own texts."""
MANY = range(100)
"""More rows than pandas and polars show."""


class Frame(pd.DataFrame):
    """A DataFrame of another class, as geopandas has one."""


CASES: dict[str, tuple[Any, Any]] = {
    "pandas": (pd.DataFrame({"a": MANY, "s": [LONG] * 100}), [{"a": a, "s": LONG} for a in MANY]),
    "polars": (pl.DataFrame({"a": MANY, "s": [LONG] * 100}), [{"a": a, "s": LONG} for a in MANY]),
    "pyarrow": (pa.table({"s": [LONG] * 100}), [{"s": LONG}] * 100),
    "a class of its own": (Frame({"s": [LONG]}), [{"s": LONG}]),
    "many columns": (pd.DataFrame([[*MANY]]), [{str(a): a for a in MANY}]),
    "an index": (pd.DataFrame({"kg": [1]}, index=pd.Index([LONG], name="fruit")), [{"fruit": LONG, "kg": 1}]),
    "levels of columns": (pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])), [{"a.b": 1}]),
    "a column twice": (pd.DataFrame([[1, 2]], columns=["x", "x"]), [{"x": 1, "x (2)": 2}]),
    "missing cells": (
        pd.DataFrame({"n": [float("nan")], "t": [pd.NaT], "s": pd.array([None], "string")}),
        [{"n": None, "t": None, "s": None}],
    ),
    "moments": (
        pd.DataFrame({"t": pd.to_datetime(["2026-06-01"]).tz_localize("Europe/Berlin")}),
        [{"t": "2026-06-01T00:00:00+02:00"}],
    ),
    "a series": (pd.Series([LONG], name="s"), [{"s": LONG}]),
    "a series of counts": (pd.Series(["p", "p"], name="s").value_counts(), [{"s": "p", "count": 2}]),
    "a series of polars": (pl.Series("s", [LONG]), [{"s": LONG}]),
    "an array": (np.arange(2_000), [*range(2_000)]),
    "an array of axes": (np.ones((2, 2)), [[1.0, 1.0], [1.0, 1.0]]),
    "an array of days": (np.array(["2026-01-02"], "M8[D]"), ["2026-01-02"]),
    "beside others": ({"rows": pd.DataFrame({"s": [LONG]}), "n": [np.arange(1)]}, {"rows": [{"s": LONG}], "n": [[0]]}),
}
"""A value for each case, and its JSON."""


@pytest.mark.parametrize("case", CASES)
def test_a_model_gets_all_rows(case: str) -> None:
    value, whole = CASES[case]
    assert json.loads(format_for_model(value)) == whole
    assert json.loads(format_prompt({"table": value, "n": 1}))["table"] == whole


@pytest.mark.parametrize("case", CASES)
def test_a_text_of_a_graph_has_all_rows(case: str) -> None:
    value, whole = CASES[case]
    # A date among others has no quotes there.
    assert format_value(value).replace("'", "") == str(whole).replace("'", "")


def test_a_part_that_is_not_json_is_its_text() -> None:
    parts = {"d": Decimal("1.10"), "q": deque([1]), "nan": float("nan")}
    assert json.loads(format_for_model([parts])) == [{"d": "1.10", "q": "deque([1])", "nan": None}]


def test_an_empty_frame_names_its_columns() -> None:
    assert "kg" in format_for_model(pd.DataFrame({"kg": []}))
    assert "kg" in format_for_model(pl.DataFrame({"kg": []}))


@pytest.mark.parametrize(
    ("value", "noun"),
    [
        (pd.DataFrame({"s": [LONG] * 50_000}), "50,000 rows"),
        (pl.DataFrame({"s": [LONG] * 50_000}), "50,000 rows"),
        (np.arange(50_000), "50,000 elements"),
    ],
    ids=["pandas", "polars", "numpy"],
)
def test_a_table_that_is_too_long_ends_with_a_whole_row_and_says_so(value: Any, noun: str) -> None:
    text, _, cut = format_for_model(value).rpartition(" … ")
    shown = len(json.loads(text))
    assert cut == f"(cut: the first {shown:,} of {noun})"
    assert LONGEST - 100 < len(text) <= LONGEST + 2


def of_objects(*parts: Any) -> Any:
    array = np.empty(len(parts), dtype=object)
    array[:] = parts
    return array


def circular() -> list[Any]:
    inside: list[Any] = []
    inside.append(inside)
    return inside


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros((2, 3_000_000)), "[] … (cut: the first 0 of 2 elements)"),
        ({"w": np.zeros((2, 3_000_000))}, '{"w":["(cut: 2 more elements)"]}'),
        (of_objects(circular(), 1), "[list([[...]]) 1]"),
        (of_objects({1: 2}, 1), "[{1: 2} 1]"),
        (pd.DataFrame({"a": [circular(), 1]}), "               a\n0  [[[[[...]]]]]\n1              1"),
        (np.zeros((3, 0)), "[[],[],[]]"),
    ],
    ids=[
        "a row without room",
        "inside a mapping",
        "a circle",
        "keys that are no text",
        "a circle in a cell",
        "no columns",
    ],
)
def test_what_json_cannot_have_is_told_or_is_its_text(value: Any, text: str) -> None:
    assert format_for_model(value) == text


def test_a_text_of_a_graph_never_has_a_part_of_a_table() -> None:
    with pytest.raises(ValueError, match="DataFrame of 1,000,000 rows into a text: it is too large"):
        format_value({"rows": pd.DataFrame({"a": range(1_000_000)})})
