"""Copies of reused results: the row of a fan-out's element has the value text of the earlier row,
under a new key.

The rows wait until the fan-out does something else. Then the writer gets them together, before any
row that follows. Nothing waits for them, because no call was made that a crash could forget. Many
rows are one statement, in which the cells that they share are written once: 1.4 µs a row instead of
1.9.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from marshal import dumps
from typing import Any
from zlib import crc32

from ..catalog import Tool
from ..flow.steps import Invoke
from ..flow.values import Value
from ..progress.events import StepPath
from ..serialization.codec import encode, weigh
from .recorder import Journal
from .reuse import Reuse

NO_RESULT = object()

ROWS = 32
"""The number of rows in one statement."""

SHARED, OWN = 4, 6
"""The number of cells that the rows of a statement share, and that each has of its own."""


def _add(count: int) -> str:
    """The statement that adds ``count`` records of a step: the cells that they share are first."""
    row = (
        "(?{}, 'finished', ?{}, ?1, ?2, ?3, ?4, ?4, ?{}, 1, 'json', ?{}, NULL, NULL, NULL, ?{}, "
        "?{})"
    )
    starts = range(SHARED + 1, SHARED + 1 + OWN * count, OWN)
    return (
        f"INSERT INTO records VALUES "
        f"{', '.join(row.format(*range(start, start + OWN)) for start in starts)}"
    )


ADD_ALONE, ADD_MANY = _add(1), _add(ROWS)


class Copies:
    """The reused results of the elements of one fan-out."""

    def __init__(
        self, journal: Journal, reuse: Reuse, step: Invoke, tool: Tool, path: StepPath, tries: str
    ) -> None:
        """``path``: that of the elements, without their numbers."""
        self.journal, self.tries = journal, tries
        self._take, self._most = reuse.take_json, journal.most
        self._before = f"{encode(path)[:-1]},"
        self._kind, self._name = step.kind, tool.name
        self._digest = journal.digests.of_json(step, tool)
        self._taken: list[tuple[int, str, str, bytes]] = []
        """Of each copy the element, its arguments and its result as JSON, and the digest of the
        call."""

    @property
    def is_possible(self) -> bool:
        """Whether results can be copied now."""
        return (
            self._digest is not None
            and not self.journal.rows.secret.active
            and self.journal.is_open
        )

    def take(self, i: int, given: Mapping[str, Value]) -> Value:
        """The next result of the same call, whose row is then copied; `NO_RESULT`: there is none
        that can be copied. Only while `is_possible`."""
        most = self._most
        if not 0 <= weigh(given) <= most:
            return NO_RESULT
        try:
            text = encode(given)
        except ValueError:  # a number of 5,000 digits
            return NO_RESULT
        digest = self._digest(text)  # type: ignore[misc]  # `is_possible`
        found = self._take(digest, most)
        if found is None:
            return NO_RESULT
        value, stored = found
        self._taken.append((i, text, stored, digest))
        return value

    def write(self) -> None:
        """Hand over the rows without waiting."""
        if not self._taken:
            return
        when, next_line, before = time.time(), self.journal.next_line, self._before
        tries, kind, name = shared = self.tries, self._kind, self._name
        cells: list[Any] = []
        for i, text, stored, digest in self._taken:
            line, place = next_line(), f"{before}{i}]"
            crc = crc32(
                dumps(
                    (
                        line,
                        "finished",
                        place,
                        tries,
                        kind,
                        name,
                        when,
                        when,
                        text,
                        1,
                        "json",
                        stored,
                        None,
                        None,
                        None,
                        digest,
                    ),
                    2,
                )
            )  # `row_crc`, without a call
            cells += (line, place, text, stored, digest, crc)
        count, self._taken = len(self._taken), []
        width, rest = OWN * ROWS, count // ROWS * ROWS * OWN
        journal, later_all = self.journal, self.journal.store.writer.later_all
        if rest:
            rows = [(*shared, when, *cells[at : at + width]) for at in range(0, rest, width)]
            later_all(ADD_MANY, rows, partial(journal.lose, count=ROWS))
        if rest < len(cells):
            alone = [(*shared, when, *cells[at : at + OWN]) for at in range(rest, len(cells), OWN)]
            later_all(ADD_ALONE, alone, journal.lose)
