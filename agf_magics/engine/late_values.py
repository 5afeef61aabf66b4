"""Calls of a resumed run whose values are read when somebody needs them.

Such a call is not even built: its arguments may be values that nobody needs any more. If its value
is lost when another call needs it, the call is made again then, with the frame that it had.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from ..catalog import Tool, Transform
from ..flow.progress import events as ev
from ..flow.steps import Invoke
from ..values.unread import LostError, Unread
from ..values.value import Value
from .host.placement import has_effect
from .runner import CallSite, clock

T = TypeVar("T")
C = TypeVar("C", Tool, Transform)


@dataclass(slots=True, eq=False)
class _Again:
    """A call that can be made again."""

    call: Callable[[], Awaitable[Value]]
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


def late_value(
    site: CallSite[Invoke], callee: C, call: Callable[[CallSite[Invoke], C], Awaitable[Value]]
) -> Unread | None:
    """The value that this call returned in an earlier session, which is not read yet. None: there is
    none, or the step looks at the arguments or the value. ``call``: makes the call."""
    run, step, journal = site.run, site.step, site.run.journal
    if journal is None or not journal.unread.has(site.key):
        return None
    looks = (
        step.gives is not None
        or step.permit is not None
        or step.exchange.keep_arguments
        or not step.awaited
        or run.options.recording is not None
    )
    if looks or not _may_call(site, callee):
        return None
    unread = journal.unread.take(site.key)
    if unread is None:
        return None
    if type(callee) is Tool:
        for meter in site.scope.meters:
            meter.tool()
        run.calls += 1
    run.emit(ev.StepReplayed(site.at, clock(), journal.run_id))
    unread.make_again = unread.make_again or _Again(partial(call, site, callee))
    return unread


def _may_call(site: CallSite[Invoke], callee: Tool | Transform) -> bool:
    """Whether nothing of the call has to be looked at."""
    if type(callee) is not Tool:
        return True
    if callee.secret or not site.scope.grant.allows(callee.name):
        return False
    return not has_effect(callee) or ("begun", site.key) in site.run.log.marks


async def make_again(lost: LostError) -> None:
    """Make the call again whose value is lost. Raises the failure of the call, and ``lost`` if there
    is no such call."""
    unread = lost.unread
    again: _Again | None = unread.make_again if unread is not None else None
    if unread is None or again is None:
        raise lost
    # Another step may need it at the same time: all have one object.
    async with again.lock:
        while unread.make_again is again:
            try:
                unread.put(await again.call())
            except LostError as its:  # an argument of that call is lost too
                await make_again(its)


async def when_read(read: Callable[[], T]) -> T:
    """``read()``, which reads values; the calls of those that are lost are made again."""
    while True:
        try:
            return read()
        except LostError as lost:
            await make_again(lost)
