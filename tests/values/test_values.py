"""Tests of values: values like JSON become JSON, all others pass by reference (decision A1)."""

from __future__ import annotations

import enum
import json
from collections import Counter, OrderedDict, defaultdict, namedtuple
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.text.length import DEEPEST
from agf_magics.values.extent import TooDeep
from agf_magics.values.unread import CannotRead, Unread
from agf_magics.values.value import equal, is_json, is_true, isolate, isolate_unread, parts_of, settle, type_name

FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


Point = namedtuple("Point", ["x", "y"])

SETTLED = {
    "a tuple": ((1, (2,)), [1, [2]]),
    "a named tuple": (Point(1, (2,)), {"x": 1, "y": [2]}),
    "a text enum": (Colour.RED, "red"),
    "a number enum": ([Level.HIGH], [3]),
    "an ordered dict": (OrderedDict(b=1, a=(2,)), {"b": 1, "a": [2]}),
    "a default dict": (defaultdict(list, a=[1]), {"a": [1]}),
    "a counter": (Counter("aab"), {"a": 2, "b": 1}),
    "a dict with enums for keys": ({Colour.RED: 1}, {"red": 1}),
    "numpy's whole number": (np.int64(3), 3),
    "numpy's fraction": ({"a": np.float32(0.5)}, {"a": 0.5}),
    "numpy's truth": ([np.bool_(True)], [True]),
    "numpy's text": (np.str_("x"), "x"),
}


@pytest.mark.parametrize("name", SETTLED)
def test_what_is_json_in_all_but_type_becomes_json(name: str) -> None:
    value, expected = SETTLED[name]
    settled = settle(value)
    assert settled == expected
    assert json.dumps(settled) == json.dumps(expected)
    assert is_json(settled)


OPAQUE: list[Any] = [
    pd.DataFrame({"a": [1]}),
    np.array([1, 2]),
    np.datetime64("2024-01-31"),
    date(2024, 1, 31),
    {1, 2},
    b"x",
    1j,
    object(),
    print,
]


@pytest.mark.parametrize("value", OPAQUE, ids=lambda value: type(value).__name__)
def test_what_is_opaque_travels_by_reference(value: Any) -> None:
    assert settle(value) is value
    assert settle({"a": (value,)})["a"][0] is value
    assert isolate({"a": [value]})["a"][0] is value
    assert not is_json(value)
    assert not is_json({"a": [value]})


def test_a_dict_whose_keys_are_not_all_text_is_opaque() -> None:
    value = {"a": 1, 2: (3,)}
    assert settle([value])[0] is value
    assert not is_json(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")], ids=str)
def test_a_number_that_is_not_finite_is_kept_and_is_no_json(value: float) -> None:
    assert settle([value])[0] is value
    assert not is_json([value])


@given(JSON)
def test_json_settles_to_itself_and_shares_no_container(value: Any) -> None:
    assert is_json(value)
    for copied in (settle(value), isolate(value)):
        assert copied == value
        assert json.dumps(copied) == json.dumps(value)
        assert not {id(part) for part in containers(copied)} & {id(part) for part in containers(value)}


def containers(value: Any) -> list[Any]:
    if not isinstance(value, (dict, list)):
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [value, *(part for item in inner for part in containers(item))]


def test_changing_a_copy_changes_nothing_else() -> None:
    value = {"a": [{"b": 1}]}
    copied = isolate(value)
    copied["a"][0]["b"] = 2
    copied["a"].append(3)
    assert value == {"a": [{"b": 1}]}


@pytest.mark.parametrize("copy", [settle, isolate])
def test_a_value_that_contains_itself_is_refused(copy: Any) -> None:
    endless: list[Any] = []
    endless.append({"again": endless})
    with pytest.raises(TooDeep, match="contains itself"):
        copy(endless)


@pytest.mark.parametrize("container", [lambda value: [value], lambda value: {"a": value}], ids=["list", "object"])
@pytest.mark.parametrize("copy", [settle, isolate])
def test_a_value_may_nest_as_deep_as_the_bound(copy: Any, container: Any) -> None:
    def nested(levels: int) -> Any:
        value: Any = 1
        for _ in range(levels):
            value = container(value)
        return value

    assert copy(nested(DEEPEST)) == nested(DEEPEST)
    assert is_json(nested(DEEPEST))
    with pytest.raises(TooDeep):
        copy(nested(DEEPEST + 1))


@given(JSON, JSON)
def test_equality_is_pythons_for_json(a: Any, b: Any) -> None:
    assert equal(a, b) == (a == b)
    assert equal(a, isolate(a))


def test_a_truth_equals_its_number() -> None:
    assert equal(True, 1)  # decision P17
    assert equal([1, {"a": 0}], [1.0, {"a": False}])
    assert not equal("1", 1)


def test_a_part_that_stands_twice_hides_no_difference() -> None:
    shared, other = [1], [1]
    assert equal([2, shared, shared], [2, other, other])
    assert not equal([2, shared, shared], [3, other, other])


def test_what_is_opaque_equals_itself_alone() -> None:
    table = pd.DataFrame({"a": [1]})
    assert equal({"t": [table]}, {"t": [table]})
    assert not equal({"t": [table]}, {"t": [table.copy()]})
    assert not equal(date(2024, 1, 31), date(2024, 1, 31))


@pytest.mark.parametrize("value", [0, 0.0, "", [], {}, None, False])
def test_what_is_empty_is_false(value: Any) -> None:
    assert not is_true(value)


@pytest.mark.parametrize(
    "value", [1, "0", [0], {"a": 0}, pd.DataFrame(), np.array([0, 0]), np.array([]), set()], ids=str
)
def test_everything_else_is_true_also_what_would_raise(value: Any) -> None:
    assert is_true(value)


def test_an_error_names_the_type_of_a_value() -> None:
    named = ["x", 1, 1.5, True, None, [], {}, np.array([1]), Colour.RED]
    assert [type_name(value) for value in named] == [
        "text", "a number", "a number", "true or false", "null", "a list", "an object", "an opaque ndarray",
        "an opaque Colour",
    ]  # fmt: skip


def test_a_dict_with_other_keys_is_equal_only_to_itself() -> None:
    own = {1: "a"}
    assert equal(own, own)
    assert equal({"d": own}, {"d": own})
    assert not equal(own, {1: "a"})
    assert not equal({"d": own}, {"d": {1: "a"}})


def test_only_a_copy_for_user_code_reads_what_was_not_read() -> None:
    reads: list[str] = []

    def read() -> str:
        reads.append("read")
        return "the table"

    unread = Unread("Table", "a table", read)
    value = {"a": [unread], "b": [1]}
    copied = isolate_unread(value)
    assert (copied["a"][0] is unread, copied["b"] is value["b"], reads) == (True, False, [])
    assert (isolate(value), reads) == ({"a": ["the table"], "b": [1]}, ["read"])


def test_a_value_is_read_once_and_the_reason_why_it_cannot_be_stays() -> None:
    reads, told = list[str](), list[str]()

    def read() -> str:
        reads.append("read")
        if "damaged" in reads:
            raise CannotRead("it is damaged", lambda: told.append("it is made again"))
        return "the table"

    unread = Unread("Table", "a table", read)
    assert (unread.known is unread, reads) == (True, [])
    assert [unread.value, unread.value, unread.known, *reads] == ["the table"] * 3 + ["read"]
    reads[:] = ["damaged"]
    lost = Unread("Table", "a table", read)
    for _ in range(2):
        with pytest.raises(agf.StepError, match="a stored Table cannot be read: it is damaged"):
            lost.value  # noqa: B018
    assert (reads, lost.known is lost, told) == (["damaged", "read"], True, [])
    for _ in range(2):
        lost.tell_made_again()
    assert told == ["it is made again"]
    lost.put("made again")
    assert (lost.value, lost.known) == ("made again", "made again")


def test_a_value_that_came_into_memory_with_another_one_is_not_read() -> None:
    found: list[Any] = [None]
    unread = Unread("Table", "a table", lambda: pytest.fail("it is read"), lambda: found[0])
    assert unread.known is unread
    found[0] = table = object()
    assert unread.known is table
    assert equal([1, unread], [1, table])
    assert not equal([1, unread], [2, table])
    assert unread.value is table


@pytest.mark.parametrize(
    ("value", "parts"),
    [({"a": 1, "b": [2]}, [1, [2]]), ([1, {"a": 2}], [1, {"a": 2}]), ({}, []), ((1, 2), []), ("text", []), (None, [])],
)
def test_the_parts_of_an_object_or_a_list(value: Any, parts: list[Any]) -> None:
    assert list(parts_of(value)) == parts


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({1: 1}, "an opaque dict with keys that are not text"),
        ({"a": 1, None: 2}, "an opaque dict with keys that are not text"),
        (Unread("Table", "a table", lambda: None), "an opaque Table"),
        (OrderedDict(a=1), "an opaque OrderedDict"),
        ((1,), "an opaque tuple"),
    ],
)
def test_an_error_names_the_type_of_what_is_not_json(value: Any, name: str) -> None:
    assert type_name(value) == name
