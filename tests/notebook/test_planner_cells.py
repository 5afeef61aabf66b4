"""``%%plan --planner``: a model plans in a cell, and the cell shows each request and each plan."""

from __future__ import annotations

import json
from typing import Any

import pytest

import agf_magics as agf
from notebooks.scripted_server import ScriptedServer, failing
from tests.lifecycle.planning.scripted_planner import Planner, call, plan
from tests.notebook.conftest import Shell

TOOLS = """\
@tool
def price(fruit: str) -> float:
    "The price of a kilo."
    return {"pear": 2.5, "fig": 7.0}[fruit]

@tool
def times(a: float, b: float) -> float:
    "A product."
    return a * b
"""
PRICE = call("price", "†state.price", fruit="†input.fruit")
TOTAL = call("times", "†state.total", a="†state.price", b=2)
CELL = "%%plan figs --planner $model --tools price,times --set fruit=fig{}\ntask: What do two kilos cost?\n{}"


@pytest.fixture
def ready(shell: Shell) -> Shell:
    shell.good(TOOLS)
    return shell


def cell(shell: Shell, planner: Planner, line: str = "", header: str = "") -> Any:
    shell.names["model"] = planner.model
    return shell.run(CELL.format(line, header))


def test_a_cell_shows_each_reply_and_each_plan_and_returns_the_result(ready: Shell) -> None:
    ready.good("%config AgfMagics.progress = 'html'")
    planner = Planner(plan(call("think", _output="first <b>the price</b>"), PRICE), plan(TOTAL, output="†state.total"))
    result = cell(ready, planner)
    assert result.ok, result.out
    assert isinstance(result.value, agf.planning.PlannerResult)
    assert result.value.output == 14.0
    pages = [data["text/html"] for data in result.outputs if "text/html" in data]
    assert "think: first &lt;b&gt;the price&lt;/b&gt;" in "".join(pages)
    assert "price(fruit: †input.fruit) → †state.price" in "".join(pages)
    assert "no output yet" in "".join(pages)
    assert "output: †state.total" in "".join(pages)


def test_the_context_is_that_of_the_cell(ready: Shell) -> None:
    assert cell(ready, Planner(plan(PRICE, output="†state.price"))).ok
    assert agf.context("figs").resolve("†state") == {"price": 7.0}
    assert cell(ready, Planner(plan(PRICE, output=1)), " --context mine").ok
    assert agf.context("mine").resolve("†state.price") == 7.0
    assert ready.good("%context mine †state.price").value == 7.0


def test_the_header_has_messages_latent_tools_prescribed_paths_and_confirm(ready: Shell) -> None:
    header = (
        "state: {last: 3}\n"
        "tools:\n  guess: {description: Guess it.}\n  price: {_outputPath: {const: $state.cost}}\n"
        "confirm: [times]\n"
    )
    planner = Planner(
        plan(PRICE),
        plan(call("guess", "†state.guess", _output="ten"), call("price", "†state.cost", fruit="fig"), output="†state"),
    )
    result = cell(ready, planner, "", header)
    assert result.ok, result.out
    assert result.value.output == {"last": 3, "guess": "ten", "cost": 7.0}
    assert '"data": {"last": 3}' in planner.prompts[0]
    assert planner.schema["properties"]["calls"]["items"]["anyOf"][0]["description"] == "Guess it."
    assert "_outputPath" in planner.prompts[1]


def test_a_planner_ends_with_a_warning_after_the_last_tick(ready: Shell) -> None:
    result = cell(ready, Planner(plan(PRICE)), " --ticks 2 --out done")
    assert result.ok, result.out
    assert "none of the first 2 plans had an output [run.max-ticks]" in result.out
    assert len(ready.names["done"].runs) == 2


def test_a_failed_planner_fails_its_cell_and_is_resumed_in_it(ready: Shell) -> None:
    ready.good("%config AgfMagics.journal = 'runs.sqlite'")
    first = cell(ready, Planner(plan(PRICE), ConnectionError("no line")), " --out done")
    assert not first.ok
    assert "%%plan … --planner … --resume" in first.out
    assert len(ready.names["done"].runs) == 1
    later = cell(ready, Planner(plan(TOTAL, output="†state.total")), " --resume")
    assert later.ok, later.out
    assert later.value.output == 14.0


def test_a_cell_asks_a_server(ready: Shell) -> None:
    replies = [failing(500, "busy", Retry_After="0"), json.dumps(plan(PRICE, output="†state.price"))]
    with ScriptedServer(replies) as server:  # type: ignore[arg-type]
        agf.registry.choose("openai:scripted", base_url=server.url)
        result = ready.run("%%plan figs --planner openai:scripted --set fruit=pear\ntask: What does a kilo cost?")
    assert result.ok, result.out
    assert result.value.output == 2.5
    assert len(server.requests) == 2


def test_a_cell_replays_a_planner_and_asks_no_model(ready: Shell) -> None:
    ready.names["model"] = Planner(plan(PRICE), plan(TOTAL, output="†state.total")).model
    ready.good(
        "import agf_magics as agf\n"
        "with agf.replay('figs.agf', missing='record'):\n"
        "    agf.planning.run_planner(\n"
        "        model, 'What do two kilos cost?',\n"
        "        tools=['price', 'times'], context='recorded', input={'fruit': 'fig'}\n"
        "    )"
    )
    silent = Planner()
    result = cell(ready, silent, " --replay figs.agf")
    assert result.ok, result.out
    assert result.value.output == 14.0
    assert silent.asked == []


def test_a_replayed_planner_reports_a_different_task(ready: Shell) -> None:
    ready.names["model"] = Planner(plan(PRICE, output="†state.price")).model
    ready.good(
        "import agf_magics as agf\n"
        "with agf.replay('figs.agf', missing='record'):\n"
        "    agf.planning.run_planner(model, 'Another task', tools=['price'], context='r', input={'fruit': 'fig'})"
    )
    silent = Planner()
    assert "replay.missing" in cell(ready, silent, " --replay figs.agf").out
    assert silent.asked == []
