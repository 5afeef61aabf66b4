"""A run in a terminal: its line while it runs, and a question to the person who types the answer.

The question may also come in a cell or through a pipe. It is repeated until the answer is
understood. If no one can answer (no standard input, or its end), the engine denies an approval and
lets a run wait (decision A18).
"""

from __future__ import annotations

import builtins
import shutil
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TextIO

from ..engine.host import NoUser
from ..engine.runner import clock
from ..flow.events import Question
from ..flow.values import Value
from ..pictures.plain import line, plain
from ..text.diagnostics import Diagnostics
from ..text.nodes import Fields
from ..text.nodes import plain as plain_value
from ..text.source import Source
from ..text.yamlnodes import documents
from .run import Run

ANSWERS = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


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
    text = plain(question.text, 4_000)
    choices = [
        f"  {number}. {line(choice, 200)}" for number, choice in enumerate(question.choices, 1)
    ]
    return "\n".join([text, *choices])


def parse_answer(question: Question, text: str) -> Value:
    """The answer that ``text`` gives; None if it is not an answer to this question.

    >>> parse_answer(Question("Which?", ("red", "green")), "2")
    'green'
    >>> parse_answer(Question("pay(amount=5)?", approval=True, arguments={"amount": 5}), "{amount: 3}")
    {'amount': 3}
    """
    text = text.strip()
    if question.approval:
        answer = ANSWERS.get(text.lower())
        return _mapping(text) if answer is None and question.arguments is not None else answer
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
    if text in choices:
        return text
    if text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= len(choices):
        return choices[int(text[:6]) - 1]
    near = [choice for choice in choices if text and choice.lower().startswith(text.lower())]
    return near[0] if len(near) == 1 else None


def _prompt(question: Question) -> str:
    if question.approval and question.arguments is not None:
        # A changed call: ``{amount: …}``, ``{_output: …}``.
        names = [*islice(question.arguments, 1), question.result]
        return f"yes, no, {' or '.join(f'{{{line(name, 40)}: …}}' for name in names)}: "
    if question.approval:
        return "yes or no: "
    return f"1 to {len(question.choices)}: " if question.choices else "your answer: "


def _read(read: Callable[[str], str], prompt: str) -> str:
    try:
        return read(prompt)
    except (EOFError, OSError, RuntimeError) as error:  # no input, or its end
        raise NoUser("there is no user to answer") from error


_BEGIN = "\r\x1b[2K"
"""Goes to the begin of the line and empties it."""


class LiveLine:
    """It is written only into a terminal, and only while a run has it: what is left is the end of
    the run, which others write."""

    SECONDS = 0.25

    def __init__(self, file: TextIO) -> None:
        self._file, self._is_terminal, self._shown = file, file.isatty(), ""

    def show(self, run: Run) -> None:
        if not self._is_terminal or run.done or run.progress.asked:
            return self.clear()
        from ..pictures.page import live_line  # here: most processes have no such line

        text = live_line(run.progress, clock())[: shutil.get_terminal_size().columns - 1]
        if text != self._shown:
            self._shown = text
            self._file.write(f"{_BEGIN}{text}")
            self._file.flush()

    def clear(self) -> None:
        if self._shown:
            self._shown = ""
            self._file.write(_BEGIN)
            self._file.flush()
