"""The texts that the manifests of runs name: each is stored once, after the one before it.

The messages of a context only grow, and each run names all that it began with: stored with every
run, they would take the square of their number.
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
    """Store each text that is not there yet; returns the digest that names all of them. Raises
    JournalError."""
    now, last = time.time(), b""
    rows = []
    for text in texts:
        before, last = last, part_digest(last, text)
        rows.append((last, before, text, now))
    with store.writing() as connection:
        there = "SELECT 1 FROM parts WHERE digest=?"
        while rows and connection.execute(there, rows[-1][:1]).fetchone() is None:
            connection.execute("INSERT INTO parts VALUES (?, ?, ?, ?)", rows.pop())
        connection.execute("UPDATE parts SET used=? WHERE digest=?", (now, last))
        connection.execute("COMMIT")
    return last


def read_parts(connection: sqlite3.Connection, last: object) -> tuple[str, ...]:
    """The texts up to the part ``last``. A digest that is right cannot lead back to itself."""
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
    """The digest of a text chained to that of the part before it (empty: it is the first), so the
    last digest names the whole sequence."""
    return hashlib.sha256(before + text.encode()).digest()


_is_part = checker(tuple[bytes, str])
