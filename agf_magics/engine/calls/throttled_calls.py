"""A call of a tool that has a rate or a retry: it waits for its turn, and is made again."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from ...catalog import Throttle, asked_pause
from ...catalog.tools.throttle import WhenEnded, pause_after, reason, repeats
from ...flow.progress import events as ev
from ...flow.steps import Invoke
from ...text.diagnostics import Diagnostic
from ..runner import CallSite, clock
from ..threads.user_code import LeftRunning, Result, StillRunning


async def repeat_throttled(
    site: CallSite[Invoke], name: str, throttle: Throttle, make: Callable[[], Awaitable[Result]]
) -> Result:
    """The result of ``make()``, repeated as the tool wants it, each time when its turn has come."""
    gate, retry = throttle
    for attempt in itertools.count(1):
        result = await gate.pass_through(make, _goes_on)
        ok, error = result
        if ok or retry is None or attempt > retry.times or not repeats(retry, error):
            return result
        asked_for = asked_pause(error)
        why = reason(error)
        if asked_for is not None and asked_for > retry.most:
            message = (
                f"tool {name!r} is not called again: its server asks to wait {asked_for:,.0f} s "
                f"({why}), and its Retry waits at most {retry.most:g} s"
            )
            warning = Diagnostic("tool.retried", message, severity="warning")
            site.run.warn_once(warning, ("too long", name))
            return result
        pause = pause_after(retry, attempt) if asked_for is None else asked_for
        if asked_for is not None:
            gate.pause(pause)
        again = f"again in {pause:.1f} s ({why})"
        site.run.emit(ev.Progressed(site.path, clock(), text=again))
        message = f"tool {name!r} failed and was called again: {why}"
        warning = Diagnostic("tool.retried", message, severity="warning")
        site.run.warn_once(warning, ("again", name))
        await asyncio.sleep(pause)
        site.run.emit(ev.Progressed(site.path, clock()))
    raise AssertionError("the count has no end")


def _goes_on(outcome: object) -> WhenEnded | None:
    """Tells the end of a call that was left running; None: the call with this result or exception
    has ended."""
    error: Any = outcome[1] if isinstance(outcome, tuple) else outcome
    # By its type: an exception of the person may refuse to be asked for its class.
    return error.when_ended if issubclass(type(error), LeftRunning | StillRunning) else None
