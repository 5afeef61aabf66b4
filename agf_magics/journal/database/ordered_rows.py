"""Passes the rows of one run to the writer in order, and holds them while a large value is stored.

Rows after a large value wait until it is stored in the background. So if the process is killed, the
journal never has a later result without an earlier one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

from .errors import JournalError
from .pending import PendingWrite, notify
from .writer import Writer

MOST_HELD = 64_000_000
"""The largest number of bytes of held rows before steps must wait. They are written in half a
second."""


class OrderedRows:
    """Takes the rows of a run, on any thread."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self._held: list[PendingWrite] = []
        self._size = 0
        self._lock = threading.Lock()
        self.is_holding = False
        """Whether rows are held because a large value is being stored."""

    @property
    def has_room(self) -> bool:
        """Whether a step may go on while its row is held."""
        return self.is_holding and self._size < MOST_HELD

    def hold(self) -> None:
        """Hold rows from now on, until `release`."""
        with self._lock:
            self.is_holding = True

    def release(self) -> None:
        """Write the held rows, because the large value is durable."""
        with self._lock:
            self.writer.add(self._take_held())

    def fail(self, error: JournalError) -> None:
        """Drop the held rows, because the large value cannot be stored."""
        with self._lock:
            held_rows = self._take_held()
        notify(held_rows, error, None)

    def write(
        self, statement: str, row: Sequence[Any], at_once: bool = False
    ) -> asyncio.Future[None]:
        """Write a row, and return the future that ends when it is durable (see `Writer.write`)."""
        if self.is_holding:
            loop = asyncio.get_running_loop()
            written = loop.create_future()
            if self._keep(PendingWrite(statement, (row,), written, loop, None)):
                return written
        return self.writer.write(statement, row, at_once)

    def write_all(
        self, rows: Sequence[tuple[str, Sequence[Any]]], failed: Callable[[JournalError], None]
    ) -> asyncio.Future[None]:
        """Write several rows, and return the future of the last one (see `Writer.write_all`)."""
        if not self.is_holding:
            return self.writer.write_all(rows, failed)
        for row in rows[:-1]:
            self.later(*row, failed)
        return self.write(*rows[-1])

    def go_on(
        self, row: tuple[str, Sequence[Any]], failed: Callable[[JournalError], None]
    ) -> asyncio.Future[None]:
        """Write a row as `later`, and return a future that has ended: the step need not wait."""
        self.later(*row, failed)
        written = asyncio.get_running_loop().create_future()
        written.set_result(None)
        return written

    def later(
        self, statement: str, row: Sequence[Any], failed: Callable[[JournalError], None]
    ) -> None:
        """Write a row without waiting. ``failed``: is called if it cannot be written."""
        if not self._keep(PendingWrite(statement, (row,), None, None, failed)):
            self.writer.later(statement, (row,), failed)

    def before_next(
        self, statement: str, row: Sequence[Any], failed: Callable[[JournalError], None]
    ) -> None:
        """Write a row together with the next one that is waited for (see `Writer.before_next`)."""
        if not self._keep(PendingWrite(statement, (row,), None, None, failed)):
            self.writer.before_next(statement, row, failed)

    def _keep(self, write: PendingWrite) -> bool:
        """Hold a row, if rows are held now. Returns whether it is held."""
        if not self.is_holding:
            return False
        with self._lock:
            if self.is_holding:
                self._held.append(write)
                cells = (cell for row in write.rows for cell in row)
                self._size += sum(len(cell) for cell in cells if isinstance(cell, str | bytes))
            return self.is_holding

    def _take_held(self) -> list[PendingWrite]:
        """Stop holding rows, and return the held ones. The caller has the lock."""
        held_rows, self._held, self._size, self.is_holding = self._held, [], 0, False
        return held_rows
