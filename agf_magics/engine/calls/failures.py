"""The errors of a call, each placed at its step.

They are what user code raised, results that cannot be used, outcomes that nobody knows, and failures
that the journal has.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ...flow.progress.question import Unanswered
from ...flow.protocols import Frame, HintedArgs
from ...flow.steps import Invoke
from ...journal.records.failures import UnstoredError, error_from
from ...journal.records.records import CallKey
from ...journal.run_journal import Journal
from ...journal.secrets.masking import HIDDEN, Secrets
from ...limits.limits import STEP_TIMEOUT
from ...text.diagnostics import Diagnostic, StepError
from ...text.length import can_write
from ...text.raised import cause_of, describe_exception, is_a, kind_of, notes_of, text_of
from ...values.extent import TooDeep
from ...values.unread import LostError
from ..host.remote_calls import OutcomeUnknown
from ..runner import CallSite
from ..threads.user_code import TimedOut

_OF_A_THREAD = re.compile(r"\bthread\b")

RESULT = "result"
"""The key of the result in an answer about a call whose outcome is unknown."""


def failure(
    site: CallSite[Invoke],
    callee: str | None,
    kind: str,
    raised: BaseException,
    chose_thread: bool = False,
) -> StepError:
    """What user code raised, as a failure of the step. ``kind``: of the callee. ``chose_thread``:
    whether the engine chose the thread of the call."""
    step = site.step
    secrets = site.run.secrets
    span = step.place
    name = f"{kind} {callee!r}" if callee is not None else "asking a person"
    code = f"step.{kind}-failed"
    if is_a(raised, OutcomeUnknown):
        # The worker was lost: nobody knows whether the call was made, so it has not failed
        # (decision D7).
        unknown = unknown_outcome(step, f"the outcome of {callee!r} is unknown: {raised}")
        if site.run.journal is None:
            hint = "check whether it had its effect; a run with a journal can be resumed"
            unknown.diagnostics = (replace(unknown.diagnostic, hint=hint),)
        return unknown
    if is_a(raised, TimedOut):
        hint = f"@{kind}(timeout=…) sets how long it may take"
        # The hint names what has set this time: the limit that was smallest.
        if raised.seconds == site.run.budget.limits.step_timeout:
            hint = STEP_TIMEOUT.how_to_set
        return StepError(Diagnostic("step.timeout", f"{name} {raised}", span, hint))
    if secrets.raised(raised):  # the exception itself is not shown either, so there is no cause
        message = f"{name} failed: {describe_masked(raised, secrets)}"
        return StepError(Diagnostic(code, message, span, HIDDEN if secrets.blind else None))
    # A StepError may come from the tool or from a run inside it.
    if is_a(raised, StepError) and (ours := _copy(raised)) is not None:
        return with_place(ours, step)
    hint = _cure(kind, raised, chose_thread)
    error = StepError(
        Diagnostic(code, f"{name} failed: {describe_exception(raised)}", span, hint or None)
    )
    # Whoever shows an error shows its cause too, and Python writes that in C.
    if can_write(raised):
        error.__cause__ = raised
    return error


def _cure(kind: str, raised: BaseException, chose_thread: bool) -> str:
    """A hint of the author of the function, or ours; empty: there is none."""
    if notes := "; ".join(notes_of(raised)):
        return notes
    if is_a(raised, MemoryError):
        return (
            "its process has too little memory: give the call less data, or the process a higher "
            "limit"
        )
    # Only a hint: libraries have no class of their own for an object that another thread made.
    if chose_thread and _OF_A_THREAD.search(describe_exception(raised)):
        return (
            f"where='kernel' in @{kind}(…) or {kind}(…) makes its calls on the notebook's thread, as "
            "an object that belongs to it needs"
        )
    return ""


def check_stored(step: Invoke, key: CallKey, name: str, journal: Journal) -> None:
    """Raise UnstoredError if the result of a call that must not be repeated could not be stored."""
    why = journal.rows.unstorable.pop(key, None)
    if why is None:
        return
    message = f"the result of {name!r} cannot be stored, and its call must not be repeated: {why}"
    hint = (
        "let it return what can be stored: an address or a path, not a connection; a full disk needs "
        "room"
    )
    raise UnstoredError(Diagnostic("journal.unstored", message, step.place, hint))


def unknown_outcome(step: Invoke, message: str) -> Unanswered:
    """A call with an effect was started, and nobody knows whether it ended."""
    hint = f"%resume RUN --answer yes calls it again; --answer '{{{RESULT}: …}}' gives its result"
    return Unanswered(Diagnostic("step.unknown-outcome", message, step.place, hint))


def unusable(site: CallSite[Invoke], callee: str, kind: str, error: Exception) -> StepError:
    """The result of user code cannot be copied."""
    code = f"step.{kind}-failed"
    why = describe_exception(error)
    if is_a(error, TooDeep):
        code = "step.too-deep"
        why = text_of(error)
    message = f"{kind} {callee!r} returned a value that cannot be used: {why}"
    return StepError(Diagnostic(code, message, site.step.place))


def with_place(error: StepError, step: Invoke, frame: Frame | None = None) -> StepError:
    """An error at its place: at the argument that it is about or at the name of the step. An error
    that has a place is returned as it is. ``frame``: what the arguments were built from, for a hint
    of the language about them."""
    diagnostic = error.diagnostic
    if diagnostic.span is not None:
        return error
    span = next(
        (span for name, span in step.args.names or () if name in error.arguments),
        None,
    )
    placed = _copy(error) or error
    hint = diagnostic.hint
    if frame is not None and hint is None and isinstance(step.args, HintedArgs):
        hint = next((step.args.hint_for(name, frame) for name in error.arguments), None)
    placed.diagnostics = (
        Diagnostic(diagnostic.code, diagnostic.message, span or step.place, hint),
    )
    return placed


def failure_from_record(recorded: str, step: Invoke) -> StepError:
    """A recorded failure, at this step."""
    error = error_from(recorded, ())
    placed = StepError(*(replace(problem, span=step.place) for problem in error.diagnostics))
    placed.__cause__ = error.__cause__
    return placed


def _copy(error: StepError) -> StepError | None:
    """The same error without its path: a run inside a tool has set the path in its own flow. None
    if its class is one of a user that cannot be read as an error of ours."""
    # Losing or failing to store in another run is an ordinary failure of this one: no call of this
    # one brings the value back, and `on_error` applies.
    kind = StepError if type(error) in (LostError, UnstoredError) else type(error)
    # Not `copy.copy`, and not the class: both call its `__init__` or `__reduce__`, which a user may
    # have written.
    try:
        copy = kind.__new__(kind, *error.args)
        copy.__dict__.update({**error.__dict__, "path": None, "where": None})
        copy.__cause__ = cause_of(error)
        is_ours = all(isinstance(diagnostic, Diagnostic) for diagnostic in copy.diagnostics)
        # Read now, so that a user class that raises is found here.
        str(copy), copy.text, copy.code, copy.arguments, copy.path_text
    except BaseException:
        return None
    return copy if is_ours else None


def describe_masked(error: BaseException, secrets: Secrets) -> str:
    """An exception that has a secret in a line; only its class where no text can be shown."""
    return kind_of(error) if secrets.blind else describe_exception(error, secrets.text)
