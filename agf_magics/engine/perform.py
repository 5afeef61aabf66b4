"""What every step has in common: where it runs, its two events, where its value goes.

A step's value and frame are plain values handed back, no object per step: a linear step costs about 3 us with its two
events, and a fan-out item no more. How each shape runs is in in_order.py, side_by_side.py and invoke.py.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from ..flow.frame import Ended, Frame, Given, Outcome
from ..flow.steps import Step
from ..flow.values import Value
from ..text.diagnostics import StepError
from . import events as ev
from .host import TURN, Host, StillRunning
from .limits import ANYTHING, Budget, Grant
from .link import Linked

clock = time.monotonic


class Scope(NamedTuple):
    """Where steps run: the flow that is open, and what is around it."""

    linked: Linked
    before: ev.At = ()
    """The moment of the step that opened this flow."""
    depth: int = 0
    """How many for_each scopes are open, through calls."""
    beside: bool = False
    """Whether anything can run at the same time: decided from the flow, not from the moment."""
    grant: Grant = ANYTHING


Index = tuple[int, ...]
"""The elements and iterations around a step within its flow."""

Shape = Callable[["Performer", Any, Frame, Scope, Index], Awaitable[Value]]
"""How a shape runs: its value. Raises StepError; what it stores for the steps after it is its target's business."""


class Performer:
    """One run: the shapes, the host it borrows, the listener, what it has used."""

    def __init__(
        self,
        shapes: Mapping[type[Step], Shape],
        host: Host,
        emit: Callable[[ev.Event], None],
        budget: Budget,
        dry: bool = False,
    ) -> None:
        self.shapes = shapes
        self.host = host
        self.emit = emit
        self.budget = budget
        self.dry = dry
        """Tools and agents are not called: values made from their schemas answer."""
        self.reached: Frame | None = None
        """What the outermost flow's last finished step left."""
        self.calls = 0
        """Tool calls so far (a dry run's would-be calls)."""

    async def flow(self, scope: Scope, given: Given) -> Ended:
        """Run an opened flow's steps in order."""
        flow = scope.linked.flow
        frame = flow.start(given)
        for step in flow.body.steps:
            if not scope.before:
                self.reached = frame
            _, frame = await self.step(step, frame, scope, ())
        return flow.end(frame)

    async def step(self, step: Step, frame: Frame, scope: Scope, index: Index, attempt: int = 1) -> tuple[Value, Frame]:
        """Run ``step`` once; its value and the frame it leaves."""
        at = (*scope.before, step.id, *index)
        emit, now = self.emit, clock()
        if now - self.host.turned > TURN:
            await self.host.turn()
        emit(ev.StepStarted(at, now, attempt))
        try:
            value = await self.shapes[type(step)](self, step, frame, scope, index)
            if step.target is not None:
                frame = step.target.store(frame, Outcome(value))
        except StillRunning as stop:
            emit(ev.StepCancelled(at, clock()) if stop.told else ev.StepLeft(at, clock(), stop.left_running))
            stop.told = True
            raise
        except asyncio.CancelledError:
            emit(ev.StepCancelled(at, clock()))
            raise
        except BaseException as error:
            if isinstance(error, StepError) and error.at is None:
                error.at, error.where = at, ev.at_text(at)
            emit(ev.StepFailed(at, clock(), error))
            raise
        emit(ev.StepFinished(at, clock(), value))
        return value, frame
