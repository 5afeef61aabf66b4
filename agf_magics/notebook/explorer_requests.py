"""What the page of the explorer may ask of a run, by name: bounded, plain JSON, of a live or of a past run.

Everything is read: from `Progress`, from any thread, and from the journal, by connections that only read. Nothing is
unpickled. Texts are bounded and without control characters; the page writes them as text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from ..engine.linked import Linked
from ..flow.steps import Flow
from ..journal.records import Record, error_from
from ..lifecycle.past_run import PastRun
from ..lifecycle.run import Run
from ..lifecycle.run_calls import RunCalls, calls_of, linked_flow
from ..pictures.counters import tallies, times, words
from ..pictures.diagram import place
from ..pictures.fold import fold
from ..pictures.page import format_exception, status
from ..pictures.plain import duration, line, plain
from ..pictures.run_page import MOST_STORES, how_to_continue
from ..pictures.scene import scene
from ..pictures.svg import paint
from ..pictures.value_json import value_json
from ..pictures.values import value_text
from ..progress.events import format_path
from ..progress.progress import Row
from ..text.diagnostics import AgfError
from ..text.source import Span
from .explorer_session import Json, session_json

AnyRun = Run | PastRun

PAGE = 100
"""Calls of one page."""
MOST_SPANS = 4_000
"""Bars of a timeline; more calls are shown as a density."""
MOST_ATTEMPTS = 20
MOST_LINES = 60
"""Lines of a definition."""
MOST_FINDINGS = 20
"""Warnings, and dropped elements, of a run."""
MOST_ERROR = 4_000
"""Characters of an error."""
SHORT = 150
"""Characters of a value in a table."""


class Refused(Exception):
    """A request that cannot be answered: the page shows the message."""


def answer_request(run: AnyRun, name: str, given: Mapping[str, Any]) -> Json:
    """The answer to the request ``name``. Raises Refused, or an AgfError with the reason."""
    request = REQUESTS.get(name)
    if request is None:
        raise Refused(f"unknown request {name!r}")
    return request(run, given)


def _picture(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """A flow without states: the page paints these on the boxes. ``flow``: the ids of the calls that lead to it;
    ``folded``: the ids of frames of which only the head is drawn; none: a large picture starts folded."""
    inside = _texts(given.get("flow"))
    drawn = scene(_linked(run, inside).flow)
    frames = [frame.id for frame in drawn.frames]
    folded = [id for id in _texts(given.get("folded")) if id in set(frames)]
    drawn = fold(drawn, folded)
    placed, wiring = place(drawn)
    return {
        "svg": paint(drawn, placed, wiring, {}),
        "flow": inside,
        "boxes": [box.id for box in drawn.boxes],
        "frames": [frame.id for frame in drawn.frames],
        "folded": folded,
    }


def _linked(run: AnyRun, calls: Sequence[str]) -> Linked:
    """The flow that the calls with these ids lead to."""
    found: object = linked_flow(run)
    for id in calls:
        found = found.callees.get(id) if isinstance(found, Linked) else None
    if not isinstance(found, Linked):
        raise Refused("this step calls no flow that can be drawn")
    return found


def _run(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """The run itself: how it ended, its output, its stores, its input, its findings."""
    mask, progress = run.secrets.shown, run.progress
    found: Json = {
        "name": line(run.name, 80),
        "id": line(run.run_id, 90),
        "status": status(progress),
        "note": plain(run.note, 500),
        "how": how_to_continue(run),
        "warnings": [plain(run.secrets.text(str(one)), MOST_ERROR) for one in list(run.warnings)[:MOST_FINDINGS]],
        "dropped": [
            [line(format_path(one.at), 100), line(run.secrets.text(format_exception(one.error)), 200)]
            for one in progress.failures[:MOST_FINDINGS]
        ],
        "stores": [
            [line(name, 60), value_json(mask(value), mask)] for name, value in islice(run.stores.items(), MOST_STORES)
        ],
    }
    if run.error is not None:
        found["error"] = _error(run, run.error)
    if progress.ended is not None and (run.status == "ok" or run.output is not None):
        found["output"] = value_json(mask(run.output), mask)
    if run.input:
        found["input"] = value_json(mask(run.input), mask)
    return found


def _step(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """The facts of one step."""
    row = _row(run, given)
    found: Json = {
        "id": line(row.id, 200),
        "word": line(row.word, 24),
        "label": line(row.label, 400),
        "state": row.state,
        "words": words(row),
        "took": duration(row.seconds),
        "counted": _counted(run, row),
        "why": line(row.why, 300),
        "session": getattr(row.step, "session", False) is True,
        "many": _is_many(row),
    }
    if row.step.span is not None:
        found["definition"] = _definition(row.step.span)
    if row.error is not None:
        found["error"] = _error(run, row.error)
    return {**found, **(_values_of_many(run) if _is_many(row) else _values(run, row))}


def _counted(run: AnyRun, row: Row) -> str:
    tally = tallies(run.progress).get(row.key)
    return str(tally) if tally is not None else times(row)


def _is_many(row: Row) -> bool:
    return row.many or bool(row.elements) or row.again


def _values_of_many(run: AnyRun) -> Json:
    return {} if calls_of(run) else {"note": NO_JOURNAL}


def _values(run: AnyRun, row: Row) -> Json:
    """The input, the output and the attempts of a step that runs once."""
    calls, mask = calls_of(run), run.secrets.shown
    attempts = calls.attempts(row, MOST_ATTEMPTS) if calls is not None else []
    last = attempts[-1] if attempts else None
    found: Json = {} if calls is not None else {"note": NO_JOURNAL}
    if last is not None and last.given is not None:
        found["input"] = value_json(last.given_shown)
    if len(attempts) > 1 and calls is not None:
        found["attempts"] = [_call_row(calls, one) for one in attempts]
    if row.value is not None and isinstance(run, Run):
        found["output"] = value_json(mask(row.value), mask)
    elif last is not None and last.what == "finished":
        found["output"] = value_json(last.value_shown)
    elif row.value is not None:
        found["output"] = value_json(row.value)
    elif row.state == "ok":
        found["output"] = value_json(None)
    return found


def _error(run: AnyRun, error: BaseException) -> str:
    """The error with its place and its hint, without secrets."""
    text = str(error) if isinstance(error, AgfError) else format_exception(error)
    return plain(run.secrets.text(text), MOST_ERROR)


def _definition(span: Span) -> Json:
    """The lines of a step in its definition: the line of its word and the deeper lines below it, and a line around
    them."""
    source = span.source
    first = last = span.place[0]
    indent = _indent(source.line(first))
    end = source.place(len(source.text))[0]
    while last < min(end, first + MOST_LINES) and _indent(source.line(last + 1)) > indent:
        last += 1
    while last > first and not source.line(last).strip():
        last -= 1
    start = max(source.first_line, first - 1)
    return {
        "name": line(source.name, 100),
        "start": start,
        "first": first,
        "last": last,
        "lines": [plain(source.line(number), 300) for number in range(start, min(last + 1, end) + 1)],
    }


def _indent(text: str) -> float:
    """The number of blanks at the beginning of a line; a blank line is deeper than any."""
    return len(text) - len(text.lstrip(" ")) if text.strip() else float("inf")


def _calls(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """A page of the calls of a step, failed ones first. ``offset``; ``failed``: only failed calls; ``index``: only of
    this element."""
    row, calls = _row(run, given), _journal(run)
    offset, failed, index = _count(given.get("offset")), given.get("failed") is True, _numbers(given.get("index"))
    total, lost = calls.count(row, index)
    page = calls.page(row, PAGE, offset, failed=failed, failed_first=True, index=index)
    return {
        "total": lost if failed else total,
        "failed": lost,
        "offset": offset,
        "page": PAGE,
        "rows": [_call_row(calls, one) for one in page],
    }


def _call(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """One call in full, by its number."""
    calls = _journal(run)
    found = calls.call(_count(given.get("number")))
    if found is None:
        raise Refused("this call is no longer in the journal")
    answer = _call_row(calls, found)
    if found.given is not None:
        answer["given"] = value_json(found.given_shown)
    if found.error is not None:
        answer["error"] = plain(str(error_from(found.error, ())), MOST_ERROR)
    else:
        answer["result"] = value_json(found.value_shown)
    return answer


def _call_row(calls: RunCalls, found: Record) -> Json:
    """A call as a row of a table."""
    if found.error is not None:
        result = format_exception(error_from(found.error, ()))
    else:
        result = value_text(found.value_shown) if found.form is not None else found.what
    return {
        "number": calls.number(found),
        "at": line(format_path(found.at), 120),
        "name": line(found.name, 60),
        "failed": found.what == "failed",
        "what": found.what,
        "attempt": found.attempt,
        "took": duration(found.seconds),
        "input": line(value_text(found.given_shown), SHORT) if found.given is not None else "",
        "output": line(result, SHORT),
    }


def _spans(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """When the calls of a step ran: start and end in milliseconds after the first start, and whether each failed."""
    row, calls = _row(run, given), _journal(run)
    found = calls.spans(row, MOST_SPANS)
    zero = found[0].started if found else 0.0
    bars = [[round((a - zero) * 1e3, 1), round((b - zero) * 1e3, 1), int(failed)] for a, b, failed in found]
    return {"bars": bars, "total": calls.count(row).total}


def _session(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """The conversation of a model's session."""
    row = _row(run, given)
    return session_json(_journal(run), row)


REQUESTS: Mapping[str, Callable[[AnyRun, Mapping[str, Any]], Json]] = {
    "run": _run,
    "picture": _picture,
    "step": _step,
    "calls": _calls,
    "call": _call,
    "spans": _spans,
    "session": _session,
}
"""Requests that only read. `Explorer` has those that act."""

NO_JOURNAL = "the run is not journaled: its inputs and calls are not known"


def _row(run: AnyRun, given: Mapping[str, Any]) -> Row:
    id = given.get("step")
    found = run.progress.rows.get(tuple(id.split("/"))) if isinstance(id, str) else None
    if found is None:
        # A quoted name may contain a slash.
        found = next((row for row in list(run.progress.rows.values()) if row.id == id), None)
    if found is None:
        raise Refused(f"the run has no step {line(str(id), 100)!r}")
    return found


def _journal(run: AnyRun) -> RunCalls:
    found = calls_of(run)
    if found is None:
        raise Refused(NO_JOURNAL)
    return found


def _count(number: object) -> int:
    return number if type(number) is int and 0 <= number < 1 << 40 else 0


def _numbers(numbers: object) -> tuple[int, ...]:
    return tuple(_count(one) for one in numbers[:20]) if isinstance(numbers, list) else ()


def _texts(texts: object) -> list[str]:
    return [one for one in texts[:1_000] if isinstance(one, str)] if isinstance(texts, list) else []


def flow_of(run: AnyRun, row: Row) -> Flow:
    """The flow, the run's own or a called one, that has the step of a row."""
    return _linked(run, row.key[:-1]).flow
