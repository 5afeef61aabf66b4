"""Chunks of elements in flight, and the failures of elements without an answer."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..engine.runner import clock
from ..flow.steps import Invoke, Step
from ..host.calls import TimedOut
from ..text.diagnostics import Diagnostic, StepError
from ..text.source import Source
from .backend import Cancel, Lost, WorkerBackend
from .element_chunk import body_name, run_elements
from .lacks import is_here, lacking_module
from .outcomes import NO_SIGN, worker_lost
from .program import version_of_workers
from .queue import KERNEL, RESULT

FORCE = 1.0
"""Seconds in which the worker of a chunk that did not end in time is ended."""

Landed = asyncio.Queue[tuple["ElementFlight", Any]]
"""The chunks that are back, with their outcomes."""


class Sent:
    """What all chunks of a fan-out share."""

    def __init__(
        self,
        program: bytes,
        sources: Sequence[Source],
        modules: Sequence[str],
        limit: float | None,
    ) -> None:
        """``limit``: seconds that each call of an element may take; None: one has no limit."""
        self.program, self.sources, self.modules = program, sources, modules
        self.limit = limit
        self.digest = hashlib.sha256(program).hexdigest()


class ElementFlight:
    """A chunk of elements."""

    def __init__(
        self, landed: Landed, sent: Sent, numbers: list[int], given: bytes, is_suspect: bool
    ) -> None:
        """``given``: the pickled numbers and elements; ``is_suspect``: their worker was lost
        before."""
        self.landed, self.numbers, self.weight = landed, numbers, len(given)
        self.run: Callable[..., Any] = run_elements
        options = {
            "kernel": KERNEL,
            "version": version_of_workers(),
            "most": RESULT,
            "timeout": sent.limit,
        }
        self.order: tuple[Any, ...] = (sent.program, sent.digest, given, len(numbers), options)
        self.shared = False
        self.is_suspect = is_suspect
        self.cancel: Cancel = _nothing
        self.when = clock()

    def land(self, outcome: Any) -> None:
        self.landed.put_nowait((self, outcome))


async def stopped(
    flights: Iterable[ElementFlight], landed: Landed, backend: WorkerBackend, grace: float
) -> dict[ElementFlight, None]:
    """Cancel chunks, and wait until they have landed, at most ``grace`` seconds; then end their
    workers, if the backend may. Returns those that are left running. A second cancellation of this
    task ends the waiting."""
    running = dict.fromkeys(flights)
    for flight in running:
        flight.cancel()
    waited = await _wait(running, landed, grace)
    if running and waited and getattr(backend, "kills", False):
        for flight in running:
            flight.cancel()
        await _wait(running, landed, FORCE)
    return running


async def _wait(flights: dict[ElementFlight, None], landed: Landed, seconds: float) -> bool:
    """Wait until chunks have landed, and remove these. Returns False if this task was cancelled
    meanwhile."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while flights:
        # Before CPython 3.12, `asyncio.timeout` raises no TimeoutError in a task that was cancelled
        # before.
        next_one = loop.create_task(landed.get())
        try:
            await asyncio.wait([next_one], timeout=max(0.0, until - loop.time()))
        except asyncio.CancelledError:
            next_one.cancel()
            return False
        if not next_one.done():
            next_one.cancel()
            return True
        flights.pop(next_one.result()[0], None)
    return True


def is_refused(outcome: Any) -> bool:
    return type(outcome) is tuple and len(outcome) == 5 and outcome[0] == "no"


def damaged_answer(body: Step, workers: str, error: BaseException) -> Diagnostic:
    """The failure of elements whose answer cannot be used."""
    name, span = body_name(body)
    message = f"{workers} returned an answer for {name!r} that cannot be used: {error}"[:500]
    hint = (
        "the workers may have another version of this package, or of a library: install the "
        "same versions there"
    )
    return Diagnostic("step.worker-answer", message, span, hint)


def explained(error: StepError, body: Step, workers: str) -> StepError:
    """A failure of a worker; if a module is missing there that this process has, it says so."""
    cause, found = error.__cause__, error.diagnostic
    if (
        found.code == "step.tool-failed"
        and isinstance(cause, ModuleNotFoundError)
        and is_here(cause)
    ):
        error.diagnostics = (
            replace(lacking_module(body_name(body)[0], workers, cause), span=found.span),
        )
    return error


def element_lost(body: Step, losses: Sequence[str], lost: Lost) -> Diagnostic:
    """The failure of an element whose worker was lost: see `outcomes.worker_lost`."""
    name, span = body_name(body)
    if lost.late is not None and not lost.gone:
        message = f"{name!r} {TimedOut(lost.late, NO_SIGN)}"
        hint = "timeout= of @tool, or step_timeout, sets how long a call may take"
        return Diagnostic("step.timeout", message, span, hint)
    what = "call" if isinstance(body, Invoke) else "element"
    return replace(worker_lost(name, what, losses or [str(lost)], lost.gone), span=span)


def _nothing() -> None:
    pass
