"""Hints can be pasted: after a user has done what a hint says, the problem is gone and there is no new one (decision
D182).

The tests do what the hints say to write, remove, run or choose, for the mistakes of ``tests/vectors`` and the examples
of the error pages.
"""

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
    # The author meant something at another place than the caret.
    "an agent of agf.parallel that reads another": "two keys are wrong",
    "Python: a secret that is all other arguments": "the author knows the name",
    "%runs of one run with an option of the list": "there is no such run here",
    "branches as a list": "the caret marks the first line of a list of several",
    "cases as a list": "the caret marks the first line of a list of several",
    "an apostrophe in a text between apostrophes": "the caret stands after it",
    "nodes as a list": "an edge is missing too",
    "a name, uses and with": "the hint is the whole step, whose keys stand around the caret",
    "a kind with a text and its keys beside it": "the hint is the whole step, whose keys stand around the caret",
    "a kind of node as its key": "the hint replaces the key and its value",
    # The intended text has other errors, or needs something that only the user has.
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
"""Cases whose hint is right but does not cure everything at the caret, with the reason."""

ASKS_A_PROVIDER = ("model.key",)
"""Cases whose cure sends a request to the internet, which tests do not use."""


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with only_shell(new_shell) as shell:
        yield shell  # type: ignore[misc]


def cases_with_hints() -> Iterator[Any]:
    """The cases with a hint that has a text to paste."""
    for case in cases():
        if case.title not in ASKS_A_PROVIDER and any(pieces(hint) for _, hint in case.hints):
            yield pytest.param(case, id=case.title)


@pytest.mark.parametrize("case", list(cases_with_hints()))
def test_following_a_hint_cures_the_mistake(case: Case, shell: Shell) -> None:
    tried = tried_in(case, shell)
    assert {(code, hint) for code, hint in case.hints if pieces(hint)} - tried.seen == set()
    assert bool(tried.wrong) is (case.title in LEADS_ON), tried.wrong


TABLE = json.loads((VECTORS / "hints_without_text.json").read_text("utf-8"))["rows"]


def test_the_hints_without_a_text_to_paste_do_not_become_more() -> None:
    hints = {hint for case in cases() for hint in case.hints if "." in hint[0]}
    without = Counter(code for code, hint in hints if not pieces(hint))
    allowed = {row["code"]: row["hints"] for row in TABLE}
    assert {code: number for code, number in without.items() if number > allowed.get(code, 0)} == {}
    assert {code: number for code, number in allowed.items() if number > without[code]} == {}, "the table is too long"
