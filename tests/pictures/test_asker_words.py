"""The words for the step that asks a person."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.flow.progress import events as ev
from agf_magics.pictures.call_words import asker_words

GRAPH = """state: {text: str, user_input: str}
nodes:
  ask: {type: interrupt, message: "Publish?", choices: ["publish", "hold back"]}
edges:
- {from: START, to: ask}
- {from: ask, to: END}"""
ROUNDS = """state: {text: str, user_input: str}
nodes:
  ask: {type: interrupt, message: "Once more?"}
edges:
- {from: START, to: ask}
- {from: ask, to: ask, condition: "user_input == 'yes'"}
- {from: ask, to: END, condition: "user_input != 'yes'"}"""


@pytest.mark.parametrize(
    ("text", "answers", "expected"),
    [(GRAPH, ["publish"], ["ask"]), (ROUNDS, ["yes", "no"], ["ask", "ask #1"])],
)
def test_a_question_names_its_asker_without_plumbing(text: str, answers: list[str], expected: list[str]) -> None:
    asked, given = list[str](), iter(answers)

    def ask(question: Any) -> str:
        ((path, _),) = run.progress.open_questions.items()
        asked.append(asker_words(run.progress.rows, path))
        return next(given)

    begun = threading.Event()

    def told(event: ev.Event) -> None:
        begun.wait(60)

    run = agf.start(agf.load(text, language="graph", registry=agf.Registry()), {"text": "x"}, ask=ask, on_event=told)
    begun.set()
    run.result()
    assert asked == expected
