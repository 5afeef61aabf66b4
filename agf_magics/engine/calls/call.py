"""The one way of a call: permission, arguments, secret, journal, call, result.

`call_tool` is what happens to the call of a tool, from top to bottom; `call` is the part that it
shares with agents, models, transforms and policies, and the only way out of the engine. A fan-out
on workers (worker_fan_out.py) takes the same stages for many calls at once: `permit`
(arguments.py), `start_record`, `value_of`, `finish`.

Three orders matter. A record of an earlier session is looked up before anything that could have an
effect. The start of a call that must not be repeated is durable before the call, and the outcome of
every call before the step continues. The rights of the callee (`granted`) are set around the call
alone, and by the task that makes it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from ...catalog import Tool, Where
from ...flow.progress import events as ev
from ...flow.progress.question import Question, Unanswered
from ...flow.step_path import format_path
from ...flow.steps import Invoke
from ...journal.calls.started_call import StartedCall
from ...journal.database.errors import JournalError
from ...journal.records.failures import error_at, error_from
from ...journal.run_journal import Journal
from ...journal.secrets.placeholders import hide, refuse_placeholders
from ...limits.grants import Grant, granted
from ...limits.shortest import shortest
from ...schemas.schema import conform
from ...text.diagnostics import Diagnostic, StepError
from ...text.length import ATOMS
from ...values.extent import TooDeep
from ...values.value import Value, isolate, settle
from ..host.placement import choose_place, has_effect
from ..host.remote_calls import Terms
from ..late_values import allow_repetition, late_value, may_wait
from ..linking.linked import Linked
from ..recording import AskedCall, Recording
from ..runner import CallSite, ShapeResult, clock
from ..threads.user_code import Arrived, Result
from . import dry_run as dry
from .approvals import ask_permission
from .arguments import permit
from .failures import (
    RESULT,
    check_stored,
    failure,
    unknown_outcome,
    unrecorded_start,
    unusable,
)
from .fired_calls import fire
from .late_results import keep_late
from .questions import ATTEMPTS, ask_person
from .step_prints import open_prints
from .throttled_calls import repeat_throttled
from .tool_context import RunContact, contexts_of


class UserCallable(Protocol):
    """A callee: a function of a user, or a model."""

    @property
    def name(self) -> str: ...
    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def where(self) -> Where | None: ...
    @property
    def timeout(self) -> float | None: ...
    @property
    def is_async(self) -> bool: ...


async def call_tool(site: CallSite[Invoke], tool: Tool) -> Value:
    """Call ``tool`` as the step says, and return its checked value."""
    run = site.run
    step = site.step
    if (late := late_value(site, tool, call_tool)) is not None:
        return late[0]
    arguments = permit(site, tool)
    if run.options.dry:
        return dry.result(step, tool, site.scope.linked)
    is_recorded = False
    if step.permit is not None:
        reply = await ask_permission(site, arguments, tool)
        is_recorded = reply.is_recorded
        if reply.result is not None:
            return reply.result[0]
        if reply.arguments is not None:
            arguments = reply.arguments
            run.secrets.receive(tool, arguments)
    if not step.awaited:

        def make(fired: CallSite[Invoke]) -> Awaitable[Value]:
            return call(fired, tool, "tool", arguments, must_be_recorded=is_recorded)

        return await fire(site, tool, arguments, make)
    value = await call(site, tool, "tool", arguments, must_be_recorded=is_recorded)
    return finish(site, arguments, value)


class ReadyCall(NamedTuple):
    """A call that may be made, with checked arguments."""

    site: CallSite[Invoke]
    callee: UserCallable
    kind: str
    """The kind of callee, for messages and codes."""
    arguments: dict[str, Value]
    grant: Grant
    """What the callee may use."""
    contact: RunContact | None = None
    """The contact that the tools of an agent or a policy use, which the call closes; None: there is
    none, or that of a tool."""
    began: float | None = None
    """When the call began, in seconds since 1970, if its callee was opened first; None: now."""


async def call(
    site: CallSite[Invoke],
    callee: UserCallable,
    kind: str,
    arguments: dict[str, Value],
    grant: Grant | None = None,
    *,
    must_be_recorded: bool = False,
    contact: RunContact | None = None,
    began: float | None = None,
) -> Value:
    """Call ``callee`` and journal the outcome, or take the outcome from the journal or from a
    recording.

    ``kind``: the kind of callee, for messages and codes. ``grant``: None: that of the step.
    ``must_be_recorded``: whether the call may be taken from a recording alone. ``contact`` and
    ``began``: see `ReadyCall`.
    """
    run = site.run
    grant = site.scope.grant if grant is None else grant
    ready = ReadyCall(site, callee, kind, arguments, grant, contact, began)
    # The definition does not tell a listener these callees and arguments. A callee that was picked
    # is announced where it is picked (invoke.py).
    if kind in ("model", "agent") and site.step.pick is None:
        shown_arguments = hide(arguments, getattr(callee, "secret", ()))
        run.emit(ev.CallStarted(site.path, clock(), kind, callee.name, shown_arguments))
    recording = run.options.recording
    if recording is not None:
        if must_be_recorded:
            refuse_unrecorded(recording, recording.ask(site, kind, callee, arguments))
        return await _replay(ready, recording)
    if run.journal is None:
        return await _make_call(ready)
    started = start_record(site, run.journal, callee, arguments, grant, kind == "model")
    if isinstance(started, StartedCall):
        return await _make_journaled(ready, run.journal, started)
    (recorded,) = started
    return recorded


async def _make_journaled(ready: ReadyCall, journal: Journal, started: StartedCall) -> Value:
    """Make a call and write its outcome, which is durable before the step continues."""
    site, callee = ready.site, ready.callee
    if ready.began is not None:
        started = started._replace(started=ready.began)
    # Then no other call of the run can end at the same time: the row waits for no other rows.
    is_alone = not site.scope.concurrent
    # Only a call with an effect waits for the disk. A call that can be repeated starts at once. The
    # function of another may have called a tool with an effect in an earlier session.
    begins_effect = has_effect(callee) or started.key in journal.log.unknown
    if choose_place(callee, site.scope.concurrent, site.run.host) == "worker":
        started = started._replace(is_apart=True)
        # A worker cannot write that the function calls such a tool.
        begins_effect |= ready.contact is not None and ready.contact.may_have_effect
    if begins_effect:
        decided = await _begin_effect(site, journal, started)
        if decided is not None:
            (value,) = decided
            written = journal.write_outcome(started, value, None, site.gives_secret(value))
            return await journal.durable(written, value)
    journal.running[started.key] = started
    try:
        value = await _make_call(ready)
    # Nobody knows the outcome of a call with an effect, so it is not journaled.
    except Unanswered:
        raise
    except StepError as error:
        # Durable before the step continues, because a resumed run must know the failure that a later
        # step has seen.
        await journal.durable(journal.write_outcome(started, None, error))
        raise
    except Arrived as arrived:
        with contextlib.suppress(StepError):  # the result is no value
            value = value_of(site, arrived.result, callee, ready.kind)
            journal.write_outcome(started, value, None, site.gives_secret(value))
        raise
    finally:
        journal.running.pop(started.key, None)
    await journal.durable(
        journal.write_outcome(started, value, None, site.gives_secret(value), is_alone)
    )
    check_stored(site.step, site.key, callee.name, journal, _had_effect(site, callee))
    return value


def refuse_unrecorded(recording: Recording, searched_call: AskedCall) -> None:
    """Raise StepError for a call that would be made, although only a recording approves it."""
    if recording.is_made(searched_call):
        raise recording.absent(searched_call)


async def _replay(ready: ReadyCall, recording: Recording) -> Value:
    """The recorded outcome of a call, or that of the call itself if the recording leaves it."""
    site = ready.site
    searched_call = recording.ask(site, ready.kind, ready.callee, ready.arguments)
    outcome = recording.take(searched_call)
    if outcome is not None:
        site.run.emit(ev.StepReplayed(site.path, clock(), recording.name))
        if outcome.error is None:
            return outcome.value
        raise error_at(outcome.error, site.step.place)
    if isinstance(ready.callee, Tool):
        refuse_placeholders(ready.callee, ready.arguments)
    try:
        value = await _make_call(ready)
    # Nobody knows the outcome of the call, so it is not recorded.
    except Unanswered:
        raise
    except StepError as error:
        recording.keep(searched_call, None, error)
        raise
    recording.keep(searched_call, value)
    return value


# --- before the call ---


def start_record(
    site: CallSite[Invoke],
    journal: Journal,
    callee: UserCallable,
    arguments: dict[str, Value],
    grant: Grant,
    is_model: bool = False,
) -> StartedCall | tuple[Value]:
    """The call for the journal; or the value that an earlier session or another run has recorded.
    Raises the failure that one of these has recorded."""
    run = site.run
    key = site.key
    record = journal.take_recorded(key) if journal.is_resumed else None
    if record is not None and has_effect(callee) and ("begun", key) not in journal.log.marks:
        # A run first writes that such a call begins, so a row without that mark is not believed.
        journal.log.unknown.add(key)
        record = None
    if record is not None:
        run.emit(ev.StepReplayed(site.path, clock(), journal.run_id))
        if record.error is not None:
            raise error_from(record.error, (site.scope.linked.flow.source,))
        return (record.value,)
    started = journal.start_call(
        site.step, callee, key, arguments, site.scope.linked.tools_of(site.step), grant
    )
    # After `start_call`, which computes the digest that results are found by.
    may_be_late = isinstance(callee, Tool) and may_wait(site, callee)
    reused = journal.find_reused(site.step, callee, started, reads=not may_be_late)
    if reused is None:
        return started
    source = journal.run_id if journal.reuse is None else journal.reuse.run_id
    run.emit(ev.StepReplayed(site.path, clock(), source))
    if reused.error is not None:
        journal.write_reused_failure(started, reused)
        raise error_at(reused.error, site.step.place)
    # A reused reply has cost nothing in this run, and a resumed one must know that too.
    if is_model:
        journal.note_taken(key)
    value = journal.write_reused(started, reused)
    if isinstance(callee, Tool):
        allow_repetition(site, callee, value, call_tool)
    return (value,)


async def _begin_effect(
    site: CallSite[Invoke], journal: Journal, started: StartedCall
) -> tuple[Value] | None:
    """Write that a call with an effect begins. If an earlier session wrote that and no end, nobody
    knows whether the call had its effect, so a person decides. Returns the result that the person
    gives; None: the call is made.

    Raises Unanswered if there is no user, or if the answer is no; UnstoredError if it cannot be
    written that the call begins.
    """
    before = journal.effects.take_open(started) if journal.effects is not None else None
    if started.key not in journal.log.unknown and before is None:
        await _write_start(site, journal, started)
        return None
    now = started.arguments or "{}"
    what = f"was called with {now} and its outcome is unknown"
    if not started.is_effect:
        what = "called a tool that has an effect, and its outcome is unknown"
    if before not in (None, "", now):
        what = f"was called for this row with {before}, and is now to be called with {now}"
    text = f"{started.name!r} {what}. Call it again?"
    question = Question(
        text, approval=True, where=format_path(site.path), arguments={}, result=RESULT
    )
    # Neither yes nor no is asked again; after that the call stays unknown and is not made.
    for _ in range(ATTEMPTS):
        ok, answer = await ask_person(site, question)
        if not ok or answer is False:
            break
        if answer is True:
            await _write_start(site, journal, started)
            return None
        if isinstance(answer, dict) and list(answer) == [RESULT]:
            return (answer[RESULT],)
    message = (
        f"the outcome of {started.name!r} is unknown: an earlier session started the call "
        f"and recorded no end"
    )
    raise unknown_outcome(site.step, message)


async def _write_start(site: CallSite[Invoke], journal: Journal, started: StartedCall) -> None:
    """Write that a call with an effect begins. Raises UnstoredError if that cannot be written."""
    try:
        await journal.start_effect(started)
    except JournalError as why:
        raise unrecorded_start(site.step, started.name, why) from None


# --- the call ---


async def _make_call(ready: ReadyCall) -> Value:
    """Make the call: where it belongs, with the rights of the callee and within its time."""
    site, callee, kind, arguments, grant, contact, _ = ready
    run = site.run
    host = run.host
    place = choose_place(callee, site.scope.concurrent, host)
    seconds = shortest(callee.timeout, site.step.timeout, run.budget.limits.step_timeout)
    terms: Terms | None = None
    if place == "worker":
        # The worker counts the time of the call, because waiting for a free worker is not part of it.
        terms = Terms(seconds, has_effect(callee), None, resources_of(callee), callee.name)
    # Set around the call alone, because the engine's own code between two calls must not have the
    # rights of a tool.
    outer_grant = granted.set(grant)
    prints = open_prints(run, site.path) if run.stream and kind != "model" else None
    if isinstance(callee, Tool) and callee.context:
        contact = RunContact(site, place)
        arguments = {**arguments, **contexts_of(callee, contact)}
    begin = contact.begin if contact is not None else None

    async def make(arguments: dict[str, Value]) -> Result:
        result = await host.make_call(place, callee.function, arguments, seconds, terms, begin)
        return keep_late(site, callee.name, result) if has_effect(callee) else result

    try:
        throttle = callee.throttle if isinstance(callee, Tool) else None
        if throttle is None:
            result = await make(arguments)
        else:
            # Each attempt has arguments of its own, which the function may change.
            result = await repeat_throttled(
                site, callee.name, throttle, lambda: make(isolate(arguments))
            )
    finally:
        granted.reset(outer_grant)
        if prints is not None:
            prints.close()
        if contact is not None:
            contact.close()
    return value_of(site, result, callee, kind)


def resources_of(callee: UserCallable) -> tuple[tuple[str, float], ...]:
    """The resources that a call needs of its worker, by name."""
    return tuple(sorted(callee.resources.items())) if isinstance(callee, Tool) else ()


# --- after the call ---


def value_of(site: CallSite[Invoke], result: Result, callee: UserCallable, kind: str) -> Value:
    """The result of a call, converted to a value. Raises StepError if the call raised an exception,
    or if its result is not a value."""
    ok, value = result
    if not ok:
        chose_thread = callee.where is None
        raise failure(site, callee.name, kind, value, chose_thread, _had_effect(site, callee))
    if type(value) in ATOMS:
        return value
    try:
        return settle(value)
    except TooDeep as error:
        raise unusable(site, callee.name, kind, error) from None
    except Exception as error:  # a class that cannot be read; a thread that still writes
        raise unusable(site, callee.name, kind, error) from error


def _had_effect(site: CallSite[Invoke], callee: UserCallable) -> bool:
    """Whether a call must not be repeated: by its tool, or by a tool that its function has called."""
    journal = site.run.journal
    return has_effect(callee) or (journal is not None and journal.had_effect(site.key))


def finish(site: CallSite[Invoke], arguments: dict[str, Value], value: Value) -> Value:
    """The value of a tool's call, checked, with its arguments if the step keeps them."""
    if site.step.gives is not None:
        check_result(value, site.step, site.scope.linked)
    return ShapeResult(value, arguments) if site.step.exchange.keep_arguments else value


def check_result(value: Value, step: Invoke, linked: Linked) -> None:
    """Raise StepError if ``value`` does not conform to the schema of the step."""
    assert step.gives is not None
    faults = conform(linked.schemas[step.gives.text], value, linked.schemas)
    if faults:
        reasons = "; ".join(fault.message for fault in faults[:5])
        more = f"; and {len(faults) - 5} more" if len(faults) > 5 else ""
        message = (
            f"the result of {step.name.text!r} does not conform to {step.gives.text!r}: "
            f"{reasons}{more}"
        )
        raise StepError(Diagnostic("step.schema", message, step.gives.span))
