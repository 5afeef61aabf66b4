"""Tests of docs/reference/plan-conformance.md and policy-conformance.md: all requirements and named tests exist."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGES = TESTS.parent / "docs" / "reference"
VECTORS = {
    "plan": {"reads": "context_reads", "runs": "plan_runs", "documents": "plan_documents"},
    "policy": {"runs": "policy_runs", "documents": "policy_documents", "grammar": "path_grammar",
               "resolution": "path_resolution", "batch": "path_batch", "conditions": "policy_conditions"},
}  # fmt: skip
"""The words by which a page names files of rows."""
SERIES = {"plan": {"ACT-": 85}, "policy": {"AGF-": 75, "AGF-S": 11, "AGF-D": 6, "AMB-": 36}}
"""The requirements, and how many of each there are."""
LINES = [
    (page, re.findall(r"(?:ACT-|AGF-[SD]?|AMB-)\d+", found[1]), re.findall(r"`([^`]+)`", found[2]), found[2].strip())
    for page in VECTORS
    for found in re.finditer(
        r"^\| (A(?:CT|GF|MB)-[^|]+) \|.*\| ([^|]+) \|$", (PAGES / f"{page}-conformance.md").read_text("utf-8"), re.M
    )
]
ELSEWHERE = {"ACT-68"}
"""What no test of plans holds: the page says who does."""


@pytest.fixture(scope="module")
def there() -> dict[str, set[str]]:
    """Every test and, by the page that may name them, every row there is."""
    tests = {
        node.name
        for path in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    found = {page: set(tests) for page in VECTORS}
    for page, files in VECTORS.items():
        for word, file in files.items():
            rows = json.loads((TESTS / "vectors" / f"{file}.json").read_text("utf-8"))["rows"]
            found[page] |= {f"{word} {row.get('id', row.get('title'))}" for row in rows}
    return found


@pytest.mark.parametrize("page", VECTORS)
def test_every_requirement_has_its_line(page: str) -> None:
    wanted = [f"{name}{n}" for name, most in SERIES[page].items() for n in range(1, most + 1)]
    assert [name for of, names, _, _ in LINES if of == page for name in names] == wanted


@pytest.mark.parametrize(("page", "names", "held", "said"), LINES, ids=[" ".join(names)[:40] for _, names, *_ in LINES])
def test_what_holds_a_requirement_is_there(
    page: str, names: list[str], held: list[str], said: str, there: dict[str, set[str]]
) -> None:
    assert said
    assert held or ELSEWHERE.issuperset(names)
    assert not [one for one in held if one not in there[page]]
