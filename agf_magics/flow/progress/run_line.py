"""A run as a list of runs has it: one line, live or from the journal."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

STATUSES = ("ok", "error", "cancelled", "waiting", "running", "interrupted", "damaged")
"""What a run may be."""


class RunLine(NamedTuple):
    """A run in a list."""

    run_id: str
    name: str
    status: str
    started: float
    """Seconds since 1970."""
    seconds: float | None
    """None: it has not ended."""
    note: str
    tokens: int | None = None
    """None: it asked no model."""
    cost: Decimal | None = None
    """US dollars; None: it is not known."""
    open: Callable[[], Any] | None = None
    """Returns the run itself, for what a list shows of it."""
    shown_in: str = ""
    """The cell that shows it."""
    dropped: int = 0
    """The number of its elements that failed and were dropped."""

    @property
    def look(self) -> str:
        """The status as views show it: a run that dropped elements is not just ok."""
        return "dropped" if self.status == "ok" and self.dropped else self.status
