"""Stale steps: what a new run with ``--reuse`` would run again, found without running anything.

The engine evaluates the definition as it is now, with the input of the run. A call that ``--reuse``
would take from an earlier run gets that result. Every other call is counted, and gets the result
that the run had, so that the steps after it can be compared too. These are stale as well if they
depend on it, because the call may have another result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple

from ..catalog import Agent, Policy, Registry, Tool, Transform, default
from ..engine import call as dry_run
from ..engine.limits import refuse_inside, rights
from ..engine.linked import Linked, Person, flow_at
from ..engine.requests import dry_reply
from ..flow.events import StepPath
from ..flow.progress import Key, Row, key_of
from ..flow.steps import Invoke
from ..flow.values import Value
from ..journal.call_rows import ReadValue, Reuse, ReusedResult, StartedCall
from ..journal.codec import DecodeError, encode
from ..journal.queries import records
from ..journal.records import CallKey, Record, StoredValue, around, error_from, value_of
from ..pictures.plain import counted, html
from ..text.diagnostics import AgfError
from .influence import dependents
from .input import RunOptions
from .launch import find_registered, link_run
from .lookup import (
    as_definition_errors,
    latest_runs,
    unpickled,
)
from .manifest import watch
from .moments import Bounded, OfflineJournal, refuse_call, run_offline
from .past_run import PastRun, find_ended, find_past_run, input_again
from .run import Run
from .settings import current
from .trace import Trace

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
    watch(now, forecast)
    error = run_offline(
        now._linked,
        now._given,
        forecast,
        emit=now.progress.apply,
        limits=now.limits,
        secrets=now.secrets,
        grant=rights().grant,
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
    if record.result.form == "pickle":
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
        change, calls = "new" if before is None else "", forecast.made[row.key]
        rows.append(_table_row(row, state, why, change, calls, forecast.taken[row.key]))
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
    row: Row, state: State, why: str, change: str, calls: int = 0, reused: int = 0
) -> dict[str, Any]:
    return {
        "step": row.id,
        "kind": row.word,
        "label": row.label,
        "state": state,
        "calls": calls,
        "reused": reused,
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
    if key in depend:
        if row.started or is_cut:
            return "depends", "it depends on a step that runs again"
        return "unknown", "whether it runs depends on a step that runs again"
    if row.started:
        return "reused", ""
    return ("unknown", "the comparison did not reach it") if is_cut else ("", "")


MOST_TEXT = 20_000
"""Characters of the arguments of a call that are remembered to say why it differs."""


class Miss(NamedTuple):
    """Why a call is made again."""

    why: str
    shows_edit: bool = False
    """Whether it would be reused if nothing had been edited since the run."""


class Forecast(OfflineJournal):
    """Gives each call the result that ``--reuse`` would take, and counts the calls without one."""

    def __init__(
        self, most: int, run_id: str, linked: Linked, results: Reuse, recorded: RecordedCalls
    ) -> None:
        super().__init__(most, run_id)
        self.linked, self._results, self._recorded = linked, results, recorded
        self.made, self.taken = Counter[Key](), Counter[Key]()
        self.misses: dict[Key, Miss] = {}
        """Why the first call of a step is made again."""
        self.shows_edit = False
        """Whether a call is made again because of an edit."""
        self._asked: dict[CallKey, None] = {}

    def answered(self, key: CallKey) -> Record | None:
        """A person is asked again; here the answer is that of the run."""
        self._asked[key] = None
        answer = self._recorded.answer(key.at)
        return answer or Record(0, "answered", key.at, result=StoredValue("json", encode(True)))

    async def fire_once(self, step: Invoke, callee: object, key: CallKey, given: Any) -> bool:
        self.find_reused(step, callee, self.start_call(step, callee, key, given, {}))
        return False

    def find_reused(self, step: Invoke, callee: object, call: StartedCall) -> ReusedResult:
        """The result of an identical call; else the call is made again, and gets a result for the
        steps after it. Raises the failure that it gets."""
        self._asked.pop(call.key, None)  # it was an approval: the call counts
        key = key_of(call.key.at)
        result = self._results.take(call.digest)
        if result is not None:
            self.taken[key] += 1
            return result
        self.made[key] += 1
        miss = self._recorded.why(callee, call, self._edited(callee))
        self.misses.setdefault(key, miss)
        self.shows_edit |= miss.shows_edit
        record = self._recorded.result(call)
        if record is None:
            self._recorded.is_complete = False
            return self._sample(step, callee, key), None
        if record.error is not None:
            raise error_from(record.error, ())
        return value_of(record), None

    def _edited(self, callee: object) -> str:
        """What was edited if a call with the same arguments has another digest now."""
        if not isinstance(callee, Tool | Agent | Transform | Policy):
            return "its model or its schema was edited"
        before, digest = (
            self._recorded.functions.get(callee.name),
            self.rows.digests.function(callee),
        )
        if before is None or digest is None:
            return "its function, its model or its schema was edited"
        now = digest.parts
        names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        edited = f"its function was edited: {', '.join(names)}"
        return edited if names else "its model or its schema was edited"

    def _sample(self, step: Invoke, callee: object, key: Key) -> Value:
        """A value of the type of the result, for a call without a result."""
        linked = flow_at(self.linked, key[:-1])
        if isinstance(callee, Tool | Agent) and linked is not None:
            return dry_run.result(step, callee, linked)
        if hasattr(callee, "request"):
            return dry_reply(step.asking.config, getattr(callee, "name", ""))
        refuse_call()

    def count_questions(self) -> None:
        """The persons whom a new run asks."""
        for at, _ in self._asked:
            key = key_of(at)
            linked = flow_at(self.linked, key[:-1])
            if linked is not None and isinstance(linked.callees.get(key[-1]), Person):
                self.made[key] += 1
                self.misses.setdefault(key, Miss("a person is asked again"))


class RecordedCalls:
    """The calls of the run: for one that is made again, a value of the kind that the steps after it
    expect."""

    def __init__(
        self,
        run_id: str,
        functions: Mapping[str, Mapping[str, str]],
        records: Iterable[Record],
        read: ReadValue,
        is_complete: bool,
    ) -> None:
        """``functions``: by the name of a callee, the digests of the parts of its function.
        ``is_complete``: whether the run made all of its calls, so that a call without a result
        shows an edit."""
        self._run_id, self._read, self.is_complete = run_id, read, is_complete
        self._is_ok = is_complete  # so each failure was handled: a plan's has a second place
        self.functions = functions
        self._by_arguments: dict[tuple[str, str], Record] = {}
        self._by_path: dict[tuple[StepPath, str], Record] = {}
        self._by_name: dict[str, Record] = {}
        self._failed: dict[StepPath, Record] = {}
        self._handled: set[StepPath] = set()
        """Elements and branches that were dropped, and steps whose failure led elsewhere."""
        self._answers: dict[StepPath, Record] = {}
        for record in records:
            match record.what:
                case "answered":
                    self._answers[record.at] = record
                case "failed":
                    self._failed[record.at] = record
                case "dropped" | "rescued":
                    self._handled.add(record.at)
                case "finished" if record.result.form != "again":
                    self._failed.pop(record.at, None)
                    self._by_path[record.at, record.name] = record
                    self._by_name[record.name] = record
                    given = record.given.text
                    if given is not None and len(given) <= MOST_TEXT:
                        self._by_arguments[record.name, given] = record

    def result(self, call: StartedCall) -> Record | None:
        """Of a call with the same arguments, else at the same place, else of the same function. It
        is the failure of the same call if the run went on after it: so its element is dropped here
        too."""
        failed = self._failed.get(call.key.at)
        is_same = failed is not None and (failed.name, failed.given.text) == (call.name, call.given)
        if is_same and (self._is_ok or not self._handled.isdisjoint(around(call.key.at))):
            return failed
        candidates = (
            self._by_arguments.get((call.name, call.given or "")),
            self._by_path.get((call.key.at, call.name)),
            self._by_name.get(call.name),
        )
        return next(filter(None, map(self._readable, candidates)), None)

    def answer(self, at: StepPath) -> Record | None:
        return self._readable(self._answers.get(at))

    def _readable(self, record: Record | None) -> Record | None:
        with suppress(DecodeError):
            return self._read(record, self._run_id) if record is not None else None
        return None

    def why(self, callee: object, call: StartedCall, edited: str) -> Miss:
        """Why a call is not reused, as far as the run shows it. ``edited``: the reason if only its
        digest differs."""
        if isinstance(callee, Tool) and not callee.reuse:
            return Miss("it has an effect (reuse=False)")
        if call.digest is None:
            return Miss("its function or its arguments cannot be compared")
        same = self._by_arguments.get((call.name, call.given or ""))
        if same is not None and same.digest is not None:
            if same.digest != call.digest:
                return Miss(edited, True)
            return Miss("the run made this call fewer times", self.is_complete)
        if (failed := self._failed.get(call.key.at)) is not None:
            is_edited = failed.given.text == call.given and failed.digest not in (None, call.digest)
            return Miss(f"it failed{', and was edited since then' * is_edited}", is_edited)
        is_called = call.name in self._by_name
        why = "its arguments differ" if is_called else "the run has no result of it"
        return Miss(why, self.is_complete)


MOST_COMPARED = 500
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
    names = [[(row.depth, row.word, row.label) for row in rows] for rows in (before, now)]
    matcher = SequenceMatcher(None, names[0], names[1], autojunk=False)
    for _, start, end, first, last in matcher.get_opcodes():
        if kinds[0][start:end] == kinds[1][first:last]:
            keys = (row.key for row in now[first:last])
            aligned.update(zip(keys, before[start:end], strict=True))
    return aligned
