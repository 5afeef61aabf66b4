"""The conformance pages of plans and policies (docs/reference) list every requirement, and the tests that they name
exist."""

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
"""The words with which a page names the files of test rows."""
SERIES = {"plan": {"ACT-": 85}, "policy": {"AGF-": 75, "AGF-S": 11, "AGF-D": 6, "AMB-": 36}}
"""The series of requirements, with the number of requirements in each."""
LINES = [
    (page, re.findall(r"(?:ACT-|AGF-[SD]?|AMB-)\d+", match[1]), re.findall(r"`([^`]+)`", match[2]), match[2].strip())
    for page in VECTORS
    for match in re.finditer(
        r"^\| (A(?:CT|GF|MB)-[^|]+) \|.*\| ([^|]+) \|$", (PAGES / f"{page}-conformance.md").read_text("utf-8"), re.M
    )
]
ELSEWHERE = {"ACT-68"}
"""The requirements of plans that no test covers. The page says who must meet them."""


@pytest.fixture(scope="module")
def existing() -> dict[str, set[str]]:
    """Every test, and for each page every row that the page may name."""
    tests = {
        node.name
        for path in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    names = {page: set(tests) for page in VECTORS}
    for page, files in VECTORS.items():
        for word, file in files.items():
            rows = json.loads((TESTS / "vectors" / f"{file}.json").read_text("utf-8"))["rows"]
            names[page] |= {f"{word} {row.get('id', row.get('title'))}" for row in rows}
    return names


@pytest.mark.parametrize("page", VECTORS)
def test_every_requirement_has_its_line(page: str) -> None:
    numbers = [f"{name}{n}" for name, most in SERIES[page].items() for n in range(1, most + 1)]
    assert [name for of, names, _, _ in LINES if of == page for name in names] == numbers


@pytest.mark.parametrize(("page", "names", "held", "text"), LINES, ids=[" ".join(names)[:40] for _, names, *_ in LINES])
def test_what_holds_a_requirement_is_there(
    page: str, names: list[str], held: list[str], text: str, existing: dict[str, set[str]]
) -> None:
    assert text
    assert held or ELSEWHERE.issuperset(names)
    assert not [holder for holder in held if holder not in existing[page]]
