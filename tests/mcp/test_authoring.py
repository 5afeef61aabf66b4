"""The tools for an agent that writes definitions: their answers are right, and they run no part of a text."""

from __future__ import annotations

import pytest

import agf_magics as agf
from agf_magics import DefinitionError, Registry
from agf_magics.editor.language_text import EXAMPLES
from agf_magics.languages import LANGUAGES
from agf_magics.mcp.server.authoring import check_definition, describe_language, explain


def registry() -> Registry:
    registry = Registry()
    agf.tool(lambda fruit: fruit, name="price", registry=registry)
    agf.tool(lambda a, b: a, name="times", registry=registry)
    agf.agent(lambda question: question, name="writer", registry=registry)
    agf.agent(lambda draft: draft, name="critic", registry=registry)
    return registry


def test_a_problem_has_its_place_and_the_fix_that_takes_it_away() -> None:
    text = "pipeline: p\nsteps:\n- tool: {name: prise, args: {fruit: fig}}\n"
    answer = check_definition(text, registry=registry())
    (problem,) = answer["problems"]
    assert (answer["language"], answer["ok"]) == ("pipeline", False)
    assert (problem["line"], problem["column"], problem["end_line"], problem["end_column"]) == (3, 16, 3, 21)
    assert (problem["severity"], problem["code"]) == ("error", "flow.unknown-tool")
    fixed = text.replace(problem["fix"]["replace"], problem["fix"]["with"])
    assert check_definition(fixed, registry=registry()) == {"language": "pipeline", "ok": True, "problems": []}


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_fix_is_a_part_of_the_text_that_occurs_once(number: int) -> None:
    steps = ["- for_each:\n    over: ctx.x\n    do: {transform: {value: item}}\n    on_error: abort\n"] * 3
    collect = "    collect: {transform: {value: pipe}}\n"
    steps = [step + collect * (place != number - 1) for place, step in enumerate(steps)]
    text = f"pipeline: p\nsteps:\n{''.join(steps)}"
    (problem,) = check_definition(text, registry=registry())["problems"]
    assert text.count(problem["fix"]["replace"]) == 1
    fixed = text.replace(problem["fix"]["replace"], problem["fix"]["with"])
    assert check_definition(fixed, registry=registry())["problems"] == []


def test_a_warning_is_not_an_error() -> None:
    answer = check_definition("name: g\nnodes: {a: {type: passthrough, output: {x: 1}}}\n" + EDGES, registry=registry())
    assert answer["ok"]
    assert [problem["severity"] for problem in answer["problems"]] == ["warning"]


EDGES = "edges: [{from: START, to: a}, {from: a, to: END}]\n"


@pytest.mark.parametrize("text", ["", "\x00", "[" * 5_000, "a: &a [*a]", "- " * 50_000, "pipeline: " + "x" * 2_000_000])
def test_any_text_gets_an_answer(text: str) -> None:
    assert check_definition(text, "pipeline", registry())["ok"] is False


def test_no_file_is_read_and_nothing_is_imported() -> None:
    text = "name: g\ntools: {t: {type: python, module: antigravity, function: f}}\n" + (
        "nodes: {a: {type: python, tool: t}}\n" + EDGES
    )
    check_definition(text, "graph", registry())
    assert "antigravity" not in __import__("sys").modules


def test_an_error_is_explained() -> None:
    assert explain("[flow.unknown-tool]").startswith("### flow.unknown-tool")
    with pytest.raises(DefinitionError) as caught:
        explain("flow.unknown-tol")
    assert caught.value.diagnostic.hint == "did you mean flow.unknown-tool?"


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_example_of_a_language_has_no_problem(language: str) -> None:
    assert check_definition(EXAMPLES[language], registry=registry()) == {
        "language": language, "ok": True, "problems": [],
    }  # fmt: skip
    assert EXAMPLES[language] in describe_language(language, registry())


def test_what_is_registered_is_described() -> None:
    description = describe_language("pipeline", registry())
    assert "- `price(fruit (anything))`" in description
    assert "- `writer`" in description
    assert "There are no flows." in description
    assert "`for_each`" in description
    assert "count(list)" in description


def test_an_unknown_language_is_reported() -> None:
    with pytest.raises(DefinitionError) as caught:
        describe_language("pipes", registry())
    assert caught.value.code == "define.language"
