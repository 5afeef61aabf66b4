"""The rows of a run are scored, by functions, by flows that judge, by evaluators of pydantic-evals,
and a flow is checked over data: each score must be high enough.

A score is computed after the rows have run, so that a new one needs no new run. A function is called
here; a flow is run over the rows by the same engine, with a journal of its own: a judge that is a
model is paid for once.

In a check, for tests and CI, a row without a value counts as 0: a flow that fails on half of the
rows must not pass because the other half is right.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ..catalog import Registry, default
from ..engine.failures import describe_exception
from ..engine.limits import Limits
from ..flow.steps import Flow
from ..flow.values import Value, as_json, settle, type_name
from ..pictures.plain import html
from ..pictures.values import cell_text, table_html
from ..text.diagnostics import (
    UNUSABLE,
    AgfError,
    DefinitionError,
    Diagnostic,
    path_error_reason,
    suggest,
)
from . import launch
from .launch import Run, find_flow, run
from .over import Over
from .past_run import PastRun, find_past_run
from .scores import Known, Outcome, Scores, summarize
from .table import FIGURES, RowTable, TableRow, check_target

Score = Callable[..., Value] | Flow | str
"""A function of the output and the row, a flow or its name, an evaluator of pydantic-evals."""


def score_over(
    run: Run | PastRun | RowTable | str,
    *scores: Score,
    against: str | None = None,
    seed: int | None = None,
    registry: Registry | None = None,
    yes: bool = False,
) -> Scores:
    """Score the rows of a run over data: add a column for each score to ``run.table``, and return
    what they are over all rows.

    Parameters:

    - ``run``: a run over data, its id, or its table. Required.
    - ``scores``: functions of the output and the row (or of the output alone); flows, or their
      names, that get ``output``, ``row`` and the columns; evaluators of pydantic-evals. A score is
      a number, a boolean, a text (a label), None, or a mapping of such values. Required.
    - ``against``: the column with the right labels. Default None: none.
    - ``seed``: the seed of the intervals. Default None: a new one, which is shown.
    - ``registry``: the `Registry` to look flows up in. Default None: the registry of this process.
    - ``yes``: whether a flow that judges goes on after 20 rows without asking. Default False.

    Raises DefinitionError for a score that is none, before one is computed.
    """
    table = table_of(run)
    registry, rows = default(registry), list(table.rows())
    names = [*table.terms.columns, *table.added]
    if against is not None and against not in names:
        hint = suggest(against, names, "the columns")
        message = f"the table has no column {against!r}"
        raise DefinitionError(Diagnostic("over.column", message, hint=hint))
    right = [row.get(against) for row in table] if against is not None else [None] * len(rows)
    known = [
        Known(row.number, None if label is None else str(label))
        for row, label in zip(rows, right, strict=True)
    ]
    named = named_scorers(scores, registry, yes)
    summaries, taken = Scores(), {*table.columns} - {*table.added} | {table.label_column}
    for name, scorer in named:
        # A score that is one value has one column, without a name of its own.
        parts = [
            (value if isinstance(value, dict) and value else {"": value}, why)
            for value, why in scorer(rows)
        ]
        keys = dict.fromkeys(chain.from_iterable(mapping for mapping, _ in parts))
        if len(keys) > 1:
            keys.pop("", None)  # of rows that failed
        for key in keys:
            column = ".".join(filter(None, (name, key)))
            column = f"score.{column}" if column in taken else column
            values = [(mapping.get(key), why) for mapping, why in parts]
            kept, summary = summarize(column, known, values, seed)
            table.add_column(column, kept)
            summaries[column] = summary
    table.scores.update(summaries)
    return summaries


Scorer = Callable[[Sequence[TableRow]], list[Outcome]]


def named_scorers(
    scores: Sequence[Score], registry: Registry, yes: bool = False
) -> list[tuple[str, Scorer]]:
    """The scores with their names. Raises DefinitionError for one that is none: before a run, so
    that nothing was paid for."""
    return [(_name(score), _scorer(score, registry, yes)) for score in scores]


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
        message = f"{_name(score)!r} is not a score: it is {type_name(score)}"
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
    except (TypeError, ValueError):  # or a function of C whose signature is not known
        return False
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
    outcomes: list[Outcome] = [(None, None)] * len(rows)
    done = {place: row for place, row in enumerate(rows) if row.status == "ok"}
    if done:
        table = [
            {**row.input, "output": row.output, "row": dict(row.input)} for row in done.values()
        ]
        judged = launch.run(flow, over=Over(table=table, yes=yes), registry=registry)
        for place, judgement in zip(done, judged.table.rows(), strict=True):
            error = judgement.error
            outcomes[place] = judgement.output, error.diagnostic if error is not None else None
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
    result = evaluator.evaluate_sync(context)
    if isinstance(result, Mapping):
        return {name: _plain(value) for name, value in result.items()}
    return _plain(result)


def _plain(result: Any) -> Value:
    """The value of an `EvaluationReason`."""
    return getattr(result, "value", result)


def table_of(run: Run | PastRun | RowTable | str) -> RowTable:
    """The table of a run over data. Raises DefinitionError."""
    run = find_past_run(run) if isinstance(run, str) else run
    return run if isinstance(run, RowTable) else run.table


OK = "ok"
"""The name of the share of rows that did not fail, which every check has."""

LONGEST_CELL = 2_000
"""Characters of a value in a report."""

MOST_ROWS = 1_000
"""Rows that did not succeed, or whose score is low, that a report lists."""


class CheckFailed(AgfError, AssertionError):
    """A score of a check is too low. ``report`` has all of them."""

    report: CheckReport


class CheckReport:
    """The result of a check."""

    def __init__(self, table: RowTable, at_least: Mapping[str, float]) -> None:
        """``at_least``: the least figures by name. Raises DefinitionError for an unknown name."""
        self.table, self.at_least = table, at_least
        self.figures = figures(table)
        for name in at_least:
            if name not in self.figures:
                hint = suggest(name, self.figures, "the scores")
                message = f"there is no score {name!r}"
                raise DefinitionError(Diagnostic("score.unknown", message, hint=hint))
        self.missed = {
            n: self.figures[n] for n, least in at_least.items() if self.figures[n] < least
        }
        """The figures that are too low."""

    @property
    def passed(self) -> bool:
        return not self.missed

    def refuse(self) -> CheckReport:
        """Raise CheckFailed if a figure is too low; return the report otherwise."""
        if self.passed:
            return self
        hint = f"%runs {self.table.run.run_id} shows the run; .table has its rows"
        error = CheckFailed(
            *(
                Diagnostic(
                    "score.below",
                    f"{name!r} is {figure:.3g}, and at least {self.at_least[name]:.3g} is wanted",
                    hint=hint,
                )
                for name, figure in self.missed.items()
            )
        )
        error.report = self
        raise error

    def as_json(self) -> dict[str, Value]:
        """The report for a program."""
        scores: Scores = self.table.scores
        return {
            "run": self.table.run.run_id,
            "flow": self.table.terms.over,
            "passed": self.passed,
            "rows": len(self.table),
            "counts": dict(self.table.counts),
            "figures": self.figures,
            "at_least": dict(self.at_least),
            "scores": {
                name: {
                    "rows": one.rows,
                    "missing": one.missing,
                    "mean": one.mean.mean if one.mean else None,
                    "interval": [one.mean.low, one.mean.high] if one.mean else None,
                    "seed": one.seed,
                    "labels": dict(one.labels),
                    "against": [[*pair, count] for pair, count in one.against.items()],
                }
                for name, one in scores.items()
            },
            "low": self._low(),
        }

    def save(self, path: str | Path) -> Path:
        """Write the report to the file ``path`` (required), ``.html`` or ``.json``, and return the
        path. Raises DefinitionError if it cannot be written."""
        target = Path(path)
        check_target(target, FIGURES)
        try:
            text = self._page() if target.suffix.lower() == ".html" else _json(self.as_json())
            target.write_text(text, encoding="utf-8", errors="backslashreplace")
        except UNUSABLE as error:
            message = f"{str(target)!r} cannot be written: {path_error_reason(error)}"
            raise DefinitionError(Diagnostic("over.file", message)) from None
        return target

    def _low(self) -> list[dict[str, Value]]:
        """The first rows that failed, or that have a low value of a score that is checked."""
        status, scores = self.table.column_of("status"), self.at_least.keys() - {OK}
        low = (row for row in self.table if row[status] != "ok" or not all(map(row.get, scores)))
        return list(islice(low, MOST_ROWS))

    def _figures(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        rows = tuple(
            (
                name,
                f"{figure:.3g}",
                f"{self.at_least[name]:.3g}" if name in self.at_least else "",
                "" if name not in self.at_least else "✗ too low" if name in self.missed else "✓",
            )
            for name, figure in self.figures.items()
        )
        return ("score", "over all rows", "at least", ""), rows

    def _page(self) -> str:
        title = f"{self.table.terms.over} over {len(self.table):,} rows"
        low = self._low()
        columns = list(dict.fromkeys(name for row in low for name in row))
        cells = tuple(
            tuple(cell_text(row.get(name), most=LONGEST_CELL) for name in columns) for row in low
        )
        rows = (
            table_html(tuple(columns), cells, "Rows that failed or have a low score") if low else ""
        )
        verdict = "✓ passed" if self.passed else "✗ failed"
        return (
            f'<!doctype html><meta charset="utf-8"><title>{html(title)}</title>'
            f'<body style="font-family:sans-serif;margin:2em">'
            f"<h1>{html(title)}: {verdict}</h1><p>run {html(self.table.run.run_id)}</p>"
            f"{table_html(*self._figures())}{self.table.scores._repr_html_()}{rows}\n"
        )

    def _repr_html_(self) -> str:
        return table_html(*self._figures(), html(self.table.run.run_id))

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {figure:.3g}" for name, figure in self.figures.items())
        return f"<CheckReport {'passed' if self.passed else 'failed'}: {figures}>"


def figures(table: RowTable) -> dict[str, float]:
    """By name: the share of rows that did not fail, and each score over all rows. A row without a
    value counts as 0."""
    total, found = len(table), {OK: table.counts.get("ok", 0) / len(table)}
    for name, one in table.scores.items():
        if one.mean is not None:
            found[name] = one.mean.mean * one.rows / total
        elif one.against:
            found[name] = one.equal / total
    return found


def check_over(
    flow: Flow | str | Path,
    over: object,
    *,
    score: Score | Sequence[Score] = (),
    at_least: Mapping[str, float] | None = None,
    against: str | None = None,
    seed: int | None = 0,
    registry: Registry | None = None,
    limits: Limits | None = None,
    reuse: bool | str = False,
    on: object = None,
) -> CheckReport:
    """Run a flow over a table, score it, and return a report; raise CheckFailed if a score is too
    low.

    Parameters:

    - ``flow``: a `Flow`, the name of a registered flow, the `Path` of a file, or the text of a
      definition. Required.
    - ``over``: the table, as for `run`: a file, a DataFrame, a list of mappings, `Over`. Required.
    - ``score``: a score or several: functions of the output and the row, flows that judge,
      evaluators of pydantic-evals. Default: none.
    - ``at_least``: the least figures by the names of scores; ``ok`` is the share of rows that do
      not fail. A row without a value counts as 0. Default None: ``{"ok": 1.0}``.
    - ``against``: the column with the right labels. Default None.
    - ``seed``: the seed of the intervals. Default 0.
    - ``registry``: the `Registry` to look names up in. Default None: the registry of this process.
    - ``limits``: the `Limits` of each row. Default None: those of the settings.
    - ``reuse``: True reuses the newest results of identical calls, a run id those of that run.
      Default False.
    - ``on``: where concurrent calls of tools run, as for `run`. Default None.

    Raises CheckFailed, DefinitionError, and StepError if the run itself fails.
    """
    scores = [score] if isinstance(score, str | Flow) or not isinstance(score, Sequence) else score
    named_scorers(scores, default(registry))
    done = run(flow, over=over, registry=registry, limits=limits, reuse=reuse, on=on)
    score_over(done, *scores, against=against, seed=seed, registry=registry)
    return CheckReport(done.table, {OK: 1.0} if at_least is None else at_least).refuse()


def _json(value: Value) -> str:
    return json.dumps(as_json(value), ensure_ascii=False, indent=2)
