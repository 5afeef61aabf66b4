"""One run, from its start to its end, and each step in it: emit its events, store its value, handle
its failure.

Every step is a coroutine, awaited by the task that runs the steps around it: 0.1 µs each, where a
task costs 3 µs. So a step that never waits needs no turn of the loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeGuard, TypeVar

from ..flow import events as ev
from ..flow.progress import Progress
from ..flow.step import FlowInput, FlowResult, Frame, Outcome, Step, finished
from ..flow.steps import Flow, Invoke, stores_in
from ..flow.values import LargeValues, Value
from ..journal.recorder import Journal
from ..journal.records import NO_RECORDS, CallKey, RecordedOutcome, ReplayLog
from ..journal.secrets import Secrets
from ..text.diagnostics import Diagnostic, StepError
from .host import TURN, Deadline, Host, OutOfTime, within
from .limits import (
    ANYTHING,
    Budget,
    Grant,
    LimitReached,
    Limits,
    Meter,
    granted,
    inside,
    rights,
    watch_threads,
)
from .linked import Linked
from .user_code import StillRunning, printing

clock = time.monotonic

Index = tuple[int, ...]
"""The numbers of the elements and iterations around a step, within its flow."""

StepResult = tuple[Value, Frame]
"""The value of a step and the frame for the steps after it."""

S = TypeVar("S", bound=Step)


class Scope(NamedTuple):
    """The flow that the steps belong to, and what surrounds it."""

    linked: Linked
    before: ev.StepPath = ()
    """The path of the step that called this flow."""
    depth: int = 0
    """The number of open for_each scopes, through calls."""
    concurrent: bool = False
    """Whether other steps may run at the same time. The structure of the flow decides this, not the
    moment."""
    grant: Grant = ANYTHING
    calls: int = 0
    """The number of flows and agents that are open inside each other."""
    meters: tuple[Meter, ...] = ()
    """The counters of the open definitions that limit themselves, the outermost first."""
    tries: str = ""
    """The attempts around the step that are not first attempts: see `journal.records.again`."""


class CallSite(Generic[S]):
    """One execution of a step. Nothing changes it; a NamedTuple would take 60 % longer to
    create."""

    __slots__ = ("at", "frame", "index", "run", "scope", "step")

    def __init__(
        self,
        run: Runner,
        step: S,
        frame: Frame,
        scope: Scope,
        index: Index,
        at: ev.StepPath,
    ) -> None:
        self.run = run
        self.step = step
        self.frame = frame
        self.scope = scope
        self.index = index
        self.at = at

    @property
    def key(self) -> CallKey:
        """The name of this execution in the journal."""
        return CallKey(self.at, self.scope.tries)

    @property
    def is_secret(self) -> bool:
        """Whether the value of the step feeds a secret argument."""
        steps = self.run.secrets.steps
        return bool(steps) and (id(self.scope.linked.flow), self.step.id) in steps

    def path_of(self, step: Step, *more: int) -> ev.StepPath:
        """The path of another step of this flow; ``more``: the numbers of further iterations around
        it."""
        return (*self.scope.before, step.id, *self.index, *more)

    def with_step(self, step: S) -> CallSite[S]:
        return CallSite(self.run, step, self.frame, self.scope, self.index, self.at)

    def with_scope(self, scope: Scope) -> CallSite[S]:
        return CallSite(self.run, self.step, self.frame, scope, self.index, self.at)


class ShapeResult(NamedTuple):
    """The result of a shape that returns more than a value."""

    value: Value
    given: Value = None
    """The arguments of its call."""
    frame: Frame | None = None
    """The frame that its own steps leave to the steps after it."""


Shape = Callable[[CallSite[Any]], Awaitable[Value]]
"""Runs a kind of step: returns a value or a ShapeResult, or raises StepError."""


class AskedCall(NamedTuple):
    """A call as a recording knows it: what is called, and with what."""

    what: str
    """``tool``, ``agent``, ``model``, ``transform``, ``policy`` or ``question``."""
    kind: str
    """The kind of its step."""
    name: str
    given: str
    """The arguments as JSON, without secrets."""
    site: CallSite[Invoke]


class Recording(Protocol):
    """The recorded calls that a run takes instead of making them: see lifecycle/replay.py."""

    name: str
    """The name of its file."""

    @property
    def replays_tools(self) -> bool:
        """Whether the calls of tools are taken from it."""
        ...

    def ask(self, site: CallSite[Invoke], what: str, callee: object, given: Value) -> AskedCall: ...

    def is_made(self, asked: AskedCall) -> bool:
        """Whether the call will be made, because the recording leaves it to the run."""
        ...

    def take(self, asked: AskedCall) -> RecordedOutcome | None:
        """The recorded outcome, once; None: the call is made. Raises StepError if it may not be."""
        ...

    def keep(self, asked: AskedCall, value: Value, error: StepError | None = None) -> None:
        """Record the outcome of a call that was made."""
        ...

    def order(self, paths: Sequence[ev.StepPath]) -> list[int]:
        """The positions of the concurrent parts at these paths whose ends are recorded, in the
        order of their ends."""
        ...

    def notes(self) -> Sequence[Diagnostic]:
        """What the run warns about at its end."""
        ...


@dataclass(slots=True, eq=False)
class Models:
    files: dict[str, bytes] = field(default_factory=dict)
    """The attachments of the run, by SHA-256."""
    placeholders: dict[str, Value] = field(default_factory=dict)
    """The secrets in their replies, by placeholder."""


class Runner:
    """One run: its shapes, its host, its listener and its counters."""

    def __init__(
        self,
        shapes: Mapping[type[Step], Shape],
        host: Host,
        emit: Callable[[ev.Event], None],
        budget: Budget,
        dry: bool = False,
        journal: Journal | None = None,
        secrets: Secrets | None = None,
        stream: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self.shapes = shapes
        self.host = host
        self.emit = emit
        self.budget = budget
        self.dry = dry
        """Whether values made from schemas replace the calls of tools and agents."""
        self.journal = journal
        self.stream = stream
        """Whether the run is watched: replies and prints are emitted while they arrive."""
        self.secrets = secrets if secrets is not None else Secrets()
        self.progress = progress
        """The progress of the run, if nothing else gets its events: then workers send numbers
        instead of events."""
        self.reached: Frame | None = None
        """The frame after the last completed step of the outermost flow."""
        self.on_frame: Callable[[Frame], None] | None = None
        """Called with each frame that the outermost flow reaches."""
        self.watched: dict[ev.StepPath, Frame] = {}
        """The same for called flows whose stores a definition shows while they wait, by the path of
        the call."""
        self.models = Models()
        self.large = LargeValues()
        if journal is not None:
            journal.rows.large = self.large
        self.recording: Recording | None = None
        """None: the run replays nothing."""
        self.warned: set[object] = set()
        """What `warn_once` has warned about."""
        self.calls = 0
        """The number of tool calls (in a dry run: of calls that a real run would make)."""

    @property
    def log(self) -> ReplayLog:
        """What earlier sessions of this run did; empty without a journal."""
        return NO_RECORDS if self.journal is None else self.journal.log

    def mark(self, what: str, key: CallKey, error: BaseException | None = None) -> None:
        """Journal that something happened, if the run has a journal: see `Journal.mark`."""
        if self.journal is not None:
            self.journal.mark(what, key, error)

    def warn_once(self, warning: Diagnostic, about: object) -> None:
        """Emit a warning, once in a run. ``about``: what it is about, as its text may differ from
        time to time."""
        # A session of fifty requests to the same server says it once.
        if about not in self.warned:
            self.warned.add(about)
            self.emit(ev.Warned(clock(), warning))

    async def run_flow(self, scope: Scope, flow_input: FlowInput) -> FlowResult:
        flow = scope.linked.flow
        frame, is_outermost = flow.start(flow_input), _is_outermost(scope)
        for step in flow.body.steps:
            if is_outermost:
                self.reach(scope, frame)
            _, frame = await self.run_step(step, frame, scope, ())
        self.reach(scope, frame)
        return flow.end(frame)

    def reach(self, scope: Scope, frame: Frame) -> None:
        """Remember the frame of the outermost flow, for a run that ends early (decision A17)."""
        if _is_outermost(scope):
            self.reached = frame
            if self.on_frame is not None:
                self.on_frame(frame)
        elif scope.before in self.watched:
            self.watched[scope.before] = frame

    async def run_step(
        self, step: Step, frame: Frame, scope: Scope, index: Index, attempt: int = 1
    ) -> StepResult:
        # Steps that never wait would keep the loop from its timers: time limits, cancellations,
        # other runs.
        if clock() - self.host.turned > TURN:
            await self.host.turn()
        at: ev.StepPath = (*scope.before, step.id, *index)
        site = CallSite(self, step, frame, scope, index, at)
        self.emit(ev.StepStarted(at, clock(), attempt))
        try:
            result = store_value(site, await self.shapes[type(step)](site))
        # Everything: each start has exactly one end, also of a cancelled step and of our own errors.
        except BaseException as error:
            return self.rescue(error, site)
        self.emit(ev.StepFinished(at, clock(), result[0]))
        return result

    def fail_unstarted(
        self, error: StepError, step: Step, frame: Frame, scope: Scope, index: Index, attempt: int
    ) -> StepResult:
        """The result of a step that fails before anything of it runs, as `rescue`."""
        at: ev.StepPath = (*scope.before, step.id, *index)
        self.emit(ev.StepStarted(at, clock(), attempt))
        return self.rescue(error, CallSite(self, step, frame, scope, index, at))

    def rescue(self, error: BaseException, site: CallSite[Any]) -> StepResult:
        """The result of a failed step that rescues its failure. Raises ``error`` otherwise."""
        rescued = self.fail_step(error, site)
        if rescued is None:
            raise error
        return rescued

    def fail_step(self, error: BaseException, site: CallSite[Any]) -> StepResult | None:
        """Emit the failure of a step. Returns a result if the step rescues its failure."""
        at, step = site.at, site.step
        if isinstance(error, asyncio.CancelledError):
            # The same error passes every step around the call: one of them tells of it.
            if isinstance(error, StillRunning) and not error.reported:
                error.reported = True
                self.emit(ev.StepAbandoned(at, clock(), error.left_running))
            else:
                self.emit(ev.StepCancelled(at, clock()))
            return None
        # The innermost step only: it is the one that failed.
        if isinstance(error, StepError) and error.path is None:
            error.path, error.where = at, ev.format_path(at)
            # Now, before a listener or the journal gets it.
            self.secrets.error(error)
        self.emit(ev.StepFailed(at, clock(), error))
        if step.rescue is None or not is_rescuable(error):
            return None
        # Before the frame is stored: a resumed run must rescue what this one has rescued.
        self.mark("rescued", site.key)
        value, frame = step.rescue(error), site.frame
        if step.target is not None:
            frame = step.target.store(frame, Outcome(value, None, error, "failed"))
        return value, frame


def _is_outermost(scope: Scope) -> bool:
    return not scope.before and not scope.concurrent and not scope.depth


def store_value(site: CallSite[Step], value: Value) -> StepResult:
    """Store the value of a shape where the step says."""
    frame, arguments, target = site.frame, None, site.step.target
    if type(value) is ShapeResult:
        value, arguments, left = value
        frame = frame if left is None else left
    if target is not None:
        frame = target.store(frame, finished((value, arguments, None, "finished")))
    return value, frame


def is_rescuable(error: BaseException) -> TypeGuard[StepError]:
    """Whether ``on_error`` and ``rescue`` apply: to failures of steps, not to exceeded limits, open
    questions and unknown names."""
    return (
        isinstance(error, StepError)
        and not error.is_unknown_name
        and not isinstance(error, (LimitReached, ev.Unanswered))
    )


class Done(NamedTuple):
    ended: FlowResult
    calls: int
    """Tool calls made; in a dry run, the calls that a real run would make at least."""
    sessions: int
    """Agent sessions opened, or that a real run would open."""


async def run(
    linked: Linked,
    flow_input: FlowInput,
    *,
    host: Host,
    emit: Callable[[ev.Event], None],
    limits: Limits,
    dry: bool = False,
    journal: Journal | None = None,
    work: str = "",
    secrets: Secrets | None = None,
    stream: bool = False,
    budget: Budget | None = None,
    progress: Progress | None = None,
    on_frame: Callable[[Frame], None] | None = None,
    recording: Recording | None = None,
    notes: Callable[[], Iterable[Diagnostic]] = tuple,
    shapes: Mapping[type[Step], Shape],
) -> Done:
    """Run ``linked`` to its end and emit everything that happens; RunEnded is always the last
    event.

    A run that a tool or an agent starts has the rights of that tool or agent. With a ``journal``
    the run is journaled under its manifest ``work``, and calls that earlier sessions made are not
    repeated. ``secrets`` collects the values of secret arguments. ``stream``: whether the text of
    models is emitted while it arrives. A ``budget`` has what earlier runs have used of the limits.
    ``progress``: the one whose ``apply`` is ``emit``, if nothing else listens. ``on_frame``: called
    with each frame that the outermost flow reaches. ``recording``: the calls that are replayed.
    ``notes``: what else the run warns about at its end. ``shapes``: how each kind of step runs.

    Raises StepError if a step fails, and CancelledError if the run is cancelled.
    """
    budget = Budget(limits) if budget is None else budget
    runner = Runner(shapes, host, emit, budget, dry, journal, secrets, stream, progress)
    runner.on_frame, runner.recording = on_frame, recording
    # Nothing above awaits or raises: after this event there is always a RunEnded.
    emit(ev.RunStarted(linked.flow.name, clock()))
    failure: BaseException | None = None
    watch_threads()
    grant = rights().grant
    outer_grant, outer_inside = granted.set(grant), inside.set(True)
    outer_prints = printing.set(None) if stream else None
    try:
        async with Deadline(limits.timeout, host):
            if journal is not None:
                # Inside the time limit: a journal on a slow disk, or one that another process
                # holds, may wait.
                await journal.start(emit, linked.flow.name, linked.flow.language, work)
            grant = grant.narrow(linked.uses, asked=linked.asked)
            scope = Scope(linked, grant=grant, meters=meters_of(linked.flow, 0))
            ended = await within_caps(linked.flow, runner.run_flow(scope, flow_input))
    except asyncio.CancelledError:
        _end(runner, "cancelled", None, _stores(runner, linked))
        raise
    except OutOfTime:
        failure = timeout_exceeded(linked, limits)  # without a cause, whose frames would be ours
    except RecursionError:  # of the engine: what user code raises is a failure of its step
        failure = _too_deep(linked)
    except BaseException as error:
        failure = error
    finally:
        granted.reset(outer_grant)
        inside.reset(outer_inside)
        if outer_prints is not None:
            printing.reset(outer_prints)
    # Outside of `except`: an error below must not have the failure as its context.
    if failure is not None:
        stores = _stores(runner, linked)
        # A fan-out that ran to its end has put its own results there.
        if isinstance(failure, StepError) and failure.partial is None:
            failure.partial = stores
        _end(
            runner,
            "waiting" if isinstance(failure, ev.Unanswered) else "error",
            None,
            stores,
            failure,
        )
        raise failure
    for note in (*ended.notes, *notes()):
        emit(ev.Warned(clock(), note))
    _end(runner, "ok", ended.output, ended.stores)
    return Done(ended, runner.calls, budget.spawned)


def _end(
    runner: Runner,
    status: str,
    output: Value,
    stores: Mapping[str, Value],
    error: BaseException | None = None,
) -> None:
    if runner.journal is not None:
        # Before the event: who hears of the end may resume the run or read it.
        runner.journal.end(status, output, stores, error)
    runner.emit(ev.RunEnded(clock(), status, error, stores))


def _stores(runner: Runner, linked: Linked) -> Mapping[str, Value]:
    """The results of a run that did not complete."""
    if runner.reached is None:
        return {}
    return stores_in(linked.flow, runner.reached)


def timeout_exceeded(linked: Linked, limits: Limits, left_running: str = "") -> StepError:
    """The run exceeded its timeout. ``left_running``: the calls that could not be stopped."""
    message = f"{linked.flow.name!r} took longer than its timeout of {limits.timeout:g} s"
    hint = (
        "--timeout, %config AgfMagics.timeout and, in Python, limits=Limits(timeout=…) set the "
        "timeout of a run"
    )
    return StepError(Diagnostic("limit.timeout", message, None, left_running or hint))


def _too_deep(linked: Linked) -> StepError:
    message = f"{linked.flow.name!r} nests steps and calls of flows deeper than a run can go"
    hint = "put steps one after another instead of inside each other"
    return LimitReached(Diagnostic("limit.nesting", message, linked.flow.origin.span, hint))


def meters_of(flow: Flow, calls: int) -> tuple[Meter, ...]:
    """The counters of a definition that limits itself."""
    return () if flow.declared.caps is None else (Meter(flow.name, flow.declared.caps, calls),)


async def within_caps(flow: Flow, work: Awaitable[FlowResult]) -> FlowResult:
    """``work``, within the time that the definition allows itself."""
    caps = flow.declared.caps
    return await within(
        caps.seconds if caps is not None else None, work, lambda: duration_exceeded(flow)
    )


def duration_exceeded(flow: Flow, left_running: str = "") -> LimitReached:
    """A flow took longer than its definition allows. ``left_running``: the calls that could not be
    stopped."""
    caps = flow.declared.caps
    assert caps is not None, "only a flow with caps has a duration"
    message = f"{flow.name!r} took longer than the {caps.seconds:g} s that its definition allows"
    return LimitReached(Diagnostic("limit.duration", message, caps.span, left_running or None))
