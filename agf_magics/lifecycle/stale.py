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
from ..engine.linked import Linked
from ..engine.run import run_offline
from ..flow.progress import Key, Row
from ..flow.steps import Invoke
from ..flow.values import Value
from ..journal.queries import records
from ..journal.records import Record
from ..journal.reuse import Reuse
from ..pictures.plain import counted, html
from ..text.diagnostics import AgfError
from .driving import live
from .forecast import LONGEST_EVALUATION, Bounded, Forecast, KnownResults, linked_at, read_last_runs
from .influence import dependents
from .input import RunOptions
from .launch import link_run
from .lookup import as_definition_errors, find_run, journal, refused, refused_running, unpickled
from .past_run import PastRun
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
        "step",
        "kind",
        "label",
        "state",
        "calls",
        "reused",
        "why",
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
        return tuple(row["step"] for row in self if row["state"] in ("again", "depends"))

    @property
    def unknown(self) -> tuple[str, ...]:
        """The ids of the steps of which it is not known."""
        return tuple(row["step"] for row in self if row["state"] == "unknown")

    @property
    def new(self) -> tuple[str, ...]:
        """The ids of the steps that the run does not have."""
        return tuple(row["step"] for row in self if row["change"] == "new")

    @property
    def removed(self) -> tuple[str, ...]:
        """The ids of the steps of the run that the definition no longer has."""
        return tuple(row["step"] for row in self if row["change"] == "removed")

    @property
    def summary(self) -> str:
        """One sentence about all of it."""
        parts = [
            f"{counted(len(self.again), 'step')} would run again"
            if self.again
            else "no step would run again",
            f"{len(self.new)} new" if self.new else "",
            f"{len(self.removed)} removed" if self.removed else "",
            f"{len(self.unknown)} not known" if self.unknown else "",
            self.note,
        ]
        return "; ".join(filter(None, parts))

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
    found = _ended(run)
    past = _past(found.run_id)
    flow = registry.flows.get(past.name) or (found.flow if isinstance(found, Run) else None)
    if flow is None:
        hint = "define it again: run the cell of its definition"
        raise refused("flow.unknown-flow", f"no flow {past.name!r} is registered", hint)
    made = link_run(flow, _given(found, past, input), RunOptions(registry=registry), copies=True)
    store, num = past.place
    with as_definition_errors():
        read = partial(unpickled, trust=False) if unpickles else _json_only
        journaled = Bounded().read(records(store, num))
        known = KnownResults(
            past.run_id, past.order.functions, journaled, read, past.status == "ok"
        )
        bounded = Bounded()
        reuse = Reuse("", read_last_runs(store, made, bounded), read)
    forecast = Forecast(current.settings.journal_value, past.run_id, made._linked, reuse, known)
    made.journal = forecast
    watch(made)
    error = run_offline(
        made._linked,
        made._given,
        forecast,
        emit=made.progress.apply,
        limits=made.limits,
        secrets=made.secrets,
        seconds=LONGEST_EVALUATION,
        grant=rights().grant,
        progress=made.progress,
    )
    if isinstance(error, NeedsUnpickling):
        raise error
    forecast.count_questions()
    return _table(past, made, forecast, error, bounded.note)


def _json_only(record: Record, run_id: str) -> Record:
    if record.form == "pickle":
        raise NeedsUnpickling
    return unpickled(record, run_id, trust=False)


def _ended(run: Run | PastRun | str) -> Run | PastRun:
    found = live.find(run) or _past(run) if isinstance(run, str) else run
    if found.status in ("running", "pending"):
        raise refused_running(found.run_id)
    return found


def _past(run_id: str) -> PastRun:
    with as_definition_errors():
        return PastRun(journal(), find_run(journal(), run_id))


def _given(found: Run | PastRun, past: PastRun, more: Mapping[str, Value] | None) -> Value:
    """The input of the run, with the fields of ``more``."""
    order, other = past.order, more or {}
    if isinstance(found, Run):
        return {**found.input, **other} if isinstance(found.input, dict) else found.input
    missing = [name for name in order.secret if name not in other]
    if missing:
        hint = f"give it again: {current.words.give.format(missing[0])} (in Python: input=…)"
        names = ", ".join(missing)
        raise refused(
            "journal.secret",
            f"run {past.run_id!r} needs {names}, which is secret and not in the journal",
            hint,
        )
    if order.unkept and not other:
        hint = "give it again: input=… in Python"
        raise refused(
            "journal.input",
            f"the input of run {past.run_id!r} is not in the journal: {order.unkept}",
            hint,
        )
    return {**order.input, **other} if isinstance(order.input, dict) else order.input


def _table(
    past: PastRun, made: Run, forecast: Forecast, error: BaseException | None, note: str
) -> Stale:
    """The rows of the definition as it is now, then the removed ones of the run."""
    aligned = align(list(past.progress.rows.values()), list(made.progress.rows.values()))
    depend = dependents(made._linked, forecast.made)
    stopped = error is not None and (bool(forecast.made) or past.status == "ok")
    rows = [
        _row(row, forecast, depend, stopped, row.key not in aligned)
        for row in made.progress.rows.values()
    ]
    ids = {row["key"]: row for row in rows}
    of_run = {before.id: ids[key] for key, before in aligned.items()}
    removed = [_removed(row) for row in past.progress.rows.values() if row.id not in of_run]
    for row in removed:
        of_run[row["step"]] = row
    table = Stale([*rows, *removed])
    table.run_id, table.rows_of_run = past.run_id, of_run
    table.is_edited = forecast.shows_edit or any(row["change"] for row in table)
    table.note = "; ".join(
        filter(None, (note, _why_stopped(error) if stopped and table.unknown else ""))
    )
    return table


def _row(
    row: Row, forecast: Forecast, depend: set[Key], stopped: bool, is_new: bool
) -> dict[str, Any]:
    state, why = _state(row, forecast, depend, stopped)
    return {
        "step": row.id,
        "kind": row.word,
        "label": row.label,
        "state": state,
        "calls": forecast.made[row.key],
        "reused": forecast.taken[row.key],
        "why": why,
        "change": "new" if is_new else "",
        "key": row.key,
    }


def _state(row: Row, forecast: Forecast, depend: set[Key], stopped: bool) -> tuple[State, str]:
    key = row.key
    if forecast.made[key]:
        return "again", forecast.misses[key].why
    if not isinstance(row.step, Invoke) or _calls_flow(forecast.linked, key):
        return "", ""
    if key in depend and (row.started or stopped):
        return "depends", "it depends on a step that runs again"
    if key in depend:
        return "unknown", "whether it runs depends on a step that runs again"
    if row.started:
        return "reused", ""
    return ("unknown", "the comparison did not reach it") if stopped else ("", "")


def _calls_flow(linked: Linked, key: Key) -> bool:
    return isinstance(linked_at(linked, key[:-1]).callees.get(key[-1]), Linked)


def _removed(row: Row) -> dict[str, Any]:
    return {
        "step": row.id,
        "kind": row.word,
        "label": row.label,
        "state": "",
        "calls": 0,
        "reused": 0,
        "why": "the definition no longer has it",
        "change": "removed",
        "key": row.key,
    }


def _why_stopped(error: BaseException | None) -> str:
    if isinstance(error, AgfError):
        return f"the comparison ended early: {error.diagnostic.message}"
    return f"the comparison ended early ({type(error).__name__})"


MOST_COMPARED = 2_000
"""Steps of a definition that are compared by their order; in a larger one a step is the one with
the same id."""


def align(before: Sequence[Row], now: Sequence[Row]) -> dict[Key, Row]:
    """For each step of ``now`` that is also in ``before``, by its key: the step there."""
    if [row.key for row in before] == [row.key for row in now] and _kinds(before) == _kinds(now):
        return {row.key: row for row in before}
    if max(len(before), len(now)) > MOST_COMPARED:
        known = {row.key: row for row in before}
        return {
            row.key: known[row.key]
            for row in now
            if row.key in known and known[row.key].word == row.word
        }
    found: dict[Key, Row] = {}
    matcher = SequenceMatcher(None, _names(before), _names(now), autojunk=False)
    for tag, start, end, first, last in matcher.get_opcodes():
        old, new = before[start:end], now[first:last]
        if tag == "equal" or (tag == "replace" and _kinds(old) == _kinds(new)):
            found.update(zip([row.key for row in new], old, strict=True))
    return found


def _names(rows: Sequence[Row]) -> list[tuple[int, str, str]]:
    return [(row.depth, row.word, row.label) for row in rows]


def _kinds(rows: Sequence[Row]) -> list[tuple[int, str]]:
    return [(row.depth, row.word) for row in rows]
