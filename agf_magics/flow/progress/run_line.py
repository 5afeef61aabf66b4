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
    """Returns the run itself, for what a list shows of it. Only `%runs` opens the runs that it
    shows; None elsewhere."""
    shown_in: str = ""
    """The cell that shows it."""
