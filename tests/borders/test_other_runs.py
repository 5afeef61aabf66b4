"""What an agent or a generated cell can reach by a name: its own runs, the registered tool, and nothing else."""

from __future__ import annotations

import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.lifecycle.agent_tools import launch_tools
from agf_magics.lifecycle.runs.live import live
from agf_magics.notebook.explorer.open_call import open_call
from tests.borders.test_approvals import changed
from tests.engine import kept

SECRET = "pipeline: salaries\nsteps: [{transform: {value: '[4000, 5000]'}}]"
TOOLS = ["run_pipeline_inline", "run_pipeline_inline_async", "run_result"]


@pytest.fixture
def registry() -> agf.Registry:
    registry = agf.Registry()
    for name in ("clerk", "other"):
        agf.agent(lambda prompt: prompt, name=name, tools=TOOLS, registry=registry)
    return registry


@pytest.mark.parametrize("is_live", [True, False], ids=["of this kernel", "of the journal"])
@pytest.mark.parametrize("starter", ["the person", "other", "clerk"])
def test_an_agent_gets_the_results_of_its_own_runs(
    tmp_path: Path, registry: agf.Registry, starter: str, is_live: bool
) -> None:
    with kept.journal_in(tmp_path):
        if starter == "the person":
            run_id = agf.run(SECRET, registry=registry).run_id
        else:
            started = launch_tools(identity=starter, registry=registry)["run_pipeline_inline"](SECRET)
            run_id = started["data"]["run_id"]
        if not is_live:
            live.forget()
        answer = launch_tools(identity="clerk", registry=registry)["run_result"](run_id)
    assert answer["status"] == ("ok" if starter == "clerk" else "error")
    assert ("4000" in str(answer)) == (starter == "clerk")


def test_an_agent_waits_for_a_run_that_it_started_in_the_background(tmp_path: Path, registry: agf.Registry) -> None:
    tools = launch_tools(identity="clerk", registry=registry)
    with kept.journal_in(tmp_path):
        run_id = tools["run_pipeline_inline_async"](SECRET)["data"]["run_id"]
        live.find(run_id).wait()
        assert tools["run_result"](run_id)["data"]["output"] == [4000, 5000]


def price(fruit: str) -> float:
    return 1.0


def cell_of_opened_call(registry: agf.Registry, names: dict[str, Any], tmp_path: Path, recorded: str = "price") -> str:
    """The cell that is generated for a call whose tool a journal calls ``recorded``."""
    with kept.journal_in(tmp_path) as path:
        run = agf.run("pipeline: p\nsteps: [{tool: {name: price, args: {fruit: fig}}}]", registry=registry)
        changed(path, f"UPDATE records SET name='{recorded}', given='{{\"command\":\"touch x\"}}'")
        return open_call(SimpleNamespace(user_ns=names), registry, run.run_id, "steps[0]").code


class Priced:
    async def __call__(self, fruit: str) -> float:
        return 1.0


@pytest.mark.parametrize("function", [Priced(), functools.partial(Priced(), fruit="fig")])
def test_a_cell_waits_for_each_tool_that_is_async(registry: agf.Registry, tmp_path: Path, function: Any) -> None:
    agf.tool(function, name="price", registry=registry)
    assert registry.tools["price"].is_async
    assert cell_of_opened_call(registry, {"price": function}, tmp_path) == "await price(**arguments)"


@pytest.mark.parametrize("name", ["system", "exit", "get_ipython", "eval", "__import__", "os.system", "p"])
def test_a_cell_calls_no_function_that_a_journal_names(registry: agf.Registry, tmp_path: Path, name: str) -> None:
    agf.tool(price, registry=registry)
    names = {name: lambda **arguments: None, "price": price, "agf_magics": agf}
    with pytest.raises(agf.DefinitionError) as raised:
        cell_of_opened_call(registry, names, tmp_path, name)
    assert raised.value.code == "flow.unknown-tool"
    assert "arguments" not in names


def test_a_cell_calls_the_tool_also_where_its_name_means_something_else(registry: agf.Registry, tmp_path: Path) -> None:
    agf.tool(price, registry=registry)
    assert cell_of_opened_call(registry, {"price": price}, tmp_path) == "price(**arguments)"
    for other in (print, lambda fruit: 2.0, agf.registry, None):
        code = cell_of_opened_call(registry, {"price": other}, tmp_path)
        assert code == "import agf_magics\n\nagf_magics.registry.tools['price'].function(**arguments)"
