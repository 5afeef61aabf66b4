"""What a step that only evaluates read and gave, as the page of the explorer asks for it: in pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...flow.progress.rows import Row
from ...pictures.pages.wire import EvaluationRow
from ...pictures.plain import line, plain
from ...pictures.problems import format_exception
from ...pictures.values import value_text
from .arguments import journal_of, natural, row_of
from .calls import PAGE, SHORT
from .request_types import AnyRun, Json

if TYPE_CHECKING:
    from ...lifecycle.forecasts.evaluations import Evaluation


def evaluation_pages(run: AnyRun, rows: Sequence[Row]) -> Iterator[tuple[Row, list[Json]]]:
    """All pages of what these steps read and gave, from one evaluation of the run."""
    from ...lifecycle.forecasts.evaluations import find_all_evaluations

    for row, (kept, note) in zip(rows, find_all_evaluations(run, rows), strict=True):
        kept.sort(key=lambda evaluation: evaluation.error is None)
        places = range(0, max(len(kept), 1), PAGE)
        yield row, [_evaluation_page(run, kept, note, offset) for offset in places]


class _LastEvaluations:
    """The last evaluations that a page asked for: its next pages are of the same ones."""

    of: tuple[str, str] = ("", "")
    found: tuple[list[Evaluation], str] = ([], "")


def answer_evaluations(run: AnyRun, arguments: Mapping[str, Any]) -> Json:
    """A page of what a step that only evaluates read and gave, failed ones first."""
    row, offset = row_of(run, arguments), natural(arguments.get("offset"))
    journal_of(run)
    if offset == 0 or _LastEvaluations.of != (run.run_id, row.id):
        from ...lifecycle.forecasts.evaluations import find_evaluations

        kept, note = find_evaluations(run, row)
        kept.sort(key=lambda evaluation: evaluation.error is None)
        _LastEvaluations.of, _LastEvaluations.found = (run.run_id, row.id), (kept, note)
    return _evaluation_page(run, *_LastEvaluations.found, offset)


def _evaluation_page(run: AnyRun, kept: Sequence[Evaluation], note: str, offset: int) -> Json:
    return {
        "total": len(kept),
        "offset": offset,
        "page": PAGE,
        "note": plain(note, 400),
        "rows": [_evaluation_row(run, evaluation) for evaluation in kept[offset : offset + PAGE]],
    }


def _evaluation_row(run: AnyRun, evaluation: Evaluation) -> EvaluationRow:
    value, why = value_text(evaluation.value), ""
    if evaluation.error is not None:
        value, why = "", run.secrets.text(format_exception(evaluation.error))
    return EvaluationRow(
        numbers=list(evaluation.numbers),
        given=[
            [line(name, 60), line(value_text(value), SHORT)]
            for name, value in evaluation.values_read.items()
        ],
        case=line(evaluation.case, 60),
        output=line(value, SHORT),
        error=line(why, SHORT),
    )
