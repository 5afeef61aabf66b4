"""Stores the long texts of manifests once for all runs, chained by digests.

The messages of a context only grow, and each run refers to all messages with which it began. Stored
with every run, they would take quadratic space.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterable
from typing import Any

from .codec.type_checks import checker
from .database.store import Store


def keep_parts(store: Store, texts: Iterable[str]) -> bytes:
    """Store the new texts, and return the digest that stands for all ``texts``. Raises
    JournalError."""
    now, last = time.time(), b""
    rows = []
    for text in texts:
        before, last = last, part_digest(last, text)
        rows.append((last, before, text, now))
    with store.writing() as connection:
        # From the last text back: the parts before a part that is stored are stored, too.
        exists = "SELECT 1 FROM parts WHERE digest=?"
        while rows and connection.execute(exists, rows[-1][:1]).fetchone() is None:
            connection.execute("INSERT INTO parts VALUES (?, ?, ?, ?)", rows.pop())
        connection.execute("UPDATE parts SET used=? WHERE digest=?", (now, last))
        connection.execute("COMMIT")
    return last


def read_parts(connection: sqlite3.Connection, last: object) -> tuple[str, ...]:
    """The texts up to the part with the digest ``last``. A correct digest cannot lead back to
    itself."""
    texts: list[str] = []
    while last:
        sql = "SELECT before, text FROM parts WHERE digest=?"
        part: Any = connection.execute(sql, (last,)).fetchone()
        if not _is_part(part) or part_digest(*part) != last:
            return ()
        before, text = part
        texts.append(text)
        last = before
    return tuple(reversed(texts))


def part_digest(before: bytes, text: str) -> bytes:
    """The digest of ``text`` together with ``before``, the digest of the previous part (empty: it
    is the first), so that the last digest stands for the whole sequence."""
    return hashlib.sha256(before + text.encode()).digest()


_is_part = checker(tuple[bytes, str])
