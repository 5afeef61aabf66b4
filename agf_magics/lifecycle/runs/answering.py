"""Answers the open question of a background run by a call, for people who have no view of the
run."""

from __future__ import annotations

import time

from ...engine.calls.answers import parse_given, read_approval
from ...flow.progress.progress import Progress
from ...flow.progress.question import Question, WrongAnswer
from ...settings.settings import current
from ...text.diagnostics import DefinitionError, refused
from ...values.value import Value
from .pending_questions import PendingQuestion

SOON = 1.0
"""Seconds in which a question that a run has begun to ask can be answered."""


def answer_question(
    run_id: str, name: str, progress: Progress, answer: Value, step: str | None
) -> None:
    """Give ``answer`` to the open question of a run. Raises DefinitionError if there is no
    question, if another step asked it, or if the answer does not fit."""
    until = time.monotonic() + SOON
    while (
        not (waiting := _waiting(progress)) and progress.open_questions and time.monotonic() < until
    ):
        time.sleep(0.01)  # the question is asked on the loop of the run
    meant = [pending for pending in waiting if step in (None, pending.question.where)]
    if len(meant) != 1:
        places = [pending.question.where for pending in waiting]
        raise _unclear(run_id, name, progress, places, step)
    meant[0].take(fitting_answer(meant[0].question, answer))


def _waiting(progress: Progress) -> list[PendingQuestion]:
    """The questions that wait for an answer now. Of several open questions only one is asked at a
    time; the others come later."""
    open_questions = list(progress.open_questions.values())
    return [
        pending
        for question in open_questions
        if (pending := PendingQuestion.of(question)) is not None
    ]


def fitting_answer(question: Question, answer: Value) -> Value:
    """The answer as the engine takes it. Raises DefinitionError if it does not fit."""
    try:
        parsed = parse_given(question, answer)
        return read_approval(question, parsed, None) if question.approval else parsed
    except WrongAnswer as wrong:
        raise DefinitionError(*wrong.diagnostics) from None


def _unclear(
    run_id: str, name: str, progress: Progress, places: list[str], step: str | None
) -> DefinitionError:
    """The error for an answer without a question, or to a question of a step that is not in
    ``places``."""
    if places:
        listed = " and ".join(sorted(map(repr, places)))
        message = f"{name!r} waits for an answer at {listed}" + f", not at {step!r}" * (
            step is not None
        )
        return refused("run.no-question", message, f"step={places[0]!r} is one that asks")
    if progress.open_questions:
        message = f"the question of {name!r} is put to a function or asked in a cell that waits"
        return refused("run.no-question", message, "answer it there")
    has_ended = progress.ended is not None
    message = f"{name!r} asks nothing now" + f": it has ended: {progress.status}" * has_ended
    how = current.words.answer_run.format(run_id) if progress.status == "waiting" else None
    return refused("run.no-question", message, how)
