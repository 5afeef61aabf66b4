"""Every regular expression of the package is a constant, and its cost is linear in the length of the text."""

from __future__ import annotations

import ast
import re
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .regex_cost import PACKAGE, Matcher, Use, constant, grows, is_regex, repeats_groups_possessively, uses


@pytest.fixture(scope="module")
def used() -> list[Use]:
    """The patterns of the package. They are not collected at the import, because that reads the whole package, and each
    process of a parallel run imports all tests."""
    return uses()


def test_a_pattern_costs_twice_as_much_for_twice_the_text(used: list[Use]) -> None:
    costs = {use.where: list(grows(use.pattern, use.flags, use.anchored)) for use in used}
    assert {where: cost for where, cost in costs.items() if cost} == {}


def test_a_pattern_means_the_same_in_all_versions_of_python(used: list[Use]) -> None:
    assert [use.where for use in used if repeats_groups_possessively(use.pattern, use.flags)] == []


@pytest.mark.parametrize(
    "pattern", [r"(?:a|bc)*+", r"x(?:\.\w++)*+", r"(a(?:b?c)?+)", r"(?>(?:ab)*+)", r"(?:a|(?:bc)*+)"]
)
def test_a_group_that_is_repeated_possessively_is_found(pattern: str) -> None:
    assert repeats_groups_possessively(pattern, 0)


OLD = {
    "the tokenizer of R1, blanks at the end": (
        r"[ \t\r\n]*(?:([A-Za-z_][A-Za-z0-9_]*)|([-+*/<>()]))", 0, False),
    "the braces of a graph's texts": (r"\{\s*([^{}]*)\}", 0, True),
    "the placeholders of a policy's prompts": (r"\{\{\{?\s*([^{}]*?)\s*\}?\}\}", 0, True),
    "the fence around a reply": (r"```[^\n`]*\n(.*?)\n?[ \t]*```", re.DOTALL, True),
    "an instance of a reference": (r"""[^\[\]'"]*[^\s\[\]'"][^\[\]'"]*\Z""", 0, True),
    "arithmetic in a graph's text": (r"state\.\w[\w.]*\s*([+\-*/])", 0, False),
    "a repeat in a repeat": (r"^(a+)+$", 0, True),
    "alternatives that overlap": (r"^(a|aa)+$", 0, True),
    "a word at the end": (r"[\w.]*$", 0, False),
}  # fmt: skip


@pytest.mark.parametrize("name", OLD)
def test_a_pattern_that_is_quadratic_is_found(name: str) -> None:
    assert list(grows(*OLD[name]))


@pytest.mark.parametrize(
    "pattern",
    [r"(a|ab)(c|bcd)*d?", r"a{2,3}?b", r"[^a\s]+\b", r"(?<!a)b(?=c)", r"(?>a+)b|a++c", r"(?:a|b)*?c$", r"(?i)AB.\Z"],
)
@given(st.text("abcd \nA", max_size=8))
def test_the_matcher_that_counts_finds_what_python_finds(pattern: str, text: str) -> None:
    matcher = Matcher(pattern)
    matcher.text = text
    ends: list[int] = []
    is_match = matcher._sequence(list(matcher.tree), 0, 0, lambda end: not ends.append(end))  # type: ignore[func-returns-value]
    expected = re.match(pattern, text)
    assert is_match is (expected is not None)
    assert ends == ([expected.end()] if expected else [])


def test_no_module_but_one_compiles_what_comes_from_elsewhere(used: list[Use]) -> None:
    compiled = []
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        local = {node.name or "" for node in ast.walk(tree) if isinstance(node, ast.alias)}
        assert "regex" not in local
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "re":
                compiled.append(f"{path.name}:{node.lineno} imports from re")
            if isinstance(node, ast.Import | ast.ImportFrom) and "re2" in {name.name for name in node.names}:
                # The second file escapes the text that it searches for.
                assert path.name in ("patterns.py", "secret_search.py")
    assert compiled == []
    assert len(used) > 80  # `uses` refuses what is no constant


@pytest.mark.parametrize("code", ["re.search(wanted, text)", "re.compile(schema['pattern'])", "re.match(f'{x}', '')"])
def test_a_pattern_that_is_no_constant_is_found(code: str) -> None:
    tree = ast.parse(textwrap.dedent(code))
    (call,) = [node for node in ast.walk(tree) if is_regex(node)]
    assert isinstance(call, ast.Call)
    assert constant(call.args[0], ast) is None
