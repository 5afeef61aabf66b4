"""Questions to a person: steps that ask one, and calls that need an approval (decision A18)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..catalog import MASK, Tool
from ..flow.frame import Frame
from ..flow.steps import Invoke
from ..flow.values import Value, settle
from ..host.calls import Result
from ..host.host import NoUser
from ..journal.records import value_of
from ..progress import events as ev
from ..progress.events import Question
from ..secrets.masking import hide
from ..text.diagnostics import Diagnostic, StepError
from .failures import failure
from .runner import CallSite, clock

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
    text = step.permit(site.frame, given, shown)
    if text is None:
        return None
    question = Question(text, approval=True, where=ev.format_path(site.at))
    if step.instead is not None:
        offered = {name: value for name, value in shown.items() if name not in step.offers}
        question = question._replace(arguments=offered, result=step.instead.result)
    refused: StepError | None = None
    for _ in range(ATTEMPTS):
        try:
            reply = await answer(site, question, hides=hides)
        except ev.Unanswered:
            raise refused or _denied(step, "there is no user to approve it", text) from None
        if reply is True:
            return None
        if step.instead is None or not isinstance(reply, dict):
            raise _denied(step, "it was denied", text)
        try:
            _replace_call(step, site.frame, given, reply, tool)
        except StepError as error:
            refused = _not_usable(step, error)
            question = question._replace(text=f"{refused.diagnostic.message}\n{text}")
        else:
            return reply
    assert refused is not None, "a usable answer was returned"
    raise refused


def _replace_call(
    step: Invoke,
    frame: Frame,
    given: Mapping[str, Value],
    reply: Mapping[str, Value],
    tool: Tool | None,
) -> None:
    """Tell the step what replaces its call. Raises StepError if it cannot be used."""
    assert step.instead is not None
    result = step.instead.result
    if result in reply and len(reply) > 1:
        message = f"give either other arguments or {result!r}: with a result there is no call"
        raise StepError(Diagnostic("step.instead", message))
    if tool is not None and result not in reply:
        tool.check({**given, **reply})
    step.instead.take(frame, hide(reply, tool.secret if tool is not None else frozenset()))


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
