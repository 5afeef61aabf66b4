"""Writes the call that a question to a person is about: its arguments, complete or cut.

The arguments may come from a model, so no text in them may look like a part of the question. Each
value is JSON on one line, in which every character is visible, and a cut tells how much is missing.
`Question.arguments` has the whole arguments, which the views show as well (`long_arguments`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from itertools import islice

from ..text.length import can_write
from ..text.visible import visible, visible_json
from ..values.opaque import describe_array, describe_scalar
from ..values.value import Value, type_name
from .progress.question import Question

LONGEST = 600
"""The largest number of characters of the arguments in the text of a question."""

ONE_LINE = 100
"""The number of characters of arguments that a person reads at a glance."""

SHORTEST = 40
"""The number of characters that each argument may have at least."""

MOST_NAMED = 50
"""The largest number of arguments in the text of a question."""

_WORD = re.compile(r"[\w.@+•-]{1,40}", re.ASCII)
"""A word that is shown as it is. All other texts are shown as JSON, so that their end is
visible."""


def other_answers(question: Question) -> str:
    """What a person may type in place of yes and no, as ``{amount: …} as arguments or {_output: …} as
    result``; empty if nothing."""
    if not question.approval or not question.result:
        return ""
    argument = next(iter(question.arguments or ()), "")
    shapes = {"arguments": argument, "result": question.result}
    return " or ".join(
        f"{{{visible(name[:SHORTEST])}: …}} as {role}" for role, name in shapes.items() if name
    )


def value_line(value: Value, longest: int | None = None) -> str:
    """``value`` as JSON on one line, of which at most ``longest`` characters are shown. A
    mapping may take more: each of its first `MOST_NAMED` parts has at least `SHORTEST`.

    >>> value_line("a\\nb"), value_line("abcdef", 3)
    ('"a\\\\nb"', '"ab… (8 characters)')
    """
    if not can_write(value):
        return f"<{type_name(value)}, which is too large to be shown>"
    text = visible_json(value, _words_of)
    if longest is None or len(text) <= longest:
        return text
    if type(value) is dict:  # a long part must not hide the parts after it
        parts = [f"{visible_json(name)}:{part}" for name, part in _shorten(value, longest)]
        return f"{{{','.join(parts)}}}"
    return f"{text[:longest]}… ({len(text):,} characters)"


def call_line(arguments: Mapping[str, Value], longest: int = LONGEST) -> str:
    """The arguments in the form of a Python call. Arguments that are left out are counted.

    >>> call_line({"amount": 5, "to": "ann"})
    'amount=5, to="ann"'
    """
    whole = sum(len(value_line(value)) for value in arguments.values()) <= longest
    if whole and len(arguments) <= MOST_NAMED:
        return ", ".join(
            f"{_argument(name)}={value_line(value)}" for name, value in arguments.items()
        )
    return ", ".join(f"{_argument(name)}={part}" for name, part in _shorten(arguments, longest))


def long_arguments(question: Question, longest: int) -> list[str]:
    """Each argument of the call on a line of its own, with at most ``longest`` characters of its
    value; empty if the text of the question already shows them completely."""
    arguments = question.arguments or {}
    line = call_line(arguments)
    # The texts are equal only if nothing was cut.
    if len(line) <= ONE_LINE and line == call_line(arguments, len(line)):
        return []
    return [f"{_argument(name)}: {value_line(value, longest)}" for name, value in arguments.items()]


def question_digest(question: Question) -> str:
    """A digest that distinguishes a question from others at the same step. An answer names the
    digest of its question."""
    asked = (question.where, question.text, question.choices, value_line(question.arguments))
    return hashlib.sha256(repr(asked).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def word_or_json(value: Value) -> str:
    """``value`` for a sentence of an author: a single word as it is, everything else as JSON.

    >>> word_or_json("ann"), word_or_json("ann? yes. And bob")
    ('ann', '"ann? yes. And bob"')
    """
    if isinstance(value, str) and _WORD.fullmatch(value):
        return value
    return value_line(value, LONGEST)


def _shorten(values: Mapping[str, Value], longest: int) -> Iterator[tuple[str, str]]:
    """The first names, each with a part of its value. A last pair counts the names that are left
    out."""
    shown = list(islice(values.items(), MOST_NAMED))
    room = max(SHORTEST, longest // max(1, len(shown)))
    for name, value in shown:
        text = visible_json(value, _words_of)
        yield name, text if len(text) <= room else f"{text[:room]}… ({len(text):,} characters)"
    if len(values) > len(shown):
        yield "…", f"{len(values) - len(shown):,} more"


def _argument(name: str) -> str:
    return name if isinstance(name, str) and _WORD.fullmatch(name) else value_line(name, 100)


def _words_of(value: Value) -> str:
    return describe_scalar(value) or describe_array(value) or f"<{type_name(value)}>"
