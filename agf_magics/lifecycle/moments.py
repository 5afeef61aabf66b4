"""What a run had at each moment: the stores of a pipeline after each step, the state of a graph
after each round, the context of a plan after each call.

The journal has the results of calls, not the state. So the engine evaluates the definition of the
run again with these results, in their order, and each state that it passes is a moment. Nothing is
called and nothing is unpickled: a value that is not JSON is shown by its preview.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from ..catalog import Context, Registry, agent, default, tool
from ..engine.limits import refuse_inside
from ..engine.link import link
from ..engine.linked import Linked
from ..engine.run import OfflineJournal, refuse_call, run_offline
from ..engine.runner import Runner
from ..flow import events as ev
from ..flow.step import FlowInput, Frame
from ..flow.steps import Flow, every
from ..flow.values import Value
from ..journal.queries import records
from ..journal.reading import Outcome, ReplayLog
from ..journal.records import CallKey, Record, decoded
from ..journal.secrets import Secrets
from ..pictures.difference import find_differences
from ..pictures.plain import line
from ..text.diagnostics import AgfError
from .define import load
from .files import file_opener
from .forecast import LONGEST_EVALUATION, Bounded
from .lookup import as_definition_errors, find_run, refused
from .manifest import Manifest
from .past_run import PastRun
from .resume import as_it_was
from .run import Run

MOST_MOMENTS = 10_000

MOST_NAMED = 3
"""Steps that the label of a moment names."""

MOST_DIFFERENCES = 100
"""Parts that differ between two moments and are listed."""

HIDDEN = "•••"
"""Replaces an input that is secret and not in the journal."""


class Moment(NamedTuple):
    """A state of a run."""

    label: str
    """The steps that ended just before it; ``start`` for the first one."""
    seconds: float | None
    """Since the start of the run; None: not known."""
    frame: Frame


class Difference(NamedTuple):
    """A part that differs between two moments; `MISSING` where a moment does not have it."""

    path: str
    first: Any
    other: Any


class Moments:
    """The states of one run, in their order."""

    def __init__(self, flow: Flow, found: list[Moment], note: str, secrets: Secrets) -> None:
        self._flow, self._found = flow, found
        self.note = note
        """Why the last moments are missing; empty if none is missing."""
        self._mask = secrets.shown

    def __len__(self) -> int:
        return len(self._found)

    def __getitem__(self, number: int) -> Moment:
        return self._found[number]

    def state(self, number: int) -> dict[str, Value]:
        """The named values at a moment, without secrets."""
        flow, frame = self._flow, self._found[number].frame
        values = flow.kept(frame) if flow.kept is not None else flow.end(frame).stores
        return {str(name): self._mask(value) for name, value in values.items()}

    def differences(self, first: int, other: int) -> tuple[list[Difference], bool]:
        """At most `MOST_DIFFERENCES` parts that differ between two moments, and whether more parts
        differ."""
        one, two = self.state(first), self.state(other)
        same = {name for name in one if name in two and one[name] is two[name]}
        left, right = (
            {name: each[name] for name in each if name not in same} for each in (one, two)
        )
        found = [
            Difference(path.removeprefix("."), a, b)
            for path, a, b in islice(find_differences(left, right), MOST_DIFFERENCES + 1)
        ]
        return found[:MOST_DIFFERENCES], len(found) > MOST_DIFFERENCES


class NotRecorded(Exception):
    """A call has no outcome in the journal: the state after it is not known."""


class Enough(Exception):
    """There are `MOST_MOMENTS`."""


class _Times:
    """When the recorded calls ended, and what they called."""

    def __init__(self) -> None:
        self.ended: float | None = None
        """The end of the last call whose outcome was taken: the time of the next moment."""
        self.callees: set[tuple[str, str]] = set()
        """The kind and the name of each callee."""
        self._ends: dict[CallKey, float] = {}

    def noted(self, found: Iterable[Record]) -> Iterator[Record]:
        for record in found:
            if record.what in ("finished", "failed"):
                self.callees.add((record.kind, record.name))
                if record.ended is not None:
                    self._ends[record.key] = record.ended
            yield record

    def take(self, key: CallKey) -> None:
        if key in self._ends:
            self.ended = max(self.ended or 0.0, self._ends[key])


class _Replay(OfflineJournal):
    """Gives each call its recorded outcome, and ends the evaluation at the first call without
    one."""

    def __init__(self, run_id: str, log: ReplayLog, times: _Times) -> None:
        super().__init__(0, run_id, log)
        self._times = times

    def recorded(self, key: CallKey) -> Outcome | None:
        found = super().recorded(key)
        if found is None:
            raise NotRecorded(ev.format_path(key.at))
        self._times.take(key)
        return found


def find_moments(run: Run | PastRun) -> Moments:
    """The moments of a run, running or ended. Raises DefinitionError if the run is not journaled or
    cannot be read."""
    refuse_inside("moments")
    past = run if isinstance(run, PastRun) else _past(run)
    order, (store, num) = past.order, past.place
    times = _Times()
    with as_definition_errors():
        bounded = Bounded()
        log = ReplayLog(times.noted(map(_read, bounded.read(records(store, num)))), ended=False)
    linked = run._linked if isinstance(run, Run) else _linked(order, times.callees)
    found = list[Moment]()
    recorder = _recorder(linked.flow, found, times, past.started.timestamp())
    given = FlowInput(_input(run, order), None, _context(order))
    error = run_offline(
        linked,
        given,
        _Replay(past.run_id, log, times),
        emit=recorder.emit,
        limits=order.limits,
        secrets=Secrets(),
        seconds=LONGEST_EVALUATION,
        grant=order.grant,
        make=recorder,
    )
    return Moments(
        linked.flow, found, "; ".join(filter(None, (_note(error), bounded.note))), run.secrets
    )


def _past(run: Run) -> PastRun:
    if run.journal is None:
        raise refused(
            "journal.unknown-run", f"run {run.run_id!r} is not journaled: its states are not known"
        )
    store = run.journal.store
    with as_definition_errors():
        return PastRun(store, find_run(store, run.run_id))


def _read(record: Record) -> Record:
    """A record with its value, or with the preview of a value that is not JSON; nothing is
    unpickled."""
    text = record.value if record.form == "json" else record.shown
    return record._replace(
        form="json", value=text if isinstance(text, str) else "null", unpickled=(decoded(text),)
    )


def _input(run: Run | PastRun, order: Manifest) -> Value:
    if isinstance(run, Run):
        return run.input
    return (
        {**order.input, **dict.fromkeys(order.secret, HIDDEN)}
        if isinstance(order.input, dict)
        else order.input
    )


def _context(order: Manifest) -> Context | None:
    return Context(order.context_name, order.context) if order.context_name else None


def _linked(order: Manifest, callees: Iterable[tuple[str, str]]) -> Linked:
    """The definitions of a past run, linked with functions that only have the names of those that
    it called."""
    now, then = default(), Registry()
    for shelf, things in vars(now).items():
        if shelf not in ("tools", "agents"):
            setattr(then, shelf, things)
    for kind, called in callees:
        if kind == "agent":
            agent(_any, name=called, registry=then)
        elif kind == "tool":
            tool(_any, name=called, registry=then)
    for name, known in now.agents.items():
        if name not in then.agents:
            then.agents.add(known)
    flow, registry, known_files = as_it_was(order, then)
    linked, problems = link(
        flow, registry, file_opener(lambda path: load(path, registry=registry), known_files)
    )
    for problem in problems:
        if problem.code in ("flow.unknown-policy", "flow.unknown-transform", "flow.unknown-flow"):
            problems.refuse()
    return linked


def _any(**given: Value) -> Value:
    refuse_call()


def _recorder(flow: Flow, found: list[Moment], times: _Times, started: float) -> Any:
    """The class of a runner that adds each state of the outermost flow to ``found``."""
    labels = {step.id: line(f"{step.word} {step.label}".strip(), 80) for step in every(flow.body)}
    ended: dict[str, None] = {}

    class Recorder(Runner):
        _reached: Frame | None = None

        @property
        def reached(self) -> Frame | None:
            return self._reached

        @reached.setter
        def reached(self, frame: Frame | None) -> None:
            if frame is None or frame is self._reached:
                return
            self._reached = frame
            if len(found) >= MOST_MOMENTS:
                raise Enough
            seconds = None if times.ended is None else max(0.0, times.ended - started)
            found.append(
                Moment(
                    _label(ended, labels) if found else "start", seconds if found else 0.0, frame
                )
            )
            ended.clear()

        @staticmethod
        def emit(event: ev.Event) -> None:
            if (
                type(event) is ev.StepFinished
                and sum(isinstance(bit, str) for bit in event.at) == 1
            ):
                ended.setdefault(str(event.at[0]))

    return Recorder


def _label(ended: Mapping[str, None], labels: Mapping[str, str]) -> str:
    """The outermost of the steps that ended; ``end`` if none did since the moment before."""
    outermost = [
        id for id in ended if not any(id.startswith((f"{other}.", f"{other}[")) for other in ended)
    ]
    names = [labels.get(id, id) for id in outermost]
    if not names:
        return "end"
    return ", ".join(names[:MOST_NAMED]) + (
        f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    )


def _note(error: BaseException | None) -> str:
    match error:
        case NotRecorded():
            return (
                f"the result of {line(str(error), 100)} is not in the journal: the state after "
                f"it is not known"
            )
        case Enough():
            return f"the first {MOST_MOMENTS:,} moments"
        case AgfError():
            return line(error.diagnostic.message, 300)
        case None:
            return ""
    return f"the states after this are not known ({type(error).__name__})"
