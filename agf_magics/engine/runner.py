"""Run a step: emit its events, store its value, handle its failure.

Every step is a coroutine, awaited by the task that runs the steps around it: 0.1 µs each, where a
task costs 3 µs. So a step that never waits needs no turn of the loop.

The replies of models and the prints of user code as events, while they arrive.

Only a watched run has them. Texts are gathered: a view shows ten changes a second, and an event
costs as much as a step. Secrets are masked before they leave the engine, also one that arrives in
two pieces: the end of a text waits as long as it could be the beginning of a secret.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ..catalog import MASK, Delta, Part, Tool
from ..flow import events as ev
from ..flow.progress import Progress
from ..flow.step import FlowInput, FlowResult, Frame, Outcome, Step, finished
from ..flow.steps import Invoke
from ..flow.values import LargeValues, Value
from ..journal.recorder import Journal
from ..journal.records import CallKey, RecordedOutcome
from ..journal.secrets import Secrets
from ..text.diagnostics import Diagnostic, StepError
from .host import TURN, Host
from .limits import ANYTHING, Budget, Grant, LimitReached, Meter
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


class Models:
    __slots__ = ("files", "placeholders", "warned")

    def __init__(self) -> None:
        self.warned = set[object]()
        self.files: dict[str, bytes] = {}
        """The attachments of the run, by SHA-256."""
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
        self.all_dropped: set[int] = set()
        """The steps that have warned that all their elements failed, by identity."""
        self.calls = 0
        """The number of tool calls (in a dry run: of calls that a real run would make)."""

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
        if self.journal is not None:
            # Before the frame is stored: a resumed run must rescue what this one has rescued.
            self.journal.mark("rescued", site.key)
        value, frame = step.rescue(error), site.frame  # is_rescuable: it is a StepError
        if step.target is not None:
            frame = step.target.store(frame, Outcome(value, None, error, "failed"))  # type: ignore[arg-type]
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


def is_rescuable(error: BaseException) -> bool:
    """Whether ``on_error`` and ``rescue`` apply: to failures of steps, not to exceeded limits, open
    questions and unknown names."""
    return (
        isinstance(error, StepError)
        and not error.is_unknown_name
        and not isinstance(error, (LimitReached, ev.Unanswered))
    )


EVERY = 0.1
"""Seconds between two events of a part."""


class ReplyStream:
    """Emits what `hear` gets. Used as a context around one attempt of a request, on the engine's
    loop."""

    def __init__(
        self, run: Runner, at: ev.StepPath, attempt: int, tools: Mapping[str, Any]
    ) -> None:
        """``tools``: those that the model was offered, by their names."""
        self._run, self._at, self._attempt = run, at, attempt
        self._tools = tools
        self._has_secrets = any(isinstance(tool, Tool) and tool.secret for tool in tools.values())
        self._pending: dict[Part, str] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._masked = False
        """Whether the arguments of the open call are masked already."""

    def __enter__(self) -> ReplyStream:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._emit(is_end=True)

    def hear(self, delta: Delta) -> None:
        text = delta.text
        if delta.tool == "":
            self._masked = False
        elif text and self._may_be_secret(delta.tool):
            text, self._masked = "" if self._masked else MASK, True
        if text:
            self._pending[delta.part] = self._pending.get(delta.part, "") + text
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(EVERY, self._flush)

    def _may_be_secret(self, tool: str | None) -> bool:
        """Whether the arguments of a call may have a secret, which is known only when they are
        complete."""
        callee = self._tools.get(tool or "")
        return (
            bool(callee.secret)
            if isinstance(callee, Tool)
            else self._has_secrets and callee is None
        )

    def _flush(self) -> None:
        self._timer = None
        self._emit()

    def _emit(self, is_end: bool = False) -> None:
        for part, text in self._pending.copy().items():
            shown, self._pending[part] = _split(self._run, text, is_end)
            if shown:
                self._run.emit(ev.ModelText(self._at, clock(), self._attempt, part, shown))


NEVER: ev.StepPath = ()


class StepPrints:
    """Emits what the user code of a call prints, on any thread.

    Each call has its own. Tasks that the call has started keep it, and it then emits nothing.
    """

    __slots__ = ("_is_waiting", "_loop", "_pending", "_run", "at", "pieces")

    def __init__(self, run: Runner, loop: asyncio.AbstractEventLoop) -> None:
        self._run, self._loop = run, loop
        self.at: ev.StepPath | None = None
        """The path of the call; `NEVER`: it has ended."""
        self.pieces: list[str] = []
        """The texts since the last event."""
        self._pending = ""
        self._is_waiting = False

    def add(self, text: str) -> None:
        if not self.at:  # the call has ended
            return
        self.pieces.append(text)
        if not self._is_waiting:
            self._is_waiting = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                # A tool prints on any thread; `call_later` alone is only for the thread of the
                # loop.
                self._loop.call_soon_threadsafe(self._loop.call_later, EVERY, self._flush)

    def close(self) -> None:
        """Emit the rest."""
        if self.pieces or self._pending:
            self._emit(is_end=True)
        self.at = NEVER

    def _flush(self) -> None:
        self._is_waiting = False  # first: a print from now on needs a turn of its own
        self._emit()

    def _emit(self, is_end: bool = False) -> None:
        if not self.at:
            return
        pieces = self.pieces
        count = len(pieces)  # another thread may append meanwhile
        text = "".join(pieces[:count])
        del pieces[:count]
        shown, self._pending = _split(self._run, self._pending + text, is_end)
        if shown:
            outer = printing.set(None)  # a listener that prints does not do it for the call
            try:
                self._run.emit(ev.StepPrinted(self.at, clock(), shown))
            finally:
                printing.reset(outer)


def open_prints(run: Runner, at: ev.StepPath) -> StepPrints:
    """Let the code that this task calls from now on print for the step ``at``, until
    `StepPrints.close`."""
    prints = StepPrints(run, asyncio.get_running_loop())
    # Not reset: tasks that the call starts keep it, and after `close` it emits nothing.
    printing.set(prints)
    prints.at = at
    return prints


def separate_prints(run: Runner) -> None:
    """Let this task share no `StepPrints` with the task that started it."""
    if run.stream:
        printing.set(None)


def _split(run: Runner, text: str, is_end: bool) -> tuple[str, str]:
    """The beginning of ``text`` that can be shown, masked, and the rest."""
    # The end may be the beginning of a secret whose rest is in the next piece.
    length = len(text) if is_end else run.secrets.maskable(text)
    return "" if run.secrets.blind else run.secrets.text(text[:length]), text[length:]
