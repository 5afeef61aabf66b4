"""The calls of a step as the page of the explorer asks for them: in pages, by element, over time,
as a conversation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ...engine.linking.linked import Linked, flow_at
from ...flow.progress.rows import Row
from ...flow.step_path import format_path
from ...flow.steps import Flow
from ...journal.records.failures import error_from
from ...journal.records.records import Record
from ...journal.run_calls import MOST_GROUPED, ORDERS, CallSpan, RunCalls
from ...lifecycle.past.calls_of_run import calls_of, elements_of
from ...lifecycle.runs.run import Run
from ...pictures.amounts import duration
from ...pictures.pages.wire import BarRow, DensityRow, ElementRow, EvaluationRow, SessionRow
from ...pictures.plain import line, plain
from ...pictures.problems import format_exception
from ...pictures.values import value_json, value_text
from ...text.diagnostics import AgfError
from .request_types import NO_JOURNAL, AnyRun, Json, Refused, Requests
from .sessions import MOST_CALLS, arriving_json, session_json

if TYPE_CHECKING:
    from ...lifecycle.forecasts.evaluations import Evaluation

PAGE = 100
"""Calls of one page."""
MOST_SPANS = 4_000
"""Bars of a timeline; more calls are shown as a density."""
BUCKETS = 300
"""Columns of a density."""
MOST_SESSIONS = 500
"""Sessions of a step that can be chosen."""
MOST_ERROR = 4_000
"""Characters of an error."""
SHORT = 150
"""Characters of a value in a table."""

MOST_WHY = 600
"""Characters of the reason why a request is refused."""


def reply_to(message: Mapping[str, Any], requests: Requests) -> Json:
    """The reply to a request of the page: what its function returns for the arguments, or why it
    cannot."""
    id, name, given = message.get("id"), str(message.get("do")), message.get("with")
    try:
        if name not in requests:
            raise Refused(f"unknown request {name!r}")
        found = requests[name](given if isinstance(given, dict) else {})
        return {"type": "reply", "id": id, "ok": True, "value": found}
    except AgfError as error:
        why = str(error.diagnostic.message)
    except Refused as error:
        why = str(error)
    except (
        Exception
    ) as error:  # a value of a user, or a bug of ours: the page names it, the cell stays clean
        why = f"this cannot be shown ({type(error).__name__}: {error})"
    return {"type": "reply", "id": id, "ok": False, "why": line(why, MOST_WHY)}


def _calls(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """A page of the calls of a step. ``offset``; ``failed``: only failed calls; ``index``: only of
    this element; ``text``: only those that have it; ``order``: one of `ORDERS`, else failed ones
    first."""
    row, calls = row_of(run, given), journal_of(run)
    offset, failed, index = (
        natural(given.get("offset")),
        given.get("failed") is True,
        naturals(given.get("index")),
    )
    text, order = str(given.get("text") or "")[:SHORT], given.get("order")
    total, lost = calls.count(row, index, text)
    order = order if isinstance(order, str) and order in ORDERS else "failed"
    page = calls.page(row, PAGE, offset, failed=failed, order=order, index=index, text=text)
    return {
        "total": lost if failed else total,
        "failed": lost,
        "offset": offset,
        "page": PAGE,
        "rows": call_rows(calls, page),
    }


def _call(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """One call in full, by its number."""
    calls = journal_of(run)
    found = calls.call(natural(given.get("number")))
    if found is None:
        raise Refused("this call is no longer in the journal")
    (row,) = call_rows(calls, [found])
    return _whole_call(found, row)


def whole_calls(calls: RunCalls, rows: Sequence[Json]) -> dict[int, Json]:
    """The calls of a page in full, by their numbers, those that are still in the journal. Read
    together: the journal looks through all calls of the run for the attempts of any."""
    known = {row["number"]: row for row in rows}
    records = calls.numbered(list(known))
    return {calls.number(each): _whole_call(each, known[calls.number(each)]) for each in records}


def _whole_call(found: Record, row: Json) -> Json:
    answer = dict(row)
    if found.given is not None:
        answer["given"] = value_json(found.given_shown)
    if found.error is not None:
        answer["error"] = plain(str(error_from(found.error, ())), MOST_ERROR)
    else:
        answer["result"] = value_json(found.value_shown)
    return answer


def call_rows(calls: RunCalls, found: Sequence[Record]) -> list[Json]:
    """Calls as rows of a table."""
    numbered = zip(found, calls.number_attempts(found), strict=True)
    return [_call_row(calls, one, attempt) for one, attempt in numbered]


def _call_row(calls: RunCalls, found: Record, attempt: int) -> Json:
    if found.error is not None:
        result = format_exception(error_from(found.error, ()))
    else:
        result = value_text(found.value_shown) if found.result.form is not None else found.what
    return {
        "number": calls.number(found),
        "at": line(format_path(found.at), 120),
        "name": line(found.name, 60),
        "failed": found.what == "failed",
        "what": found.what,
        "attempt": attempt,
        "took": duration(found.seconds),
        "input": line(value_text(found.given_shown), SHORT) if found.given is not None else "",
        "output": line(result, SHORT),
    }


def _spans(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """When the calls of a step ran; or, for more than `MOST_SPANS` calls, how many ran in each of
    `BUCKETS` equal times."""
    row, calls = row_of(run, given), journal_of(run)
    total = calls.count(row).total
    found = calls.spans(row, MOST_GROUPED if total > MOST_SPANS else MOST_SPANS)
    zero = found[0].started if found else 0.0
    if total > MOST_SPANS:
        end = max(one.ended for one in found) - zero
        density = _density(found, zero, end or 1e-9)
        return {
            "total": total,
            "end": round(end * 1e3, 1),
            "most": _most_at_a_time(found),
            "density": density,
        }
    bars = [
        BarRow(
            start=round((one.started - zero) * 1e3, 1),
            end=round((one.ended - zero) * 1e3, 1),
            failed=int(one.failed),
            number=one.number,
        )
        for one in found
    ]
    return {"total": total, "bars": bars}


def _density(spans: Sequence[CallSpan], zero: float, width: float) -> list[DensityRow]:
    """For each of `BUCKETS` equal times: how many calls ran in it, and how many of these failed."""
    change = [[0, 0] for _ in range(BUCKETS + 1)]
    for start, end, failed, _ in spans:
        first, last = (min(int((at - zero) / width * BUCKETS), BUCKETS - 1) for at in (start, end))
        for place, sign in ((first, 1), (last + 1, -1)):
            change[place][0] += sign
            change[place][1] += sign * failed
    return [
        DensityRow(*counts)
        for counts in accumulate(change[:-1], lambda a, b: [a[0] + b[0], a[1] + b[1]])
    ]


def _most_at_a_time(spans: Sequence[CallSpan]) -> int:
    # A call that starts when another one ends does not run at the same time.
    changes = sorted([(one.ended, -1) for one in spans] + [(one.started, 1) for one in spans])
    return max(1, *accumulate(change for _, change in changes))


def _elements(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """The elements of a fan-out or the iterations of a loop, failed ones first, page by page."""
    row, calls, offset = row_of(run, given), journal_of(run), natural(given.get("offset"))
    found = sorted(
        elements_of(calls, row, flow_of(run, row)),
        key=lambda one: (not one.last_failed, one.numbers),
    )
    page = found[offset : offset + PAGE]
    rows = [
        ElementRow(
            numbers=list(one.numbers),
            calls=one.calls,
            failed=one.failed,
            is_failed=one.last_failed,
            took=duration(one.ended - one.started),
        )
        for one in page
    ]
    return {"total": len(found), "offset": offset, "page": PAGE, "rows": rows}


def evaluation_pages(run: AnyRun, rows: Sequence[Row]) -> Iterator[tuple[Row, list[Json]]]:
    """All pages of what these steps read and gave, from one evaluation of the run."""
    from ...lifecycle.forecasts.evaluations import find_all_evaluations

    for row, (kept, note) in zip(rows, find_all_evaluations(run, rows), strict=True):
        kept.sort(key=lambda evaluation: evaluation.error is None)
        places = range(0, max(len(kept), 1), PAGE)
        yield row, [_evaluation_page(run, kept, note, offset) for offset in places]


class _Evaluated:
    """The last evaluations that a page asked for: its next pages are of the same ones."""

    of: tuple[str, str] = ("", "")
    found: tuple[list[Evaluation], str] = ([], "")


def _evaluations(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """A page of what a step that only evaluates read and gave, failed ones first."""
    row, offset = row_of(run, given), natural(given.get("offset"))
    journal_of(run)
    if offset == 0 or _Evaluated.of != (run.run_id, row.id):
        from ...lifecycle.forecasts.evaluations import find_evaluations

        kept, note = find_evaluations(run, row)
        kept.sort(key=lambda one: one.error is None)
        _Evaluated.of, _Evaluated.found = (run.run_id, row.id), (kept, note)
    return _evaluation_page(run, *_Evaluated.found, offset)


def _evaluation_page(run: AnyRun, kept: Sequence[Evaluation], note: str, offset: int) -> Json:
    return {
        "total": len(kept),
        "offset": offset,
        "page": PAGE,
        "note": plain(note, 400),
        "rows": [_evaluation_row(run, one) for one in kept[offset : offset + PAGE]],
    }


def _evaluation_row(run: AnyRun, one: Evaluation) -> EvaluationRow:
    value, why = value_text(one.value), ""
    if one.error is not None:
        value, why = "", run.secrets.text(format_exception(one.error))
    return EvaluationRow(
        numbers=list(one.numbers),
        given=[
            [line(name, 60), line(value_text(value), SHORT)] for name, value in one.given.items()
        ],
        case=line(one.case, 60),
        output=line(value, SHORT),
        error=line(why, SHORT),
    )


def _session(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """The conversation of a model's session; of several sessions, the one with ``index``, else the
    first one."""
    row, calls = row_of(run, given), journal_of(run)
    sessions = elements_of(calls, row, flow_of(run, row))
    index = naturals(given.get("index")) or (sessions[0].numbers if sessions else ())
    listed = [SessionRow(list(one.numbers), one.failed) for one in sessions[:MOST_SESSIONS]]
    requests = [call for call in running_calls(run, row, index) if call.kind == "model"]
    conversation = session_json(calls, row, index, requests[:1])
    conversation["messages"] += arriving_json(run, row, index)
    return {
        **conversation,
        "index": list(index),
        "sessions": listed,
        "total": len(sessions),
    }


CALL_REQUESTS = {
    "calls": _calls,
    "call": _call,
    "spans": _spans,
    "elements": _elements,
    "evaluations": _evaluations,
    "session": _session,
}


def linked_within(linked: Linked, calls: Sequence[str]) -> Linked:
    """The flow that the calls with these ids lead to."""
    flow = flow_at(linked, calls)
    if flow is None:
        raise Refused("this step calls no flow that can be drawn")
    return flow


def row_of(run: AnyRun, given: Mapping[str, Any]) -> Row:
    id = given.get("step")
    row = run.progress.rows.get(tuple(str(id).split("/")))
    if row is not None and row.id == id:  # nearly always: no id of a step has a slash
        return row
    for row in list(run.progress.rows.values()):
        if row.id == id:
            return row
    raise Refused(f"the run has no step {line(str(id), 100)!r}")


def journal_of(run: AnyRun) -> RunCalls:
    found = calls_of(run)
    if found is None:
        raise Refused(NO_JOURNAL)
    return found


def running_calls(run: AnyRun, row: Row, index: tuple[int, ...] = ()) -> list[Record]:
    """The first calls of a step, and of steps inside it, that have not ended; of the element with
    ``index``. Those of threads of a fan-out are not known."""
    if not isinstance(run, Run) or run.journal is None:
        return []
    return journal_of(run).begun(list(run.journal.running.values()), row, MOST_CALLS, index)


def natural(number: object) -> int:
    return number if type(number) is int and 0 <= number < 1 << 40 else 0


def naturals(numbers: object) -> tuple[int, ...]:
    return tuple(natural(one) for one in numbers[:20]) if isinstance(numbers, list) else ()


def texts_of(texts: object) -> list[str]:
    return [one for one in texts[:1_000] if isinstance(one, str)] if isinstance(texts, list) else []


def flow_of(run: AnyRun, row: Row) -> Flow:
    """The flow, the run's own or a called one, that has the step of a row."""
    return linked_within(run._linked, row.key[:-1]).flow
