"""Run a step: emit its events, store its value, handle its failure.

A step returns a plain value and a frame. It becomes a coroutine only if it waits, because a coroutine for each step
would cost more than everything else in it (docs/benchmarks.md).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from ..catalog import Agent
from ..flow.frame import FlowInput, FlowResult, Frame, Outcome, finished
from ..flow.steps import Compute, Invoke, Step
from ..flow.values import Value
from ..host.calls import Pending, resolve
from ..host.host import TURN, Host, StillRunning
from ..host.limits import ANYTHING, Budget, Grant, LimitReached, Meter
from ..journal.recorder import Journal
from ..journal.records import CallKey
from ..progress import events as ev
from ..progress.progress import Progress
from ..progress.rows import Row
from ..secrets.masking import Secrets
from ..text.diagnostics import Diagnostic, StepError
from .linked import Linked

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
    """Whether other steps may run at the same time. The structure of the flow decides this, not the moment."""
    grant: Grant = ANYTHING
    calls: int = 0
    """The number of flows and agents that are open inside each other."""
    meters: tuple[Meter, ...] = ()
    """The counters of the open definitions that limit themselves, the outermost first."""
    tries: str = ""
    """The attempts around the step that are not first attempts: see `journal.records.again`."""


class CallSite(Generic[S]):
    """One execution of a step. Nothing changes it; a NamedTuple would take 60 % longer to create."""

    __slots__ = ("at", "frame", "index", "row", "run", "scope", "step")

    def __init__(
        self, run: Runner, step: S, frame: Frame, scope: Scope, index: Index, at: ev.StepPath, row: Row | None
    ) -> None:
        self.run = run
        self.step = step
        self.frame = frame
        self.scope = scope
        self.index = index
        self.at = at
        self.row = row
        """The row that counts it; None: a listener gets its events."""

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
        """The path of another step of this flow; ``more``: the numbers of further iterations around it."""
        return (*self.scope.before, step.id, *self.index, *more)

    def with_step(self, step: S) -> CallSite[S]:
        return CallSite(self.run, step, self.frame, self.scope, self.index, self.at, self.row)

    def with_scope(self, scope: Scope) -> CallSite[S]:
        return CallSite(self.run, self.step, self.frame, scope, self.index, self.at, self.row)


class ShapeResult(NamedTuple):
    """The result of a shape that returns more than a value."""

    value: Value
    given: Value = None
    """The arguments of its call."""
    frame: Frame | None = None
    """The frame that its own steps leave to the steps after it."""


Shape = Callable[[CallSite[Any]], Value | Pending[Value]]
"""Runs a kind of step: returns a value, a ShapeResult or a Pending, or raises StepError."""


class StepEvents:
    """Emits the start and the end of each step; `replay`: of one whose call was recorded by ``run``; `follow`: the edge
    that a walk followed."""

    def __init__(self, emit: Callable[[ev.Event], None]) -> None:
        self.emit = emit

    def start(self, at: ev.StepPath, when: float, attempt: int, row: Row | None = None) -> None:
        self.emit(ev.StepStarted(at, when, attempt))

    def finish(self, row: Row | None, at: ev.StepPath, when: float, value: Value) -> None:
        self.emit(ev.StepFinished(at, when, value))

    def follow(self, at: ev.StepPath, source: str, target: str) -> None:
        self.emit(ev.EdgeTaken(at, clock(), source, target))

    def replay(self, at: ev.StepPath, when: float, ended: float, run: str, value: Value) -> None:
        self.emit(ev.StepStarted(at, when, 1))
        self.emit(ev.StepReplayed(at, ended, run))
        self.emit(ev.StepFinished(at, ended, value))


class Models:
    __slots__ = ("files", "placeholders", "warned")

    def __init__(self) -> None:
        self.warned: set[Diagnostic] = set()
        self.files: dict[str, bytes] = {}
        """The attachments of the run, by SHA-256."""
        self.placeholders: dict[str, Value] = {}
        """The secrets in their replies, by placeholder."""


class Runner:
    """One run: its shapes, its host, its listener and its counters."""

    def __init__(
        self,
        shapes: Mapping[type[Step], Shape],
        direct: Callable[..., StepResult | Pending[StepResult]],
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
        self.steps = progress if progress is not None else StepEvents(emit)
        """Gets the start and the end of each step. A progress folds them without making their events."""
        self.direct = direct if not dry and budget.limits.step_timeout is None else None
        """Calls a tool or an agent that needs nothing special: `direct.call_directly`."""
        self.reached: Frame | None = None
        """The frame after the last completed step of the outermost flow."""
        self.watched: dict[ev.StepPath, Frame] = {}
        """The same for called flows whose stores a definition shows while they wait, by the path of the call."""
        self.models = Models()
        self.whole: Any = None
        """Sends whole elements of fan-outs to workers, a `pool.WholeElements`; None: the run has no workers."""
        self.all_dropped: set[int] = set()
        """The steps that have warned that all their elements failed, by identity."""
        self.calls = 0
        """The number of tool calls (in a dry run: of calls that a real run would make)."""

    async def run_flow(self, scope: Scope, given: FlowInput) -> FlowResult:
        flow = scope.linked.flow
        frame, is_outermost = flow.start(given), _is_outermost(scope)
        for step in flow.body.steps:
            if is_outermost:
                self.reached = frame
            result = self.start_step(step, frame, scope, ())
            _, frame = await result.awaitable if type(result) is Pending else result
        self.reach(scope, frame)
        return flow.end(frame)

    def reach(self, scope: Scope, frame: Frame) -> None:
        """Remember the frame of the outermost flow, for a run that ends early (decision A17)."""
        if _is_outermost(scope):
            self.reached = frame
        elif scope.before in self.watched:
            self.watched[scope.before] = frame

    def start_step(
        self, step: Step, frame: Frame, scope: Scope, index: Index, attempt: int = 1
    ) -> StepResult | Pending[StepResult]:
        now = clock()
        if now - self.host.turned > TURN:
            return Pending(self._start_after_turn(step, frame, scope, index, attempt))
        at: ev.StepPath = scope.before + (step.id,) + index  # noqa: RUF005  # 0.08 µs (2 %) faster: mostly both are empty
        row = self.steps.start(at, now, attempt)
        if type(step) is Compute:  # without a `CallSite`, a tenth of it
            try:
                value = step.value.evaluate(frame)
                if step.target is not None:
                    frame = step.target.store(frame, finished((value, None, None, "finished")))
            except BaseException as error:
                return self.rescue(error, CallSite(self, step, frame, scope, index, at, row))
            self.steps.finish(row, at, clock(), value)
            return value, frame
        if type(step) is Invoke and self.direct is not None and not scope.meters:
            callee = scope.linked.direct.get(step.id)
            tools = scope.grant.tools
            if callee is not None and (tools is None or type(callee) is Agent or callee.name in tools):
                return self.direct(self, step, callee, frame, scope, index, at, row)
        site = CallSite(self, step, frame, scope, index, at, row)
        try:
            value = self.shapes[type(step)](site)
            if type(value) is Pending:
                return Pending(self.wait_for(value.awaitable, site))
            result = store_value(site, value)
        except BaseException as error:
            return self.rescue(error, site)
        self.steps.finish(row, at, clock(), result[0])
        return result

    def prepare_step(self, step: Step, scope: Scope) -> Callable[[Frame, Index], StepResult | Pending[StepResult]]:
        """`start_step` for a step that starts many times. All that is the same each time is looked up once."""
        direct, tools = self.direct, scope.grant.tools
        callee = scope.linked.direct.get(step.id) if direct is not None and not scope.meters else None
        if direct is None or callee is None or not (tools is None or type(callee) is Agent or callee.name in tools):
            return lambda frame, index: self.start_step(step, frame, scope, index)
        host, begin, path = self.host, self.steps.start, (*scope.before, step.id)
        row: Row | None = None

        def start(frame: Frame, index: Index) -> StepResult | Pending[StepResult]:
            nonlocal row
            now = clock()
            if now - host.turned > TURN:
                return self.start_step(step, frame, scope, index)
            at = path + index
            row = begin(at, now, 1, row)
            return direct(self, step, callee, frame, scope, index, at, row)

        return start

    async def wait_for(self, rest: Awaitable[Value], site: CallSite[Any]) -> StepResult:
        try:
            result = store_value(site, await rest)
        except BaseException as error:
            return self.rescue(error, site)
        self.steps.finish(site.row, site.at, clock(), result[0])
        return result

    async def _start_after_turn(self, step: Step, frame: Frame, scope: Scope, index: Index, attempt: int) -> StepResult:
        await self.host.turn()
        return await resolve(self.start_step(step, frame, scope, index, attempt))

    def fail_unstarted(
        self, error: StepError, step: Step, frame: Frame, scope: Scope, index: Index, attempt: int
    ) -> StepResult:
        """The result of a step that fails before anything of it runs, as `rescue`."""
        at: ev.StepPath = (*scope.before, step.id, *index)
        row = self.steps.start(at, clock(), attempt)
        return self.rescue(error, CallSite(self, step, frame, scope, index, at, row))

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
            if isinstance(error, StillRunning) and not error.reported:
                error.reported = True
                self.emit(ev.StepAbandoned(at, clock(), error.left_running))
            else:
                self.emit(ev.StepCancelled(at, clock()))
            return None
        if isinstance(error, StepError) and error.path is None:
            error.path, error.where = at, ev.format_path(at)
            self.secrets.error(error)
        self.emit(ev.StepFailed(at, clock(), error))
        if step.rescue is None or not is_rescuable(error):
            return None
        if self.journal is not None:
            self.journal.mark("rescued", site.key)
        value, frame = step.rescue(error), site.frame  # is_rescuable: it is a StepError
        if step.target is not None:
            frame = step.target.store(frame, Outcome(value, None, error, "failed"))  # type: ignore[arg-type]
        return value, frame


def _is_outermost(scope: Scope) -> bool:
    return not scope.before and not scope.concurrent and not scope.depth


def store_value(site: CallSite[Step], value: Value) -> StepResult:
    """Store the value of a shape where the step says."""
    frame, given, target = site.frame, None, site.step.target
    if type(value) is ShapeResult:
        value, given, left = value
        frame = frame if left is None else left
    if target is not None:
        frame = target.store(frame, finished((value, given, None, "finished")))
    return value, frame


def is_rescuable(error: BaseException) -> bool:
    """Whether ``on_error`` and ``rescue`` apply: to failures of steps, not to exceeded limits and open questions."""
    return isinstance(error, StepError) and not isinstance(error, (LimitReached, ev.Unanswered))
