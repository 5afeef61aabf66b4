"""Policies, plans and graphs in JupyterLab: a user defines, draws, runs, watches, answers and saves them."""

from __future__ import annotations

import os

import pytest

from tests.browser.harness import EXPLORERS, Lab, Open
from tests.browser.test_runs import SETUP, open_gate, pictures

pytestmark = pytest.mark.browser

TOOLS = """from agf_magics import agent

@agent
def writer(topic: str) -> dict:
    return {"text": "on " + topic}

rounds = 0
@agent
def checker(draft: str) -> dict:
    global rounds
    rounds += 1
    return {"score": rounds / 2}

@tool
def load(path: str) -> list:
    return [3, 5, 7]

@tool
def mean(values: list) -> float:
    return sum(values) / len(values)

@tool
def note(text: object) -> str:
    return "noted"

@tool
def grow(state: dict) -> dict:
    return {"score": state["score"] + 0.3}"""

POLICY = """%%policy article --draw --run --set topic=pears
id: agf.loop
config:
  steps:
  - agent: writer
    input_mapping: {topic: parent.input.topic}
  - agent: checker
    input_mapping: {draft: writer.output.text}
  exit_condition: {args_match: {checker.output.score: {gte: 0.8}}}
  max_iterations: 5
  output_from: writer"""

PLAN = """%%plan report --draw --run --set path=sales.csv
calls:
- {_tool: load, path: †input.path, _outputPath: †state.rows}
- {_tool: mean, values: †state.rows, _outputPath: †state.mean}
- {_tool: note, text: †state.mean, _outputPath: †state.note}
output: †state.mean"""

GRAPH = """%%graph polish --draw --run --set score=0.1
state: {score: float}
nodes:
  grow: {type: python, tool: grow}
  check: {type: passthrough}
edges:
- {from: START, to: grow}
- {from: grow, to: check}
- {from: check, to: grow, condition: score < 0.8}
- {from: check, to: END, condition: else}"""

CELLS = {"policy": (POLICY, "on pears"), "plan": (PLAN, "5.0"), "graph": (GRAPH, "score")}

MAGAZINE = """%%policy magazine --draw --run --set topic=pears
id: agf.sequential
config:
  steps:
  - agent: article
    input_mapping: {topic: parent.input.topic}
  - agent: checker
    input_mapping: {draft: article.output.text}"""

GUARDED = """%%policy guarded --quiet
schema_version: "1.0.0"
metadata: {id: guarded, name: guarded, version: "1", description: asks first}
interface: {input: {type: object}, output: {}}
action_space: {local_agents: [{alias: writer, source: writer.agf.yaml, approval: true}]}
execution_policy:
  id: agf.sequential
  config: {steps: [{agent: writer, input_mapping: {topic: parent.input.topic}}]}"""

GATED = """%%graph gated --run --draw
state: {n: int, word: str}
variables: {n: 0}
nodes:
  count: {type: passthrough, output: {n: "{state.n + 1}"}}
  wait: {type: tool, tool: gate, variables: {name: GATE}, state_key: word}
edges:
- {from: START, to: count}
- {from: count, to: count, condition: n < 3}
- {from: count, to: wait, condition: else}
- {from: wait, to: END}"""


MAIN = pytest.param("plan", marks=pytest.mark.main)


@pytest.mark.parametrize("language", ["policy", MAIN, "graph"])
def test_a_cell_of_each_language_is_drawn_run_and_saved(opened: Open, language: str) -> None:
    cell, gives = CELLS[language]
    page = opened(SETUP, TOOLS, cell)
    page.run_all()
    page.shows_picture(2)
    page.says(2, gives)
    pictures(page, f"language-{language}", 2)
    saved = page.save()
    assert "widgets" not in saved.metadata
    page.reload()
    page.shows_picture(2)
    page.says(2, gives)
    assert not [error for error in page.errors if "agf" in error]


def test_a_graph_is_watched_while_it_runs(opened: Open, lab: Lab, request: pytest.FixtureRequest) -> None:
    gate = lab.folder / f"{request.node.name}.gate"
    os.mkfifo(gate)
    page = opened(SETUP, GATED.replace("GATE", gate.name))
    page.run(0)
    page.run(1, wait=False)
    page.output(1).locator("button:has-text('Cancel')").wait_for()
    page.says(1, "running")
    pictures(page, "graph-running", 1)
    open_gate(gate)
    page.finished()
    page.says(1, "open")
    pictures(page, "graph-ran", 1)


def test_the_slider_shows_the_earlier_states_of_a_context(opened: Open) -> None:
    page = opened(SETUP, TOOLS, PLAN.replace("--draw", "--quiet"), "%context report")
    page.run_all()
    output = page.output(3)
    handle = output.locator("input[type=range]")
    handle.wait_for()
    page.says(3, "moment 6 of 6", "†state.mean")
    pictures(page, "context", 3)
    handle.focus()
    for _ in range(3):
        handle.press("ArrowLeft")
    page.says(3, "moment 3 of 6 · after load")
    assert "†state.mean" not in page.seen(3).split("context report")[-1]
    pictures(page, "context-earlier", 3)
    saved = page.save()
    assert "†state.mean" in str(saved.cells[3].outputs[0].data["text/html"])
    assert {kind for cell in saved.cells for out in cell.outputs for kind in out.get("data", {})} == {
        "text/html", "text/plain"
    }  # fmt: skip
    assert "widgets" not in saved.metadata


def test_a_policy_inside_a_policy_is_drawn_open_and_shown_by_itself_once_it_is_folded(opened: Open) -> None:
    inner = POLICY.replace(" --draw --run --set topic=pears", "")
    page = opened(SETUP, TOOLS, inner, MAGAZINE)
    page.run_all()
    explorer = page.explorer(3)
    explorer.locator("g.box").first.wait_for()
    for name in ("writer", "checker"):
        explorer.locator(f"g.box[data-step*='/'][aria-label*={name}]", has_text="✓").wait_for()
    assert explorer.locator(".opens").count() == 0
    page.picture("language-nested-policy", 3)
    explorer.locator("[aria-label^=Fold]").first.click()
    sign = explorer.locator("g.box", has_text="article").locator(".opens")
    sign.wait_for()
    outer, inside = explorer.locator("g.box", has_text="article").bounding_box(), sign.bounding_box()
    assert outer is not None
    assert inside is not None
    assert outer["x"] < inside["x"] < inside["x"] + inside["width"] < outer["x"] + outer["width"]
    assert explorer.locator(".opens").count() == 1
    sign.click()
    explorer.locator(".crumbs", has_text="magazine ▸ article").wait_for()
    explorer.locator("g.box[aria-label*=writer]").wait_for()
    page.picture("language-nested-policy-open", 3)
    explorer.locator(".crumbs button").click()
    sign.wait_for()
    assert not page.errors


def test_a_run_in_the_background_asks_in_its_explorer_and_nowhere_else(opened: Open) -> None:
    loud, quiet = ("h = %run_pipeline_async guarded --set topic=pears" + more for more in ("", " --quiet"))
    page = opened(SETUP, TOOLS, GUARDED, loud, "(await h).output", quiet, "h.result().output")
    for index in range(4):
        page.run(index)
    yes = page.output(3).locator("button:text-is('yes')")
    yes.wait_for()
    pictures(page, "asked", 3)
    assert (yes.count(), page.output(3).locator(".explorer").count()) == (1, 1)
    saved = page.save()
    assert "widgets" not in saved.metadata
    assert all(set(output.get("data", ())) <= {"text/html", "text/plain"} for output in saved.cells[3].outputs)
    yes.click()
    page.run(4)
    page.says(4, "on pears")
    page.output(3).locator("text=→ yes").wait_for()
    yes.wait_for(state="detached")
    pictures(page, "answered", 3)

    # A quiet run shows an explorer only while it asks. Its buttons work while a cell waits for the run.
    page.run(5)
    page.run(6, wait=False)
    yes = page.output(5).locator("button:text-is('yes')")
    yes.wait_for()
    page.cell(6).locator("text=[*]").wait_for()
    page.picture("asked-quiet", 5)
    yes.click()
    page.finished()
    page.says(6, "on pears")
    page.output(5).locator("text=→ yes").wait_for()
    page.output(5).locator(".explorer").wait_for(state="detached")


def test_a_cell_that_waits_asks_once_by_the_buttons_of_its_explorer(opened: Open) -> None:
    page = opened(SETUP, TOOLS, GUARDED, "%run_pipeline guarded --set topic=pears")
    for index in range(3):
        page.run(index)
    page.run(3, wait=False)
    yes = page.explorer(3).locator("button:text-is('yes')")
    yes.wait_for()
    assert not page.output(3).locator("input.jp-Stdin-input").count()
    assert page.seen(3).count("pears") == page.explorer(3).inner_text().count("pears")  # the explorer alone asks
    pictures(page, "asked-by-buttons", 3)
    yes.click()
    page.finished()
    page.says(3, "on pears")


@pytest.mark.parametrize(
    ("typed", "word"),
    [
        ("%%policy\nid: agf.loop\nconfig:\n  ma", "max_iterations"),
        ("%%plan\n- _too", "_tool"),
        ("%%graph\nstate: {score: float}\nedges:\n- {from: a, to: b, condition: sc", "score"),
    ],
)
def test_words_are_completed_in_every_language(opened: Open, typed: str, word: str) -> None:
    page = opened(SETUP, TOOLS, "")
    page.run_all()
    page.type(2, typed.replace("\n  ", "\n"))
    page.press("Tab")
    page.page.locator(f".jp-Completer-item:has-text('{word}')").first.wait_for()
    page.press("Enter")
    assert word in page.source(2)


def test_cells_of_every_language_are_coloured(opened: Open) -> None:
    page = opened(*(cell for cell, _ in CELLS.values()))
    looks = [page.look(0, "config"), page.look(1, "calls"), page.look(2, "nodes")]
    assert looks[0] == looks[1] == looks[2] != ""
    pictures(page, "coloured", 2)


SKIPPED = """%%plan two --run
calls:
- {_tool: load, path: a, _outputPath: $state.rows || $state.trouble}
- {_tool: note, text: $state.trouble, _outputPath: $state.a_note}
- {_tool: fails, _outputPath: $state.lost || $state.error}"""


def test_the_reason_of_a_skipped_step_gives_way_to_its_name_and_one_call_is_no_element(opened: Open) -> None:
    page = opened(SETUP, f"{TOOLS}\n\n@tool\ndef fails() -> int:\n    raise ValueError('no')", SKIPPED)
    page.run_all()
    row = page.explorer(2).locator(".row", has_text="branch not taken")
    row.wait_for()
    name, reason = row.locator(".name"), row.locator(".counted")
    right = "getBoundingClientRect().right"
    assert name.evaluate(f"node => node.querySelector('b').{right} <= node.{right} + 1")
    assert "$state.trouble was not written" in str(reason.get_attribute("title"))
    panel = page.open_step(2, "fails")
    panel.locator("th:has-text('state')").wait_for()
    assert panel.locator("th").first.inner_text() == "call"
    assert panel.locator("button:has-text('Only the')").count() == 0
    page.picture("skipped", 2)


CONFIRMED = """%%plan paid --quiet
confirm: true
calls:
- {_tool: note, text: 500, _outputPath: $state.receipt}"""


def test_a_step_that_asks_waits_and_the_field_has_room_for_its_hint(opened: Open) -> None:
    page = opened(SETUP, TOOLS, CONFIRMED, "paid = %run_pipeline_async paid")
    for cell in range(4):
        page.run(cell)
    explorer = page.explorer(3)
    explorer.locator(".row [aria-label='? waiting']").wait_for()
    page.wait(f"{EXPLORERS}.some(root => parseFloat(root.querySelector('.row .took')?.textContent) > 0)")  # it goes on
    field = explorer.get_by_role("textbox").first
    field.wait_for()
    assert field.evaluate("node => (node.value = node.placeholder, node.scrollWidth <= node.clientWidth)")
    page.open_view(3, "Picture")
    explorer.locator("g.box >> text=? waiting").wait_for()
    page.picture("waiting", 3)
    explorer.locator("button:text-is('yes')").click()
    explorer.locator("g.box >> text=✓ ok").wait_for()
