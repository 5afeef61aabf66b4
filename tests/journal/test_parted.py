"""Values that are stored without their large buffers: exact round trips, parts of columns, and the search for
secrets."""

from __future__ import annotations

import datetime
import hashlib
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from agf_magics.journal.codec import parted
from agf_magics.journal.codec.encoding import DecodeError
from agf_magics.journal.codec.fingerprints import LEAST, address
from agf_magics.journal.codec.parted import content_digest, put_together, take_apart
from agf_magics.journal.codec.pickles import NotPicklable
from agf_magics.journal.codec.secret_search import FEW_FORMS, SEARCHED, HoldsSecret, Search

N = 20_000
DAYS = pd.date_range("2026-01-01", periods=N, freq="h")


class Memory:
    """A store of parts in memory."""

    def __init__(self) -> None:
        self.parts: dict[str, bytes] = {}

    def stored(self, value: Any, search: Search = parted.NOTHING_TO_FIND) -> bytes:
        file = Rest()
        taken = take_apart(value, lambda: file, search)
        for stretch in taken.stretches:
            self.parts[stretch.digest] = bytes(stretch.view)
        if taken.file is None:
            return taken.data()
        digest = hashlib.sha256(file.data).hexdigest()
        self.parts[digest] = bytes(file.data)
        return taken.data((digest, len(file.data)))

    def read(self, digest: str, size: int) -> bytearray:
        assert len(self.parts[digest]) == size
        return bytearray(self.parts[digest])


class Rest:
    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: Any) -> None:
        self.data += data

    def drop(self) -> None:
        self.data.clear()


@dataclass
class Fit:
    """A class of the user's."""

    name: str
    weights: Any


FRAME = pd.DataFrame({"a": np.arange(N) * 1.5, "b": np.arange(N), "c": np.arange(N) * 2.5})

VALUES: dict[str, Callable[[], Any]] = {
    "numbers": lambda: np.arange(N * 2, dtype="f8").reshape(2, N),
    "numbers in columns": lambda: np.asfortranarray(np.arange(N * 4, dtype="f4").reshape(N, 4)),
    "dates of numpy": lambda: np.arange(N).astype("M8[ns]"),
    "durations": lambda: np.arange(N).astype("m8[s]"),
    "every other number": lambda: np.arange(N * 2)[::2],
    "records": lambda: np.zeros(N, dtype=[("a", "i4"), ("b", "S8")]),
    "read only": lambda: np.frombuffer(bytes(N * 8), "i8"),
    "frame": lambda: FRAME.copy(),
    "frame of kinds": lambda: pd.DataFrame(
        {
            "text": ["word"] * N, "day": DAYS, "zone": DAYS.tz_localize("UTC").tz_convert("Europe/Berlin"),
            "kind": pd.Categorical(["x", "y"] * (N // 2), ordered=True),
            "maybe": pd.array([1, None] * (N // 2), "Int64"),
            "period": DAYS.to_period("D"), "object": [{"a": 1}] * N, "flag": [True, False] * (N // 2),
        },
        index=pd.MultiIndex.from_arrays([range(N), ["k"] * N], names=["i", "k"]),
    ),
    "twice the same name": lambda: pd.DataFrame(np.zeros((N, 2)), columns=["a", "a"]),
    "series": lambda: pd.Series(np.arange(N) * 1.5, index=DAYS, name="n"),
    "polars": lambda: pl.DataFrame({"a": range(N), "t": ["word"] * N, "d": [datetime.date(2026, 1, 1)] * N}),
    "series of polars": lambda: pl.Series("n", [[1, 2], None] * (N // 2)),
    "no columns": lambda: pl.DataFrame(),
    "arrow": lambda: pa.table({"a": range(N), "t": ["word", None] * (N // 2)}),
    "bytes": lambda: b"x" * 200_000,
    "text": lambda: "ä" * 200_000,
    "rows": lambda: [{"a": n, "t": "word"} for n in range(N)],
    "class": lambda: Fit("fit", {"w": np.arange(N) * 1.0, "more": [FRAME.copy(), None]}),
    "one array twice": lambda: (array := np.arange(N), array),
}  # fmt: skip


def is_same_value(first: Any, second: Any) -> bool:
    if type(first) is not type(second):
        return False
    if isinstance(first, pd.DataFrame):
        pd.testing.assert_frame_equal(first, second, check_freq=True)
        return first.index.equals(second.index) and first.attrs == second.attrs
    if isinstance(first, pd.Series):
        pd.testing.assert_series_equal(first, second, check_freq=True)
        return True
    if isinstance(first, np.ndarray):
        flags = [(value.flags.writeable, value.dtype, value.shape) for value in (first, second)]
        return flags[0] == flags[1] and bool(np.array_equal(first, second))
    if isinstance(first, pl.DataFrame | pl.Series | pa.Table):
        return bool(first.equals(second)) and getattr(first, "schema", 0) == getattr(second, "schema", 0)
    if isinstance(first, Fit):
        return is_same_value(first.name, second.name) and is_same_value(first.weights, second.weights)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(is_same_value(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(is_same_value, first, second))
    return bool(first == second)


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_is_read_as_it_was_written(kind: str) -> None:
    memory, value = Memory(), VALUES[kind]()
    data = memory.stored(value)
    assert len(data) < 2 * LEAST
    assert memory.parts or kind == "no columns"
    back = put_together(data, memory.read)
    assert is_same_value(value, back)
    if kind == "one array twice":
        assert back[0] is back[1]
    if kind == "class":  # the code of the class would count, too
        assert content_digest(value) is None
    elif kind == "frame of kinds":  # the frames share their dates, so one call is repeated at most
        assert content_digest(value)
    else:
        assert content_digest(value) == content_digest(VALUES[kind]()) == hashlib.sha256(data).hexdigest()


def test_a_frame_that_comes_back_can_be_changed() -> None:
    memory = Memory()
    back = put_together(memory.stored(FRAME), memory.read)
    back.loc[0, "a"] = -1.0
    assert back["a"][0] == -1.0
    assert is_same_value(put_together(memory.stored(FRAME), memory.read), FRAME)


CHANGES: dict[str, tuple[Callable[[pd.DataFrame], Any], int]] = {
    "nothing": (lambda frame: frame.copy(), 0),
    "a name": (lambda frame: frame.rename(columns={"a": "z"}), 0),
    "a column more": (lambda frame: frame.assign(d=frame["a"] * 3), 1),
    "a column": (lambda frame: frame.assign(a=frame["a"] * 3), 1),
    "a cell": (lambda frame: frame.assign(a=frame["a"].where(frame.index != 7, -1.0)), 1),
    "a column less": (lambda frame: frame.drop(columns="b"), 0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_only_the_columns_that_changed_are_new_parts(change: str) -> None:
    memory, (do, new) = Memory(), CHANGES[change]
    frame = pd.DataFrame(np.asfortranarray(np.random.default_rng(1).random((N, 4))), columns=list("abce"))
    frame["b"] = frame["b"] * 2
    memory.stored(frame)
    before = len(memory.parts)
    memory.stored(do(frame))
    assert len(memory.parts) == before + new


LARGE: dict[str, Callable[[], Any]] = {
    "array": lambda: np.zeros(1_000_000),
    "dates": lambda: np.zeros(1_000_000, "M8[s]"),
    "frame": lambda: pd.DataFrame({"a": np.zeros(500_000), "b": np.ones(500_000)}),
    "arrow": lambda: pa.table({"a": np.zeros(1_000_000)}),
    "bytes": lambda: bytes(8_000_000),
}


@pytest.mark.parametrize("kind", LARGE)
def test_large_data_is_not_copied_to_take_it_apart(kind: str) -> None:
    value = {"rows": [LARGE[kind]()]}

    class Nowhere:
        def write(self, data: Any) -> None:
            pass

        def drop(self) -> None:
            pass

    take_apart(value, Nowhere)  # imports the modules that it needs
    tracemalloc.start()
    try:
        take_apart(value, Nowhere)
        copied = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert copied < 1_000_000


def of_arrow() -> pd.DataFrame:
    """A frame of pandas whose columns use the memory of Arrow."""
    return pd.DataFrame(
        {
            "t": pd.array([f"word {n}" for n in range(N)], dtype="string[pyarrow]"),
            "n": pd.array([1.5, None] * (N // 2), dtype="double[pyarrow]"),
        }
    )


def test_columns_of_arrow_in_pandas_are_not_copied() -> None:
    table = of_arrow()
    columns = (table[name].array.__arrow_array__() for name in table)
    held = {buffer.address for column in columns for chunk in _chunks(column) for buffer in chunk.buffers() if buffer}
    taken = list(take_apart(table, Rest).stretches)
    assert len(taken) == 3
    assert {address(stretch.view) for stretch in taken} <= held


def _chunks(column: Any) -> list[Any]:
    return list(getattr(column, "chunks", [column]))


PIECES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "all": lambda table: table,
    "the first rows": lambda table: table.head(100),
    "the last rows": lambda table: table.tail(100),
    "all but the first": lambda table: table.iloc[1:],
    "all but the last": lambda table: table.iloc[:-1],
    "twice": lambda table: pd.concat([table, table]),
    "none": lambda table: table.head(0),
    "of what was read": lambda table: table[table["n"].notna() & (table["t"].str.len() > 3)],
}


@pytest.mark.parametrize("kind", PIECES)
def test_pieces_of_columns_of_arrow_come_back_without_the_rest(kind: str) -> None:
    table, memory = PIECES[kind](of_arrow()), Memory()
    data = memory.stored(table)
    again = put_together(data, memory.read)
    pd.testing.assert_frame_equal(again, table)
    assert again["t"].str.upper().equals(table["t"].str.upper())
    assert len(table) > 1_000 or sum(map(len, memory.parts.values())) + len(data) < LEAST


SECRET = b"sk-0123456789"

HOLDING: dict[str, Callable[[], Any]] = {
    "text": lambda: "x" * 100_000 + SECRET.decode(),
    "in a list": lambda: ["x" * 1000] * 3_000 + [SECRET.decode()],
    "between two pieces": lambda: b"x" * (SEARCHED - 20) + SECRET + b"x" * SEARCHED,
    "bytes of an array": lambda: np.frombuffer(b"x" * 100_000 + SECRET, "u1"),
    "texts of an array": lambda: np.array([SECRET] + [b"x" * 20] * 5_000),
    "frame": lambda: pd.DataFrame({"a": ["word"] * N + [SECRET.decode()]}),
    "polars": lambda: pl.DataFrame({"a": ["word"] * N + [SECRET.decode()]}),
    "arrow": lambda: pa.table({"a": ["word"] * N + [SECRET.decode()]}),
    "small": lambda: Fit(SECRET.decode(), None),
}


OTHERS = {
    "few forms": (b"another",),
    "many forms": tuple(b"another %d" % number for number in range(FEW_FORMS + 1)),
}


@pytest.mark.parametrize("other_texts", OTHERS)
@pytest.mark.parametrize("kind", HOLDING)
def test_a_text_that_must_not_be_stored_is_seen(kind: str, other_texts: str) -> None:
    memory = Memory()
    for shift in range(0, 60, 7) if kind == "between two pieces" else (0,):
        value = HOLDING[kind]() if not shift else b"y" * shift + HOLDING[kind]()
        with pytest.raises(HoldsSecret):
            memory.stored(value, Search((SECRET, *OTHERS[other_texts])))
    assert memory.parts == {}
    memory.stored(HOLDING[kind](), Search(OTHERS[other_texts]))


ODD = [
    b"a.c(",
    b"\\E*+?",
    b"\x00\x01\n\xff",
    "söme".encode(),
    b"\r\n\r\n",
    b"[a-z]{2}",
    b"^one$",
    b"\x80\x81\x82\x83",
    b"a|bc",
]


@pytest.mark.parametrize("form", ODD, ids=repr)
def test_a_form_of_any_bytes_is_found_as_it_is(form: bytes) -> None:
    assert len(ODD) > FEW_FORMS
    for size in (1, len(form) - 1, 50):  # the number of bytes before the secret
        search = Search(ODD)
        search.look(b"abc ac( E Z one some \xf6 \n a b c" + b"x" * size)
        search.look(form[:-2])
        search.look(form[-2:-1])
        with pytest.raises(HoldsSecret):
            search.look(form[-1:] + b"x")


def test_a_searched_buffer_is_searched_again_for_other_texts() -> None:
    clean = set[str]()
    for kind in ("bytes of an array", "arrow", "frame"):
        value = HOLDING[kind]()
        Memory().stored(value, Search(OTHERS["few forms"], clean=clean))
        seen_buffers = set(clean)
        Memory().stored(value, Search(OTHERS["few forms"], clean=clean))
        assert clean == seen_buffers
        with pytest.raises(HoldsSecret):
            Memory().stored(value, Search((SECRET,), clean=set()))
    assert len(clean) >= 3


def test_a_buffer_with_a_secret_never_counts_as_searched() -> None:
    clean = set[str]()
    for _ in range(2):
        with pytest.raises(HoldsSecret):
            Memory().stored(HOLDING["bytes of an array"](), Search((SECRET,), clean=clean))
    assert not clean


def test_numbers_are_searched_only_for_numbers() -> None:
    array = np.full(N, 123_456_789_012)
    needle = array[:1].tobytes()
    Memory().stored(array, Search((needle,)))
    with pytest.raises(HoldsSecret):
        Memory().stored(array, Search((needle,), in_numbers=True))


def test_what_cannot_be_pickled_says_why_and_leaves_no_file() -> None:
    files = list[Rest]()

    def create() -> Rest:
        files.append(Rest())
        return files[-1]

    with pytest.raises(NotPicklable, match="generator"):
        take_apart(["x" * 100_000, (letter for letter in "abc")], create)
    assert all(not file.data for file in files)


@pytest.mark.parametrize(
    "head",
    [b"", b"[]", b"[[],null]", b'[[[true]],null,true]', b'[[[1,["a",1]]],null,true]', b'[[[true,["a",-1]]],null,true]',
     b'[[],["a"],true]', b"[[],null,1]", b"{", b"[" * 100_000],
)  # fmt: skip
def test_a_damaged_list_of_parts_is_not_read(head: bytes) -> None:
    with pytest.raises(DecodeError):
        put_together(head + b"\nN.", Memory().read)
