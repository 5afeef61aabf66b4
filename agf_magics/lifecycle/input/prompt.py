"""Questions of a run, asked and answered at the prompt of a terminal.

An answer is typed, or comes through a pipe. The question is repeated until the answer is
understood. If no one can answer (no standard input, or its end), the engine denies an approval and
lets a run wait (decision A18).
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from itertools import islice

from ...engine.host.host import NoUser
from ...flow.progress.events import Question
from ...flow.questions import long_arguments
from ...pictures.plain import line, plain
from ...text.diagnostics import Diagnostics
from ...text.source import Source
from ...text.yaml.nodes import Fields
from ...text.yaml.nodes import plain as plain_value
from ...text.yaml.reader import documents
from ...values.value import Value

ANSWERS = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


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
    """Ask, and return the answer: for an approval True, False, or a mapping of changed arguments;
    one of the choices; else the text. Raises NoUser."""
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
    arguments = [f"  {each}" for each in long_arguments(question, LONGEST_ARGUMENT)]
    # A line of the text that begins as a line of ours would look like the prompt, or another question.
    text = plain(question.text, 4_000).replace("\n", "\n│ ")
    return "\n".join([text, *arguments, *choices])


def parse_answer(question: Question, text: str) -> Value:
    """The answer that ``text`` gives; None if it is not an answer to this question.

    >>> parse_answer(Question("Which?", ("red", "green")), "2")
    'green'
    >>> call = Question("call pay(amount=5)?", approval=True, arguments={"amount": 5}, result="_output")
    >>> parse_answer(call, "{amount: 3}")
    {'amount': 3}
    """
    text = text.strip()
    if question.approval:
        answer = ANSWERS.get(text.lower())
        return _mapping(text) if answer is None and question.result else answer
    if not question.choices:
        return text
    return _choice(text, question.choices)


def _mapping(text: str) -> Value:
    """The changed arguments of a call, as YAML or JSON: ``{amount: 3}`` or ``amount: 3``."""
    problems = Diagnostics()
    nodes = documents(Source("", text), problems)
    mapping = (
        plain_value(nodes[0])
        if not problems.errors and len(nodes) == 1 and isinstance(nodes[0], Fields)
        else None
    )
    return mapping or None


def _choice(text: str, choices: Sequence[str]) -> str | None:
    """The choice with this text, this number, or (if there is only one) this beginning."""
    numbered = {str(number): choice for number, choice in enumerate(choices, 1)}
    exact = numbered | dict(zip(choices, choices, strict=True))
    if text in exact:
        return exact[text]
    near = [choice for choice in choices if text and choice.lower().startswith(text.lower())]
    return near[0] if len(near) == 1 else None


def _prompt(question: Question) -> str:
    if question.approval and question.result:
        # A changed call: ``{amount: …}``, ``{_output: …}``.
        names = [*islice(question.arguments or (), 1), question.result]
        return f"yes, no, {' or '.join(f'{{{line(name, 40)}: …}}' for name in names)}: "
    if question.approval:
        return "yes or no: "
    return f"1 to {len(question.choices)}: " if question.choices else "your answer: "


def _read(read: Callable[[str], str], prompt: str) -> str:
    try:
        return read(prompt)
    except (EOFError, OSError, RuntimeError) as error:  # no input, or its end
        raise NoUser("there is no user to answer") from error
