"""The records of quick calls in a fan-out, written by the thread that made the calls.

A thread that finds all slots taken writes the records of the calls that have ended, and continues when they are
durable. So it makes many calls without the loop between them. The thread writes only the plain case, a result that is
JSON in a run without secrets. All others are left to the loop: failures, opaque values, results that must be awaited.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..catalog import Tool
from ..flow.values import Value, settle
from ..host.calls import Result
from ..journal.call_rows import Cells
from ..journal.recorder import Journal
from .element import Element
from .runner import clock


class ThreadRecords:
    """Writes the records of one fan-out's calls."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal

    def save(self, ended: Sequence[tuple[Element, Result]]) -> list[bool]:
        """Write the records of calls that have ended; for each whether it was written. Done when they are durable."""
        journal, zero = self.journal, time.time() - clock()
        if not journal.is_open:
            return [False] * len(ended)
        rows, saved = list[Cells](), list[tuple[Element, Value]]()
        for element, (ok, value) in ended:
            if not ok or element.record is None or element.began is None or element.interrupted:
                continue
            try:
                value = settle(value)
            except Exception:  # the loop finds it too, and the step fails
                continue
            row = journal.rows.plain(element.record, value, zero + element.began)
            if row is not None:
                rows.append(row)
                saved.append((element, value))
        if rows:
            journal.write_here(rows)
        for element, value in saved:
            element.saved = (value,)
        return [element.saved is not None for element, _ in ended]


def written_by_threads(journal: Journal | None, tool: Tool, is_secret: bool) -> ThreadRecords | None:
    """Who writes the records of a fan-out on its threads; None: the loop writes them, because a call may have been made
    before, or has a secret."""
    if journal is None or not journal.writes_on_threads or journal.earlier is not None or journal.reuse is not None:
        return None
    return ThreadRecords(journal) if not (tool.secret or is_secret) else None
