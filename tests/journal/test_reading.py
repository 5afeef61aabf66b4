"""The rows of a run are read as they were written, and a change of any cell is found."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agf_magics.journal.codec.signatures import row_crc
from agf_magics.journal.database.errors import JournalError
from agf_magics.journal.database.file import TABLES
from agf_magics.journal.records.fields import is_at
from agf_magics.journal.records.record_reader import Row, read_records
from agf_magics.journal.records.records import COLUMNS, Record

NAMES = COLUMNS.split(", ")

ARGUMENTS, VALUE = ("given", "whole"), ("form", "value", "shown", "sign")

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
"""Rows that a run writes, and odd rows that the reader passes on."""


def row(changes: dict[str, Any] | None = None, crc: int | None = None) -> Row:
    cells = tuple((PLAIN | (changes or {}))[name] for name in NAMES)
    return (*cells, row_crc(cells) if crc is None else crc)


def stored(connection: sqlite3.Connection, rows: tuple[Row, ...]) -> sqlite3.Cursor:
    connection.executescript(TABLES.replace(" NOT NULL", ""))
    connection.executemany(f"INSERT INTO records VALUES ({', '.join('?' * 17)})", rows)
    return connection.execute("SELECT * FROM records ORDER BY line")


def read_rows(*rows: Row) -> list[Record] | str:
    """The records in the rows, as SQLite returns them, or the error."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        try:
            return list(read_records(stored(connection, rows)))
        except JournalError as error:
            return str(error)


@given(st.lists(st.sampled_from(sorted(SOUND)), max_size=30))
def test_rows_are_read_as_they_were_written(names: list[str]) -> None:
    records = read_rows(*(row(SOUND[name] | {"line": line}) for line, name in enumerate(names, 1)))
    if "a long number" in names:
        assert records == f"row {names.index('a long number') + 1} has changed since it was written"
        return
    assert isinstance(records, list)
    for line, (name, record) in enumerate(zip(names, records, strict=True), 1):
        expected = PLAIN | SOUND[name] | {"line": line}
        expected["at"] = tuple(json.loads(expected["at"]))
        of_arguments, of_value = [expected.pop(key) for key in ARGUMENTS], [expected.pop(key) for key in VALUE]
        assert {key: getattr(record, key) for key in expected} == expected
        assert record.arguments == (*of_arguments, {}, None)
        assert record.result == (*of_value, None)


CELLS = st.one_of(
    st.none(), st.integers(-3, 1 << 40), st.floats(allow_nan=False), st.text(max_size=4), st.binary(max_size=4),
    st.sampled_from(["finished", "failed", "json", "pickle", "again", "[]", '["s"]', '["s",0]', '["s",-1]', "[1]"]),
)  # fmt: skip


@given(st.sampled_from(NAMES[1:]), CELLS, st.sampled_from(sorted(SOUND)))
def test_a_cell_that_was_changed_is_found(column: str, cell: Any, name: str) -> None:
    before = row(SOUND[name])
    changed = row(SOUND[name] | {column: cell}, before[-1])
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        (stored_cell,) = stored(connection, (changed,))
    if row_crc(stored_cell[:-1]) != before[-1]:
        assert "row 7 has changed" in str(read_rows(row({"line": 6}), changed))


@pytest.mark.parametrize("name", sorted(SOUND))
@given(st.sampled_from(NAMES[1:]), CELLS)
def test_a_forged_cell_is_an_error_of_the_journal_or_a_record_of_the_right_types(
    name: str, column: str, cell: Any
) -> None:
    records = read_rows(row(SOUND[name] | {column: cell}))
    if isinstance(records, str):
        assert "row 7 has changed" in records
        return
    (record,) = records
    assert is_at(record.at)
    assert type(record.tries) is type(record.kind) is type(record.name) is str
    assert record.result.form in ("json", "pickle", "again", None)
