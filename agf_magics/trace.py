"""What became of each step of a run, as a table."""

from __future__ import annotations

from typing import Any

from .draw.plain import duration, line
from .draw.values import table_html, table_text
from .engine.progress import Progress, Row
from .text.diagnostics import AgfError


def traced(progress: Progress) -> Trace:
    """One row a step, in the order of the definition."""
    return Trace(_row(row) for row in progress.rows.values())


class Trace(tuple[dict[str, Any], ...]):
    """The rows of a run's steps; ``to_pandas()`` gives a DataFrame."""

    def to_pandas(self) -> Any:
        """A pandas DataFrame with one row a step. Raises ImportError without pandas."""
        import pandas

        return pandas.DataFrame(list(self))

    def _repr_html_(self) -> str:
        return table_html(*self._table())

    def __repr__(self) -> str:
        return "\n".join(table_text(*self._table()))

    def _table(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        columns = ("step", "kind", "label", "status", "ok", "failed", "took", "error")
        rows = ({**row, "took": duration(row["seconds"]), "label": line(row["label"], 40)} for row in self)
        return columns, tuple(tuple("" if row[c] is None else str(row[c]) for c in columns) for row in rows)


def _row(row: Row) -> dict[str, Any]:
    return {
        "step": row.id,
        "kind": row.word,
        "label": row.label,
        "status": row.state,
        "started": row.started,
        "ok": row.finished,
        "failed": row.failed,
        "seconds": row.seconds,
        "error": str(row.error.diagnostic.message) if isinstance(row.error, AgfError) else None,
    }
