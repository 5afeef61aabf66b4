"""Exceptions of user code as failures of a step.

Questions to a person: steps that ask one, and calls that need an approval (decision A18).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from ..catalog import MASK, Tool
from ..flow import events as ev
from ..flow.events import Question
from ..flow.step import Frame, HintedArgs, Instead
from ..flow.steps import Invoke
from ..flow.values import TooDeep, Value, settle
from ..journal.records import value_of
from ..journal.secrets import HIDDEN, hide
from ..text.diagnostics import Diagnostic, StepError
from .host import NoUser
from .runner import CallSite, clock
from .user_code import OutcomeUnknown, Result, TimedOut

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


def with_place(error: StepError, step: Invoke, frame: Frame | None = None) -> StepError:
    """An error without a place, at the argument that it is about or at the name of the step.
    ``frame``: what the arguments were built from, for a hint of the language about them."""
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
    placed, hint = _copy(error), found.hint
    if frame is not None and hint is None and isinstance(step.args, HintedArgs):
        hint = next((step.args.hint_for(name, frame) for name in error.arguments), None)
    placed.diagnostics = (
        Diagnostic(found.code, found.message, span or step.name.span or step.span, hint),
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


ATTEMPTS = 3
"""How often a question is asked if the answer cannot be used."""


async def permitted(
    site: CallSite[Invoke], given: Mapping[str, Value], tool: Tool | None = None
) -> Mapping[str, Value] | None:
    """Ask a person to approve the call; without a user the answer is no (decision A18).

    Returns the arguments or the result that the person gives instead of the call, or None to make
    the call as it is. Raises StepError if the call is denied.
    """
    run, step, hides = site.run, site.step, tool.secret if tool is not None else frozenset()
    assert step.permit is not None
    shown = hide(given, hides)
    shown = (
        shown if run.secrets.blind else run.secrets.shown(shown)
    )  # the person must see something
    text = step.permit.ask(site.frame, given, shown)
    if text is None:
        return None
    question = Question(text, approval=True, where=ev.format_path(site.at))
    if step.permit.instead is not None:
        offered = {name: value for name, value in shown.items() if name not in step.exchange.offers}
        question = question._replace(arguments=offered, result=step.permit.instead.result)
    refused: StepError | None = None
    for _ in range(ATTEMPTS):
        try:
            reply = await answer(site, question, hides=hides)
        except ev.Unanswered:
            raise refused or _denied(step, "there is no user to approve it", text) from None
        if reply is True:
            return None
        if step.permit.instead is None or not isinstance(reply, dict):
            raise _denied(step, "it was denied", text)
        try:
            _replace_call(step.permit.instead, site.frame, given, reply, tool)
        except StepError as error:
            refused = _not_usable(step, error)
            question = question._replace(text=f"{refused.diagnostic.message}\n{text}")
        else:
            return reply
    assert refused is not None, "a usable answer was returned"
    raise refused


def _replace_call(
    instead: Instead,
    frame: Frame,
    given: Mapping[str, Value],
    reply: Mapping[str, Value],
    tool: Tool | None,
) -> None:
    """Tell the step what replaces its call. Raises StepError if it cannot be used."""
    result = instead.result
    if result in reply and len(reply) > 1:
        message = f"give either other arguments or {result!r}: with a result there is no call"
        raise StepError(Diagnostic("step.instead", message))
    if tool is not None and result not in reply:
        tool.check({**given, **reply})
    instead.take(frame, hide(reply, tool.secret if tool is not None else frozenset()))


def _denied(step: Invoke, why: str, question: str) -> StepError:
    message = f"{step.name.text!r} was not called: {why}"
    return StepError(
        Diagnostic(
            "step.denied", message, step.name.span or step.span, f"the question was: {question}"
        )
    )


def _not_usable(step: Invoke, error: StepError) -> StepError:
    found = error.diagnostic
    message = f"this answer cannot replace the call: {found.message}"
    return StepError(Diagnostic("step.instead", message, step.name.span or step.span, found.hint))


async def answer(
    site: CallSite[Invoke], question: Question, secret: bool = False, hides: Collection[str] = ()
) -> Value:
    """The answer to ``question``, from a person or from the journal. Raises Unanswered if there is
    no user.

    ``secret``: the answer is not journaled. ``hides``: neither are these keys of it.
    """
    run, step, journal = site.run, site.step, site.run.journal
    if journal is not None:
        record = journal.answered(site.key)
        if record is not None:
            if not question.approval:  # an approved call may still have to be made
                run.emit(ev.StepReplayed(site.at, clock(), journal.run_id))
            return value_of(record)
    question = question._replace(text=run.secrets.text(question.text))
    ok, value = await ask_person(site, question, secret, hides)
    if ok:
        if journal is not None:
            call = journal.start_call(step, None, site.key, {"text": question.text})
            hidden = isinstance(value, dict) and any(name in value for name in hides)
            await journal.keep_answer(call, value, secret or hidden)
        return value
    if isinstance(value, NoUser):
        hint = (
            f"resume it with an answer: %resume {journal.run_id} --answer …"
            if journal is not None
            else None
        )
        message = f"an answer is needed: {question.text}"
        raise ev.Unanswered(Diagnostic("run.waiting", message, step.name.span or step.span, hint))
    raise failure(site, None, "question", value)


async def ask_person(
    site: CallSite[Invoke], question: Question, secret: bool = False, hides: Collection[str] = ()
) -> Result:
    """Put ``question`` to a person, and emit that it is asked and how it ends."""
    run = site.run
    run.emit(ev.QuestionAsked(site.at, clock(), question))
    closed: ev.Event = ev.QuestionClosed(site.at, clock())
    try:
        ok, value = await run.host.ask(question)
        if ok:
            value = settle(value)
            for name in hides if isinstance(value, dict) else ():
                run.secrets.learn(value.get(name))
            closed = ev.QuestionAnswered(site.at, clock(), MASK if secret else hide(value, hides))
    finally:
        run.emit(closed._replace(when=clock()))
    return ok, value
