"""A single word as an argument that is also the name of a store nobody reads: a warning, or just that word."""

from __future__ import annotations

import pytest

from agf_magics.catalog import Registry
from agf_magics.lifecycle.definitions.checking import check_definition
from agf_magics.text.source import Source

FIRST = '- transform: {value: "{rows: 1}", output: stats}\n'
CASES = {
    # the steps after the store, and whether the word is reported
    "nothing says that it is a word": ("- tool: {name: load, args: {table: stats}}", True),
    "the argument has the name of the store": (
        "- tool: {name: load, args: {stats: stats}}\n- tool: {name: load, args: {stats: audit}}", True),
    "the same argument is a word elsewhere": (
        "- tool: {name: load, args: {table: audit}}\n- tool: {name: load, args: {table: stats}}", False),
    "a later call shows it": (
        "- tool: {name: load, args: {table: stats}}\n- tool: {name: load, args: {table: audit}}", False),
    "a call in a loop shows it": (
        "- tool: {name: load, args: {table: stats}}\n"
        "- for_each: {items: [1], on_error: abort, do: {tool: {name: load, args: {table: audit}}},\n"
        "    collect: {transform: {value: pipe}}}",
        False),
    "another argument is a word": (
        "- tool: {name: load, args: {table: stats, into: audit}}", True),
    "the argument of another tool is a word": (
        "- tool: {name: load, args: {table: stats}}\n- tool: {name: drop, args: {table: audit}}", True),
    "the same argument is computed elsewhere": (
        "- tool: {name: load, args: {table: stats}}\n- tool: {name: load, args: {table: !expr ctx.name}}", True),
    "the same argument is a number elsewhere": (
        "- tool: {name: load, args: {table: stats}}\n- tool: {name: load, args: {table: 1}}", True),
    "the store is read": (
        "- tool: {name: load, args: {table: stats}}\n- transform: {value: stats.rows}", False),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_right_gets_no_warning(case: str) -> None:
    steps, is_reported = CASES[case]
    text = f"pipeline: p\nsteps:\n{FIRST}{steps}\n- transform: {{value: '1'}}\n"
    problems = check_definition(Source("p", text), "pipeline", strict=False, registry=Registry(), name=None).problems
    assert not [problem for problem in problems if problem.severity == "error"]
    assert ("pipeline.literal-path" in {problem.code for problem in problems}) == is_reported
