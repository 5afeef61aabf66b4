"""A forged journal says that a call with an effect has ended: the resumed run does not believe it and asks the user."""

from __future__ import annotations

import marshal
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.journal.database.store import Store
from tests.engine import kept

TEXT = """
pipeline: p
steps:
- tool: {name: pay, output: receipt}
- tool: {name: later}
- transform: {value: receipt}
"""


def world(calls: list[str], fails: bool = False) -> agf.Registry:
    registry = agf.Registry()

    @agf.tool(reuse=False, registry=registry)
    def pay() -> str:
        calls.append("pay")
        return "paid"

    @agf.tool(registry=registry)
    def later() -> str:
        if fails:
            raise LookupError("not yet")
        return "later"

    return registry


Row = list[Any]
COLUMNS = ("line", "what", "place", "tries", "kind", "name", "started", "ended", "given", "whole")
FORM, VALUE, ERROR = len(COLUMNS), len(COLUMNS) + 1, len(COLUMNS) + 3


def rewrite(path: Path, change: Callable[[list[Row]], list[Row]]) -> None:
    """Change the records as any stranger can, because the checksum of a row needs no key."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        rows = [list(row[:-1]) for row in file.execute("SELECT * FROM records ORDER BY line")]
        file.execute("DELETE FROM records")
        for row in change(rows):
            cells = (*row, zlib.crc32(marshal.dumps(tuple(row), 2)))
            file.execute(f"INSERT INTO records VALUES ({', '.join('?' * len(cells))})", cells)


def is_end(row: Row) -> bool:
    return row[1] in ("finished", "failed") and row[5] == "pay"


def another_value(rows: list[Row]) -> list[Row]:
    return [[*row[:VALUE], '"forged"', *row[VALUE + 1 :]] if is_end(row) else row for row in rows]


def no_begin(rows: list[Row]) -> list[Row]:
    return [row for row in another_value(rows) if row[1] != "begun"]


def as_failed(rows: list[Row]) -> list[Row]:
    error = '{"at":null,"said":[["step.tool-failed","forged",null,null,"error"]]}'
    return [
        [row[0], "failed", *row[2:FORM], None, None, None, error, None, *row[ERROR + 2 :]] if is_end(row) else row
        for row in rows
    ]


def no_end(rows: list[Row]) -> list[Row]:
    return [row for row in rows if not is_end(row)]


CHANGES = {change.__name__: change for change in (another_value, no_begin, as_failed, no_end)}


@pytest.mark.parametrize("change", CHANGES)
def test_the_user_is_asked_for_an_outcome_that_the_run_has_not_written(change: str, tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        calls: list[str] = []
        failed = agf.run(TEXT, registry=world(calls, fails=True), raises=False)
        Store.close_all()
        rewrite(path, CHANGES[change])
        resumed = agf.resume(failed.run_id, registry=world(calls), raises=False)
        assert (resumed.status, resumed.error and resumed.error.code) == ("waiting", "step.unknown-outcome")
        assert calls == ["pay"]


@pytest.mark.parametrize("change", CHANGES)
def test_the_user_says_what_the_outcome_of_the_call_was(change: str, tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        calls: list[str] = []
        failed = agf.run(TEXT, registry=world(calls, fails=True), raises=False)
        Store.close_all()
        rewrite(path, CHANGES[change])
        resumed = agf.resume(failed.run_id, registry=world(calls), ask=lambda question: {"result": "what I know"})
        assert (resumed.output, calls) == ("what I know", ["pay"])


def test_the_outcome_that_the_run_has_written_counts(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        calls: list[str] = []
        failed = agf.run(TEXT, registry=world(calls, fails=True), raises=False)
        Store.close_all()
        rewrite(path, lambda rows: rows)
        assert agf.resume(failed.run_id, registry=world(calls)).output == "paid"
        assert calls == ["pay"]


def test_the_outcome_of_another_run_does_not_count(tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as path:
        calls: list[str] = []
        for _ in range(2):
            failed = agf.run(TEXT, registry=world(calls, fails=True), raises=False)
        Store.close_all()

        def moved(rows: list[Row]) -> list[Row]:
            first, second = [row for row in rows if is_end(row)]
            # Each call gets the outcome of the other. The order of the calls in the file is random.
            exchanged = {id(first): second, id(second): first}
            return [[row[0], *exchanged.get(id(row), row)[1:]] for row in rows]

        rewrite(path, moved)
        resumed = agf.resume(failed.run_id, registry=world(calls), raises=False)
        assert (resumed.status, resumed.error and resumed.error.code) == ("waiting", "step.unknown-outcome")
        assert calls == ["pay", "pay"]
