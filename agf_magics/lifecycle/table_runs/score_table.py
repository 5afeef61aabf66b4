"""Shows the summaries of all scores as a table, in a notebook and in a terminal."""

from __future__ import annotations

from ...pictures.text_tables import drop_empty_columns, table_html, table_text
from ...text.diagnostics import Diagnostic
from .scores import ScoreSummary


class Scores(dict[str, ScoreSummary]):
    """The summaries by the names of the scores."""

    note: str = ""
    """What the scores do not say; usually empty."""

    def _rows(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """The columns of the table, and a row for each score."""
        columns = ("score", "rows", "missing", "mean [95 %]", "median", "labels", "agreement")
        rows = tuple(
            (
                summary.name,
                f"{summary.rows:,}",
                f"{summary.missing:,}" if summary.missing else "",
                str(summary.mean) if summary.mean is not None else "",
                f"{summary.median:.3g}" if summary.median is not None else "",
                ", ".join(f"{label}: {n:,}" for label, n in list(summary.labels.items())[:10]),
                _share(summary.agreement, sum(summary.against.values())),
            )
            for summary in self.values()
        )
        return drop_empty_columns(columns, rows) if rows else (columns, rows)

    @property
    def faults(self) -> list[tuple[str, int, Diagnostic]]:
        """The rows whose score could not be computed: the score, the number of the row, the
        reason."""
        return [
            (summary.name, row, why) for summary in self.values() for row, why in summary.faults
        ]

    def _about(self) -> str:
        used = dict.fromkeys(
            str(summary.seed) for summary in self.values() if summary.mean is not None
        )
        seeds = ", ".join(used)
        faults = self.faults
        first = [f"{name}, row {row:,}: {why.message}" for name, row, why in faults[:3]]
        parts = [f"seed of the intervals: {seeds}" if seeds else "", self.note, *first]
        return "; ".join(filter(None, parts))

    def _repr_html_(self) -> str:
        from ...pictures.plain import html, untypeset

        return untypeset(table_html(*self._rows(), html(self._about())))

    def __repr__(self) -> str:
        return "\n".join(filter(None, [*table_text(*self._rows()), self._about()]))


def _share(agreement: float | None, of: int) -> str:
    """The agreement, with the number of rows that have something to agree with."""
    return f"{agreement:.3g} of {of:,}" if agreement is not None else ""
