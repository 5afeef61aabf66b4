"""Finds stale steps, which a new run with ``--reuse`` would run again, without running anything.

The engine evaluates the current definition with the input of the run. A call that ``--reuse`` would
take from an earlier run gets that result. Every other call counts as stale, and gets the result
that the run had, so that later steps can be compared, too. Steps that depend on a stale call are
stale as well, because the call may have another result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

from ...catalog import Registry, default
from ...engine.linking.linked import Linked, flow_at
from ...engine.run_options import RunOptions
from ...engine.threads.rights import refuse_inside, rights
from ...flow.progress.rows import Key, Row
from ...flow.steps import Compute, Invoke
from ...journal.calls.reuse import EarlierRun, ReadValue, Reuse
from ...journal.codec.encoding import PICKLED
from ...journal.database.errors import as_definition_errors
from ...journal.runs import changed_objects, records
from ...pictures.amounts import counted
from ...pictures.plain import html, untypeset
from ...pictures.row_words import shown_name
from ...settings.settings import current
from ...text.diagnostics import AgfError, StepError
from ...values.value import Value
from ..definitions.influence import Dependence, dependents
from ..launch.link_run import link_run
from ..past.align_steps import align
from ..past.named_run import find_ended
from ..past.past_run import PastRun, find_past_run
from ..past.run_again import find_registered, input_again
from ..run_internals import linked_flow, place_in_journal
from ..runs.run import Run, state_of
from ..runs.trace import Trace
from ..storage.edited_functions import edited_functions
from ..storage.reuse import latest_runs, reader_of_results
from ..storage.start_journal import connect_journal
from ..storage.stored_results import unpickle
from .offline import Bounded, run_offline
from .recorded_calls import OTHER_ARGUMENTS, Forecast, RecordedCalls
from .unread_results import NeedsUnpickling, UnreadForecast, UnreadResults

State = Literal["again", "depends", "reused", "evaluated", "unknown", ""]
"""``again``: at least one call of the step is made again. ``depends``: the step depends on a step
that runs again, and runs again unless that step has the same result. ``reused``: all its calls are
reused. ``evaluated``: the step makes no call, and may get another value, because it was edited or
reads what changed. ``unknown``: the forecast is impossible. Empty: nothing of the step changes, or it
does not run."""


NOW_A_MODEL = "a model answers it now"
"""Why a step is made again that a function answered in the run."""


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
    return find_stale(run, input, default(registry))


class Stale(Trace):
    """The steps of a definition, with what a new run that reuses results would do with each."""

    columns: ClassVar[tuple[str, ...]] = (
        *("step", "kind", "label"),
        *("state", "calls", "reused", "why"),
    )

    run_id: str
    """The run that was compared."""
    note: str
    """The reason why the forecast is incomplete; empty: it is complete."""
    is_edited: bool
    """Whether something was edited after the run; False: steps run again for other reasons only,
    such as a failure."""
    has_other_results: bool
    """Whether a function was edited, and yet nothing runs again: another run called it as it is now."""
    rows_of_run: Mapping[str, dict[str, Any]]
    """The rows of the steps that the run has, by the id that they have in the run."""

    @property
    def again(self) -> tuple[str, ...]:
        """The ids of the steps that would run again, or that depend on such a step."""
        return self._steps("state", "again", "depends")

    @property
    def unknown(self) -> tuple[str, ...]:
        """The ids of the steps for which no forecast is possible."""
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
        """One sentence about the whole forecast."""
        again = counted(len(self.again), "step") if self.again else "no step"
        retries = sum(row["is_retry"] for row in self) if self.is_edited else 0
        only = f", {retries:,} of them only to try a failure again" if retries else ""
        # Views have no row, and so no mark, for a step that only hands a value on.
        evaluated = [row for row in self if row["state"] == "evaluated" and row["is_listed"]]
        counts = {
            "without calls may get other values": evaluated,
            "new": self.new,
            "removed": self.removed,
            "not known": self.unknown,
        }
        parts = [f"{len(steps)} {name}" for name, steps in counts.items() if steps]
        if self.has_other_results:
            only = ": another run has the results of what was edited"
        return "; ".join(filter(None, (f"{again} would run again{only}", *parts, self.note)))

    def _repr_html_(self) -> str:
        return untypeset(f"<p>{html(self.summary)}</p>{super()._repr_html_()}")

    def __repr__(self) -> str:
        return f"{self.summary}\n{super().__repr__()}"


def find_stale(
    run: Run | PastRun | str,
    input: Mapping[str, Value] | None,
    registry: Registry,
    unpickles: bool = True,
    keeps_failures: bool = False,
) -> Stale:
    """`stale`, also for the notebook. Without ``unpickles`` it raises NeedsUnpickling where it
    would unpickle. With ``keeps_failures`` no call is made again only because it failed, if the run
    went on without it."""
    try:
        return _find_stale(run, input, registry, False, keeps_failures)
    except NeedsUnpickling:
        if not unpickles:
            raise
    return _find_stale(run, input, registry, True, keeps_failures)


def _find_stale(
    run: Run | PastRun | str,
    input: Mapping[str, Value] | None,
    registry: Registry,
    reads_objects: bool,
    keeps_failures: bool,
) -> Stale:
    """`find_stale`, which raises NeedsUnpickling if it needs an object and not ``reads_objects``."""
    run = find_ended(run, registry.flows)
    past = find_past_run(run.run_id)
    if isinstance(run, PastRun) and not reads_objects and run.order.packed.form in PICKLED:
        raise NeedsUnpickling
    is_live = isinstance(run, Run) and past.name not in registry.flows
    flow = run.flow if is_live else find_registered(past, registry)
    planned = link_run(flow, input_again(run, input), RunOptions(registry=registry), copies=True)
    state = state_of(planned)
    unread = None if reads_objects else UnreadResults(place_in_journal(past)[0].files)
    forecast, bounded = _forecast(past, planned, unread)
    forecast.keeps_failures = keeps_failures
    if isinstance(forecast, UnreadForecast):
        forecast.is_as_in_run = not input and _has_same_texts(past, state.linked)
    connect_journal(state, forecast)
    error = run_offline(
        state.linked,
        state.flow_input,
        forecast,
        emit=state.emit,
        limits=state.limits,
        secrets=state.secrets,
        grant=rights().grant,
    )
    if isinstance(error, NeedsUnpickling):
        raise error
    if unread is not None and unread.are_looked_at:
        raise NeedsUnpickling
    forecast.count_questions()
    table = _table(past, planned, forecast, error, bounded.note)
    runs_again = table.again or table.unknown or table.removed
    table.has_other_results = not runs_again and _edits_function(past, registry)
    table.is_edited |= table.has_other_results or _edits_text(past, registry)
    return table


def _has_same_texts(past: PastRun, linked: Linked) -> bool:
    """Whether no definition of the run was edited."""
    texts = [reached.flow.source.text for reached in linked.reachable]
    return texts == [text.source.text for text in past.order.flows]


def shows_edit(run: Run | PastRun, registry: Registry) -> bool:
    """Whether the definition of a run or a function that it called was edited since then. No value of
    the run is read, so this says nothing about edits of called flows, models and settings."""
    past = find_past_run(run.run_id)
    return _edits_text(past, registry) or _edits_function(past, registry)


def _edits_text(past: PastRun, registry: Registry) -> bool:
    flow = registry.flows.get(past.name)
    return flow is not None and _words(flow.source.text) != _words(past.order.flows[0].source.text)


def _words(text: str) -> list[tuple[int, list[str]]]:
    """The words of each line with its indentation; other spaces make no difference."""
    lines = [line for line in text.splitlines() if line.strip()]
    return [(len(line) - len(line.lstrip()), line.split()) for line in lines]


def _edits_function(past: PastRun, registry: Registry) -> bool:
    place = place_in_journal(past)
    assert place is not None, "it is a run of the journal"
    store, num = place
    with as_definition_errors(), store.reading() as connection:
        changed = changed_objects(connection, num)
    return any(edited_functions(past.order.functions, registry, changed))


def _forecast(
    past: PastRun, planned: Run, unread: UnreadResults | None
) -> tuple[Forecast, Bounded]:
    """The journal of the evaluation. Of all earlier runs together, only so many calls are read.
    ``unread``: reads the results if nothing may be unpickled; None: everything may be."""
    store, num = place_in_journal(past)
    bounded = Bounded()
    read, identities = reader_of_results(store, state_of(planned).flow_input.input)
    read_again: ReadValue = partial(
        unpickle, trust=False, files=store.files, identities=identities, learns=False
    )
    if unread is not None:
        read = read_again = unread.read
    with as_definition_errors():
        with store.reading() as connection:
            heads = latest_runs(store, planned.name)
            changed = {head.num: changed_objects(connection, head.num) for head in heads}
            changed_here = changed_objects(connection, num)
        calls = RecordedCalls(
            past.run_id,
            past.order.functions,
            Bounded().read(records(store, num)),  # a bound of its own, for this run
            read_again,
            past.status == "ok",
            changed_here,
        )
        last_runs = (
            (EarlierRun(head.run_id, changed[head.num]), bounded.read(records(store, head.num)))
            for head in heads
            if not bounded.note
        )
        results = Reuse("", last_runs, read, identities)
    most = current.settings.journal_value
    kind = Forecast if unread is None else UnreadForecast
    return kind(most, past.run_id, linked_flow(planned), results, calls), bounded


def _table(
    past: PastRun, planned: Run, forecast: Forecast, error: BaseException | None, note: str
) -> Stale:
    """The rows of the definition as it is now, then the rows of removed steps of the run."""
    aligned = align(list(past.progress.rows.values()), list(planned.progress.rows.values()))
    edited = _edited_expressions(planned, aligned)
    # If no call is made again, a run that failed fails here as it did: that is no early end.
    is_cut = error is not None and (bool(forecast.made_again) or past.status == "ok")
    rows, rows_of_run = _rows_now(planned, forecast, aligned, edited, is_cut)
    steps_of_run = [row for row in past.progress.rows.values() if _is_of_definition(row)]
    for row in steps_of_run:
        if row.id not in rows_of_run:
            rows.append(_table_row(row, "", "the definition no longer has it", "removed"))
            rows_of_run[row.id] = rows[-1]
    table = Stale(rows)
    table.run_id = past.run_id
    table.rows_of_run = rows_of_run
    ids = {row.id: None for row in steps_of_run}
    has_moved = [id for id in rows_of_run if id in ids] != list(ids)
    has_changes = bool(edited) or any(row["change"] for row in table)
    fails_now = is_cut and isinstance(error, StepError) and past.status == "ok"
    table.is_edited = forecast.shows_edit or has_moved or has_changes or fails_now
    cut = _words_of_end(error) if is_cut and table.unknown else ""
    table.note = "; ".join(filter(None, (note, cut)))
    return table


def _rows_now(
    planned: Run, forecast: Forecast, aligned: Mapping[Key, Row], edited: set[Key], is_cut: bool
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """The rows of the definition as it is now, and those that the run has by their ids in the run."""
    depend = dependents(linked_flow(planned), {*forecast.made_again, *edited})
    names = {row.key: shown_name(row) for row in planned.progress.rows.values()}
    rows = list[dict[str, Any]]()
    rows_of_run = dict[str, dict[str, Any]]()
    for row in planned.progress.rows.values():
        reason = _reason(depend.get(row.key), names, forecast, edited)
        state, why = _state(row, forecast, reason, is_cut)
        if row.key in edited:
            state, why = "evaluated", "its expression was edited"
        before = aligned.get(row.key)
        calls = forecast.made_again[row.key]
        if before is None and not _is_of_definition(row):
            _mark_step_of(row, rows, calls, why)
            continue
        change = "new" if before is None else ""
        rows.append(_table_row(row, state, why, change, calls, forecast.reused_calls[row.key]))
        rows[-1]["is_retry"] = bool(calls) and forecast.misses[row.key].is_retry
        if before is not None:
            rows_of_run[before.id] = rows[-1]
    return rows, rows_of_run


def _mark_step_of(part: Row, rows: list[dict[str, Any]], calls: int, why: str) -> None:
    """Mark the step of a definition to which ``part`` belongs: the run has no row of this part, so the
    step stands for its ``calls``."""
    step = next((row for row in reversed(rows) if row["key"] == part.key[:-1]), None)
    if calls and step is not None:
        why = why if step["change"] else NOW_A_MODEL
        step.update(state="again", why=why, calls=step["calls"] + calls)


def _words_of_end(error: BaseException | None) -> str:
    """Why the comparison ended early."""
    if isinstance(error, AgfError):
        return f"the comparison ended early: {error.diagnostic.message}"
    return f"the comparison ended early ({type(error).__name__})"


def _is_of_definition(row: Row) -> bool:
    """Whether the author wrote the step. The parts of a model's session come and go with who answers
    the step, a model or a function."""
    return not row.is_inner and row.turns is None


def _table_row(
    row: Row, state: State, why: str, change: str, calls: int = 0, reused: int = 0
) -> dict[str, Any]:
    return {
        "step": row.id,
        "kind": row.word,
        "name": row.name,
        "label": row.label,
        "state": state,
        "calls": calls,
        "reused": reused,
        "why": why,
        "change": change,
        "key": row.key,
        "is_retry": False,
        "is_listed": row.is_listed,
    }


def _edited_expressions(planned: Run, aligned: Mapping[Key, Row]) -> set[Key]:
    """The steps that only evaluate an expression, and another one than in the run. The steps of a
    session of a model are of no definition."""
    linked = linked_flow(planned)
    keys = set[Key]()
    for row in planned.progress.rows.values():
        before = aligned.get(row.key)
        if before is None or not isinstance(row.step, Compute):
            continue
        flow = flow_at(linked, row.key[:-1])
        is_of_text = flow is not None and flow.agent is None
        if is_of_text and _expression(row) != _expression(before):
            keys.add(row.key)
    return keys


_WORD = re.compile(r"""''[^']*''|'[^'\\]*'|"[^"\\]*"|[^\s'"]+|\S""")
"""A word, or a text in quotes, whose spaces are a part of it; inside single quotes, YAML doubles
them."""


def _expression(row: Row) -> list[str]:
    """The words of the expression of a step; spaces and line breaks between them make no
    difference."""
    return _WORD.findall(row.step.value.span.text) if isinstance(row.step, Compute) else []


def _reason(
    depends: Dependence | None, names: Mapping[Key, str], forecast: Forecast, edited: set[Key]
) -> str:
    """Why a step depends on a changed one; empty: it depends on none. ``edited``: the steps whose
    expression was edited."""
    if depends is None:
        return ""
    miss = forecast.misses.get(depends.changed)
    is_edit = depends.changed in edited or (miss is not None and miss.shows_edit)
    changed = f"{names[depends.changed]}, which {'changed' if is_edit else 'runs again'}"
    if depends.reads is None:
        return f"whether, how often or for what it runs depends on {changed}"
    if depends.reads == depends.changed or depends.reads not in names:
        return f"it reads {changed}"
    return f"it reads {names[depends.reads]}, which depends on {changed}"


def _state(row: Row, forecast: Forecast, reason: str, is_cut: bool) -> tuple[State, str]:
    """The forecast for a step, with its reason. ``reason``: why it depends on a changed step.
    ``is_cut``: whether the evaluation ended early."""
    key = row.key
    if forecast.made_again[key]:
        why = forecast.misses[key].why
        return "again", f"{why}: {reason}" if why == OTHER_ARGUMENTS and reason else why
    flow = flow_at(forecast.linked, key[:-1])
    if isinstance(row.step, Compute) and flow is not None and flow.agent is None:
        return ("evaluated", reason) if reason and (row.started or is_cut) else ("", "")
    is_flow = flow_at(forecast.linked, key) is not None and not forecast.reused_calls[key]
    if not isinstance(row.step, Invoke) or is_flow:
        return "", ""
    if reason:
        return ("depends" if row.started or is_cut else "unknown"), reason
    if is_cut and row.fatal and not forecast.reused_calls[key]:
        message = row.error.diagnostic.message if isinstance(row.error, AgfError) else row.error
        return "again", f"it fails now: {message}"
    if row.started:
        return "reused", ""
    return ("unknown", "the comparison did not reach it") if is_cut else ("", "")
