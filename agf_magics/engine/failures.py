"""Exceptions of user code as failures of a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..flow.steps import Invoke
from ..flow.values import TooDeep
from ..host.calls import OutcomeUnknown, TimedOut
from ..progress import events as ev
from ..secrets.masking import HIDDEN
from ..text.diagnostics import Diagnostic, StepError
from .runner import CallSite

RESULT = "result"
"""The key of the result in an answer about a call whose outcome is unknown."""


def failure(
    site: CallSite[Invoke], callee: str | None, what: str, raised: BaseException
) -> StepError:
    """What user code raised, as a failure of the step."""
    step, secrets = site.step, site.run.secrets
    span = step.name.span or step.span
    name = f"{what} {callee!r}" if callee is not None else "asking a person"
    code = f"step.{what}-failed"
    if isinstance(raised, OutcomeUnknown):
        unknown = unknown_outcome(step, f"the outcome of {callee!r} is unknown: {raised}")
        if site.run.journal is None:
            hint = "check whether it had its effect; a run with a journal can be resumed"
            unknown.diagnostics = (replace(unknown.diagnostic, hint=hint),)
        return unknown
    if isinstance(raised, TimedOut):
        hint = f"@{what}(timeout=…) sets how long it may take"
        if raised.seconds == site.run.budget.limits.step_timeout:
            hint = (
                "%config AgfMagics.step_timeout sets it (in Python: limits=Limits(step_timeout=…))"
            )
        return StepError(Diagnostic("step.timeout", f"{name} {raised}", span, hint))
    if secrets.raised(raised):  # the exception itself is not shown either, so there is no cause
        if secrets.blind:
            return StepError(
                Diagnostic(code, f"{name} failed: {type(raised).__name__}", span, HIDDEN)
            )
        return StepError(
            Diagnostic(code, f"{name} failed: {describe_exception(raised, secrets.text)}", span)
        )
    if isinstance(raised, StepError) and all(
        isinstance(d, Diagnostic) for d in getattr(raised, "diagnostics", [None])
    ):
        return with_place(_copy(raised), step)
    hint = "; ".join(map(str, getattr(raised, "__notes__", ())))
    if isinstance(raised, MemoryError):
        hint = (
            hint
            or "its process has too little memory: give the call less data, or the process a "
            "higher limit"
        )
    error = StepError(
        Diagnostic(code, f"{name} failed: {describe_exception(raised)}", span, hint or None)
    )
    error.__cause__ = raised
    return error


def unknown_outcome(step: Invoke, message: str) -> ev.Unanswered:
    """A call with an effect was started, and nobody knows whether it ended."""
    hint = f"%resume RUN --answer yes calls it again; --answer '{{{RESULT}: …}}' gives its result"
    return ev.Unanswered(
        Diagnostic("step.unknown-outcome", message, step.name.span or step.span, hint)
    )


def unusable(site: CallSite[Invoke], callee: str, what: str, error: Exception) -> StepError:
    """The result of user code cannot be copied."""
    code, why = f"step.{what}-failed", describe_exception(error)
    if isinstance(error, TooDeep):
        code, why = "step.too-deep", str(error)
    message = f"{what} {callee!r} returned a value that cannot be used: {why}"
    return StepError(Diagnostic(code, message, site.step.name.span or site.step.span))


def with_place(error: StepError, step: Invoke) -> StepError:
    """An error without a place, at the argument that it is about or at the name of the step."""
    found = error.diagnostic
    if found.span is not None:
        return error
    span = next(
        (
            span
            for name, span in step.args.names or ()
            if span is not None and name in error.arguments
        ),
        None,
    )
    placed = _copy(error)
    placed.diagnostics = (
        Diagnostic(found.code, found.message, span or step.name.span or step.span, found.hint),
    )
    return placed


def _copy(error: StepError) -> StepError:
    """The same error without its path: a run inside a tool has set the path in its own flow."""
    copy = type(error).__new__(
        type(error), *error.args
    )  # a subclass of a user has an __init__ of its own
    copy.__dict__.update({**error.__dict__, "path": None, "where": None})
    copy.__cause__ = error.__cause__
    return copy


def describe_exception(
    error: BaseException, mask: Callable[[str], str] = str, most: int = 500
) -> str:
    """An exception of user code in a line: its class and its text."""
    try:
        text = mask(str(error))
    except BaseException as worse:
        text = f"(its text cannot be read: {type(worse).__name__})"
    text = text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"
    if isinstance(
        error, BaseExceptionGroup
    ):  # the text of a TaskGroup's error only gives their number
        text = (
            f"{text}: "
            f"{'; '.join(describe_exception(one, mask, most // 2) for one in _leaves(error))}"
        )
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _leaves(group: BaseExceptionGroup[BaseException], most: int = 3) -> list[BaseException]:
    """The first exceptions in a group and in the groups inside it, without recursion."""
    queue, found = list[BaseException](reversed(group.exceptions[:most])), list[BaseException]()
    while queue and len(found) < most:
        one = queue.pop()
        if isinstance(one, BaseExceptionGroup):
            queue += reversed(one.exceptions[:most])
        else:
            found.append(one)
    return found
