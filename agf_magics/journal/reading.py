"""Reads the rows of a run as records. Each row is checked: its checksum, the types of its cells, its texts.

A run that is resumed or reuses results reads all rows of another one, and nearly all of these are of calls that
returned JSON. Of them it gets only the cells that it uses, without a record: that takes two thirds of the time.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from marshal import dumps
from typing import Any
from zlib import crc32

from ..flow.values import Value
from ..progress import events as ev
from ..serialization.codec import decode
from .errors import JournalError
from .records import FORMS, LATEST, UNREADABLE, Record, check_tries, error_from, is_at, row_crc

TEXT_OR_NONE = frozenset({str, type(None)})
RAW_OR_NONE = frozenset({bytes, type(None)})

Row = tuple[Any, ...]
"""The cells of `COLUMNS`, and their checksum."""

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


def read_outcomes(rows: Iterable[Row]) -> Iterator[Record | JsonOutcome]:
    """The same for a run that is resumed: of calls that returned JSON only what that run uses."""
    reader, row = _Reader(), None
    read, place = reader.read, reader.place
    try:
        for row in rows:
            cells = row[:-1]
            line, what, at, tries, _, _, _, _, _, _, form, value, _, error, _, _ = cells
            if what == "finished" and form == "json" and tries == "" and error is None and type(value) is str:
                if crc32(dumps(cells, 2)) != row[-1]:
                    raise ValueError
                try:
                    known = decode(value)
                except (ValueError, RecursionError):  # its user raises it again, with the name of the call
                    yield read(row)
                else:
                    yield line, (place(at), ""), known
            else:
                yield read(row)
    except (*UNREADABLE, sqlite3.OperationalError) as found:
        raise _damage(row, found) from None


def read_results(rows: Iterable[Row]) -> Iterator[Record | JsonResult]:
    """The same for a run that reuses results."""
    read, row = _Reader().read, None
    try:
        for row in rows:
            cells = row[:-1]
            what, form, value, error, digest = cells[1], cells[10], cells[11], cells[13], cells[15]
            if what == "finished" and form == "json" and error is None and type(value) is str and type(digest) is bytes:
                if crc32(dumps(cells, 2)) != row[-1]:
                    raise ValueError
                yield digest, value
            else:
                yield read(row)
    except (*UNREADABLE, sqlite3.OperationalError) as found:
        raise _damage(row, found) from None


def _damage(row: Row | None, found: Exception) -> Exception:
    """The error of reading ``row``."""
    if not isinstance(found, sqlite3.OperationalError):
        which = f"row {row[0]}" if row is not None else "a row"
        return JournalError("journal.damaged", f"{which} has changed since it was written")
    if hasattr(found, "sqlite_errorcode"):
        return found
    return JournalError("journal.damaged", "a text of a row is not UTF-8")  # Python's error, not SQLite's


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
        line, what, at, tries, kind, name, started, ended, given, whole, form, value, shown, error, sign, digest = parts
        if not (type(what) is type(tries) is type(kind) is type(name) is str):
            raise ValueError
        if what not in self.words:
            if not what.isidentifier():
                raise ValueError
            self.words.add(what)
        if not (started is None or (type(started) is float and 0 < started < LATEST)):  # is_moment, without a call
            raise ValueError
        if not (ended is None or (type(ended) is float and 0 < ended < LATEST)):
            raise ValueError
        if not (type(given) in TEXT_OR_NONE and type(shown) in TEXT_OR_NONE and type(error) in TEXT_OR_NONE):
            raise ValueError
        if not (type(sign) in RAW_OR_NONE and type(digest) in RAW_OR_NONE and whole in (0, 1)):
            raise ValueError
        if type(value) not in FORMS[form] or (what == "failed") != (error is not None):
            raise ValueError
        if tries:
            check_tries(tries)
        if error is not None:
            error_from(error, ())
        cells = (line, what, self.place(at), tries, kind, name, started, ended, given, whole == 1, form, value, shown,
                 error, sign, digest, None)  # fmt: skip
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
