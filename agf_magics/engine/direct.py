"""Direct calls: of tools that run on the engine's loop and need nothing but their arguments.

Most calls have nothing special: no permit, no secret, no time limit, no schema. The linker finds them, and
one function does for them what invoke.py, boundary.py, external.py and the host do in ten. That takes a third off an
element of a fan-out. Whatever goes wrong is left to those modules.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, final

from ..catalog import Tool
from ..flow.frame import Frame, finished
from ..flow.steps import Invoke
from ..flow.values import ATOMS, Value, isolate_parts
from ..host.calls import Pending, call_on_loop, then
from ..host.prints import printing
from ..journal.call_rows import StartedCall
from ..journal.errors import JournalError
from ..journal.recorder import Journal
from ..progress import events as ev
from ..progress.rows import Row
from ..text.diagnostics import StepError
from .boundary import checked_arguments
from .external import await_call, call_external, raise_durable, value_of_call, write_later
from .runner import CallSite, Index, Runner, Scope, ShapeResult, StepResult, clock, store_value
from .streaming import StepPrints, open_prints


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
            found = printing.get()
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


@final
class Returned(NamedTuple):
    """A call that has returned, and has no row yet."""

    site: CallSite[Invoke]
    call: StartedCall
    value: Value


def start_journaled(
    run: Runner, step: Invoke, tool: Tool, frame: Frame, scope: Scope, index: Index, at: ev.StepPath, row: Row | None
) -> Returned | StepResult | Pending[StepResult]:
    """`call_directly` in a run with a journal, which is not resumed and does not reuse results. The row of a call that
    has returned is left to the caller."""
    site = CallSite(run, step, frame, scope, index, at, row)
    assert run.journal is not None, "the caller has checked it"
    try:
        wanted = tool.accepts if step.offers or step.wants else None
        try:
            given = tool.arguments.validate(isolate_parts(step.args.build(frame, wanted)))
        except Exception:  # again, for an error that is readable and has a place
            given = checked_arguments(site, tool, wanted)
        run.calls += 1
        return _make_journaled(site, tool, given, run.journal)
    except BaseException as error:
        return run.rescue(error, site)


def _make_journaled(
    site: CallSite[Invoke], tool: Tool, given: dict[str, Value], journal: Journal
) -> Returned | StepResult | Pending[StepResult]:
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
    return tuple.__new__(Returned, (site, call, value))  # half of the time of Returned(…)


def _call_journaled(
    site: CallSite[Invoke], tool: Tool, given: dict[str, Value], journal: Journal
) -> StepResult | Pending[StepResult]:
    if journal.earlier is not None or journal.reuse is not None or not tool.reuse:  # perhaps it is not made at all
        return _stored(site, call_external(site, tool, "tool", given), given)
    made = _make_journaled(site, tool, given, journal)
    if type(made) is not Returned:
        return made
    _, call, value = made
    done = journal.returned(call, value, site.is_secret)
    if done is None:
        return _stored(site, Pending(journal.durable(None, value)) if journal.waits else value, given)
    return Pending(store_durable(site, journal, done, ShapeResult(value, given) if site.step.keeps else value))


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


async def store_durable(site: CallSite[Any], journal: Journal, done: asyncio.Future[None], value: Value) -> StepResult:
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
