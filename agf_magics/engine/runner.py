"""Run a step: emit its events, store its value, handle its failure.

A step returns a plain value and a frame. It becomes a coroutine only if it waits, because a coroutine for each step
would cost more than everything else in it (docs/benchmarks.md).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from ..flow.frame import FlowInput, FlowResult, Frame, Outcome, finished
from ..flow.steps import Step
from ..flow.values import Value
from ..host.calls import Pending, resolve
from ..host.host import TURN, Host, StillRunning
from ..host.limits import ANYTHING, Budget, Grant, LimitReached, Meter
from ..journal.recorder import Journal
from ..journal.records import CallKey
from ..progress import events as ev
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

    __slots__ = ("at", "frame", "index", "run", "scope", "step")

    def __init__(self, run: Runner, step: S, frame: Frame, scope: Scope, index: Index, at: ev.StepPath) -> None:
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
        return (id(self.scope.linked.flow), self.step.id) in self.run.secrets.steps

    def path_of(self, step: Step, *more: int) -> ev.StepPath:
        """The path of another step of this flow; ``more``: the numbers of further iterations around it."""
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


Shape = Callable[[CallSite[Any]], Value | Pending[Value]]
"""Runs a kind of step: returns a value, a ShapeResult or a Pending, or raises StepError."""


class Models:
    __slots__ = ("placeholders", "warned")

    def __init__(self) -> None:
        self.warned: set[Diagnostic] = set()
        self.placeholders: dict[str, Value] = {}
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
    ) -> None:
        self.shapes = shapes
        self.host = host
        self.emit = emit
        self.budget = budget
        self.dry = dry
        """Whether values made from schemas replace the calls of tools and agents."""
        self.journal = journal
        self.secrets = secrets if secrets is not None else Secrets()
        self.reached: Frame | None = None
        """The frame after the last completed step of the outermost flow."""
        self.models = Models()
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

    def start_step(
        self, step: Step, frame: Frame, scope: Scope, index: Index, attempt: int = 1
    ) -> StepResult | Pending[StepResult]:
        now = clock()
        if now - self.host.turned > TURN:
            return Pending(self._start_after_turn(step, frame, scope, index, attempt))
        at: ev.StepPath = scope.before + (step.id,) + index  # noqa: RUF005  # 0.08 µs (2 %) faster: mostly both are empty
        site = CallSite(self, step, frame, scope, index, at)
        self.emit(ev.started((at, now, attempt)))
        try:
            value = self.shapes[type(step)](site)
            if type(value) is Pending:
                return Pending(self._wait_for(value.awaitable, site))
            result = store_value(site, value)
        except BaseException as error:
            rescued = self.fail_step(error, site)
            if rescued is None:
                raise
            return rescued
        self.emit(ev.finished((at, clock(), result[0])))
        return result

    async def _wait_for(self, rest: Awaitable[Value], site: CallSite[Step]) -> StepResult:
        try:
            result = store_value(site, await rest)
        except BaseException as error:
            rescued = self.fail_step(error, site)
            if rescued is None:
                raise
            return rescued
        self.emit(ev.finished((site.at, clock(), result[0])))
        return result

    async def _start_after_turn(self, step: Step, frame: Frame, scope: Scope, index: Index, attempt: int) -> StepResult:
        await self.host.turn()
        return await resolve(self.start_step(step, frame, scope, index, attempt))

    def fail_step(self, error: BaseException, site: CallSite[Step]) -> StepResult | None:
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
        value, frame = step.rescue(error), site.frame  # type: ignore[arg-type]  # is_rescuable: it is a StepError
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
