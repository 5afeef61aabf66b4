"""Queries: the calls of one step of a run, counted, paged and grouped. Nothing is unpickled here.

A step is named by the key of its row (a path without numbers). Calls of steps inside it, also of
flows that it calls, count as its own, so that a fan-out has the calls of all its elements.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any, NamedTuple

from ..flow.events import StepPath
from .codec import encode
from .reading import read_records
from .records import COLUMNS, Record
from .store import ROOM, Store

CALLS_OF_RUN = "line>? AND line<? AND kind!=''"
"""The calls of a run; marks have no kind."""

MOST_GROUPED = 200_000
"""Calls that are read to group them; more are not grouped."""


class CallCount(NamedTuple):
    total: int
    failed: int


class CallSpan(NamedTuple):
    """When a call ran, in seconds since 1970."""

    started: float
    ended: float
    failed: bool


class Element(NamedTuple):
    """The calls of one element or iteration of a step."""

    numbers: tuple[int, ...]
    """Its number, after the numbers of the elements and of the calls around it."""
    calls: int
    failed: int
    """The number of failed calls; retried ones count."""
    last_failed: bool
    started: float
    ended: float


def count_calls(store: Store, num: int, key: Sequence[str], index: Sequence[int] = ()) -> CallCount:
    """How many calls a step made, and how many of them failed. ``index``: only of this element.
    Raises JournalError."""
    with _calls(store, num, key, index) as (connection, where, given):
        sql = f"SELECT count(*), coalesce(sum(what='failed'), 0) FROM records WHERE {where}"
        return CallCount(*connection.execute(sql, given).fetchone())


def read_calls(
    store: Store,
    num: int,
    key: Sequence[str],
    *,
    limit: int,
    offset: int = 0,
    failed: bool = False,
    failed_first: bool = False,
    index: Sequence[int] = (),
) -> list[Record]:
    """At most ``limit`` calls of a step after the first ``offset``, in the order of their ends.
    ``failed``: only failed calls; ``failed_first``: these before all others; ``index``: only of
    this element. Raises JournalError."""
    only = " AND what='failed'" if failed else ""
    order = "what='failed' DESC, line" if failed_first else "line"
    with _calls(store, num, key, index) as (connection, where, given):
        sql = (
            f"SELECT {COLUMNS}, crc FROM records WHERE {where}{only} ORDER BY {order} LIMIT ? "
            f"OFFSET ?"
        )
        return list(read_records(connection.execute(sql, (*given, limit, offset))))


def read_call(store: Store, num: int, line: int) -> Record | None:
    """The call in this line of the journal, if it is a call of this run. Raises JournalError."""
    store.flush()
    with store.reading() as connection:
        sql = f"SELECT {COLUMNS}, crc FROM records WHERE {CALLS_OF_RUN} AND line=?"
        return next(read_records(connection.execute(sql, (num, num + ROOM, line))), None)


def read_own_calls(store: Store, num: int, key: Sequence[str], limit: int) -> list[Record]:
    """The last ``limit`` calls that a step itself made outside of fan-outs and loops: its attempts.
    Raises JournalError."""
    store.flush()
    with store.reading() as connection:
        sql = (
            f"SELECT {COLUMNS}, crc FROM records WHERE {CALLS_OF_RUN} AND at=? ORDER BY line "
            f"DESC LIMIT ?"
        )
        rows = connection.execute(sql, (num, num + ROOM, encode(list(key)), limit))
        return list(read_records(rows))[::-1]


def number_attempts(store: Store, num: int, calls: Sequence[Record]) -> list[int]:
    """Which attempt of its path each of these calls is. A resumed run continues to count. Raises
    JournalError."""
    paths = [encode(list(one.at)) for one in calls]
    lines: dict[str, list[int]] = {path: [] for path in paths}
    store.flush()
    with store.reading() as connection:
        wanted = ",".join("?" * len(lines))
        sql = (
            f"SELECT at, line FROM records WHERE {CALLS_OF_RUN} AND at IN ({wanted}) ORDER BY line"
        )
        for at, line in connection.execute(sql, (num, num + ROOM, *lines)):
            lines[at].append(line)
    return [
        max(1, bisect_right(lines[path], one.line)) for path, one in zip(paths, calls, strict=True)
    ]


def read_spans(store: Store, num: int, key: Sequence[str], limit: int) -> list[CallSpan]:
    """When the first ``limit`` calls of a step ran, in the order of their starts. Raises
    JournalError."""
    with _calls(store, num, key) as (connection, where, given):
        sql = (
            f"SELECT started, ended, what='failed' FROM records WHERE {where} "
            "AND started IS NOT NULL AND ended IS NOT NULL ORDER BY started LIMIT ?"
        )
        found = connection.execute(sql, (*given, limit)).fetchall()
    return [
        CallSpan(float(start), float(end), bool(failed))
        for start, end, failed in found
        if _are_times(start, end)
    ]


def group_calls(store: Store, num: int, key: Sequence[str], depth: int) -> list[Element]:
    """The elements of a step that have calls, by their numbers. ``depth``: how many numbers an
    element has, that is the loops around the step in its flow and the step itself. Raises
    JournalError."""
    found: dict[tuple[int, ...], Element] = {}
    with _calls(store, num, key) as (connection, where, given):
        sql = (
            f"SELECT at, started, ended, what='failed' FROM records WHERE {where} ORDER BY line "
            f"LIMIT {MOST_GROUPED}"
        )
        for at, start, end, failed in connection.execute(sql, given):
            index = numbers_in(_path(at), key, depth)
            if index is not None and _are_times(start, end):
                found[index] = _add(found.get(index), index, start, end, bool(failed))
    return sorted(found.values())


def _add(
    one: Element | None, index: tuple[int, ...], start: float, end: float, failed: bool
) -> Element:
    if one is None:
        return Element(index, 1, int(failed), failed, start, end)
    first, last = min(one.started, start), max(one.ended, end)
    return Element(index, one.calls + 1, one.failed + failed, failed, first, last)


def is_of(at: StepPath, key: Sequence[str], index: Sequence[int] = ()) -> bool:
    """Whether the call at ``at`` is of the step ``key`` or inside it, in any element or in the one
    with ``index``.

    >>> is_of(("steps[0].do", 3), ["steps[0]"]), is_of(("steps[0].do", 3), ["steps[0]"], [4])
    (True, False)
    """
    found = _split(at, key)
    return found is not None and (*found[0], *found[1])[: len(index)] == tuple(index)


def numbers_in(at: StepPath, key: Sequence[str], depth: int) -> tuple[int, ...] | None:
    """The numbers of the calls to the flow of the step ``key``, then ``depth`` numbers in that
    flow; None if the call is not of the step or has fewer.

    >>> numbers_in(("steps[1]", 2, "steps[0].do.do", 7, 9), ["steps[1]", "steps[0].do"], 1)
    (2, 7)
    """
    found = _split(at, key)
    return (*found[0], *found[1][:depth]) if found is not None and len(found[1]) >= depth else None


def _split(at: StepPath, key: Sequence[str]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The numbers before the last part of ``key``, and those after it; None if the call is not of
    the step."""
    places = [place for place, bit in enumerate(at) if isinstance(bit, str)]
    if len(places) < len(key) or any(
        at[place] != bit for place, bit in zip(places, key[:-1], strict=False)
    ):
        return None
    place, last = places[len(key) - 1], key[-1]
    inner = at[place]
    if (
        not isinstance(inner, str)
        or not inner.startswith(last)
        or inner[len(last) :][:1] not in ("", ".", "[")
    ):
        return None
    later = takewhile(lambda bit: isinstance(bit, int), at[place + 1 :])
    return tuple(bit for bit in at[:place] if isinstance(bit, int)), tuple(later)  # type: ignore[arg-type]


@contextmanager
def _calls(
    store: Store, num: int, key: Sequence[str], index: Sequence[int] = ()
) -> Iterator[tuple[sqlite3.Connection, str, tuple[Any, ...]]]:
    """A connection, the condition for the calls of a step, and the condition's values."""
    store.flush()
    first = encode(key[0])
    # The three texts that may begin a path, of equal length: the step itself, and steps inside it.
    begins = [f"[{first}", f"[{first[:-1]}.", f"[{first[:-1]}["] if len(key) == 1 else [f"[{first}"]
    where = f"{CALLS_OF_RUN} AND substr(at, 1, ?) IN ({','.join('?' * len(begins))})"
    given: tuple[Any, ...] = (num, num + ROOM, len(begins[0]), *begins)
    with store.reading() as connection:
        if len(key) > 1 or index:
            wanted, numbers = tuple(key), tuple(index)
            connection.create_function(
                "agf_is_of", 1, lambda at: is_of(_path(at), wanted, numbers), deterministic=True
            )
            where += " AND agf_is_of(at)"
        yield connection, where, given


def _path(at: object) -> StepPath:
    """A stored path; empty if it is damaged."""
    try:
        found = json.loads(at) if isinstance(at, str) else []
    except (ValueError, RecursionError):
        return ()
    return tuple(found) if isinstance(found, list) else ()


def _are_times(start: object, end: object) -> bool:
    return isinstance(start, float) and isinstance(end, float)
