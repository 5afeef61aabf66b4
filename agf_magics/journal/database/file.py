"""Checks, creates and opens the journal's file.

A journal comes with any folder that a person opens, so the file may be a database of another
program, a link to one, or a device. SQLite changes a database even when it only reads (it replays
the log), so the first bytes are checked before SQLite opens the file. A file that is not a journal
of this package is never touched.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import struct
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from ...compat.browser import IN_BROWSER
from ..codec.signatures import checksum
from .errors import JournalError

R = TypeVar("R")

FORMAT = 9
"""Grows with each incompatible change. 3: every stored value has a checksum. 4: the checksum of a
record includes the types of its cells; a run has its cost. 5: the messages of a context are
parts; an index finds the last runs of a name. 6: large arguments are stored once for each run. 7:
all checksums are of one kind. 8: large values are files beside the journal. 9: a run has
its pauses and the number of its dropped elements."""

RESERVE = 1 << 19
"""Bytes of the disk that are reserved: on a full disk, deleting runs needs room in the log before
it makes room."""

APPLICATION = 0x4147464A
"""SQLite's application id of a journal: the letters AGFJ."""

BUSY = 20.0
"""The seconds to wait while another process holds the file."""

VALUES = "values"
"""The folder of large values, beside the journal."""

STEP = 0.1
"""The seconds that SQLite waits at a time. Interrupts get through between two waits."""

TABLES = """
CREATE TABLE runs (
    num INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE, name TEXT NOT NULL, language TEXT NOT NULL,
    started REAL NOT NULL, status TEXT NOT NULL, owner TEXT NOT NULL, pauses TEXT NOT NULL,
    ended REAL,
    tokens INTEGER, cost TEXT, dropped INTEGER NOT NULL, lost INTEGER NOT NULL, work TEXT NOT NULL, work_sign BLOB,
    form TEXT, output BLOB,
    shown TEXT, stores TEXT, error TEXT, sign BLOB, tree TEXT, head_crc INTEGER NOT NULL,
    state_crc INTEGER NOT NULL,
    work_crc INTEGER NOT NULL, end_crc INTEGER NOT NULL, part BLOB);
CREATE INDEX runs_by_name ON runs (name, started);
CREATE TABLE records (
    line INTEGER PRIMARY KEY, what TEXT NOT NULL, at TEXT NOT NULL, tries TEXT NOT NULL,
    kind TEXT NOT NULL, name TEXT NOT NULL, started REAL, ended REAL, given TEXT,
    whole INTEGER NOT NULL,
    form TEXT, value BLOB, shown TEXT, error TEXT, sign BLOB, digest BLOB, crc INTEGER NOT NULL);
CREATE TABLE parts (
    digest BLOB PRIMARY KEY, before BLOB NOT NULL, text TEXT NOT NULL, used REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE large (
    num INTEGER NOT NULL, digest TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (num, digest)
) WITHOUT ROWID;
CREATE TABLE files (
    num INTEGER NOT NULL, digest TEXT NOT NULL, size INTEGER NOT NULL, PRIMARY KEY (num, digest)
) WITHOUT ROWID;
"""


def is_private(path: Path) -> bool:
    """Whether the file or folder belongs to the user, and others cannot write to it. On Windows the
    rights are inherited from the folders above, and a page has one user."""
    if sys.platform == "win32" or IN_BROWSER:
        return True
    facts = os.stat(path)
    return facts.st_uid == os.getuid() and not facts.st_mode & stat.S_IWOTH


def refuse_links(path: Path) -> None:
    """Raise JournalError if the journal, its folder or a file of SQLite is a symbolic link or not a
    plain file, or if the folder ``.agf`` is not the user's alone (decision A19)."""
    if path.parent.name == ".agf" and path.parent.exists() and not is_private(path.parent):
        why = "belongs to another user, or others can write to it"
        raise JournalError("journal.foreign", f"{path.parent} {why}")
    folders = (path.parent, path.parent / "owners", path.parent / VALUES)
    # SQLite opens the files next to the journal by name, and follows a link there.
    beside = [Path(f"{path}{end}") for end in ("-wal", "-shm", "-journal")]
    for place in (*folders, path, *beside):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            mode = os.lstat(place).st_mode
            if stat.S_ISLNK(mode):
                raise JournalError("journal.foreign", f"{place} is a symbolic link")
            if place not in folders and not stat.S_ISREG(mode):
                raise JournalError("journal.unwritable", f"{place} is not a plain file")


def check_header(path: Path) -> None:
    """Raise JournalError unless the file is empty or starts like a journal.

    Not for a file that this process has open: closing a file releases all locks of the process on
    it.
    """
    flags = (
        os.O_RDONLY
        | getattr(os, "O_NOFOLLOW", 0)
        | getattr(os, "O_NONBLOCK", 0)
        | getattr(os, "O_BINARY", 0)
    )
    # O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
    with os.fdopen(os.open(path, flags), "rb") as file:
        data = file.read(4096)
    if not data:
        return
    if len(data) < 100 or not data.startswith(b"SQLite format 3\0"):
        raise JournalError("journal.damaged", f"{path}: file is not a database")
    version, application = _number_at(data, 60), _number_at(data, 68)
    # Before the numbers are checked: another process may be between two writes of them.
    if _is_begun(data):
        return
    _check_numbers(path, application, version)


def _is_begun(data: bytes) -> bool:
    """Whether it is the first page of a journal that another process creates, or was killed while
    it created it: no write-ahead log, no schema, an incremental vacuum."""
    pages, schema, vacuum = (_number_at(data, offset) for offset in (28, 40, 64))
    has_no_log = data[18:20] == b"\1\1"
    has_no_numbers = not any((*data[60:64], *data[68:72]))
    return has_no_log and has_no_numbers and (pages, schema, vacuum) == (1, 0, 1)


def _number_at(data: bytes, offset: int) -> int:
    """The number at an offset of SQLite's header."""
    (number,) = struct.unpack(">i", data[offset : offset + 4])
    return int(number)


def open_journal(path: Path) -> sqlite3.Connection:
    """A connection to the journal at ``path``, which is created in an empty file.

    Raises JournalError, sqlite3.Error, OSError.
    """
    until = time.monotonic() + BUSY
    connection = connect(path)
    try:
        # A sync for each commit costs milliseconds and helps only against a power cut.
        patiently(lambda: connection.execute("PRAGMA synchronous=NORMAL"), until)
        if patiently(lambda: _is_empty(connection), until):
            patiently(lambda: _create(connection), until)
        patiently(lambda: check_format(connection, path), until)
        # This changes the file, so the format is checked before: a foreign file is never changed.
        patiently(lambda: connection.execute("PRAGMA journal_mode=WAL"), until)
    except BaseException:
        connection.close()
        raise
    return connection


def create_file(path: Path) -> None:
    """Create an empty file for this user only, unless there is one. Never follows a link."""
    # O_EXCL: SQLite would create the file readable for everybody.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, flags, 0o600))


def create_reserve(path: Path) -> None:
    """Reserve `RESERVE` bytes of the disk if there is room; `free_reserve` releases them."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    place = reserve_of(path)
    with contextlib.suppress(OSError):
        descriptor = os.open(place, flags, 0o600)
        try:
            # Bytes are really written, because a sparse file reserves nothing.
            os.write(descriptor, bytes(RESERVE))
        except OSError:
            place.unlink()
        finally:
            os.close(descriptor)


def free_reserve(path: Path) -> None:
    with contextlib.suppress(OSError):
        reserve_of(path).unlink()


def reserve_of(path: Path) -> Path:
    return Path(f"{path}-reserve")


def connect(path: Path) -> sqlite3.Connection:
    """A connection to an existing file. Its schema must not call functions of this process."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    # `isolation_level`: Python's own transactions are off, because they begin unasked.
    # `check_same_thread`: an unfinished generator is closed on the thread that collects it.
    connection = sqlite3.connect(
        uri, uri=True, timeout=STEP, isolation_level=None, check_same_thread=False
    )
    connection.text_factory = _text
    # The file may come from a stranger, and its views or triggers could call functions.
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.create_function("agf_checksum", -1, checksum, deterministic=True)
    return connection


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Raise JournalError unless the database has this format and exactly the tables of a
    journal."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    _check_numbers(path, application, version)
    # Compare the text of each table, not only its name: a stranger's column may be computed.
    schema = frozenset(
        connection.execute("SELECT type, name, sql FROM sqlite_master LIMIT 20").fetchall()
    )
    if schema - _schema():
        raise JournalError("journal.foreign", f"{path} has tables that do not belong to a journal")
    if schema != _schema():
        raise JournalError("journal.damaged", f"{path}: its tables are missing")


def is_busy(error: sqlite3.OperationalError) -> bool:
    """Whether the error means that another process or connection holds the file."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    )


def patiently(do: Callable[[], R], until: float) -> R:
    """The result of ``do()``, which is repeated while another process holds the file, until the
    time ``until`` (of `time.monotonic`). Unlike SQLite's own wait, this can be interrupted."""
    while True:
        try:
            return do()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= until:
                raise
        time.sleep(0.01)


def _is_empty(connection: sqlite3.Connection) -> bool:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    return not tables and not application


def _create(connection: sqlite3.Connection) -> None:
    # With this mode a deletion of runs needs no room for a copy of the rest. It must be set before
    # the first table is created.
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if _is_empty(connection):  # otherwise another process was first
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
    """``raw`` as a text. If it is not UTF-8 it stays bytes, which fail the checks of all text
    columns."""
    with contextlib.suppress(UnicodeDecodeError):
        return raw.decode()
    return raw
