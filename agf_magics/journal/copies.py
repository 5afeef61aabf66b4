"""Copies of reused results: the row of a fan-out's element has the value text of the earlier row, under a new key.

The rows wait until the fan-out does something else. Then the writer gets them together, before any row that follows.
Nothing waits for them, because no call was made that a crash could forget.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..catalog import Tool
from ..flow.steps import Invoke
from ..flow.values import Value
from ..progress.events import StepPath
from ..serialization.codec import encode, to_show
from .recorder import Journal
from .reuse import Reuse
from .store import ADD_JSON

MOST = 1_000
"""The number of rows that wait."""


class Copies:
    """The reused results of the elements of one fan-out."""

    def __init__(self, journal: Journal, reuse: Reuse, step: Invoke, tool: Tool, path: StepPath, tries: str) -> None:
        """``path``: that of the elements, without their numbers."""
        self.journal, self.reuse, self.tries = journal, reuse, tries
        self._before = f"{encode(path)[:-1]},"
        self._kind, self._name = step.kind, tool.name
        self._digest = journal.digests.of_json(step, tool)
        self._rows: list[tuple[Any, ...]] = []

    def take(self, i: int, given: Mapping[str, Value]) -> tuple[Value] | None:
        """The next result of the same call, whose row is then copied; None: there is none that can be copied."""
        journal, rows = self.journal, self._rows
        if self._digest is None or journal.rows.secret.active or not journal.is_open:
            return None
        text, whole = to_show(given, journal.most)
        if not whole:
            return None
        digest = self._digest(text)
        found = self.reuse.take_json(digest, journal.most)
        if found is None:
            return None
        value, stored = found
        place = f"{self._before}{i}]"
        rows.append(journal.rows.json(place, self.tries, self._kind, self._name, None, text, True, stored, digest))
        if len(rows) >= MOST:
            self.write()
        return (value,)

    def write(self) -> None:
        """Hand over the rows without waiting."""
        if self._rows:
            self.journal.store.writer.later_all(ADD_JSON, self._rows, self.journal.lose)
            self._rows = []
