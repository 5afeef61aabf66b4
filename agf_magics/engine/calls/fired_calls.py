"""Calls that their step does not await: they start once in a run, and may end after it (decision
C4)."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from ...flow.progress import events as ev
from ...flow.steps import Invoke
from ...journal.database.errors import JournalError
from ...journal.run_journal import Journal
from ...text.diagnostics import Diagnostic, StepError
from ..host.background_calls import start_background
from ..runner import CallSite, clock
from .failures import unrecorded_start
from .model_usage import count_again
from .step_prints import separate_prints

Work = Callable[[CallSite[Invoke]], Awaitable[object]]


async def fire(site: CallSite[Invoke], callee: object, arguments: Any, work: Work) -> None:
    """Start ``work(site)`` in the background, with a site that outlives the run, unless an earlier
    session of the run started it. ``callee`` and ``arguments``: those of the call, for the
    journal."""
    run = site.run
    journal = run.journal
    if journal is not None and not await _begin(site, journal, callee, arguments):
        run.emit(ev.StepReplayed(site.path, clock(), journal.run_id))
        count_again(site, journal.log.take_paid(site.key))
        return
    lasting = copy.copy(run)
    lasting.host = run.host.apart()
    # Concurrent, so that nothing of it needs the thread that waits for the run, which may be gone.
    scope = site.scope._replace(concurrent=True)
    fired = CallSite(lasting, site.step, site.frame, scope, site.index, site.path)
    start_background(_run_fired(fired, partial(work, fired)), run.host)


async def _begin(site: CallSite[Invoke], journal: Journal, callee: object, arguments: Any) -> bool:
    """Write that the call starts, before it does: a resumed run must not fire it again. Returns
    whether it starts now. Raises UnstoredError if that cannot be written."""
    try:
        return await journal.fire_once(site.step, callee, site.key, arguments)
    except JournalError as why:
        raise unrecorded_start(site.step, site.step.name.text or site.step.word, why) from None


async def _run_fired(site: CallSite[Invoke], work: Callable[[], Awaitable[object]]) -> None:
    """Do the work of a fired call, and emit its end, perhaps after the end of the run."""
    error: StepError | None = None
    # The task inherits the context of a step that may still print.
    separate_prints(site.run)
    try:
        await work()
    except StepError as failed:
        error = failed
    except asyncio.CancelledError:
        site.run.emit(ev.BackgroundCallEnded(site.path, clock(), _stopped_error(site.step)))
        raise
    site.run.emit(ev.BackgroundCallEnded(site.path, clock(), error))


def _stopped_error(step: Invoke) -> StepError:
    """The error of a fire-and-forget call that was cancelled."""
    message = f"{step.name.text or step.word!r} was cancelled before its end"
    return StepError(Diagnostic("run.cancelled", message, step.place))
