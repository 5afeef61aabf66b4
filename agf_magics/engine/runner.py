"""`Runner`, the shared state of one run, which runs each step between its two events.

Every step is a coroutine that the task of the outer steps awaits. This costs 0.1 µs, where a task
would cost 3 µs, and a step that never waits needs no turn of the loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeGuard, TypeVar

from ..flow.progress import events as ev
from ..flow.progress.question import Unanswered, WrongAnswer
from ..flow.protocols import FlowInput, FlowResult, Frame, Outcome, finished
from ..flow.step import Step
from ..flow.step_path import StepPath, format_path
from ..journal.records.failures import UnstoredError
from ..journal.records.recorded_outcomes import NO_RECORDS, EarlierOutcomes
from ..journal.records.records import CallKey
from ..journal.run_journal import Journal
from ..journal.secrets.masking import Secrets
from ..limits.budgets import Budget, LimitReached, Meter
from ..limits.grants import ANYTHING, Grant
from ..limits.limits import Limits
from ..text.diagnostics import Diagnostic, StepError
from ..text.source import Span
from ..values.extent import CONTAINERS, Extents, TooDeep
from ..values.large import LargeValues
from ..values.unread import LostError
from ..values.value import Value
from .ended_rows import EndedRows
from .host.host import TURN, Host
from .linking.linked import Linked
from .run_options import RunOptions
from .threads.user_code import StillRunning

clock = time.monotonic
"""The clock of all events of a run."""

Index = tuple[int, ...]
"""The numbers of the elements and iterations around a step, within its flow."""

StepResult = tuple[Value, Frame]
"""The value of a step and the frame for the steps after it."""

S = TypeVar("S", bound=Step)


class Scope(NamedTuple):
    """The flow that contains the steps, and its surroundings in the run."""

    linked: Linked
    """The flow."""
    before: StepPath = ()
    """The path of the step that called this flow."""
    depth: int = 0
    """The number of open for_each scopes, through calls."""
    concurrent: bool = False
    """Whether other steps may run at the same time. The structure of the flow decides this, not the
    current moment."""
    grant: Grant = ANYTHING
    """What the steps may use."""
    calls: int = 0
    """The number of flows and agents that call each other down to here."""
    meters: tuple[Meter, ...] = ()
    """The counters of the open definitions with their own limits, outermost first."""
    tries: str = ""
    """The repeated attempts around the steps, in the form of `CallKey.tries`."""


class CallSite(Generic[S]):
    """One execution of a step. It never changes, but is not a NamedTuple, which would take 60 %
    longer to create."""

    __slots__ = ("frame", "index", "path", "run", "scope", "step")

    def __init__(
        self,
        run: Runner,
        step: S,
        frame: Frame,
        scope: Scope,
        index: Index,
        path: StepPath,
    ) -> None:
        self.run = run
        self.step = step
        self.frame = frame
        """The frame that the step sees."""
        self.scope = scope
        self.index = index
        self.path = path
        """The path of the execution through all flows, with the numbers of elements."""

    @property
    def key(self) -> CallKey:
        """The name of this execution in the journal."""
        return CallKey(self.path, self.scope.tries)

    def gives_secret(self, value: Value) -> bool:
        """Whether ``value``, that of the step, feeds a secret argument."""
        secrets = self.run.secrets
        if not secrets.steps and not secrets.keys:  # nearly always
            return False
        step = (id(self.scope.linked.flow), self.step.id)
        keys = secrets.keys.get(step, frozenset())
        return step in secrets.steps or (isinstance(value, dict) and bool(value.keys() & keys))

    def path_of(self, step: Step, *more: int) -> StepPath:
        """The path of another step of this flow. ``more``: the numbers of further iterations around
        that step."""
        return (*self.scope.before, step.id, *self.index, *more)

    def with_step(self, step: S) -> CallSite[S]:
        return CallSite(self.run, step, self.frame, self.scope, self.index, self.path)

    def with_scope(self, scope: Scope) -> CallSite[S]:
        return CallSite(self.run, self.step, self.frame, scope, self.index, self.path)


class ShapeResult(NamedTuple):
    """The result of a shape that returns more than a value."""

    value: Value
    arguments: Value = None
    """The arguments of its call; None: the step does not keep them."""
    frame: Frame | None = None
    """The frame for later steps, if the steps of the shape have changed it; None: they have not."""


Shape = Callable[[CallSite[Any]], Awaitable[Value]]
"""A function that runs a kind of step. It returns a value or a ShapeResult, or raises StepError."""


@dataclass(slots=True, eq=False)
class Models:
    """The data that the models of a run share."""

    files: dict[str, bytes] = field(default_factory=dict)
    """The attachments of the run, by SHA-256."""
    placeholders: dict[str, Value] = field(default_factory=dict)
    """The secrets in the models' replies, by placeholder."""


@dataclass(slots=True, eq=False)
class RunCounts:
    """What a run has done so far, all rows of a table together."""

    calls: int = 0
    """The number of tool calls, with those of its earlier sessions; in a dry run, of the calls that
    a real run would make at least."""
    sessions: int = 0
    """The number of agent sessions; in a dry run, of those that a real run would open at least."""
    rows: EndedRows = field(default_factory=EndedRows)
    """The rows of a table that have ended."""


class Runner:
    """One run: its shapes, its host, its listener and its counters."""

    def __init__(
        self,
        shapes: Mapping[type[Step], Shape],
        options: RunOptions,
        host: Host,
        emit: Callable[[ev.Event], None],
        journal: Journal | None = None,
        secrets: Secrets | None = None,
        on_frame: Callable[[Frame], None] | None = None,
        counts: RunCounts | None = None,
    ) -> None:
        self.shapes = shapes
        self.options = options
        self.host = host
        self.emit = emit
        self.budget = options.budget or Budget(options.limits or Limits())
        """The budget of the run. Each row of a table has its own."""
        self.journal = journal
        self.stream = options.stream or options.shown
        """Whether the run is watched, so that replies and prints are emitted as they arrive."""
        self.secrets = secrets if secrets is not None else Secrets()
        self.reached: Frame | None = None
        """The frame after the last completed step of the outermost flow; None: none has
        completed."""
        self.on_frame = on_frame
        """Is called with each frame that the outermost flow reaches."""
        self.watched: dict[StepPath, Frame] = {}
        """The called flows whose stores are shown while they wait for an answer, by the path of the
        call."""
        self.models = Models()
        self.large = LargeValues()
        """The large values of the run, of which the journal stores one copy."""
        self.extents = Extents()
        """The checked extents of the run's values."""
        if journal is not None:
            journal.rows.large = self.large
        self.read_once: dict[int, tuple[Value, str]] = {}
        """The values of calls that can be read only once, each with the tool that got it first, by
        their ids."""
        self.warned: set[object] = set()
        """The keys of the warnings that `warn_once` has emitted."""
        self.counts = counts if counts is not None else RunCounts()

    @property
    def log(self) -> EarlierOutcomes:
        """The outcomes of earlier sessions of this run; empty without a journal."""
        return NO_RECORDS if self.journal is None else self.journal.log

    @property
    def has_unread(self) -> bool:
        """Whether the run may have unread values of an earlier session."""
        return self.journal is not None and bool(self.journal.unread)

    def mark(self, mark: str, key: CallKey, error: BaseException | None = None) -> None:
        """Journal the event ``mark``, if the run has a journal (see `Journal.mark`)."""
        if self.journal is not None:
            self.journal.mark(mark, key, error)

    def open_session(self, span: Span | None) -> None:
        """Count an agent session. Raises LimitReached if the run or the row may have no more."""
        self.budget.spawn(span)
        self.counts.sessions += 1

    def warn_once(self, warning: Diagnostic, about: object) -> None:
        """Emit a warning once in a run. ``about``: the key of the warning, because its text may
        vary."""
        # Fifty requests to the same server would repeat the same warning.
        if about not in self.warned:
            self.warned.add(about)
            self.emit(ev.Warned(clock(), warning))

    async def run_flow(self, scope: Scope, flow_input: FlowInput) -> FlowResult:
        """Run the flow of ``scope`` with its input, step by step."""
        flow = scope.linked.flow
        frame = flow.start(flow_input)
        is_outermost = _is_outermost(scope)
        for step in flow.body.steps:
            if is_outermost:
                self.reach(scope, frame)
            _, frame = await self.run_step(step, frame, scope, ())
        self.reach(scope, frame)
        return flow.end(frame)

    def reach(self, scope: Scope, frame: Frame) -> None:
        """Remember the frame of the outermost flow, for a run that ends early (decision A17), or of
        a called flow in `watched`."""
        if _is_outermost(scope):
            self.reached = frame
            if self.on_frame is not None:
                self.on_frame(frame)
        elif scope.before in self.watched:
            self.watched[scope.before] = frame

    async def run_step(
        self, step: Step, frame: Frame, scope: Scope, index: Index, attempt: int = 1
    ) -> StepResult:
        """Run one step, between its two events. Raises its failure unless it rescues it."""
        # Steps that never wait would keep the loop from its timers (time limits, cancellations) and
        # from other runs, so the loop gets a turn now and then.
        if clock() - self.host.turned > TURN:
            await self.host.turn()
        path: StepPath = (*scope.before, step.id, *index)
        site = CallSite(self, step, frame, scope, index, path)
        self.emit(ev.StepStarted(path, clock(), attempt))
        try:
            value, frame = store_value(site, await self.shapes[type(step)](site))
        # Catch everything, because each start has exactly one end, even for a cancelled step or a
        # bug.
        except BaseException as error:
            return self.rescue(error, site)
        self.emit(ev.StepFinished(path, clock(), value))
        return value, frame

    def fail_unstarted(
        self, error: StepError, step: Step, frame: Frame, scope: Scope, index: Index, attempt: int
    ) -> StepResult:
        """The result of a step that fails before it starts to run, as `rescue` returns it."""
        path: StepPath = (*scope.before, step.id, *index)
        self.emit(ev.StepStarted(path, clock(), attempt))
        return self.rescue(error, CallSite(self, step, frame, scope, index, path))

    def rescue(self, error: BaseException, site: CallSite[Any]) -> StepResult:
        """The result of a failed step that rescues its failure. Raises ``error`` otherwise."""
        rescued = self.fail_step(error, site)
        if rescued is None:
            raise error
        return rescued

    def _late_end(self, path: StepPath) -> Callable[[], None]:
        """Emits that a call that was left running has ended; called on any thread."""
        loop = asyncio.get_running_loop()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop has ended before the call
                loop.call_soon_threadsafe(lambda: self.emit(ev.AbandonedCallEnded(path, clock())))

        return tell

    def fail_step(self, error: BaseException, site: CallSite[Any]) -> StepResult | None:
        """Emit the failure of a step. Returns a result if the step rescues its failure."""
        path = site.path
        step = site.step
        if isinstance(error, asyncio.CancelledError):
            # The error passes every step around the call. Only the innermost one is abandoned.
            if isinstance(error, StillRunning) and not error.reported:
                error.reported = True
                self.emit(ev.StepAbandoned(path, clock(), error.left_running))
                if error.when_ended is not None:
                    error.when_ended(self._late_end(path))
            else:
                self.emit(ev.StepCancelled(path, clock()))
            return None
        # Set only by the innermost step, which is the one that failed.
        if isinstance(error, StepError) and error.path is None:
            error.path, error.where = path, format_path(path)
            # Set before a listener or the journal gets the error.
            self.secrets.error(error)
        self.emit(ev.StepFailed(path, clock(), error))
        if step.rescue is None or not is_rescuable(error):
            return None
        # Journaled before the frame is stored: a resumed run must rescue the same failure.
        self.mark("rescued", site.key)
        value = step.rescue(error)
        frame = site.frame
        if step.target is not None:
            frame = step.target.store(frame, Outcome(value, None, error, "failed"))
        return value, frame


def _is_outermost(scope: Scope) -> bool:
    """Whether the frames of ``scope`` are those of the run: not of a called flow, an element or a
    branch."""
    return not scope.before and not scope.concurrent and not scope.depth


def store_value(site: CallSite[Step], value: Value) -> StepResult:
    """Store the value of a step in its target."""
    frame = site.frame
    arguments = None
    target = site.step.target
    if type(value) is ShapeResult:
        value, arguments, changed_frame = value
        frame = frame if changed_frame is None else changed_frame
    if type(value) in CONTAINERS:
        check_extent(site, value)
    if target is not None:
        frame = target.store(frame, finished((value, arguments, None, "finished")))
    return value, frame


def check_extent(site: CallSite[Step], value: Value) -> None:
    """Raise StepError if ``value`` has too many parts: later readers would visit all of them
    (decision D170)."""
    try:
        site.run.extents.check(value)
    except TooDeep as error:
        message = f"the value of {site.step.word or 'the step'!r} cannot be used: {error}"
        span = getattr(site.step, "place", None) or site.step.span
        hint = "keep each part once, or let a tool return what the next step needs of it"
        raise StepError(Diagnostic("step.too-deep", message, span, hint)) from None


ENDS_RUN = (LimitReached, Unanswered, WrongAnswer, UnstoredError, LostError)
"""The errors that end the run in which they occur."""


def is_rescuable(error: BaseException) -> TypeGuard[StepError]:
    """Whether ``on_error`` and ``rescue`` apply to ``error``. They apply to failures of steps, but
    not to exceeded limits, open questions, wrong answers, unknown names, and values that the
    journal cannot store or has lost."""
    return (
        isinstance(error, StepError)
        and not error.is_unknown_name
        and not isinstance(error, ENDS_RUN)
    )
