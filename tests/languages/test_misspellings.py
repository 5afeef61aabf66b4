"""One misspelt name at each place of each language, and the messages about it (tests/vectors/misspellings.json).

``found`` has the errors and warnings about ``word`` before the first step. ``when`` is ``check`` for a message about
the definition, and ``run`` for a message about a run with the input `GIVEN`. ``silent`` marks a row without any
message: a known fault of that language.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.__main__ import main
from agf_magics.lifecycle.definitions.define import register
from agf_magics.text.diagnostics import Diagnostic

ROWS = json.loads((Path(__file__).parents[1] / "vectors" / "misspellings.json").read_text("utf-8"))["rows"]
GIVEN = {"rows": [1, 2], "topic": "figs"}


def kernel() -> tuple[agf.Registry, list[str]]:
    registry, calls = agf.Registry(), list[str]()

    @agf.tool(registry=registry)
    def seed() -> dict[str, Any]:
        calls.append("seed")
        return {"passed": True}

    @agf.tool(registry=registry)
    def use(x: Any) -> Any:
        calls.append("use")
        return x

    @agf.agent(registry=registry)
    def writer(topic: str) -> dict[str, str]:
        calls.append("writer")
        return {"draft": topic}

    @agf.agent(registry=registry)
    def editor(draft: str) -> dict[str, str]:
        calls.append("editor")
        return {"final": draft}

    @agf.agent(registry=registry, default=True)
    def bot(prompt: str) -> str:
        calls.append("bot")
        return prompt

    agf.define("pipeline: q\nsteps:\n- transform: {value: '1'}\n", registry=registry)
    return registry, calls


def hints_about_word(row: dict[str, Any]) -> list[dict[str, str]]:
    """The messages about the word when the text is defined, and before the first step of its run."""
    registry, calls = kernel()
    hint_of: dict[tuple[str, str], str] = {}

    def add(when: str, findings: Iterable[Diagnostic]) -> None:
        for finding in findings:
            about = (finding.span.text if finding.span else "") + finding.message
            if row["word"] in about and finding.severity != "note":
                hint_of.setdefault((finding.code, finding.severity), when)

    try:
        add("check", register(row["text"], row["language"], name="p", registry=registry).problems)
    except agf.DefinitionError as error:
        add("check", error.diagnostics)
    else:
        try:
            run = agf.run("p", GIVEN, registry=registry, raises=False)
        except agf.DefinitionError as error:
            add("run", error.diagnostics)
        else:
            add("run", [finding for finding in run.warnings if finding not in run.progress.warnings])
            if run.error is not None and not calls:
                add("run", run.error.diagnostics)
    return [{"code": code, "severity": severity, "when": when} for (code, severity), when in hint_of.items()]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['language']}: {row['place']}" for row in ROWS])
def test_a_misspelt_name_is_reported_before_the_first_step(row: dict[str, Any]) -> None:
    assert hints_about_word(row) == row["found"]
    assert bool(row["found"]) is not row.get("silent", False)


def test_no_place_is_silent() -> None:
    assert [row["place"] for row in ROWS if row.get("silent")] == []
    assert len(ROWS) >= 60


def test_check_lists_the_inputs_that_it_inferred(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = "do: {transform: {value: \"item.kg * factr + get(ctx, 'more', 0)\"}}"
    step = f"for_each: {{over: rows, on_error: continue, {body}, collect: {{transform: {{value: pipe}}}}}}"
    text = f"pipeline: p\nsteps:\n- {step}\n"
    file = tmp_path / "inv.yaml"
    file.write_text(text, "utf-8")
    assert main(["check", str(file), "--strict"]) == 0
    lines = ["inv.yaml: ok", "  input rows", "  input factr", "  input more (not always read)"]
    assert capsys.readouterr().out.replace(f"{tmp_path}/", "").splitlines() == lines
    assert {ref.path[-1]: ref.certain for ref in agf.load(file).inputs} == {"rows": True, "factr": True, "more": False}


def test_a_name_that_the_input_has_is_no_misspelling() -> None:
    registry, _ = kernel()
    text = "pipeline: p\nsteps:\n- tool: {name: seed, output: traders}\n- transform: {value: trades}\n"
    assert {problem.code for problem in register(text, "pipeline", registry=registry).problems} == {
        "flow.unwritten",
        "flow.never-read",
    }
    given = register(text, "pipeline", registry=registry, given=("trades",)).problems
    assert {problem.code for problem in given if problem.severity != "note"} == set()


RIGHT = """
    y_train x_train, max_price min_price, q2_sales q1_sales, docs doc, reviews reviewers, last_name first_name,
    item2_total item1_total, b_total a_total, users uses, rows rows_a, costs cost, test_rows train_rows, valid invalid,
    model_b model_a, unprocessed processed, texts tests, test text, tags tabs, rate date, prize price, input_a inputs_a,
    new_docs old_docs, index2 index, states stats, queries query, parsed passed, scored scores, item1_0 item10, X x
"""


@pytest.mark.parametrize("pair", [pair.split() for pair in RIGHT.split(",")], ids="-".join)
def test_another_name_is_no_misspelling(pair: list[str]) -> None:
    read, written = pair
    steps = f"pipeline: p\nsteps:\n- tool: {{name: seed, output: {written}}}\n- transform: {{value: {read}}}\n"
    nodes = f"nodes:\n  a: {{type: passthrough, output: {{{written}: 1}}}}\n"
    nodes += f"  b: {{type: passthrough, output: {{z: '{{state.{read}}}'}}}}\n"
    edges = "edges:\n- {from: START, to: a}\n- {from: a, to: b}\n- {from: b, to: END}\n"
    for text, language in ((steps, "pipeline"), (nodes + edges, "graph")):
        registry, _ = kernel()
        codes = [problem.code for problem in register(text, language, name="p", registry=registry).problems]
        assert not {"flow.unwritten", "graph.unwritten-key"} & set(codes)
