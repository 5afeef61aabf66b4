"""The calls of a step as the page of the explorer asks for them: in pages, by element, over time,
as a conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeVar

from ...flow.progress.pauses import paused
from ...flow.progress.rows import Key, Row, key_of
from ...journal.records.failures import error_from
from ...journal.records.records import Record
from ...journal.run_calls import MOST_GROUPED, ORDERS, CallsOfElement, CallSpan, RunCalls
from ...lifecycle.past.calls_of_run import elements_of
from ...lifecycle.runs.run import Run
from ...pictures.amounts import duration
from ...pictures.call_words import REQUEST, call_words
from ...pictures.pages.wire import BarRow, DensityRow, ElementRow, SessionRow
from ...pictures.plain import line, plain
from ...pictures.problems import format_exception
from ...pictures.values import value_json, value_text
from .arguments import flow_of, journal_of, natural, naturals, row_of
from .request_types import AnyRun, Json, Refused
from .sessions import MOST_CALLS, arriving_json, session_json

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
SHORT, LONG = 150, 400
"""Characters of a value, and of an error, in a table."""


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
        "rows": call_rows(run, calls, page, row),
    }


def _call(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """One call in full, by its number."""
    calls = journal_of(run)
    found = calls.call(natural(given.get("number")))
    if found is None:
        raise Refused("this call is no longer in the journal")
    shown = given.get("step") and row_of(run, given)
    (row,) = call_rows(run, calls, [found], shown or None)
    return _whole_call(found, row)


def whole_calls(calls: RunCalls, rows: Sequence[Json]) -> dict[int, Json]:
    """The calls of a page in full, by their numbers, those that are still in the journal. Read
    together: the journal looks through all calls of the run for the attempts of any."""
    known = {row["number"]: row for row in rows}
    records = calls.numbered(list(known))
    return {calls.number(each): _whole_call(each, known[calls.number(each)]) for each in records}


def _whole_call(found: Record, row: Json) -> Json:
    answer = dict(row)
    if found.arguments is not None:
        answer["given"] = value_json(found.arguments_shown)
    if found.error is not None:
        answer["error"] = plain(str(error_from(found.error, ())), MOST_ERROR)
    else:
        answer["result"] = value_json(found.value_shown)
    return answer


def call_rows(
    run: AnyRun, calls: RunCalls, found: Sequence[Record], shown: Row | None = None
) -> list[Json]:
    """Calls as rows of a table. ``shown``: the step that has them: its name is not repeated."""
    keys = {key_of(one.at) for one in found}
    # Neither is that of a step that made all of them.
    within = keys.pop() if len(keys) == 1 else shown.key if shown is not None else ()
    numbered = zip(found, calls.number_attempts(found), strict=True)
    return [_call_row(run, calls, one, attempt, within) for one, attempt in numbered]


def _call_row(run: AnyRun, calls: RunCalls, found: Record, attempt: int, within: Key) -> Json:
    rows, call = run.progress.rows, (found.kind, found.name)
    if found.error is not None:
        result = _failure(found)
    else:
        result = value_text(found.value_shown) if found.result.form is not None else found.what
    return {
        "number": calls.number(found),
        "at": call_words(rows, found.at, within=within, call=call) or line(found.name, 60),
        "name": line(found.name, 60),
        "failed": found.what == "failed",
        "what": found.what,
        "attempt": attempt,
        "took": duration(found.seconds),
        "input": line(_given(found), SHORT) if found.arguments is not None else "",
        "output": line(result, LONG if found.error is not None else SHORT),
    }


def _failure(found: Record) -> str:
    """What a failed call raised: the column of the table says that it failed, and its step which
    tool."""
    text = format_exception(error_from(found.error or "{}", ()))
    begin = f"{found.kind} {found.name!r} failed: "
    return text.removeprefix(begin)


def _given(found: Record) -> str:
    """What a call got; of a request to a model the last message."""
    given = found.arguments_shown
    messages = given.get("messages") if isinstance(given, Mapping) else None
    if found.kind == REQUEST and isinstance(messages, list) and messages:
        last = messages[-1]
        text = last.get("text") if isinstance(last, Mapping) else None
        return text if isinstance(text, str) and text else value_text(last)
    return value_text(given)


def _spans(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """When the calls of a step ran; or, for more than `MOST_SPANS` calls, how many ran in each of
    `BUCKETS` equal times."""
    row, calls = row_of(run, given), journal_of(run)
    total = calls.count(row).total
    most = MOST_GROUPED if total > MOST_SPANS else MOST_SPANS
    found = [_clocked(run, one) for one in calls.spans(row, most)]
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


Timed = TypeVar("Timed", CallSpan, CallsOfElement)


def _clocked(run: AnyRun, one: Timed) -> Timed:
    """Its times without the pauses of the run before them."""
    pauses = run.progress.pauses
    return one._replace(
        started=one.started - paused(pauses, one.started),
        ended=one.ended - paused(pauses, one.ended),
    )


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
        for one in (_clocked(run, each) for each in page)
    ]
    return {"total": len(found), "offset": offset, "page": PAGE, "rows": rows}


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
    "session": _session,
}


def running_calls(run: AnyRun, row: Row, index: tuple[int, ...] = ()) -> list[Record]:
    """The first calls of a step, and of steps inside it, that have not ended; of the element with
    ``index``. Those of threads of a fan-out are not known."""
    if not isinstance(run, Run) or run.journal is None:
        return []
    return journal_of(run).begun(list(run.journal.running.values()), row, MOST_CALLS, index)
