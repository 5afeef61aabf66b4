"""The summary of the scores of all rows: means, intervals, labels, and the rows without a value."""

from __future__ import annotations

import math
import random
from statistics import fmean, quantiles
from typing import Any

import pytest

from agf_magics.lifecycle.table_runs.score_table import Scores
from agf_magics.lifecycle.table_runs.scores import (
    FAULTS,
    MOST_DRAWN,
    RESAMPLES,
    ScoredRow,
    ScoreSummary,
    _redrawn,
    interval,
    right_label,
    summarize,
)
from agf_magics.text.diagnostics import Diagnostic

WHY = Diagnostic("score.failed", "it failed")
ERRED = (None, WHY)


def summary_of(values: list[Any], right: list[Any] | None = None) -> tuple[list[Any], ScoreSummary]:
    outcomes = [value if value is ERRED else (value, None) for value in values]
    rows = [ScoredRow(number, label) for number, label in enumerate(right or [None] * len(values))]
    return summarize("s", rows, outcomes, 7)


Fields = dict[str, Any]

SUMMARIES: dict[str, tuple[list[Any], list[Any], Fields]] = {
    # what: the values of the rows, the values that are kept, the summary of the values
    "numbers": ([1, 2.5, 4], [1, 2.5, 4], {"rows": 3, "missing": 0, "median": 2.5, "seed": 7}),
    "booleans": ([True, False, True, True], [True, False, True, True], {"rows": 4, "median": 1.0}),
    "missing ones": ([1, None, 3], [1, None, 3], {"rows": 2, "missing": 1, "median": 2.0}),
    "labels": (["a", "b", "a"], ["a", "b", "a"], {"rows": 3, "labels": {"a": 2, "b": 1}, "mean": None, "median": None}),
    "nothing": ([None, None], [None, None], {"rows": 0, "missing": 2, "mean": None, "median": None, "labels": {}}),
    "no rows": ([], [], {"rows": 0, "missing": 0, "mean": None}),
    "a text among numbers": ([1, "a", 3], [1, None, 3], {"rows": 2, "missing": 1, "median": 2.0, "labels": {}}),
    "a number among texts": (["a", 1, "b"], ["a", None, "b"], {"rows": 2, "labels": {"a": 1, "b": 1}, "mean": None}),
    "as many numbers as texts": (["a", 1], [None, 1], {"rows": 1, "missing": 1, "median": 1.0}),
    "others only": ([[1], {}], [None, None], {"rows": 0, "missing": 2}),
    "failed": ([1, ERRED], [1, None], {"rows": 1, "missing": 1}),
}


@pytest.mark.parametrize("case", SUMMARIES)
def test_a_score_over_all_rows(case: str) -> None:
    values, values_kept, fields = SUMMARIES[case]
    values_found, summary = summary_of(values)
    assert values_found == values_kept
    assert {name: getattr(summary, name) for name in fields} == fields
    numbers = [value for value in values_kept if isinstance(value, int | float)]
    assert (summary.mean and summary.mean.mean) == (sum(numbers) / len(numbers) if numbers else None)


FAULTY: list[tuple[list[Any], int, str]] = [
    ([1, "a"], 1, "the score is text, and those of other rows are numbers"),
    (["a", "b", 1], 2, "the score is a number, and those of other rows are labels"),
    ([1, [2]], 1, "the score is a list"),
    ([1, math.nan], 1, "the score is NaN"),
    ([1, math.inf], 1, "the score is infinite, or too large for a mean"),
    ([1, 10**400], 1, "the score is infinite, or too large for a mean"),
    ([1, 1e308], 1, "the score is infinite, or too large for a mean"),
    ([1, -1e308], 1, "the score is infinite, or too large for a mean"),
    ([1, {1: 2}], 1, "the score is an opaque dict with keys that are not text"),
    ([1, ERRED], 1, "it failed"),
]
"""The values of the rows, the number of the first faulty row, and the message."""


@pytest.mark.parametrize(("values", "row", "message"), FAULTY, ids=lambda value: repr(value)[:30])
def test_a_row_without_a_valid_score_says_why(values: list[Any], row: int, message: str) -> None:
    _, summary = summary_of(values)
    ((number, why),) = summary.faults
    assert (number, why.message) == (row, message)
    if why is not WHY:
        assert why.code == "score.mixed"
        assert why.hint == "return a number or a boolean for each row, or a text (a label) for each"


def test_the_first_rows_with_a_fault_are_listed() -> None:
    _, summary = summary_of([*([ERRED] * (FAULTS + 5)), 1])
    assert [number for number, _ in summary.faults] == list(range(FAULTS))


def test_labels_are_compared_with_those_that_are_right() -> None:
    _, summary = summary_of(["a", "b", "a", None, "a"], ["a", "a", None, "a", "a"])
    assert summary.against == {("a", "a"): 2, ("b", "a"): 1}
    assert (summary.equal, summary.agreement) == (2, 2 / 3)
    _, alone = summary_of(["a"])
    assert (alone.equal, alone.agreement) == (0, None)


# --- intervals ---


def test_rows_that_are_equal_have_no_interval() -> None:
    assert interval([[2.0], [2.0]], 1) == (2.0, 2.0, 2.0)


def test_the_same_seed_gives_the_same_interval() -> None:
    groups = [[number / 39] for number in range(40)]
    first = interval(groups, 1)
    assert first == interval(groups, 1)
    assert first != interval(groups, 2)
    assert first.mean == pytest.approx(0.5)
    assert 0.38 < first.low < 0.43, "1.96 standard errors, which are 0.047"
    assert 0.57 < first.high < 0.62


def test_the_repetitions_of_a_row_do_not_count_as_rows() -> None:
    """Two rows, each with the same value many times, are as uncertain as two rows without repetitions."""
    repeated = interval([[0.0] * 50, [1.0] * 50], 1)
    assert (repeated.mean, repeated.low, repeated.high) == (0.5, 0.0, 1.0)
    assert interval([[0.0, 1.0]] * 50, 1).low > 0.3, "many rows that vary"
    assert interval([[0.0], [3.0, 3.0, 3.0]], 1).mean == 2.25, "each number counts"


def test_the_interval_of_many_rows_is_that_of_their_deviation() -> None:
    many = [[number % 2 + number / 1e6] for number in range(MOST_DRAWN // RESAMPLES + 1)]
    bounds = interval(many, 1)
    assert bounds == interval(many, 2), "no row is drawn"
    half = 1.96 * 0.5 / math.sqrt(len(many))
    assert bounds.high - bounds.mean == pytest.approx(half, rel=1e-3)
    assert bounds.mean - bounds.low == pytest.approx(half, rel=1e-3)
    assert interval(many[:-1], 1) != interval(many[:-1], 2), "one fewer is drawn"


class CountedGroup(list[float]):
    """Numbers that count how often one of them is read."""

    reads = 0

    def __getitem__(self, number: Any) -> Any:
        self.reads += 1
        return super().__getitem__(number)


def test_as_many_numbers_are_drawn_with_repetitions_as_without() -> None:
    groups = [CountedGroup([row % 7 + turn % 3 * 0.1 for turn in range(20)]) for row in range(150)]
    bounds = interval(groups, 1)
    assert bounds == interval(groups, 1)
    assert sum(group.reads for group in groups) * RESAMPLES <= MOST_DRAWN
    every = [fmean(_redrawn(random.Random(seed), groups)) for seed in range(RESAMPLES)]
    assert (bounds.low, bounds.high) == pytest.approx((quantiles(every, n=40)[0], quantiles(every, n=40)[-1]), abs=0.05)


@pytest.mark.parametrize("repetitions", [3, MOST_DRAWN // RESAMPLES + 1])
def test_the_interval_of_one_row_is_that_of_its_repetitions(repetitions: int) -> None:
    bounds = interval([[number % 2 for number in range(repetitions)]], 1)
    assert 0 <= bounds.low < bounds.mean < bounds.high <= 1


# --- the right labels ---


@pytest.mark.parametrize(
    ("right", "label", "text"),
    [(1.0, "1", "1"), (1.0, "2", "1"), (1.0, "1.0", "1.0"), (1.5, "1", "1.5"), (True, "1", "true"), (1, "1", "1"),
     (-2.0, "-2", "-2"), (1e22, "1", "1e+22"), ("1.0", "1", "1.0")],
)  # fmt: skip
def test_a_whole_float_is_the_label_of_its_number(right: Any, label: str, text: str) -> None:
    """pandas makes a column of whole numbers floats, if one is missing."""
    assert right_label(right, label) == text


# --- how scores are shown ---


def test_the_scores_are_a_table_with_their_seed_and_the_first_faults() -> None:
    _, numbers = summary_of([1, 1, 1, *([ERRED] * 4)])
    _, labels = summary_of([*"abbc"], ["a", "a", "b", None])
    text = repr(Scores(s=numbers, t=labels._replace(name="t")))
    assert [line.split() for line in text.splitlines()[-3:-1]] == [
        ["s", "3", "4", "1", "[1,", "1]", "1"],
        ["t", "4", "b:", "2,", "a:", "1,", "c:", "1", "0.667", "of", "3"],
    ]
    assert text.splitlines()[-1] == (
        "seed of the intervals: 7; s, row 3: it failed; s, row 4: it failed; s, row 5: it failed"
    )
    assert repr(Scores()).split()[:2] == ["score", "rows"]
    assert [(name, row) for name, row, _ in Scores(s=numbers).faults] == [("s", 3), ("s", 4), ("s", 5), ("s", 6)]
    assert "seed" not in repr(Scores(t=labels))


@pytest.mark.parametrize(
    ("labels", "right", "equal"),
    [
        (["true", "false", "true"], [True, True, True], 2),
        (["True", "False", "yes"], [True, False, True], 2),
        (["1", "2.5", "x"], [1, 2.5, "x"], 3),
    ],
)
def test_a_label_is_compared_with_a_value_of_any_kind(labels: list[str], right: list[Any], equal: int) -> None:
    rows = [ScoredRow(number, value) for number, value in enumerate(right)]
    _, summary = summarize("s", rows, [(label, None) for label in labels], 1)
    assert summary.equal == equal
