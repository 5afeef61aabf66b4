"""Gets the answer to a question: from a person, from the journal or from a recording."""

from __future__ import annotations

from collections.abc import Collection

from ...catalog import MASK
from ...catalog.tools.context import check_answer
from ...flow.progress import events as ev
from ...flow.progress.question import Question, Unanswered
from ...flow.question_text import question_digest
from ...flow.steps import Invoke
from ...journal.records.records import value_of
from ...journal.secrets.masking import Secrets
from ...journal.secrets.placeholders import hide
from ...text.diagnostics import Diagnostic
from ...values.value import Value, settle
from ..host.host import NoUser
from ..runner import CallSite, clock
from ..threads.user_code import Result
from .answers import read_approval
from .failures import failure

ATTEMPTS = 3
"""The number of times that a question is asked if the answer cannot be used."""


async def get_answer(
    site: CallSite[Invoke], question: Question, secret: bool = False, hides: Collection[str] = ()
) -> Value:
    """The answer to ``question``, from a person, the journal or a recording. Raises Unanswered if
    there is no user.

    ``secret``: whether the answer is secret, so that it is not journaled; default False. ``hides``:
    the keys of the answer that are not journaled.
    """
    run = site.run
    journal = site.run.journal
    recording = site.run.options.recording
    # Masked before it is shown, because a notebook stores its outputs.
    question = question._replace(text=run.secrets.text(question.text), secret=secret)
    if journal is not None:
        call = journal.start_call(site.step, None, site.key, {"text": question.text})
        call = call._replace(digest=question_digest(question).encode())
        # A resumed run must not ask again if the journal has the answer to this question.
        record = journal.take_answer(site.key, call.digest)
        if record is not None:
            if not question.approval:  # an approved call may not have been made yet
                run.emit(ev.StepReplayed(site.path, clock(), journal.run_id))
            return value_of(record)
    if recording is not None:
        asked = recording.ask(site, "question", None, {"text": question.text})
        # `approvals` decides whether a recorded approval counts.
        outcome = recording.take(asked) if not question.approval else None
        if outcome is not None:
            run.emit(ev.StepReplayed(site.path, clock(), recording.name))
            return outcome.value
    ok, value = await ask_person(site, question, secret, hides)
    if ok:
        if recording is not None:
            recording.keep(asked, hide(value, hides))
        if journal is not None:
            hidden = isinstance(value, dict) and any(name in value for name in hides)
            await journal.write_answer(call, value, secret or hidden)
        return value
    if isinstance(value, NoUser):
        hint = (
            f"resume it with an answer: %resume {journal.run_id} --answer …"
            if journal is not None
            else None
        )
        message = f"an answer is needed: {question.text}"
        raise Unanswered(Diagnostic("run.waiting", message, site.step.place, hint))
    raise failure(site, None, "question", value)


async def ask_person(
    site: CallSite[Invoke],
    question: Question,
    secret: bool = False,
    hides: Collection[str] = (),
    is_busy: bool = False,
) -> Result:
    """Put ``question`` to a person, and emit that it is asked and how it ends. Whoever shows it gets
    it without secrets. ``is_busy``: see `Host.ask`."""
    run = site.run
    shown = _without_secrets(question, run.secrets)
    run.emit(ev.QuestionAsked(site.path, clock(), shown))
    if run.journal is not None:
        run.journal.note_asked(site.key, shown.text)
    # In any case, a view must see the end of the question.
    closed: ev.Event = ev.QuestionClosed(site.path, clock())
    try:
        ok, value = await run.host.ask(shown, is_busy)
        if ok:
            # An asker is user code, so its answer is converted like the result of a tool.
            value = settle(value)
            # Checked before the answer is journaled.
            if question.approval:
                place = site.step.place if isinstance(site.step, Invoke) else None
                value = read_approval(shown, value, place)
            elif question.choices:
                chosen = check_answer(shown, value, site.step.place)
                value = question.choices[shown.choices.index(chosen)]
            for name in hides if isinstance(value, dict) else ():
                run.secrets.learn(value.get(name))
            closed = ev.QuestionAnswered(site.path, clock(), MASK if secret else hide(value, hides))
    finally:
        run.emit(closed._replace(when=clock()))
    return ok, value


def _without_secrets(question: Question, secrets: Secrets) -> Question:
    """``question`` with masks in its text and its choices. Different choices stay different, because
    the answer is one of them."""
    choices = list[str]()
    for choice in question.choices:
        masked = secrets.text(choice)
        if masked != choice and masked in (*choices, *question.choices):
            masked += f" ({len(choices) + 1})"
        choices.append(masked)
    return question._replace(text=secrets.text(question.text), choices=tuple(choices))
