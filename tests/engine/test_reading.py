"""A run that is resumed or reuses results reads rows without making records: it finds the same, and the same damage."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agf_magics.journal import reading
from agf_magics.journal.file import TABLES, JournalError
from agf_magics.journal.reading import CELLS as SHORT_CELLS
from agf_magics.journal.reading import Row, read_outcomes, read_records, read_results, rows_between
from agf_magics.journal.records import COLUMNS, Record, is_at, row_crc, value_of

NAMES = COLUMNS.split(", ")

PLAIN: dict[str, Any] = {
    "line": 7, "what": "finished", "at": '["steps[0].do",3]', "tries": "", "kind": "tool", "name": "work",
    "started": 1.5, "ended": 2.5, "given": '{"x":3}', "whole": 1, "form": "json", "value": '{"n":3}', "shown": None,
    "error": None, "sign": None, "digest": b"d" * 32,
}  # fmt: skip

FAILURE = json.dumps({"at": ["steps[0].do", 3], "said": [["step.tool-failed", "it fails", None, None, "error"]]})

SOUND: dict[str, dict[str, Any]] = {
    "JSON": {},
    "no digest": {"digest": None},
    "arguments that are not complete": {"whole": 0},
    "a second attempt": {"tries": '["steps[0].do",3,2]'},
    "a failure": {"what": "failed", "error": FAILURE, "value": None},
    "a pickle": {"form": "pickle", "value": b"p", "shown": '"p"', "sign": b"s"},
    "not stored": {"form": "again", "value": None, "shown": '"large"'},
    "a mark": {"what": "ended", "kind": "", "form": None, "value": None, "started": None, "ended": None, "given": None},
    "no value": {"value": None},
    "a value that is not JSON": {"value": "{"},
    "another step": {"at": '["steps[1]"]'},
    "a long number": {"at": '["steps[0].do",1234567890123456789012]'},
}
"""Rows that a run writes, or that a reader leaves to those who use the value."""

READERS: list[Callable[[Iterable[Row]], Iterator[Any]]] = [read_records, read_outcomes, read_results]


def row(changes: dict[str, Any] | None = None, crc: int | None = None) -> Row:
    cells = tuple((PLAIN | (changes or {}))[name] for name in NAMES)
    return (*cells, row_crc(cells) if crc is None else crc)


def all_of(read: Callable[[Iterable[Row]], Iterator[Any]], rows: Iterable[Row]) -> list[Any] | str:
    try:
        return list(read(rows))
    except JournalError as error:
        return str(error)


def fetched(rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """The rows as SQLite returns them: whole, and short where that is possible."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(TABLES.replace(" NOT NULL", ""))
        connection.executemany(f"INSERT INTO records VALUES ({', '.join('?' * 17)})", rows)
        connection.execute("BEGIN")
        whole = connection.execute("SELECT * FROM records ORDER BY line").fetchall()
        return whole, list(rows_between(connection, 0, 1 << 50))


def is_short(row: Row) -> bool:
    return len(row) == SHORT_CELLS


@pytest.mark.parametrize("name", sorted(SOUND))
def test_what_is_read_without_a_record_is_what_its_record_has(name: str) -> None:
    _, rows = fetched(row(SOUND[name] | {"line": line}) for line in (7, 8))
    check_readers(rows, [row(SOUND[name] | {"line": line}) for line in (7, 8)])


@given(st.lists(st.sampled_from(sorted(SOUND)), max_size=30), st.integers(1, 5))
def test_short_and_whole_rows_are_read_in_the_order_of_the_file(names: list[str], together: int) -> None:
    rows = [row(SOUND[name] | {"line": line}) for line, name in enumerate(names, 1)]
    before, reading.FETCHED = reading.FETCHED, together
    try:
        whole, found = fetched(rows)
    finally:
        reading.FETCHED = before
    assert whole == rows
    assert [one[0] for one in found] == [one[0] for one in rows]
    sound = {name for name in names if SOUND[name] is not SOUND["no value"]}
    check_readers(*([some for some, name in zip(part, names, strict=True) if name in sound] for part in (found, rows)))


def check_readers(rows: list[Row], whole: list[Row]) -> None:
    found = all_of(read_records, whole)
    if isinstance(found, str):
        assert all_of(read_outcomes, rows) == found
        return
    for record, outcome, result in zip(found, read_outcomes(rows), read_results(rows), strict=True):
        if isinstance(outcome, Record):
            assert outcome == record
        else:
            assert outcome == (record.line, record.key, value_of(record))
        assert result == record or result == (record.digest, record.value)


def test_calls_that_returned_json_are_read_without_a_record() -> None:
    _, rows = fetched([row()])
    assert list(map(is_short, rows)) == [True]
    assert list(read_outcomes(rows)) == [(7, (("steps[0].do", 3), ""), {"n": 3})]
    assert list(read_results(rows)) == [(b"d" * 32, '{"n":3}')]


CELLS = st.one_of(
    st.none(), st.integers(-3, 1 << 40), st.floats(allow_nan=False), st.text(max_size=4), st.binary(max_size=4),
    st.sampled_from(["finished", "failed", "json", "pickle", "again", "[]", '["s"]', '["s",0]', '["s",-1]', "[1]"]),
)  # fmt: skip


@given(st.sampled_from(NAMES[1:]), CELLS, st.sampled_from(sorted(SOUND)))
def test_a_cell_that_was_changed_is_found_by_each_reader(column: str, cell: Any, name: str) -> None:
    before = row(SOUND[name])
    changed = row(SOUND[name] | {column: cell}, before[-1])
    whole, rows = fetched([row({"line": 6}), changed])
    if row_crc(whole[1][:-1]) == before[-1]:
        return
    for read in READERS:
        assert "row 7 has changed" in str(all_of(read, whole if read is read_records else rows))


@given(st.sampled_from(NAMES[1:]), CELLS, st.sampled_from(sorted(SOUND)))
def test_a_forged_cell_is_an_error_of_the_journal_or_one_that_the_reader_does_not_use(
    column: str, cell: Any, name: str
) -> None:
    (first,), _ = fetched([row(SOUND[name] | {column: cell})])
    forged = (*first[:-1], row_crc(first[:-1]))
    _, rows = fetched([forged])
    whole = all_of(read_records, [forged])
    for found in (all_of(read_outcomes, rows), all_of(read_results, rows)):
        if isinstance(found, str):
            assert found == whole
        elif not isinstance(found[0], Record):
            assert column not in ("what", "form", "error") or forged == row(SOUND[name])
            one = found[0]
            assert (type(one[0]), type(one[1])) == (bytes, str) if len(one) == 2 else is_at(one[1][0])
