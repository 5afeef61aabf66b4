"""Runs without calls: the engine evaluates a flow, and recorded outcomes replace all calls of user code
and models.

By the engine's own rules this answers what a new run would do (`stale`) and what a run had at each
moment: the stores of a pipeline after each step, the state of a graph after each round, the context
of a plan after each call; and what a step that only evaluates read and gave: the elements of a
fan-out or a fold, a transform inside one, a match and its case. A value that is not JSON is shown by
its preview: nothing is unpickled.

The journal of such a run gives an outcome for each call and writes nothing. The host refuses a call
without an outcome, and all calls of a flow that is not awaited, which has no journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple, NoReturn

from ..catalog import MASK, Context, agent, default, tool
from ..catalog.models import Model
from ..engine.concurrent import SHAPES
from ..engine.host import Host, NoUser
from ..engine.job import run_apart
from ..engine.limits import Grant, Limits, granted, refuse_inside
from ..engine.linked import Linked
from ..engine.runner import CallSite, Shape, ShapeResult, run
from ..engine.user_code import Result
from ..flow import events as ev
from ..flow.progress import Key, Row, key_of
from ..flow.step import FlowInput, Frame, Ref
from ..flow.steps import (
    Choose,
    Compute,
    Each,
    Flow,
    Fold,
    Invoke,
    Step,
    every,
    own_reads,
    stores_in,
)
from ..flow.values import Value, source_of
from ..journal.call_rows import ReusedResult, StartedCall
from ..journal.queries import records
from ..journal.recorder import Journal
from ..journal.records import CallKey, Record, RecordedOutcome, ReplayLog, StoredValue, decoded
from ..journal.secrets import Secrets
from ..pictures.difference import find_differences
from ..pictures.plain import line
from ..text.diagnostics import AgfError, Diagnostic, StepError
from .lookup import as_definition_errors, find_run
from .manifest import Manifest, link_as_it_was, refused
from .past_run import PastRun
from .run import Run

LONGEST_EVALUATION = 10.0
"""Seconds that an evaluation without calls may take."""

MOST_RECORDS = 200_000
"""Journaled calls that are read, of the newest runs first."""

MOST_CHARACTERS = 200_000_000
"""Characters of their values: all of them are in memory."""

PLAIN = frozenset({str, bytes, list, tuple, range})
"""The types of values that have no code of a user."""


def refuse_call(*_: object, **__: object) -> NoReturn:
    """No user sees this error."""
    message = "the result of this call is not known, and nothing is called here"
    raise StepError(Diagnostic("offline.call", message))


class OfflineHost(Host):
    """A host that calls nothing."""

    async def make_call(self, *_: Any, **__: Any) -> Result:
        refuse_call()

    async def call(
        self, place: Any, function: Any, arguments: Any, timeout: float | None = None
    ) -> Result:
        """What the engine itself does on a thread: it opens the library of a model, which no
        recorded reply needs; it reads an attachment, or the elements of a sequence."""
        # Opening a library takes seconds, and the replies are recorded.
        if isinstance(getattr(function, "__self__", None), Model):
            return True, None
        # Reading any other value runs code of its class.
        if not all(type(source_of(value)) in PLAIN for value in arguments.values()):
            refuse_call()
        try:
            return True, function(**arguments)
        except Exception as error:  # a file that is gone
            return False, error

    async def ask(self, question: ev.Question, is_busy: bool = False) -> Result:
        return False, NoUser()


class OfflineJournal(Journal):
    """Gives recorded outcomes and writes nothing: it is closed from the start."""

    def __init__(self, most: int, run_id: str, earlier: ReplayLog | None = None) -> None:
        super().__init__(None, 0, run_id, most, earlier)  # type: ignore[arg-type]  # it is closed: nothing uses the store
        self.close()

    async def start(
        self, emit: Callable[[ev.Event], None], name: str, language: str, work: str
    ) -> None:
        self.emit = emit

    def end(
        self, status: str, output: Value, stores: Mapping[str, Value], error: BaseException | None
    ) -> None:
        """The end of this run is not that of the recorded one."""

    def reused(self, call: StartedCall, result: ReusedResult) -> Value:
        return result[0]

    async def fire_once(self, step: Invoke, callee: object, key: CallKey, given: Any) -> bool:
        return False


def run_offline(
    linked: Linked,
    flow_input: FlowInput,
    journal: OfflineJournal,
    *,
    emit: Callable[[ev.Event], None],
    limits: Limits,
    grant: Grant,
    secrets: Secrets | None = None,
    on_frame: Callable[[Frame], None] | None = None,
    shapes: Mapping[type[Step], Shape] = SHAPES,
) -> BaseException | None:
    """Run ``linked`` on a thread and a loop of its own, at most `LONGEST_EVALUATION`, and return
    its error, if it has one. The other parameters are those of `engine.runner.run`."""
    # A definition may loop without a call: nothing else would end it here.
    seconds = min(LONGEST_EVALUATION, limits.timeout or LONGEST_EVALUATION)

    async def main() -> None:
        # The context of the thread is empty, and an empty one allows every tool.
        granted.set(grant)
        await run(
            linked,
            flow_input,
            host=OfflineHost(),
            emit=emit,
            limits=replace(limits, timeout=seconds),
            journal=journal,
            secrets=secrets,
            on_frame=on_frame,
            shapes=shapes,
        )

    return run_apart(main)


class Bounded:
    """Records, as long as they are not more than `MOST_RECORDS` with values of `MOST_CHARACTERS` in
    total."""

    def __init__(self) -> None:
        self._calls, self._characters = MOST_RECORDS, MOST_CHARACTERS
        self.note = ""
        """Why records are missing; empty if none are."""

    def read(self, records: Iterable[Record]) -> Iterator[Record]:
        """``records``, up to the bound."""
        for record in records:
            texts = filter(None, (record.given.text, record.result.data, record.result.shown))
            self._calls -= 1
            self._characters -= sum(map(len, texts))
            if min(self._calls, self._characters) < 0:
                most = f"{MOST_RECORDS:,} calls, or {MOST_CHARACTERS:,} characters"
                self.note = f"only the first {most}, are read"
                return
            yield record


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


class _Recorded(OfflineJournal):
    """Gives each call its recorded outcome, and ends the evaluation at the first call without
    one."""

    def __init__(self, run_id: str, records: Iterable[Record]) -> None:
        self.last_end: float | None = None
        """The end of the last call whose outcome was taken: the time of the next moment."""
        self.callees: set[tuple[str, str]] = set()
        """The kind and the name of each function that was called."""
        self._times: dict[CallKey, float] = {}
        super().__init__(0, run_id, ReplayLog(map(self._read, records), ended=False))

    def _read(self, record: Record) -> Record:
        """A record with its value, or with the preview of a value that is not JSON; nothing is
        unpickled."""
        if record.what in ("finished", "failed"):
            self.callees.add((record.kind, record.name))
            if record.ended is not None:
                self._times[record.key] = record.ended
        text = record.result.text
        data = text if isinstance(text, str) else "null"
        return record._replace(result=StoredValue("json", data, unpickled=(decoded(text),)))

    def recorded(self, key: CallKey) -> RecordedOutcome:
        outcome = super().recorded(key)
        if outcome is None:
            raise NotRecorded(ev.format_path(key.at))
        if key in self._times:
            self.last_end = max(self.last_end or 0.0, self._times[key])
        return outcome


class _Recorder:
    """Makes a moment of each frame of the outermost flow."""

    def __init__(self, flow: Flow, journal: _Recorded, started: float) -> None:
        self.moments: list[Moment] = []
        self._journal, self._started = journal, started
        self._labels = {
            step.id: line(f"{step.word} {step.label}".strip(), 80) for step in every(flow.body)
        }
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
        seconds = None if ended is None else max(0.0, ended - self._started)
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
    again = _Again(run)
    recorder = _Recorder(again.linked.flow, again.journal, again.past.started.timestamp())
    note = again.evaluate(emit=recorder.on_event, on_frame=recorder.on_frame)
    return Moments(again.linked.flow, recorder.moments, note, run.secrets)


class _Again:
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
            self.journal = _Recorded(self.past.run_id, self._bounded.read(records(store, num)))
        self.linked = run._linked if isinstance(run, Run) else _link(order, self.journal.callees)
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


def _link(order: Manifest, callees: Iterable[tuple[str, str]]) -> Linked:
    """The definitions of a past run, linked with functions that only have the names of those that
    it called."""
    then = default().without("tools", "agents")
    for registered in default().agents.values():
        then.agents.add(registered)
    for kind, name in callees:
        if kind in REGISTER:
            REGISTER[kind](_any, name=name, registry=then)
    linked, problems = link_as_it_was(order, then)
    for problem in problems:
        if problem.code in ("flow.unknown-policy", "flow.unknown-transform", "flow.unknown-flow"):
            problems.refuse()
    return linked


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


MOST_EVALUATIONS = 10_000
"""Those that are kept, the first ones."""


class Evaluation(NamedTuple):
    """One evaluation of a step, without secrets."""

    numbers: tuple[int, ...]
    """The numbers of the elements around it."""
    given: Mapping[str, Value]
    """What it read, by its name: ``item``, ``acc``, ``ctx.total``."""
    value: Value = None
    error: BaseException | None = None
    case: str = ""
    """The label of the case that a match picked."""


def evaluates(step: Step) -> bool:
    """Whether `find_evaluations` has something to say about ``step``; the calls of a fan-out over
    one call say it all."""
    if isinstance(step, Each):
        return not isinstance(step.body, Invoke)
    return isinstance(step, Fold | Compute | Choose)


def find_evaluations(run: Run | PastRun, row: Row) -> tuple[list[Evaluation], str]:
    """The evaluations of a step of ``run`` in the order of their elements, and why some are
    missing. Raises DefinitionError if the run is not journaled or cannot be read."""
    step, key = row.step, row.key
    watched = step.body if isinstance(step, Each | Fold) else step
    recorder = _Evaluations((*key[:-1], watched.id), _reads(step), run.secrets)
    shape = type(watched)
    shapes = {**SHAPES, shape: recorder.around(SHAPES[shape])}
    note = _Again(run).evaluate(emit=lambda event: None, shapes=shapes)
    kept = sorted(recorder.kept, key=lambda one: one.numbers)
    return kept, "; ".join(filter(None, (note, recorder.note)))


def _reads(step: Step) -> tuple[Ref, ...]:
    match step:
        case Each():
            return step.element.writes()
        case Fold():
            return (*step.acc.writes(), *step.element.writes())
    return own_reads(step)


class _Evaluations:
    """Keeps the evaluations of the step with one key."""

    def __init__(self, key: Key, reads: tuple[Ref, ...], secrets: Secrets) -> None:
        self.kept: list[Evaluation] = []
        self.note = ""
        self._key, self._mask = key, secrets.shown
        # `ctx.a` and `ctx.a.b` are one value, shown once.
        paths = dict.fromkeys(ref.path for ref in reads)
        self._paths = [
            path for path in paths if not any(path[:n] in paths for n in range(1, len(path)))
        ]

    def around(self, shape: Shape) -> Shape:
        """``shape``, which also keeps what the step read and gave."""

        async def kept(site: CallSite[Any]) -> Value:
            if key_of(site.at) != self._key:
                return await shape(site)
            try:
                value = await shape(site)
            except Exception as error:
                self._keep(site, None, error)
                raise
            self._keep(site, value, None)
            return value

        return kept

    def _keep(self, site: CallSite[Any], value: Value, error: Exception | None) -> None:
        if len(self.kept) >= MOST_EVALUATIONS:
            self.note = f"the first {MOST_EVALUATIONS:,} are shown"
            return
        given = {".".join(path): self._mask(_read(site.frame, path)) for path in self._paths}
        numbers = tuple(part for part in site.at if isinstance(part, int))
        case = _picked(site.step, site.frame) if isinstance(site.step, Choose) else ""
        value = value.value if isinstance(value, ShapeResult) else value
        self.kept.append(Evaluation(numbers, given, self._mask(value), error, case))


def _read(frame: Frame, path: tuple[str, ...]) -> Value:
    value: Any = frame
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


def _picked(step: Choose, frame: Frame) -> str:
    try:
        labels = step.labels(step.pick.evaluate(frame))
    except Exception:  # it failed, as its error says
        return ""
    return next((label for label in labels if label in step.cases), "default")
