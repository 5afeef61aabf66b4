"""The scores of the rows of a run: by functions, by flows that judge, by evaluators of
pydantic-evals.

A score is computed after the rows have run, so that a new one needs no new run. A function is called
here; a flow is run over the rows by the same engine, with a journal of its own: a judge that is a
model is paid for once.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..catalog import Registry, default
from ..engine.failures import describe_exception
from ..flow.steps import Flow
from ..flow.values import Value, settle, type_name
from ..text.diagnostics import DefinitionError, Diagnostic, suggest
from . import launch
from .launch import Run, find_flow
from .over import Over
from .past_run import PastRun, find_past_run
from .scores import Known, Outcome, Scores, summarize
from .table import RowTable, TableRow

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
    registry, rows = registry or default(), list(table.rows())
    names = [*table.terms.columns, *table.added]
    if against is not None and against not in names:
        hint = suggest(against, names, "the columns")
        message = f"the table has no column {against!r}"
        raise DefinitionError(Diagnostic("over.column", message, hint=hint))
    right = dict(table.added.get(against or "", {}))
    if against in table.terms.columns:
        right = {place: str(row.input.get(against or "")) for place, row in enumerate(rows)}
    known = [
        Known(row.number, str(label) if (label := right.get(place)) is not None else None)
        for place, row in enumerate(rows)
    ]
    named = named_scorers(scores, registry, yes)
    summaries, taken = Scores(), {*table.columns} - {*table.added} | {table.label_column}
    for name, scorer in named:
        outcomes = scorer(rows)
        for key in dict.fromkeys(k for value, _ in outcomes for k in _keys(value)) or [""]:
            column = f"{name}.{key}" if key else name
            column = f"score.{column}" if column in taken else column
            values = [
                (value.get(key) if key and isinstance(value, dict) else None if key else value, why)
                for value, why in outcomes
            ]
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
    judged = launch.run(flow, over=Over(table=given, yes=yes), registry=registry)
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


def table_of(run: Run | PastRun | RowTable | str) -> RowTable:
    """The table of a run over data. Raises DefinitionError."""
    run = find_past_run(run) if isinstance(run, str) else run
    return run if isinstance(run, RowTable) else run.table
