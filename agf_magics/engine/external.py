"""Calls of user code and models: the only way out of the engine.

`call_external` serves tools, agents, transforms, policies and models. It journals the call, and turns what the call
returned or raised into a value or a failure of the step.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ..catalog import Tool
from ..flow.steps import Invoke
from ..flow.values import ATOMS, TooDeep, Value, settle
from ..host.calls import Pending, Result, resolve
from ..host.limits import Grant, granted
from ..host.remote import Terms
from ..journal.call_rows import StartedCall
from ..journal.recorder import Journal
from ..journal.records import error_from
from ..progress import events as ev
from ..text.diagnostics import StepError
from .callee import UserCallable, place_of
from .effects import has_effect, result_given
from .failures import failure, unusable
from .runner import CallSite, clock
from .streaming import StepPrints, open_prints


def call_external(
    site: CallSite[Invoke], callee: UserCallable, what: str, given: dict[str, Value], grant: Grant | None = None
) -> Value | Pending[Value]:
    """Call ``callee`` and journal the outcome, or take the outcome from the journal.

    ``what``: the kind of callee, for messages and codes. ``grant``: None: that of the step.
    """
    grant = site.scope.grant if grant is None else grant
    journal = site.run.journal
    if journal is None:
        return _call(site, callee, what, given, grant)
    call = start_record(site, journal, callee, given, grant, what == "model")
    if not isinstance(call, StartedCall):
        return call[0]
    if has_effect(callee):
        return Pending(_call_with_effect(site, journal, call, callee, what, given, grant))
    return _make_call(site, journal, call, callee, what, given, grant)


def start_record(
    site: CallSite[Invoke], journal: Journal, callee: UserCallable, given: dict[str, Value], grant: Grant,
    is_model: bool = False,
) -> StartedCall | tuple[Value]:  # fmt: skip
    """The call for the journal; or the value that an earlier session or another run has recorded. Raises the failure
    that an earlier session has recorded."""
    run, key = site.run, site.key
    record = journal.recorded(key) if journal.earlier is not None else None
    if record is not None:
        run.emit(ev.StepReplayed(site.at, clock(), journal.run_id))
        if record.error is not None:
            raise error_from(record.error, (site.scope.linked.flow.source,))
        return (record.value,)
    call = journal.start_call(site.step, callee, key, given, site.scope.linked.tools_of(site.step), grant)
    reused = journal.reuse.take(call.digest) if journal.reuse is not None else None
    if journal.reuse is None or reused is None:
        return call
    run.emit(ev.StepReplayed(site.at, clock(), journal.reuse.run_id))
    if is_model:
        journal.mark("taken", key)
    return (journal.reused(call, reused),)


async def _call_with_effect(
    site: CallSite[Invoke], journal: Journal, call: StartedCall, callee: UserCallable, what: str,
    given: dict[str, Value], grant: Grant,
) -> Value:  # fmt: skip
    known = await result_given(site, journal, call)
    if known is not None:
        return await journal.durable(journal.returned(call, known[0], site.is_secret), known[0])
    return await resolve(_make_call(site, journal, call, callee, what, given, grant))


def _make_call(
    site: CallSite[Invoke], journal: Journal, call: StartedCall, callee: UserCallable, what: str,
    given: dict[str, Value], grant: Grant,
) -> Pending[Value]:  # fmt: skip
    """Make a call and write its outcome. The row is handed over as soon as the call ends."""
    try:
        value = _call(site, callee, what, given, grant)
    except StepError as error:
        return Pending(raise_durable(journal, call, error))
    if type(value) is Pending:
        return Pending(write_later(site, journal, call, value.awaitable))
    return Pending(journal.durable(journal.returned(call, value, site.is_secret), value))


async def write_later(site: CallSite[Invoke], journal: Journal, call: StartedCall, rest: Awaitable[Value]) -> Value:
    try:
        value = await rest
    except StepError as error:
        return await raise_durable(journal, call, error)
    return await journal.durable(journal.returned(call, value, site.is_secret), value)


async def raise_durable(journal: Journal, call: StartedCall, error: StepError) -> Value:
    """Raise the failure of a call when its row is durable."""
    await journal.durable(journal.raised(call, error))
    raise error


def _call(
    site: CallSite[Invoke], callee: UserCallable, what: str, given: dict[str, Value], grant: Grant
) -> Value | Pending[Value]:
    run, step = site.run, site.step
    place = place_of(callee, site.scope.concurrent, run.host.waited, run.host.queue is not None)
    seconds = run.budget.limits.step_timeout
    if callee.timeout is not None or step.timeout is not None:
        seconds = min(limit for limit in (callee.timeout, step.timeout, seconds) if limit is not None)
    outer = granted.set(grant) if grant is not granted.get() else None
    prints = open_prints(run, site.at) if run.stream and what != "model" else None
    try:
        if place == "worker":
            terms = Terms(seconds, has_effect(callee), None, _resources(callee))
            result: Result | Pending[Result] = run.host.start_on_worker(callee.function, given, terms)
        else:
            result = run.host.start_call(place, callee.function, given, seconds)
    finally:
        if outer is not None:  # other calls may start before this one is awaited
            granted.reset(outer)
    if type(result) is Pending:
        return Pending(await_call(site, result.awaitable, grant, callee, what, prints))
    if prints is not None:
        prints.end_now()
    return value_of_call(site, result, callee, what)


def _resources(callee: UserCallable) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(callee.resources.items())) if isinstance(callee, Tool) else ()


async def await_call(
    site: CallSite[Invoke],
    rest: Awaitable[Result],
    grant: Grant,
    callee: UserCallable,
    what: str,
    prints: StepPrints | None = None,
) -> Value:
    outer = granted.set(grant) if grant is not granted.get() else None
    try:
        result = await rest
    finally:
        if outer is not None:
            granted.reset(outer)
        if prints is not None:
            prints.close()
    return value_of_call(site, result, callee, what)


def value_of_call(site: CallSite[Invoke], result: Result, callee: UserCallable, what: str) -> Value:
    """What a call returned, as a value. Raises StepError for what it raised, and for a result that is not a value."""
    ok, value = result
    if not ok:
        raise failure(site, callee.name, what, value)
    if type(value) in ATOMS:
        return value
    try:
        return settle(value)
    except TooDeep as error:
        raise unusable(site, callee.name, what, error) from None
    except Exception as error:  # a class that cannot be read; a thread that still writes
        raise unusable(site, callee.name, what, error) from error
