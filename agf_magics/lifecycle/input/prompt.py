"""Asks the questions of a run at the prompt of a terminal.

The answer is typed or comes through a pipe. The question is repeated until the answer is valid. If
nobody can answer (no standard input, or its end), the engine denies an approval and lets a run wait
(decision A18).
"""

from __future__ import annotations

import builtins
from collections.abc import Callable

from ...engine.calls.answers import parse_answer
from ...engine.host.host import NoUser
from ...flow.progress.question import Question
from ...flow.question_text import long_arguments, other_answers
from ...pictures.plain import line, plain
from ...values.value import Value

LONGEST_ARGUMENT = 20_000
"""Characters of an argument that a terminal shows; `Question.arguments` has all."""

TRIES = 20
"""The number of answers that are tried: a pipe may send anything."""


def ask_at_prompt(
    question: Question,
    *,
    say: Callable[[str], object] = print,
    read: Callable[[str], str] | None = None,
) -> Value:
    """Ask the question, and return the answer: for an approval True, False, or a mapping of changed
    arguments; otherwise one of the choices, or a text. Raises NoUser."""
    say(format_question(question))
    for _ in range(TRIES):
        answer = parse_answer(question, _read(read or builtins.input, _prompt(question)))
        if answer is not None:
            return answer
        say(f"please answer {_prompt(question).strip()}")
    raise NoUser(f"none of {TRIES} answers was understood")


def format_question(question: Question) -> str:
    """The question as shown, without control characters."""
    choices = [
        f"  {number}. {line(choice, 200)}" for number, choice in enumerate(question.choices, 1)
    ]
    arguments = [f"  {argument}" for argument in long_arguments(question, LONGEST_ARGUMENT)]
    # A line of the text that begins as a line of ours would look like the prompt, or another
    # question.
    text = plain(question.text, 4_000).replace("\n", "\n│ ")
    return "\n".join([text, *arguments, *choices])


def _prompt(question: Question) -> str:
    if others := other_answers(question):
        return f"yes, no, {others}: "
    if question.approval:
        return "yes or no: "
    return f"1 to {len(question.choices)}: " if question.choices else "your answer: "


def _read(read: Callable[[str], str], prompt: str) -> str:
    try:
        return read(prompt)
    except (EOFError, OSError, RuntimeError) as error:  # no input, or its end
        raise NoUser("there is no user to answer") from error
