"""Stale steps: what a new run with ``--reuse`` would run again, found without running anything.

The engine evaluates the definition as it is now, with the input of the run. A call that ``--reuse``
would take from an earlier run gets that result. Every other call is counted, and gets the result
that the run had, so that the steps after it can be compared too. These are stale as well if they
depend on it, because the call may have another result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from functools import partial
from typing import Any, ClassVar, Literal

from ..catalog import Registry, default
from ..engine.limits import refuse_inside, rights
from ..engine.linked import flow_at
from ..flow.rows import Key, Row
from ..flow.steps import Invoke
from ..flow.values import Value
from ..journal.queries import records
from ..journal.records import Record
from ..journal.reuse import Reuse
from ..pictures.plain import counted, html
from ..text.diagnostics import AgfError
from .forecast import Forecast, RecordedCalls
from .influence import dependents
from .input import RunOptions
from .launch import link_run
from .lookup import (
    as_definition_errors,
    find_registered,
    latest_runs,
    unpickled,
)
from .offline import Bounded, run_offline
from .past_run import PastRun, find_ended, find_past_run, input_again
from .persistence import watch
from .run import Run, Trace
from .settings import current

State = Literal["again", "depends", "reused", "unknown", ""]
"""``again``: at least one of its calls is made again. ``depends``: it depends on a step that runs
again, and so runs again unless that has the same result. ``reused``: its calls are reused.
``unknown``: it cannot be known. Empty: it makes no call, or does not run."""


def stale(
    run: Run | PastRun | str,
    *,
    input: Mapping[str, Value] | None = None,
    registry: Registry | None = None,
) -> Stale:
    """Return which steps of a run a new run with ``reuse=True`` would run again. Nothing is called.

    The definition and the functions are those of now, the input is that of the run. ``.again`` of
    the table has the ids of the steps that would run again.

    Parameters:

    - ``run``: a `Run` or `PastRun` that has ended, or the id of one or its beginning. Required.
    - ``input``: a mapping with fields of the input that replace those of the run, or that the
      journal does not contain (secrets). Default None: the same input.
    - ``registry``: the `Registry` to look names up in. Default None: the registry of this process.

    Raises DefinitionError if the run is not in the journal or is running, if its flow is no longer
    registered, and for each problem that a new run would have before its first step.
    """
    refuse_inside("stale")
    return find_stale(run, input, registry or default())


class Stale(Trace):
    """The steps of a definition, with what a new run that reuses results would do with each."""

    columns: ClassVar[tuple[str, ...]] = (
        *("step", "kind", "label"),
        *("state", "calls", "reused", "why"),
    )

    run_id: str
    """The run that was compared."""
    note: str
    """Why the answer is incomplete; empty if it is complete."""
    is_edited: bool
    """Whether something was edited after the run; False: steps run again for other reasons only,
    such as a failure."""
    rows_of_run: Mapping[str, dict[str, Any]]
    """The rows of the steps that the run has, by the id that they have in the run."""

    @property
    def again(self) -> tuple[str, ...]:
        """The ids of the steps that would run again, or that depend on one of these."""
        return self._steps("state", "again", "depends")

    @property
    def unknown(self) -> tuple[str, ...]:
        """The ids of the steps of which it is not known."""
        return self._steps("state", "unknown")

    @property
    def new(self) -> tuple[str, ...]:
        """The ids of the steps that the run does not have."""
        return self._steps("change", "new")

    @property
    def removed(self) -> tuple[str, ...]:
        """The ids of the steps of the run that the definition no longer has."""
        return self._steps("change", "removed")

    def _steps(self, key: str, *values: str) -> tuple[str, ...]:
        return tuple(row["step"] for row in self if row[key] in values)

    @property
    def summary(self) -> str:
        """One sentence about all of it."""
        again = counted(len(self.again), "step") if self.again else "no step"
        counts = {"new": self.new, "removed": self.removed, "not known": self.unknown}
        parts = [f"{len(steps)} {what}" for what, steps in counts.items() if steps]
        return "; ".join(filter(None, (f"{again} would run again", *parts, self.note)))

    def _repr_html_(self) -> str:
        return f"<p>{html(self.summary)}</p>{super()._repr_html_()}"

    def __repr__(self) -> str:
        return f"{self.summary}\n{super().__repr__()}"


class NeedsUnpickling(Exception):
    """A result to reuse is not JSON: reading it runs code of its class."""


def find_stale(
    run: Run | PastRun | str,
    input: Mapping[str, Value] | None,
    registry: Registry,
    unpickles: bool = True,
) -> Stale:
    """`stale`, also for the notebook. Without ``unpickles`` it raises NeedsUnpickling where it
    would unpickle."""
    run = find_ended(run)
    past = find_past_run(run.run_id)
    is_live = isinstance(run, Run) and past.name not in registry.flows
    flow = run.flow if is_live else find_registered(past.name, registry)
    now = link_run(flow, input_again(run, input), RunOptions(registry=registry), copies=True)
    forecast, bounded = _forecast(past, now, unpickles)
    now.journal = forecast
    watch(now)
    error = run_offline(
        now._linked,
        now._given,
        forecast,
        emit=now.progress.apply,
        limits=now.limits,
        secrets=now.secrets,
        grant=rights().grant,
        progress=now.progress,
    )
    if isinstance(error, NeedsUnpickling):
        raise error
    forecast.count_questions()
    return _table(past, now, forecast, error, bounded.note)


def _forecast(past: PastRun, now: Run, unpickles: bool) -> tuple[Forecast, Bounded]:
    """The journal of the evaluation. Of all earlier runs together, only so many calls are read."""
    (store, num), bounded = past._in_journal, Bounded()
    read = partial(unpickled, trust=False) if unpickles else _json_only
    with as_definition_errors():
        calls = RecordedCalls(
            past.run_id,
            past.order.functions,
            Bounded().read(records(store, num)),
            read,
            past.status == "ok",
        )
        last_runs = (
            (head.run_id, bounded.read(records(store, head.num)))
            for head in latest_runs(store, now)
            if not bounded.note
        )
        results = Reuse("", last_runs, read)
    most = current.settings.journal_value
    return Forecast(most, past.run_id, now._linked, results, calls), bounded


def _json_only(record: Record, run_id: str) -> Record:
    if record.form == "pickle":
        raise NeedsUnpickling
    return unpickled(record, run_id, trust=False)


def _table(
    past: PastRun, now: Run, forecast: Forecast, error: BaseException | None, note: str
) -> Stale:
    """The rows of the definition as it is now, then the removed ones of the run."""
    aligned = align(list(past.progress.rows.values()), list(now.progress.rows.values()))
    depend = dependents(now._linked, forecast.made)
    is_cut = error is not None and (bool(forecast.made) or past.status == "ok")
    rows, rows_of_run = [], dict[str, dict[str, Any]]()
    for row in now.progress.rows.values():
        state, why = _state(row, forecast, depend, is_cut)
        before = aligned.get(row.key)
        rows.append(_table_row(row, state, why, "new" if before is None else "", forecast))
        if before is not None:
            rows_of_run[before.id] = rows[-1]
    for row in past.progress.rows.values():
        if row.id not in rows_of_run:
            rows.append(_table_row(row, "", "the definition no longer has it", "removed"))
            rows_of_run[row.id] = rows[-1]
    table = Stale(rows)
    table.run_id, table.rows_of_run = past.run_id, rows_of_run
    table.is_edited = forecast.shows_edit or any(row["change"] for row in table)
    why = f" ({type(error).__name__})"
    if isinstance(error, AgfError):
        why = f": {error.diagnostic.message}"
    cut = f"the comparison ended early{why}" if is_cut and table.unknown else ""
    table.note = "; ".join(filter(None, (note, cut)))
    return table


def _table_row(
    row: Row, state: State, why: str, change: str, forecast: Forecast | None = None
) -> dict[str, Any]:
    return {
        "step": row.id,
        "kind": row.word,
        "label": row.label,
        "state": state,
        "calls": forecast.made[row.key] if forecast is not None else 0,
        "reused": forecast.taken[row.key] if forecast is not None else 0,
        "why": why,
        "change": change,
        "key": row.key,
    }


def _state(row: Row, forecast: Forecast, depend: set[Key], is_cut: bool) -> tuple[State, str]:
    key = row.key
    if forecast.made[key]:
        return "again", forecast.misses[key].why
    is_flow = flow_at(forecast.linked, key) is not None and not forecast.taken[key]
    if not isinstance(row.step, Invoke) or is_flow:
        return "", ""
    if key in depend and (row.started or is_cut):
        return "depends", "it depends on a step that runs again"
    if key in depend:
        return "unknown", "whether it runs depends on a step that runs again"
    if row.started:
        return "reused", ""
    return ("unknown", "the comparison did not reach it") if is_cut else ("", "")


MOST_COMPARED = 2_000
"""Steps of a definition that are compared by their order; in a larger one a step is the one with
the same id."""


def align(before: Sequence[Row], now: Sequence[Row]) -> dict[Key, Row]:
    """Which step of an earlier definition is which of the present one, although an edit moves the
    ids: for each step of ``now`` that is also in ``before``, by its key, the step there.

    Steps of equal kind and label, in the same order, are the same step. Between them, steps of one
    kind in equal number are edited ones; all others are new or removed.
    """
    if max(len(before), len(now)) > MOST_COMPARED:
        words = {row.key: row.word for row in now}
        return {row.key: row for row in before if words.get(row.key) == row.word}
    aligned: dict[Key, Row] = {}
    kinds = [[(row.depth, row.word) for row in rows] for rows in (before, now)]
    if kinds[0] == kinds[1] and [row.key for row in before] == [row.key for row in now]:
        return {row.key: row for row in before}
    names = [[(row.depth, row.word, row.label) for row in rows] for rows in (before, now)]
    matcher = SequenceMatcher(None, names[0], names[1], autojunk=False)
    for tag, start, end, first, last in matcher.get_opcodes():
        if tag == "equal" or (tag == "replace" and kinds[0][start:end] == kinds[1][first:last]):
            keys = (row.key for row in now[first:last])
            aligned.update(zip(keys, before[start:end], strict=True))
    return aligned
