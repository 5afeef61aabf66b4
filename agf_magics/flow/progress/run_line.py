"""`RunLine`, the line of a live or past run in a list of runs."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

STATUSES = ("ok", "error", "cancelled", "waiting", "running", "interrupted", "damaged")
"""The possible statuses of a run."""


class RunLine(NamedTuple):
    """One run in a list of runs."""

    run_id: str
    name: str
    status: str
    started: float
    """Seconds since 1970."""
    seconds: float | None
    """The duration; None: the run has not ended."""
    note: str
    tokens: int | None = None
    """The tokens of all models; None: no model was asked."""
    cost: Decimal | None = None
    """US dollars; None: unknown."""
    open: Callable[[], Any] | None = None
    """Returns the run itself; None: the line has no run to open."""
    shown_in: str = ""
    """The cell that shows the run; empty: there is none."""
    dropped: int = 0
    """The number of its elements that failed and were dropped."""
    asks: bool = False
    """Whether a question of the run waits for an answer while its other steps may go on."""

    @property
    def look(self) -> str:
        """The status as views show it. A run that dropped elements is not simply ok, and a run that
        asks waits."""
        if self.status == "running" and self.asks:
            return "waiting"
        return "dropped" if self.status == "ok" and self.dropped else self.status
