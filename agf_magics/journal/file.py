"""Whether a file may be used as the journal, and how it is opened.

A journal arrives with whatever folder a person opens, so the file may be anybody's: a database of another program, a
link to one, a device. SQLite changes a database that it merely reads (it replays the log, rolls back what was cut), so
a file is checked by its first bytes before SQLite opens it, and what is not a journal of this package is never touched.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import struct
import time
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from .errors import JournalError

T = TypeVar("T")

FORMAT = 3
"""Grows when a file of an older version cannot be read any more. 3: every stored value has a checksum."""

RESERVE = 1 << 19
"""Bytes of the disk that are held back: on a full one, forgetting runs needs room in the log before it makes any."""

APPLICATION = 0x4147464A
"""SQLite's application id of a journal: the letters AGFJ."""

BUSY = 20.0
"""Seconds to wait for another process that holds the file."""

STEP = 0.1
"""Seconds that SQLite itself waits at a time: an interrupt is answered between two waits."""

TABLES = """
CREATE TABLE runs (
    num INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, name TEXT NOT NULL, language TEXT NOT NULL,
    started REAL NOT NULL, status TEXT NOT NULL, owner TEXT NOT NULL, taken INTEGER NOT NULL, ended REAL,
    tokens INTEGER, lost INTEGER NOT NULL, work TEXT NOT NULL, work_sign BLOB, form TEXT, output BLOB, shown TEXT,
    stores TEXT, error TEXT, sign BLOB, tree TEXT, head_crc INTEGER NOT NULL, state_crc INTEGER NOT NULL,
    work_crc INTEGER NOT NULL, end_crc INTEGER NOT NULL);
CREATE TABLE records (
    line INTEGER PRIMARY KEY, what TEXT NOT NULL, at TEXT NOT NULL, tries TEXT NOT NULL,
    kind TEXT NOT NULL, name TEXT NOT NULL, started REAL, ended REAL, given TEXT, whole INTEGER NOT NULL,
    form TEXT, value BLOB, shown TEXT, error TEXT, sign BLOB, digest BLOB, crc INTEGER NOT NULL);
"""

OLD_TABLES = (b"CREATE TABLE runs (", b"CREATE TABLE records (")
"""What the first page of a journal of format 1 or 2 contains: those had no application id."""

Identity = tuple[int, int]
"""Device and inode: which file it is, whatever its name."""


def identity(path: Path | str) -> Identity | None:
    """Which file is at ``path``, a link not followed; None where there is none."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def log_of(path: Path) -> Path:
    """SQLite's write-ahead log of the file at ``path``."""
    return Path(f"{path}-wal")


def index_of(path: Path) -> Path:
    """The index of that log, in shared memory."""
    return Path(f"{path}-shm")


def refuse_links(path: Path) -> None:
    """Raise Trouble where the journal, its folder or a file beside it is a symbolic link or not a plain file."""
    folders = (path.parent, path.parent / "owners")
    for place in (*folders, path, log_of(path), index_of(path), Path(f"{path}-journal")):
        try:
            mode = os.lstat(place).st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        if stat.S_ISLNK(mode):
            raise JournalError("journal.foreign", f"{place} is a symbolic link")
        if place not in folders and not stat.S_ISREG(mode):
            raise JournalError("journal.unwritable", f"{place} is not a plain file")


def check_header(path: Path) -> None:
    """Raise Trouble unless the file's first bytes are those of a journal, or it is empty.

    Never for a file that this process has open: closing a file gives back all locks that the process has on it.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        data = file.read(4096)
    if not data:
        return
    if len(data) < 100 or not data.startswith(b"SQLite format 3\0"):
        raise JournalError("journal.damaged", f"{path}: file is not a database")
    (version,), (application,) = struct.unpack(">i", data[60:64]), struct.unpack(">i", data[68:72])
    if application == 0 and version in (1, 2) and all(table in data for table in OLD_TABLES):
        application = APPLICATION
    _check_numbers(path, application, version)


def open_journal(path: Path) -> sqlite3.Connection:
    """A connection to the journal at ``path``, which is created where there is none or an empty file.

    Raises Trouble, sqlite3.Error, OSError.
    """
    until = time.monotonic() + BUSY
    connection = connect(path)
    try:
        patiently(lambda: connection.execute("PRAGMA synchronous=NORMAL"), until)
        if patiently(lambda: _is_empty(connection), until):
            patiently(lambda: _create(connection), until)
        patiently(lambda: check_format(connection, path), until)
        patiently(lambda: connection.execute("PRAGMA journal_mode=WAL"), until)
    except BaseException:
        connection.close()
        raise
    return connection


def create_file(path: Path) -> None:
    """Create an empty file for this user alone, unless there is one. A link is never followed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        os.close(os.open(path, flags, 0o600))
    except FileExistsError:
        return


def create_reserve(path: Path) -> None:
    """Take `RESERVE` bytes of the disk, which `free_reserve` gives back; none where there is no room for them."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    place = reserve_of(path)
    with contextlib.suppress(OSError):
        descriptor = os.open(place, flags, 0o600)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, RESERVE)
            else:
                os.write(descriptor, bytes(RESERVE))
        except OSError:
            place.unlink()
        finally:
            os.close(descriptor)


def free_reserve(path: Path) -> None:
    """Give the reserve back to the disk."""
    with contextlib.suppress(OSError):
        reserve_of(path).unlink()


def reserve_of(path: Path) -> Path:
    return Path(f"{path}-reserve")


def connect(path: Path) -> sqlite3.Connection:
    """A connection to a file that exists. Nothing in its schema may call functions of this process."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    # A generator that reads may be left half-way, and is closed on whatever thread collects it.
    connection = sqlite3.connect(uri, uri=True, timeout=STEP, isolation_level=None, check_same_thread=False)
    connection.text_factory = _text
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.create_function("agf_checksum", -1, checksum, deterministic=True)
    return connection


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raise Trouble unless the database is a journal of this format with the tables of a journal and nothing else."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    _check_numbers(path, application, version)
    found = frozenset(connection.execute("SELECT type, name, sql FROM sqlite_master LIMIT 20").fetchall())
    if found - _schema():
        raise JournalError("journal.foreign", f"{path} has tables that are not those of a journal")
    if found != _schema():
        raise JournalError("journal.damaged", f"{path}: its tables are missing")


def is_busy(error: sqlite3.OperationalError) -> bool:
    """Whether another process, or another connection of this one, holds the file."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def patiently(do: Callable[[], T], until: float) -> T:
    """``do()``, repeated until the time ``until`` (of `time.monotonic`) while the file is held. An interrupt gets
    through: SQLite's own wait would keep it for as long as it lasts."""
    while True:
        try:
            return do()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= until:
                raise
        time.sleep(0.01)


def checksum(*cells: Any) -> int:
    """A CRC-32 over the values of some cells, each with its type and its length."""
    found = 0
    for cell in cells:
        if isinstance(cell, str):
            raw, kind = cell.encode("utf-8", "surrogatepass"), "text"
        elif isinstance(cell, bytes):
            raw, kind = cell, "blob"
        else:
            raw, kind = repr(cell).encode("ascii"), type(cell).__name__
        found = zlib.crc32(raw, zlib.crc32(f"{kind} {len(raw)} ".encode("ascii"), found))
    return found


def _is_empty(connection: sqlite3.Connection) -> bool:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    return not tables and not application


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # so that forgetting needs no room for a copy of the rest
    connection.execute("BEGIN IMMEDIATE")
    try:
        if _is_empty(connection):  # else another process was first
            connection.execute(f"PRAGMA application_id={APPLICATION}")
            connection.execute(f"PRAGMA user_version={FORMAT}")
            for statement in filter(str.strip, TABLES.split(";")):
                connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check_numbers(path: Path, application: int, version: int) -> None:
    if application != APPLICATION:
        raise JournalError("journal.foreign", f"{path} is a database of another program")
    if version > FORMAT:
        raise JournalError("journal.newer", f"{path} was written by a newer version of agf-magics")
    if version < FORMAT:
        raise JournalError("journal.older", f"{path} was written by an older version of agf-magics")


@cache
def _schema() -> frozenset[tuple[Any, ...]]:
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(TABLES)
        return frozenset(connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall())
    finally:
        connection.close()


def _text(raw: bytes) -> Any:
    """A text as it is; what is not UTF-8 remains bytes, which no column of texts accepts."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
