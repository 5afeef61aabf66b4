"""A run that is resumed or reuses results reads rows without making records: it finds the same, and the same damage."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agf_magics.journal.errors import JournalError
from agf_magics.journal.reading import Row, read_outcomes, read_records, read_results
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


@pytest.mark.parametrize("name", sorted(SOUND))
def test_what_is_read_without_a_record_is_what_its_record_has(name: str) -> None:
    rows = [row(SOUND[name] | {"line": line}) for line in (7, 8)]
    found = all_of(read_records, rows)
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
    assert list(read_outcomes([row()])) == [(7, (("steps[0].do", 3), ""), {"n": 3})]
    assert list(read_results([row()])) == [(b"d" * 32, '{"n":3}')]


CELLS = st.one_of(
    st.none(), st.integers(-3, 1 << 40), st.floats(allow_nan=False), st.text(max_size=4), st.binary(max_size=4),
    st.sampled_from(["finished", "failed", "json", "pickle", "again", "[]", '["s"]', '["s",0]', '["s",-1]', "[1]"]),
)  # fmt: skip


@given(st.sampled_from(NAMES[1:]), CELLS, st.sampled_from(sorted(SOUND)))
def test_a_cell_that_was_changed_is_found_by_each_reader(column: str, cell: Any, name: str) -> None:
    before = row(SOUND[name])
    changed = row(SOUND[name] | {column: cell}, before[-1])
    if row_crc(changed[:-1]) == before[-1]:
        return
    for read in READERS:
        assert "row 7 has changed" in str(all_of(read, [row({"line": 6}), changed]))


@given(st.sampled_from(NAMES[1:]), CELLS, st.sampled_from(sorted(SOUND)))
def test_a_forged_cell_is_an_error_of_the_journal_or_one_that_the_reader_does_not_use(
    column: str, cell: Any, name: str
) -> None:
    forged = row(SOUND[name] | {column: cell})
    whole = all_of(read_records, [forged])
    for found in (all_of(read_outcomes, [forged]), all_of(read_results, [forged])):
        if isinstance(found, str):
            assert found == whole
        elif not isinstance(found[0], Record):
            assert column not in ("what", "form", "error") or forged == row(SOUND[name])
            one = found[0]
            assert (type(one[0]), type(one[1])) == (bytes, str) if len(one) == 2 else is_at(one[1][0])
