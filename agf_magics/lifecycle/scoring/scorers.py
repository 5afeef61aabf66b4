"""Scores the rows of a run: with functions, with judging flows, with evaluators of pydantic-evals.

Scores are computed after the rows have run, so that a new score needs no new run. A function is
called here. A flow runs over the rows with its own journal, so that a judge that is a model is paid
for once.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import index
from typing import Any

from ...catalog import Registry, default
from ...compat.imports import module_if_loaded
from ...flow.flow import Flow
from ...text.diagnostics import DefinitionError, Diagnostic
from ...text.placed import place_of
from ...text.raised import describe_exception
from ...text.suggestions import suggest
from ...values.tables.rows import ValueRows
from ...values.tables.tables import open_rows
from ...values.value import Value, settle, type_name
from ..launch import launch
from ..launch.find_flow import find_flow
from ..past.named_run import find_named
from ..past.past_run import PastRun
from ..runs.run import Run
from ..table_runs.over import Over
from ..table_runs.score_table import Scores
from ..table_runs.scores import Outcome, ScoredRow, summarize
from ..table_runs.table import RowTable
from ..table_runs.table_row import TableRow, is_object

OK = "ok"
"""The name of the share of rows that did not fail, which every check has."""

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
    """Score the rows of a run over a table: add a column for each score to ``run.table``, and return
    the summaries of the scores over all rows.

    Parameters:

    - ``run``: a run over a table, its id, or its table. Required.
    - ``scores``: functions of the output and the row (or of the output alone); flows, or their
      names, that get ``output``, ``row`` and the columns; evaluators of pydantic-evals. A score is
      a number, a boolean, a text (a label), None, or a mapping of such values. Required.
    - ``against``: the column with the right labels. Default None: none.
    - ``seed``: the seed of the intervals. Default None: a new one, which is shown.
    - ``registry``: the `Registry` to look flows up in. Default None: the registry of this process.
    - ``yes``: whether a flow that judges goes on after 20 rows without asking. Default False.

    Raises DefinitionError for an object that is no score, before any score is computed.
    """
    table = table_of(run)
    registry = default(registry)
    seed = index(seed) if seed is not None else None  # it may be a number of NumPy
    rows = list(table.rows())
    if against is not None:
        check_column(against, table)
    right = table.column(against) if against is not None else [None] * len(rows)
    scored_rows = [ScoredRow(row.number, label) for row, label in zip(rows, right, strict=True)]
    summaries = Scores()
    columns_before = {*table.columns} - {*table.added} | {table.label_column}
    for name, scorer in name_scorers(scores, registry, yes):
        for key, outcomes in _by_key(scorer(rows)).items():
            column = ".".join(filter(None, (name, key)))
            while column in columns_before:
                column = f"score.{column}"
            values, summary = summarize(column, scored_rows, outcomes, seed)
            table.add_column(column, values)
            summaries[column] = summary
    table.scores.update(summaries)
    if against is not None and not any(summary.labels for summary in summaries.values()):
        summaries.note = f"{against!r} is compared with no score: a label is a text"
    return summaries


def _by_key(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes of a score over all rows, by the keys of its values. A score that is one value
    has one column, whose key is empty."""
    mappings = [(value if is_object(value) else {"": value}, why) for value, why in outcomes]
    keys = dict.fromkeys(chain.from_iterable(mapping for mapping, _ in mappings))
    if len(keys) > 1 and all(mapping.get("") is None for mapping, _ in mappings):
        keys.pop("", None)  # only rows without a value have it
    return {key: [(mapping.get(key), why) for mapping, why in mappings] for key in keys}


Scorer = Callable[[Sequence[TableRow]], list[Outcome]]
"""Computes a score for all rows, in their order."""


def name_scorers(
    scores: Sequence[Score], registry: Registry, yes: bool = False
) -> list[tuple[str, Scorer]]:
    """The scores with their names. Raises DefinitionError for an object that is no score, and for
    two scores of one name, because the table would have only one of them. It is called before a
    run, so that nothing was paid for."""
    scorers = [(_name(score), _scorer(score, registry, yes)) for score in scores]
    counts = Counter([OK, *(name for name, _ in scorers)])
    double = next((name for name, count in counts.items() if count > 1), None)
    if double is not None:
        message = f"two scores are called {double!r}"
        message += ": one is the share of rows that did not fail" if double == OK else ""
        hint = "give each a name of its own: def NAME(output, row): …"
        raise DefinitionError(Diagnostic("score.double", message, hint=hint))
    return scorers


def check_column(against: str, table: object) -> None:
    """Raise DefinitionError if a table has no column ``against``. ``table``: that of a run, or what a
    run is given as ``over``. It is called before a run, so that nothing was paid for."""
    if isinstance(table, RowTable):
        names = [*table.terms.columns, *table.added]
    else:
        names = list(open_rows(table.table if isinstance(table, Over) else table).columns)
    if against not in names:
        hint = suggest(against, names, "the columns")
        message = f"the table has no column {against!r}"
        raise DefinitionError(Diagnostic("over.column", message, place_of(against), hint))


def _name(score: object) -> str:
    if isinstance(score, str):
        return score
    name = getattr(score, "name", None) or getattr(score, "__name__", None)
    return str(name) if isinstance(name, str) else type(score).__name__


def _scorer(score: object, registry: Registry, yes: bool) -> Scorer:
    """The function that computes a score. Raises DefinitionError for an object that cannot."""
    evals = module_if_loaded("pydantic_evals.evaluators")
    if evals is not None and isinstance(score, evals.Evaluator):
        return lambda rows: [_of_row(row, lambda r: _evaluate(evals, score, r)) for row in rows]
    if isinstance(score, str | Flow):
        flow = find_flow(score, registry)
        return lambda rows: _judge(flow, rows, registry, yes)
    if not callable(score):
        raise _no_score(score, f"it is {type_name(score)}")
    if inspect.iscoroutinefunction(score):
        raise _no_score(score, "it is async, and nothing awaits it")
    if _takes_row(score):
        return lambda rows: [_of_row(row, lambda r: score(r.output, dict(r.input))) for row in rows]
    return lambda rows: [_of_row(row, lambda r: score(r.output)) for row in rows]


def _no_score(score: object, why: str) -> DefinitionError:
    hint = "a function f(output, row), a flow that judges, or an Evaluator of pydantic-evals"
    message = f"{_name(score)!r} is not a score: {why}"
    return DefinitionError(Diagnostic("score.kind", message, hint=hint))


_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
"""The kinds of parameters that can get the output and the row."""


def _takes_row(score: Callable[..., Value]) -> bool:
    """Whether a function takes the row beside the output: a second parameter with a default is an
    option of its own, unless it is called ``row``. Raises DefinitionError if it takes neither."""
    try:
        signature = inspect.signature(score)
    except (TypeError, ValueError):  # a function of C whose signature is not known
        return False
    parameters = [p for p in signature.parameters.values() if p.kind in _BY_PLACE]
    second = parameters[1] if len(parameters) > 1 else None
    is_option = second is not None and second.default is not second.empty and second.name != "row"
    takes = [count for count in (1, 2) if _can_bind(signature, count)]
    if not takes:
        raise _no_score(
            score, "it cannot be called with the output, nor with the output and the row"
        )
    return 2 in takes and not (is_option and 1 in takes)


def _can_bind(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _of_row(row: TableRow, call: Callable[[TableRow], Value]) -> Outcome:
    """The score of a row, or the reason why the row has no score."""
    if row.status != "ok":  # no fault of the score
        return None, None
    try:
        row.output, row.input  # noqa: B018 - a value that is not stored is no fault of the score
    except DefinitionError as error:
        return None, error.diagnostic
    try:
        value = settle(call(row))
    except Exception as error:  # code of the user
        message = f"the score failed: {describe_exception(error)}"
        return None, Diagnostic("score.failed", message, hint="the other rows have their scores")
    return value, None


def _judge(flow: Flow, rows: Sequence[TableRow], registry: Registry, yes: bool) -> list[Outcome]:
    """The values of a flow that gets the output as ``output``, the row as ``row``, and the columns
    of the row by their names."""
    outcomes: list[Outcome] = [(None, None)] * len(rows)
    table: dict[int, dict[str, Value]] = {}
    for place, row in enumerate(rows):
        if row.status == "ok":
            try:
                table[place] = {**row.input, "output": row.output, "row": dict(row.input)}
            except DefinitionError as lost:
                outcomes[place] = None, lost.diagnostic
    if table:
        # The cells are values already: a date in an output stays one.
        judged = launch.run(
            flow, over=Over(table=ValueRows(list(table.values())), yes=yes), registry=registry
        )
        for place, judgement in zip(table, judged.table.rows(), strict=True):
            error = judgement.error
            outcomes[place] = (judgement.output, error.diagnostic if error is not None else None)
    return outcomes


def _evaluate(evals: Any, evaluator: Any, row: TableRow) -> Value:
    """The value of an evaluator of pydantic-evals, which gets a row as a case."""
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
    """The table of a run over a table. Raises DefinitionError."""
    run = run if isinstance(run, RowTable) else find_named(run)
    return run if isinstance(run, RowTable) else run.table
