"""Forecasts the calls that a run from a step on makes again before the step: those whose results it
cannot reuse."""

from __future__ import annotations

from ...catalog import Registry
from ...flow.progress.rows import Row
from ...flow.step_path import is_within
from ..past.past_run import PastRun
from ..past.rerun import find_step
from ..past.results_before import steps_after
from ..run_internals import linked_flow
from ..runs.run import Run
from .stale import find_stale


def again_before(
    run: Run | PastRun, step: str, registry: Registry, unpickles: bool = True
) -> dict[str, str]:
    """The rows before ``step`` that `rerun` runs again, each with the reason, by the id of the row. Of
    a model's session it is the row of the agent. ``unpickles``: see `find_stale`."""
    rows = run.progress.rows
    key = find_step(rows, step, f"run {run.run_id!r}")
    after, visits = steps_after(linked_flow(run), key)
    stale = find_stale(run, None, registry, unpickles, keeps_failures=True)
    again: dict[str, str] = {}
    for row in list(rows.values()):
        forecast = stale.rows_of_run.get(row.id)
        if forecast is None or forecast["state"] not in ("again", "depends"):
            continue
        if any(is_within(row.key, outer) for outer in (key, *after, *visits)):
            continue
        again.setdefault(_shown(row, rows).id, forecast["why"])
    return again


def _shown(row: Row, rows: dict[tuple[str, ...], Row]) -> Row:
    return rows.get(row.key[:-1], row) if row.turns is not None else row
