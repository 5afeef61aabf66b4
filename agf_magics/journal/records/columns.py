"""Stores the columns that a person adds to the table of a run, such as scores and labels."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ...values.value import Value
from ..database.errors import JournalError
from ..database.store import Store

COLUMN = "column "
"""The beginning of the key of an added column in the table of large values. No digest begins so."""


def read_columns(store: Store, num: int) -> dict[str, dict[int, Value]]:
    """The columns that were added to the table of a run: for each name, the values by the place of
    the row. Raises JournalError."""
    sql = "SELECT substr(digest, ?), text FROM large WHERE num=? AND substr(digest, 1, ?)=?"
    with store.reading_run(num) as connection:
        cells = (len(COLUMN) + 1, num, len(COLUMN), COLUMN)
        columns = connection.execute(sql, cells).fetchall()
    return {name: _column(name, text) for name, text in columns}


def write_column(store: Store, num: int, name: str, values: Mapping[int, Value], new: bool) -> None:
    """Store values of an added column by the places of the rows. ``new``: whether they replace the
    column; otherwise values from other processes stay. A value None removes that of its row. Raises
    JournalError."""
    key = COLUMN + name
    with store.writing() as connection:
        store.refuse_deleted(connection, num)
        sql = "SELECT text FROM large WHERE num=? AND digest=?"
        row = None if new else connection.execute(sql, (num, key)).fetchone()
        merged = {**(_column(name, row[0]) if row is not None else {}), **values}
        text = json.dumps({place: value for place, value in merged.items() if value is not None})
        connection.execute("INSERT OR REPLACE INTO large VALUES (?, ?, ?)", (num, key, text))
        connection.execute("COMMIT")


def _column(name: str, text: str) -> dict[int, Value]:
    try:
        return {int(place): value for place, value in json.loads(text).items()}
    except (ValueError, AttributeError, RecursionError):
        raise JournalError("journal.damaged", f"the added column {name!r} cannot be read") from None
