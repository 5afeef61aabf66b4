"""`Writer`, which commits rows to the journal: on the engine's loop, or on a thread if that would
wait.

All rows of one turn of the loop are one commit, so that sixteen calls that end together cost one
commit, and each continues when its row is durable. A commit writes into the system's memory,
without a sync. To hand it to the thread would take twice as long for a linear run (180 µs a step
instead of 87). The thread commits while another process holds the file, for loops on the main
thread, where an interrupt may raise at any line, and for a loop that a call blocks. The thread also
moves the log into the file.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import operator
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from ...compat.browser import IN_BROWSER
from .errors import JournalError, journal_error_of
from .file import BUSY, is_busy
from .log_files import identity, index_of, log_of
from .pending import PendingWrite, notify

BEAT = 0.1
"""The seconds between two checks of the thread for rows that a blocked loop does not commit. A beat
of 0.01 s would cost 5 % of the CPU time of a journaled fan-out."""

LOG = 16_000_000
"""The number of bytes at which the log is moved into the file. With 4 MB, results of 1 MB take a
quarter more time; 64 MB is no faster. For small rows the number does not matter."""


STATEMENT = operator.itemgetter(0)
"""Returns the statement of a pair of statement and row."""


class Writer:
    """The queue of rows for one file, written in order."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """``connection`` belongs to this writer from now on."""
        # A loop must not wait, so such commits are left to the thread.
        connection.execute("PRAGMA busy_timeout=0")
        # The thread moves the log, so a commit never syncs. Without a thread SQLite moves it.
        if not IN_BROWSER:
            connection.execute("PRAGMA wal_autocheckpoint=0")
        # The log is as large as its content: `_move_log` decides by its size.
        connection.execute("PRAGMA journal_size_limit=0")
        # Creates the log and its index, whose identities are noted below.
        connection.execute("SELECT 1 FROM runs LIMIT 1").fetchone()
        self._path = path
        self._name = str(path)
        self._connection = connection
        self._pid = os.getpid()
        self._log = log_of(path)
        self._file = identity(path)
        self._log_files = {file: identity(file) for file in (self._log, index_of(path))}
        """The log and its index, which belong to this file and not to one that replaces it."""
        self._full = LOG
        """Bytes of the log at which it is moved next."""
        self._moved = -1
        """Bytes of the log when all of it had been moved."""
        self._queue: deque[PendingWrite] = deque()
        self._committing = threading.Lock()
        """Held while rows are committed."""
        self._due: set[asyncio.AbstractEventLoop] = set()
        """Loops that will commit in their next turn."""
        # Not a Queue or a Condition, because an interrupt could leave their locks locked.
        self._requests: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        """Requests to the thread: commit and call; None: commit and end."""
        self._sleeps = True
        """Whether the thread waits for a request, without a beat."""
        self._closed = False
        """Whether the thread has ended, so that rows are refused."""
        self._commits = 0
        """The number of commits."""
        self._checked = 0.0
        """When a commit looked at the log, by the monotonic clock."""
        self._main = threading.main_thread().ident
        self._thread = threading.Thread(target=self._serve, name="agf-journal", daemon=True)
        if not IN_BROWSER:
            self._thread.start()

    def write(
        self, statement: str, row: Sequence[Any], at_once: bool = False
    ) -> asyncio.Future[None]:
        """A future that ends when the row is durable, or with a JournalError. ``at_once``: whether
        to commit before the end of the turn, because no other row can come; default False."""
        loop = asyncio.get_running_loop()
        written = loop.create_future()
        # Takes half of the time of PendingWrite(…), and is done for each call.
        self._queue.append(tuple.__new__(PendingWrite, (statement, (row,), written, loop, None)))
        if at_once and not self._is_for_thread:
            self._turn(loop)
        elif loop not in self._due:
            self._schedule(loop)
        return written

    def write_all(
        self, rows: Sequence[tuple[str, Sequence[Any]]], failed: Callable[[JournalError], None]
    ) -> asyncio.Future[None]:
        """`write` for many rows, before the end of the turn. The future ends when all rows are
        durable, or with the JournalError of the last row. ``failed`` is called, on any thread, for
        each other row that cannot be written."""
        loop = asyncio.get_running_loop()
        written = loop.create_future()
        *before, (statement, last) = rows
        for same_statement, group in itertools.groupby(before, STATEMENT):
            same_rows = [row for _, row in group]
            self._queue.append(PendingWrite(same_statement, same_rows, None, None, failed))
        self._queue.append(PendingWrite(statement, (last,), written, loop, None))
        if self._is_for_thread:
            self._wake_thread()
        else:
            self._turn(loop)
        return written

    def later(
        self, statement: str, rows: Sequence[Sequence[Any]], failed: Callable[[JournalError], None]
    ) -> None:
        """Write rows, which must not change any more, before all later rows, without waiting. Any
        thread may call this."""
        self._queue.append(PendingWrite(statement, rows, None, None, failed))
        self._commit_soon()

    def before_next(
        self, statement: str, row: Sequence[Any], failed: Callable[[JournalError], None]
    ) -> None:
        """`later` for a row that matters only for later rows. It is committed with the next row, or
        by the thread within two beats. Any thread may call this."""
        self._queue.append(PendingWrite(statement, (row,), None, None, failed))
        # Checked after the row was added, because the thread sets `_sleeps` before it reads the
        # queue.
        if self._sleeps or IN_BROWSER:
            self._commit_soon()

    def add(self, writes: Sequence[PendingWrite]) -> None:
        """Write rows for which tasks already wait. Any thread may call this."""
        self._queue.extend(writes)
        self._commit_soon()

    def _commit_soon(self) -> None:
        """Let the loop of this thread commit at the end of its turn; without a loop, the thread."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no loop runs on this thread
            self._wake_thread()
        else:
            self._schedule(loop)

    def flush(self) -> None:
        """Wait until all rows so far are committed, at most `BUSY` seconds."""
        if IN_BROWSER:
            return self._wake_thread()
        # The thread cannot wait for itself, and a forked child has no such thread.
        cannot_wait = threading.current_thread() is self._thread or os.getpid() != self._pid
        if not cannot_wait and not self._closed:
            # An interrupt can leave an Event locked, for the thread too.
            written: SimpleQueue[None] = SimpleQueue()
            self._requests.put(lambda: written.put(None))
            until = time.monotonic() + BUSY
            # Wait in beats, because the thread may end meanwhile and not answer.
            while self._thread.is_alive() and time.monotonic() < until:
                with contextlib.suppress(Empty):
                    return written.get(timeout=BEAT)

    def close(self) -> None:
        """Commit all rows, and end the thread."""
        if IN_BROWSER:
            return None if self._closed else self._end()
        self._requests.put(None)
        return self._thread.join(10)

    def check_place(self, checks_log: bool = True) -> None:
        """Raise JournalError if the file or its log was removed, replaced or emptied: rows would go
        into a file without a name, and SQLite would apply this file's log to the other one.
        ``checks_log``: default True; False: only the file is looked at."""
        try:
            facts = os.lstat(self._name)
        except OSError:
            raise JournalError(
                "journal.unwritable", f"{self._path} was removed during the run"
            ) from None
        if (facts.st_dev, facts.st_ino) != self._file:
            # SQLite finds a log by its name: it would apply this one to the file that replaced
            # ours. It is moved and not deleted, because it has rows of this run.
            for place, log in self._log_files.items():
                if log is not None and identity(place) == log:
                    with contextlib.suppress(OSError):
                        os.replace(place, f"{place}-of-replaced-{log[1]}")
            message = f"{self._path} was replaced by another file while this process had it open"
            raise JournalError("journal.replaced", message)
        # A new connection would apply the index of the lost log to an empty one.
        if not facts.st_size or (checks_log and self._has_lost_log):
            message = f"a part of {self._path} was removed while this process had it open"
            raise JournalError("journal.cut", message)

    @property
    def _has_lost_log(self) -> bool:
        """Whether the log or its index was removed or replaced."""
        return any(
            log is not None and identity(place) != log for place, log in self._log_files.items()
        )

    # --- on a loop ---

    @property
    def _is_for_thread(self) -> bool:
        """Whether the thread must commit, because it sleeps and must beat again, or because the
        loop runs on the main thread."""
        return not IN_BROWSER and (self._sleeps or threading.get_ident() == self._main)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let ``loop`` commit at the end of its turn, or the thread if it must."""
        if self._is_for_thread:
            self._wake_thread()
        elif loop not in self._due:
            self._due.add(loop)
            # Committed at the end of the turn, so that all calls that end in this turn share a
            # commit.
            loop.call_soon(self._turn, loop)

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Commit the rows of this turn, unless the loop would have to wait."""
        self._due.discard(loop)
        # Never wait for the lock, which the thread holds while another process holds the file.
        if os.getpid() == self._pid and self._committing.acquire(blocking=False):
            try:
                if not self._closed and self._commit(loop):
                    return
            finally:
                self._committing.release()
        self._wake_thread()

    def _wake_thread(self) -> None:
        """Let the thread commit at once."""
        if IN_BROWSER and not self._closed:  # a browser has no other thread
            with self._committing:
                self._commit()
            return
        # Cleared before the request, so that the thread does not fall asleep in between.
        self._sleeps = False
        self._requests.put(_nothing)
        if self._closed:  # there is no thread
            with self._committing:
                self._refuse()

    # --- on the thread ---

    def _serve(self) -> None:
        """Commit what a loop leaves to the thread, until it is asked to end."""
        commits = 0
        first: PendingWrite | None = None
        while True:
            try:
                request = self._requests.get(timeout=None if self._sleeps else BEAT)
            except Empty:
                # The same row was first a beat ago, so a call blocks the loop that should commit
                # it.
                earlier_first = first
                first = _first(self._queue)
                request = _nothing if first is not None and first is earlier_first else None
                # Nothing was written for a beat. The queue is read after `_sleeps` is set, and code
                # that adds a row reads `_sleeps` after that, so that no row is left behind.
                self._sleeps = commits == self._commits
                self._sleeps &= not self._queue
                commits = self._commits
            else:
                if request is None:
                    self._end()
                    return
            if request is not None:
                with self._committing:
                    self._commit()
                request()
            self._move_log()

    def _end(self) -> None:
        """Commit what is in the queue, and close the connection."""
        with self._committing:
            self._commit()
            # From now on, added rows are refused at once.
            self._closed = True
            self._connection.close()
            # SQLite removes these files with the last connection.
            self._log_files = {}
            self._refuse()

    def _refuse(self) -> None:
        """Fail the rows that came after the end."""
        # A fixed count, because other threads may add rows meanwhile.
        batch = [self._queue.popleft() for _ in range(len(self._queue))]
        notify(batch, JournalError("journal.unwritable", f"{self._path} is closed"), None)

    def _move_log(self) -> None:
        """Move a long log into the file, most of it while the loops continue, the rest while they
        wait, so that the log starts again."""
        with contextlib.suppress(sqlite3.Error, OSError, JournalError):
            size = self._log.stat().st_size
            if size < self._full or size == self._moved:
                return
            self._full = size + LOG
            self.check_place()
            # A separate connection does not delay the commits. The mode `rw` does not create a
            # removed file again.
            uri = f"{self._path.absolute().as_uri()}?mode=rw"
            with contextlib.closing(
                sqlite3.connect(uri, uri=True, isolation_level=None)
            ) as second_connection:
                second_connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
            with self._committing:
                busy, pages, moved = self._connection.execute(
                    "PRAGMA wal_checkpoint(PASSIVE)"
                ).fetchone()
                # The next commit starts the log again; until then it keeps its size.
                if not busy and pages == moved:
                    self._full = LOG
                    self._moved = size
                # Commit the rows that waited for this.
                self._commit()

    # --- on either, while `_committing` is held ---

    def _commit(self, loop: asyncio.AbstractEventLoop | None = None) -> bool:
        """Commit the queue and wake the waiting tasks. ``loop``: the loop that commits; None: the
        thread. Returns False if a loop would have to wait."""
        if not self._queue:
            return True
        error, now = None, time.monotonic()
        try:
            # The log is not checked before each commit: that would take a tenth of the time, and if
            # the log is lost, earlier rows are lost anyway.
            checks_log = now - self._checked > BEAT
            self.check_place(checks_log)
            self._checked = now if checks_log else self._checked
            if not self._begin(patient=loop is None):
                return False
        except (sqlite3.Error, JournalError) as problem:
            error = journal_error_of(self._path, problem)
        batch = [self._queue.popleft() for _ in range(len(self._queue))]
        has_begun = error is None
        error = error or self._write_batch(batch)
        has_many_rows = len(batch) > 1 or len(batch[0].rows) > 1
        if error is None or not has_begun or not has_many_rows:
            notify(batch, error, loop)
        # A single row may be the cause, for example a value of more than a gigabyte. Only that row
        # must fail, so each is written alone.
        else:
            for write in batch:
                for row in write.rows:
                    alone = write._replace(rows=(row,))
                    notify([alone], self._write_alone(alone), loop)
        self._commits += 1
        return True

    def _begin(self, patient: bool) -> bool:
        """Start a transaction. False: another process writes, and this call is not ``patient``."""
        execute = self._connection.execute
        try:
            # IMMEDIATE, because a transaction that becomes a write later would fail instead of
            # waiting.
            execute("BEGIN IMMEDIATE")
            return True
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
        if not patient:
            return False
        execute(f"PRAGMA busy_timeout={BUSY * 1000:.0f}")
        try:
            execute("BEGIN IMMEDIATE")
        finally:
            execute("PRAGMA busy_timeout=0")
        return True

    def _write_batch(self, batch: list[PendingWrite]) -> JournalError | None:
        """Write rows in the open transaction, and end it. Returns the error of a failure, after which
        none of the rows is written."""
        connection = self._connection
        try:
            for statement, writes in itertools.groupby(batch, STATEMENT):
                rows = [row for write in writes for row in write.rows]
                # The end of a run changes its row only if this process still owns the run.
                changed = connection.executemany(statement, rows).rowcount
                if changed < len(rows):
                    message = f"{self._path}: the run was deleted or taken over while it ran"
                    raise JournalError("journal.gone", message)
            connection.execute("COMMIT")
        # Catch any error, because the tasks must be woken and the next rows written.
        except Exception as error:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            return journal_error_of(self._path, error)
        return None

    def _write_alone(self, write: PendingWrite) -> JournalError | None:
        """`_write_batch` for one row, in a transaction of its own."""
        try:
            self._begin(patient=True)
        except sqlite3.Error as error:
            return journal_error_of(self._path, error)
        return self._write_batch([write])


def _nothing() -> None:
    """Do nothing after a commit."""


def _first(queue: deque[PendingWrite]) -> PendingWrite | None:
    """The oldest rows in the queue; None: it is empty."""
    with contextlib.suppress(IndexError):
        return queue[0]
    return None
