"""What every step has in common: where it runs, its two events, where its value goes.

A step's value and frame are plain values handed back, no object and no coroutine per step unless it waits: with its two
events a step costs a little more than a task of asyncio behind a semaphore (docs/benchmarks.md). How each shape runs is
in in_order.py, side_by_side.py, by_need.py, along_edges.py and invoke.py.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from ..flow.frame import FlowInput, FlowResult, Frame, Outcome, finished
from ..flow.steps import Step
from ..flow.values import Value
from ..host.calls import Pending, resolve
from ..host.host import TURN, Host, StillRunning
from ..host.limits import ANYTHING, Budget, Grant, LimitReached, Meter
from ..journal.recorder import Journal
from ..progress import events as ev
from ..secrets.masking import Secrets
from ..text.diagnostics import Diagnostic, StepError
from .linked import Linked

clock = time.monotonic


class Scope(NamedTuple):
    """Where steps run: the flow that is open, and what is around it."""

    linked: Linked
    before: ev.StepPath = ()
    """The moment of the step that opened this flow."""
    depth: int = 0
    """How many for_each scopes are open, through calls."""
    concurrent: bool = False
    """Whether anything can run at the same time: decided from the flow, not from the moment."""
    grant: Grant = ANYTHING
    calls: int = 0
    """How many flows and agents are open inside each other."""
    meters: tuple[Meter, ...] = ()
    """What the open definitions allow themselves, the outermost first."""
    tries: str = ""
    """Which attempts of what is around it, where they are not the first: see `journal.again`."""


Index = tuple[int, ...]
"""The elements and iterations around a step within its flow."""


class Models:
    """What a run knows of the models it has asked."""

    __slots__ = ("placeholders", "told")

    def __init__(self) -> None:
        self.told: set[Diagnostic] = set()
        """What was said of them already."""
        self.placeholders: dict[str, Value] = {}
        """The secrets that their replies held, by their placeholders."""


class ShapeResult(NamedTuple):
    """What a shape gives when it has more to say than a value."""

    value: Value
    given: Value = None
    """What its call was given."""
    frame: Frame | None = None
    """What its own steps left, for the steps after it."""


more: Callable[[tuple[Value, Value, Frame | None]], ShapeResult] = partial(tuple.__new__, ShapeResult)


Shape = Callable[["Runner", Any, Frame, Scope, Index], Value | Pending[Value]]
"""How a shape runs: its value, or More, or what is still to be waited for. Raises StepError; what is stored for the
steps after it is its target's business."""

StepResult = tuple[Value, Frame]
"""What a step came to: its value, and the frame it leaves."""


class Runner:
    """One run: the shapes, the host it borrows, the listener, what it has used."""

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
        """Tools and agents are not called: values made from their schemas answer."""
        self.journal = journal
        """None: nothing is kept."""
        self.secrets = secrets if secrets is not None else Secrets()
        """What its tools received as secret so far."""
        self.reached: Frame | None = None
        """What the outermost flow's last finished step left."""
        self.models = Models()
        self.calls = 0
        """Tool calls so far (a dry run's would-be calls)."""

    async def run_flow(self, scope: Scope, given: FlowInput) -> FlowResult:
        """Run an opened flow's steps in order."""
        flow = scope.linked.flow
        frame = flow.start(given)
        outermost = _is_outermost(scope)
        for step in flow.body.steps:
            if outermost:
                self.reached = frame
            left = self.start_step(step, frame, scope, ())
            _, frame = await left.awaitable if type(left) is Pending else left
        self.reach(scope, frame)
        return flow.end(frame)

    def reach(self, scope: Scope, frame: Frame) -> None:
        """Note what the outermost flow has come to: what is kept of a run that ends early (decision A17)."""
        if _is_outermost(scope):
            self.reached = frame

    def start_step(
        self, step: Step, frame: Frame, scope: Scope, index: Index, attempt: int = 1
    ) -> StepResult | Pending[StepResult]:
        """Run ``step`` once."""
        now = clock()
        if now - self.host.turned > TURN:
            return Pending(self._after_a_turn(step, frame, scope, index, attempt))
        at: ev.StepPath = scope.before + (step.id,) + index  # noqa: RUF005 - what is empty costs nothing so
        self.emit(ev.started((at, now, attempt)))
        try:
            value = self.shapes[type(step)](self, step, frame, scope, index)
            if type(value) is Pending:
                return Pending(self._to_its_end(value.awaitable, step, frame, scope, at))
            left = _left(step, frame, value)
        except BaseException as error:
            rescued = self._failed(error, step, frame, scope, at)
            if rescued is None:
                raise
            return rescued
        self.emit(ev.finished((at, clock(), left[0])))
        return left

    async def _to_its_end(
        self, rest: Awaitable[Value], step: Step, frame: Frame, scope: Scope, at: ev.StepPath
    ) -> StepResult:
        try:
            left = _left(step, frame, await rest)
        except BaseException as error:
            rescued = self._failed(error, step, frame, scope, at)
            if rescued is None:
                raise
            return rescued
        self.emit(ev.finished((at, clock(), left[0])))
        return left

    async def _after_a_turn(self, step: Step, frame: Frame, scope: Scope, index: Index, attempt: int) -> StepResult:
        await self.host.turn()
        return await resolve(self.start_step(step, frame, scope, index, attempt))

    def _failed(
        self, error: BaseException, step: Step, frame: Frame, scope: Scope, at: ev.StepPath
    ) -> StepResult | None:
        """Tell how it ended; what the step makes of its failure, where it keeps that like a value."""
        if isinstance(error, StillRunning):
            self.emit(
                ev.StepCancelled(at, clock()) if error.told else ev.StepAbandoned(at, clock(), error.left_running)
            )
            error.told = True
            return None
        if isinstance(error, asyncio.CancelledError):
            self.emit(ev.StepCancelled(at, clock()))
            return None
        if isinstance(error, StepError) and error.path is None:
            error.path, error.where = at, ev.format_path(at)
            self.secrets.error(error)
        self.emit(ev.StepFailed(at, clock(), error))
        if step.rescue is None or not is_rescuable(error):
            return None
        if self.journal is not None:
            self.journal.mark("rescued", at, scope.tries)
        value = step.rescue(error)  # type: ignore[arg-type]  # what is swallowed is a StepError
        if step.target is not None:
            frame = step.target.store(frame, Outcome(value, None, error, "failed"))  # type: ignore[arg-type]
        return value, frame


def _is_outermost(scope: Scope) -> bool:
    return not scope.before and not scope.concurrent and not scope.depth


def _left(step: Step, frame: Frame, value: Value) -> StepResult:
    """What is left of a step whose shape gave ``value``."""
    given = None
    if type(value) is ShapeResult:
        value, given, left = value
        frame = frame if left is None else left
    if step.target is not None:
        frame = step.target.store(frame, finished((value, given, None, "finished")))
    return value, frame


def is_rescuable(error: BaseException) -> bool:
    """Whether ``on_error`` and ``rescue`` may keep it: a step's failure, but no breached cap and no open question."""
    return isinstance(error, StepError) and not isinstance(error, (LimitReached, ev.Unanswered))
