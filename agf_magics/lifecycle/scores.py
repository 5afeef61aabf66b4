"""Scores of the rows of a run over data: functions, flows that judge, evaluators of pydantic-evals.

A score is computed after the rows have run, so that a new one needs no new run. A function is called
here; a flow is run over the rows by the same engine, with a journal of its own: a judge that is a
model is paid for once.

The interval of a mean is that of a bootstrap over rows, and over the repetitions of each: the two
vary for different reasons (decision D55).
"""

from __future__ import annotations

import inspect
import random
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

from ..catalog import Registry, default
from ..engine.failures import describe_exception
from ..flow.steps import Flow
from ..flow.values import Value, settle, type_name
from ..pictures.values import table_html, table_text
from ..text.diagnostics import DefinitionError, Diagnostic, suggest
from .launch import find_flow, run
from .over import Over
from .table import RowTable, TableRow

RESAMPLES = 1_000
"""How often the rows are drawn anew for an interval."""

MOST_DRAWN = 2_000_000
"""The most draws for an interval; for more rows it follows from their deviation, which is then as
exact."""

FAULTS = 100
"""Rows whose score could not be computed that are listed."""

Score = Callable[..., Value] | Flow | str
"""A function of the output and the row, a flow or its name, an evaluator of pydantic-evals."""


class Interval(NamedTuple):
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


class ScoreSummary(NamedTuple):
    """What the values of one score are over all rows."""

    name: str
    rows: int
    """The number of rows that have a value."""
    missing: int
    """The number of rows without one: they failed, or their score could not be computed."""
    mean: Interval | None = None
    """Of numbers; a boolean is 0 or 1."""
    median: float | None = None
    labels: Mapping[str, int] = {}
    """How often each label was given."""
    against: Mapping[tuple[str, str], int] = {}
    """How often each label was given where a column has a value."""
    faults: tuple[tuple[int, Diagnostic], ...] = ()
    """The first rows whose score could not be computed, each with its number."""
    seed: int = 0
    """Of the interval."""

    @property
    def agreement(self) -> float | None:
        """The share of labels that are those of the column; None: it is not compared."""
        total = sum(self.against.values())
        return sum(n for (a, b), n in self.against.items() if a == b) / total if total else None


class Scores(dict[str, ScoreSummary]):
    """The summaries by the names of the scores."""

    def _rows(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        columns = ("score", "rows", "missing", "mean [95 %]", "median", "labels", "agreement")
        rows = tuple(
            (
                one.name,
                f"{one.rows:,}",
                f"{one.missing:,}" if one.missing else "",
                str(one.mean) if one.mean is not None else "",
                f"{one.median:.3g}" if one.median is not None else "",
                ", ".join(f"{label}: {n:,}" for label, n in list(one.labels.items())[:10]),
                f"{one.agreement:.3g}" if one.agreement is not None else "",
            )
            for one in self.values()
        )
        return columns, rows

    @property
    def faults(self) -> list[tuple[str, int, Diagnostic]]:
        """The rows whose score could not be computed: the score, the number, why."""
        return [(one.name, row, why) for one in self.values() for row, why in one.faults]

    def _about(self) -> str:
        seeds = ", ".join(str(one.seed) for one in self.values() if one.mean is not None)
        faults = self.faults
        first = "".join(f"; {name}, row {row:,}: {why.message}" for name, row, why in faults[:3])
        return (f"seed of the intervals: {seeds}" if seeds else "") + first

    def _repr_html_(self) -> str:
        from ..pictures.plain import html

        return table_html(*self._rows(), html(self._about()))

    def __repr__(self) -> str:
        return "\n".join(filter(None, [*table_text(*self._rows()), self._about()]))


def score_table(
    table: RowTable,
    scores: Sequence[Score],
    *,
    against: str | None = None,
    seed: int | None = None,
    registry: Registry | None = None,
    yes: bool = False,
) -> Scores:
    """Add a column for each score to ``table``, and return what they are over all rows.

    - ``against``: the column with the right labels. Default None: none.
    - ``seed``: the seed of the intervals. Default None: a new one, which is shown.
    - ``registry``: where flows are looked up. Default None: the registry of this process.
    - ``yes``: whether a flow goes on after 20 rows without asking. Default False.

    Raises DefinitionError for a score that is none, before one is computed.
    """
    registry, rows = registry or default(), list(table.rows())
    if against is not None and against not in table.terms.columns:
        hint = suggest(against, table.terms.columns, "the columns")
        message = f"the table has no column {against!r}"
        raise DefinitionError(Diagnostic("over.column", message, hint=hint))
    named = named_scorers(scores, registry, yes)
    summaries, taken = Scores(), {*table.columns} - {*table.scores}
    for name, scorer in named:
        outcomes = scorer(rows)
        for key in dict.fromkeys(k for value, _ in outcomes for k in _keys(value)) or [""]:
            column = f"{name}.{key}" if key else name
            column = f"score.{column}" if column in taken else column
            values = [
                (value.get(key) if key and isinstance(value, dict) else None if key else value, why)
                for value, why in outcomes
            ]
            kept, summary = _summary(column, rows, values, against, seed)
            table.add_column(column, kept)
            summaries[column] = summary
    return summaries


Outcome = tuple[Value, Diagnostic | None]
"""The value of a score, and why there is none."""

Scorer = Callable[[Sequence[TableRow]], list[Outcome]]


def named_scorers(
    scores: Sequence[Score], registry: Registry, yes: bool = False
) -> list[tuple[str, Scorer]]:
    """The scores with their names. Raises DefinitionError for one that is none: before a run, so
    that nothing was paid for."""
    return [(_name(score), _scorer(score, registry, yes)) for score in scores]


def _keys(value: Value) -> Iterator[str]:
    return iter(value if isinstance(value, dict) else ())


def _name(score: object) -> str:
    if isinstance(score, str):
        return score
    name = getattr(score, "name", None) or getattr(score, "__name__", None)
    return str(name) if isinstance(name, str) else type(score).__name__


def _scorer(score: object, registry: Registry, yes: bool) -> Scorer:
    evals: Any = sys.modules.get("pydantic_evals.evaluators")
    if evals is not None and isinstance(score, evals.Evaluator):
        return lambda rows: [_of_row(row, lambda r: _evaluated(evals, score, r)) for row in rows]
    if isinstance(score, str | Flow):
        flow = find_flow(score, registry)
        return lambda rows: _judged(flow, rows, registry, yes)
    if not callable(score) or inspect.iscoroutinefunction(score):
        message = f"{_name(score)!r} is no score: it is {type_name(score)}"
        hint = "a function f(output, row), a flow that judges, or an Evaluator of pydantic-evals"
        raise DefinitionError(Diagnostic("score.kind", message, hint=hint))
    both = _takes_both(score)
    return lambda rows: [
        _of_row(row, lambda r: score(r.output, dict(r.input)) if both else score(r.output))
        for row in rows
    ]


def _takes_both(score: Callable[..., Value]) -> bool:
    try:
        inspect.signature(score).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # a function of C without a signature
        return True
    return True


def _of_row(row: TableRow, call: Callable[[TableRow], Value]) -> Outcome:
    if row.status != "ok":
        return None, None
    try:
        value = settle(call(row))
    except Exception as error:  # code of the user
        message = f"the score failed: {describe_exception(error)}"
        return None, Diagnostic("score.failed", message, hint="the other rows have their scores")
    return value, None


def _judged(flow: Flow, rows: Sequence[TableRow], registry: Registry, yes: bool) -> list[Outcome]:
    """The values of a flow that gets the output as ``output``, the row as ``row``, and the columns
    of the row by their names."""
    done = [row for row in rows if row.status == "ok"]
    if not done:
        return [(None, None)] * len(rows)
    given = [{**row.input, "output": row.output, "row": dict(row.input)} for row in done]
    judged = run(flow, over=Over(table=given, yes=yes), registry=registry)
    values = iter(judged.table.rows())
    outcomes = list[Outcome]()
    for row in rows:
        judgement = next(values) if row.status == "ok" else None
        error = judgement.error if judgement is not None else None
        output = judgement.output if judgement is not None else None
        outcomes.append((output, error.diagnostic if error is not None else None))
    return outcomes


def _evaluated(evals: Any, evaluator: Any, row: TableRow) -> Value:
    context = evals.EvaluatorContext(
        name=str(row.number),
        inputs=dict(row.input),
        metadata=row.input.get("metadata"),
        expected_output=row.input.get("expected_output"),
        output=row.output,
        duration=row.seconds or 0.0,
        _span_tree=None,
        attributes={},
        metrics={},
    )
    found = evaluator.evaluate_sync(context)
    return {k: _plain(v) for k, v in found.items()} if isinstance(found, Mapping) else _plain(found)


def _plain(result: Any) -> Value:
    """The value of an `EvaluationReason`."""
    return getattr(result, "value", result)


def _summary(
    name: str,
    rows: Sequence[TableRow],
    outcomes: Sequence[Outcome],
    against: str | None,
    seed: int | None,
) -> tuple[list[Value], ScoreSummary]:
    """The values of a score as they are kept, and their summary. A text among numbers is no value,
    nor is anything but a number, a boolean or a text."""
    kinds = Counter(_kind(value) for value, _ in outcomes if value is not None)
    kind = max(("number", "label"), key=lambda each: kinds[each])
    kept, faults = list[Value](), list[tuple[int, Diagnostic]]()
    for row, (value, why) in zip(rows, outcomes, strict=True):
        if value is not None and _kind(value) != kind:
            message = f"the score is {type_name(value)}, and those of other rows are {kind}s"
            hint = "return a number or a boolean for each row, or a text (a label) for each"
            value, why = None, Diagnostic("score.mixed", message, hint=hint)
        kept.append(value)
        if why is not None:
            faults.append((row.number, why))
    count = sum(value is not None for value in kept)
    summary = ScoreSummary(name, count, len(kept) - count, faults=tuple(faults[:FAULTS]))
    if not count:
        return kept, summary
    if kind == "label":
        labels = Counter(str(value) for value in kept if value is not None)
        pairs = Counter(
            (str(value), str(row.input.get(against)))
            for row, value in zip(rows, kept, strict=True)
            if value is not None and against is not None
        )
        return kept, summary._replace(labels=dict(labels.most_common()), against=pairs)
    numbers = [float(value) for value in kept if value is not None]
    seed = secrets.randbits(31) if seed is None else seed
    groups = _by_row(rows, kept)
    mean = interval(groups, seed)
    return kept, summary._replace(mean=mean, median=median(numbers), seed=seed)


def _kind(value: Value) -> str:
    if isinstance(value, str):
        return "label"
    return "number" if isinstance(value, int | float) and value == value else "other"


def _by_row(rows: Iterable[TableRow], values: Iterable[Value]) -> list[list[float]]:
    """The numbers of each row: those of its repetitions."""
    pairs = ((row.number, value) for row, value in zip(rows, values, strict=True))
    grouped = groupby(((n, v) for n, v in pairs if v is not None), key=lambda pair: pair[0])
    return [[float(value) for _, value in group] for _, group in grouped]


def interval(groups: Sequence[Sequence[float]], seed: int) -> Interval:
    """The mean of numbers in groups, and its 95 % interval: groups are drawn anew, and the numbers
    in each.

    >>> interval([[1.0], [1.0], [0.0], [1.0]], 7).mean
    0.75
    """
    means = [fmean(group) for group in groups]
    mean = fmean(number for group in groups for number in group)
    if len(groups) * RESAMPLES > MOST_DRAWN:
        half = 1.96 * stdev(means) / len(means) ** 0.5
        return Interval(mean, mean - half, mean + half)
    draw = random.Random(seed)
    single = all(len(group) == 1 for group in groups)
    drawn = [
        fmean(draw.choices(means, k=len(means)) if single else _redrawn(draw, groups))
        for _ in range(RESAMPLES)
    ]
    drawn.sort()
    return Interval(mean, drawn[RESAMPLES * 25 // 1000], drawn[RESAMPLES * 975 // 1000 - 1])


def _redrawn(draw: random.Random, groups: Sequence[Sequence[float]]) -> list[float]:
    """As many groups drawn anew, and of each as many numbers."""
    chosen = draw.choices(groups, k=len(groups))
    return [number for group in chosen for number in draw.choices(group, k=len(group))]
