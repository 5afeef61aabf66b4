"""Makes the errors of a call: from user code, from unusable results, from unknown outcomes, from
the journal.

Each error gets the place of its step.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ...catalog.tools.outcome_unknown import OutcomeUnknown
from ...flow.progress.question import Unanswered
from ...flow.protocols import Frame, HintedArgs
from ...flow.steps import Invoke
from ...journal.database.errors import CURES, JournalError
from ...journal.records.failures import UnstoredError
from ...journal.records.records import CallKey
from ...journal.run_journal import Journal
from ...journal.secrets.masking import HIDDEN, Secrets
from ...limits.limits import STEP_TIMEOUT
from ...text.diagnostics import Diagnostic, StepError
from ...text.length import can_write
from ...text.raised import cause_of, describe_exception, is_a, kind_of, notes_of, text_of
from ...values.extent import TooDeep
from ...values.unread import LostError
from ..runner import ENDS_RUN, CallSite
from ..threads.user_code import TimedOut

_OF_A_THREAD = re.compile(r"\bthread\b")

_UNPLACED = {
    "path": None,
    "where": None,
    "element": None,
    "place_words": "",
    "partial": None,
    "ended_run": False,
    "is_unknown_name": False,
}
"""The fields of an error that a run sets for its own flow."""

OWN_TIMEOUT = "the step sets this timeout"
"""The hint if the time limit of a step was reached."""
RESULT = "result"
"""The key of the result in an answer about a call whose outcome is unknown."""


def failure(
    site: CallSite[Invoke],
    callee: str | None,
    kind: str,
    raised: BaseException,
    chose_thread: bool = False,
    has_effect: bool = False,
) -> StepError:
    """The failure of the step for the exception ``raised`` of user code. ``callee``: the name of
    the callee. ``kind``: its kind. ``chose_thread``: whether the engine chose a thread for the
    call. ``has_effect``: whether the call must not be repeated."""
    step = site.step
    secrets = site.run.secrets
    span = step.place
    name = f"{kind} {callee!r}" if callee is not None else "asking a person"
    code = f"step.{kind}-failed"
    if has_effect and is_a(raised, OutcomeUnknown):
        # Nobody knows whether the call has its effect, so it did not fail (decision D7).
        unknown = unknown_outcome(step, f"the outcome of {callee!r} is unknown: {_why(raised)}")
        if site.run.journal is None:
            hint = "check whether it had its effect; a run with a journal can be resumed"
            unknown.diagnostics = (replace(unknown.diagnostic, hint=hint),)
        return unknown
    if is_a(raised, TimedOut):
        hint = which_limit(site, kind, raised)
        return StepError(Diagnostic("step.timeout", f"{name} {raised}", span, hint))
    if secrets.raised(raised):  # the exception has a secret, so it does not become the cause
        message = f"{name} failed: {describe_masked(raised, secrets)}"
        return StepError(Diagnostic(code, message, span, HIDDEN if secrets.blind else None))
    # A StepError may come from the tool or from a run inside it.
    if is_a(raised, StepError) and (ours := _copy(raised)) is not None:
        return with_place(ours, step)
    hint = _cure(kind, raised, chose_thread)
    error = StepError(
        Diagnostic(code, f"{name} failed: {describe_exception(raised)}", span, hint or None)
    )
    # A view of the error shows its cause, too, and Python writes the cause's text in C.
    if can_write(raised):
        error.__cause__ = raised
    return error


def which_limit(site: CallSite[Invoke], kind: str, late: TimedOut) -> str:
    """The hint about the time limit that a call exceeded: the smallest limit, which set this time."""
    if late.seconds == site.run.budget.limits.step_timeout:
        return STEP_TIMEOUT.how_to_set
    if late.seconds == site.step.timeout:
        return OWN_TIMEOUT
    return f"@{kind}(timeout=…) sets how long it may take"


def _why(unknown: OutcomeUnknown) -> str:
    """Why the outcome of a call is unknown, as a clause."""
    if is_a(unknown, StepError):
        return unknown.diagnostic.message
    return f"it {unknown}" if is_a(unknown, TimedOut) else str(unknown)


def _cure(kind: str, raised: BaseException, chose_thread: bool) -> str:
    """The hint for an exception, from the function's author or from us; empty: there is none."""
    if notes := "; ".join(notes_of(raised)):
        return notes
    if is_a(raised, MemoryError):
        return (
            "its process has too little memory: give the call less data, or the process a higher "
            "limit"
        )
    # Judged by the text, which is good enough for a hint: libraries have no class for this error.
    if chose_thread and _OF_A_THREAD.search(describe_exception(raised)):
        return (
            f"where='kernel' in @{kind}(…) or {kind}(…) makes its calls on the notebook's thread, as "
            "an object that belongs to it needs"
        )
    return ""


def check_stored(
    step: Invoke, key: CallKey, name: str, journal: Journal, has_effect: bool = False
) -> None:
    """Raise UnstoredError if the result of a call that must not be repeated could not be stored.
    ``has_effect``: whether it had an effect; a call without one may be made again if its row could
    not be written."""
    hint = (
        "let it return what can be stored: an address or a path, not a connection; a full disk needs "
        "room"
    )
    why: object = journal.rows.unstorable.pop(key, None)
    if why is None and has_effect and (unwritten := journal.why_unwritten) is not None:
        why, hint = unwritten, CURES[unwritten.code]
    if why is None:
        return
    message = f"the result of {name!r} cannot be stored, and its call must not be repeated: {why}"
    raise UnstoredError(Diagnostic("journal.unstored", message, step.place, hint))


def unrecorded_start(step: Invoke, name: str, why: JournalError) -> UnstoredError:
    """The error for a call that is not made, because its start cannot be written."""
    message = f"{name!r} is not called, because the journal cannot record that it starts: {why}"
    return UnstoredError(Diagnostic("journal.unstored", message, step.place, CURES[why.code]))


class UnknownEffect(Unanswered, OutcomeUnknown):
    """A call with an effect was started, and nobody knows whether it ended. A tool that has started
    the run of the call passes this on."""


def unknown_outcome(step: Invoke, message: str) -> UnknownEffect:
    """The error for a call with an effect that was started, if nobody knows whether it ended."""
    hint = f"%resume RUN --answer yes calls it again; --answer '{{{RESULT}: …}}' gives its result"
    return UnknownEffect(Diagnostic("step.unknown-outcome", message, step.place, hint))


def unusable(site: CallSite[Invoke], callee: str, kind: str, error: Exception) -> StepError:
    """The error for a result of user code that cannot be copied."""
    code = f"step.{kind}-failed"
    why = describe_exception(error)
    if is_a(error, TooDeep):
        code = "step.too-deep"
        why = text_of(error)
    message = f"{kind} {callee!r} returned a value that cannot be used: {why}"
    return StepError(Diagnostic(code, message, site.step.place))


def with_place(error: StepError, step: Invoke, frame: Frame | None = None) -> StepError:
    """``error`` with a place: that of its argument or of the step's name. An error with a place is
    returned unchanged. ``frame``: the frame of the arguments, for a hint of the language."""
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


def _copy(error: StepError) -> StepError | None:
    """A copy of ``error`` without its path, which a run inside a tool has set for its own flow.
    None if the error is of a user's class that cannot be read as one of ours."""
    kind = StepError if _is_of_other_run(error) else type(error)
    # `copy.copy` or the class would call an `__init__` or `__reduce__` that a user may have
    # written.
    try:
        copy = kind.__new__(kind, *error.args)
        copy.__dict__.update({**error.__dict__, **_UNPLACED})
        copy.__cause__ = cause_of(error)
        is_ours = all(isinstance(diagnostic, Diagnostic) for diagnostic in copy.diagnostics)
        # Read now, so that an exception of a user's class is caught here.
        str(copy), copy.text, copy.code, copy.arguments, copy.path_text
    except BaseException:
        return None
    return copy if is_ours else None


def _is_of_other_run(error: StepError) -> bool:
    """Whether another run ended with ``error``, or has lost a value. That is an ordinary failure of
    the call that raises it here: neither an answer nor a limit of this run changes it, and
    `on_error` applies. But a person decides about an effect that nobody knows (decision D7)."""
    if is_a(error, (LostError, UnstoredError)):
        return True
    return is_a(error, ENDS_RUN) and bool(error.ended_run) and not is_a(error, OutcomeUnknown)


def describe_masked(error: BaseException, secrets: Secrets) -> str:
    """The text of an exception with a secret on one line; only its class if no text may be
    shown."""
    return kind_of(error) if secrets.blind else describe_exception(error, secrets.text)
