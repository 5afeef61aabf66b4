"""Hints can be pasted: in the mistakes of ``tests/vectors`` and the examples of the error pages, what a hint says to
write, to take out, to run or to choose is done as a person would do it, and then the problem is gone and no new one has
come (decision D182)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.borders.hint_texts import pieces
from tests.borders.mistaken import Case, cases, tried_in
from tests.doc_pages import Shell, new_shell
from tests.notebook.test_mistakes import VECTORS
from tests.shells import only_shell

LEADS_ON = {
    # What is meant stands at another place than the caret.
    "tool without its underscore": "two keys are wrong",
    "an agent of agf.parallel that reads another": "two keys are wrong",
    "branches as a list": "the caret marks the first line of a list of several",
    "an apostrophe in a text between apostrophes": "the caret stands after it",
    "nodes as a list": "an edge is missing too",
    # What was meant has errors of its own, or needs what only a person has.
    "until for exit_condition": "exit_condition reads an agent's field",
    "an execution policy in capitals": "an agf.react has a model",
    "a schema in a step": "a document declares it",
    "--set with an unquoted object": "the flow takes a list",
    "%draw --dir": "a direction is LR or TB",
    "%%plan --tools without a planner": "a planner has a task",
    "magic.needs-planner": "a planner has a task",
    "graph.prompt-shape": "the state has no text",
    "graph.prompt-key": "a schema has fields",
    "graph.subgraph-mapping": "two keys are missing",
    "graph.fallback": "a function of the page answers, and not the model",
    "pipeline.template-name": "the input does not have it",
}
"""Cases with a hint that is right, and is not the whole cure at the caret, with the reason."""

ASKS_A_PROVIDER = ("model.key",)
"""Cases whose cure sends a request to the world: a test has no network."""


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with only_shell(new_shell) as shell:
        yield shell  # type: ignore[misc]


def told() -> Iterator[Any]:
    """The cases with a hint that has something to paste."""
    for case in cases():
        if case.title not in ASKS_A_PROVIDER and any(pieces(hint) for _, hint in case.hints):
            yield pytest.param(case, id=case.title)


@pytest.mark.parametrize("case", list(told()))
def test_what_a_hint_says_cures(case: Case, shell: Shell) -> None:
    tried = tried_in(case, shell)
    assert {(code, hint) for code, hint in case.hints if pieces(hint)} - tried.seen == set()
    assert bool(tried.wrong) is (case.title in LEADS_ON), tried.wrong


TABLE = json.loads((VECTORS / "hints_without_text.json").read_text("utf-8"))["rows"]


def test_the_hints_without_a_text_to_paste_do_not_become_more() -> None:
    hints = {each for case in cases() for each in case.hints if "." in each[0]}
    without = Counter(code for code, hint in hints if not pieces(hint))
    allowed = {row["code"]: row["hints"] for row in TABLE}
    assert {code: number for code, number in without.items() if number > allowed.get(code, 0)} == {}
    assert {code: number for code, number in allowed.items() if number > without[code]} == {}, "the table is too long"
