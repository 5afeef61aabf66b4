"""Tests of the large values of a run: each call gets a separate copy."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agf_magics.values.extent import TooDeep
from agf_magics.values.large import LargeValues
from agf_magics.values.value import isolate

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts),
)


@given(st.dictionaries(st.text(), JSON))
def test_each_copy_is_equal_and_shares_no_container(value: dict[str, Any]) -> None:
    large = LargeValues()
    copies = [large.isolate(value) for _ in range(4)]
    assert all(copied == value for copied in copies)
    containers = [id(part) for copy in (value, *copies) for part in _containers(copy)]
    assert len(containers) == len(set(containers))


def _containers(value: Any) -> list[Any]:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return [] if parts is None else [value, *(container for part in parts for container in _containers(part))]


def test_a_change_of_a_copy_changes_no_later_copy() -> None:
    large, value = LargeValues(), {"rows": [[1], [2]]}
    for _ in range(4):
        copied = large.isolate(value)
        assert copied == {"rows": [[1], [2]]}
        copied["rows"][0].append(3)
        copied["rows"].clear()


def test_a_list_with_two_places_is_two_lists_in_a_copy() -> None:
    large, part = LargeValues(), [1, 2, 3]
    for _ in range(4):
        copied = large.isolate({"a": [part, part]})
        copied["a"][0].append(4)
        assert copied["a"][1] == [1, 2, 3]
    value = {"a": [part, part]}
    for _ in range(4):
        copied = large.isolate(value)
        copied["a"][0].append(4)
        assert copied["a"][1] == [1, 2, 3]


@pytest.mark.parametrize("opaque", [bytearray(b"abc"), object(), (1, 2), math.inf, {1: 2}.keys()], ids=type)
def test_what_is_not_json_stays_what_it_is(opaque: Any) -> None:
    large, value = LargeValues(), {"rows": [opaque, 1, 2]}
    for _ in range(4):
        assert large.isolate(value)["rows"][0] is opaque


def test_a_value_in_another_place_is_found_again() -> None:
    large, rows = LargeValues(), [[n] for n in range(10)]
    first = large.isolate({"state": {"rows": rows, "n": 1}})
    second = large.isolate({"state": {"rows": rows, "n": 2}})
    known_value = large.fresh(second["state"]["rows"])
    assert known_value.value is rows
    assert large.fresh(first["state"]["rows"]) is None  # the user's code has got it


def test_a_list_that_a_check_has_copied_is_known() -> None:
    large, rows = LargeValues(), [[1], [2]]
    before = large.isolate({"rows": rows})
    after = {"rows": [*before["rows"]]}
    large.follow(before, after)
    known_value = large.fresh(after["rows"])
    assert known_value.value is rows


@pytest.mark.parametrize("change", [lambda rows: rows[:1], lambda rows: [*rows, 3], lambda rows: [[1], rows[1]], tuple])
def test_a_list_that_a_check_has_changed_is_not(change: Any) -> None:
    large = LargeValues()
    before = large.isolate({"rows": [[1], [2]]})
    after = {"rows": change(before["rows"])}
    large.follow(before, after)
    assert large.fresh(after["rows"]) is None


def test_a_value_with_a_reused_identity_is_not_taken_for_the_old_one() -> None:
    large = LargeValues()
    for n in range(1_000):  # freed lists are made again at the same address
        assert large.isolate({"rows": [[n], [n + 1]]}) == {"rows": [[n], [n + 1]]}


def test_a_value_that_contains_itself_is_refused() -> None:
    rows: list[Any] = [1, 2]
    rows.append(rows)
    for _ in range(3):
        with pytest.raises(TooDeep):
            LargeValues().isolate({"rows": rows})


@given(JSON)
def test_a_copy_is_that_of_isolate(value: Any) -> None:
    assert LargeValues().isolate(value) == isolate(value)


def test_a_value_that_code_changes_in_place_fails_the_next_copy() -> None:
    """The debug switch, with which the tests run."""
    large, value = LargeValues(), {"rows": [[1], [2]]}
    for _ in range(3):
        large.isolate(value)
    value["rows"].append([3])
    with pytest.raises(AssertionError, match="changed in place"):
        large.isolate(value)
