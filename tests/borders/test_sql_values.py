"""The values of a query of the tool `sql` are those of its frames, unchanged and complete (decision D190)."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import agf_magics as agf
from agf_magics.text.diagnostics import StepError

MONEY = Decimal("0.10")
EXACT = Decimal("0.1234567890123456789")
MIXED = [dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 10)]
HOURS = dt.timedelta(hours=30, microseconds=1)


def sql(query: str, **frames: Any) -> Any:
    tool = agf.registry.tools["sql"]
    return tool.function(**tool.check({"query": query, "frames": frames}))


def cells(result: Any) -> list[Any]:
    """The values of the first column."""
    if isinstance(result, list):
        return [next(iter(row.values())) for row in result]
    if isinstance(result, pd.DataFrame):
        return list(result.iloc[:, 0].tolist())
    return list(result.to_series(0).to_list() if isinstance(result, pl.DataFrame) else result.column(0).to_pylist())


V, BIG = "select v from t", "select sum(v) from t"
WORD = pd.DataFrame({"c": pd.Categorical(["a", "b"], ["b", "a"]), "v": [1, "x"]})
LATE = [{"v": 1}] * 1500 + [{"v": 2, "w": 3}]
KEPT: dict[str, tuple[str, Any, list[Any]]] = {
    "a sum beyond 64 bits, of a list": (BIG, [{"v": 2**62}] * 8, [2**65]),
    "a sum beyond 64 bits, of pandas": (BIG, pd.DataFrame({"v": [2**62] * 8}), [2**65]),
    "a sum beyond 64 bits, of polars": (BIG, pl.DataFrame({"v": [2**62] * 8}), [Decimal(2**65)]),
    "a sum beyond 63 bits": (BIG, pd.DataFrame({"v": [2**63 - 1] * 2}), [2**64 - 2]),
    "a small sum": (BIG, [{"v": 3}], [3]),
    "a literal with a point": ("select v * 1.5 from t", [{"v": 3}], [4.5]),
    "digits that no float has": (f"select {EXACT} from t", [{"v": 3}], [EXACT]),
    "money of pandas": (BIG, pd.DataFrame({"v": [MONEY] * 3}), [Decimal("0.30")]),
    "money of Arrow": (V, pa.table({"v": [MONEY]}), [MONEY]),
    "money of polars": (V, pl.DataFrame({"v": [MONEY]}), [MONEY]),
    "a duration of pandas": (V, pd.DataFrame({"v": [HOURS]}), [pd.Timedelta(HOURS)]),
    "a duration of polars": (V, pl.DataFrame({"v": [HOURS]}), [HOURS]),
    "a duration of Arrow": (V, pa.table({"v": [HOURS, None]}), [HOURS, None]),
    "a date beside a time": (V, pd.DataFrame({"v": MIXED}, dtype=object), ["2020-01-01", "2020-01-01T10:00:00"]),
    "a column that a late row has": ("select w from t order by v desc limit 1", LATE, [3]),
    "a category beside a mixed column": ("select c from t order by c", WORD, ["b", "a"]),
    "a category that stands twice": (
        V,
        pa.table({"v": pa.DictionaryArray.from_arrays([0, 1, 2], ["a", "a", "b"])}),
        ["a", "a", "b"],
    ),
    "a whole number and a float": (V, [{"v": 1}, {"v": 2.5}], [1.0, 2.5]),
}
"""For each case: a query, the rows of the frame that it reads, and the values of the result."""


@pytest.mark.parametrize("name", KEPT)
def test_a_query_gives_the_values_of_its_frames(name: str) -> None:
    query, frame, expected = KEPT[name]
    cells_found = cells(sql(query, t=frame))
    assert cells_found == expected
    assert list(map(type, cells_found)) == list(map(type, expected))


ONE, TWO, PAIR = [{"v": 1}], [{"v": 2}], {"v": [1], "V": [2]}
DOUBLE, CASE = "two columns of the result are called 'v'", "its columns 'v' and 'V' have the same name in SQL"
UPPER, NUMBERS = 'select "V" from t', "its column 'v' has numbers that no one type of SQL holds"
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "two columns of a result": ("select * from t, u", {"t": ONE, "u": TWO}, DOUBLE),
    "the same, of pandas": ("select t.v, u.v from t, u", {"t": pd.DataFrame(ONE), "u": TWO}, DOUBLE),
    "the same, of polars": ("select v, v from t", {"t": pl.DataFrame(ONE)}, DOUBLE),
    "the same, of Arrow": ("select v, v from t", {"t": pa.table({"v": [1]})}, DOUBLE),
    "frames that differ in their case": (V, {"t": ONE, "T": TWO}, "the frames 't' and 'T' have the same name in SQL"),
    "columns of a list": (UPPER, {"t": [{"v": 1, "V": 2}]}, CASE),
    "columns of pandas": (UPPER, {"t": pd.DataFrame(PAIR)}, CASE),
    "columns of polars": (UPPER, {"t": pl.DataFrame(PAIR)}, CASE),
    "columns of Arrow": (UPPER, {"t": pa.table(PAIR)}, CASE),
    "numbers that would be texts": ("select max(v) from t", {"t": [{"v": 10**17 + 1}, {"v": 2.5}]}, NUMBERS),
    "the same, in the second column": (
        "select 1 from t",
        {"t": [{"w": 1, "v": 10**17 + 1}, {"w": 2, "v": 2.5}]},
        NUMBERS,
    ),
    "booleans beside numbers": ("select max(v) from t", {"t": [{"v": True}, {"v": 10}, {"v": 9}]}, NUMBERS),
    "booleans beside numbers, of pandas": (V, {"t": pd.DataFrame({"v": [True, 10]}, dtype=object)}, NUMBERS),
    "a number beyond 64 bits": (V, {"t": pd.DataFrame({"v": [2**70, 1]}, dtype=object)}, NUMBERS),
}
"""For each case: a query, the frames that it reads, and the words of the error."""


@pytest.mark.parametrize("name", REFUSED)
def test_values_that_sql_cannot_distinguish_or_hold_are_refused(name: str) -> None:
    query, frames, message = REFUSED[name]
    with pytest.raises(StepError) as failure:
        sql(query, **frames)
    assert failure.value.code in ("tool.sql-frame", "tool.sql-query")
    assert message in failure.value.diagnostic.message
    assert failure.value.diagnostic.hint


def test_names_that_differ_beyond_ascii_are_two_names() -> None:
    assert sql('select "É" as e from t', t=[{"é": 1, "É": 2}]) == [{"e": 2}]
