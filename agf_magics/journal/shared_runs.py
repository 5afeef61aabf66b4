"""Copies a run out of a journal as JSON, and pastes it into another journal.

The copy has the data for views and computations. It has no pickles, which only their writer may
load, no signatures, so that nobody can resume the run, and no digests, so that no other run can
reuse its results.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .codec.encoding import PICKLED
from .codec.json_texts import encode
from .codec.signatures import checksum, row_crc
from .database.store import ADD, ROOM, Store
from .manifest_parts import keep_parts
from .records.columns import read_columns, write_column
from .records.records import Record, decoded
from .runs import ENDED, RunRow, records

COPY_FORMAT = 2
"""The format of a copy; `paste` reads no other."""

PRIVATE = {"folder": "", "notebook": ""}
"""The keys of a manifest that name folders of a computer, with their values in a copy."""

_ADD_RUN = f"INSERT INTO runs VALUES ({', '.join('?' * 27)})"

CELLS = 13
"""The cells of a record, without its number, signature and digest."""

_HEAD = (
    "run_id",
    "name",
    "language",
    "started",
    "ended",
    "pauses",
    "tokens",
    "cost",
    "dropped",
    "lost",
)
"""The fields of a `RunHead` in a copy, in the order in which `paste` takes them."""
_END = ("form", "output", "shown", "stores", "error", "tree")
"""The fields of a `RunRow` in a copy, in the order of the columns. ``sign``, which a copy lacks,
stands before the last."""


def copied(store: Store, row: RunRow) -> Iterator[str]:
    """The text of a JSON object that `paste` reads, in parts. Raises JournalError."""
    head = row.head
    state = {name: getattr(head, name) for name in _HEAD}
    status = head.status if head.status in ENDED else "running"
    end = {name: getattr(row, name) for name in _END}
    if row.previews:
        # In the form of `CallRows.stores`: the names of the previews, and a single piece.
        end["stores"] = encode([list(row.previews), row.stores])
    if row.form in PICKLED:
        end |= {"form": "again", "output": None}
    work = encode(decoded(row.work) | PRIVATE)
    parts = {"format": COPY_FORMAT, **state, "status": status, **end, "work": work}
    # The scores and labels that a person gave to the rows are copied, too.
    columns = read_columns(store, head.num)
    yield (
        json.dumps({**parts, "parts": list(row.parts), "columns": columns})[:-1] + ', "records": ['
    )
    for number, record in enumerate(records(store, head.num)):
        yield (",\n" if number else "\n") + json.dumps(_cells(record))
    yield "]}"


def _cells(record: Record) -> list[Any]:
    """The cells of a record for the copy, with previews in place of pickles."""
    (arguments, whole, *_), (form, value, shown, *_) = record.arguments, record.result
    if whole == 2:
        arguments, whole = encode(record.arguments_shown), 1
    if form in PICKLED:
        form = "again"
    if form == "again":  # its digests mean nothing without the journal
        value = None
    return [
        *(record.what, encode(record.at), record.tries, record.kind, record.name),
        *(record.started, record.ended, arguments, whole, form, value, shown, record.error),
    ]


def paste(store: Store, copy: Mapping[str, Any]) -> str:
    """Write ``copy``, the JSON of `copied`, into an empty journal, and return the id of the run.
    Its content is checked when it is read. Raises JournalError if the run cannot be written, and
    one of `UNREADABLE` if ``copy`` is not a copied run.
    """
    if copy["format"] != COPY_FORMAT:
        raise ValueError(
            f"it has the format {copy['format']}, and this version reads {COPY_FORMAT}"
        )
    num = ROOM
    status = copy["status"]
    run_id, name, language, started, ended, times, *used = (copy[key] for key in _HEAD)
    if not isinstance(run_id, str):
        raise TypeError("a run's id is text")
    pauses = encode(times)
    end = tuple(copy[key] for key in _END)
    *before_sign, tree = end
    signed_end = (*before_sign, None, tree)
    end_crc = checksum(num, *signed_end)
    work_crc = checksum(num, copy["work"], None)
    head_crc = checksum(num, run_id, name, language, started, work_crc)
    state_crc = checksum(num, "", pauses, status, ended, *used, end_crc)
    part = keep_parts(store, map(str, copy["parts"])) or None
    run = (num, run_id, name, language, started, status, "", pauses, ended, *used)
    rows = []
    for line, cells in enumerate(copy["records"], num + 1):
        if len(cells) != CELLS:
            raise ValueError(f"a row of its records has {CELLS} cells, not {len(cells)}")
        row = (line, *cells, None, None)
        rows.append((*row, row_crc(row)))
    with store.writing() as connection:
        crcs = (head_crc, state_crc, work_crc, end_crc)
        connection.execute(_ADD_RUN, (*run, copy["work"], None, *signed_end, *crcs, part))
        connection.executemany(ADD, rows)
        connection.execute("COMMIT")
    for column, values in copy["columns"].items():
        write_column(store, num, column, {int(place): v for place, v in values.items()}, new=True)
    return run_id
