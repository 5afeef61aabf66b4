"""The way out: user code is called, and what it gave or raised becomes a value or a step's failure.

Everything that a run calls outside of itself goes through `outside`, whatever kind of thing it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ..catalog import Where
from ..flow.steps import Invoke
from ..flow.values import ATOMS, TooDeep, Value, settle
from ..host.calls import Pending, Result, TimedOut, resolve
from ..host.limits import Grant, granted
from ..journal.recorder import Journal
from ..journal.records import error_from, value_of
from ..progress import events as ev
from ..secrets.masking import HIDDEN, Secrets
from ..text.diagnostics import Diagnostic, StepError
from ..text.source import Span
from .effects import has_effect, result_given
from .runner import Index, Runner, Scope, clock


class UserCallable(Protocol):
    """What is called outside: a function of somebody's, a model."""

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


def call_external(
    run: Runner,
    callee: UserCallable,
    what: str,
    step: Invoke,
    given: dict[str, Value],
    scope: Scope,
    grant: Grant,
    index: Index,
    keeps: bool = True,
) -> Value | Pending[Value]:
    """Cross into user code and come back with a settled value; where the run is kept, and this call with it
    (``keeps``), what an earlier session of it came back with."""
    if run.journal is not None and keeps:
        return Pending(_kept(run, run.journal, callee, what, step, given, scope, grant, index))
    place = callee.where or ("loop" if callee.is_async else None)
    if place is None:
        place = "kernel" if run.host.waited and not scope.concurrent else "worker"
    seconds = most = run.budget.limits.step_timeout
    if callee.timeout is not None or step.timeout is not None:
        seconds = min(limit for limit in (callee.timeout, step.timeout, most) if limit is not None)
    narrower = granted.set(grant) if grant is not granted.get() else None
    try:
        result = run.host.begin(place, callee.function, given, seconds)
    finally:
        if narrower is not None:  # before the rest is awaited others may be begun
            granted.reset(narrower)
    if type(result) is Pending:
        return Pending(_come_back(run, result.awaitable, grant, callee, what, step, most))
    ok, value = result
    if not ok:
        raise failure(callee, what, step, run.secrets, value, most)
    return value if type(value) in ATOMS else _settled(value, callee, what, step)


async def _kept(
    run: Runner,
    journal: Journal,
    callee: UserCallable,
    what: str,
    step: Invoke,
    given: dict[str, Value],
    scope: Scope,
    grant: Grant,
    index: Index,
) -> Value:
    at = (*scope.before, step.id, *index)
    kept = journal.recorded(at, scope.tries)
    if kept is not None:
        run.emit(ev.StepReplayed(at, clock(), journal.run_id))
        if kept.error is not None:
            raise error_from(kept.error, (scope.linked.flow.source,))
        return value_of(kept)
    call = journal.start_call(step, callee, at, scope.tries, given, scope.linked.tools, grant)
    taken = journal.reuse.take(call.digest) if journal.reuse is not None else None
    if journal.reuse is not None and taken is not None:
        run.emit(ev.StepReplayed(at, clock(), journal.reuse.run_id))
        if what == "model":
            journal.mark("taken", at, scope.tries)
        await journal.returned(call, value_of(taken))
        return value_of(taken)
    if has_effect(callee):
        known = await result_given(run, journal, step, call)
        if known is not None:
            await journal.returned(call, known[0], (id(scope.linked.flow), step.id) in journal.secret.steps)
            return known[0]
    try:
        value = await resolve(call_external(run, callee, what, step, given, scope, grant, index, keeps=False))
    except StepError as error:
        await journal.raised(call, error)
        raise
    await journal.returned(call, value, (id(scope.linked.flow), step.id) in run.secrets.steps)
    return value


async def _come_back(
    run: Runner,
    rest: Awaitable[Result],
    grant: Grant,
    callee: UserCallable,
    what: str,
    step: Invoke,
    most: float | None,
) -> Value:
    narrower = granted.set(grant) if grant is not granted.get() else None
    try:
        ok, value = await rest
    finally:
        if narrower is not None:
            granted.reset(narrower)
    if not ok:
        raise failure(callee, what, step, run.secrets, value, most)
    return _settled(value, callee, what, step)


def _settled(value: Value, callee: UserCallable, what: str, step: Invoke) -> Value:
    try:
        return settle(value)
    except TooDeep as error:
        span = step.name.span or step.span
        message = f"{what} {callee.name!r} returned something that cannot be kept: {error}"
        raise StepError(Diagnostic("step.too-deep", message, span)) from None
    except Exception as error:  # somebody's class that cannot be looked into; a thread that writes on
        span = step.name.span or step.span
        message = f"{what} {callee.name!r} returned something that cannot be kept: {describe_exception(error)}"
        raise StepError(Diagnostic(f"step.{what}-failed", message, span)) from error


def failure(
    callee: UserCallable | None,
    what: str,
    step: Invoke,
    secrets: Secrets,
    raised: BaseException,
    most: float | None = None,
) -> StepError:
    """What user code raised, as the step's failure. ``most``: the seconds that the run's limits allow a call."""
    span = step.name.span or step.span
    name = f"{what} {callee.name!r}" if callee is not None else "asking a person"
    if isinstance(raised, TimedOut):
        hint = f"@{what}(timeout=…) sets how long it may take"
        if raised.seconds == most:
            hint = "%config AgfMagics.step_timeout sets it (in Python: limits=Limits(step_timeout=…))"
        return StepError(Diagnostic("step.timeout", f"{name} {raised}", span, hint))
    if secrets.raised(raised):  # then the exception itself is not shown either: no cause
        if secrets.blind:
            return StepError(Diagnostic(f"step.{what}-failed", f"{name} failed: {type(raised).__name__}", span, HIDDEN))
        return StepError(
            Diagnostic(f"step.{what}-failed", f"{name} failed: {describe_exception(raised, secrets.text)}", span)
        )
    if isinstance(raised, StepError) and all(isinstance(d, Diagnostic) for d in getattr(raised, "diagnostics", [None])):
        return with_place(_anew(raised), step, ())
    hint = "; ".join(map(str, getattr(raised, "__notes__", ())))
    message = f"{name} failed: {describe_exception(raised)}"
    failure = StepError(Diagnostic(f"step.{what}-failed", message, span, hint or None))
    failure.__cause__ = raised
    return failure


def with_place(error: StepError, step: Invoke, names: tuple[tuple[str, Span | None], ...]) -> StepError:
    """An error from below that knows no place in the definition, at the step's name (or the argument it is about)."""
    found = error.diagnostic
    if found.span is not None:
        return error
    about = next((span for name, span in names if span is not None and repr(name) in found.message), None)
    placed = Diagnostic(found.code, found.message, about or step.name.span or step.span, found.hint)
    again = _anew(error)
    again.diagnostics = (placed,)
    return again


def _anew(error: StepError) -> StepError:
    """The same error as this run's own: a run inside a tool has said where in its own steps it happened."""
    again = type(error).__new__(type(error), *error.args)  # a subclass of somebody's has an __init__ of its own
    again.__dict__.update({**error.__dict__, "path": None, "where": None})
    again.__cause__ = error.__cause__
    return again


def describe_exception(error: BaseException, shown: Callable[[str], str] = str, most: int = 500) -> str:
    """An exception of user code in a line: its class and its text, if it has one."""
    try:
        text = shown(str(error))
    except BaseException as worse:
        text = f"(its text cannot be had: {type(worse).__name__})"
    text = text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
    if isinstance(error, BaseExceptionGroup):  # a TaskGroup's own text says only how many
        text = f"{text}: {'; '.join(describe_exception(one, shown, most // 2) for one in _leaves(error))}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _leaves(group: BaseExceptionGroup[BaseException], most: int = 3) -> list[BaseException]:
    """The first that a group is made of, groups in it opened: by a list, it may nest as deep as it likes."""
    left, found = list[BaseException](reversed(group.exceptions[:most])), list[BaseException]()
    while left and len(found) < most:
        one = left.pop()
        if isinstance(one, BaseExceptionGroup):
            left += reversed(one.exceptions[:most])
        else:
            found.append(one)
    return found
