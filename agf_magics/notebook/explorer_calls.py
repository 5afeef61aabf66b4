"""A model's session as a conversation, from the journaled requests and tool calls.

The journal may come from anywhere, so every part of a message is checked before it is shown.

The calls of a step as the page of the explorer asks for them: in pages, by element, over time,
as a conversation.

The table of a run over data, for the page: sorted, filtered, page by page; and the labels that a
person gives its rows.

The order of the rows is made once for each wish and kept for its next pages. Only a wish for a
column of the input or output reads all rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ..engine.linked import Linked, flow_at
from ..flow.events import format_path, is_within
from ..flow.progress import Row, cost_of
from ..flow.steps import Flow
from ..flow.values import Value
from ..journal.calls import MOST_GROUPED, ORDERS, CallSpan, RunCalls
from ..journal.records import Record, error_from
from ..languages.over import OVER
from ..lifecycle.past_run import PastRun
from ..lifecycle.past_runs import calls_of, elements_of, runs
from ..lifecycle.run import Run
from ..pictures.plain import duration, format_exception, line, money, plain
from ..pictures.values import cell_text, value_json, value_text
from ..text.diagnostics import AgfError

if TYPE_CHECKING:
    from ..lifecycle.moments import Evaluation
    from ..lifecycle.table import RowTable

Json = dict[str, Any]
AnyRun = Run | PastRun

MOST_RECORDS = 400
"""Requests and tool calls of a session."""
MOST_MESSAGES = 50
"""Messages before the first request."""
MOST_CALLS = 20
"""Tool calls of one reply."""
MOST_PARTS = 100
"""Parts of a reply."""
MOST_TEXT = 8_000
MOST_TOOL_ERROR = 2_000


def session_json(
    calls: RunCalls, row: Row, index: tuple[int, ...] = (), running: Sequence[Record] = ()
) -> Json:
    """The messages of a session, the replies, and the results of their tool calls, in order.
    ``running``: a request that has no reply yet."""
    found = calls.page(row, MOST_RECORDS + 1, index=index)
    messages = list(_messages([*found[:MOST_RECORDS], *running]))
    return {"messages": messages, "more": len(found) > MOST_RECORDS}


def _messages(found: list[Record]) -> Iterator[Json]:
    is_first = True
    for record in found:
        if record.kind != "model":
            yield _result(record)
            continue
        if is_first:
            yield from _prompt(record.given_shown)
            is_first = False
        if record.what != "begun":
            yield _reply(record)


def _prompt(given: object) -> Iterator[Json]:
    """The messages with which the session begins."""
    for message in _mappings(given, "messages", MOST_MESSAGES):
        yield {
            "who": line(str(message.get("role", "")), 20),
            "text": plain(str(message.get("text") or ""), MOST_TEXT),
        }


def _mappings(value: object, name: str, most: int) -> list[Mapping[str, Any]]:
    """The mappings in the list with this name in ``value``."""
    listed = value.get(name) if isinstance(value, Mapping) else None
    parts = listed[:most] if isinstance(listed, list) else []
    return [part for part in parts if isinstance(part, Mapping)]


def _reply(record: Record) -> Json:
    found: Json = {"who": "model", "name": line(record.name, 60), "took": duration(record.seconds)}
    if record.error is not None:
        return found | {"error": _error(record)}
    reply = record.value_shown
    if not isinstance(reply, Mapping):
        return found | {"text": "the reply is not in the journal"}
    found["text"] = plain(str(reply.get("text") or ""), MOST_TEXT)
    if thinking := _thinking(reply.get("kept")):
        found["thinking"] = plain(thinking, MOST_TEXT)
    found["calls"] = [
        {"tool": line(str(call.get("tool")), 60), "arguments": value_json(call.get("arguments"))}
        for call in _mappings(reply, "calls", MOST_CALLS)
    ]
    return found | {"used": _used(reply.get("usage"))}


def _thinking(kept: object) -> str:
    """The reasoning of a model, which its provider must get back."""
    return "\n".join(
        str(part.get("content") or "")
        for part in _mappings(kept, "parts", MOST_PARTS)
        if part.get("part_kind") == "thinking"
    )


def arriving_json(run: AnyRun, row: Row, index: tuple[int, ...]) -> list[Json]:
    """The replies that arrive in a session."""
    found = []
    for inner in list(run.progress.rows.values()):
        arriving = inner.arriving
        if arriving is None or arriving.ended or not is_within(inner.key, row.key):
            continue
        numbers = tuple(part for part in arriving.at if isinstance(part, int))
        if numbers[: len(index)] != index:
            continue
        parts = {
            name: plain(run.secrets.text(text), MOST_TEXT)
            for name, text in arriving.parts.copy().items()
        }
        calls = [{"tool": line(parts["call"], 200)}] if "call" in parts else []
        found.append({**parts, "who": "model", "arriving": True, "calls": calls})
    return found


def _used(usage: object) -> str:
    """``512 + 40 tokens · ≈ $0.0015``: of the request and of the reply, and what both cost."""
    if not isinstance(usage, Mapping):
        return ""
    counts = [usage.get(name) for name in ("input", "output")]
    if not any(counts):
        return ""
    cost = cost_of(usage)
    tokens = " + ".join(f"{count:,}" for count in counts if type(count) is int)
    return f"{tokens} tokens" + (f" · {money(cost)}" if cost is not None else "")


def _result(record: Record) -> Json:
    found: Json = {"who": "tool", "name": line(record.name, 60), "took": duration(record.seconds)}
    if record.error is not None:
        return found | {"error": _error(record)}
    if record.result.form is None:
        return found | {"text": line(record.what, 20)}
    return found | {"result": value_json(record.value_shown)}


def _error(record: Record) -> str:
    return plain(str(error_from(record.error or "{}", ())), MOST_TOOL_ERROR)


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

NO_JOURNAL = "the run is not journaled: its inputs and calls are not known"


class Refused(Exception):
    """A request that cannot be answered: the page shows the message."""


Requests = Mapping[str, Callable[[Json], Any]]
"""What a page may ask, by name: each takes the arguments and returns JSON. Raises Refused, or an
AgfError with the reason."""


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
    (answer,) = call_rows(calls, [found])
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
    """When the calls of a step ran: start and end in milliseconds after the first start, whether
    each failed, and its number; or, for more than `MOST_SPANS` calls, how many ran in each of `BUCKETS`
    equal times and how many of them failed."""
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
        [round((a - zero) * 1e3, 1), round((b - zero) * 1e3, 1), int(failed), number]
        for a, b, failed, number in found
    ]
    return {"total": total, "bars": bars}


def _density(spans: Sequence[CallSpan], zero: float, width: float) -> list[list[int]]:
    """For each of `BUCKETS` equal times: how many calls ran in it, and how many of these failed."""
    change = [[0, 0] for _ in range(BUCKETS + 1)]
    for start, end, failed, _ in spans:
        first, last = (min(int((at - zero) / width * BUCKETS), BUCKETS - 1) for at in (start, end))
        for place, sign in ((first, 1), (last + 1, -1)):
            change[place][0] += sign
            change[place][1] += sign * failed
    return [
        list(counts) for counts in accumulate(change[:-1], lambda a, b: [a[0] + b[0], a[1] + b[1]])
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
        [
            list(one.numbers),
            one.calls,
            one.failed,
            one.last_failed,
            duration(one.ended - one.started),
        ]
        for one in page
    ]
    return {"total": len(found), "offset": offset, "page": PAGE, "rows": rows}


class _Evaluated:
    """The last evaluations that a page asked for: its next pages are of the same ones."""

    of: tuple[str, str] = ("", "")
    found: tuple[list[Evaluation], str] = ([], "")


def _evaluations(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """A page of what a step that only evaluates read and gave, failed ones first."""
    row, offset = row_of(run, given), natural(given.get("offset"))
    journal_of(run)
    if offset == 0 or _Evaluated.of != (run.run_id, row.id):
        from ..lifecycle.moments import find_evaluations

        kept, note = find_evaluations(run, row)
        kept.sort(key=lambda one: one.error is None)
        _Evaluated.of, _Evaluated.found = (run.run_id, row.id), (kept, note)
    kept, note = _Evaluated.found
    return {
        "total": len(kept),
        "offset": offset,
        "page": PAGE,
        "note": plain(note, 400),
        "rows": [_evaluation_row(run, one) for one in kept[offset : offset + PAGE]],
    }


def _evaluation_row(run: AnyRun, one: Evaluation) -> list[Any]:
    value, why = value_text(one.value), ""
    if one.error is not None:
        value, why = "", run.secrets.text(format_exception(one.error))
    return [
        list(one.numbers),
        [[line(name, 60), line(value_text(value), SHORT)] for name, value in one.given.items()],
        line(one.case, 60),
        line(value, SHORT),
        line(why, SHORT),
    ]


def _session(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """The conversation of a model's session; of several sessions, the one with ``index``, else the
    first one."""
    row, calls = row_of(run, given), journal_of(run)
    sessions = elements_of(calls, row, flow_of(run, row))
    index = naturals(given.get("index")) or (sessions[0].numbers if sessions else ())
    listed = [[list(one.numbers), one.failed] for one in sessions[:MOST_SESSIONS]]
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


ROWS_SHOWN = 50
"""Rows of a page."""
MOST_COLUMNS = 40

CHANGED, FAILED = "changed", "failed"

Wish = tuple[str, bool, str, float | None]
"""The column by which rows are sorted (empty: the order of the table), whether the largest is the
first, a filter (empty, failed or changed), and the number below which the column has to be."""


class _Kept:
    """The table that a page asked for last, and the places of its rows as it wished them."""

    run_id = ""
    table: RowTable
    wish: tuple[Wish, int] | None = None
    places: Sequence[int] = ()


def table_page(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """A page of the table. ``sort``, ``down``, ``only``, ``below``: see `Wish`; ``offset``."""
    table = _table_of(run, is_first=natural(given.get("offset")) == 0)
    below = given.get("below")
    wish: Wish = (
        str(given.get("sort") or "")[:200],
        given.get("down") is True,
        str(given.get("only") or ""),
        float(below) if isinstance(below, int | float) and math.isfinite(below) else None,
    )
    done = sum(table.counts.values()) - table.counts.get("not run", 0)
    if _Kept.wish != (wish, done):
        _Kept.places, _Kept.wish = _places(table, wish), (wish, done)
    places = _Kept.places
    offset = min(natural(given.get("offset")), max(0, len(places) - 1) // ROWS_SHOWN * ROWS_SHOWN)
    shown = places[offset : offset + ROWS_SHOWN]
    rows = list(table.at(shown))
    label = table.label_column
    columns = [name for name in _columns(table, rows) if name != label][:MOST_COLUMNS]
    seconds = table.column_of("seconds")
    return {
        "total": len(places),
        "offset": offset,
        "page": ROWS_SHOWN,
        "failed": len(table.failed),
        "before": line(_earlier(run), 90),
        "columns": [[name, line(name, 60)] for name in columns],
        "rows": [
            [
                place,
                row[table.column_of("status")] == "failed",
                [cell_text(row.get(name), name == seconds) for name in columns],
                line(str(row.get(label) or ""), 200),
            ]
            for place, row in zip(shown, rows, strict=True)
        ],
    }


def label_row(run: AnyRun, given: Mapping[str, Any]) -> Json:
    """Label the row at ``place`` with ``text``."""
    table, text = _table_of(run), given.get("text")
    if natural(given.get("place")) >= len(table) or not isinstance(text, str):
        raise Refused("this row does not exist")
    table.label(natural(given.get("place")), text.strip())
    return {}


def has_table(run: AnyRun) -> bool:
    """Whether the run is one over data."""
    return run._definition[0] == OVER


def _table_of(run: AnyRun, is_first: bool = False) -> RowTable:
    if not has_table(run):
        raise Refused("this run has no table")
    # A running run has more rows by now, and another page may have changed a label.
    if _Kept.run_id != run.run_id or (is_first and run.status == "running"):
        _Kept.run_id, _Kept.table, _Kept.wish = run.run_id, run.table, None
    elif is_first:
        _Kept.table.refresh()
    return _Kept.table


def _columns(table: RowTable, rows: Sequence[Mapping[str, Value]]) -> list[str]:
    """The columns of these rows, without those about the run that no row has."""
    names = dict.fromkeys(name for row in rows for name in row)
    about = {table.column_of(name) for name in ("error", "error_text", "tokens", "cost")}
    return [n for n in names if n not in about or any(row.get(n) is not None for row in rows)]


def _places(table: RowTable, wish: Wish) -> Sequence[int]:
    sort, down, only, below = wish
    places: Sequence[int] = range(len(table))
    if only == FAILED:
        places = table.failed
    elif only == CHANGED:
        places = _changed(table)
    if not sort:
        return places
    values = table.added.get(sort)
    if values is None:
        values = {place: row.get(sort) for place, row in zip(places, table.at(places), strict=True)}
    if below is not None:
        places = [place for place in places if _is_below(values.get(place), below)]
    keys = {place: _sort_key(values.get(place)) for place in places}
    # Rows without a value are the last ones in both directions.
    filled = [place for place in places if keys[place] is not None]
    empty = [place for place in places if keys[place] is None]
    return [*sorted(filled, key=keys.__getitem__, reverse=down), *empty]  # type: ignore[arg-type]


def _is_below(value: Value, most: float) -> bool:
    return isinstance(value, int | float) and value < most


def _sort_key(value: Value) -> tuple[int, float, str] | None:
    """Numbers, then texts, then other values as text; None for no value and for NaN."""
    if value is None or value != value:
        return None
    if isinstance(value, int | float):
        return 0, float(min(max(value, -1e300), 1e300)), ""
    return (1, 0.0, value) if isinstance(value, str) else (2, 0.0, value_text(value)[:200])


def _earlier(run: AnyRun) -> str:
    """The id of the run over data of the same flow before this one; empty: there is none."""
    if run._in_journal is None:
        return ""
    ids = [one.run_id for one in runs() if one.name == run.name and one.status != "running"]
    return next(iter(ids[ids.index(run.run_id) + 1 :] if run.run_id in ids else ids), "")


def _changed(table: RowTable) -> list[int]:
    """The places of the rows whose outcome differs from that of the run before."""
    earlier = _earlier(table.run)  # type: ignore[arg-type]
    if not earlier:
        raise Refused("there is no earlier run over data of this flow")
    other = runs(earlier)
    from ..lifecycle.table_comparison import TableComparison

    compared = TableComparison(other.table, table)
    changed = {(one.other.number, one.other.repeat) for one in compared.changed}
    rows = enumerate(table.rows())
    return [place for place, row in rows if (row.number, row.repeat) in changed]
