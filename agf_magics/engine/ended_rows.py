"""`EndedRows`, how the rows of a run over a table ended, for the rows whose outcome the journal
lacks."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from ..text.diagnostics import StepError
from ..values.value import Value


class EndedRow(NamedTuple):
    """The outcome of one row."""

    output: Value = None
    """The output of the flow; None: the row failed."""
    error: StepError | None = None
    seconds: float | None = None
    tokens: int | None = None
    """The tokens of the row's models; None: no model was asked."""
    cost: Decimal | None = None
    """US dollars; None: unknown, or no model was asked."""


class EndedRows:
    """The rows of one run that have ended. Only the engine's loop adds one."""

    def __init__(self) -> None:
        self._statuses = bytearray()
        self.kept: dict[int, EndedRow] = {}
        """The outcomes that the journal does not get, by place: the run has none, or its disk is
        full."""

    def add(self, place: int, row: EndedRow, keeps: bool) -> None:
        """Note that the row at ``place`` has ended. ``keeps``: whether its outcome stays in
        memory."""
        missing = place + 1 - len(self._statuses)
        self._statuses.extend(bytes(max(0, missing)))
        self._statuses[place] = 2 if row.error is not None else 1
        if keeps:
            self.kept[place] = row

    def status(self, place: int) -> str | None:
        """``ok`` or ``failed``; None: the row at ``place`` has not ended."""
        code = self._statuses[place] if place < len(self._statuses) else 0
        return (None, "ok", "failed")[code]
