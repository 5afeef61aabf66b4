"""The words of hints in a terminal: a hint names no magic that a person there cannot type."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import agf_magics
from agf_magics.text.diagnostics import Diagnostic
from agf_magics.text.hint_words import IN_A_TERMINAL, HintWords, hint_words

PACKAGE = Path(agf_magics.__file__).parent

NOTEBOOK = ("notebook", "commands", "editor", "pictures")
"""Rooms whose words are for a notebook."""

CASES: dict[str, str] = {
    "resume it with an answer: %resume ask-1-87aff0 --answer …": (
        "resume it with an answer: agf-magics resume ask-1-87aff0"
    ),
    "run again, or %resume the run to repeat only this request": (
        "run again, or resume the run to repeat only this request"
    ),
    "%resume --caps goes on with these settings": "agf-magics resume goes on with these settings",
    "set its file: %config AgfMagics.journal = '.agf/runs.sqlite'": (
        "set its file: journal = '.agf/runs.sqlite' in config.toml"
    ),
    "start the server, or set its address: %config AgfMagics.model_base_url = …, or its variable": (
        "start the server, or set its address: model_base_url = … in config.toml, or its variable"
    ),
    "%config AgfMagics.model_timeout sets the time limit": "model_timeout in config.toml sets the time limit",
    "%runs lists the runs; --over runs all rows": "in Python, agf.runs() lists the runs; --over runs all rows",
    "%runs sums-1-87aff0 shows the run": 'in Python, agf.runs("sums-1-87aff0") shows the run',
    "%resume RUN --answer yes goes on with this run": 'in Python, agf.resume(RUN, answer="yes") goes on with this run',
    "a % of the rows": "a % of the rows",
}


@pytest.fixture
def terminal() -> HintWords:
    words = HintWords()
    words.rows = IN_A_TERMINAL
    return words


@pytest.mark.parametrize("hint", CASES)
def test_a_hint_in_a_terminal_names_what_can_be_typed_there(hint: str, terminal: HintWords) -> None:
    assert terminal.of(hint) == CASES[hint]
    assert HintWords().of(hint) == hint  # in a notebook it stays


def test_a_report_has_the_words_of_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Diagnostic("run.waiting", "an answer is needed", hint="%resume ask-1 --answer …")
    assert str(problem).endswith("= %resume ask-1 --answer …")
    monkeypatch.setattr(hint_words, "rows", IN_A_TERMINAL)
    assert str(problem).endswith("= agf-magics resume ask-1")


def texts(tree: ast.AST) -> Iterator[str]:
    """The texts of a file, with an X for each value in them, but no docstrings."""
    docstrings = {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    parts = {value for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for value in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {node} & (docstrings | parts):
            yield node.value


def test_no_text_of_the_package_keeps_a_magic_that_only_a_notebook_has(terminal: HintWords) -> None:
    kept = {
        text
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in NOTEBOOK and path.stem not in ("hint_words", "settings")
        for text in texts(ast.parse(path.read_text(encoding="utf-8")))
        if re.search(r"%(?:config AgfMagics|resume|run_pipeline)", terminal.of(text))
    }
    assert kept == set()
