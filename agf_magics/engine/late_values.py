"""Values of earlier calls in a resumed run, which are read from the journal only when they are
needed.

Such a call is not even built, because nobody may need its arguments any more. If its value is lost
when another call needs it, the call is made again with its former frame.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from ..catalog import Tool, Transform
from ..flow.progress import events as ev
from ..flow.steps import Invoke
from ..journal.records.failures import error_at
from ..journal.run_journal import Journal
from ..text.diagnostics import StepError
from ..values.unread import LostError, Unread, opened
from ..values.value import Value, isolate
from .host.placement import has_effect
from .runner import CallSite, clock, is_rescuable

T = TypeVar("T")
C = TypeVar("C", Tool, Transform)


@dataclass(slots=True, eq=False)
class _RepeatableCall:
    """A call that can be made again."""

    call: Callable[[], Awaitable[Value]]
    has_changed: Callable[[], bool]
    """Whether the arguments have changed since, so that the call would return another value."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    failure: LostError | None = None
    """The failure of the repeated call, for all who wait for its value; None: it did not fail."""


def late_value(
    site: CallSite[Invoke], callee: C, call: Callable[[CallSite[Invoke], C], Awaitable[Value]]
) -> tuple[Value] | None:
    """The value of this call from an earlier session or another run, if the value or the arguments
    are unread. None: there is no such value, or the step looks at the arguments or the value.
    ``call``: makes the call."""
    run, journal = site.run, site.run.journal
    if journal is None:
        return None
    value: tuple[Value] | None = None
    source = journal.run_id
    if journal.unread.has(site.key):
        if may_wait(site, callee) and _has_begun(site, callee):
            unread = journal.unread.take(site.key)
            value = (unread,) if unread is not None else None
    elif journal.reuse is not None and journal.unread and type(callee) is Tool:
        source = journal.reuse.run_id
        value = _reused(site, callee, journal) if may_wait(site, callee) else None
    if value is None:
        return None
    if type(callee) is Tool:
        for meter in site.scope.meters:
            meter.tool()
        run.counts.calls += 1
    run.emit(ev.StepReplayed(site.path, clock(), source))
    allow_repetition(site, callee, value[0], call)
    return value


def allow_repetition(
    site: CallSite[Invoke],
    callee: C,
    value: Value,
    call: Callable[[CallSite[Invoke], C], Awaitable[Value]],
) -> None:
    """Note that ``call`` can make the call of ``site`` again if its ``value`` is lost when it is
    needed."""
    if type(value) is Unread and value.make_again is None:
        value.make_again = _RepeatableCall(
            partial(call, site, callee), partial(_has_changed, site, callee)
        )


def _arguments(site: CallSite[Invoke], callee: Tool | Transform) -> dict[str, Value]:
    """The arguments of a call as they are in the frame, unread values included."""
    exchange = site.step.exchange
    schema = None
    if isinstance(callee, Tool) and (exchange.extra_arguments or exchange.with_schema):
        schema = callee.accepts
    arguments: dict[str, Value] = site.step.args.build(site.frame, schema)
    return arguments


def _has_changed(site: CallSite[Invoke], callee: Tool | Transform) -> bool:
    """Whether a call of this session has changed an argument of this call."""
    journal = site.run.journal
    arguments = {name: _known_value(value) for name, value in _arguments(site, callee).items()}
    return journal is not None and journal.rows.identities.has_changed(arguments)


def _known_value(value: Value) -> Value:
    """``value``, or for an unread value what is known of it."""
    return value.known if type(value) is Unread else value


def may_wait(site: CallSite[Invoke], callee: object) -> bool:
    """Whether nobody looks at the arguments and the value of a call."""
    step = site.step
    looks_at_value = step.gives is not None or not step.awaited
    looks_at_arguments = step.permit is not None or step.exchange.keep_arguments
    if looks_at_value or looks_at_arguments or site.run.options.recording is not None:
        return False
    if type(callee) is not Tool:
        return True
    return not callee.secret and site.scope.grant.allows(callee.name)


def _has_begun(site: CallSite[Invoke], callee: Tool | Transform) -> bool:
    """Whether an earlier session of the run began the call; True for every call without an
    effect."""
    return not has_effect(callee) or ("begun", site.key) in site.run.log.marks


def _reused(site: CallSite[Invoke], tool: Tool, journal: Journal) -> tuple[Value] | None:
    """The result of an identical call in another run, found by the digests of unread arguments."""
    step = site.step
    arguments = _arguments(site, tool)
    if not any(type(value) is Unread for value in arguments.values()):
        return None
    checked = tool.check_unread({name: _left_unread(value) for name, value in arguments.items()})
    if checked is None:
        return None
    tools, grant = site.scope.linked.tools_of(step), site.scope.grant
    started = journal.start_call(step, tool, site.key, checked, tools, grant)
    result = journal.find_reused(step, tool, started, reads=False)
    if result is None:
        journal.rows.not_made(started)
        return None
    if result.error is not None:
        journal.write_reused_failure(started, result)
        raise error_at(result.error, step.place)
    return (journal.write_reused(started, result),)


def _left_unread(value: Value) -> Value:
    """An argument for a check, with unread values left unread."""
    return value.known if type(value) is Unread else isolate(value)


async def make_again(lost: LostError) -> None:
    """Make the call again whose value is lost. Raises ``lost`` if there is no such call, or the
    failure of the call, to which no ``on_error`` of the step that needs the value applies."""
    unread = lost.unread
    repeatable: _RepeatableCall | None = unread.make_again if unread is not None else None
    if unread is None or repeatable is None:
        raise lost
    if repeatable.has_changed():
        hint = (
            "what its call got was changed since, so it is not made again: run it without --reuse"
        )
        raise LostError(replace(lost.diagnostic, hint=hint))
    # Other steps may need the value at the same time. All of them share one object.
    async with repeatable.lock:
        while unread.make_again is repeatable:
            if repeatable.failure is not None:
                raise repeatable.failure
            unread.tell_made_again()
            try:
                # The call may reuse a result of another run that is lost, too.
                unread.put(await when_read(partial(opened, await repeatable.call())))
            except LostError as argument_lost:  # an argument of that call is lost, too
                await make_again(argument_lost)
            except StepError as error:
                if not is_rescuable(error):
                    raise
                repeatable.failure = _failed_again(error)
                raise repeatable.failure from error.__cause__


def _failed_again(error: StepError) -> LostError:
    """The failure of a repeated call as a failure of the run, because the elements that need the
    value did not fail."""
    failure = LostError(error.diagnostic)
    failure.path = error.path
    failure.where = error.where
    return failure


async def when_read(read: Callable[[], T]) -> T:
    """The result of ``read()``, which reads values. Calls whose values are lost are made again."""
    while True:
        try:
            return read()
        except LostError as lost:
            await make_again(lost)
