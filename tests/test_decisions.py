"""Every decision that code, tests or documentation cite has an entry in docs/decisions.md, and every entry has an
anchor."""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "decisions.md"

CITATION = re.compile(r"(?<![\w.-])(?:(?:AMB|PEER)-\d+|[ABCDGPY]\d{1,2})(?![\w-])|(?<=decision )[A-Z]+-?\d+")
ENTRY = re.compile(r"^\(decision-(?P<anchor>\S+)\)=\n### (?P<name>\S+): \S", re.MULTILINE)
HEADING = re.compile(r"^### (\S+?):? ", re.MULTILINE)

GENERATED = {"docs/benchmarks.md"}
"""Its cases are named G1 to G10."""


def cited_in_python(text: str) -> Iterator[str]:
    """The citations in the comments and in the strings that are statements of their own (docstrings)."""
    if not CITATION.search(text):
        return  # most files cite nothing, and reading one token by token takes a fifth of a second
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from CITATION.findall(node.value.value)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from CITATION.findall(token.string)


def cited_in_page(text: str) -> Iterator[str]:
    """The citations outside code blocks and inline code."""
    yield from CITATION.findall(re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL))


def cited_in_vectors(text: str) -> Iterator[str]:
    """The ``rule`` of each row. The rules of the specification (AGF-11, ACT-3) are not decisions."""
    rows = json.loads(text)["rows"] if '"rule"' in text else []
    for row in rows:
        yield from CITATION.findall(str(row.get("rule", "")))


def citations() -> dict[str, set[str]]:
    """Each decision with the places that cite it."""
    readers = {".py": cited_in_python, ".md": cited_in_page, ".json": cited_in_vectors}
    files = [
        *ROOT.glob("*.md"),
        *(file for place in ("agf_magics", "docs", "notebooks") for file in (ROOT / place).rglob("*.[mp][dy]")),
        *(ROOT / "tests").rglob("*.py"),
        *(ROOT / "tests" / "vectors").glob("*.json"),
    ]
    files_of: dict[str, set[str]] = {}
    for file in files:
        name = file.relative_to(ROOT).as_posix()
        if name not in GENERATED:
            for cited in readers[file.suffix](file.read_text(encoding="utf-8")):
                files_of.setdefault(cited, set()).add(name)
    return files_of


ENTRIES = {match["name"]: match["anchor"] for match in ENTRY.finditer(PAGE.read_text(encoding="utf-8"))}


def test_every_citation_has_an_entry() -> None:
    missing = {name: sorted(where) for name, where in citations().items() if name not in ENTRIES}
    assert not missing


def test_every_entry_has_an_anchor_of_its_name() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert HEADING.findall(page) == list(ENTRIES), "each heading has an anchor, and no name occurs twice"
    assert all(anchor == name.lower() for name, anchor in ENTRIES.items())


def test_every_entry_gives_the_rule_and_what_was_rejected() -> None:
    parts = re.split(r"^### ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert not [part.partition(":")[0] for part in parts if "\n\n*Rejected:* " not in part]


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("# as AMB-6 to AMB-9 say, see (P8)\n", ["AMB-6", "AMB-9", "P8"]),
        ('def f():\n    """Why (decision A5)."""\n', ["A5"]),
        ('def f():\n    """Why (decision Q7)."""\n', ["Q7"]),
        ("x = 'G1'  # AGF-D1 and PEP-8 are not decisions\n", []),
    ],
)
def test_citations_are_found_in_comments_and_docstrings_only(text: str, cited: list[str]) -> None:
    assert list(cited_in_python(text)) == cited
