"""The calls of a step as the page of the explorer asks for them: in pages, one in full, over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeVar

from ...flow.progress.pauses import Pauses, paused
from ...flow.progress.rows import Key, Row, key_of
from ...flow.step_path import is_within
from ...journal.records.failures import error_from
from ...journal.records.records import Record
from ...journal.run_calls import MOST_GROUPED, ORDERS, CallsOfElement, CallSpan, RunCalls
from ...lifecycle.runs.live import started_at
from ...lifecycle.runs.run import Run
from ...pictures.amounts import duration
from ...pictures.call_words import REQUEST, call_words
from ...pictures.pages.wire import BarRow, DensityRow
from ...pictures.plain import line, plain
from ...pictures.problems import format_exception
from ...pictures.value_line import value_line
from ...pictures.values import value_json
from .arguments import calls_or_refuse, natural, naturals, row_of
from .raised_in import raised_in
from .request_types import AnyRun, Json, Refused
from .sessions import MOST_CALLS

PAGE = 100
"""Calls on one page of the list."""
MOST_SPANS = 4_000
"""The most bars of a timeline; more calls are shown as a density."""
BUCKETS = 300
"""Columns of a density."""
MOST_ERROR = 4_000
"""The most characters of an error."""
SHORT = 150
"""The most characters of a value in a table."""
SHORT_ERROR = 400
"""The most characters of an error in a table."""


def _calls(run: AnyRun, arguments: Mapping[str, Any]) -> Json:
    """A page of the calls of a step. ``offset``: the number of calls before the page. ``failed``: only
    failed calls. ``index``: only calls of this element. ``text``: only calls that contain it.
    ``order``: one of `ORDERS`, else failed calls first."""
    row = row_of(run, arguments)
    calls = calls_or_refuse(run)
    offset = natural(arguments.get("offset"))
    failed = arguments.get("failed") is True
    index = naturals(arguments.get("index"))
    text = str(arguments.get("text") or "")[:SHORT]
    order = arguments.get("order")
    if not isinstance(order, str) or order not in ORDERS:
        order = "failed"
    if any(is_within(session, row.key) for session in run.progress.sessions):
        order = {"failed": "failed turn", "element": "turn"}.get(order, order)
    total, failed_total = calls.count(row, index, text)
    page = calls.page(row, PAGE, offset, failed=failed, order=order, index=index, text=text)
    return {
        "total": failed_total if failed else total,
        "failed": failed_total,
        "offset": offset,
        "page": PAGE,
        "rows": call_rows(run, calls, page, row),
    }


def call_in_full(run: AnyRun, arguments: Mapping[str, Any]) -> Json:
    """One call in full, by its number."""
    calls = calls_or_refuse(run)
    record = calls.call(natural(arguments.get("number")))
    if record is None:
        raise Refused("this call is no longer in the journal")
    step = row_of(run, arguments) if arguments.get("step") else None
    (row,) = call_rows(run, calls, [record], step)
    answer = _whole_call(record, row)
    if record.error is not None and (place := _raised_in(run, record)):
        answer["error"] += f"\n  raised in {place}"
    return answer


def _raised_in(run: AnyRun, record: Record) -> str:
    """The line of a cell that raised the error of a call, if this kernel still has the error: the journal
    has only its text."""
    dropped = (failure.error for failure in list(run.progress.failures))
    last = (row.error for row in list(run.progress.rows.values()))
    errors = (error for error in (*dropped, *last) if error is not None)
    places = (raised_in(error) for error in errors if getattr(error, "path", None) == record.at)
    return next(filter(None, places), "")


def whole_calls(calls: RunCalls, rows: Sequence[Json]) -> dict[int, Json]:
    """The calls of a page in full, by their numbers, if they are still in the journal. They are read
    together: to number attempts the journal looks through all calls of the run each time."""
    by_number = {row["number"]: row for row in rows}
    records = {calls.number(record): record for record in calls.numbered(list(by_number))}
    return {number: _whole_call(record, by_number[number]) for number, record in records.items()}


def _whole_call(record: Record, row: Json) -> Json:
    """The row of a call together with the call's arguments and its result or error."""
    answer = dict(row)
    if record.arguments.text is not None:
        answer["given"] = value_json(record.arguments_shown)
    if record.error is not None:
        answer["error"] = plain(str(error_from(record.error, ())), MOST_ERROR)
    else:
        answer["result"] = value_json(record.value_shown)
    return answer


def call_rows(
    run: AnyRun, calls: RunCalls, records: Sequence[Record], shown: Row | None = None
) -> list[Json]:
    """Calls as rows of a table. ``shown``: the step that the page shows; its name is not repeated."""
    within = shown.key if shown is not None else ()
    keys = {key_of(record.at) for record in records}
    if len(keys) == 1:  # one step made all calls: its name is not repeated either
        (within,) = keys
    attempts = zip(records, calls.number_attempts(records), strict=True)
    return [_call_row(run, calls, record, attempt, within) for record, attempt in attempts]


def _call_row(run: AnyRun, calls: RunCalls, record: Record, attempt: int, within: Key) -> Json:
    """A call as a row. ``within``: see `call_words`."""
    call = (record.kind, record.name)
    words = call_words(run.progress.rows, record.at, within=within, call=call)
    return {
        "number": calls.number(record),
        "at": words or line(record.name, 60),
        "name": line(record.name, 60),
        "failed": record.what == "failed",
        "what": record.what,
        "attempt": attempt,
        "took": duration(record.seconds),
        "input": input_of(record),
        "output": output_of(record),
    }


def output_of(record: Record) -> str:
    """The result of a call as a text, or its error; for an answer of a model that asks for no tools,
    what it says."""
    if record.error is not None:
        return line(_failure(record), SHORT_ERROR)
    if record.result.form is None:
        return line(record.what, SHORT)
    result = record.value_shown
    if record.kind == REQUEST and isinstance(result, Mapping) and not result.get("calls"):
        text = result.get("text")
        if isinstance(text, str) and text:
            return line(text, SHORT)
    return line(value_line(result, SHORT), SHORT)


def _failure(record: Record) -> str:
    """What a failed call raised, without "tool X failed": the table says both elsewhere."""
    text = format_exception(error_from(record.error or "{}", ()))
    return text.removeprefix(f"{record.kind} {record.name!r} failed: ")


def input_of(record: Record) -> str:
    """The input of a call as a text; for a request to a model, the last message."""
    if record.arguments.text is None:
        return ""
    arguments = record.arguments_shown
    messages = arguments.get("messages") if isinstance(arguments, Mapping) else None
    if record.kind == REQUEST and isinstance(messages, list) and messages:
        last = messages[-1]
        text = last.get("text") if isinstance(last, Mapping) else None
        return line(text if isinstance(text, str) and text else value_line(last, SHORT), SHORT)
    return line(value_line(arguments, SHORT), SHORT)


def _spans(run: AnyRun, arguments: Mapping[str, Any]) -> Json:
    """When the calls of a step ran, in milliseconds after the first call began; for more than
    `MOST_SPANS` calls, how many ran in each of `BUCKETS` equal times. ``began``: milliseconds from the
    begin of the run to the first call. ``open``: the same for the first call that still runs."""
    row = row_of(run, arguments)
    calls = calls_or_refuse(run)
    total = calls.count(row).total
    most = MOST_GROUPED if total > MOST_SPANS else MOST_SPANS
    spans = [clocked(run, span) for span in calls.spans(row, most)]
    zero = spans[0].started if spans else 0.0
    began = round((zero - _run_began(run)) * 1e3, 1) if spans else 0.0
    if total > MOST_SPANS:
        end = max(span.ended for span in spans) - zero
        density = _density(spans, zero, end or 1e-9)
        return {
            "total": total,
            "began": began,
            "end": round(end * 1e3, 1),
            "most": _most_at_a_time(spans),
            "density": density,
        }
    bars = [
        BarRow(
            start=round((span.started - zero) * 1e3, 1),
            end=round((span.ended - zero) * 1e3, 1),
            failed=int(span.failed),
            number=span.number,
        )
        for span in spans
    ]
    return {"total": total, "began": began, "bars": bars, "open": _open_since(run, row)}


def _open_since(run: AnyRun, row: Row) -> float | None:
    """Milliseconds from the begin of the run to the begin of the step's first call that still runs;
    None if no call runs."""
    running = running_calls(run, row, most=1)
    if not running or running[0].started is None:
        return None
    began = running[0].started
    return round((began - paused(_pauses(run), began) - _run_began(run)) * 1e3, 1)


def _run_began(run: AnyRun) -> float:
    """When the first session of a run began, in seconds since 1970."""
    if isinstance(run, Run):
        return started_at(run) - paused(_pauses(run), math.inf)
    return run.started.timestamp()


def _pauses(run: AnyRun) -> Pauses:
    """The times between the sessions of a run. If the run was resumed here, the last pause ends when the
    run's clock goes on, by its clock."""
    pauses = run.progress.pauses
    if not isinstance(run, Run) or not pauses:
        return pauses
    *others, (stopped, _) = pauses
    return (*others, (stopped, started_at(run) + run.progress.ran))


Timed = TypeVar("Timed", CallSpan, CallsOfElement)


def clocked(run: AnyRun, timed: Timed) -> Timed:
    """``timed`` with its times moved: the pauses of the run before them are taken out."""
    pauses = _pauses(run)
    return timed._replace(
        started=timed.started - paused(pauses, timed.started),
        ended=timed.ended - paused(pauses, timed.ended),
    )


def _density(spans: Sequence[CallSpan], zero: float, width: float) -> list[DensityRow]:
    """For each of `BUCKETS` equal times: how many calls ran in it, and how many of these failed."""

    def bucket(time: float) -> int:
        return min(int((time - zero) / width * BUCKETS), BUCKETS - 1)

    # How many calls begin (+) or end (-) in each time; the sums are the numbers that run.
    running = [0] * (BUCKETS + 1)
    failing = [0] * (BUCKETS + 1)
    for start, end, failed, _ in spans:
        for place, sign in ((bucket(start), 1), (bucket(end) + 1, -1)):
            running[place] += sign
            failing[place] += sign * failed
    columns = zip(accumulate(running[:-1]), accumulate(failing[:-1]), strict=True)
    return [DensityRow(*counts) for counts in columns]


def _most_at_a_time(spans: Sequence[CallSpan]) -> int:
    # A call that starts when another one ends does not run at the same time.
    changes = sorted(
        [*((span.ended, -1) for span in spans), *((span.started, 1) for span in spans)]
    )
    return max(1, *accumulate(change for _, change in changes))


CALL_REQUESTS = {"calls": _calls, "call": call_in_full, "spans": _spans}


def running_calls(
    run: AnyRun, row: Row, index: tuple[int, ...] = (), most: int = MOST_CALLS
) -> list[Record]:
    """The first calls of a step, and of steps inside it, that have not ended. ``index``: only calls of
    this element. Calls in the threads of a fan-out are not known."""
    if not isinstance(run, Run) or run.journal is None:
        return []
    return calls_or_refuse(run).begun(list(run.journal.running.values()), row, most, index)
