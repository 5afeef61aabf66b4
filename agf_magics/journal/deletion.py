"""Deletes runs from a journal, shrinks its file, and tells how large runs are.

A run consists of rows in the journal's file. A large value of a run is cut into pieces, which are
files beside the journal. A long text that many runs have in common, such as the source of a
definition, is a chain of rows in the table ``parts``: each row names the one before it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from .claims import claim
from .database.errors import JournalError
from .database.file import create_reserve
from .database.locks import alive
from .database.store import ROOM, Store
from .database.value_files import Freed
from .runs import RunHead

SLICE = 500
"""The number of rows that are deleted in one commit."""

PAGES = 1024
"""The number of pages that are released in one commit, if the disk has room for the log."""

UNUSED = 60.0
"""The seconds that a row of a common text stays without a run: a process stores it just before the
run that names it."""


def _forget_parts(store: Store) -> None:
    """Delete the rows of common texts that no run needs, directly or because a later row of its text
    continues them. Raises JournalError."""
    since = time.time() - UNUSED
    with store.writing() as connection:
        connection.execute("PRAGMA secure_delete=FAST")
        connection.execute(
            """DELETE FROM parts WHERE used<? AND digest NOT IN (WITH RECURSIVE named(digest) AS (
            SELECT part FROM runs WHERE part IS NOT NULL
            UNION SELECT digest FROM parts WHERE used>=?
            UNION SELECT before FROM parts JOIN named USING(digest)) SELECT digest FROM named)""",
            (since, since),
        )
        connection.execute("COMMIT")


def clean_files(store: Store) -> Freed:
    """Delete the files with pieces of large values that no run needs, and temporary files of processes
    that have ended; returns what was deleted. Raises JournalError."""
    if store.files is None:
        return Freed()
    # Meanwhile nobody can note that a run needs a file. A later note is followed by a check whether
    # the file exists.
    with store.writing() as connection:
        connection.execute("DELETE FROM files WHERE num NOT IN (SELECT num FROM runs)")
        rows = connection.execute("SELECT DISTINCT digest FROM files")
        needed = frozenset(digest for (digest,) in rows)
        freed = store.files.clean(needed, partial(alive, store.owners))
        connection.execute("COMMIT")
    return freed


def forget(store: Store, heads: Iterable[RunHead]) -> int:
    """Delete runs and their records, and return the number of deleted runs. A run that another
    process has resumed meanwhile stays. Raises JournalError.

    This must work on a full disk, where the log cannot grow much. So rows are deleted in slices,
    and free pages are released by `shrink` instead of being overwritten.
    """
    deleted = 0
    for head in heads:
        # The claim makes sure that no kernel resumes the run meanwhile. A run that a kernel has
        # resumed cannot be claimed. A damaged row belongs to nobody.
        if head.status != "damaged" and not store.with_room(partial(claim, store, head)):
            continue
        num = head.num
        # A damaged number has no rows, because its range belongs to another run.
        end = num + ROOM if num % ROOM == 0 else num
        while store.with_room(partial(_delete_slice, store, num, end)) == SLICE:
            pass
        deleted += 1
    store.with_room(partial(_forget_parts, store))
    store.with_room(partial(clean_files, store))
    return deleted


def _delete_slice(store: Store, num: int, end: int) -> int:
    """Delete a slice of a run's rows, and with the last slice the run; returns the number of
    rows."""
    with store.writing() as connection:
        # Deleted data must not stay readable in free pages of the file.
        connection.execute("PRAGMA secure_delete=FAST")
        rows = connection.execute(
            "SELECT line FROM records WHERE line>? AND line<? LIMIT ?", (num, end, SLICE)
        )
        lines = [line for (line,) in rows]
        if lines:
            connection.execute("DELETE FROM records WHERE line>? AND line<=?", (num, lines[-1]))
        if len(lines) < SLICE:
            connection.execute("DELETE FROM runs WHERE num=?", (num,))
            connection.execute("DELETE FROM large WHERE num=?", (num,))
            connection.execute("DELETE FROM files WHERE num=?", (num,))
        else:
            # If this process dies now, nobody may resume the rest of the run. So the run counts as
            # damaged and can be deleted again.
            connection.execute("UPDATE runs SET work='', head_crc=-1 WHERE num=?", (num,))
        connection.execute("COMMIT")
    return len(lines)


def shrink(store: Store) -> int:
    """Release unused pages of the file, and return its size in bytes. Raises JournalError."""
    pages, pages_left = PAGES, 1
    while pages_left:
        try:
            pages_left = store.with_room(partial(_release_pages, store, pages))
        except JournalError as error:
            pages //= 8
            if error.code != "journal.full" or not pages:
                raise
    store.checkpoint()
    create_reserve(store.path)
    return size_of_file(store.path)


def _release_pages(store: Store, pages: int) -> int:
    """Release some pages, and return the number of pages that are still free; 0 also if none could
    be released, so that `shrink` ends."""
    with store.writing() as connection:
        (free_before,) = connection.execute("PRAGMA freelist_count").fetchone()
        for _ in range(min(free_before, pages)):
            # With a larger number, sqlite3 would release only one page.
            connection.execute("PRAGMA incremental_vacuum(1)")
        (free_after,) = connection.execute("PRAGMA freelist_count").fetchone()
        connection.execute("COMMIT")
    return int(free_after) if free_after < free_before else 0


def size(store: Store) -> int:
    """The bytes of a journal with its large values."""
    return size_of_file(store.path) + (store.files.size if store.files is not None else 0)


def size_of_file(path: Path) -> int:
    return sum(file.stat().st_size for file in (path, Path(f"{path}-wal")) if file.exists())


def sizes(store: Store) -> dict[int, int]:
    """The approximate bytes of each run. The short cells of a record count 80. Raises
    JournalError."""
    sql = f"""SELECT r.num, length(r.work) + coalesce(length(r.output),
    0) + coalesce(length(r.stores), 0) + coalesce(
        (SELECT sum(80 + length(at) + coalesce(length(given), 0) + coalesce(length(value),
        0)) FROM records
         WHERE line > r.num AND line < r.num + {ROOM}), 0) FROM runs r"""
    with store.reading() as connection:
        return dict(connection.execute(sql).fetchall())


def files_of_runs(store: Store) -> dict[int, list[tuple[str, int]]]:
    """The digests and the sizes of the files with pieces of large values that each run needs. Raises
    JournalError."""
    files: dict[int, list[tuple[str, int]]] = {}
    with store.reading() as connection:
        for num, *file in connection.execute("SELECT num, digest, size FROM files"):
            files.setdefault(num, []).append((file[0], file[1]))
    return files
