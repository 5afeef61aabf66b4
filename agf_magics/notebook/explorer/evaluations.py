"""What a step that only evaluates an expression read and returned, in batches for the explorer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...flow.progress.rows import Row
from ...pictures.pages.wire import EvaluationRow
from ...pictures.plain import line, plain
from ...pictures.problems import format_exception
from ...pictures.value_line import value_line
from ...pictures.values import Shown, value_json
from .arguments import calls_or_refuse, natural, row_of
from .calls import MOST_ERROR, PAGE, SHORT
from .request_types import AnyRun, Json, Refused

if TYPE_CHECKING:
    from ...lifecycle.forecasts.evaluations import Evaluation


def evaluation_batches(run: AnyRun, rows: Sequence[Row]) -> Iterator[tuple[Row, list[Json]]]:
    """All batches of what these steps read and returned, from one evaluation of the run."""
    from ...lifecycle.forecasts.evaluations import find_all_evaluations

    for row, (evaluations, note) in zip(rows, find_all_evaluations(run, rows), strict=True):
        evaluations.sort(key=lambda evaluation: evaluation.error is None)
        offsets = range(0, max(len(evaluations), 1), PAGE)
        yield row, [_evaluation_batch(run, evaluations, note, offset) for offset in offsets]


class _LastEvaluations:
    """The last evaluations that an explorer asked for; requests for the next batches take them from
    here. The class itself holds them, once for the process: a person reads one step at a time, and a
    request for another step evaluates again."""

    of: tuple[str, str] = ("", "")
    """The ids of the run and of the step."""
    evaluations: Sequence[Evaluation] = ()
    note = ""


def answer_evaluations(run: AnyRun, arguments: Mapping[str, Any]) -> Json:
    """A batch of what a step that only evaluates read and returned, failed evaluations first.
    ``number``: instead, the evaluation at this place in full."""
    row = row_of(run, arguments)
    offset = natural(arguments.get("offset"))
    number = natural(arguments["number"]) if "number" in arguments else None
    calls_or_refuse(run)  # without a journal the request is refused
    is_first = offset == 0 and number is None
    if is_first or _LastEvaluations.of != (run.run_id, row.id):
        from ...lifecycle.forecasts.evaluations import find_evaluations

        evaluations, note = find_evaluations(run, row)
        evaluations.sort(key=lambda evaluation: evaluation.error is None)
        _LastEvaluations.of = (run.run_id, row.id)
        _LastEvaluations.evaluations = evaluations
        _LastEvaluations.note = note
    if number is None:
        return _evaluation_batch(run, _LastEvaluations.evaluations, _LastEvaluations.note, offset)
    if number >= len(_LastEvaluations.evaluations):
        raise Refused("the step has no such evaluation")
    return _whole_evaluation(run, _LastEvaluations.evaluations[number])


def _whole_evaluation(run: AnyRun, evaluation: Evaluation) -> Json:
    error = evaluation.error
    shown: Json = {"given": _values_whole(evaluation), "case": line(evaluation.case, 60)}
    if error is not None:
        return shown | {"error": plain(run.secrets.text(format_exception(error)), MOST_ERROR)}
    return shown | {"output": value_json(evaluation.value)}


def _evaluation_batch(
    run: AnyRun, evaluations: Sequence[Evaluation], note: str, offset: int
) -> Json:
    shown = evaluations[offset : offset + PAGE]
    return {
        "total": len(evaluations),
        "offset": offset,
        "page": PAGE,
        "note": plain(note, 400),
        "rows": [_evaluation_row(run, evaluation) for evaluation in shown],
        "whole": _values_whole(evaluations[0]) if _is_lone(evaluations) else [],
    }


def _is_lone(evaluations: Sequence[Evaluation]) -> bool:
    """Whether the step ran once, and for no element."""
    return len(evaluations) == 1 and not evaluations[0].numbers


def _values_whole(evaluation: Evaluation) -> list[tuple[str, Shown]]:
    """What an evaluation read, by its name, as values that a person opens: a line of a table has a
    short text of each."""
    # They are without secrets already.
    return [(line(name, 60), value_json(value)) for name, value in evaluation.values_read.items()]


def _evaluation_row(run: AnyRun, evaluation: Evaluation) -> EvaluationRow:
    error = evaluation.error
    value = value_line(evaluation.value, SHORT) if error is None else ""
    why = run.secrets.text(format_exception(error)) if error is not None else ""
    return EvaluationRow(
        numbers=list(evaluation.numbers),
        given=[
            [line(name, 60), value_line(value, SHORT)]
            for name, value in evaluation.values_read.items()
        ],
        case=line(evaluation.case, 60),
        output=value,
        error=line(why, SHORT),
    )
