"""Evaluates the definition of an ended run again with the recorded outcomes of its calls.

Nothing is called: the evaluation ends at the first call without an outcome in the journal. Nothing
is unpickled: see `stand_ins`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from ...catalog import MASK, Context, agent, default, model_agent, tool
from ...catalog.models.model import Model
from ...engine.linking.linked import Linked
from ...engine.runner import Shape
from ...engine.shapes.step_functions import SHAPES
from ...engine.threads.rights import refuse_inside
from ...flow.progress import events as ev
from ...flow.progress.rows import key_of
from ...flow.protocols import FlowInput, Frame
from ...flow.step import Step
from ...flow.step_path import format_path
from ...flow.steps import calls
from ...journal.database.errors import as_definition_errors
from ...journal.records.recorded_outcomes import EarlierOutcomes, RecordedOutcome
from ...journal.records.records import CallKey, Record, StoredValue, decoded
from ...journal.runs import records
from ...pictures.plain import line
from ...text.diagnostics import AgfError, refused
from ...values.value import Value
from ..past.past_run import PastRun
from ..run_internals import linked_flow, place_in_journal
from ..runs.run import Run
from ..storage.lookup import find_run
from ..storage.manifest import Manifest
from ..storage.relink import link_as_it_was, load_texts
from .offline import Bounded, OfflineJournal, refuse_call, run_offline
from .stand_ins import with_stand_ins


class NotRecorded(Exception):
    """A call has no outcome in the journal: the state after it is not known."""


class SeenEnough(Exception):
    """A listener needs no more of the evaluation; the text says how much it has."""


class RecordedJournal(OfflineJournal):
    """A journal that returns the recorded outcome of each call, and ends the evaluation at the
    first call without one."""

    def __init__(self, run_id: str, records: Iterable[Record]) -> None:
        self.last_end: float | None = None
        """The end of the last call whose outcome was taken: the time of the next moment."""
        self.callees: set[tuple[str, str]] = set()
        """The kind and the name of each function and model that was called."""
        self.asked_models: set[str] = set()
        """The ids of the steps for which a model was asked."""
        self._has_previews = False
        self.is_whole = True
        """Whether each call whose arguments passed their check has a record."""
        self._times: dict[CallKey, float] = {}
        # Last, because it reads all records, and `_read` fills the fields above.
        super().__init__(0, run_id, EarlierOutcomes(map(self._read, records), ended=False))

    def _read(self, record: Record) -> Record:
        """A record with its value; if it is not JSON, with its preview, in which a stand-in has the
        place of each object."""
        if record.what in ("finished", "failed"):
            self.callees.add((record.kind, record.name))
            if record.kind == "model":
                self.asked_models.update(key_of(record.at)[-2:-1])  # the step around its session
            if record.ended is not None:
                self._times[record.key] = record.ended
        is_preview = record.result.form not in ("json", None)
        self._has_previews |= is_preview
        value = decoded(record.result.text)
        in_frames = with_stand_ins(value) if is_preview else value
        # What was read is taken, and its text is looked at by nobody.
        return record._replace(result=StoredValue("json", "null", unpickled=(in_frames,)))

    def skips_check(self, key: CallKey, arguments: Value) -> bool:
        """Whether the check of the arguments of a call succeeded in the run. A call without an
        outcome is checked again, because its check may have failed; but not a call of which the record
        may be missing, if its arguments may be previews."""
        if self.log.has(key):
            return True
        return self._has_previews and not self.is_whole and not self.log.is_handled(key)

    def take_recorded(self, key: CallKey, reads: bool = True) -> RecordedOutcome:
        outcome = super().take_recorded(key, reads)
        if outcome is None:
            raise NotRecorded(format_path(key.at))
        if key in self._times:
            self.last_end = max(self.last_end or 0.0, self._times[key])
        return outcome


class RecordedEvaluation:
    """An evaluation of the definition of a run, live or ended."""

    def __init__(self, run: Run | PastRun) -> None:
        refuse_inside("moments")
        place = place_in_journal(run)
        if place is None:
            message = f"run {run.run_id!r} is not journaled: its states are not known"
            raise refused("journal.unknown-run", message)
        store, num = place
        self._is_running = isinstance(run, Run) and not run.done
        self._bounded = Bounded()
        with as_definition_errors():
            self.past = PastRun(store, find_run(store, run.run_id))
            order = self.past.order
            self.journal = RecordedJournal(
                self.past.run_id, self._bounded.read(records(store, num))
            )
        self.journal.is_whole = run.status in ("ok", "error") and not self._bounded.note
        self.linked = linked_flow(run) if isinstance(run, Run) else _link(order, self.journal)
        self._input = run.input
        # The journal lacks secret fields: the mask stands for them.
        if isinstance(run, PastRun) and isinstance(run.input, dict):
            self._input = {**run.input, **dict.fromkeys(order.secret, MASK)}

    def evaluate(
        self,
        emit: Callable[[ev.Event], None],
        on_frame: Callable[[Frame], None] | None = None,
        shapes: Mapping[type[Step], Shape] = SHAPES,
    ) -> str:
        """The reason why the end of the evaluation is missing; empty: it is complete."""
        order = self.past.order
        context = Context(order.context_name, order.context) if order.context_name else None
        error = run_offline(
            self.linked,
            FlowInput(self._input, None, context),
            self.journal,
            emit=emit,
            on_frame=on_frame,
            shapes=shapes,
            limits=order.limits,
            grant=order.grant,
        )
        return "; ".join(filter(None, (_note(error, self._is_running), self._bounded.note)))


def _link(order: Manifest, journal: RecordedJournal) -> Linked:
    """The definitions of a past run, linked with functions and a model that only have the names of
    those that it called: their outcomes are in the journal."""
    then = default().without("tools", "agents")
    models = [name for kind, name in journal.callees if kind == "model"]
    answered = _answered_by_models(order, journal.asked_models)
    if models:
        then.choose(Model(models[0]))
    for registered in default().agents.values():
        then.agents.add(registered)
    if "" in answered:  # last: steps that name no agent are answered by the last default
        model_agent(UNNAMED, default=True, registry=then)
    for kind, name in journal.callees:
        if kind in REGISTER:
            REGISTER[kind](_any, name=name, registry=then)
    for name in answered - {""}:  # even if a function has that name now
        model_agent(name, registry=then)
    linked, problems = link_as_it_was(order, then)
    for problem in problems:
        if problem.code in ("flow.unknown-policy", "flow.unknown-transform", "flow.unknown-flow"):
            problems.refuse()
    return linked


def _answered_by_models(order: Manifest, asked: Collection[str]) -> set[str]:
    """The agents of the steps for which a model was asked; empty: the step names no agent."""
    _, flows = load_texts(order.flows)
    steps = (step for flow in flows if flow is not None for step in calls(flow.body))
    return {step.name.text for step in steps if step.kind == "agent" and step.id in asked}


UNNAMED = "⟨model⟩"
"""The name of the agent that stands for the model of the steps that name no agent. No agent of this
process has it, so none takes its place."""


def _any(**arguments: Value) -> Value:
    """Stands for a function of which only the name is known."""
    refuse_call()


REGISTER: Mapping[str, Callable[..., Any]] = {"agent": agent, "tool": tool}
"""The decorators that register a stand-in, by the kind of a call."""


def _note(error: BaseException | None, is_running: bool) -> str:
    """The reason why an evaluation ended earlier than the run; empty: it ended as the run did."""
    match error:
        case NotRecorded() if is_running:
            return f"{line(str(error), 100)} still runs: the state after it is not known yet"
        case NotRecorded():
            call = line(str(error), 100)
            return f"the result of {call} is not in the journal: the state after it is not known"
        case SeenEnough():
            return str(error)
        case AgfError():
            return line(error.diagnostic.message, 300)
        case None:
            return ""
    return f"the states after this are not known ({type(error).__name__})"
