"""The elements of a fan-out and the sessions of a model as the page asks for them, each with its state.

The journal has the calls that have ended. What still runs, and which elements were dropped, is known
from the progress of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

from ...flow.progress.rows import Row, key_of
from ...flow.step_path import StepPath, is_within
from ...journal.records.records import Record
from ...journal.run_calls import CallsOfElement, RunCalls, numbers_in
from ...lifecycle.past.calls_of_run import element_depth, elements_of
from ...lifecycle.runs.run import Run
from ...pictures.amounts import duration
from ...pictures.call_words import REQUEST
from ...pictures.pages.wire import ElementRow, SessionRow
from ...pictures.plain import line, plain
from ...pictures.row_words import shown_name
from ...text.diagnostics import AgfError
from .arguments import calls_or_refuse, flow_of, natural, naturals, row_of
from .calls import (
    MOST_ERROR,
    PAGE,
    SHORT,
    call_in_full,
    clocked,
    input_of,
    output_of,
    running_calls,
)
from .request_types import AnyRun, Json
from .sessions import arriving_json, session_json

MOST_SESSIONS = 500
"""The most sessions of a step that a person can choose from."""

MOST_INPUT = 60
"""The most characters of what the model of a session was asked, beside its state."""

MOST_ASKED = 20
"""The most sessions without a reply whose request is read for the list of them."""

MOST_AGENTS = 5
"""The most conversations of one element that are shown."""

Numbers = tuple[int, ...]
"""The number of an element, after the numbers of the elements around it."""


def _elements(run: AnyRun, arguments: Mapping[str, Any]) -> Json:
    """The elements of a fan-out or the iterations of a loop, failed ones first, page by page. Each has
    the input of its first call and the result of its last one. ``failed``: only failed elements.
    ``text``: only elements with a call that contains it."""
    row = row_of(run, arguments)
    calls = calls_or_refuse(run)
    offset = natural(arguments.get("offset"))
    flow = flow_of(run, row)
    elements = elements_of(calls, row, flow)
    if text := str(arguments.get("text") or "")[:SHORT]:
        fitting = {element.numbers for element in elements_of(calls, row, flow, text)}
        elements = [element for element in elements if element.numbers in fitting]
    failed = failed_elements(run, row, elements) & {element.numbers for element in elements}
    elements.sort(key=lambda element: (element.numbers not in failed, element.numbers))
    if arguments.get("failed") is True:
        elements = elements[: len(failed)]
    page = [clocked(run, element) for element in elements[offset : offset + PAGE]]
    shown = calls.numbered([number for element in page for number in (element.first, element.last)])
    texts = {calls.number(record): (input_of(record), output_of(record)) for record in shown}
    rows = [
        ElementRow(
            numbers=list(element.numbers),
            calls=element.calls,
            failed=element.failed,
            is_failed=element.numbers in failed,
            took=duration(max(0.0, element.ended - element.started)),  # a clock may be set back
            output=texts.get(element.last, ("", ""))[1],
            input=texts.get(element.first, ("", ""))[0],
        )
        for element in page
    ]
    facts = {"total": len(elements), "failed": len(failed)}
    return {**facts, "offset": offset, "page": PAGE, "rows": rows}


def _element(run: AnyRun, arguments: Mapping[str, Any]) -> Json:
    """What a person sees of the element with ``index`` before its calls: what failed in it, and the
    steps in it that are sessions of a model."""
    row = row_of(run, arguments)
    calls = calls_or_refuse(run)
    index = naturals(arguments.get("index"))
    elements = [
        element
        for element in elements_of(calls, row, flow_of(run, row))
        if element.numbers == index
    ]
    sessions = {
        key: session
        for key, session in run.progress.sessions.items()
        if is_within(session.key, row.key) and session.started
    }
    facts: Json = {"failed": bool(failed_elements(run, row, elements) & {index})}
    if elements and elements[0].last_failed:
        last = calls.call(elements[0].last)
        # A conversation has the error itself.
        if last and not any(is_within(key_of(last.at), talk.key) for talk in sessions.values()):
            facts["lead"] = call_in_full(run, {"number": elements[0].last, "step": row.id})
    elif facts["failed"]:
        facts["lead"] = {"error": _why_dropped(run, row, index)}
    facts["sessions"] = [
        [line(session.id, 200), line(shown_name(run.progress.rows.get(key, session)), 80)]
        for key, session in islice(sessions.items(), MOST_AGENTS)
    ]
    return facts


def _why_dropped(run: AnyRun, row: Row, index: Numbers) -> str:
    """The error for which an element was dropped although its calls are ok."""
    errors = (error for numbers, error in _dropped(run, row) if numbers == index)
    return plain(run.secrets.text(str(next(errors, ""))), MOST_ERROR)


def failed_elements(run: AnyRun, row: Row, elements: Iterable[CallsOfElement]) -> set[Numbers]:
    """The elements of a step that failed: whose last call failed, or that were dropped although it was
    ok, for example because of the type of its result."""
    failed = {element.numbers for element in elements if element.last_failed}
    return failed | {numbers for numbers, _ in _dropped(run, row)}


def _dropped(run: AnyRun, row: Row) -> Iterator[tuple[Numbers, BaseException]]:
    """The elements of a step that were dropped because of a failure in it, each with the error."""
    depth = element_depth(row, flow_of(run, row))
    if depth is None or not any(part.failed for part in (row, *row.elements)):
        return
    bodies = [part.key for part in row.elements or (row,)]
    for failure in list(run.progress.failures):
        if any(is_within(body, key_of(failure.at)) for body in bodies):
            place = getattr(failure.error, "path", None) or failure.at
            numbers = numbers_in(place, row.key, depth)
            if numbers is not None:
                yield numbers, failure.error


def _session(run: AnyRun, arguments: Mapping[str, Any]) -> Json:
    """The conversation of a model's session. Of several sessions, the one with ``index``; with
    ``follows`` only until it has ended, or until another one gets a reply before it. Default: one that
    gets a reply now, else one that runs, else one that failed, else the first. ``element``: only of
    the sessions in this element."""
    row = row_of(run, arguments)
    calls = calls_or_refuse(run)
    sessions = elements_of(calls, row, flow_of(run, row))
    states = _session_states(run, row, calls, sessions)
    element = naturals(arguments.get("element"))
    states = {
        numbers: state for numbers, state in states.items() if numbers[: len(element)] == element
    }
    index = naturals(arguments.get("index"))
    if not index or arguments.get("follows") is True:
        replied = {session.numbers for session in sessions}
        index = _followed(states, index, replied, _arriving_in(run, row))
    failed_calls = {session.numbers: session.failed for session in sessions}
    listed = _listed(states)
    inputs = _inputs_of(run, row, calls, sessions, listed)
    requests = [call for call in running_calls(run, row, index) if call.kind == REQUEST]
    told = ""
    if isinstance(row.error, AgfError) and row.look != "ok":  # as the panel shows it
        told = run.secrets.text(row.error.diagnostic.message)
    conversation = session_json(calls, row, index, requests[:1], told)
    conversation["messages"] += arriving_json(run, row, index)
    return {
        **conversation,
        "index": list(index),
        "sessions": [
            SessionRow(
                list(numbers),
                states[numbers],
                failed_calls.get(numbers, 0),
                inputs.get(numbers, ""),
            )
            for numbers in listed
        ],
        "total": len(states),
    }


class _LastInputs:
    """What the models of the last requested run were asked first, by the number of the call: that never
    changes, and a page asks each second for the sessions of a step that runs."""

    run_id = ""
    by_call: ClassVar[dict[int, str]] = {}


def _inputs_of(
    run: AnyRun,
    row: Row,
    calls: RunCalls,
    sessions: Iterable[CallsOfElement],
    listed: Sequence[Numbers],
) -> dict[Numbers, str]:
    """What the model of each listed session was asked first; of those that have no reply yet, only of
    the first `MOST_ASKED`."""
    if _LastInputs.run_id != run.run_id:
        _LastInputs.run_id, _LastInputs.by_call = run.run_id, {}
    by_call = _LastInputs.by_call
    shown = set(listed)
    firsts = {session.numbers: session.first for session in sessions if session.numbers in shown}
    unread = [number for number in firsts.values() if number not in by_call]
    for record in calls.numbered(unread) if unread else ():
        by_call[calls.number(record)] = line(input_of(record), MOST_INPUT)
    inputs = {numbers: by_call.get(number, "") for numbers, number in firsts.items()}
    for numbers in [numbers for numbers in listed if numbers not in firsts][:MOST_ASKED]:
        asked = (call for call in running_calls(run, row, numbers) if call.kind == REQUEST)
        if request := next(asked, None):
            inputs[numbers] = line(input_of(request), MOST_INPUT)
    return inputs


def _listed(states: Mapping[Numbers, str]) -> list[Numbers]:
    """The sessions that a person can choose from, in order. Of too many, rather those that are not ok."""
    chosen = sorted(states, key=lambda numbers: (states[numbers] == "ok", numbers))[:MOST_SESSIONS]
    return sorted(chosen)


def _session_states(
    run: AnyRun, row: Row, calls: RunCalls, sessions: Sequence[CallsOfElement]
) -> dict[Numbers, str]:
    """The state of each session of a step that has begun, by its numbers."""
    states = dict.fromkeys((session.numbers for session in sessions), "ok")
    states |= dict.fromkeys(failed_elements(run, row, sessions), "failed")
    depth = element_depth(row, flow_of(run, row))
    if depth is None:
        return states
    running = [numbers_in(path, row.key, depth) for path in _running_in(run, row)]
    states |= dict.fromkeys((numbers for numbers in running if numbers is not None), "running")
    # A session between two of its calls, or that was cancelled there.
    is_open = row.running > len(set(running))
    if is_open or row.cancelled or row.left:
        lasts = [
            session.last for session in sessions[-MOST_SESSIONS:] if states[session.numbers] == "ok"
        ]
        unfinished = {calls.number(record) for record in calls.numbered(lasts) if _goes_on(record)}
        state = "running" if is_open else "cancelled"
        states |= {session.numbers: state for session in sessions if session.last in unfinished}
    return states


def _goes_on(record: Record) -> bool:
    """Whether another call of a session follows this one: a request follows the call of a tool, which
    follows a reply that asks for it."""
    if record.kind != REQUEST:
        return True
    reply = record.value_shown
    asked = reply.get("calls") if isinstance(reply, Mapping) else None
    return isinstance(asked, list) and any(
        isinstance(call, Mapping) and bool(call.get("tool")) for call in asked
    )


def _running_in(run: AnyRun, row: Row) -> list[StepPath]:
    """The places in a step where a call runs or a reply arrives now."""
    if not isinstance(run, Run) or run.journal is None:
        return []
    places = [call.key.at for call in list(run.journal.running.values())]
    return [*(at for at in places if is_within(key_of(at), row.key)), *_arriving_in(run, row)]


def _arriving_in(run: AnyRun, row: Row) -> list[StepPath]:
    """The requests in a step whose replies arrive now, the one that began first at first."""
    return [
        at
        for inner in list(run.progress.rows.values())
        if is_within(inner.key, row.key)
        for at, reply in inner.replies.items()
        if not reply.ended
    ]


def _followed(
    states: Mapping[Numbers, str],
    last: Numbers,
    replied: set[Numbers],
    arriving: Sequence[StepPath],
) -> Numbers:
    """The session to show to a person who has not chosen one. ``last``: the one that was shown; empty:
    none. ``replied``: the sessions that have had a reply."""
    streams = [numbers for at in arriving for numbers in states if _leads_to(at, numbers)]
    if states.get(last) == "running" and (last in streams or not streams or last in replied):
        return last
    if streams:
        return streams[0]
    running = [numbers for numbers, state in states.items() if state == "running"]
    if last and not running:
        return last
    failed = (numbers for numbers, state in states.items() if state == "failed")
    return min(running, default=min(failed, default=min(states, default=())))


def _leads_to(at: StepPath, numbers: Numbers) -> bool:
    return tuple(bit for bit in at if isinstance(bit, int))[: len(numbers)] == numbers


ELEMENT_REQUESTS = {"elements": _elements, "element": _element, "session": _session}
