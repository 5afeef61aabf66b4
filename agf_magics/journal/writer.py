"""How lines get into the journal's file: the engine's loop commits them itself, a thread what would make it wait.

All that a turn of the loop has brought is one commit, so that sixteen calls that end together cost one, and each goes
on when its own line is durable. To hand a line to a thread and to hear of its end takes five times as long as the
commit (a commit writes into the system's memory; nothing is synced). What does wait is the thread's: the file while
another process holds it, moving the log into the file with its syncs, a disk on which a commit takes milliseconds, and
every line of a loop on the main thread, where an interrupt may raise anywhere. It also looks every few milliseconds
whether lines lie there because a call blocks their loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from .errors import JournalError, journal_error_of
from .file import BUSY, identity, index_of, is_busy, log_of

BEAT = 0.01
"""Seconds between two looks of the thread while lines are written."""

LULL = 50
"""Beats without a commit after which it sleeps until somebody writes."""

SLOW = 0.005
"""Seconds a commit may take on average and still be the loop's own."""

CHECK = 0.01
"""Seconds between two looks whether the file is still at its path: a look costs 3 µs, and a step has one commit."""

LOG = 4_000_000
"""Bytes of the log at which it is moved into the file."""


class PendingWrite(NamedTuple):
    """Something to be written, and who waits for it."""

    statement: str
    row: Sequence[Any]
    waits: asyncio.Future[None] | None = None
    failed: Callable[[JournalError], None] | None = None
    """Told, on whatever thread, when nobody waits."""


class Writer:
    """What is to be written into one file, in the order in which it was wished for."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """``connection`` is this one's alone from now on."""
        # The loops wait for nobody, and the thread looks after the log: a commit never syncs.
        connection.execute("PRAGMA busy_timeout=0")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.execute("PRAGMA journal_size_limit=0")  # then the log is as large as what is in it
        connection.execute("SELECT 1 FROM runs LIMIT 1").fetchone()  # then the log and its index are there
        self._path = path
        self._name = str(path)
        self._connection = connection
        self._pid = os.getpid()
        self._log = log_of(path)
        self._file = identity(path)
        self._checked = 0.0
        """When that was looked at last, by `time.perf_counter`."""
        self._files_beside = {one: identity(one) for one in (self._log, index_of(path))}
        """The log and its index, which belong to this file and to no other that is put in its place."""
        self._full = LOG
        """Bytes of the log at which it is looked after next."""
        self._moved = -1
        """Bytes of the log when all of it was moved into the file."""
        self._wishes: deque[PendingWrite] = deque()
        self._writing = threading.Lock()
        """Held while somebody commits."""
        self._due: set[asyncio.AbstractEventLoop] = set()
        """Loops that will commit in their next turn."""
        self._asked: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        """What the thread is asked for: to commit, and to tell; None: and to end."""
        self._rests = True
        self._closed = False
        self._commits = 0
        self._mean = 0.0
        """Seconds a commit takes."""
        self._main = threading.main_thread().ident
        self._thread = threading.Thread(target=self._serve, name="agf-journal", daemon=True)
        self._thread.start()

    def write(self, statement: str, row: Sequence[Any]) -> asyncio.Future[None]:
        """Has a result when it is durable, or a Trouble."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._wishes.append(PendingWrite(statement, row, done))
        self._soon(loop)
        return done

    def later(self, statement: str, row: Sequence[Any], failed: Callable[[JournalError], None]) -> None:
        """Durable before anything that is written after it. On a loop, or on any thread."""
        self._wishes.append(PendingWrite(statement, row, None, failed))
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # no loop runs on this thread
            self._rests = False
            self._asked.put(_nothing)
        else:
            self._soon(loop)

    def flush(self) -> None:
        """Wait until everything that was to be written is."""
        if threading.current_thread() is not self._thread and os.getpid() == self._pid:  # a fork has no such thread
            written = threading.Event()
            self._asked.put(written.set)
            written.wait(BUSY)

    def close(self) -> None:
        """Write what is still to be written, and give the file back."""
        self._asked.put(None)
        self._thread.join(10)

    def check_place(self) -> None:
        """Raise Trouble where the file was removed or replaced: what is written would go into a file without a name,
        and SQLite would read this file's log into the other one."""
        try:
            found = os.lstat(self._name)
        except OSError:
            raise JournalError("journal.unwritable", f"{self._path}: it was removed while the run went on") from None
        if (found.st_dev, found.st_ino) != self._file:
            self._set_aside()
            message = f"{self._path} was replaced by another file while this process had it open"
            raise JournalError("journal.replaced", message)

    def _set_aside(self) -> None:
        """Move the log of the file that was replaced away from the one that took its place."""
        for place, known in self._files_beside.items():
            if known is not None and identity(place) == known:
                with contextlib.suppress(OSError):
                    os.replace(place, f"{place}-of-replaced-{known[1]}")

    # --- on a loop ---

    def _soon(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._rests or threading.get_ident() == self._main:
            self._rests = False
            self._asked.put(_nothing)
        elif loop not in self._due:
            self._due.add(loop)
            loop.call_soon(self._turn, loop)

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Commit what this turn of the loop has brought, unless that would make it wait."""
        self._due.discard(loop)
        if self._mean < SLOW and os.getpid() == self._pid and self._writing.acquire(blocking=False):
            try:
                if self._closed or self._commit(loop):
                    return
            finally:
                self._writing.release()
        self._asked.put(_nothing)

    # --- on the thread ---

    def _serve(self) -> None:
        quiet, known, lay = 0, 0, None
        while True:
            try:
                done = self._asked.get(timeout=None if self._rests else BEAT)
            except Empty:
                first = _first(self._wishes)
                done = _nothing if first is not None and first is lay else None
                quiet, known, lay = quiet + 1 if known == self._commits else 0, self._commits, first
                self._rests = quiet > LULL
                self._rests = self._rests and not self._wishes  # whoever saw it awake has left nothing behind
            else:
                quiet = 0
                if done is None:
                    self._end()
                    return
            if done is not None:
                with self._writing:
                    self._commit()
                done()
            self._look_after_log()

    def _end(self) -> None:
        with self._writing:
            self._commit()
            self._closed = True
            self._connection.close()

    def _look_after_log(self) -> None:
        """Move the log into the file when it is long: nearly all of it while the loops go on, what they wrote meanwhile
        while they wait, so that it begins anew."""
        with contextlib.suppress(sqlite3.Error, OSError, JournalError):
            size = self._log.stat().st_size
            if size < self._full or size == self._moved:
                return
            self._full = size + LOG
            self.check_place()
            uri = f"{self._path.absolute().as_uri()}?mode=rw"  # nothing is made anew where it was removed
            with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as beside:
                beside.execute("PRAGMA wal_checkpoint(PASSIVE)")
            with self._writing:
                busy, pages, moved = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                if not busy and pages == moved:  # the next commit begins the log anew; until then it keeps its size
                    self._full, self._moved = LOG, size
                self._commit()

    # --- on either, while `_writing` is held ---

    def _commit(self, loop: asyncio.AbstractEventLoop | None = None) -> bool:
        """Commit what has queued and tell who waits; ``loop``: on it, and False where it would have to wait."""
        if not self._wishes:
            return True
        began = time.perf_counter()
        trouble = None
        try:
            if began - self._checked > CHECK:
                self._checked = began
                self.check_place()
            if not self._begin(patient=loop is None):
                return False
        except (sqlite3.Error, JournalError) as error:
            trouble = journal_error_of(self._path, error)
        batch = [self._wishes.popleft() for _ in range(len(self._wishes))]
        begun = trouble is None
        trouble = trouble or self._written(batch)
        if trouble is None or len(batch) == 1 or not begun:
            _tell(batch, trouble, loop)
        else:  # one of them may be at fault: a value of more than a gigabyte
            for wish in batch:
                _tell([wish], self._alone(wish), loop)
        self._commits += 1
        self._mean += (time.perf_counter() - began - self._mean) / 16
        return True

    def _begin(self, patient: bool) -> bool:
        """Begin to write; False where another process does and nobody has the patience."""
        execute = self._connection.execute
        try:
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

    def _written(self, batch: list[PendingWrite]) -> JournalError | None:
        connection = self._connection
        try:
            for statement, wishes in itertools.groupby(batch, _statement):
                connection.executemany(statement, [wish.row for wish in wishes])
            connection.execute("COMMIT")
        except Exception as error:  # whatever it is: who waits must be told, and the next ones be served
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            return journal_error_of(self._path, error)
        return None

    def _alone(self, wish: PendingWrite) -> JournalError | None:
        try:
            self._begin(patient=True)
        except sqlite3.Error as error:
            return journal_error_of(self._path, error)
        return self._written([wish])


def _nothing() -> None:
    """Nobody is to be told."""


def _statement(wish: PendingWrite) -> str:
    return wish.statement


def _first(wishes: deque[PendingWrite]) -> PendingWrite | None:
    try:
        return wishes[0]
    except IndexError:
        return None


def _tell(batch: list[PendingWrite], trouble: JournalError | None, here: asyncio.AbstractEventLoop | None) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for wish in batch:
        if wish.waits is not None:
            by_loop.setdefault(wish.waits.get_loop(), []).append(wish.waits)
        elif trouble is not None and wish.failed is not None:
            wish.failed(trouble)
    for loop, waiting in by_loop.items():
        if loop is here:
            _wake(waiting, trouble)
        else:
            with contextlib.suppress(RuntimeError):  # a loop that was closed waits for nothing
                loop.call_soon_threadsafe(_wake, waiting, trouble)


def _wake(waiting: list[asyncio.Future[None]], trouble: JournalError | None) -> None:
    for done in waiting:
        if done.done():
            continue
        if trouble is None:
            done.set_result(None)
        else:
            done.set_exception(trouble)
