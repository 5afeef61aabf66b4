"""The file that runs are kept in: SQLite, one writer thread a process, any number of processes.

The writer commits whatever has queued, so that sixteen calls that end together are one commit, and each goes on when
its own line is durable: it outlives the process, however that ends (WAL, synchronous=NORMAL; a power cut may take the
last moments and damages nothing). What is read is read by connections of their own and never waits for a writer.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, NamedTuple

from .owners import Owner, alive

FORMAT = 1
"""Grows when a file of an older version cannot be read any more."""

BUSY = 20.0
"""Seconds that another process may hold the file while it commits."""

TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    num INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, name TEXT NOT NULL, language TEXT NOT NULL,
    status TEXT NOT NULL, started REAL NOT NULL, ended REAL, owner TEXT NOT NULL, taken INTEGER NOT NULL DEFAULT 0,
    work TEXT NOT NULL, crc INTEGER NOT NULL, form TEXT, output BLOB, shown TEXT, stores TEXT, error TEXT, sign BLOB,
    tree TEXT);
CREATE TABLE IF NOT EXISTS records (
    run INTEGER NOT NULL, seq INTEGER NOT NULL, what TEXT NOT NULL, at TEXT NOT NULL, tries TEXT NOT NULL,
    kind TEXT NOT NULL, name TEXT NOT NULL, started REAL, ended REAL, given TEXT, whole INTEGER NOT NULL,
    form TEXT, value BLOB, shown TEXT, error TEXT, sign BLOB, digest TEXT, crc INTEGER NOT NULL,
    PRIMARY KEY (run, seq)) WITHOUT ROWID;
"""

ADD = f"INSERT INTO records VALUES ({', '.join('?' * 18)})"


class Trouble(Exception):
    """The file cannot be used; ``code`` is the diagnostic's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Wish(NamedTuple):
    """Something to be written, and who waits for it."""

    statement: str
    row: Sequence[Any] | Callable[[], Sequence[Any]]
    """A callable is called by the writer: what can be made off the loop is made there."""
    waits: asyncio.Future[None] | None = None
    failed: Callable[[Trouble], None] | None = None
    """Told, on the writer's thread, when nobody waits."""
    done: Callable[[], object] | None = None
    """Called, on the writer's thread, when it was written or could not be."""


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
            self._writing = sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)
            try:
                _prepare(self._writing, path)
                self.owner = Owner(self.owners)
            except BaseException:
                self._writing.close()
                raise
        self._wishes: SimpleQueue[Wish | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="agf-journal", daemon=True)
        self._thread.start()

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
        self._wishes.put(None)
        self._thread.join(10)
        self.owner.leave()

    # --- writing ---

    async def write(self, statement: str, row: Sequence[Any] | Callable[[], Sequence[Any]]) -> None:
        """Go on when it is durable. Raises Trouble."""
        done = asyncio.get_running_loop().create_future()
        self._wishes.put(Wish(statement, row, done))
        await done

    def write_later(
        self, statement: str, row: Sequence[Any] | Callable[[], Sequence[Any]], failed: Callable[[Trouble], None]
    ) -> None:
        """Durable before anything that is written after it."""
        self._wishes.put(Wish(statement, row, None, failed))

    def flush(self) -> None:
        """Wait until everything that was to be written is."""
        if threading.current_thread() is not self._thread:
            written = threading.Event()
            self._wishes.put(Wish("SELECT 1", (), done=written.set))
            written.wait(BUSY)

    def write_now(self, statement: str, row: Sequence[Any]) -> int:
        """From a thread that is no loop's, on a connection of its own; how many rows it changed. Raises Trouble."""
        with self.reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            changed = connection.execute(statement, row).rowcount
            connection.execute("COMMIT")
        return changed

    def _serve(self) -> None:
        wishes = self._wishes
        while True:
            wish = wishes.get()
            batch: list[Wish] = []
            while wish is not None:
                batch.append(wish)
                try:
                    wish = wishes.get_nowait()
                except Empty:
                    break
            if batch:
                self._commit(batch)
                batch.clear()
            if wish is None:
                self._writing.close()
                return

    def _commit(self, batch: list[Wish]) -> None:
        trouble = self._try(batch)
        if trouble is None:
            _tell(batch, None)
            return
        if len(batch) > 1:  # one of them may be at fault: a value of more than a gigabyte
            for wish in batch:
                _tell([wish], self._try([wish]))
        else:
            _tell(batch, trouble)

    def _try(self, batch: list[Wish]) -> Trouble | None:
        execute = self._writing.execute
        try:
            with troubles(self.path):
                execute("BEGIN IMMEDIATE")
                for wish in batch:
                    row = wish.row
                    execute(wish.statement, row() if callable(row) else row)
                execute("COMMIT")
        except Exception as error:  # whatever it is: who waits must be told, and the next ones be served
            with contextlib.suppress(sqlite3.Error):
                execute("ROLLBACK")
            return error if isinstance(error, Trouble) else Trouble("journal.unwritable", f"{self.path}: {error!r}")
        return None

    # --- reading ---

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


def crc(*parts: str | bytes | None) -> int:
    """What tells a damaged row from a whole one."""
    found = 0
    for part in parts:
        found = zlib.crc32(part if isinstance(part, bytes) else (part or "\0").encode("utf-8", "surrogatepass"), found)
    return found


@contextlib.contextmanager
def troubles(path: Path) -> Iterator[None]:
    """Whatever is wrong with the file as a Trouble."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "") or ""
        raise _trouble(path, name, str(error)) from None
    except OSError as error:
        code = "journal.full" if error.errno in (28, 122, 27) else "journal.unwritable"
        raise Trouble(code, f"{path}: {error.strerror or error}") from None
    except ValueError as error:  # a text that is no UTF-8, a JSON that is none
        raise Trouble("journal.damaged", f"{path}: {error}") from None
    except MemoryError:
        raise Trouble("journal.full", f"{path}: out of memory") from None


def _trouble(path: Path, name: str, text: str) -> Trouble:
    for start, code in (("SQLITE_FULL", "journal.full"), ("SQLITE_IOERR", "journal.full"),
                        ("SQLITE_CORRUPT", "journal.damaged"), ("SQLITE_NOTADB", "journal.damaged")):  # fmt: skip
        if name.startswith(start):
            return Trouble(code, f"{path}: {text}")
    damaged = "no such table" in text or "no such column" in text
    return Trouble("journal.damaged" if damaged else "journal.unwritable", f"{path}: {text}")


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


def _tell(batch: list[Wish], trouble: Trouble | None) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for wish in batch:
        if wish.waits is not None:
            by_loop.setdefault(wish.waits.get_loop(), []).append(wish.waits)
        elif trouble is not None and wish.failed is not None:
            wish.failed(trouble)
    for loop, waiting in by_loop.items():
        with contextlib.suppress(RuntimeError):  # a loop that was closed waits for nothing
            loop.call_soon_threadsafe(_wake, waiting, trouble)
    for wish in batch:
        if wish.done is not None:
            wish.done()


def _wake(waiting: list[asyncio.Future[None]], trouble: Trouble | None) -> None:
    for done in waiting:
        if done.done():
            continue
        if trouble is None:
            done.set_result(None)
        else:
            done.set_exception(trouble)


atexit.register(Store.close_all)
