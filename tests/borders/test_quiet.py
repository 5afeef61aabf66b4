"""Correct flows get no warning (decision D181).

The tests check every document of the vectors that runs, every cell of the docs and the notebooks, and flows as people
write them. `ABOUT` lists the documents that are about a warning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.catalog import default
from agf_magics.flow.checks.rules import check
from agf_magics.lifecycle.definitions.checking import check_definition
from agf_magics.text.source import Source
from tests.doc_pages import blocks, pages
from tests.engine.pipeline_case import Tools
from tests.engine.pipeline_case import registry_of as tools_of
from tests.engine.policy_case import Agents
from tests.languages.graph_case import run_case
from tests.languages.loading import load
from tests.languages.test_plan_runs import Case
from tests.notebook.conftest import Shell

TESTS = Path(__file__).parents[1]
NOTEBOOKS = TESTS.parent / "notebooks"

ABOUT = {
    # empty prompts and names that mean something else (decision A8)
    "ex-010": ["pipeline.store-name"],
    "ex-070": ["pipeline.empty-prompt"],
    # text that looks like an expression, names that nothing writes, fields (decisions P3, P5, P21, P25)
    "ex-072": ["pipeline.template-expression"],
    "ex-073": ["pipeline.template-expression"],
    "ex-078": ["pipeline.template-name"],
    "ex-162": ["flow.label"],
    "own-019": ["flow.schema-field"],
    # AMB-15, and an alias that is the name of a strategy
    "seq_alias_named_last_string": ["policy.reserved-alias"],
    "cond_vacuous": ["policy.vacuous-condition"],
    # plans whose calls wait for each other, or write to one place
    "P018": ["plan.cycle"],
    "P029": ["plan.race"],
    "P030": ["plan.race"],
    "P077": ["plan.cycle"],
}
"""The warnings that a row, or a page with all its cells, is about."""

PAGES_ABOUT = {
    # The previous block contains the file of the prompt.
    "howto/graphs.md": ["graph.prompt-word"],
    "howto/spellings.md": ["graph.prompt-word"],
    "reference/graphs.md": ["graph.prompt-word"],
    # Exercises, and text in a condition (decision Y11).
    "graph-language.ipynb": ["graph.unquoted-text"],
    "pipeline-language.ipynb": ["pipeline.literal-path", "pipeline.hidden-name"],
    "plan-language.ipynb": ["plan.no-dagger", "plan.cycle"],
}


def rows(name: str) -> list[dict[str, Any]]:
    file = TESTS / "vectors" / f"{name}.json"
    return [row for row in json.loads(file.read_text("utf-8"))["rows"] if "error" not in row]


def warned(text: str, language: str, registry: agf.Registry, name: str | None = None) -> list[str]:
    source = Source("test", text)
    defined = check_definition(source, language, strict=False, registry=registry, name=name)
    return [problem.code for problem in defined.problems if problem.severity == "warning"]


@pytest.mark.parametrize("row", rows("pipeline_runs"), ids=lambda row: row["id"])
def test_a_pipeline_that_runs_gets_no_warning(row: dict[str, Any]) -> None:
    assert warned(row["text"], "pipeline", tools_of(row, Tools())) == ABOUT.get(row["id"], [])


@pytest.mark.parametrize("row", rows("policy_runs"), ids=lambda row: row["id"])
def test_a_policy_that_runs_gets_no_warning(row: dict[str, Any]) -> None:
    assert warned(row["text"], "policy", Agents(row).registry(), "p") == ABOUT.get(row["id"], [])


@pytest.mark.parametrize("row", rows("plan_runs"), ids=lambda row: row["id"])
def test_a_plan_that_runs_gets_no_warning(row: dict[str, Any]) -> None:
    case = Case(row)
    assert warned(case.text, "plan", case.registry) == ABOUT.get(row["id"], [])


@pytest.mark.parametrize("row", rows("graph_runs"), ids=lambda row: row["id"])
def test_a_graph_that_runs_gets_no_warning(row: dict[str, Any]) -> None:
    expected = [warning["code"] for warning in row.get("warnings", [])]
    codes = [warning["code"] for warning in run_case(row).get("warnings", [])]
    assert codes == (expected or ABOUT.get(row["id"], []))


MAGIC = re.compile(r"%%(pipeline|policy|plan|graph)\b[^\n]*\n")


def cells() -> Iterator[tuple[str, str, str]]:
    """The page, the language and the text of each cell that defines a flow."""
    written = [
        (page.relative_to(TESTS.parent / "docs").as_posix(), block.text)
        for page in pages()
        if page.parent.name != "errors"
        for block in blocks(page.read_text("utf-8"))
        if block.language == "ipython"
    ]
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        written += [
            (path.name, "".join(cell["source"]))
            for cell in json.loads(path.read_text("utf-8"))["cells"]
            if cell["cell_type"] == "code"
        ]
    for page, text in written:
        if magic := MAGIC.match(text):
            yield page, magic[1], text[magic.end() :]


def test_no_page_and_no_notebook_has_a_definition_with_a_warning_except_those_about_it() -> None:
    codes_of: dict[str, list[str]] = {}
    number = 0
    for page, language, text in cells():
        named = text if language != "pipeline" or "pipeline:" in text else f"pipeline: p\n{text}"
        definition, problems = load(language, named)
        problems += check(definition.flow)[1] if definition.flow is not None else []
        codes = [problem.code for problem in problems if problem.severity == "warning"]
        if codes:
            codes_of[page] = list(dict.fromkeys((*codes_of.get(page, ()), *codes)))
        number += 1
    assert number > 250
    assert codes_of == PAGES_ABOUT


# --- flows as people write them: words that are also names of stores, branches, long chains, all scripts ---

WAREHOUSE = """
pipeline: nightly
steps:
- tool: {name: t, args: {dsn: !expr ctx.dsn}, output: warehouse}
- tool: {name: t, args: {table: orders}, output: since}
- parallel:
    branches:
      orders: {tool: {name: t, args: {table: orders, since: !expr ctx.since}}}
      refunds: {tool: {name: t, args: {table: refunds, since: !expr ctx.since}}}
    collect: {transform: {value: pipe}}
    output: raw
- tool: {name: t, args: {rows: !expr raw.orders}, output: orders}
- for_each:
    over: ctx.orders
    on_error: continue
    do: {tool: {name: t, args: {row: !expr item, kind: refunds}}}
    collect: {transform: {value: pipe}}
    output: clean
- tool: {name: t, args: {rows: !expr ctx.clean, path: clean.parquet, table: orders, title: orders and refunds}}
- tool: {name: t, args: {path: clean, table: orders-daily}, output: loaded}
- transform: {value: "'Loaded ' + text(count(clean)) + ' rows'"}
"""
MODELS = """
pipeline: models
steps:
- tool: {name: t, args: {path: pear}, output: pear}
- parallel:
    branches:
      lr: {tool: {name: t, args: {kind: lr}}}
      rf: {tool: {name: t, args: {kind: rf}}}
    collect: {tool: {name: t, args: {first: !expr lr, second: !expr rf}}}
    output: best
- tool: {name: t, args: {file: best.csv, later: report}}
- transform: {value: best, output: report}
- agent: {prompt: "Say in one word which is best of {best}: 100 % sure, {not a name}?", output: said}
- match: {on: ctx.said, cases: {lr: {pipeline: nightly, pass: [best]}}, default: {pipeline: nightly, pass: [best]}}
"""
ORDERS = """
pipeline: 订单
steps:
- title: 从仓库读取今天的所有订单
  tool: {name: t, args: {path: !expr ctx.path}, output: rows}
- for_each:
    over: ctx.rows
    on_error: continue
    do:
      for_each:
        over: item.files
        on_error: continue
        do: {tool: {name: t, args: {file: !expr item}}}
        collect: {transform: {value: "count(pipe)"}}
    collect: {transform: {value: "sum(pipe)"}}
"""
CHAIN = "pipeline: chain\nsteps:\n" + "".join(
    f"- tool: {{name: t, args: {{x: !expr ctx.x{n}, n: {n}}}, output: x{n + 1}}}\n" for n in range(200)
)
CLAIM = """
id: agf.sequential
config:
  steps:
  - {agent: intake, input_mapping: {text: parent.input.text}}
  - {agent: settle, input_mapping: {amount: intake.output.amount}}
  output_from: merge
"""
LETTER = """
id: agf.loop
config:
  steps:
  - {agent: intake, input_mapping: {text: parent.input.text}}
  - {agent: settle, input_mapping: {amount: intake.output.amount}}
  max_iterations: 4
  exit_condition: {args_match: {settle.output.score: {gte: 0.8}}}
  output_from: intake
"""
DESK = """
state: {text: str, score: float, kind: str, draft: str}
nodes:
  write: {type: llm, prompt: "Answer {text}, shortly.", state_key: draft}
  judge: {type: python, tool: t, state_key: score}
  refund: {type: python, tool: t, state_key: kind}
edges:
- {from: START, to: write}
- {from: write, to: judge}
- {from: judge, to: write, condition: score < 3}
- {from: judge, to: refund, condition: kind == "refund"}
- {from: judge, to: END, condition: else}
- {from: refund, to: END}
"""
CITIES = (
    "calls:\n"
    + "".join(
        f"- {{_tool: t, city: {city}, _outputPath: $state.weather.{city}}}\n"
        f"- {{_tool: t, data: $state.weather.{city}, _outputPath: $state.chart.{city}}}\n"
        for city in ("berlin", "paris", "rome")
    )
    + "- {_tool: t, charts: [$state.chart.berlin, $state.chart.rome], to: state, _outputPath: $state.sent}\n"
    + "output: $state.sent\n"
)
FLOWS = [
    ("pipeline", WAREHOUSE),
    ("pipeline", MODELS),
    ("pipeline", ORDERS),
    ("pipeline", CHAIN),
    ("policy", CLAIM),
    ("policy", LETTER),
    ("graph", DESK),
    ("plan", CITIES),
]


@pytest.mark.parametrize(("language", "text"), FLOWS, ids=[text.strip()[:20] for _, text in FLOWS])
def test_a_flow_as_people_write_it_gets_no_warning(language: str, text: str) -> None:
    registry = agf.Registry()
    agf.define("{pipeline: nightly, steps: [{transform: {value: '1'}}]}", registry=registry)
    agf.tool(lambda **arguments: arguments, name="t", registry=registry)
    agf.agent(lambda prompt: prompt, name="model", default=True, registry=registry)
    agf.agent(_intake, name="intake", registry=registry)
    agf.agent(_settle, name="settle", registry=registry)
    assert warned(text, language, registry, "desk" if language != "pipeline" else None) == []


def _intake(text: str) -> dict[str, Any]:
    return {"amount": len(text)}


def _settle(amount: float) -> dict[str, Any]:
    return {"score": amount}


# --- notes ---

NOTED = """\
%%pipeline {options}
pipeline: noted
steps:
- tool: {{name: file__read, args: {{path: a}}, output: pear}}
- tool: {{name: file__read, args: {{path: b}}, output: fig}}
- parallel:
    branches: {{a: {{transform: {{value: '1', output: lost}}}}, b: {{transform: {{value: '2'}}}}}}
    on_error: abort
    collect: {{transform: {{value: pipe}}}}"""


def test_several_notes_are_one_folded_output_and_never_refuse(shell: Shell) -> None:
    result = shell.good(NOTED.format(options="--strict"))
    assert "noted" in default().flows
    assert "note:" not in result.out
    (output,) = [data for data in result.outputs if "notes" in str(data)]
    assert "<summary>2 notes</summary>" in output["text/html"]
    assert output["text/plain"].startswith("2 notes: no step reads 'pear' and 'fig'; they are only results of the run")
    assert "fig" in output["text/html"]


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1, "'a0'; it is only a result"),
        (2, "'a0' and 'a1'; they are only results"),
        (3, "'a0', 'a1' and 'a2'; they are only results"),
        (20, "'a0', 'a1', 'a2' and 17 more; they are only results"),
    ],
)
def test_values_that_no_step_reads_are_one_note(count: int, said: str, shell: Shell) -> None:
    steps = "".join(f"- transform: {{value: '1', output: a{number}}}\n" for number in range(count))
    result = shell.good(f"%%pipeline\npipeline: unread\nsteps:\n{steps}- transform: {{value: '2'}}")
    assert "".join(result.out.split()).count("".join(f"note: no step reads {said}".split())) == 1, result.out
