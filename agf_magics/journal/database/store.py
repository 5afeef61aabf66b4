"""`Store`, the SQLite file of a journal, which any number of processes may open, with one writer
each.

A committed row survives any end of the process (WAL, synchronous=NORMAL; a power cut may lose the
last rows and damages nothing). Readers have connections of their own and never wait for a writer.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from ...compat.browser import IN_BROWSER
from . import file as journal_file
from .errors import DeletedRun, JournalError, journal_errors
from .file import (
    check_format,
    check_header,
    connect,
    create_file,
    create_reserve,
    free_reserve,
    open_journal,
    patiently,
    refuse_links,
)
from .locks import ProcessLock
from .log_files import identity
from .value_files import ValueFiles
from .writer import Writer

T = TypeVar("T")

ROOM = 1 << 26
"""The number of row numbers of a run, which begin with the run's own number. So a row needs only one
number and no index, and rows that are added in order fill their pages."""

ADD = f"INSERT INTO records VALUES ({', '.join('?' * 17)})"
"""The statement that adds a record."""

START_RUN = """INSERT INTO runs (num, run, name, language, started, status, owner, pauses, dropped, lost,
    work, work_sign, head_crc, state_crc, work_crc, end_crc, part)
VALUES (?, ?, ?, ?, ?, 'running', ?, '[]', 0, 0, ?, ?, ?, ?, ?, ?, ?)"""
"""The statement that adds a run."""

END_RUN = """UPDATE runs SET form=?, output=?, shown=?, stores=?, error=?, sign=?, tree=?, end_crc=?,
status=?, ended=?, tokens=?, cost=?, dropped=?, lost=?,
state_crc=agf_checksum(num, owner, pauses, ?, ?, ?, ?, ?, ?, ?) WHERE num=? AND owner=?"""
"""The statement that writes the end of a run."""

REOPEN_RUN = """UPDATE runs SET status='running', ended=NULL,
state_crc=agf_checksum(num, owner, pauses, 'running', NULL, tokens, cost, dropped, lost, end_crc)
WHERE num=? AND owner=? AND status='cancelled'"""
"""The statement that removes the end of a run."""

ADD_LARGE = "INSERT INTO large VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET num=num"
"""The statement that adds a large value. If an earlier session of the run has added it, that is no
error, and still counts as one changed row."""


class StoreUser(Protocol):
    """The journal of a run, which uses a store."""

    @property
    def may_write(self) -> bool: ...


MOST_OPEN = 16
"""The largest number of open stores that no run uses. Each has a thread and four file
descriptors."""


class Store:
    """One file. Call `Store.at`, which keeps one open store for each file."""

    _open: ClassVar[dict[Path, Store]] = {}
    """The open stores by path, least recently used first."""
    _unused: ClassVar[weakref.WeakSet[Store]] = weakref.WeakSet()
    """Closed stores. Past runs may still read through them, on separate connections."""
    _retired: ClassVar[list[Store]] = []
    """Stores whose file was removed or replaced; earlier runs may still use them."""
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, path: Path) -> None:
        """Create or open the file. Raises JournalError."""
        self.path = path
        self.pid = os.getpid()
        self.journals: weakref.WeakSet[StoreUser] = weakref.WeakSet()
        """The journals that use this store, as long as they are in memory."""
        self.beginning: set[int] = set()
        """The runs of this process whose row is not written yet, or could not be."""
        self.unended: dict[int, int] = {}
        """The runs of this process whose end could not be written, with the numbers of unwritten
        calls."""
        with journal_errors(path):
            refuse_links(path)
            _make_folder(path.parent)
            create_file(path)
            self.file = identity(path)
            """Device and inode: another file at this path gets no rows of this store."""
            stores = (*self._open.values(), *self._retired, *self._unused)
            if self.file not in {store.file for store in stores}:
                check_header(path)  # not for an open file: closing it would release SQLite's locks
            connection = open_journal(path)
            # If opening fails, the lock is removed: otherwise its process would count as alive.
            with contextlib.ExitStack() as undo:
                undo.callback(connection.close)
                self.owner = ProcessLock(self.owners)
                undo.callback(self.owner.leave)
                create_reserve(path)
                self.writer = Writer(path, connection)
                undo.pop_all()
        # A browser has little room for large values.
        folder = path.parent / journal_file.VALUES
        self.files = None if IN_BROWSER else ValueFiles(folder, self.owner.name)

    @classmethod
    def at(cls, path: Path) -> Store:
        """The store of this process for the file ``path``. Raises JournalError."""
        path = path.absolute()
        with cls._lock:
            store = cls._open.get(path)
            if store is not None:
                # SQLite's locks do not survive a fork, neither for old nor for new connections.
                if store.pid != os.getpid():
                    raise JournalError(
                        "journal.unwritable",
                        f"{path}: a forked process cannot use what its parent has open",
                    )
                if store.is_there:
                    # Inserted again, so that it is the most recently used store.
                    cls._open[path] = cls._open.pop(path)
                    return store
                # Not closed, because runs that still write to the old file must get an error.
                cls._retired.append(cls._open.pop(path))
            cls._close_unused()
            store = cls._open[path] = cls(path)
            return store

    @classmethod
    def _close_unused(cls) -> None:
        """Close the least recently used stores that no run uses, so that one more can be opened."""
        for path, store in cls._open.copy().items():
            if len(cls._open) < MOST_OPEN:
                return
            if store.may_close and store.pid == os.getpid():
                cls._unused.add(cls._open.pop(path))
                store.close()

    def used_by(self, journal: StoreUser) -> Store:
        """This store, which stays open while the run of ``journal`` may write; a new one if this
        was closed. Raises JournalError."""
        with self._lock:
            if self not in self._unused:
                self.journals.add(journal)
                return self
        return Store.at(self.path).used_by(journal)

    def users(self) -> list[StoreUser]:
        """The journals that use this store now."""
        with self._lock:
            return [*self.journals]

    @property
    def is_used(self) -> bool:
        """Whether a run of this process may still write to the file."""
        return bool(self.unended) or self._has_writers

    @property
    def may_close(self) -> bool:
        """Whether the store can be closed without losing a row that could still be written."""
        if not os.path.lexists(self.path):
            # The file was removed, so no end of a run can be written any more.
            return not self._has_writers
        # A store whose file was replaced stays: closing it may remove the log of the other file.
        return not self.is_used and self.is_there

    @property
    def _has_writers(self) -> bool:
        """Whether a run that uses the store may still write."""
        return any(journal.may_write for journal in self.journals)

    @classmethod
    def close_all(cls) -> None:
        """Write all rows and close all files."""
        with cls._lock:
            for store in (*cls._open.values(), *cls._retired):
                # A forked child must not write the rows of its parent again.
                if store.pid == os.getpid():
                    store.close()
            cls._open.clear()
            cls._retired.clear()

    @property
    def is_there(self) -> bool:
        """Whether the file at the path is still the one that was opened, even if it was cut: it
        cannot be opened again before this process ends."""
        try:
            self.writer.check_place()
        except JournalError as error:
            return error.code == "journal.cut"
        return True

    @property
    def owners(self) -> Path:
        """The folder of the locks of processes."""
        return self.path.parent / "owners"

    def close(self) -> None:
        self.writer.close()
        self.owner.leave()

    def flush(self) -> None:
        self.writer.flush()

    def in_background(self, do: Callable[[], object]) -> None:
        """Call ``do``, which uses this journal, on a separate thread. If it fails, the next process
        tries again."""

        def tried() -> None:
            with contextlib.suppress(JournalError):
                do()

        if IN_BROWSER:
            return tried()
        threading.Thread(target=tried, name="agf-journal", daemon=True).start()

    def checkpoint(self) -> bool:
        """Move the log into the file and truncate the log. Returns whether that succeeded."""
        with contextlib.suppress(JournalError), self._connected() as (connection, _):
            busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy
        return False

    def with_room(self, do: Callable[[], T]) -> T:
        """The result of ``do()``, which writes. On a full disk, the room of the log and the reserve
        are freed first. Raises JournalError."""
        # The log is freed first, because it costs nothing. The reserve can be freed only once.
        for make_room in (self.checkpoint, lambda: free_reserve(self.path)):
            try:
                return do()
            except JournalError as error:
                if error.code != "journal.full":
                    raise
            make_room()
        return do()

    def write_now(self, statement: str, row: Sequence[Any]) -> int:
        """Commit one statement on a separate connection, and return the number of changed rows.
        Must not run on a loop.

        Raises JournalError.
        """
        with self.writing() as connection:
            changed = connection.execute(statement, row).rowcount
            connection.execute("COMMIT")
        return changed

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection for this thread with an open transaction, which is rolled back unless the
        block commits it. Raises JournalError."""
        with self._connected() as (connection, until):
            patiently(lambda: connection.execute("BEGIN IMMEDIATE"), until)
            yield connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for this thread that sees one state of the file, all earlier writes of this
        process included. Raises JournalError."""
        self.flush()
        with self._connected() as (connection, until):
            connection.execute("BEGIN")
            # BEGIN alone reads nothing. The first statement fixes the state that is seen.
            patiently(lambda: connection.execute("SELECT 1 FROM runs LIMIT 1").fetchone(), until)
            yield connection

    @contextlib.contextmanager
    def reading_run(self, num: int) -> Iterator[sqlite3.Connection]:
        """As `reading`, for the records of the run with the number ``num``. Raises JournalError also
        if the run has been deleted: without its records, it would look as if nothing had run."""
        with self.reading() as connection:
            self.refuse_deleted(connection, num)
            yield connection

    def refuse_deleted(self, connection: sqlite3.Connection, num: int) -> None:
        """Raise JournalError if the run with the number ``num`` has been deleted."""
        if num in self.beginning:
            return
        if not connection.execute("SELECT 1 FROM runs WHERE num=?", (num,)).fetchone():
            raise DeletedRun

    @contextlib.contextmanager
    def _connected(self) -> Iterator[tuple[sqlite3.Connection, float]]:
        """A separate connection, and the time until which it waits for other processes."""
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
    """Create the folder of the file, for this user only and ignored by git."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if folder.name == ".agf":
        with (
            contextlib.suppress(FileExistsError),
            (folder / ".gitignore").open("x", encoding="utf-8") as file,
        ):
            file.write("*\n")  # the mode "x" follows no link


atexit.register(Store.close_all)
