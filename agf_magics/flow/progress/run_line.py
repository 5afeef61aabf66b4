"""`RunLine`, the line of a live or past run in a list of runs."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

STATUSES = ("ok", "error", "cancelled", "waiting", "running", "interrupted", "damaged")
"""The possible statuses of a run."""

STATUS_WORDS = (*STATUSES, "failed", "dropped")
"""The words by which a person selects runs: their statuses, and what views say of them."""


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
    input: str = ""
    """The begin of its input as JSON, without secrets, to be searched."""

    @property
    def look(self) -> str:
        """The status as views show it. A run that dropped elements is not simply ok."""
        return "dropped" if self.status == "ok" and self.dropped else self.status

    def is_said_to_be(self, word: str) -> bool:
        """Whether one of the `STATUS_WORDS` fits the run: ``failed`` means the status ``error``, and a
        run of any status may have ``dropped`` elements."""
        match word:
            case "failed":
                return self.status == "error"
            case "dropped":
                return self.dropped > 0
        return self.status == word
