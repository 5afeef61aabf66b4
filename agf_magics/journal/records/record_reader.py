"""Reads the records of a run: checks each row of the journal and converts it to a `Record`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Annotated, Any

from ..codec.signatures import row_crc
from ..codec.type_checks import checker
from ..database.errors import JournalError
from ..database.store import ROOM
from .failures import error_from
from .fields import Identifier, Moment, Raw, Text, is_path, is_stored
from .large_parts import large_parts
from .records import UNREADABLE, WITH_DIGEST, Record, RecordedArguments, StoredValue, check_tries

Row = tuple[Any, ...]
"""The cells of `COLUMNS`, and their checksum."""


def read_records(rows: sqlite3.Cursor, is_shown: bool = True) -> Iterator[Record]:
    """The records of ``rows``. ``is_shown``: whether the large parts of arguments are read, which
    only views need; default True. Raises JournalError for a damaged row."""
    row = None
    large: dict[str, str] = {}
    try:
        for row in rows:
            record = _read(row)
            text, whole, *_ = record.arguments
            if whole == 2 and is_shown:
                # Keep only the parts of the last record: shared parts are read once, and a long run
                # does not fill the memory.
                num = record.line - record.line % ROOM
                large = large_parts(rows.connection, num, text, large)
                record = record._replace(arguments=RecordedArguments(text, whole, large))
            yield record
    except (*UNREADABLE, sqlite3.OperationalError) as error:
        raise _damage(row, error) from None


def _damage(row: Row | None, error: Exception) -> Exception:
    """The error for a ``row`` that cannot be read."""
    if not isinstance(error, sqlite3.OperationalError):
        subject = f"row {row[0]}" if row is not None else "a row"
        return JournalError("journal.damaged", f"{subject} has changed since it was written")
    if hasattr(error, "sqlite_errorcode"):
        return error
    # This is Python's error, although SQLite raises the same class.
    return JournalError("journal.damaged", "a text of a row is not UTF-8")


_is_row = checker(
    tuple[
        int,
        Identifier,
        str,
        str,
        str,
        str,
        Moment | None,
        Moment | None,
        Text,
        Annotated[int, lambda whole: 0 <= whole <= WITH_DIGEST],
        Text,
        object,
        Text,
        Text,
        Raw,
        Raw,
    ]
)
"""The cells of `COLUMNS`."""


def _read(row: Row) -> Record:
    """One record. Raises ValueError or another of `UNREADABLE`."""
    cells = row[:-1]
    if row_crc(cells) != row[-1] or not _is_row(cells):
        raise ValueError
    (
        line,
        what,
        path_text,
        tries,
        kind,
        name,
        started,
        ended,
        arguments_text,
        whole,
        *later_cells,
    ) = cells
    form, value, shown, error, signature, digest = later_cells
    path = tuple(json.loads(path_text))
    # Only a failed call and a dropped element have an error.
    has_error = what in ("failed", "dropped")
    if not is_path(path) or not is_stored(form, value) or has_error != (error is not None):
        raise ValueError
    if tries:
        check_tries(tries)
    if has_error:
        error_from(error, ())
    arguments = RecordedArguments(arguments_text, whole)
    result = StoredValue(form, value, shown, signature)
    if whole == WITH_DIGEST:
        contents, _, preview = arguments_text.partition(" ")
        arguments = RecordedArguments(preview, 0, contents=contents)
    times = (started, ended)
    return Record(line, what, path, tries, kind, name, *times, arguments, result, error, digest)
