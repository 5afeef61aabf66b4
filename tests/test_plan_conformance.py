"""docs/reference/plan-conformance.md: every requirement is there, and every test it names."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "reference" / "plan-conformance.md"

ROWS = [
    (found[1], re.findall(r"`([^`]+)`", found[2]), found[2])
    for found in re.finditer(r"^\| (ACT-\d+) \|(?:.*)\| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
]
ELSEWHERE = {"ACT-68"}
"""What no test of plans holds: the page says who does."""


@pytest.fixture(scope="module")
def there() -> set[str]:
    """Every test and every row there is."""
    names = {
        node.name
        for path in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    for word, file, key in (
        ("reads", "context_reads", "id"),
        ("runs", "plan_runs", "id"),
        ("documents", "plan_documents", "title"),
    ):
        rows = json.loads((TESTS / "vectors" / f"{file}.json").read_text("utf-8"))["rows"]
        names |= {f"{word} {row[key]}" for row in rows}
    return names


def test_every_requirement_has_its_line() -> None:
    assert [name for name, _, _ in ROWS] == [f"ACT-{n}" for n in range(1, 86)]


@pytest.mark.parametrize(("name", "held", "said"), ROWS, ids=[name for name, _, _ in ROWS])
def test_what_holds_a_requirement_is_there(name: str, held: list[str], said: str, there: set[str]) -> None:
    assert said.strip()
    assert held or name in ELSEWHERE
    assert not [one for one in held if one not in there]
