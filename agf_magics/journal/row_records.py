"""Queries: the outcomes of the rows of a run over data, by the number of the row.

One query over the run's records, which reads no values, finds the place of each row; then a page is
read by its places. So a page of a table with a million rows costs what its rows cost.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from ..flow.values import Value
from .codec import encode
from .file import JournalError
from .reading import read_records
from .records import COLUMNS, Record, decoded
from .store import ROOM, Store

AT_ONCE = 500
"""Records that are read in one statement."""


class RowOutcome(NamedTuple):
    """What the journal has of one row."""

    record: Record | None
    """Its last outcome: finished, failed or dropped; None: it has none."""
    tokens: int | None = None
    """What its models used; None: it asked none."""
    cost: str | None = None
    """US dollars, a decimal number; None: it is not known."""


class RowRecords:
    """The records of the rows of one run, as they were when they were first read."""

    def __init__(
        self,
        store: Store,
        num: int,
        body: str,
        count: int,
        errors: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """``body``: the id of the step that a row is; ``errors``: as in `RunCalls`."""
        self._store, self._num, self._errors = store, num, errors
        self._places, self._uses = array("Q", bytes(8 * count)), array("Q", bytes(8 * count))
        self.failed = bytearray(count)
        """For each row whether its last outcome is a failure."""
        start = f"[{encode(body)},"
        where = "line>? AND line<? AND (kind='row' OR what IN ('dropped', 'used'))"
        sql = f"SELECT line, what, substr(at, ?) FROM records WHERE {where} AND substr(at, 1, ?)=?"
        cells = (len(start) + 1, num, num + ROOM, len(start), start)
        with errors():
            store.flush()
            with store.reading() as connection:
                for line, what, rest in connection.execute(f"{sql} ORDER BY line", cells):
                    self._add(line, what, rest)

    def _add(self, line: int, what: str, rest: str) -> None:
        text = rest[:-1]  # what is deeper than a row has further parts
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            return
        number = int(text)
        if number >= len(self._places):
            return
        if what == "used":
            self._uses[number] = line
            return
        # A dropped row has the record of its failure, unless it could not even begin.
        if what != "dropped" or not self._places[number]:
            self._places[number] = line
        self.failed[number] = what != "finished"

    @property
    def done(self) -> int:
        """The number of rows that have an outcome."""
        return sum(1 for line in self._places if line)

    def has(self, number: int) -> bool:
        return bool(self._places[number])

    def read(self, numbers: list[int]) -> Iterator[RowOutcome]:
        """The outcomes of these rows, in their order. Raises JournalError for a damaged one."""
        for start in range(0, len(numbers), AT_ONCE):
            some = numbers[start : start + AT_ONCE]
            lines = [place for n in some for place in (self._places[n], self._uses[n]) if place]
            these = ",".join("?" * len(lines))
            sql = f"SELECT {COLUMNS}, crc FROM records WHERE line IN ({these})"
            with self._errors(), self._store.reading() as connection:
                records = {one.line: one for one in read_records(connection.execute(sql, lines))}
            for number in some:
                use = records.get(self._uses[number])
                tokens, cost = _use(decoded(use.shown)) if use is not None else (None, None)
                yield RowOutcome(records.get(self._places[number]), tokens, cost)


def _use(stored: Value) -> tuple[int | None, str | None]:
    """The tokens and the cost that `Journal.note_use` wrote."""
    match stored:
        case [int(tokens), None]:
            return tokens, None
        case [int(tokens), str(cost)]:
            return tokens, cost
    return None, None


COLUMN = "column "
"""What the key of an added column begins with, in the table of large values: no digest has it."""


def read_columns(store: Store, num: int) -> dict[str, dict[int, Value]]:
    """The columns that were added to the table of a run: their names, and their values by the place
    of the row. Raises JournalError."""
    sql = "SELECT substr(digest, ?), text FROM large WHERE num=? AND substr(digest, 1, ?)=?"
    with store.reading() as connection:
        cells = (len(COLUMN) + 1, num, len(COLUMN), COLUMN)
        columns = connection.execute(sql, cells).fetchall()
    return {name: _column(name, text) for name, text in columns}


def write_column(store: Store, num: int, name: str, values: Mapping[int, Value], new: bool) -> None:
    """Save values of an added column by their places. ``new``: they replace the column, else what
    other processes wrote in it stays. Raises JournalError."""
    key = COLUMN + name
    with store.writing() as connection:
        sql = "SELECT text FROM large WHERE num=? AND digest=?"
        row = None if new else connection.execute(sql, (num, key)).fetchone()
        merged = {**(_column(name, row[0]) if row is not None else {}), **values}
        text = json.dumps({place: value for place, value in merged.items() if value is not None})
        connection.execute("INSERT OR REPLACE INTO large VALUES (?, ?, ?)", (num, key, text))
        connection.execute("COMMIT")


def _column(name: str, text: str) -> dict[int, Value]:
    try:
        return {int(place): value for place, value in json.loads(text).items()}
    except (ValueError, AttributeError, RecursionError):
        raise JournalError(f"the added column {name!r} cannot be read") from None
