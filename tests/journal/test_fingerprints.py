"""A change of a call's arguments in place is noticed, whatever was changed in whatever way. Reading changes nothing."""

from __future__ import annotations

import collections
import decimal
import io
import random
import types
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from agf_magics.journal.codec.fingerprints import Fingerprint, is_same_print, print_of

N = 20_000
DAYS = pd.date_range("2026-01-01", periods=N, freq="h", tz="UTC")


@dataclass
class Fit:
    weights: Any
    notes: dict[str, Any] = field(default_factory=dict)


def numbers() -> Any:
    return np.arange(N) * 1.5


def a_little(array: Any, place: Any = 7) -> None:
    array[place] += 1e-9


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "n": numbers(),
            "i": np.arange(N),
            "t": ["word"] * N,
            "o": pd.Series([1, "word", None, b"x"] * (N // 4), dtype=object),
            "c": pd.Categorical(["a", "b"] * (N // 2)),
            "m": pd.array([1, None] * (N // 2), dtype="Int64"),
            "f": pd.array([1.5, None] * (N // 2), dtype="Float64"),
            "p": pd.array(["a", "b"] * (N // 2), dtype="string[python]"),
            "a": pd.array([1.5] * N, dtype="double[pyarrow]"),
            "d": DAYS,
            "e": pd.arrays.SparseArray([0.0, 1.0] * (N // 2)),
        }
    )


def forced(view: Any) -> None:
    """What numpy shows for reading is written all the same."""
    view.flags.writeable = True
    a_little(view)


def masked() -> Any:
    return np.ma.masked_array(numbers(), np.arange(N) % 2 == 0)


def structured() -> Any:
    return np.zeros(N, [("a", "f8"), ("b", "M8[s]"), ("c", "U4")])


def renamed(frame: Any) -> None:
    frame.columns = [*frame.columns[:-1], "new"]


def one_of(values: Any, place: Any, value: Any) -> None:
    values[place] = value


def shared() -> Any:
    whole = numbers()
    return {"whole": whole, "part": whole[10:20]}


def outside() -> Any:
    """A table, and the array whose memory it has."""
    array = numbers()
    return {"array": [array], "table": pd.DataFrame({"a": array}, copy=False)}


Case = tuple[Callable[[], Any], Callable[[Any], Any]]


def objects_of_polars() -> pl.DataFrame:
    return pl.DataFrame({"a": [1, 2], "o": pl.Series("o", [[1], [2]], dtype=pl.Object)})


CHANGES: dict[str, Case] = {
    "numpy: an element": (numbers, a_little),
    "numpy: the sign of all": (numbers, lambda array: np.negative(array, out=array)),
    "numpy: the order": (lambda: np.arange(N) % 3, lambda array: array.sort()),
    "numpy: the last element": (numbers, lambda array: a_little(array, -1)),
    "numpy: a view": (lambda: numbers()[5:], a_little),
    "numpy: the base of a view": (lambda: numbers()[5:], lambda view: a_little(view.base, 6)),
    "numpy: every third": (lambda: numbers()[::3], a_little),
    "numpy: backwards": (lambda: numbers()[::-1], a_little),
    "numpy: columns first": (lambda: np.asfortranarray(numbers().reshape(-1, 4)), lambda a: a_little(a, (7, 2))),
    "numpy: a part of columns": (lambda: numbers().reshape(-1, 4)[:, 1:3], lambda a: a_little(a, (7, 1))),
    "numpy: bool": (lambda: np.zeros(N, bool), lambda array: one_of(array, 7, True)),
    "numpy: text": (lambda: np.array(["word"] * N), lambda array: one_of(array, 7, "wort")),
    "numpy: dates": (lambda: np.zeros(N, "M8[s]"), lambda array: one_of(array, 7, 1)),
    "numpy: objects": (lambda: np.array(["word", 1.5] * N, object), lambda array: one_of(array, 7, 1.5 + 1e-9)),
    "numpy: a list in objects": (lambda: np.array([[1.5], None] * N, object), lambda array: a_little(array[0], 0)),
    "numpy: structured": (structured, lambda array: a_little(array["a"])),
    "numpy: a date of structured": (structured, lambda array: one_of(array["b"], 7, 1)),
    "numpy: a name of structured": (structured, lambda array: setattr(array.dtype, "names", ("a", "b", "d"))),
    "numpy: masked": (masked, lambda array: a_little(array.data)),
    "numpy: the mask": (masked, lambda array: one_of(array.mask, 7, True)),
    "numpy: record": (lambda: structured().view(np.recarray), lambda array: a_little(array.a)),
    "numpy: whether it can be written": (numbers, lambda array: array.setflags(write=False)),
    "numpy: the shape": (numbers, lambda array: array.resize((4, N // 4), refcheck=False)),
    "arrays that share memory": (shared, lambda fields: a_little(fields["part"])),
    "bytearray": (lambda: bytearray(100_000), lambda data: one_of(data, 7, 1)),
    "large bytearray": (lambda: bytearray(3_000_000), lambda data: one_of(data, -1, 1)),
    "a dataclass": (lambda: Fit(numbers()), lambda fit: a_little(fit.weights)),
    "an attribute": (lambda: Fit(numbers()), lambda fit: fit.notes.update(a=1)),
    "nested frames": (lambda: Fit({"a": {"b": [frame()]}}), lambda fit: a_little(fit.weights["a"]["b"][0]["n"].array)),
    "a name in nested frames": (lambda: Fit({"a": {"b": [frame()]}}), lambda fit: renamed(fit.weights["a"]["b"][0])),
    "deque": (lambda: collections.deque([1.5, 2.5]), lambda queue: a_little(queue, 0)),
    "counter": (lambda: collections.Counter("abc"), lambda counter: counter.update("a")),
    "namespace": (lambda: types.SimpleNamespace(a=1.5), lambda space: setattr(space, "a", 1.5 + 1e-9)),
    "random": (lambda: random.Random(1), lambda source: source.random()),
    "random of numpy": (lambda: np.random.default_rng(1), lambda source: source.random()),
    "iterator": (lambda: iter([1, 2]), next),
    "text file in memory": (lambda: io.StringIO("abc"), lambda file: file.read(1)),
    "set": (lambda: {1.5, 2.5}, lambda values: values.add(1.5 + 1e-9)),
    "pandas: loc": (frame, lambda table: a_little(table.loc, (7, "n"))),
    "pandas: iloc": (frame, lambda table: a_little(table.iloc, (7, 0))),
    "pandas: a column is replaced": (frame, lambda table: one_of(table, "n", table["n"] + 1e-9)),
    "pandas: a column more": (frame, lambda table: one_of(table, "new", 1)),
    "pandas: a name": (frame, renamed),
    "pandas: the name of the index": (frame, lambda table: setattr(table.index, "name", "new")),
    "pandas: the index": (frame, lambda table: setattr(table, "index", table.index + 1)),
    "pandas: a label": (frame, lambda table: table.attrs.update(a=1)),
    "pandas: array of numbers": (frame, lambda table: a_little(table["n"].array)),
    "pandas: array of dates": (frame, lambda table: one_of(table["d"].array, 7, DAYS[8])),
    "pandas: array of objects": (frame, lambda table: one_of(table["o"].array, 7, "wort")),
    "pandas: values of a category": (frame, lambda table: one_of(table["c"].values, 7, "a")),
    "pandas: values with a mask": (frame, lambda table: one_of(table["m"].values, 7, 8)),
    "pandas: missing values": (frame, lambda table: one_of(table["m"].values, 0, None)),
    "pandas: floats with a mask": (frame, lambda table: one_of(table["f"].values, 0, 1.5 + 1e-9)),
    "pandas: texts of Python": (frame, lambda table: one_of(table["p"].values, 7, "wort")),
    "pandas: texts": (frame, lambda table: one_of(table["t"].values, 7, "wort")),
    "pandas: values of Arrow": (frame, lambda table: one_of(table["a"].values, 7, 1.5 + 1e-9)),
    "pandas: a view for reading": (frame, lambda table: forced(table["n"].values)),
    "pandas: to_numpy": (frame, lambda table: forced(table["n"].to_numpy())),
    "pandas: memory of an array": (outside, lambda fields: a_little(fields["array"][0])),
    "pandas: a series": (lambda: pd.Series(numbers()), lambda series: a_little(series)),
    "pandas: the name of a series": (lambda: pd.Series(numbers()), lambda series: setattr(series, "name", "new")),
    "pandas: an index": (lambda: pd.Index(numbers()), lambda index: forced(index.values)),
    "polars: an element": (lambda: pl.DataFrame({"a": numbers()}), lambda table: one_of(table, (7, "a"), 7.0)),
    "polars: a column": (
        lambda: pl.DataFrame({"a": numbers()}),
        lambda table: table.replace_column(0, table["a"] + 1e-9),
    ),
    "polars: a name": (lambda: pl.DataFrame({"a": numbers()}), lambda table: setattr(table, "columns", ["b"])),
    "polars: a column more": (
        lambda: pl.DataFrame({"a": numbers()}),
        lambda table: table.insert_column(1, pl.Series("b", numbers())),
    ),
    "polars: rows more": (lambda: pl.DataFrame({"a": numbers()}), lambda table: table.extend(table.head(1))),
    "polars: a series": (lambda: pl.Series("a", numbers()), lambda series: one_of(series, 7, 7.0)),
    "polars: an object of a column": (objects_of_polars, lambda table: table["o"][1].append(7)),
    "polars: an object of a series": (lambda: objects_of_polars()["o"], lambda series: series[1].append(7)),
    "polars: a column of objects": (
        objects_of_polars,
        lambda table: table.replace_column(1, pl.Series("o", [[0], [2]], dtype=pl.Object)),
    ),
    "polars: a series more": (lambda: pl.Series("a", numbers()), lambda series: series.append(series.head(1))),
}


@pytest.mark.parametrize("case", CHANGES)
@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a list"])
def test_a_change_is_noticed(case: str, inside: bool) -> None:
    make, change = CHANGES[case]
    value = make()
    before = Fingerprint([value] if inside else value)
    assert not before.unknown
    change(value)
    assert before.differs()


READS: dict[str, Case] = {
    "numpy": (numbers, lambda array: array.sum() + array[::2].sum()),
    "numpy: a result that is a view": (numbers, lambda array: array[5:]),
    "numpy: part of columns": (lambda: numbers().reshape(-1, 4)[:, 1:3], lambda array: array.copy()),
    "pandas": (
        frame,
        lambda table: [
            *(table.head(2).to_html(), table["n"].mean(), table.groupby("c", observed=True)["n"].sum(), table.loc[7]),
            *(table.describe(include="all"), table.memory_usage(deep=True), table.sort_values("i"), repr(table)),
            *(table.set_index("d").loc["2026-01-02"], table["t"].str.upper(), table["p"].str.len(), table["a"] * 2),
            *(table.index.is_unique, table.columns.get_loc("n"), table.T.shape, list(table.itertuples())[:1]),
        ],
    ),
    "pandas: a result that shares its columns": (frame, lambda table: table.assign(new=1)),
    "pandas: a result that is a view": (frame, lambda table: table["n"].to_numpy()),
    "pandas: indexes": (
        lambda: pd.DataFrame(
            {"a": numbers()},
            index=pd.MultiIndex.from_product([range(N // 4), list("abcd")], names=["x", "y"]),
        ),
        lambda table: [
            table.loc[(7, "a")],
            table.xs("a", level="y"),
            table.index.get_level_values("x"),
            table.unstack(),
        ],
    ),
    "pandas: dates and periods": (
        lambda: pd.DataFrame({"a": DAYS.tz_localize(None).to_period("h"), "b": pd.interval_range(0, N)}, index=DAYS),
        lambda table: [table.loc["2026-02"], table["a"].dt.year.sum(), table.index.year, table["b"].array.left],
    ),
    "polars": (
        lambda: pl.DataFrame(
            {"a": numbers(), "t": ["word"] * N, "l": [[1]] * N, "d": list(DAYS.to_pydatetime())}
        ).with_columns(pl.col("t").cast(pl.Categorical).alias("c")),
        lambda table: [table.sort("a"), table.group_by("c").len(), table["a"].sum(), table.to_numpy(), str(table)],
    ),
    "polars: objects": (objects_of_polars, lambda table: [table.head(1), table["o"][1], table["a"].sum(), str(table)]),
    "polars: a lazy table": (lambda: objects_of_polars().lazy(), lambda table: table.select("a")),
    "arrow": (
        lambda: pa.table({"a": numbers(), "t": ["word"] * N}),
        lambda table: [table["a"].to_numpy(), table.to_pandas(), table.slice(3), table.append_column("b", table["a"])],
    ),
    "dataclass": (lambda: Fit(numbers(), {"a": frame()}), lambda fit: [fit.weights.sum(), fit.notes["a"].describe()]),
    "decimals": (lambda: np.array([decimal.Decimal("1.5")] * N, object), lambda array: array.sum()),
}


@pytest.mark.parametrize("case", READS)
def test_what_was_only_read_is_unchanged(case: str) -> None:
    make, read = READS[case]
    value = make()
    before = Fingerprint(value)
    result = read(value)
    assert not before.unknown
    assert not before.differs()
    assert result is not None


def test_a_file_that_another_program_changes_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    numbers().tofile(path)
    mapped = np.memmap(path, "f8", "r")
    assert not Fingerprint(mapped).differs()
    before = Fingerprint(mapped)
    with path.open("r+b") as file:
        file.seek(8 * (N - 1))
        file.write(b"\x01")
    assert before.differs()


@pytest.mark.parametrize(
    "make", [lambda: memoryview(bytearray(9)), lambda: (x for x in "ab")], ids=["memory", "generator"]
)
def test_of_what_cannot_be_pickled_nobody_can_tell(make: Callable[[], Any]) -> None:
    assert Fingerprint(make()).unknown


def test_a_change_in_two_places_that_one_crc32_does_not_see_is_seen() -> None:
    """Each of the last 32 bits changes the crc32 in its own way. Together they can cancel the change of an earlier
    byte."""
    size = 2_000_000
    before = bytes(size)
    expected = zlib.crc32(b"\x01" + bytes(size - 1)) ^ zlib.crc32(before)
    rows = [
        (zlib.crc32(bytes(size - 4) + (1 << bit).to_bytes(4, "little")) ^ zlib.crc32(before), 1 << bit)
        for bit in range(32)
    ]
    tail = 0
    for bit in range(32):
        pivot = next(row for row in rows if row[0] >> bit & 1)
        rows = [
            (row[0] ^ pivot[0], row[1] ^ pivot[1]) if row[0] >> bit & 1 else row for row in rows if row is not pivot
        ]
        if expected >> bit & 1:
            expected, tail = expected ^ pivot[0], tail ^ pivot[1]
    after = b"\x01" + bytes(size - 5) + tail.to_bytes(4, "little")
    assert zlib.crc32(after) == zlib.crc32(before)
    prints = [print_of(np.frombuffer(bytearray(data), "u1")) for data in (before, after)]
    assert prints[0] is not None
    assert not is_same_print(prints[0], prints[1])
