"""Direct calls: of tools and agents that run on the engine's loop and need nothing but their arguments.

Most calls have nothing special: no permit, no secret, no time limit, no schema. The linker finds them, and
one function does for them what invoke.py, boundary.py, external.py and the host do in ten. That takes a third off an
element of a fan-out. Whatever goes wrong is left to those modules.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple, final

from ..catalog import Agent, Tool
from ..flow.frame import Frame, finished
from ..flow.steps import Invoke
from ..flow.values import ATOMS, Value, isolate_parts
from ..host.calls import Pending, Result, call_on_loop, then
from ..host.limits import Grant, granted
from ..host.prints import printing
from ..journal.call_rows import StartedCall
from ..journal.errors import JournalError
from ..journal.recorder import Journal
from ..progress import events as ev
from ..progress.rows import Row
from ..text.diagnostics import StepError
from .agents import prepare_direct
from .boundary import checked_arguments
from .effects import has_effect
from .external import await_call, call_external, raise_durable, value_of_call, write_later
from .runner import CallSite, Index, Runner, Scope, ShapeResult, StepResult, clock, store_value
from .streaming import StepPrints, open_prints

WHAT = {Tool: "tool", Agent: "agent"}
"""The kinds of callees, for messages and codes."""

CallResult = Result | Pending[Result]


def call_directly(
    run: Runner, step: Invoke, callee: Tool | Agent, frame: Frame, scope: Scope, index: Index, at: ev.StepPath,
    row: Row | None,
) -> StepResult | Pending[StepResult]:  # fmt: skip
    """Call the tool or the agent and store its value, as `Runner.start_step` does with `invoke`."""
    grant = scope.grant
    try:
        if isinstance(callee, Tool):
            wanted = callee.accepts if step.offers or step.wants else None
            try:
                given = kept = callee.arguments.validate(isolate_parts(step.args.build(frame, wanted)))
            except Exception:  # again, for an error that is readable and has a place
                given = kept = checked_arguments(CallSite(run, step, frame, scope, index, at, row), callee, wanted)
            run.calls += 1
        else:
            given, kept, grant = prepare_direct(run, step, callee, frame, scope)
        if run.journal is not None:
            site = CallSite(run, step, frame, scope, index, at, row)
            return _call_journaled(site, callee, given, kept, grant, run.journal)
        prints: StepPrints | None = None
        if run.stream:
            found = printing.get()
            if type(found) is StepPrints and found.at is None:  # as `open_prints`, without a call
                prints = found
                prints.at = at
            else:
                prints = open_prints(run, at)
        if grant is granted.get():
            result = call_on_loop(callee.function, given, run.host.grace)
        else:
            result = _call_under(grant, callee.function, given, run.host.grace)
        if type(result) is Pending:
            site = CallSite(run, step, frame, scope, index, at, row)
            rest = await_call(site, result.awaitable, grant, callee, WHAT[type(callee)], prints)
            return _stored(site, Pending(rest), kept)
        if prints is not None:
            if prints.pieces:
                prints.end_now()
            prints.at = None
        value = result[1]
        if not result[0] or type(value) not in ATOMS:
            value = value_of_call(CallSite(run, step, frame, scope, index, at, row), result, callee, WHAT[type(callee)])
        if step.target is not None:
            frame = step.target.store(frame, finished((value, kept if step.keeps else None, None, "finished")))
    except BaseException as error:
        return run.rescue(error, CallSite(run, step, frame, scope, index, at, row))
    run.steps.finish(row, at, clock(), value)
    return value, frame


def _call_under(grant: Grant, function: Callable[..., Any], given: dict[str, Value], grace: float) -> CallResult:
    outer = granted.set(grant)
    try:
        return call_on_loop(function, given, grace)
    finally:  # other calls may start before this one is awaited
        granted.reset(outer)


@final
class Returned(NamedTuple):
    """A call that has returned, and has no row yet."""

    site: CallSite[Invoke]
    call: StartedCall
    value: Value


def _make_journaled(
    site: CallSite[Invoke], callee: Tool | Agent, given: dict[str, Value], kept: Value, grant: Grant, journal: Journal
) -> Returned | StepResult | Pending[StepResult]:
    run, what = site.run, WHAT[type(callee)]
    call = journal.start_call(site.step, callee, site.key, given, site.scope.linked.tools_of(site.step), grant)
    prints = open_prints(run, site.at) if run.stream else None
    result = _call_under(grant, callee.function, given, run.host.grace)
    if type(result) is Pending:
        rest = await_call(site, result.awaitable, grant, callee, what, prints)
        return _stored(site, Pending(write_later(site, journal, call, rest)), kept)
    if prints is not None:
        prints.end_now()
    value = result[1]
    if not result[0] or type(value) not in ATOMS:
        try:
            value = value_of_call(site, result, callee, what)
        except StepError as error:
            return _stored(site, Pending(raise_durable(journal, call, error)), kept)
    return tuple.__new__(Returned, (site, call, value))  # half of the time of Returned(…)


def _call_journaled(
    site: CallSite[Invoke], callee: Tool | Agent, given: dict[str, Value], kept: Value, grant: Grant, journal: Journal
) -> StepResult | Pending[StepResult]:
    if journal.earlier is not None or journal.reuse is not None or has_effect(callee):  # perhaps it is not made at all
        return _stored(site, call_external(site, callee, WHAT[type(callee)], given, grant), kept)
    made = _make_journaled(site, callee, given, kept, grant, journal)
    if type(made) is not Returned:
        return made
    _, call, value = made
    done = journal.returned(call, value, site.is_secret)
    if done is None:
        return _stored(site, Pending(journal.durable(None, value)) if journal.waits else value, kept)
    return Pending(store_durable(site, journal, done, ShapeResult(value, kept) if site.step.keeps else value))


def _stored(site: CallSite[Any], value: Value | Pending[Value], kept: Value) -> StepResult | Pending[StepResult]:
    """The value of a call, stored when it is known."""
    value = with_arguments(value, site.step, kept)
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
    value: Value | Pending[Value], step: Invoke, given: Value
) -> Value | ShapeResult | Pending[Value | ShapeResult]:
    """The result of a call, with its arguments if the target of the step gets them."""
    return then(value, lambda value: ShapeResult(value, given)) if step.keeps else value
