"""The state of an ended run at each of its moments, and what changed between two of them.

A run without calls (offline.py) shows, by the engine's own rules, what the run had at each moment:
the stores of a pipeline after each step, the state of a graph after each round, the context of a
plan after each call. A value that is not JSON is shown by its preview: nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from ...catalog import MASK, Context, agent, default, model_agent, tool
from ...catalog.models.model import Model
from ...engine.linking.linked import Linked
from ...engine.runner import Shape
from ...engine.shapes.step_functions import SHAPES
from ...engine.threads.rights import refuse_inside
from ...flow.flow import Flow, stores_in
from ...flow.progress import events as ev
from ...flow.progress.rows import key_of
from ...flow.protocols import FlowInput, Frame
from ...flow.step import Step
from ...flow.step_names import given_names, name_of
from ...flow.step_path import format_path
from ...flow.steps import calls, every
from ...journal.database.errors import as_definition_errors
from ...journal.records.recorded_outcomes import EarlierOutcomes, RecordedOutcome
from ...journal.records.records import CallKey, Record, StoredValue, decoded
from ...journal.runs import records
from ...journal.secrets.masking import Secrets
from ...pictures.difference import find_differences
from ...pictures.plain import line
from ...text.diagnostics import AgfError, refused
from ...values.value import Value
from ..past.past_run import PastRun
from ..runs.run import Run
from ..storage.lookup import find_run
from ..storage.manifest import Manifest
from ..storage.relink import link_as_it_was, load_texts
from .offline import Bounded, OfflineJournal, refuse_call, run_offline

MOST_MOMENTS = 10_000

LONGEST_LABEL = 200
"""Characters of the label of a moment, which names the steps that ended."""

MOST_DIFFERENCES = 100
"""Parts that differ between two moments and are listed."""


class Moment(NamedTuple):
    """A state of a run."""

    label: str
    """The steps that ended just before it; ``start`` for the first one."""
    seconds: float | None
    """Since the start of the run; None: not known."""
    frame: Frame
    steps: tuple[str, ...] = ()
    """The ids of these steps."""


class Difference(NamedTuple):
    """A part that differs between two moments; `MISSING` where a moment does not have it."""

    path: str
    first: Any
    other: Any


class Moments:
    """The states of one run, in their order."""

    def __init__(self, flow: Flow, moments: list[Moment], note: str, secrets: Secrets) -> None:
        self._flow, self._moments = flow, moments
        self.note = note
        """Why the last moments are missing; empty if none is missing."""
        self._mask = secrets.shown

    def __len__(self) -> int:
        return len(self._moments)

    def __getitem__(self, number: int) -> Moment:
        return self._moments[number]

    def step_after(self, number: int) -> str:
        """The step whose end is the next moment, from which a run can go on with the state of this
        one; empty if there is none, or if it ended at other moments, too."""
        following = self._moments[number + 1].steps if number + 1 < len(self) else ()
        steps = [step for moment in self._moments for step in moment.steps]
        return next((step for step in following if steps.count(step) == 1), "")

    def state(self, number: int) -> dict[str, Value]:
        """The named values at a moment, without secrets."""
        values = stores_in(self._flow, self._moments[number].frame)
        return {str(name): self._mask(value) for name, value in values.items()}

    def differences(self, first: int, other: int) -> tuple[list[Difference], bool]:
        """At most `MOST_DIFFERENCES` parts that differ between two moments, and whether more parts
        differ."""
        before, after = self.state(first), self.state(other)
        # Most values are the very same object at both moments, however large.
        for name in before.keys() & after.keys():
            if before[name] is after[name]:
                del before[name], after[name]
        parts = islice(find_differences(before, after), MOST_DIFFERENCES + 1)
        differences = [Difference(path.removeprefix("."), a, b) for path, a, b in parts]
        return differences[:MOST_DIFFERENCES], len(differences) > MOST_DIFFERENCES


class NotRecorded(Exception):
    """A call has no outcome in the journal: the state after it is not known."""


class Enough(Exception):
    """There are `MOST_MOMENTS`."""


class _RecordedOutcomes(OfflineJournal):
    """Gives each call its recorded outcome, and ends the evaluation at the first call without
    one."""

    def __init__(self, run_id: str, records: Iterable[Record]) -> None:
        self.last_end: float | None = None
        """The end of the last call whose outcome was taken: the time of the next moment."""
        self.callees: set[tuple[str, str]] = set()
        """The kind and the name of each function and model that was called."""
        self.asked_models: set[str] = set()
        """The ids of the steps for which a model was asked."""
        self._times: dict[CallKey, float] = {}
        super().__init__(0, run_id, EarlierOutcomes(map(self._read, records), ended=False))

    def _read(self, record: Record) -> Record:
        """A record with its value, or with the preview of a value that is not JSON; nothing is
        unpickled."""
        if record.what in ("finished", "failed"):
            self.callees.add((record.kind, record.name))
            if record.kind == "model":
                self.asked_models.update(key_of(record.at)[-2:-1])  # the step around its session
            if record.ended is not None:
                self._times[record.key] = record.ended
        text = record.result.text
        data = text if isinstance(text, str) else "null"
        return record._replace(result=StoredValue("json", data, unpickled=(decoded(text),)))

    def recorded(self, key: CallKey, reads: bool = True) -> RecordedOutcome:
        outcome = super().recorded(key, reads)
        if outcome is None:
            raise NotRecorded(format_path(key.at))
        if key in self._times:
            self.last_end = max(self.last_end or 0.0, self._times[key])
        return outcome


class _MomentMaker:
    """Makes a moment of each frame of the outermost flow."""

    def __init__(
        self, flow: Flow, journal: _RecordedOutcomes, clock: Callable[[float], float]
    ) -> None:
        self.moments: list[Moment] = []
        self._journal, self._clock = journal, clock
        steps = list(every(flow.body))
        given = {id: name for step in steps for id, name in given_names(step).items()}
        self._labels = {step.id: line(name_of(step, given.get(step.id, "")), 80) for step in steps}
        self._ended: dict[str, None] = {}
        """The steps of the outermost flow that ended since the last moment."""

    def on_event(self, event: ev.Event) -> None:
        if type(event) is ev.StepFinished and len(key_of(event.at)) == 1:
            self._ended.setdefault(str(event.at[0]))

    def on_frame(self, frame: Frame) -> None:
        moments, ended = self.moments, self._journal.last_end
        if moments and frame is moments[-1].frame:
            return
        if len(moments) >= MOST_MOMENTS:
            raise Enough
        seconds = None if ended is None else self._clock(ended)
        moments.append(self._moment(seconds, frame) if moments else Moment("start", 0.0, frame))
        self._ended.clear()

    def _moment(self, seconds: float | None, frame: Frame) -> Moment:
        """Its label has the outermost of the steps that ended; ``end`` if none did since the moment
        before."""
        ended = self._ended
        steps = [
            step
            for step in ended
            if not any(step.startswith((f"{outer}.", f"{outer}[")) for outer in ended)
        ]
        names = [self._labels.get(step, step) for step in steps]
        label = line(", ".join(names), LONGEST_LABEL) or "end"
        return Moment(label, seconds, frame, tuple(steps))


def find_moments(run: Run | PastRun) -> Moments:
    """The moments of a run, running or ended. Raises DefinitionError if the run is not journaled or
    cannot be read."""
    again = RunAgain(run)
    maker = _MomentMaker(again.linked.flow, again.journal, again.past.clock)
    note = again.evaluate(emit=maker.on_event, on_frame=maker.on_frame)
    return Moments(again.linked.flow, maker.moments, note, run.secrets)


class RunAgain:
    """An evaluation of the definition of a run."""

    def __init__(self, run: Run | PastRun) -> None:
        refuse_inside("moments")
        if run._in_journal is None:
            message = f"run {run.run_id!r} is not journaled: its states are not known"
            raise refused("journal.unknown-run", message)
        (store, num), self._bounded = run._in_journal, Bounded()
        with as_definition_errors():
            self.past = PastRun(store, find_run(store, run.run_id))
            order = self.past.order
            self.journal = _RecordedOutcomes(
                self.past.run_id, self._bounded.read(records(store, num))
            )
        self.linked = run._linked if isinstance(run, Run) else _link(order, self.journal)
        self._input = run.input
        if isinstance(run, PastRun) and isinstance(run.input, dict):
            self._input = {**run.input, **dict.fromkeys(order.secret, MASK)}

    def evaluate(
        self,
        emit: Callable[[ev.Event], None],
        on_frame: Callable[[Frame], None] | None = None,
        shapes: Mapping[type[Step], Shape] = SHAPES,
    ) -> str:
        """Why the end of it is missing; empty if nothing is."""
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
        return "; ".join(filter(None, (_note(error), self._bounded.note)))


def _link(order: Manifest, journal: _RecordedOutcomes) -> Linked:
    """The definitions of a past run, linked with functions and a model that only have the names of
    those that it called: their outcomes are in the journal."""
    then = default().without("tools", "agents")
    models = [name for kind, name in journal.callees if kind == "model"]
    answered = _answered_by_models(order, journal.asked_models)
    if models:
        then.choose(Model(models[0]))
    if "" in answered:  # first: steps that name no agent are answered by the first one
        model_agent("model", registry=then)
    for registered in default().agents.values():
        then.agents.add(registered)
    for kind, name in journal.callees:
        if kind in REGISTER:
            REGISTER[kind](_any, name=name, registry=then)
    for name in answered - {""}:  # also where a function has that name by now
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


def _any(**given: Value) -> Value:
    refuse_call()


REGISTER: Mapping[str, Callable[..., Any]] = {"agent": agent, "tool": tool}


def _note(error: BaseException | None) -> str:
    match error:
        case NotRecorded():
            call = line(str(error), 100)
            return f"the result of {call} is not in the journal: the state after it is not known"
        case Enough():
            return f"the first {MOST_MOMENTS:,} moments"
        case AgfError():
            return line(error.diagnostic.message, 300)
        case None:
            return ""
    return f"the states after this are not known ({type(error).__name__})"
