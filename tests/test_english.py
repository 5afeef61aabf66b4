"""The prose of messages, docstrings, pages and notebooks gets plainer, never worse (see tests/english.py)."""

from __future__ import annotations

import json

import pytest

from tests import english

MAXIMUM = json.loads(english.MAXIMUM.read_text(encoding="utf-8"))


@pytest.mark.parametrize("area", MAXIMUM)
def test_an_area_uses_no_pattern_more_often_than_before(area: str) -> None:
    now = english.measured(english.areas()[area])
    worse = {name: (round(rate, 1), MAXIMUM[area][name]) for name, rate in now.items() if rate > MAXIMUM[area][name]}
    assert not worse, "now and at most, per 10,000 words; python -m tests.english FILE... shows the places"


def test_every_area_and_pattern_has_a_maximum() -> None:
    assert MAXIMUM.keys() == english.areas().keys()
    assert all(set(rates) == set(english.PATTERNS) for rates in MAXIMUM.values())


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("A text is no path where one must stand.", ["stands", "is no"]),
        ("What it understands; a stand-alone program stands alone.", []),
        ("It prints what is not ours, and what was kept.", ["what is", "what is", "kept"]),
        ("What is it?", []),
        ("Nobody told it so; whoever asks is somebody.", ["nobody", "nobody", "nobody", "told"]),
        ("There is no journal. It is no longer used.", []),
        ("It takes them over, takes up a run, and is taken up.", ["take up", "take up", "take up"]),
        ("A file beside it, behind a switch, was mended.", ["beside", "behind", "mend"]),
        ("The run that was begun goes on until it comes to its end.", ["begun", "go on", "come to its end"]),
        ("besides the behindhand amendment, he keeps on going", []),
    ],
)
def test_a_use_is_found(text: str, patterns: list[str]) -> None:
    assert sorted(use.pattern for use in english.uses([english.Prose(1, text)])) == sorted(patterns)


def test_a_use_knows_its_line() -> None:
    assert [use.line for use in english.uses([english.Prose(7, "One.\n\nTwo was kept.\nThree was kept.")])] == [9, 10]


def test_rates_are_per_ten_thousand_words() -> None:
    prose = [english.Prose(1, "It was kept. " * 10)]
    assert english.words(prose) == 30
    assert english.measured({"page": prose})["kept"] == pytest.approx(10_000 * 10 / 30)


def test_code_in_a_page_is_not_prose_and_lines_remain() -> None:
    page = "Kept.\n\n```text\nkept kept\n```\n\nA `kept` [kept](kept.md).\n"
    found = list(english.uses(english.page(page)))
    assert [(use.pattern, use.line) for use in found] == [("kept", 1), ("kept", 7)]


def test_only_markdown_cells_of_a_notebook_are_prose() -> None:
    cells = [{"cell_type": "markdown", "source": ["It ", "stands."]}, {"cell_type": "code", "source": ["kept"]}]
    assert [use.pattern for use in english.uses(english.notebook(json.dumps({"cells": cells})))] == ["stands"]


CODE = '''
"""What is here is kept."""

LIMIT = 3  # nobody knows
"""It stands."""


def f(name):
    """Says ``kept``."""
    if name == "kept":
        raise ValueError(f"{name} is no path, as told {name:>30} before")
'''


def test_docstrings_and_comments_are_told_from_messages() -> None:
    assert sorted(use.pattern for use in english.uses(english.docstrings(CODE))) == [
        "kept",
        "nobody",
        "stands",
        "what is",
    ]
    assert sorted(use.pattern for use in english.uses(english.messages(CODE))) == ["is no", "told"]


def test_a_maximum_is_only_ever_lowered_down_to_the_goal() -> None:
    assert english.lower({"docs": {"kept": 7}}, {"docs": {"kept": 8.0}}) == {"docs": {"kept": 7}}
    assert english.lower({"docs": {"kept": 8}}, {"docs": {"kept": 6.5}}) == {"docs": {"kept": 7}}
    assert english.lower({"docs": {"kept": 8}}, {"docs": {"kept": 0.0}}) == {"docs": {"kept": english.GOAL}}
