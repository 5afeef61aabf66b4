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
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from . import file as journal_file
from .errors import JournalError, journal_errors
from .file import (
    check_format,
    check_header,
    connect,
    create_file,
    create_reserve,
    free_reserve,
    identity,
    open_journal,
    patiently,
    refuse_links,
)
from .locks import ProcessLock, alive
from .writer import Writer

T = TypeVar("T")

ROOM = 1 << 26
"""Numbers of lines that a run has for itself, from its own number on: so a line has one number and needs no index, and
lines that are added one after another fill their pages."""

ADD = f"INSERT INTO records VALUES ({', '.join('?' * 17)})"


class Store:
    """One file. `Store.at` is the one to use: a process has one for each."""

    _open: ClassVar[dict[Path, Store]] = {}
    _retired: ClassVar[list[Store]] = []
    """Those whose file was removed or replaced: runs that began before may still hold them."""
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, path: Path) -> None:
        """Make or open it. Raises Trouble."""
        self.path = path
        self.pid = os.getpid()
        self.unended: dict[int, int] = {}
        """Runs of this process whose end could not be written, with the number of their calls that were not either."""
        with journal_errors(path):
            refuse_links(path)
            _make_folder(path.parent)
            create_file(path)
            self.file = identity(path)
            """Which file it is: another one at its path gets nothing of what is written here."""
            if self.file not in {store.file for store in (*self._open.values(), *self._retired)}:
                check_header(path)
            connection = open_journal(path)
            try:
                self.owner = ProcessLock(self.owners)
            except BaseException:
                connection.close()
                raise
        create_reserve(path)
        self.writer = Writer(path, connection)

    @classmethod
    def at(cls, path: Path) -> Store:
        """The one of this process. Raises Trouble."""
        path = path.absolute()
        with cls._lock:
            found = cls._open.get(path)
            if found is not None and found.pid != os.getpid():
                # SQLite's own locks do not survive a fork, neither for this connection nor for a new one to the file.
                raise JournalError(
                    "journal.unwritable", f"{path}: a forked process cannot use what its parent has open"
                )
            if found is not None and found.is_there:
                return found
            if found is not None:
                cls._retired.append(cls._open.pop(path))
            found = cls._open[path] = cls(path)
            return found

    @classmethod
    def close_all(cls) -> None:
        """Write what is still to be written, and give everything back."""
        with cls._lock:
            for store in (*cls._open.values(), *cls._retired):
                if store.pid == os.getpid():
                    store.close()
            cls._open.clear()
            cls._retired.clear()

    @property
    def is_there(self) -> bool:
        """Whether the file at its path is still the one that was opened."""
        try:
            self.writer.check_place()
        except JournalError:
            return False
        return True

    @property
    def owners(self) -> Path:
        return self.path.parent / "owners"

    def is_alive(self, owner: str) -> bool:
        """Whether the process that writes a run lives: this one, or another."""
        return alive(self.owners, owner)

    def close(self) -> None:
        self.writer.close()
        self.owner.leave()

    def flush(self) -> None:
        """Wait until everything that was to be written is."""
        self.writer.flush()

    def checkpoint(self) -> bool:
        """Move the log into the file, and cut it off; whether that could be done."""
        try:
            with self._connected() as (connection, _):
                busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                return not busy
        except JournalError:
            return False

    def with_room(self, do: Callable[[], T]) -> T:
        """``do()``, which writes; on a full disk with the room that the log and the reserve take. Raises Trouble."""
        for make_room in (self.checkpoint, lambda: free_reserve(self.path)):
            try:
                return do()
            except JournalError as trouble:
                if trouble.code != "journal.full":
                    raise
            make_room()
        return do()

    def keep_reserve(self) -> None:
        """Hold some room of the disk back again."""
        create_reserve(self.path)

    def write_now(self, statement: str, row: Sequence[Any]) -> int:
        """Run one statement on a connection of its own and commit it; how many rows it changed. Not on a loop.

        Raises Trouble.
        """
        with self.writing() as connection:
            changed = connection.execute(statement, row).rowcount
            connection.execute("COMMIT")
        return changed

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection for this thread that has begun to write; what is not committed is rolled back.

        Raises Trouble.
        """
        with self._connected() as (connection, until):
            patiently(lambda: connection.execute("BEGIN IMMEDIATE"), until)
            yield connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for this thread, which sees the file as it is now for as long as it is used. Raises Trouble."""
        with self._connected() as (connection, until):
            connection.execute("BEGIN")
            patiently(lambda: connection.execute("SELECT 1 FROM runs LIMIT 1").fetchone(), until)
            yield connection

    @contextlib.contextmanager
    def _connected(self) -> Iterator[tuple[sqlite3.Connection, float]]:
        with journal_errors(self.path):
            self.writer.check_place()
            until = time.monotonic() + journal_file.BUSY
            connection = connect(self.path)
            try:
                patiently(lambda: check_format(connection, self.path), until)
                yield connection, until
            finally:
                connection.close()


def _make_folder(folder: Path) -> None:
    """The folder of the file, for this user alone and in no repository."""
    if folder.name == ".agf" and not folder.exists():
        folder.mkdir(parents=True, mode=0o700)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.name == ".agf":
        with contextlib.suppress(FileExistsError), (folder / ".gitignore").open("x", encoding="utf-8") as file:
            file.write("*\n")  # "x" follows no link


atexit.register(Store.close_all)
