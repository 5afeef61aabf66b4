"""Interprets the answer of a person, whether it is typed, returned by a function or passed to
`resume`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...flow.progress.question import Question, WrongAnswer
from ...text.diagnostics import Diagnostic, Diagnostics
from ...text.source import Source, Span
from ...text.yaml.nodes import Fields, plain
from ...text.yaml.reader import documents
from ...values.value import Value

ANSWERS = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
"""The texts that answer an approval, in small letters."""


def parse_answer(question: Question, text: str) -> Value:
    """The answer that ``text`` stands for; None if it does not answer the question.

    >>> parse_answer(Question("Which?", ("red", "green")), "2")
    'green'
    >>> call = Question("call pay(amount=5)?", approval=True, arguments={"amount": 5}, result="_output")
    >>> parse_answer(call, "{amount: 3}")
    {'amount': 3}
    """
    if text in question.choices:
        return text
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
    if problems.errors or len(nodes) != 1:
        return None
    (node,) = nodes
    # An empty mapping would change nothing, so it is no answer.
    return plain(node) or None if isinstance(node, Fields) else None


def _choice(text: str, choices: Sequence[str]) -> str | None:
    """The choice with this text or this number, or the only choice that begins with it; else
    None."""
    numbered = {str(number): choice for number, choice in enumerate(choices, 1)}
    exact = numbered | dict(zip(choices, choices, strict=True))
    if text in exact:
        return exact[text]
    if not text:
        return None
    completions = [choice for choice in choices if choice.lower().startswith(text.lower())]
    return completions[0] if len(completions) == 1 else None


def parse_answer_value(question: Question, answer: Value, option: str = "") -> Value:
    """The answer that the value ``answer`` stands for, as if it were typed. ``option``: the option
    that the hint writes before the answer. Raises WrongAnswer if it does not fit the question.

    >>> parse_answer_value(Question("Which?", ("red", "green")), 2)
    'green'
    """
    is_changed_call = question.approval and isinstance(answer, dict)
    if is_changed_call or not (question.approval or question.choices):
        return answer
    parsed = parse_answer(question, str(answer))
    if parsed is None:
        problem = "is not an answer to an approval"
        hint = f"{option}yes, or {option}no"
        if question.choices:
            listed = ", ".join(map(repr, question.choices[:10]))
            problem = "is not one of the choices"
            hint = f"{option and f'{option}with '}one of {listed}"
        message = f"{answer!r:.100} {problem}: {question.text}"
        raise WrongAnswer(Diagnostic("run.answer", message, hint=hint))
    return parsed


def read_approval(question: Question, answer: Value, place: Span | None) -> Value:
    """The meaning of ``answer`` for an approval: True, False, or a mapping that replaces the call.
    Raises WrongAnswer for any other answer, which is neither a yes nor a denial (decision D123).

    >>> read_approval(Question("pay(5)?", approval=True), "Yes", None)
    True
    """
    is_changed_call = isinstance(answer, dict) and answer and question.result
    if isinstance(answer, bool) or is_changed_call:
        return answer
    parsed = parse_answer(question, answer) if isinstance(answer, str) else None
    if parsed is None:
        message = f"{answer!r:.100} is not an answer to an approval: {question.text}"
        hint = "answer yes or no; a function that asks returns True or False"
        raise WrongAnswer(Diagnostic("run.answer", message, place, hint))
    return parsed
