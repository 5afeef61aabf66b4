"""What the page of the explorer may ask of a run, by name: bounded, plain JSON, of a live or of a
past run.

All requests but one only read: from `Progress`, on any thread, and from the journal, with connections
that cannot write. Only ``label`` writes: what a person said about a row. Nothing is unpickled. Texts are
bounded and without control characters; the page shows them as text, never as HTML.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any

from ...engine.linking.linked import Linked
from ...flow.progress.rows import Row, key_of
from ...flow.steps import Each, Fold, Invoke, Repeat
from ...journal.records.records import Record
from ...lifecycle.forecasts.evaluations import evaluates
from ...lifecycle.past.calls_of_run import calls_of
from ...lifecycle.run_internals import linked_flow
from ...pictures.call_words import name_place
from ...pictures.layout.arrange import ROOM, Direction, arrange
from ...pictures.layout.svg import EdgePlace, dark_style, edge_places, paint
from ...pictures.pages.parts import failure_groups, shown_status
from ...pictures.pages.run_page import MOST_STORES
from ...pictures.pages.wire import DroppedRow, EdgeRow, NamedStoreRow
from ...pictures.plain import line, plain
from ...pictures.problems import brief_reason, format_exception
from ...pictures.row_words import (
    activity,
    count_words,
    does,
    shown_name,
    spent,
    state_words,
    tally_of,
)
from ...pictures.scene.builder import scene
from ...pictures.scene.called_flows import called_flows
from ...pictures.scene.groups import steps_of_groups, with_groups
from ...pictures.scene.scene import Frame, Scene, within
from ...pictures.theme import STATES
from ...pictures.value_line import value_line
from ...pictures.values import value_brief, value_json, value_text
from ...text.diagnostics import AgfError
from ...text.source import Span
from ...values.value import Value
from .arguments import linked_within, natural, row_of, texts_of
from .calls import CALL_REQUESTS, MOST_ERROR, call_rows, running_calls
from .elements import ELEMENT_REQUESTS
from .evaluations import answer_evaluations
from .forecasts import answer_moment, answer_moments, answer_stale
from .raised_in import raised_in
from .request_types import NO_JOURNAL, AnyRun, Json, Refused, Requests
from .table import has_table, label_row, table_page

MOST_UNFOLDED = 25
"""Boxes above which a picture starts with outermost frames folded."""
MOST_ATTEMPTS = 20
"""The most attempts of a step that the page gets."""
MOST_PRINTED = 20_000
"""The most characters of what a step printed, and of each part of a reply that arrives."""
MOST_LINES = 60
"""The most lines of a definition."""
MOST_PROBLEMS = 20
"""The most warnings of a run, and the most messages of its dropped elements."""
MOST_GROUPED = 10_000
"""The most failures that are grouped by their message."""
MOST_COPIED = 1_000_000
"""The most characters of a value that a person copies in the page."""
MOST_BRIEF = 150
"""The most characters of the beginning of a result or an error, in the tooltip of a box."""
MOST_PLACES = 50
"""The most places of one message that the page gets."""


def requests_of(run: AnyRun) -> Requests:
    """What the page may ask of ``run``."""
    return {name: partial(answer, run) for name, answer in REQUESTS.items()}


def picture_json(linked: Linked, arguments: Mapping[str, Any]) -> Json:
    """The picture of a flow without states, which the page paints on the boxes. The steps of a long chain
    are in groups. A group has no row, so the page paints the states of its steps.

    - ``flow``: the ids of the calls that lead to the flow.
    - ``folded``: the ids of frames that are drawn as a box; absent: a large picture starts folded.
    - ``direction``: TB, LR or auto.
    - ``breaks``: the boxes that began each row before something was unfolded.
    - ``width``, ``height``: the size of the picture's place, in pixels.
    """
    inside = texts_of(arguments.get("flow"))
    shown = linked_within(linked, inside)
    flow = shown.flow
    inner = called_flows(flow, shown.callees, MOST_UNFOLDED)
    draw = partial(
        scene,
        called=inner.enterable,
        opened=inner.opened,
        offered=inner.offered,
        answering=inner.answering,
    )
    drawn = with_groups(draw(flow), ())
    groups = steps_of_groups(drawn)
    frames = {frame.id for frame in drawn.frames}
    folded = [id for id in texts_of(arguments.get("folded")) if id in frames]
    if "folded" not in arguments:
        folded = _folded_at_start(drawn)
    if folded:
        drawn = with_groups(draw(flow, folded), folded)
    wanted = arguments.get("direction")
    direction: Direction = wanted if wanted in ("TB", "LR") else "auto"
    breaks = texts_of(arguments.get("breaks")) if "breaks" in arguments else None
    arranged = arrange(drawn, direction, _room(arguments), breaks)
    return {
        "svg": paint(drawn, arranged, {}),
        "dark": dark_style(drawn),
        "flow": inside,
        "boxes": [box.id for box in drawn.boxes],
        "frames": [frame.id for frame in drawn.frames],
        "folded": folded,
        "groups": groups,
        "down": arranged.layout.is_down,
        "breaks": [*arranged.breaks],
        "edges": [_edge_row(edge) for edge in edge_places(drawn, arranged)],
    }


def _edge_row(edge: EdgePlace) -> EdgeRow:
    if edge.place is None:
        return EdgeRow(edge.key, edge.line, 0)
    x, y = (round(side, 1) for side in edge.place.anchor)
    leader = edge.place.leader and [round(side, 1) for side in edge.place.leader]
    return EdgeRow(edge.key, edge.line, edge.room, x, y, edge.place.side, leader)


def _folded_at_start(drawn: Scene) -> list[str]:
    """The outermost frames that start folded: the largest first, until the picture has few boxes. In a
    long chain, all groups."""
    if groups := steps_of_groups(drawn):
        return [*groups]
    sizes = {
        frame.id: sum(1 for box in within(frame.parts) if not isinstance(box, Frame))
        for frame in drawn.parts
        if isinstance(frame, Frame)
    }
    count = sum(1 for _ in drawn.boxes)
    folded = list[str]()
    for id in sorted(sizes, key=lambda id: -sizes[id]):
        if count <= MOST_UNFOLDED:
            break
        folded.append(id)
        count -= sizes[id] - 1
    return folded


def _room(arguments: Mapping[str, Any]) -> tuple[float, float]:
    """The size of the place for a picture in the page, in pixels."""
    width = arguments.get("width")
    height = arguments.get("height")
    if isinstance(width, int) and isinstance(height, int):
        return float(min(max(width, 300), 10_000)), float(min(max(height, 200), 10_000))
    return ROOM


def _run(run: AnyRun, arguments: Mapping[str, Any]) -> Json:
    """The run itself: how it ended, its output, its stores, its input, its problems."""
    mask, progress = run.secrets.shown, run.progress
    facts: Json = {
        "name": line(run.name, 80),
        "id": line(run.run_id, 90),
        "status": shown_status(progress),
        "note": plain(run.note, 500),
        "python": f"agf.runs({run.run_id!r})" if calls_of(run) is not None else "",
        "how": "" if run.how_to_continue in run.note else run.how_to_continue,
        "table": has_table(run) and calls_of(run) is not None,
        "warnings": [
            plain(run.secrets.text(str(warning)), MOST_ERROR)
            for warning in list(run.warnings)[:MOST_PROBLEMS]
        ],
        "dropped": [
            DroppedRow(line(run.secrets.text(why), 200), len(places), places[:MOST_PLACES])
            for why, places in failure_groups(progress, MOST_GROUPED)[:MOST_PROBLEMS]
        ],
        "stores": [
            NamedStoreRow(line(name, 60), value_brief(value, mask))
            for name, value in islice(run.progress.stores.items(), MOST_STORES)
        ],
    }
    if run.error is not None:
        facts["error"] = _error(run, run.error)
    if progress.ended is not None and (run.status == "ok" or run.shown_output is not None):
        facts["output"] = _shown_value(run, run.shown_output)
    if run.input:
        facts["input"] = value_json(mask(run.input), mask)
    return facts


def _store(run: AnyRun, arguments: Mapping[str, Any]) -> Json:
    """The value of one of the stores, by its number."""
    return _shown_value(run, _store_value(run, arguments))


def _store_value(run: AnyRun, arguments: Mapping[str, Any]) -> Value:
    number = natural(arguments.get("number"))
    for name in islice(run.stores, number, number + 1):
        return run.stores[name]
    raise Refused("the run no longer has this store")


def _text(run: AnyRun, arguments: Mapping[str, Any]) -> Json:
    """A value as JSON, to be copied: a store, the result of a step, or the output of the run."""
    if "number" in arguments:
        value = _store_value(run, arguments)
    elif "step" in arguments:
        row = row_of(run, arguments)
        calls = calls_of(run)
        attempts = list[Record]()
        if calls is not None and row.held is None:
            attempts = calls.attempts(row, MOST_ATTEMPTS)
        value = attempts[-1].value_shown if attempts else row.value
    else:
        value = run.shown_output
    pieces = list[str]()
    length = 0
    try:
        # Piece by piece: a value of 1 GB is refused before it is a text.
        for piece in _AS_JSON.iterencode(run.secrets.shown(value)):
            pieces.append(piece)
            length += len(piece)
            if length > MOST_COPIED:
                raise Refused(f"at most {MOST_COPIED:,} characters are copied: read it in Python")
    except (TypeError, ValueError, RecursionError):
        raise Refused("this value is not JSON: read it in Python") from None
    return {"text": "".join(pieces)}


_AS_JSON = json.JSONEncoder(
    ensure_ascii=False, indent=1, default=partial(value_text, is_exact=True)
)


def _step(run: AnyRun, arguments: Mapping[str, Any]) -> Json:
    """The facts of one step. ``calls``: the arguments for a page of its calls, which is then added."""
    row = row_of(run, arguments)
    has_calls = row.started > 0 and calls_of(run) is not None
    # The page lists the calls of a step that is ``many``, by element if it has ``elements``; what its
    # expressions read and gave if it ``evaluates``; and it offers a cell with the call if it ``opens``.
    facts: Json = {
        "id": line(str(arguments.get("step")), 200),
        "name": line(shown_name(row), 400),
        "does": line(does(row), 400),
        "state": row.look,
        "words": state_words(row),
        "counted": _counted(run, row),
        "why": line(row.why, 300),
        "session": session_of(run, row),
        "many": _is_many(row),
        "elements": isinstance(row.step, Each | Fold | Repeat)
        and not getattr(row.step, "session", False),
        "evaluates": _title_of_evaluations(row) if evaluates(row.step) and has_calls else "",
        "opens": isinstance(row.step, Invoke) and row.step.kind == "tool" and has_calls,
    }
    if row.step.span is not None:
        facts["definition"] = describe_definition(row.step.span)
    if row.error is not None and row.look != "ok":  # else the error belongs to an earlier attempt
        facts["error"] = _error(run, row.error)
        facts["brief"] = _brief_error(run, row.error)
    if isinstance(calls := arguments.get("calls"), dict):
        # If the journal is gone, the page asks for the calls alone, and gets the reason.
        with suppress(AgfError):
            facts["calls"] = CALL_REQUESTS["calls"](run, {**calls, "step": row.id})
    if row.printed:
        facts["printed"] = plain(run.secrets.text(row.printed), MOST_PRINTED)
    # A conversation has what arrives, and what broke off.
    if row.arriving is not None and not (facts["session"] and calls_of(run) is not None):
        parts = row.arriving.parts.copy().items()
        facts["arriving"] = [
            [line(part, 20), plain(run.secrets.text(text), MOST_PRINTED)] for part, text in parts
        ]
    return (_values_of_many(run, row) if _is_many(row) else _values(run, row)) | facts


def _title_of_evaluations(row: Row) -> str:
    """What a called flow got is its input, as that of a tool."""
    return "Input" if isinstance(row.step, Invoke) else "Values"


def session_of(run: AnyRun, row: Row) -> str:
    """The id of the row with the session of a model that ``row`` belongs to: the row itself, or the row
    of the agent or of the requests. Empty if there is no session."""
    sessions = run.progress.sessions
    session = row if getattr(row.step, "session", False) is True else sessions.get(row.key)
    if session is None and row.is_request:
        same_turns = (other for other in sessions.values() if other.turns is row.turns)
        session = next(same_turns, None)
    return line(session.id, 200) if session is not None else ""


def _counted(run: AnyRun, row: Row) -> str:
    tally = tally_of(row)
    numbers = str(tally) if tally is not None else count_words(row)
    return " · ".join(filter(None, (numbers, activity(row), *spent(row))))


def _is_many(row: Row) -> bool:
    """Whether a row may run several times. Its calls are then listed, as it has no single input and
    output."""
    return row.many or bool(row.elements) or row.again


def _values_of_many(run: AnyRun, row: Row) -> Json:
    """The sequence and the result of a fan-out that runs once. Of a step that runs several times the
    calls have the values, but for the input of the call that runs."""
    values: Json = {} if calls_of(run) is not None else {"note": NO_JOURNAL}
    running = _running(run, row)
    if running:
        values["input"] = value_json(running[-1].arguments_shown)
    if row.over is not None:
        values["input"] = _shown_value(run, row.over)
    if row.elements and not row.many and row.state == "ok":
        values |= _result(run, row.held)
    return values


def _running(run: AnyRun, row: Row) -> list[Record]:
    """The calls that the step itself makes now, without the calls of a fan-out's elements."""
    try:
        calls = [] if row.many else running_calls(run, row)
        return [call for call in calls if key_of(call.at) == row.key]
    except AgfError:  # the journal is gone: the request for the ended calls says so
        return []


def _values(run: AnyRun, row: Row) -> Json:
    """The input, the output and the attempts of a step that runs once."""
    calls = calls_of(run)
    values: Json = {} if calls is not None else {"note": NO_JOURNAL}
    try:
        attempts = calls.attempts(row, MOST_ATTEMPTS) if calls is not None else []
    except AgfError as error:  # the journal is gone: the rest is known without it
        attempts = []
        values["note"] = line(str(error.diagnostic.message), 400)
    last = next(reversed([*attempts, *_running(run, row)]), None)
    if last is not None and last.arguments.text is not None:
        values["input"] = value_json(last.arguments_shown)
    if len(attempts) > 1 and calls is not None:
        values["attempts"] = call_rows(run, calls, attempts, row)
    if row.held is not None:
        values |= _result(run, row.held)
    elif last is not None and last.what == "finished":
        shown = last.value_shown
        values |= {"output": value_json(shown), "brief": _brief(shown)}
    elif row.state == "ok":
        values["output"] = value_json(None)
    return values


def _result(run: AnyRun, value: Value) -> Json:
    """The result of a step, and how it begins."""
    return {"output": _shown_value(run, value), "brief": _brief(run.secrets.shown(value))}


def _brief(value: Value) -> str:
    return f"→ {line(value_line(value, MOST_BRIEF), MOST_BRIEF)}"


def _brief_error(run: AnyRun, error: BaseException) -> str:
    """The first line of an error, without the name of the call: its box has it."""
    first = run.secrets.text(brief_reason(error)).strip().partition("\n")[0]
    return f"{STATES['failed'].mark} {line(first, MOST_BRIEF)}"


def _shown_value(run: AnyRun, value: Value) -> Json:
    """A value of the run; what a model answered is Markdown."""
    mask = run.secrets.shown
    return value_json(
        mask(value), mask, is_reply=run.progress.is_reply(value), replies=run.progress.is_reply
    )


def _error(run: AnyRun, error: BaseException) -> str:
    """The error with its place and its hint, and the line that raised it, without secrets."""
    name_place(run.progress.rows, error)
    text = str(error) if isinstance(error, AgfError) else format_exception(error)
    if place := raised_in(error):
        text = f"{text}\n  raised in {place}"
    return plain(run.secrets.text(text), MOST_ERROR)


def describe_definition(span: Span) -> Json:
    """The lines of a step in its definition: the line of its word and the deeper lines below, with one
    line before and one after them."""
    source = span.source
    first = last = span.place[0]
    indent = _indent(source.line(first))
    end = source.place(len(source.text.rstrip()))[0]
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
        "lines": [
            plain(source.line(number), 300) for number in range(start, min(last + 1, end) + 1)
        ],
    }


def _indent(text: str) -> float:
    """The number of blanks at the beginning of a line; a blank line is deeper than any."""
    return len(text) - len(text.lstrip(" ")) if text.strip() else float("inf")


REQUESTS: Mapping[str, Callable[[AnyRun, Mapping[str, Any]], Json]] = {
    "run": _run,
    "store": _store,
    "text": _text,
    "picture": lambda run, arguments: picture_json(linked_flow(run), arguments),
    "step": _step,
    "table": table_page,
    "label": label_row,
    **CALL_REQUESTS,
    **ELEMENT_REQUESTS,
    "evaluations": answer_evaluations,
    "stale": answer_stale,
    "moments": answer_moments,
    "moment": answer_moment,
}
"""The requests of the page by name. The requests that act on the run are in run_channel.py."""
