"""Direct calls: of tools that run on the engine's loop and need nothing but their arguments.

Most calls have nothing special: no permit, no secret, no time limit, no schema. The linker finds them, and
one function does for them what invoke.py, boundary.py, external.py and the host do in ten. That takes a third off an
element of a fan-out. Whatever goes wrong is left to those modules.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ..catalog import Tool
from ..flow.frame import Frame, finished
from ..flow.steps import Invoke
from ..flow.values import ATOMS, Value, isolate_parts
from ..host.calls import Pending, call_on_loop, then
from ..host.prints import printing
from ..journal.errors import JournalError
from ..journal.recorder import Journal
from ..progress import events as ev
from ..progress.rows import Row
from ..text.diagnostics import StepError
from .boundary import checked_arguments
from .external import await_call, call_external, raise_durable, value_of_call, write_later
from .runner import CallSite, Index, Runner, Scope, ShapeResult, StepResult, clock, store_value
from .streaming import StepPrints, open_prints

_find_prints = printing.get
"""Bound once: Python makes the method of an imported object again for each call, 0.05 µs of an element."""


def call_directly(
    run: Runner, step: Invoke, tool: Tool, frame: Frame, scope: Scope, index: Index, at: ev.StepPath, row: Row | None
) -> StepResult | Pending[StepResult]:
    """Call the tool and store its value, as `Runner.start_step` does with `invoke`."""
    try:
        wanted = tool.accepts if step.offers or step.wants else None
        try:
            given = tool.arguments.validate(isolate_parts(step.args.build(frame, wanted)))
        except Exception:  # again, for an error that is readable and has a place
            given = checked_arguments(CallSite(run, step, frame, scope, index, at, row), tool, wanted)
        run.calls += 1
        if run.journal is not None:
            return _call_journaled(CallSite(run, step, frame, scope, index, at, row), tool, given, run.journal)
        prints: StepPrints | None = None
        if run.stream:
            found = _find_prints()
            if type(found) is StepPrints and found.at is None:  # as `open_prints`, without a call
                prints = found
                prints.at = at
            else:
                prints = open_prints(run, at)
        result = call_on_loop(tool.function, given, run.host.grace)
        if type(result) is Pending:
            site = CallSite(run, step, frame, scope, index, at, row)
            return _stored(site, Pending(await_call(site, result.awaitable, scope.grant, tool, "tool", prints)), given)
        if prints is not None:
            if prints.pieces:
                prints.end_now()
            prints.at = None
        value = result[1]
        if not result[0] or type(value) not in ATOMS:
            value = value_of_call(CallSite(run, step, frame, scope, index, at, row), result, tool, "tool")
        if step.target is not None:
            frame = step.target.store(frame, finished((value, given if step.keeps else None, None, "finished")))
    except BaseException as error:
        return run.rescue(error, CallSite(run, step, frame, scope, index, at, row))
    run.steps.finish(row, at, clock(), value)
    return value, frame


def _call_journaled(
    site: CallSite[Any], tool: Tool, given: dict[str, Value], journal: Journal
) -> StepResult | Pending[StepResult]:
    if journal.earlier is not None or journal.reuse is not None or not tool.reuse:  # perhaps it is not made at all
        return _stored(site, call_external(site, tool, "tool", given), given)
    run, step, scope = site.run, site.step, site.scope
    call = journal.start_call(step, tool, site.key, given, scope.linked.tools_of(step), scope.grant)
    prints = open_prints(run, site.at) if run.stream else None
    result = call_on_loop(tool.function, given, run.host.grace)
    if type(result) is Pending:
        rest = await_call(site, result.awaitable, scope.grant, tool, "tool", prints)
        return _stored(site, Pending(write_later(site, journal, call, rest)), given)
    if prints is not None:
        prints.end_now()
    value = result[1]
    if not result[0] or type(value) not in ATOMS:
        try:
            value = value_of_call(site, result, tool, "tool")
        except StepError as error:
            return _stored(site, Pending(raise_durable(journal, call, error)), given)
    done = journal.returned(call, value, site.is_secret)
    if done is None:
        return _stored(site, Pending(journal.durable(None, value)) if journal.waits else value, given)
    return Pending(_store_durable(site, journal, done, ShapeResult(value, given) if step.keeps else value))


def _stored(
    site: CallSite[Any], value: Value | Pending[Value], given: dict[str, Value]
) -> StepResult | Pending[StepResult]:
    """The value of a call, stored when it is known."""
    value = with_arguments(value, site.step, given)
    if type(value) is Pending:
        return Pending(site.run.wait_for(value.awaitable, site))
    result = store_value(site, value)
    site.run.steps.finish(site.row, site.at, clock(), result[0])
    return result


async def _store_durable(site: CallSite[Any], journal: Journal, done: asyncio.Future[None], value: Value) -> StepResult:
    """`Runner.wait_for` the value of a call whose row is ``done``, in one coroutine."""
    try:
        try:
            await done
        except JournalError as error:
            journal.not_written(error)
        result = store_value(site, value)
    except BaseException as error:
        return site.run.rescue(error, site)
    site.run.steps.finish(site.row, site.at, clock(), result[0])
    return result


def with_arguments(
    value: Value | Pending[Value], step: Invoke, given: dict[str, Value]
) -> Value | ShapeResult | Pending[Value | ShapeResult]:
    """The result of a call, with its arguments if the target of the step gets them."""
    return then(value, lambda value: ShapeResult(value, given)) if step.keeps else value
