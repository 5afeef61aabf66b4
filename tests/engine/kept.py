"""Cuts the journal of a run, as it lies on the disk when its process died after so many lines."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import agf_magics as agf
from agf_magics.engine.run_options import RunOptions
from agf_magics.journal.claims import claim
from agf_magics.journal.codec.signatures import checksum, row_crc
from agf_magics.journal.database import file as journal_file
from agf_magics.journal.database.store import Store
from agf_magics.journal.records.records import COLUMNS, UNREADABLE
from agf_magics.journal.runs import END
from agf_magics.lifecycle.launch.driving import run_here
from agf_magics.lifecycle.past.resume import prepare_resumed
from agf_magics.lifecycle.runs.live import live
from agf_magics.settings import settings

HEAD = "num, run, name, language, started, work_crc"
"""The columns of a run that ``head_crc`` covers."""
STATE = "num, owner, pauses, status, ended, tokens, cost, dropped, lost, end_crc"
"""The columns of a run that ``state_crc`` covers."""


@contextlib.contextmanager
def journal_in(folder: Path) -> Iterator[Path]:
    """Keep runs in ``folder`` within the block."""
    path, before = folder / "runs.sqlite", settings.current.settings
    live.forget()  # forgets background runs of other tests
    settings.current.settings = replace(before, journal=str(path))
    try:
        yield path
    finally:
        Store.close_all()
        settings.current.settings = before


@contextlib.contextmanager
def no_journal() -> Iterator[None]:
    """Keep no runs within the block."""
    before = settings.current.settings
    settings.current.settings = replace(before, journal=None)
    try:
        yield
    finally:
        settings.current.settings = before


def lines(path: Path) -> list[Any]:
    """The records of the only run in the file: outcome, place, attempts."""
    flush(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT what, at, tries FROM records ORDER BY line").fetchall()


def flush(path: Path) -> None:
    Store.at(path).flush()


def on_disk(path: Path) -> bytes:
    """All bytes of the journal and of the files beside it."""
    flush(path)
    return b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())


def cut(path: Path, after: int, to: Path) -> Path:
    """A copy of the journal as it was after ``after`` lines, with a dead process."""
    flush(path)
    to.mkdir(parents=True, exist_ok=True)
    journal = to / "runs.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as old, contextlib.closing(sqlite3.connect(journal)) as new:
        new.execute("PRAGMA synchronous=OFF")
        old.backup(new)
        new.execute("DELETE FROM records WHERE line NOT IN (SELECT line FROM records ORDER BY line LIMIT ?)", (after,))
        new.execute("UPDATE runs SET status='running', owner='dead', ended=NULL, output=NULL, stores=NULL, error=NULL")
        seal(new)
        new.commit()
    return journal


def seal(connection: sqlite3.Connection) -> None:
    """Give every row of both tables correct checksums, as a forger of a journal would."""
    connection.text_factory = journal_file._text
    for row in connection.execute(f"SELECT {HEAD}, work, work_sign, {STATE}, {END} FROM runs").fetchall():
        (num, *head), (work, sign), (_, *state), end = row[:6], row[6:8], row[8:18], row[18:]
        work_crc, end_crc = checksum(num, work, sign), checksum(*end)
        connection.execute(
            "UPDATE runs SET head_crc=?, work_crc=?, state_crc=?, end_crc=? WHERE num=?",
            (checksum(num, *head[:-1], work_crc), work_crc, checksum(num, *state[:-1], end_crc), end_crc, num),
        )
    for row in connection.execute(f"SELECT {COLUMNS} FROM records").fetchall():
        with contextlib.suppress(*UNREADABLE):  # the value has no checksum
            connection.execute("UPDATE records SET crc=? WHERE line=?", (row_crc(row), row[0]))


async def take_up(**options: Any) -> agf.Run:
    """Resume the only run of the journal on the running loop; `agf.resume` uses the engine's loop."""
    (listed,) = agf.runs()
    run, head = prepare_resumed(listed.run_id, options=RunOptions(**options))
    assert claim(run.journal.store, head)
    await run_here(run)
    return run
