"""Reads the large parts of arguments and stores, which a run writes once, by their digests."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping

from ..codec.type_checks import checker
from ..database.errors import JournalError
from .fields import Text
from .records import UNREADABLE

NO_LARGE: Mapping[str, str] = {}


def large_parts(
    connection: sqlite3.Connection, num: int, arguments: Text, before: Mapping[str, str] = NO_LARGE
) -> dict[str, str]:
    """The large parts of ``arguments``, arguments that are a list of pieces. ``before``: the parts of
    the previous record. Raises ValueError if a part is missing."""
    digests = json.loads(arguments or "")[1::2]
    return {digest: before.get(digest) or _large(connection, num, digest) for digest in digests}


def read_stores(
    connection: sqlite3.Connection, num: int, text: str | None
) -> tuple[str | None, tuple[str, ...]]:
    """The stores of a run as JSON, from the text that `CallRows.stores` returned, and the names of
    the stores that are previews. Raises JournalError."""
    if text is None or not text.startswith("["):
        return text, ()
    try:
        pieces = json.loads(text)
        previews = pieces.pop(0) if isinstance(pieces[0], list) else []
        if not _are_names(previews):
            raise ValueError
        pieces[1::2] = [_large(connection, num, digest) for digest in pieces[1::2]]
        return "".join(pieces), tuple(previews)
    except UNREADABLE:
        raise JournalError("journal.damaged", "a store of the run cannot be read") from None


_are_names = checker(list[str])


def _large(connection: sqlite3.Connection, num: int, digest: str) -> str:
    """A large part of the arguments of a run as JSON. Raises ValueError if it is missing or
    damaged."""
    sql = "SELECT text FROM large WHERE num=? AND digest=?"
    (text,) = connection.execute(sql, (num, digest)).fetchone() or (None,)
    if type(text) is not str or hashlib.sha256(text.encode()).hexdigest() != digest:
        raise ValueError
    return text
