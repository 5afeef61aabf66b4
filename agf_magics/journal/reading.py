"""Reads the rows of a run as records. Each row is checked: its checksum, the types of its cells,
its texts.

What the earlier sessions of a run did, for its next session.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from ..flow import events as ev
from ..flow.values import Value
from .file import JournalError
from .records import (
    FORMS,
    LATEST,
    SPLIT,
    UNREADABLE,
    CallKey,
    Record,
    SequenceRow,
    around,
    check_tries,
    error_from,
    is_at,
    is_within,
    row_crc,
    sequence_row,
    value_of,
)
from .store import ROOM

NO_LARGE: Mapping[str, str] = {}

TEXT_OR_NONE = frozenset({str, type(None)})
RAW_OR_NONE = frozenset({bytes, type(None)})

Row = tuple[Any, ...]
"""The cells of `COLUMNS`, and their checksum."""


def read_records(rows: sqlite3.Cursor, is_shown: bool = True) -> Iterator[Record]:
    """The records of ``rows``. ``is_shown``: with the large parts of arguments, which only a person
    looks at. Raises JournalError for a damaged row."""
    read, row = _RowReader().read, None
    large: dict[str, str] = {}
    try:
        for row in rows:
            record = read(row)
            if record.whole == 2 and is_shown:
                # Of the last record alone: what calls share is read once, and a long run does not
                # fill the memory.
                large = {
                    digest: large[digest] if digest in large else _large(rows, record, digest)
                    for digest in json.loads(record.given or "")[1::2]
                }
                record = record._replace(large=large)
            yield record
    except (*UNREADABLE, sqlite3.OperationalError) as found:
        raise _damage(row, found) from None


def _large(rows: sqlite3.Cursor, record: Record, digest: str) -> str:
    """A large part of a record's arguments as JSON. Raises ValueError unless it is what was
    written."""
    sql = "SELECT text FROM large WHERE num=? AND digest=?"
    key = record.line - record.line % ROOM, digest
    (text,) = rows.connection.execute(sql, key).fetchone() or (None,)
    if type(text) is not str or hashlib.sha256(text.encode()).hexdigest() != digest:
        raise ValueError
    return text


def _damage(row: Row | None, error: Exception) -> Exception:
    """The error of reading ``row``."""
    if not isinstance(error, sqlite3.OperationalError):
        which = f"row {row[0]}" if row is not None else "a row"
        return JournalError("journal.damaged", f"{which} has changed since it was written")
    if hasattr(error, "sqlite_errorcode"):
        return error
    # Python's error, not SQLite's, although it has the same class.
    return JournalError("journal.damaged", "a text of a row is not UTF-8")


class _RowReader:
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
        # Any identifier: a later version may add a mark, and a run of it can still be listed.
        if what not in self.words:
            if not what.isidentifier():
                raise ValueError
            self.words.add(what)
        # `is_moment`, without a call: this is done for each row of a run that is resumed.
        if not (started is None or (type(started) is float and 0 < started < LATEST)):
            raise ValueError
        if not (ended is None or (type(ended) is float and 0 < ended < LATEST)):
            raise ValueError
        if not (
            type(given) in TEXT_OR_NONE
            and type(shown) in TEXT_OR_NONE
            and type(error) in TEXT_OR_NONE
        ):
            raise ValueError
        if not (type(sign) in RAW_OR_NONE and type(digest) in RAW_OR_NONE and whole in (0, 1, 2)):
            raise ValueError
        # A failed call has an error, a dropped element too; nothing else has.
        if type(value) not in FORMS[form] or (what in ("failed", "dropped")) != (error is not None):
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
            whole,
            form,
            value,
            shown,
            error,
            sign,
            digest,
            None,
            NO_LARGE,
        )
        # Half of the time of Record(…).
        return tuple.__new__(Record, cells)

    def place(self, at: str) -> ev.StepPath:
        """The path of a record. Those of a fan-out differ only in the last number."""
        head, _, last = at.rpartition(",")
        before = self.places.get(head)
        if before is not None:
            number = last[:-1]
            # What `json.loads` would make of it; any other text is left to it.
            if number.isdecimal() and number.isascii() and len(number) < 19 and last[-1] == "]":
                return (*before, int(number))
        place = tuple(json.loads(at))
        if not is_at(place):
            raise ValueError
        if len(place) > 1 and isinstance(place[-1], int):
            self.places[head] = place[:-1]
        return place


class RecordedOutcome(NamedTuple):
    """The outcome of a call in an earlier session."""

    value: Value
    error: str | None
    """Its failure as JSON."""


class ReplayLog:
    """The records of earlier sessions: read once, taken out call by call.

    A run may have 100,000 of them, so a value is stored without its record: that is less to create,
    and nothing that Python's garbage collector visits again.
    """

    def __init__(self, records: Iterable[Record], ended: bool) -> None:
        """``records``: with their values, in order. ``ended``: the run ended, and the call that
        made it fail is made again."""
        self.line = 0
        self.values: dict[tuple[ev.StepPath, str], Value] = {}
        """The values of the calls that returned, by their `CallKey`."""
        self.failed: dict[CallKey, Record] = {}
        self.answers: dict[CallKey, Record] = {}
        self.marks: dict[tuple[str, CallKey], int] = {}
        """The row of each mark."""
        self.sequences: dict[CallKey, SequenceRow] = {}
        """The sequences of fan-outs."""
        self.unknown: set[CallKey] = set()
        """Calls with an effect that were started and have no outcome."""
        for record in records:
            self._add(record)
        # What the run has survived is replayed; the failure that ended it is tried again.
        if ended:
            handled = {key.at for what, key in self.marks if what in ("dropped", "rescued")}
            retried = {key for what, key in self.marks if what == "retried"}
            self.failed = {
                key: failure
                for key, failure in self.failed.items()
                if _is_handled(failure, handled, retried)
            }
        self.failures = [key.at for key in self.failed]

    def _add(self, record: Record) -> None:
        self.line, what, key = max(self.line, record.line), record.what, record.key
        if what == "answered":
            if record.form != "again":
                self.answers[key] = record
        elif what == "sequence":
            self.sequences[key] = sequence_row(record)
        elif what not in ("finished", "failed", "begun"):
            self.marks[what, key] = record.line
        else:
            # An outcome before it is that of an earlier attempt.
            self.failed.pop(key, None)
            self.values.pop(key, None)
            self.unknown.discard(key)
            if what == "failed":
                self.failed[key] = record
            elif what == "begun":
                self.marks[what, key] = record.line
                self.unknown.add(key)
            elif record.form != "again":
                self.values[key] = value_of(record)
            # It had an effect, and its result is not stored: only a person can decide.
            elif ("begun", key) in self.marks:
                self.unknown.add(key)

    def take(self, key: CallKey) -> RecordedOutcome | None:
        """The outcome of a call, once."""
        if key in self.values:
            return RecordedOutcome(self.values.pop(key), None)
        failed = self.failed.pop(key, None)
        return RecordedOutcome(None, failed.error) if failed is not None else None

    @cached_property
    def places(self) -> frozenset[ev.StepPath]:
        """The paths of the calls that have a record, and of all that they are within, when they are
        first needed."""
        keys = {key[0] for key in (*self.values, *self.failed, *self.answers)} | {
            key.at for _, key in self.marks
        }
        return frozenset(place for at in keys for place in around(at))

    def failed_elements(self, at: ev.StepPath) -> list[int]:
        """The elements of ``at`` (the path of a body, without the number) in which a call failed.

        A resumed run starts with them: so the failure that stopped the others is known before any
        of them starts.
        """
        numbers: dict[int, None] = {}
        for inner in self.failures:
            if is_within(inner, at) and len(inner) > len(at) and isinstance(inner[len(at)], int):
                numbers[int(inner[len(at)])] = None
        return list(numbers)

    def has_failed(self, at: ev.StepPath) -> bool:
        """Whether a call at or inside ``at`` failed."""
        return any(is_within(inner, at) for inner in self.failures)

    def order(self, what: str, keys: Iterable[CallKey]) -> list[int]:
        """The positions of the keys that have this mark, in the order of their marks."""
        lines = ((self.marks.get((what, key)), i) for i, key in enumerate(keys))
        return [i for line, i in sorted((line, i) for line, i in lines if line is not None)]


def _is_handled(record: Record, handled: set[ev.StepPath], retried: set[CallKey]) -> bool:
    """Whether a failure was dropped, rescued or retried, and so did not end the run."""
    tries = record.tries.split(SPLIT) if record.tries else []
    ats = [tuple(json.loads(attempt))[:-1] for attempt in tries]
    for outer in around(record.at):
        if outer in handled:
            return True
        inside = sum(at != outer and is_within(at, outer) for at in ats)  # the last ones
        if CallKey(outer, SPLIT.join(tries[: len(tries) - inside])) in retried:
            return True
    return False
