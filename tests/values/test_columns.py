"""Tests of columns of Arrow, pandas and polars: they have the same values, or tell which they cannot hold."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import numpy as np
import pandas as pd
import polars
import pytest

from agf_magics.values.tables.columns import NotHeld, arrow_column, pandas_column, polars_column

DAY = datetime.date(2024, 3, 1)
MIDNIGHT = datetime.datetime(2024, 3, 1)
NOON = datetime.datetime(2024, 3, 1, 12)
HOUR = datetime.timedelta(hours=1)
HALF = "\ud800"
"""Half of a surrogate pair, which UTF-8 does not have."""

ARROW: dict[str, tuple[list[Any], str, list[Any]]] = {
    "nothing": ([], "null", []),
    "nulls": ([None, None], "null", [None, None]),
    "texts": (["a", None], "string", ["a", None]),
    "whole numbers": ([1, None, 2**63 - 1], "int64", [1, None, 2**63 - 1]),
    "booleans": ([True, None], "bool", [True, None]),
    "floats": ([1.5, None, math.inf], "double", [1.5, None, math.inf]),
    "whole numbers and floats": ([1, 1.5], "double", [1.0, 1.5]),
    "booleans and whole numbers": ([True, 1], "string", ["true", "1"]),
    "a whole number that no float has, and a float": ([2**53 + 1, 0.5], "string", ["9007199254740993", "0.5"]),
    "a whole number of more than 64 bits": ([2**64], "string", [str(2**64)]),
    "texts and numbers": (["a", 1], "string", ["a", "1"]),
    "a text that could be a number, and a number": (["1", 1], "string", ['"1"', "1"]),
    "a text that could be null, and a number": (["null", 1, None], "string", ['"null"', "1", None]),
    "texts and mappings": (["a", {"b": 1}, "ä"], "string", ["a", '{"b": 1}', "ä"]),
    "texts that could be numbers": (["1", "2"], "string", ["1", "2"]),
    "lists": ([[1], None, []], "list<item: int64>", [[1], None, []]),
    "lists of booleans": ([[True], None, [False]], "list<item: bool>", [[True], None, [False]]),
    "lists of different things": ([[1], ["a"]], "string", ["[1]", '["a"]']),
    "mappings": ([{"a": 1}], "struct<a: int64>", [{"a": 1}]),
    "mappings with other keys": (
        [{"a": 1}, {"b": "x"}],
        "struct<a: int64, b: string>",
        [{"a": 1, "b": None}, {"a": None, "b": "x"}],
    ),
    "mappings without keys": ([{}], "string", ["{}"]),
    "dates": ([DAY, None], "date32[day]", [DAY, None]),
    "times": ([NOON, None], "timestamp[us]", [NOON, None]),
    "durations": ([HOUR], "duration[us]", [HOUR]),
    "decimals": ([decimal.Decimal("1.50")], "decimal128(3, 2)", [decimal.Decimal("1.50")]),
    "bytes": ([b"\xff"], "binary", [b"\xff"]),
    "days of numpy's calendar": ([np.datetime64("2024-03-01"), None], "timestamp[s]", [MIDNIGHT, None]),
    "hours of numpy": ([np.datetime64("2024-03-01T12", "h")], "timestamp[s]", [NOON]),
    "milliseconds of numpy": ([np.datetime64("2024-03-01T12", "ms"), None], "timestamp[ms]", [NOON, None]),
    "days of numpy": ([np.timedelta64(1, "D")], "duration[s]", [datetime.timedelta(1)]),
    "five minutes of numpy": ([np.timedelta64(12, ("m", 5))], "duration[s]", [HOUR]),
    "missing ones of pandas": ([pd.NaT, NOON], "timestamp[us]", [None, NOON]),
    "arrays": ([np.array([1, 2]), None], "list<item: int64>", [[1, 2], None]),
    "arrays of dates": ([np.array(["2024-03-01"], "M8[D]")], "list<item: timestamp[s]>", [[MIDNIGHT]]),
    "matrices": ([np.eye(1)], "list<item: list<item: double>>", [[[1.0]]]),
}
"""For each case: the values, the type of their column in Arrow, and the values that it has."""


@pytest.mark.parametrize("case", ARROW)
def test_a_column_of_arrow(case: str) -> None:
    values, kind, held = ARROW[case]
    column = arrow_column(values)
    assert (str(column.type), column.to_pylist()) == (kind, held)


NOT_HELD: dict[str, tuple[list[Any], list[int]]] = {
    "objects": ([1, {1}, object()], [1, 2]),
    "a mapping with other keys than texts": ([{"a": 1}, {1: "a"}], [1]),
    "an object in a list or a mapping": ([[1], [{1}], {"a": object()}], [1, 2]),
    "months and years of numpy": ([np.timedelta64(3, "M"), np.datetime64("2024", "Y")], [0, 1]),
    "the same in arrays": ([np.array([3], "m8[M]"), np.array([3], "m8[s]")], [0]),
    "an array of objects": ([np.array([None])], [0]),
    "complex numbers": ([np.array([1j])], [0]),
    "a date beside a time": ([NOON, "a", DAY], [0, 2]),
    "a date beside a time in a mapping": ([{"a": NOON}, {"a": DAY}], [0, 1]),
    "a number of 5,001 digits": ([1, 10**5_000, [-(10**5_000)]], [1, 2]),
    "half a character": (["a", HALF], [1]),
    "half a character among texts and numbers": ([1, "a", [HALF], {HALF: 1}], [2, 3]),
}


@pytest.mark.parametrize("case", NOT_HELD)
def test_what_arrow_does_not_hold_is_named_by_its_place(case: str) -> None:
    values, numbers = NOT_HELD[case]
    with pytest.raises(NotHeld) as refused:
        arrow_column(values)
    assert list(refused.value.numbers) == numbers
    column = polars_column(polars, "x", values)
    assert (column.name, column.dtype) == ("x", polars.Object)


def test_nan_is_kept_among_whole_numbers() -> None:
    column = arrow_column([1, math.nan, None])
    assert (str(column.type), str(column.to_pylist())) == ("double", "[1.0, nan, None]")


def test_a_column_of_polars_has_the_type_of_arrow() -> None:
    column = polars_column(polars, "x", [1, None])
    assert (column.name, column.dtype, column.to_list()) == ("x", polars.Int64, [1, None])


def test_a_column_of_polars_holds_the_objects_that_arrow_does_not() -> None:
    column = polars_column(polars, "x", values := [object(), None])
    assert (column.name, column.dtype, column.to_list()) == ("x", polars.Object, values)


TEXTS = str(pd.Series(["a"]).dtype)
"""The type of texts, which pandas 3 has and older ones do not."""

PANDAS: dict[str, tuple[list[Any], str]] = {
    "nothing": ([], "object"),
    "nulls": ([None], "object"),
    "booleans": ([True, False], "bool"),
    "booleans, one missing": ([True, None], "boolean"),
    "whole numbers": ([1, -(2**63)], "int64"),
    "whole numbers, one missing": ([1, None], "Int64"),
    "the largest whole number with a sign": ([2**63 - 1], "int64"),
    "large whole numbers": ([2**63], "uint64"),
    "large whole numbers, one missing": ([2**64 - 1, None], "UInt64"),
    "large whole numbers, and one below 0": ([2**63, -1], "object"),
    "large whole numbers and 0": ([2**63, 0], "uint64"),
    "larger ones": ([2**64], "object"),
    "smaller ones": ([-(2**63) - 1], "object"),
    "floats, one missing": ([0.5, None], "float64"),
    "whole numbers and floats": ([2**53, 0.5], "float64"),
    "whole numbers that no float has, and floats": ([2**53 + 1, 0.5], "object"),
    "booleans and whole numbers": ([True, 1], "object"),
    "texts": (["a", "b"], TEXTS),
    "texts, one missing": (["a", None], TEXTS),
    "texts and numbers": (["a", 1], "object"),
    "half a character": ([HALF], "object"),
    "times": ([NOON, None], "datetime64[ns]"),
    "times of two kinds": ([NOON, pd.Timestamp(NOON)], "datetime64[ns]"),
    "durations": ([HOUR, None], "timedelta64[ns]"),
    "dates": ([DAY], "object"),
    "times and durations": ([NOON, HOUR], "object"),
    "lists of one length": ([[1, 2], [3, 4]], "object"),
    "arrays of one length": ([np.eye(2), np.eye(2)], "object"),
}


@pytest.mark.parametrize("case", PANDAS)
def test_a_column_of_pandas(case: str) -> None:
    values, kind = PANDAS[case]
    column = pandas_column(pd, values)
    # pandas 3 has us, older ones ns
    assert (str(column.dtype).replace("[us]", "[ns]"), len(column)) == (kind, len(values))
    for value, held in zip(values, column.tolist(), strict=True):
        assert held is value or (value is None and pd.isna(held)) or (type(held) is not bool and held == value)
