"""Questions: what a person is asked while a run goes on, and what must be approved before it is called (A18)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..catalog import MASK, Tool
from ..flow.frame import Frame
from ..flow.steps import Invoke
from ..flow.values import Value, settle
from ..host.host import Nobody
from ..journal.records import value_of
from ..progress import events as ev
from ..progress.events import Question
from ..secrets.masking import hide
from ..text.diagnostics import Diagnostic, StepError
from .external import failure
from .runner import Runner, clock

ASKED = 3
"""Times that an approval is asked for whose answer puts something in the call's place that cannot be used."""


async def permitted(
    run: Runner,
    step: Invoke,
    frame: Frame,
    given: Mapping[str, Value],
    at: ev.StepPath,
    tries: str,
    tool: Tool | None = None,
) -> Mapping[str, Value] | None:
    """Let a person approve the call, where the step says that one must; nobody there is a no (decision A18).

    Gives what the person put in its place, where the step takes that; None: it is made as it is. Raises StepError.
    """
    assert step.permit is not None
    shown = hide(given, tool.secret) if tool is not None else given
    shown = shown if run.secrets.blind else run.secrets.shown(shown)  # who approves must see something
    text = step.permit(frame, given, shown)
    if text is None:
        return None
    question = Question(text, approval=True, where=ev.format_path(at))
    if step.instead is not None:
        offered = {name: value for name, value in shown.items() if name not in step.offers}
        question = question._replace(arguments=offered, result=step.instead.result)
    wrong: StepError | None = None
    for _ in range(ASKED):
        try:
            said = await answer(run, step, question, at, tries, hides=tool.secret if tool is not None else ())
        except ev.Unanswered:
            raise wrong or _denied(step, "nobody is there to approve it", text) from None
        if said is True:
            return None
        if step.instead is None or not isinstance(said, dict):
            raise _denied(step, "it was denied", text)
        try:
            _put(step, frame, given, said, tool)
        except StepError as error:
            wrong = _placed(step, error)
            question = question._replace(text=f"{wrong.diagnostic.message}\n{text}")
        else:
            return said
    assert wrong is not None, "an answer that can be used has been taken"
    raise wrong


def _put(step: Invoke, frame: Frame, given: Mapping[str, Value], said: Mapping[str, Value], tool: Tool | None) -> None:
    """Tell the step what is put in its call's place. Raises StepError for what cannot be."""
    assert step.instead is not None
    result, hidden = step.instead.result, tool.secret if tool is not None else frozenset()
    if result in said and len(said) > 1:
        message = f"either other arguments or {result!r}: with a result there is no call"
        raise StepError(Diagnostic("step.instead", message))
    if tool is not None and result not in said:
        tool.check({**given, **said})
    step.instead.take(frame, hide(said, hidden))


def _denied(step: Invoke, why: str, asked: str) -> StepError:
    message = f"{step.name.text!r} was not called: {why}"
    return StepError(Diagnostic("step.denied", message, step.name.span or step.span, f"what was asked: {asked}"))


def _placed(step: Invoke, error: StepError) -> StepError:
    found = error.diagnostic
    message = f"what was to be put in the place of this call cannot be: {found.message}"
    return StepError(Diagnostic("step.instead", message, step.name.span or step.span, found.hint))


async def answer(
    run: Runner,
    step: Invoke,
    question: Question,
    at: ev.StepPath,
    tries: str,
    secret: bool = False,
    hides: Collection[str] = (),
) -> Value:
    """What a person says to ``question``, or said in an earlier session. Raises Unanswered when nobody is there.

    ``secret``: it is none that may be kept; ``hides``: what of it may not, where it is a mapping.
    """
    journal = run.journal
    if journal is not None:
        kept = journal.answered(at, tries)
        if kept is not None:
            if not question.approval:  # the call that was approved may still have to be made
                run.emit(ev.StepReplayed(at, clock(), journal.run_id))
            return value_of(kept)
    question = question._replace(text=run.secrets.text(question.text))
    run.emit(ev.QuestionAsked(at, clock(), question))
    ok, said_ = await run.host.ask(question)
    value = settle(said_) if ok else None
    hidden = [value[name] for name in hides if name in value] if isinstance(value, dict) else []
    for one in hidden:
        run.secrets.learn(one)
    run.emit(ev.QuestionAnswered(at, clock(), MASK if secret else hide(value, hides)))
    if ok:
        if journal is not None:
            call = journal.start_call(step, None, at, tries, {"text": question.text})
            await journal.keep_answer(call, value, secret or bool(hidden))
        return value
    if isinstance(said_, Nobody):
        hint = "take it up with an answer: %resume RUN --answer …"
        found = Diagnostic("run.waiting", f"an answer is needed: {question.text}", step.name.span or step.span, hint)
        raise ev.Unanswered(found)
    raise failure(None, "question", step, run.secrets, said_)
