"""Reads the rows of a run as records. Each row is checked: its checksum, the types of its cells,
its texts.

A run that is resumed or reuses results reads all rows of another one, and nearly all of these are
of calls that returned JSON. SQLite gives only the cells of such a row that are its own, and the
reader only those that the run uses, without a record: that takes half of the time. The checksum
covers the other cells too.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from marshal import dumps
from typing import Any
from zlib import crc32

from ..flow.values import Value
from ..progress import events as ev
from ..serialization.codec import decode
from .errors import JournalError
from .records import (
    COLUMNS,
    FORMS,
    LATEST,
    UNREADABLE,
    Record,
    check_tries,
    error_from,
    is_at,
    row_crc,
)

TEXT_OR_NONE = frozenset({str, type(None)})
RAW_OR_NONE = frozenset({bytes, type(None)})

Row = tuple[Any, ...]
"""The cells of `COLUMNS`, and their checksum. Or, of a call that returned JSON, those of
`SHORT`."""

SHORT = "line, at, kind, name, started, ended, given, value, digest, crc"
"""The cells of a row that meets `PLAIN`; the others are known."""

PLAIN = """what='finished' AND tries='' AND whole=1 AND form='json' AND shown IS NULL
    AND error IS NULL AND sign IS NULL
AND typeof(value)='text'"""

CELLS = SHORT.count(",") + 1

FETCHED = 200
"""The number of short rows that are fetched together."""

JsonOutcome = tuple[int, tuple[ev.StepPath, str], Value]
"""The line and the `CallKey` of a call, and what it returned."""

JsonResult = tuple[bytes, str]
"""The digest of a call, and what it returned as JSON."""


def read_records(rows: Iterable[Row]) -> Iterator[Record]:
    """The records of ``rows``. Raises JournalError for a damaged row."""
    read, row = _Reader().read, None
    try:
        for row in rows:
            yield read(row)
    except (*UNREADABLE, sqlite3.OperationalError) as found:
        raise _damage(row, found) from None


def rows_between(
    connection: sqlite3.Connection, first: int, end: int
) -> Generator[Row, None, None]:
    """The rows after line ``first`` and before line ``end``, in order: short ones where that is
    possible. The connection must be in a transaction."""
    where, given = "FROM records WHERE line>? AND line<?", (first, end)
    with closing(connection.cursor()) as plain, closing(connection.cursor()) as others:
        plain.execute(f"SELECT {SHORT} {where} AND {PLAIN} ORDER BY line", given)
        others.execute(
            f"SELECT {COLUMNS}, crc {where} AND ({PLAIN}) IS NOT TRUE ORDER BY line", given
        )
        other = next(others, None)
        while some := plain.fetchmany(FETCHED):
            if other is None or some[-1][0] < other[0]:
                yield from some
                continue
            for row in some:
                while other is not None and other[0] < row[0]:
                    yield other
                    other = next(others, None)
                yield row
        if other is not None:
            yield other
            yield from others


def read_outcomes(rows: Iterable[Row]) -> Iterator[Record | JsonOutcome]:
    """The same for a run that is resumed: of short rows only what that run uses."""
    reader, row = _Reader(), None
    place = reader.place
    try:
        for row in rows:
            if len(row) != CELLS:
                yield reader.read(row)
                continue
            line, at, kind, name, started, ended, given, value, digest, crc = row
            cells = (
                line,
                "finished",
                at,
                "",
                kind,
                name,
                started,
                ended,
                given,
                1,
                "json",
                value,
                None,
                None,
                None,
                digest,
            )
            if crc32(dumps(cells, 2)) != crc:
                raise ValueError
            try:
                known = decode(value)
            except (
                ValueError,
                RecursionError,
            ):  # its user raises it again, with the name of the call
                yield reader.read((*cells, crc))
            else:
                yield line, (place(at), ""), known
    except (*UNREADABLE, sqlite3.OperationalError) as found:
        raise _damage(row, found) from None


def read_results(rows: Iterable[Row]) -> Iterator[Record | JsonResult]:
    """The same for a run that reuses results."""
    reader, row = _Reader(), None
    try:
        for row in rows:
            if len(row) != CELLS:
                yield reader.read(row)
                continue
            line, at, kind, name, started, ended, given, value, digest, crc = row
            cells = (
                line,
                "finished",
                at,
                "",
                kind,
                name,
                started,
                ended,
                given,
                1,
                "json",
                value,
                None,
                None,
                None,
                digest,
            )
            if crc32(dumps(cells, 2)) != crc:
                raise ValueError
            yield (digest, value) if type(digest) is bytes else reader.read((*cells, crc))
    except (*UNREADABLE, sqlite3.OperationalError) as found:
        raise _damage(row, found) from None


def _damage(row: Row | None, found: Exception) -> Exception:
    """The error of reading ``row``."""
    if not isinstance(found, sqlite3.OperationalError):
        which = f"row {row[0]}" if row is not None else "a row"
        return JournalError("journal.damaged", f"{which} has changed since it was written")
    if hasattr(found, "sqlite_errorcode"):
        return found
    return JournalError(
        "journal.damaged", "a text of a row is not UTF-8"
    )  # Python's error, not SQLite's


class _Reader:
    """Reads the records of one run."""

    def __init__(self) -> None:
        self.places: dict[str, ev.StepPath] = {}
        """The paths of elements that were read, by their text without the last number."""
        self.words = set[str]()
        """The values of ``what`` that were read."""

    def read(self, row: tuple[Any, ...]) -> Record:
        """One record. Raises ValueError or another of `UNREADABLE`."""
        parts = row[:-1]
        if row_crc(parts) != row[-1]:
            raise ValueError
        (
            line,
            what,
            at,
            tries,
            kind,
            name,
            started,
            ended,
            given,
            whole,
            form,
            value,
            shown,
            error,
            sign,
            digest,
        ) = parts
        if not (type(what) is type(tries) is type(kind) is type(name) is str):
            raise ValueError
        if what not in self.words:
            if not what.isidentifier():
                raise ValueError
            self.words.add(what)
        if not (
            started is None or (type(started) is float and 0 < started < LATEST)
        ):  # is_moment, without a call
            raise ValueError
        if not (ended is None or (type(ended) is float and 0 < ended < LATEST)):
            raise ValueError
        if not (
            type(given) in TEXT_OR_NONE
            and type(shown) in TEXT_OR_NONE
            and type(error) in TEXT_OR_NONE
        ):
            raise ValueError
        if not (type(sign) in RAW_OR_NONE and type(digest) in RAW_OR_NONE and whole in (0, 1)):
            raise ValueError
        if type(value) not in FORMS[form] or (what == "failed") != (error is not None):
            raise ValueError
        if tries:
            check_tries(tries)
        if error is not None:
            error_from(error, ())
        cells = (
            line,
            what,
            self.place(at),
            tries,
            kind,
            name,
            started,
            ended,
            given,
            whole == 1,
            form,
            value,
            shown,
            error,
            sign,
            digest,
            None,
        )
        return tuple.__new__(Record, cells)  # half of the time of Record(…)

    def place(self, at: str) -> ev.StepPath:
        """The path of a record. Those of a fan-out differ only in the last number."""
        head, _, last = at.rpartition(",")
        known = self.places.get(head)
        if known is not None:
            number = last[:-1]
            if number.isdecimal() and number.isascii() and len(number) < 19 and last[-1] == "]":
                return (*known, int(number))
        place = tuple(json.loads(at))
        if not is_at(place):
            raise ValueError
        if len(place) > 1 and isinstance(place[-1], int):
            self.places[head] = place[:-1]
        return place
