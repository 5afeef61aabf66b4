"""The file that runs are kept in: SQLite, one writer a process, any number of processes.

A line that is committed outlives the process, however that ends (WAL, synchronous=NORMAL; a power cut may take the last
moments and damages nothing). What is read is read by connections of their own and never waits for a writer.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from .owners import Owner, alive
from .troubles import Trouble, troubles
from .writer import BUSY, Writer

FORMAT = 2
"""Grows when a file of an older version cannot be read any more. 2: a line has one number, its digest is bytes."""

TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    num INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, name TEXT NOT NULL, language TEXT NOT NULL,
    status TEXT NOT NULL, started REAL NOT NULL, ended REAL, owner TEXT NOT NULL, taken INTEGER NOT NULL DEFAULT 0,
    work TEXT NOT NULL, crc INTEGER NOT NULL, form TEXT, output BLOB, shown TEXT, stores TEXT, error TEXT, sign BLOB,
    tree TEXT);
CREATE TABLE IF NOT EXISTS records (
    line INTEGER PRIMARY KEY, what TEXT NOT NULL, at TEXT NOT NULL, tries TEXT NOT NULL,
    kind TEXT NOT NULL, name TEXT NOT NULL, started REAL, ended REAL, given TEXT, whole INTEGER NOT NULL,
    form TEXT, value BLOB, shown TEXT, error TEXT, sign BLOB, digest BLOB, crc INTEGER NOT NULL);
"""

ROOM = 1 << 26
"""Numbers of lines that a run has for itself, from its own number on: so a line has one number and needs no index, and
lines that are added one after another fill their pages."""

ADD = f"INSERT INTO records VALUES ({', '.join('?' * 17)})"


class Store:
    """One file. `Store.at` is the one to use: a process has one for each."""

    _open: ClassVar[dict[Path, Store]] = {}
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, path: Path) -> None:
        """Make or open it. Raises Trouble."""
        self.path = path
        self.pid = os.getpid()
        with troubles(path):
            _make_folder(path.parent)
            connection = sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)
            try:
                _prepare(connection, path)
                self.owner = Owner(self.owners)
            except BaseException:
                connection.close()
                raise
        self.writer = Writer(path, connection)

    @classmethod
    def at(cls, path: Path) -> Store:
        """The one of this process. Raises Trouble."""
        path = path.absolute()
        with cls._lock:
            found = cls._open.get(path)
            if found is not None and found.pid != os.getpid():
                # SQLite's own locks do not survive a fork, neither for this connection nor for a new one to the file.
                raise Trouble("journal.unwritable", f"{path}: a forked process cannot use what its parent has open")
            if found is not None and path.exists():
                return found
            found = cls._open[path] = cls(path)
            return found

    @classmethod
    def close_all(cls) -> None:
        """Write what is still to be written, and give everything back."""
        with cls._lock:
            for store in cls._open.values():
                if store.pid == os.getpid():
                    store.close()
            cls._open.clear()

    @property
    def owners(self) -> Path:
        return self.path.parent / "owners"

    def is_alive(self, owner: str) -> bool:
        """Whether the process that writes a run lives: this one, or another."""
        return owner == self.owner.name or alive(self.owners, owner)

    def close(self) -> None:
        self.writer.close()
        self.owner.leave()

    def flush(self) -> None:
        """Wait until everything that was to be written is."""
        self.writer.flush()

    def write_now(self, statement: str, row: Sequence[Any]) -> int:
        """From a thread that is no loop's, on a connection of its own; how many rows it changed. Raises Trouble."""
        with self.reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            changed = connection.execute(statement, row).rowcount
            connection.execute("COMMIT")
        return changed

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for this thread. Raises Trouble."""
        with reading(self.path) as connection:
            yield connection


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a file that is there. Raises Trouble."""
    with troubles(path):
        # A generator that reads may be left half-way, and is closed on whatever thread collects it.
        uri = f"{path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY, isolation_level=None, check_same_thread=False)
        try:
            _check_format(connection, path)
            yield connection
        finally:
            connection.close()


def crc(*texts: str) -> int:
    """What tells a damaged row from a whole one."""
    return zlib.crc32("".join(texts).encode("utf-8", "surrogatepass"))


def _make_folder(folder: Path) -> None:
    """The folder of the file, for this user alone and in no repository."""
    if folder.name == ".agf" and not folder.exists():
        folder.mkdir(parents=True, mode=0o700)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.name == ".agf" and not (folder / ".gitignore").exists():
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    made = not path.exists() or path.stat().st_size == 0
    if made:
        path.touch(mode=0o600)
        path.chmod(0o600)
    else:
        _check_format(connection, path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("BEGIN IMMEDIATE")
    for statement in filter(str.strip, TABLES.split(";")):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version={FORMAT}")
    connection.execute("COMMIT")


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found > FORMAT:
        raise Trouble("journal.newer", f"{path} was written by a newer version of agf-magics")
    if 0 < found < FORMAT:
        raise Trouble("journal.older", f"{path} was written by an older version of agf-magics")


atexit.register(Store.close_all)
