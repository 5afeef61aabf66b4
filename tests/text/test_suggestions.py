"""Tests of the suggestions for misspelled words, and of the number of comparisons."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agf_magics.text.suggestions import (
    COMPARED,
    LONGEST_WORD,
    join_hints,
    misspelled_names,
    nearest,
    share_suggestion_budget,
    spend_comparisons,
    suggest,
)

KINDS = ["transform", "tool", "for_each"]

NEAR: list[tuple[str, Sequence[str], str | None]] = [
    ("transfrom", KINDS, "transform"),
    ("Tool", KINDS, "tool"),
    ("for-each", KINDS, "for_each"),
    ("__tool__", KINDS, "tool"),
    ("steps.tool", KINDS, "tool"),
    ("tool.name", KINDS, "tool"),
    ("items[tool", KINDS, "tool"),
    ("tool", KINDS, None),
    ("tools", KINDS, "tool"),
    ("banana", KINDS, None),
    ("", KINDS, None),
    ("tol", [], None),
    ("AB", ["ab", "Ab", "aB"], "Ab"),
    ("round", ["count"], None),
    ("colour", ["count", "color"], "color"),
    ("xolor", ["color"], "color"),
    ("route", ["round"], "round"),
    ("route", ["xoutd"], None),
    ("price_eur", ["price_usd"], "price_usd"),
    ("price_eur", ["xrice_usd"], None),
    ("?", ["!"], None),
    ("x" * LONGEST_WORD, ["x" * LONGEST_WORD + "y"], "x" * LONGEST_WORD + "y"),
    ("x" * (LONGEST_WORD + 1), ["x" * (LONGEST_WORD + 1) + "y"], None),
    ("x" * LONGEST_WORD, ["x" * (2 * LONGEST_WORD + 1)], None),
]


@pytest.mark.parametrize(("word", "choices", "near"), NEAR, ids=lambda value: repr(value)[:30])
def test_a_word_may_mean(word: str, choices: Sequence[str], near: str | None) -> None:
    assert suggest(word, choices) == (near and f"did you mean {near}?")


def test_a_choice_that_is_there_already_is_not_meant() -> None:
    assert suggest("tol", KINDS, given=["tool"]) is None
    assert suggest("tol", KINDS, given=["other"]) == "did you mean tool?"


@pytest.mark.parametrize(
    ("word", "choices", "hint"),
    [
        ("banana", ["tool"], "kinds are tool"),
        ("tol", ["tool"], "did you mean tool?"),
        ("tol", ["tool", "agent"], "did you mean tool? kinds are tool, agent"),
        ("banana", [], None),
        ("banana", ["a\nb"], "kinds are 'a\\nb'"),
        ("banana", [f"n{n}" for n in range(20)], "kinds are " + ", ".join(f"n{n}" for n in range(20))),
        ("banana", [f"n{n}" for n in range(22)], "kinds are " + ", ".join(f"n{n}" for n in range(20)) + " and 2 more"),
    ],
)
def test_all_choices_are_named_with_their_kind(word: str, choices: list[str], hint: str | None) -> None:
    assert suggest(word, choices, "kinds") == hint


def test_a_name_that_is_misspelled_is_not_missing_too() -> None:
    assert misspelled_names(["tol", "banana"], iter(KINDS)) == {"tool"}
    assert misspelled_names([], KINDS) == set()


@pytest.mark.parametrize(
    ("parts", "hint"),
    [
        ((), None),
        ((None, ""), None),
        (("a", None, "b"), "a; b"),
        (("did you mean a?", "names are b"), "did you mean a? names are b"),
    ],
)
def test_several_hints_are_one(parts: tuple[str | None, ...], hint: str | None) -> None:
    assert join_hints(*parts) == hint


def test_names_are_compared_within_one_budget() -> None:
    assert spend_comparisons(COMPARED)
    assert not spend_comparisons(COMPARED + 1)
    with share_suggestion_budget():
        assert spend_comparisons(COMPARED - 10)
        assert not spend_comparisons(11)
        assert spend_comparisons(10)
        assert not spend_comparisons(1)
        assert suggest("tol", KINDS) is None
        assert nearest("tol", KINDS, 0.5) is None
    assert suggest("tol", KINDS) == "did you mean tool?"


def test_what_is_near_enough_is_said_by_the_caller() -> None:
    assert nearest("abcd", ["abxy"], 0.5) == "abxy"
    assert nearest("abcd", ["abxy"], 0.6) is None
    assert nearest("abcd", ["abcx", "abxy"], 0.5) == "abcx"
