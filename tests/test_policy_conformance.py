"""docs/reference/policy-conformance.md: every requirement of the seeds is there, and every test it names."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "reference" / "policy-conformance.md"

VECTORS = {
    "runs": "policy_runs", "documents": "policy_documents", "grammar": "path_grammar", "resolution": "path_resolution",
    "batch": "path_batch", "conditions": "policy_conditions",
}  # fmt: skip

ROWS = [
    (re.findall(r"(?:AGF-[SD]?|AMB-)\d+", found[1]), re.findall(r"`([^`]+)`", found[2]))
    for found in re.finditer(r"^\| (A(?:GF|MB)-[^|]+) \|.*\| ([^|]+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
]


@pytest.fixture(scope="module")
def there() -> set[str]:
    """Every test and every row there is."""
    names = {
        node.name
        for path in TESTS.rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    for word, file in VECTORS.items():
        rows = json.loads((TESTS / "vectors" / f"{file}.json").read_text("utf-8"))["rows"]
        names |= {f"{word} {row['id']}" for row in rows}
    return names


def test_every_requirement_has_its_line() -> None:
    series = {"AGF-": 75, "AGF-S": 11, "AGF-D": 6, "AMB-": 36}
    wanted = [f"{name}{n}" for name, most in series.items() for n in range(1, most + 1)]
    assert [one for ids, _ in ROWS for one in ids] == wanted


@pytest.mark.parametrize(("ids", "held"), ROWS, ids=lambda value: " ".join(value)[:40])
def test_what_holds_a_requirement_is_there(ids: list[str], held: list[str], there: set[str]) -> None:
    assert held
    assert not [name for name in held if name not in there]
