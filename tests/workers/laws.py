"""What a run did, in a form in which a run on workers and a run without them can be compared: without times and
numbers."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import agf_magics as agf
from agf_magics.flow.progress import events as ev
from agf_magics.journal.database.store import Store
from agf_magics.journal.records.records import COLUMNS, Record
from agf_magics.journal.records.stored import read_records

ADDRESS = re.compile(r" at 0x[0-9a-f]+")

TIMES = frozenset({"line", "started", "ended", "sign"})
"""Columns that differ between two runs."""


def outcome(run: agf.Run) -> Any:
    error = (str(run.error), *cause_of(run.error)) if run.error is not None else None
    return run.status, repr(run.output), repr(dict(run.stores)), error


def cause_of(error: BaseException | None) -> tuple[str, str]:
    cause = error.__cause__ if error is not None else None
    return (type(cause).__name__, str(cause)) if cause is not None else ("", "")


def rows(run: agf.Run) -> Any:
    """The counters and the states of all steps. Which of several elements failed last depends on the moment."""
    names = ("started", "finished", "failed", "cancelled", "left", "skipped", "dropped", "retried", "earlier", "width",
             "state", "why", "printed", "many")  # fmt: skip
    return {
        name: [getattr(row, one) for one in names]
        + [repr(row.value), *([row.error is None] if row.many else [str(row.error), *cause_of(row.error)])]
        for name, row in run.steps.items()
    }


def failures(run: agf.Run) -> Any:
    found = [(one.at, str(one.error), *cause_of(one.error), repr(one.element)) for one in run.progress.failures]
    return run.progress.failed, sorted(found), sorted(str(one) for one in run.warnings), run.calls


def records(path: Path) -> Any:
    """The journal records of the only run in the file."""
    Store.at(path).flush()
    names = COLUMNS.split(", ")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found = connection.execute(f"SELECT {COLUMNS}, crc FROM records").fetchall()
    assert len({row[0] for row in found}) == len(found)
    return Counter(
        tuple(
            repr(cell) if name != "sign" else cell is None
            for name, cell in zip(names, row, strict=False)
            if name not in TIMES or name == "sign"
        )
        for row in found
    )


def calls(path: Path) -> list[Record]:
    """The calls of the only run in the file. A damaged record raises."""
    Store.at(path).flush()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found = list(read_records(connection.execute(f"SELECT {COLUMNS}, crc FROM records ORDER BY line").fetchall()))
    return [record for record in found if record.kind]


def told(events: list[Any]) -> Any:
    """The events of each path, in their order."""
    found: dict[Any, list[Any]] = {}
    for event in events:
        if type(event).__name__ == "Placed" or isinstance(event, ev.RunStarted):
            continue
        fields = event._asdict()
        fields.pop("when")
        at = fields.pop("at", ())
        if "error" in fields:
            fields["error"] = (str(fields["error"]), *cause_of(fields["error"]))
        found.setdefault(at, []).append((type(event).__name__, ADDRESS.sub("", repr(fields))))
    return found
