"""Hints for words that are nearly right: operators of other languages, typographic quotes, misspelled options and
magics."""

from __future__ import annotations

import pytest

import agf_magics as agf
from tests.notebook.conftest import LONGEST, TOOLS, Shell, code


@pytest.fixture
def ready(shell: Shell) -> Shell:
    shell.good(TOOLS)
    shell.good("%%pipeline\n" + LONGEST)
    return shell


def graph(value: str = '"1"', condition: str = "x == 1") -> str:
    return (
        "name: g\nstate: {x: any, s: str, y: any}\nnodes:\n"
        f"  a: {{type: passthrough, output: {{y: {value}}}}}\n"
        "  b: {type: passthrough, output: {y: b}}\n  c: {type: passthrough, output: {y: c}}\n"
        f'edges:\n- {{from: START, to: a}}\n- {{from: a, to: b, condition: "{condition}"}}\n'
        "- {from: a, to: c, condition: else}\n"
    )


@pytest.mark.parametrize(
    "expression",
    [
        "state.x or 2",
        "state.x and state.s",
        "state.x if state.s else 2",
        "state.x in state.s",
        "state.x is null",
        "state.x == 1",
        "state.x % 2",
    ],
)
def test_an_operator_of_another_language_is_no_key_to_give(expression: str) -> None:
    flow = agf.load(graph(f'"{{{expression}}}"'), "graph")
    assert "graph.odd-name" in {warning.code for warning in flow.warnings}
    try:
        diagnostics = agf.run(flow, {"x": 1, "s": "b"}).warnings
    except agf.DefinitionError as error:
        diagnostics = error.diagnostics
    hints = [
        diagnostic.hint or ""
        for diagnostic in diagnostics
        if diagnostic.code in ("graph.odd-name", "run.missing-input")
    ]
    assert hints
    for hint in hints:
        assert "declare it" not in hint
        assert "--set" not in hint
        assert "one operator" in hint


@pytest.mark.parametrize("name", ["x y", "for_you", "order", "andy", "oriental x"])
def test_a_key_with_a_blank_or_a_sign_of_an_operator_is_correct(name: str) -> None:
    text = graph(f'"{{state.{name}}}"').replace("{x: any", f"{{'{name}': any, x: any")
    flow = agf.load(text, "graph")
    assert not [warning for warning in flow.warnings if warning.code == "graph.odd-name"]
    assert agf.run(flow, {name: 3, "x": 1, "s": ""}).output["y"] == "b"


@pytest.mark.parametrize("quotes", ["‘’", "“”"])
def test_typographic_quotes_of_a_condition_are_named(quotes: str) -> None:
    flow = agf.load(graph(condition=f"s == {quotes[0]}a b{quotes[1]}"), "graph")
    [warning] = [warning for warning in flow.warnings if warning.code == "graph.unquoted-text"]
    assert warning.hint is not None
    assert "quotation mark): write" in warning.hint
    assert "quote it" not in warning.hint


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("--dry --dry", "magic.option-twice", "remove one of them"),
        ("--out a --out b", "magic.option-twice", "--out takes one value: remove one"),
        ("--out class", "magic.name", "it is a word of Python: write class_"),
        ("--out 1a", "magic.name", "use letters, digits and _"),
    ],
)
def test_a_wrong_option_has_a_hint(ready: Shell, line: str, message: str, hint: str) -> None:
    result = ready.run(f"%run_pipeline longest --set words=[] {line}")
    assert code(result) == message
    assert isinstance(result.error, agf.AgfError)
    assert result.error.diagnostic.hint == hint


def test_the_word_of_a_recording_that_is_missing_has_the_caret(ready: Shell) -> None:
    result = ready.run("%run_pipeline longest --set words=[] --replay calls.jsonl")
    assert isinstance(result.error, agf.AgfError)
    diagnostic = result.error.diagnostic
    assert (diagnostic.code, diagnostic.span and diagnostic.span.text) == ("replay.file", "calls.jsonl")


@pytest.mark.parametrize("cell", ["%%run_pipeline longest\n", "%pipeline", "%%runs\nx", "%graph g"])
def test_a_magic_of_the_other_kind_has_ipythons_hint_alone(ready: Shell, cell: str) -> None:
    assert "did you mean %" not in ready.run(cell).err
    assert "did you mean %%pipeline?" in ready.run("%%pipelin\nx").err
