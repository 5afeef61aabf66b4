"""Checks a flow over a table: each score must reach a minimum.

In a check, for tests and CI, a row without a value counts as 0: a flow that fails on half of the
rows must not pass because the other half is right.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from ...catalog import Registry, default
from ...flow.flow import Flow
from ...limits.limits import Limits
from ...pictures.plain import html, untypeset
from ...pictures.text_tables import table_html
from ...pictures.value_line import cell_text
from ...text.diagnostics import AgfError, DefinitionError, Diagnostic
from ...text.replaced_file import replaced_file
from ...text.suggestions import suggest
from ...values.as_json import as_json
from ...values.value import Value
from ..launch.launch import run
from ..table_runs.score_table import Scores
from ..table_runs.scores import right_label
from ..table_runs.table import FIGURES, RowTable, check_target
from .scorers import OK, Score, check_column, name_scorers, score_over

LONGEST_CELL = 2_000
"""Characters of a value in a report."""

MOST_ROWS = 1_000
"""Rows that did not succeed, or whose score is low, that a report lists."""


class CheckFailed(AgfError, AssertionError):
    """A score of a check is too low. ``report`` has all scores."""

    report: CheckReport


class CheckReport:
    """The result of a check."""

    def __init__(
        self, table: RowTable, at_least: Mapping[str, float], against: str | None = None
    ) -> None:
        """``at_least``: the least figures by name; ``against``: the column with the right labels.
        Raises DefinitionError for an unknown name."""
        self.table = table
        self.at_least = at_least
        self.against = against
        self.figures = compute_figures(table)
        """The figures by name."""
        for name in at_least:
            if name not in self.figures:
                hint = suggest(name, self.figures, "the scores")
                message = f"there is no score {name!r}"
                if name in table.scores:
                    message = f"the score {name!r} has no numbers: a least one cannot be compared"
                raise DefinitionError(Diagnostic("score.unknown", message, hint=hint))
        self.missed = {
            name: self.figures[name]
            for name, least in at_least.items()
            if self.figures[name] < least and not math.isclose(self.figures[name], least)
        }
        """The figures that are too low. The mean of three times 0.7 is not exactly 0.7."""

    @property
    def passed(self) -> bool:
        return not self.missed

    def refuse(self) -> CheckReport:
        """Raise CheckFailed if a figure is too low; return the report otherwise."""
        if self.passed:
            return self
        hint = f"%runs {self.table.run.run_id} shows the run; .table has its rows"
        problems = []
        for name, figure in self.missed.items():
            least = self.at_least[name]
            message = f"{name!r} is {figure:.3g}, and at least {least:.3g} is wanted"
            problems.append(Diagnostic("score.below", message, hint=hint))
        error = CheckFailed(*problems)
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
                    "rows": summary.rows,
                    "missing": summary.missing,
                    "mean": summary.mean.mean if summary.mean else None,
                    "interval": [summary.mean.low, summary.mean.high] if summary.mean else None,
                    "seed": summary.seed,
                    "labels": dict(summary.labels),
                    "against": [[*pair, count] for pair, count in summary.against.items()],
                }
                for name, summary in scores.items()
            },
            "low": self._low(),
        }

    def save(self, path: str | Path) -> Path:
        """Write the report to the file ``path`` (required), ``.html`` or ``.json``, and return the
        path. Raises DefinitionError if it cannot be written."""
        target = Path(path)
        check_target(target, FIGURES)
        text = self._page() if target.suffix.lower() == ".html" else _json(self.as_json())
        with replaced_file(target) as file:
            file.write(text)
        return target

    def _low(self) -> list[dict[str, Value]]:
        """The first rows that failed, or that have a low value of a score that is checked."""
        status = self.table.column_of("status")
        least_by_score = {name: least for name, least in self.at_least.items() if name != OK}
        rows = zip(self.table.shown_at(range(len(self.table))), self._right_labels(), strict=True)
        low = (
            row
            for row, right in rows
            if row[status] != "ok"
            or any(_is_low(row.get(name), least, right) for name, least in least_by_score.items())
        )
        return list(islice(low, MOST_ROWS))

    def _right_labels(self) -> Sequence[Value]:
        """The right label of each row; None: the row has no right label, or no checked score has
        labels."""
        scores = self.table.scores
        has_labels = any(name in scores and scores[name].against for name in self.at_least)
        if self.against is None or not has_labels:
            return [None] * len(self.table)
        return self.table.column(self.against)

    def _mark(self, score: str) -> str:
        """The words whether a score is high enough; empty if the score is not checked."""
        if score not in self.at_least:
            return ""
        return "✗ too low" if score in self.missed else "✓"

    def _figure_table(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        rows = tuple(
            (
                name,
                f"{figure:.3g}",
                f"{self.at_least[name]:.3g}" if name in self.at_least else "",
                self._mark(name),
            )
            for name, figure in self.figures.items()
        )
        return ("score", "over all rows", "at least", ""), rows

    def _page(self) -> str:
        """The report as an HTML file."""
        title = f"{self.table.terms.over} over {len(self.table):,} rows"
        low = self._low()
        columns = list(dict.fromkeys(name for row in low for name in row))
        cells = tuple(
            tuple(cell_text(row.get(name), most=LONGEST_CELL) for name in columns) for row in low
        )
        rows = ""
        if low:
            rows = table_html(tuple(columns), cells, "Rows that failed or have a low score")
        verdict = "✓ passed" if self.passed else "✗ failed"
        return (
            f'<!doctype html><meta charset="utf-8"><title>{html(title)}</title>'
            f'<body style="font-family:sans-serif;margin:2em">'
            f"<h1>{html(title)}: {verdict}</h1><p>run {html(self.table.run.run_id)}</p>"
            f"{table_html(*self._figure_table())}{self.table.scores._repr_html_()}{rows}\n"
        )

    def _repr_html_(self) -> str:
        return untypeset(table_html(*self._figure_table(), html(self.table.run.run_id)))

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {figure:.3g}" for name, figure in self.figures.items())
        return f"<CheckReport {'passed' if self.passed else 'failed'}: {figures}>"


def compute_figures(table: RowTable) -> dict[str, float]:
    """The figures by name: the share of rows that did not fail, and each score over all rows. A row
    without a value counts as 0, also if no row has one. Labels without right ones have no figure."""
    total = len(table)
    figure_by_score = {OK: table.counts.get("ok", 0) / total}
    for name, score in table.scores.items():
        if not score.rows:
            figure_by_score[name] = 0.0
        elif score.mean is not None:
            figure_by_score[name] = score.mean.mean * score.rows / total
        elif score.against:
            figure_by_score[name] = score.equal / total
    return figure_by_score


def _is_low(value: Value, least: float, right: Value) -> bool:
    """Whether a row's score is too low: the row has no value, a number below ``least``, or a label
    that is not the right label."""
    if isinstance(value, str):
        return right is None or value != right_label(right, value)
    return not isinstance(value, int | float) or value < least


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
    floors = {OK: 1.0} if at_least is None else at_least
    _refuse_no_numbers(floors)
    scores = [score] if isinstance(score, str | Flow) or not isinstance(score, Sequence) else score
    name_scorers(scores, default(registry))
    if against is not None:
        check_column(against, over)
    ended = run(flow, over=over, registry=registry, limits=limits, reuse=reuse, on=on)
    score_over(ended, *scores, against=against, seed=seed, registry=registry)
    return CheckReport(ended.table, floors, against).refuse()


def _refuse_no_numbers(at_least: object) -> None:
    """Raise ValueError for a minimum that is no number: before the run, so that nothing was paid
    for."""
    numbers = at_least.values() if isinstance(at_least, Mapping) else (None,)
    if not all(isinstance(least, int | float) and math.isfinite(least) for least in numbers):
        raise ValueError(
            f"at_least is a mapping of scores to numbers, such as {{'ok': 0.9}}, not {at_least!r}"
        )


def _json(value: Value) -> str:
    return json.dumps(as_json(value), ensure_ascii=False, indent=2)
