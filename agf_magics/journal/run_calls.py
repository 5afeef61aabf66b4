"""Queries the calls of one step of a run: counts, pages and groups them.

The key of a step's row (a path without numbers) names the step. Calls of steps inside it, called
flows included, count as its own, so that a fan-out has the calls of all its elements. Nothing is
unpickled.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import islice, takewhile
from typing import Any, NamedTuple

from ..flow.progress.rows import Key, Row, key_of
from ..flow.step_path import StepPath, is_within
from .calls.argument_pieces import IN_PIECES
from .calls.started_call import StartedCall
from .codec.json_texts import encode
from .codec.searched_text import searched
from .codec.type_checks import checker
from .database.store import ROOM, Store
from .records.large_parts import large_parts
from .records.record_reader import read_records
from .records.records import RECORDS, Record, RecordedArguments

CALLS_OF_RUN = (
    "line>? AND line<? AND kind NOT IN ('', 'row') AND NOT (what='fired' AND (at, tries) IN "
    "(SELECT at, tries FROM records WHERE line>? AND line<? AND what IN ('finished', 'failed')))"
)
"""The calls of a run, whose lines are between the first two values of a statement, and again between
the next two: marks (but for
``fired`` and ``answered``) have no kind, and a row of a table is not a call. The start of a
fire-and-forget call stands for it until it has an outcome."""

_NUMBERS = ", ".join(
    f"CASE json_type(at, '$[{place}]') WHEN 'integer' THEN json_extract(at, '$[{place}]') ELSE 0 END"
    for place in range(1, 7)
)
"""The parts 1 to 6 of a path as numbers: of the element, then of the turn of a model's session. The
id of a step, and a part that the path does not have, count as 0."""

ORDERS = {
    "ended": "line",
    "failed": "what='failed' DESC, length(at), at, line",
    "slowest": "ended-started DESC, line",
    "element": "length(at), at, line",
    "turn": f"{_NUMBERS}, line",
    "failed turn": f"what='failed' DESC, {_NUMBERS}, line",
}
"""The orders of calls, by name: by end, failed calls first, slowest calls first, by element (a path
with a larger number is longer or later). Failed calls, and the others, are in the order of their
elements. For the calls of sessions, whose paths have different steps: by element and turn, and the
same after the failed calls."""

HAS_TEXT = (
    "instr(agf_searched(at || ' ' || name || ' ' || coalesce(given, '') || ' ' || coalesce(shown, "
    "CASE form WHEN 'json' THEN value END, '') || ' ' || coalesce(error, '')), ?) > 0"
)
"""The condition for calls with a text, itself as `searched` makes it, in their path, name, input,
output or error."""

MOST_GROUPED = 200_000
"""The largest number of calls that are grouped."""


class CallCount(NamedTuple):
    total: int
    failed: int


class CallSpan(NamedTuple):
    """The start and the end of a call, in seconds since 1970."""

    started: float
    ended: float
    failed: bool
    number: int
    """The number of the call in its run (see `RunCalls.number`)."""


class CallsOfElement(NamedTuple):
    """The calls of one element or iteration of a step."""

    numbers: tuple[int, ...]
    """The number of the element, after the numbers of the elements and calls around it."""
    calls: int
    failed: int
    """The number of failed calls; retried ones count."""
    last_failed: bool
    """Whether the call failed whose record is the last."""
    started: float
    ended: float
    first: int
    """The number of the call that began first (see `RunCalls.number`)."""
    last: int
    """The number of the call that ended last."""


class RunReader:
    """The base of the readers of one run."""

    def __init__(
        self,
        store: Store,
        num: int,
        errors: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """``errors``: the context of each query, in which a JournalError may become another
        error."""
        self._store = store
        self._num = num
        self._errors = errors

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._errors(), self._store.reading_run(self._num) as connection:
            yield connection


class RunCalls(RunReader):
    """The calls of one run in the journal."""

    def count(self, row: Row, index: Sequence[int] = (), text: str = "") -> CallCount:
        """The number of calls of a step, and of the failed ones among them. ``index``: count only
        this element; default: all. ``text``: count only calls with this text, whatever its case."""
        with self._calls(row, index, text) as (connection, where, cells):
            sql = f"SELECT count(*), coalesce(sum(what='failed'), 0) FROM records WHERE {where}"
            return CallCount(*connection.execute(sql, cells).fetchone())

    def page(
        self,
        row: Row,
        limit: int,
        offset: int = 0,
        *,
        failed: bool = False,
        order: str = "ended",
        index: Sequence[int] = (),
        text: str = "",
        in_flow: bool = False,
    ) -> list[Record]:
        """At most ``limit`` calls of a step after the first ``offset``, in one of the `ORDERS`.
        ``failed``: only failed calls; ``index``, ``text``: see `count`. ``in_flow``: only calls in
        the step's own flow, without those of flows that it calls."""
        only = " AND what='failed'" if failed else ""
        with self._calls(row, index, text, in_flow) as (connection, where, cells):
            sql = f"{RECORDS} WHERE {where}{only} ORDER BY {ORDERS[order]} LIMIT ? OFFSET ?"
            return list(read_records(connection.execute(sql, (*cells, limit, offset))))

    def number(self, record: Record) -> int:
        """The number of a call in its run, for pages. The line in the journal is too large for the
        floats of JavaScript."""
        return record.line - self._num

    def call(self, number: int) -> Record | None:
        """The call with this number, if it is a call of this run."""
        return next(iter(self.numbered([number])), None)

    def numbered(self, numbers: Sequence[int]) -> list[Record]:
        """The calls with these numbers that are calls of this run."""
        with self._reading() as connection:
            sql = f"{RECORDS} WHERE {CALLS_OF_RUN} AND line IN ({','.join('?' * len(numbers))})"
            lines = [self._num + number for number in numbers]
            return list(read_records(connection.execute(sql, (*self._bounds, *lines))))

    def attempts(self, row: Row, limit: int) -> list[Record]:
        """The last ``limit`` calls that a step itself made outside of fan-outs and loops."""
        with self._reading() as connection:
            sql = f"{RECORDS} WHERE {CALLS_OF_RUN} AND at=? ORDER BY line DESC LIMIT ?"
            rows = connection.execute(sql, (*self._bounds, encode(list(row.key)), limit))
            return list(read_records(rows))[::-1]

    def begun(
        self, calls: Iterable[StartedCall], row: Row, limit: int, index: Sequence[int] = ()
    ) -> list[Record]:
        """The first ``limit`` running calls of a step, as records without an outcome. ``calls``:
        the running calls of the run. ``index``: see `count`."""
        inside = (call for call in calls if is_call_of(call.key.at, row.key, index))
        with self._reading() as connection:
            return [self._begun(call, connection) for call in islice(inside, limit)]

    def _begun(self, call: StartedCall, connection: sqlite3.Connection) -> Record:
        path, tries = call.key
        arguments = RecordedArguments(call.arguments, call.whole)
        if call.whole == IN_PIECES:
            with suppress(ValueError):  # the call is not in the file yet
                large = large_parts(connection, self._num, call.arguments)
                arguments = arguments._replace(large=large)
        names = (call.kind, call.name, call.started, None)
        return Record(self._num, "begun", path, tries, *names, arguments)

    def number_attempts(self, calls: Sequence[Record]) -> list[int]:
        """The number of the attempt of each call, counted for its path. A resumed run continues to
        count."""
        paths = [encode(list(call.at)) for call in calls]
        lines: dict[str, list[int]] = {path: [] for path in paths}
        with self._reading() as connection:
            marks = ",".join("?" * len(lines))
            where = f"{CALLS_OF_RUN} AND at IN ({marks}) ORDER BY line"
            sql = f"SELECT at, line FROM records WHERE {where}"
            for path, line in connection.execute(sql, (*self._bounds, *lines)):
                lines[path].append(line)
        numbered = zip(paths, calls, strict=True)
        return [max(1, bisect_right(lines[path], call.line)) for path, call in numbered]

    def spans(self, row: Row, limit: int) -> list[CallSpan]:
        """The times of the first ``limit`` calls of a step, in the order of their starts."""
        with self._calls(row) as (connection, where, cells):
            sql = (
                f"SELECT started, ended, what='failed', line FROM records WHERE {where} "
                "AND started IS NOT NULL AND ended IS NOT NULL ORDER BY started LIMIT ?"
            )
            rows = connection.execute(sql, (*cells, limit)).fetchall()
        return [
            CallSpan(float(start), float(end), bool(failed), line - self._num)
            for start, end, failed, line in rows
            if _are_times((start, end))
        ]

    def elements(self, row: Row, depth: int, text: str = "") -> list[CallsOfElement]:
        """The elements of a step that have calls, in the order of their numbers. ``depth``: how
        many numbers an element has: one for each loop around the step in its flow, and one for the
        step. ``text``: see `count`."""
        elements: dict[tuple[int, ...], CallsOfElement] = {}
        with self._calls(row, text=text) as (connection, where, cells):
            sql = (
                f"SELECT at, started, ended, what='failed', line FROM records WHERE {where} "
                f"ORDER BY line LIMIT {MOST_GROUPED}"
            )
            for path_text, start, end, failed, line in connection.execute(sql, cells):
                index = numbers_in(_path(path_text), row.key, depth)
                if index is not None and _are_times((start, end)):
                    number = line - self._num
                    call = CallsOfElement(
                        index, 1, failed, bool(failed), start, end, number, number
                    )
                    elements[index] = _add(elements.get(index), call)
        return sorted(elements.values())

    @property
    def _bounds(self) -> tuple[int, ...]:
        """The values of `CALLS_OF_RUN`."""
        # Python 3.14 refuses a numbered placeholder, which would stand for both.
        return (self._num, self._num + ROOM) * 2

    @contextmanager
    def _calls(
        self, row: Row, index: Sequence[int] = (), text: str = "", in_flow: bool = False
    ) -> Iterator[tuple[sqlite3.Connection, str, tuple[Any, ...]]]:
        """A connection, the SQL condition for the calls of a step, and the condition's values."""
        key = row.key
        numbers = tuple(index)
        first = encode(key[0])
        # A path of the step, or of a step inside it, begins with one of three texts of equal
        # length, which SQLite finds without Python. Only a closer check calls Python.
        begins = [f"[{first}"]
        if len(key) == 1:
            begins += [f"[{first[:-1]}.", f"[{first[:-1]}["]
        where = f"{CALLS_OF_RUN} AND substr(at, 1, ?) IN ({','.join('?' * len(begins))})"
        cells: tuple[Any, ...] = (*self._bounds, len(begins[0]), *begins)
        with self._reading() as connection:
            if len(key) > 1 or index or in_flow:

                def is_of_step(path_text: Any) -> bool:
                    path = _path(path_text)
                    is_near = not in_flow or len(key_of(path)) == len(key)
                    return is_near and is_call_of(path, key, numbers)

                connection.create_function("agf_is_of", 1, is_of_step, deterministic=True)
                where += " AND agf_is_of(at)"
            if text:
                connection.create_function("agf_searched", 1, _searched, deterministic=True)
                where += f" AND {HAS_TEXT}"
                cells = (*cells, searched(text))
            yield connection, where, cells


def _searched(text: Any) -> str:
    """The text of a row as it is searched; a damaged row may have no text."""
    return searched(text) if isinstance(text, str) else ""


def _add(element: CallsOfElement | None, call: CallsOfElement) -> CallsOfElement:
    """``element`` with one more call, its last."""
    if element is None:
        return call
    return call._replace(
        calls=element.calls + 1,
        failed=element.failed + call.failed,
        started=min(element.started, call.started),
        ended=max(element.ended, call.ended),
        first=element.first if element.started <= call.started else call.first,
    )


def is_call_of(path: StepPath, key: Key, index: Sequence[int] = ()) -> bool:
    """Whether the call at ``path`` belongs to the step ``key`` or a step inside it. ``index``: the
    element that it must belong to; empty: any.

    >>> is_call_of(("steps[0].do", 3), ("steps[0]",)), is_call_of(("steps[0].do", 3), ("steps[0]",), [4])
    (True, False)
    """
    numbers = _split(path, key)
    if numbers is None:
        return False
    of_calls, of_flow = numbers
    return (*of_calls, *of_flow)[: len(index)] == tuple(index)


def numbers_in(path: StepPath, key: Key, depth: int) -> tuple[int, ...] | None:
    """The numbers of the calls to the flow of the step ``key``, then ``depth`` numbers in that
    flow; None if the call is not of the step or has fewer.

    >>> numbers_in(("steps[1]", 2, "steps[0].do.do", 7, 9), ("steps[1]", "steps[0].do"), 1)
    (2, 7)
    """
    numbers = _split(path, key)
    if numbers is None:
        return None
    of_calls, of_flow = numbers
    return (*of_calls, *of_flow[:depth]) if len(of_flow) >= depth else None


def _split(path: StepPath, key: Key) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The numbers in ``path`` before the last part of ``key``, and those after it; None if the call
    does not belong to the step."""
    if not is_within(key_of(path), key):
        return None
    names = [position for position, bit in enumerate(path) if isinstance(bit, str)]
    position = names[len(key) - 1]
    later = takewhile(lambda bit: isinstance(bit, int), path[position + 1 :])
    return tuple(bit for bit in path[:position] if isinstance(bit, int)), tuple(later)  # type: ignore[arg-type]


def _path(text: Any) -> StepPath:
    """The path in a stored text; empty if it is damaged."""
    try:
        path = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return ()
    return tuple(path) if isinstance(path, list) else ()


_are_times = checker(tuple[float, float])
"""When a call started and ended."""
