"""The difference of two values or texts: exact for small ones, bounded for any size."""

from __future__ import annotations

import copy
from typing import Any

import pandas as pd
import pytest

from agf_magics.pictures import difference
from agf_magics.pictures.difference import (
    MISSING,
    diff_html,
    diff_text,
    find_differences,
    shorten_pair,
    text_difference,
)


@pytest.mark.parametrize(
    ("first", "other", "expected"),
    [
        (1, 1, []),
        (1, True, [("", 1, True)]),
        (1, 1.0, [("", 1, 1.0)]),
        (float("nan"), float("nan"), []),
        ({"a": {"b c": 1}}, {"a": {"b c": None}}, [(".a['b c']", 1, None)]),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
        ([1, 2], [1], [("[1]", 2, MISSING)]),
        ({}, {"new": []}, [(".new", MISSING, [])]),
        ([{}], [[]], [("[0]", {}, [])]),
    ],
)
def test_the_parts_that_differ_are_found(first: Any, other: Any, expected: list[Any]) -> None:
    assert list(find_differences(first, other)) == expected


FRAME = pd.DataFrame({"a": [1, 2]})


@pytest.mark.parametrize("value", [FRAME, FRAME["a"], FRAME.to_numpy(), pd.NA])
def test_a_value_without_a_truth_is_compared_by_what_it_is(value: Any) -> None:
    assert list(find_differences({"a": value}, {"a": value})) == []
    other = copy.deepcopy(FRAME)
    ((path, _, _),) = find_differences([FRAME], [other])
    assert path == "[0]"


def test_deep_and_large_values_end() -> None:
    deep: Any = 1
    other: Any = 2
    for _ in range(800):
        deep, other = [deep], [other]
    ((path, _, _),) = find_differences(deep, other)
    assert path == "[0]" * difference.MOST_DEEP
    same = [0] * (difference.MOST_PARTS + 5)
    assert [path for path, *_ in find_differences(same, [*same[:-1], 1])] == [""]


def test_a_long_text_is_shown_from_its_first_difference() -> None:
    first, other = shorten_pair("x" * 5_000_000 + "pear", "x" * 5_000_000 + "plum")
    assert "pear" in first
    assert "plum" in other
    assert max(len(first), len(other)) < 40


def test_a_diff_has_the_line_numbers_of_the_texts() -> None:
    lines = [f"line {n}" for n in range(1, 41)]
    edited = [*lines[:19], "new", *lines[20:]]
    lines_shown = text_difference("p", "\n".join(lines), "\n".join(edited)).split("\n")
    assert lines_shown[2] == "@@ -17,7 +17,7 @@"
    assert lines_shown[6:8] == ["-line 20", "+new"]


def test_a_text_that_only_one_run_has_is_added_or_removed() -> None:
    assert text_difference("p", None, "a\nb") == "--- nothing\n+++ p of the other run\n@@ -0,0 +1,2 @@\n+a\n+b\n"
    assert text_difference("p", "a", None).startswith("--- p\n+++ nothing\n@@")
    assert text_difference("p", None, None) == ""


def test_texts_that_are_too_large_to_match_are_replaced_as_a_whole() -> None:
    first = "\n".join(["same", *(str(n % 100) for n in range(30_000)), "end"])
    other = "\n".join(["same", *(str(n * 7 % 101) for n in range(30_000)), "end"])
    diff = text_difference("p", first, other)
    assert diff.startswith("--- p\n+++ p of the other run\n@@ line ")
    assert "-same" not in diff
    assert "-end" not in diff
    assert len(diff_text(diff).split("\n")) == difference.MOST_SHOWN + 1
    assert len(diff_html(diff)) < 100_000


def test_a_diff_is_escaped_and_plain() -> None:
    page = diff_html(text_difference("<p>", "a", "<script>\u202e"))
    assert "<script>" not in page
    assert "<p>" not in page
    assert "&lt;script&gt;\\u202e" in page


def test_deep_mappings_end_too() -> None:
    deep: Any = 1
    other: Any = 2
    for _ in range(60):
        deep, other = {"a": deep}, {"a": other}
    ((path, _, _),) = find_differences(deep, other)
    assert path == ".a" * difference.MOST_DEEP


@pytest.mark.parametrize(
    ("first", "other", "expected"),
    [
        ("pear", "plum", ('"pear"', '"plum"')),
        ("p" * 60, "q" * 60, ('"' + "p" * 60 + '"', '"' + "q" * 60 + '"')),
        ("x" * 100 + "a", "x" * 100 + "b", ('…"' + "x" * 20 + 'a"', '…"' + "x" * 20 + 'b"')),
        ("x" * 100, "x" * 101, ('…"' + "x" * 20 + '"', '…"' + "x" * 20 + 'x"')),
        ("x" * 10 + "a" * 60, "x" * 10, ('"' + "x" * 10 + "a" * 49 + '…"', '"' + "x" * 10 + '"')),
        ([1, {"a": 2}], {}, ("[1, {a: 2}]", "{}")),
        (1.5, None, ("1.5", "null")),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_two_values_are_shown_from_shortly_before_their_first_difference(
    first: Any, other: Any, expected: tuple[str, str]
) -> None:
    assert shorten_pair(first, other) == expected


def test_each_line_of_a_diff_has_its_colour() -> None:
    page = diff_html("--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same")
    styles = [part.partition('"')[0] for part in page.split('<div style="min-height:1.4em')[1:]]
    dim, added, removed = (
        ";opacity:0.7",
        f";background-color:{difference.TINTS['+']}",
        f";background-color:{difference.TINTS['-']}",
    )
    assert styles == [dim, dim, dim, removed, added, ""]
