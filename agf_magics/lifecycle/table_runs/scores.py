"""Summarizes scores over all rows: means with intervals, medians, counts of labels.

The interval of a mean comes from a bootstrap over the rows and over the repetitions of each row,
which vary for different reasons (decision D55).
"""

from __future__ import annotations

import random
import secrets
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import fmean, median, pstdev, stdev
from typing import NamedTuple

from ...text.diagnostics import Diagnostic
from ...values.value import Value, type_name

RESAMPLES = 1_000
"""The number of times that the rows are drawn anew for an interval."""

MOST_DRAWN = 2_000_000
"""The most draws for an interval. With more rows the interval follows from the standard deviation,
which is then as exact; with more repetitions the mean of those of a row is drawn at once."""

LARGEST = 1e300
"""The bound of numbers: a float can hold the sum of as many as a table has."""

FAULTS = 100
"""The number of listed rows whose score failed."""


class Interval(NamedTuple):
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


class ScoreSummary(NamedTuple):
    """The summary of one score over all rows."""

    name: str
    rows: int
    """The number of rows that have a value."""
    missing: int
    """The number of rows without one: they failed, or their score could not be computed."""
    mean: Interval | None = None
    """The mean of numbers; a boolean is 0 or 1."""
    median: float | None = None
    labels: Mapping[str, int] = {}
    """The number of rows with each label."""
    against: Mapping[tuple[str, str], int] = {}
    """The number of rows with each pair of a label and the right label, which is in the column
    ``against``."""
    faults: tuple[tuple[int, Diagnostic], ...] = ()
    """The first rows whose score could not be computed, each with its number."""
    seed: int = 0
    """The seed of the interval; 0 for a score of labels, which has none."""

    @property
    def equal(self) -> int:
        """The number of rows whose label is the right one."""
        return sum(count for (label, right), count in self.against.items() if label == right)

    @property
    def agreement(self) -> float | None:
        """The share of right labels among the rows that have one; None: no row has."""
        return self.equal / sum(self.against.values()) if self.against else None


class ScoredRow(NamedTuple):
    """The data of a row that a summary needs."""

    number: int
    right: Value
    """The value of the row in the column of right labels; None: the row has no right label."""


Outcome = tuple[Value, Diagnostic | None]
"""The value of a score; or None, and the problem because of which there is no value."""


def summarize(
    name: str,
    rows: Sequence[ScoredRow],
    outcomes: Sequence[Outcome],
    seed: int | None,
) -> tuple[list[Value], ScoreSummary]:
    """The values of a score as they are kept, and their summary.

    A score has numbers (a boolean is one) or labels, whichever more rows have; where they are
    equally many, it has numbers. A value of the other kind, or of no kind, is dropped with a fault.
    """
    kinds = Counter(_kind(value) for value, _ in outcomes)
    kind = max(("number", "label"), key=lambda kind: kinds[kind])
    values = list[Value]()
    faults = list[tuple[int, Diagnostic]]()
    for row, (value, why) in zip(rows, outcomes, strict=True):
        kind_of_value = _kind(value)
        if kind_of_value not in (kind, "none"):
            message = f"the score is {_value_words(value)}"
            message += f", and those of other rows are {kind}s" if kind_of_value != "other" else ""
            hint = "return a number or a boolean for each row, or a text (a label) for each"
            value, why = None, Diagnostic("score.mixed", message, hint=hint)
        values.append(value)
        if why is not None:
            faults.append((row.number, why))
    missing = values.count(None)
    count = len(values) - missing
    summary = ScoreSummary(name, count, missing, faults=tuple(faults[:FAULTS]))
    if not count:
        return values, summary
    pairs = [(value, row) for value, row in zip(values, rows, strict=True) if value is not None]
    if kind == "label":
        labels = Counter(value for value, _ in pairs)
        against = Counter(
            (value, right_label(row.right, value)) for value, row in pairs if row.right is not None
        )
        return values, summary._replace(labels=dict(labels.most_common()), against=against)
    by_row: dict[int, list[float]] = defaultdict(list)  # the values of a row's repetitions
    for value, row in pairs:
        by_row[row.number].append(float(value))
    seed = secrets.randbits(31) if seed is None else seed
    groups = list(by_row.values())
    middle = median(chain.from_iterable(groups))
    return values, summary._replace(mean=interval(groups, seed), median=middle, seed=seed)


def right_label(right: Value, label: str) -> str:
    """The right label of a row as a text, to be compared with ``label``. A boolean is ``true``, as
    definitions write it, or ``True`` beside a label with a capital letter. A whole float is a whole
    number: pandas makes a column of them floats if one is missing.

    >>> right_label(True, "false"), right_label(True, "False"), right_label(1.5, "2")
    ('true', 'True', '1.5')
    >>> right_label(2.0, "2"), right_label(2.0, "2.0")
    ('2', '2.0')
    """
    text = str(right)
    if isinstance(right, float) and text != label:
        text = text.removesuffix(".0")
    return text if not isinstance(right, bool) or label[:1].isupper() else text.lower()


def _kind(value: Value) -> str:
    if isinstance(value, str):
        return "label"
    if value is None:
        return "none"
    return "number" if _is_finite(value) else "other"


def _is_finite(value: Value) -> bool:
    """Whether ``value`` is a number of which a mean can be taken."""
    return isinstance(value, int | float) and -LARGEST < value < LARGEST


def _value_words(value: Value) -> str:
    if isinstance(value, int | float) and not _is_finite(value):
        return "NaN" if value != value else "infinite, or too large for a mean"
    return type_name(value)


def interval(groups: Sequence[Sequence[float]], seed: int) -> Interval:
    """The mean of numbers in groups, and its 95 % interval: groups are drawn anew, and the numbers
    in each.

    >>> interval([[1.0], [1.0], [0.0], [1.0]], 7).mean
    0.75
    """
    means = list(map(fmean, groups))
    mean = fmean(number for group in groups for number in group)
    if len(groups) * RESAMPLES > MOST_DRAWN:
        half = 1.96 * stdev(means) / len(means) ** 0.5
        return Interval(mean, mean - half, mean + half)
    draw = random.Random(seed)
    numbers = sum(map(len, groups))
    if numbers == len(groups):
        drawn = [fmean(draw.choices(means, k=len(means))) for _ in range(RESAMPLES)]
    elif numbers * RESAMPLES <= MOST_DRAWN:
        drawn = [fmean(_redrawn(draw, groups)) for _ in range(RESAMPLES)]
    else:
        errors = [pstdev(group) / len(group) ** 0.5 for group in groups]
        repeated = list(zip(means, errors, map(len, groups), strict=True))
        drawn = [_redrawn_mean(draw, repeated) for _ in range(RESAMPLES)]
    drawn.sort()
    return Interval(mean, drawn[RESAMPLES * 25 // 1000], drawn[RESAMPLES * 975 // 1000 - 1])


def _redrawn(draw: random.Random, groups: Sequence[Sequence[float]]) -> list[float]:
    """A resample: as many groups drawn at random, and from each group as many numbers."""
    chosen = draw.choices(groups, k=len(groups))
    return [number for group in chosen for number in draw.choices(group, k=len(group))]


def _redrawn_mean(draw: random.Random, groups: Sequence[tuple[float, float, int]]) -> float:
    """The mean of such a resample. Each group is the mean of its numbers, the standard error of
    that mean, and their count: the mean of many drawn numbers has a normal distribution."""
    chosen = draw.choices(groups, k=len(groups))
    total = sum(draw.gauss(mean, error) * count for mean, error, count in chosen)
    return total / sum(count for *_, count in chosen)
