"""Converts a question of a run to a form for an MCP client, and the filled form to an answer."""

from __future__ import annotations

import json
from typing import Any

from ...flow.progress.question import Question
from ...flow.question_text import long_arguments
from ...pictures.plain import line, plain
from ...values.value import Value

FIELD = "answer"
"""The only field of the form."""

LONGEST = 4_000
"""Characters of the text of a question, and of each argument of the call that it is about."""

MOST_CHOICES = 100
"""Choices that a form offers. A question with more is answered by a text."""


def question_text(question: Question) -> str:
    """The question with the arguments of its call, without control characters."""
    arguments = [f"  {argument}" for argument in long_arguments(question, LONGEST)]
    return "\n".join([plain(question.text, LONGEST), *arguments])


def form(question: Question) -> dict[str, Any]:
    """The JSON Schema of the answer: yes or no, one of the choices, or a text."""
    field: dict[str, Any] = {"type": "string", "title": "Answer"}
    if question.approval:
        field = {"type": "boolean", "title": "Approve"}
    elif 0 < len(question.choices) <= MOST_CHOICES:
        field["enum"] = list(_choices(question))
    elif question.choices:
        listed = ", ".join(map(repr, question.choices[:MOST_CHOICES]))
        about = f"One of {len(question.choices):,} choices, or its number: {listed}, …"
        field["description"] = plain(about, LONGEST)
    return {"type": "object", "properties": {FIELD: field}, "required": [FIELD]}


def form_answer(question: Question, action: str, content: object) -> Value:
    """The person's answer in a form that was closed with ``action``; None: no answer. A form for an
    approval that is declined means no."""
    answer = content.get(FIELD) if action == "accept" and isinstance(content, dict) else None
    if answer is None and question.approval and action != "cancel":
        return False
    return _choices(question).get(answer, answer) if isinstance(answer, str) else answer


def _choices(question: Question) -> dict[str, str]:
    """The choices by the texts that the form offers: short lines, or the whole texts, if two choices
    have the same line."""
    choices = dict.fromkeys(question.choices)
    lines = {line(choice, 200): choice for choice in choices}
    # As JSON, different texts differ without control characters.
    return (
        lines if len(lines) == len(choices) else {json.dumps(choice): choice for choice in choices}
    )


def described(question: Question) -> dict[str, Any]:
    """The question as JSON, for a client that has no forms."""
    about: dict[str, Any] = {"text": question_text(question), "step": question.where}
    if question.approval:
        about["choices"] = ["yes", "no"]
    elif question.choices:
        about["choices"] = list(question.choices[:MOST_CHOICES])
        if len(question.choices) > MOST_CHOICES:
            about["choices_in_all"] = len(question.choices)
    return about
