"""Questions: what a person is asked while a run goes on, and what must be approved before it is called (A18)."""

from __future__ import annotations

from collections.abc import Mapping

from ..flow.frame import Frame
from ..flow.steps import Invoke
from ..flow.values import Value, settle
from ..text.diagnostics import Diagnostic, StepError
from . import events as ev
from .events import Question
from .host import Nobody
from .outside import failure
from .perform import Performer, Unanswered, clock
from .records import value_of


async def permitted(
    run: Performer, step: Invoke, frame: Frame, given: Mapping[str, Value], at: ev.At, tries: str
) -> None:
    """Let a person approve the call, where the step says that one must; nobody there is a no (decision A18)."""
    assert step.permit is not None
    text = step.permit(frame, given)
    if text is None:
        return
    why = "it was denied"
    try:
        if await answer(run, step, Question(text, approval=True, where=ev.at_text(at)), at, tries) is True:
            return
    except Unanswered:
        why = "nobody is there to approve it"
    message = f"{step.name.text!r} was not called: {why}"
    raise StepError(Diagnostic("step.denied", message, step.name.span or step.span, f"what was asked: {text}"))


async def answer(run: Performer, step: Invoke, question: Question, at: ev.At, tries: str) -> Value:
    """What a person says to ``question``, or said in an earlier session. Raises Unanswered when nobody is there."""
    journal = run.journal
    if journal is not None:
        kept = journal.answered(at, tries)
        if kept is not None:
            if not question.approval:  # the call that was approved may still have to be made
                run.emit(ev.StepKept(at, clock(), journal.run_id))
            return value_of(kept)
    run.emit(ev.Asked(at, clock(), question))
    ok, said_ = await run.host.ask(question)
    run.emit(ev.Answered(at, clock(), said_ if ok else None))
    if ok:
        value = settle(said_)
        if journal is not None:
            await journal.keep_answer(journal.calling(step, None, at, tries, {"text": question.text}), value)
        return value
    if isinstance(said_, Nobody):
        hint = "take it up with an answer: %resume RUN --answer …"
        found = Diagnostic("run.waiting", f"an answer is needed: {question.text}", step.name.span or step.span, hint)
        raise Unanswered(found)
    raise failure(None, "question", step, {}, said_)
