"""Reads the outcomes of the rows of a run over a table, by the number of the row."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, NamedTuple

from .codec.json_texts import encode
from .codec.type_checks import checker
from .database.store import ROOM, Store
from .records.record_reader import read_records
from .records.records import RECORDS, Record, decoded
from .run_calls import RunReader

AT_ONCE = 500
"""The number of rows of the table whose records, at most two each, are read in one statement."""


class RowOutcome(NamedTuple):
    """The outcome of one row of a table."""

    record: Record | None
    """The last outcome: finished, failed or dropped; None: there is none yet."""
    tokens: int | None = None
    """The tokens of the row's models; None: no model was asked."""
    cost: str | None = None
    """US dollars, a decimal number; None: unknown."""


class RowRecords(RunReader):
    """The records of the rows of one run, at the time of the first reading.

    One query over the run's records, without their values, finds the line of each row's record.
    Then a page is read by its lines, so that its cost depends only on the rows of the page.
    """

    def __init__(
        self,
        store: Store,
        num: int,
        body: str,
        count: int,
        errors: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """``body``: the id of the step that runs for each row. ``count``: the number of rows.
        ``errors``: the context of each query."""
        super().__init__(store, num, errors)
        self._outcome_lines = array("Q", bytes(8 * count))
        """The line of each row's record; 0: there is none."""
        self._use_lines = array("Q", bytes(8 * count))
        """The line of each row's record of tokens and cost; 0: there is none."""
        self.failed = bytearray(count)
        """True for each row whose last outcome is a failure."""
        start = f"[{encode(body)},"
        where = "line>? AND line<? AND (kind='row' OR what IN ('dropped', 'used'))"
        sql = f"SELECT line, what, substr(at, ?) FROM records WHERE {where} AND substr(at, 1, ?)=?"
        cells = (len(start) + 1, num, num + ROOM, len(start), start)
        with self._reading() as connection:
            for line, what, path_after_body in connection.execute(f"{sql} ORDER BY line", cells):
                self._add(line, what, path_after_body)

    def _add(self, line: int, what: str, path_after_body: str) -> None:
        text = path_after_body[:-1]  # without the bracket; a deeper record has further parts
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            return
        number = int(text)
        if number >= len(self._outcome_lines):
            return
        if what == "used":
            self._use_lines[number] = line
            return
        # A dropped row has the record of its failure, unless the row could not even begin.
        if what != "dropped" or not self._outcome_lines[number]:
            self._outcome_lines[number] = line
        self.failed[number] = what != "finished"

    @cached_property
    def lacking(self) -> list[int]:
        """The numbers of the rows that have no outcome here."""
        return [number for number, line in enumerate(self._outcome_lines) if not line]

    def read(self, numbers: list[int]) -> Iterator[RowOutcome]:
        """The outcomes of these rows, in their order. Raises JournalError for a damaged one."""
        for start in range(0, len(numbers), AT_ONCE):
            page = numbers[start : start + AT_ONCE]
            lines = [self._outcome_lines[number] for number in page]
            lines += [self._use_lines[number] for number in page]
            lines = list(filter(None, lines))
            marks = ",".join("?" * len(lines))
            sql = f"{RECORDS} WHERE line IN ({marks})"
            with self._reading() as connection:
                page_records = read_records(connection.execute(sql, lines))
                records = {record.line: record for record in page_records}
            for number in page:
                use = records.get(self._use_lines[number])
                stored: Any = decoded(use.result.shown) if use is not None else None
                tokens, cost = stored if _is_use(stored) else (None, None)
                yield RowOutcome(records.get(self._outcome_lines[number]), tokens, cost)


_is_use = checker(tuple[int, str | None])
"""What `Journal.note_use` wrote: tokens and cost."""
