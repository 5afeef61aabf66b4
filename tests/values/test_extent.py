"""The count of the parts of a value, and what a run remembers of it: a list that grows is counted once."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

from agf_magics.text.length import DEEPEST, FEW
from agf_magics.values.extent import MOST_REMEMBERED, MOST_VISITED, REMEMBERED, Extents, TooDeep, count_parts

MANY = FEW + 5
LONG = [[n] for n in range(1_000)]
PAIR = {"a": 1, "b": [2, 3]}
VALUES = {
    "no container": 7,
    "nothing": [],
    "atoms": [1, "two", None],
    "many atoms": [0] * MANY,
    "many kinds of atoms": [0, "x"] * MANY,
    "many rows": [{"a": 1, "b": 2}] * MANY,
    "many lists": [[1, 2]] * MANY,
    "many empty lists": [[]] * MANY,
    "many lists of lists": [[[1], 2]] * MANY,
    "many rows with lists": [PAIR] * MANY,
    "rows and lists": [{"a": 1}, [2]] * MANY,
    "atoms and lists": [1, [2]] * MANY,
    "a long object": {f"k{n}": [n] for n in range(MANY)},
    "a long object in an object": {"one": {f"k{n}": n for n in range(MANY)}, "two": PAIR},
    "the same list in two places": [LONG, {"again": LONG}],
    "levels": [[[[[[1], 2], 3]]], {"x": {"y": {"z": [0] * MANY}}}],
}


def counted(value: Any) -> int:
    """The number of parts, by a walk that remembers nothing."""
    parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return len(parts) + sum(map(counted, parts))


@pytest.mark.parametrize("name", VALUES)
def test_each_part_counts_in_each_place(name: str) -> None:
    assert count_parts(VALUES[name]) == counted(VALUES[name])


@pytest.mark.parametrize(
    "value", [(1, (2, 3)), [(1, [2])] * MANY, OrderedDict(a=(1, 2), b=OrderedDict(c=1)), [OrderedDict(a=[1])]]
)
def test_tuples_and_subclasses_have_parts_until_a_value_is_settled(value: Any) -> None:
    assert count_parts(value, is_settled=False) == counted(value)


@pytest.mark.parametrize("inner", [1, [1], [0] * MANY, [[1]] * MANY, {"a": {}}])
def test_a_value_has_a_largest_number_of_levels(inner: Any) -> None:
    levels = DEEPEST - _levels(inner)
    assert count_parts(_nested(inner, levels)) == levels + counted(inner)
    with pytest.raises(TooDeep, match="nests deeper"):
        count_parts(_nested(inner, levels + 1))


def _levels(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if parts is None else 1 + max(map(_levels, parts), default=0)


def _nested(value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value]
    return value


def checked(*values: Any) -> Extents:
    extents = Extents()
    for value in values:
        extents.check(value)
    return extents


def test_a_run_visits_a_large_value_once() -> None:
    extents = checked(LONG)
    visits = extents.visits
    extents.check({"again": LONG, "more": [LONG, LONG]})
    assert extents.visits - visits < REMEMBERED
    assert checked([1]).remembered([1]) is None, "a small value is as quick to count again"


SHORT, LONGER = [[1]], [[0, 1]] * (REMEMBERED + 1)
JOINED = {
    "a part after it": (LONG, SHORT, True),
    "a part before it": (SHORT, LONG, True),
    "deeper parts": (LONG, [[[[1]]]], True),
    "atoms": (LONG, [1, 2], True),
    "nothing": (LONG, [], True),
    "as many as a run remembers": (LONG, LONGER[:-1], True),
    "more than it remembers": (LONG, LONGER, False),
    "neither is remembered": (SHORT, [2], False),
    "a part that is too deep": (LONG, _nested(1, DEEPEST + 1), False),
}


@pytest.mark.parametrize("case", JOINED)
def test_a_list_that_grows_is_counted_from_what_it_was(case: str) -> None:
    first, second, is_known = JOINED[case]
    extents, whole = checked(LONG), first + second
    visits = extents.visits
    extents.joined(whole, first, second)
    remembered = extents.remembered(whole)
    assert remembered == ((counted(whole), _levels(whole)) if is_known else None)
    if is_known:
        extents.check(whole)
        assert extents.visits - visits <= 4 * REMEMBERED, "the long list is not visited again"


def test_a_run_forgets_the_value_that_it_has_not_used_for_longest() -> None:
    values = [[n] * 100 for n in range(MOST_REMEMBERED + 1)]
    extents = checked(*values[:-1])
    extents.check(values[0])
    extents.check(values[-1])
    known = [n for n, value in enumerate(values) if extents.remembered(value) is not None]
    assert known == [n for n in range(MOST_REMEMBERED + 1) if n != 1]


def test_a_run_remembers_few_values_that_are_very_large() -> None:
    half, largest = [0] * (MOST_VISITED // 2 + 1), [0] * (MOST_VISITED + 1)
    values, known = [half, [*half, 1], LONG, largest], list[str]()
    extents = Extents()
    for value in values:
        extents.check(value)
        known.append("".join(str(n) for n, one in enumerate(values) if extents.remembered(one) is not None))
    assert known == ["0", "1", "12", "3"], "the last one is remembered, whatever its size"
