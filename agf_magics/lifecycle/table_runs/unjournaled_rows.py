"""The rows of a table of which the journal has no outcome: it is off, its disk was full, or they have
not ended."""

from __future__ import annotations

from functools import cached_property

from ...engine.ended_rows import EndedRow, EndedRows
from ...flow.progress.progress import Failure, Progress
from ...text.diagnostics import StepError
from .table_row import NOT_RUN, NOT_STORED, FindInput, TableRow


class UnjournaledRows:
    """How the rows of one run ended, as far as this process knows."""

    def __init__(self, ended: EndedRows | None, progress: Progress) -> None:
        """``ended``: the rows that have ended in this process; None: it is a run of the journal.
        ``progress``: that of the run."""
        self._ended = ended
        self._progress = progress

    def status(self, place: int) -> str:
        """The status of the row at ``place``."""
        status = self._ended.status(place) if self._ended is not None else None
        if status is not None:
            return status
        if self._progress.status != "ok":
            return "failed" if place in self._failures else NOT_RUN
        # If the run ended well, all rows have run: this one could not even begin.
        return NOT_STORED if self._ended is None else "failed"

    def row(self, place: int, number: int, repeat: int, find_input: FindInput) -> TableRow:
        """The row at ``place``. The other parameters: see `TableRow`."""
        status = self.status(place)
        kept = self._ended.kept.get(place) if self._ended is not None else None
        is_lost = kept is None and status in ("ok", NOT_STORED)
        output, error, seconds, tokens, cost = kept or EndedRow(error=self._failures.get(place))
        return TableRow(
            number,
            repeat,
            status,
            find_input,
            held_output=output,
            is_lost=is_lost,
            error=error,
            seconds=seconds,
            tokens=tokens,
            cost=float(cost) if cost is not None else None,
        )

    @cached_property
    def _failures(self) -> dict[int, StepError]:
        """The first failures of rows, also of rows that could not even begin. A deeper path is that
        of an element that was dropped inside of a row."""
        failures = dict[int, StepError]()
        for failure in self._progress.failures:
            match failure:
                case Failure(at=(str(), int() as place), error=StepError() as error):
                    failures[place] = error
        return failures
