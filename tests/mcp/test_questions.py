"""The form of a question for an MCP client: each choice can be told from the others, and chosen."""

from __future__ import annotations

import pytest

from agf_magics.flow.progress.question import Question
from agf_magics.lifecycle.runs.answering import fitting_answer
from agf_magics.mcp.server.questions import FIELD, described, form, form_answer

LONG = "Delete the folder /data/" + "x" * 300

CHOICES = {
    "short": ("red", "blue"),
    "the same beginning": (f"{LONG}/old", f"{LONG}/new"),
    "one of them long": ("keep it", f"{LONG}/new"),
    "the same line": ("a\nb", "a b"),
    "a line that is another one's JSON": ('"a b"', "a b", "a\nb"),
    "only spaces": ("a", "a ", " a"),
    "control characters": ("\x1b[2J", "\u202e"),
    "twice the same": ("red", "red", "blue"),
    "none": ("", "red"),
    "a number": ("2", "1"),
}


@pytest.mark.parametrize("choices", CHOICES.values(), ids=CHOICES)
def test_each_choice_of_a_form_can_be_chosen(choices: tuple[str, ...]) -> None:
    question = Question("Which?", choices)
    offered = form(question)["properties"][FIELD]["enum"]
    assert len(set(offered)) == len(offered) == len(set(choices))
    assert all(text.isprintable() for text in offered)
    answers = [form_answer(question, "accept", {FIELD: text}) for text in offered]
    assert [fitting_answer(question, answer) for answer in answers] == list(dict.fromkeys(choices))


def test_more_choices_than_a_form_offers_are_answered_by_a_text() -> None:
    choices = tuple(f"c{number}" for number in range(150))
    question = Question("Which?", choices)
    field = form(question)["properties"][FIELD]
    assert "enum" not in field
    assert field["description"].startswith("One of 150 choices, or its number: 'c0', 'c1', ")
    for text in ("c149", "150"):
        assert fitting_answer(question, form_answer(question, "accept", {FIELD: text})) == "c149"
    about = described(question)
    assert (len(about["choices"]), about["choices_in_all"]) == (100, 150)
