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
    slip_of,
    spend_comparisons,
    suggest,
)

KINDS = ["transform", "tool", "for_each"]

NEAR: dict[str, tuple[str, Sequence[str], str | None]] = {
    "two letters in the wrong order": ("transfrom", KINDS, "transform"),
    "another case": ("Tool", KINDS, "tool"),
    "another case and a letter less": ("Step", ["steps", "pipeline"], "steps"),
    "capitals and two letters in the wrong order": ("TRANSFROM", KINDS, "transform"),
    "another case and little in common": ("Ship", ["steps"], None),
    "another sign": ("for-each", KINDS, "for_each"),
    "more signs": ("__tool__", KINDS, "tool"),
    "the end of a path": ("steps.tool", KINDS, "tool"),
    "the beginning of a path": ("tool.name", KINDS, "tool"),
    "behind a bracket": ("items[tool", KINDS, "tool"),
    "the word itself": ("tool", KINDS, None),
    "one letter more": ("tools", KINDS, "tool"),
    "no similar word": ("banana", KINDS, None),
    "an empty word": ("", KINDS, None),
    "no choices": ("tol", [], None),
    "several that differ only in case": ("AB", ["ab", "Ab", "aB"], "Ab"),
    "two letters in common": ("round", ["count"], None),
    "one letter less": ("colour", ["count", "color"], "color"),
    "another first letter": ("xolor", ["color"], "color"),
    "the same beginning": ("route", ["round"], "round"),
    "the same middle": ("route", ["xoutd"], None),
    "the same first word": ("price_eur", ["price_usd"], "price_usd"),
    "another first letter and another last word": ("price_eur", ["xrice_usd"], None),
    "only signs": ("?", ["!"], None),
    "the longest word": ("x" * LONGEST_WORD, ["x" * LONGEST_WORD + "y"], "x" * LONGEST_WORD + "y"),
    "a longer word": ("x" * (LONGEST_WORD + 1), ["x" * (LONGEST_WORD + 1) + "y"], None),
    "too long a choice": ("x" * LONGEST_WORD, ["x" * (2 * LONGEST_WORD + 1)], None),
}
"""A word, the choices, and the choice that the word probably means."""


@pytest.mark.parametrize(("word", "choices", "near"), NEAR.values(), ids=NEAR)
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
    ids=[
        "no similar word",
        "the only choice is meant",
        "one of two choices is meant",
        "no choices",
        "a choice with a newline",
        "twenty choices",
        "more than twenty choices",
    ],
)
def test_all_choices_are_named_with_their_kind(word: str, choices: list[str], hint: str | None) -> None:
    assert suggest(word, choices, "kinds") == hint


def test_names_that_differ_in_their_last_letter_are_two_names() -> None:
    assert slip_of("solution", ["solutios"]) is None
    assert slip_of("solution", ["solxtion"]) == "solxtion"


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
    ids=["none", "only empty ones", "one is missing", "a question first"],
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


def test_the_least_similarity_is_set_by_the_caller() -> None:
    assert nearest("abcd", ["abxy"], 0.5) == "abxy"
    assert nearest("abcd", ["abxy"], 0.6) is None
    assert nearest("abcd", ["abcx", "abxy"], 0.5) == "abcx"
