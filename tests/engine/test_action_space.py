"""The tools that the document of a policy may use: those of its action space, in all that it runs (decision B1).

The limit holds whatever language the inner flows are written in. A policy without a document limits nothing.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.settings.settings import Settings, current

FORMS = ("whole", "policy and space", "bare")
SPACES: Mapping[str, Sequence[str] | None] = {"none": None, "empty": [], "a": ["a"], "b": ["b"], "a and b": ["a", "b"]}

INNER: Mapping[str, str] = {
    "pipeline": "pipeline: uses\nsteps:\n- tool: {name: a}\n",
    "pipeline in a for_each": "pipeline: uses\nsteps:\n- for_each: {items: [1], on_error: abort, "
    "do: {tool: {name: a}}, collect: {transform: {value: pipe}}}\n",
    "pipeline that calls": "pipeline: uses\nsteps:\n- call: {pipeline: below}\n",
    "plan": "name: uses\ncalls: [{_tool: a, _outputPath: †state.x}]\n",
    "graph": "name: uses\nnodes: {n: {type: tool, tool: a}}\nedges: [{from: START, to: n}]\n",
    "graph that chooses": "name: uses\nvariables: {t: a}\nstate: {t: str}\n"
    "nodes: {n: {type: tool_call, tool: '{state.t}', args: {}}}\nedges: [{from: START, to: n}]\n",
    "policy": "id: agf.sequential\nconfig: {steps: [{agent: boss}]}\n",
    "policy of a vendor": "id: x-acme.first\nconfig: {}\n",
    "function": "",
}
KEEPS = ("graph that chooses",)
"""The kinds of flows whose result contains the failure of the tool."""


class House:
    """The tool ``a``, and a flow ``uses`` in each language that calls it."""

    def __init__(self, inner: str) -> None:
        self.registry = agf.Registry()
        self.called: list[str] = []
        for name in "ab":
            agf.tool(lambda name=name: self.called.append(name), name=name, registry=self.registry)

        def boss(input: Any, tools: Mapping[str, Any]) -> Any:
            return tools["a"]() if "a" in tools else agf.run(INNER["pipeline"], registry=self.registry).output

        agf.agent(boss, name="boss", registry=self.registry)
        if inner == "function":
            agf.agent(boss, name="uses", registry=self.registry)

        @agf.policy("x-acme.first", registry=self.registry)
        def first(config: Any, input: Any, agents: Mapping[str, Any]) -> Any:
            return agents["boss"](input)

        self.define(INNER["pipeline"].replace("uses", "below"), "below", "pipeline")
        if INNER[inner]:
            self.define(INNER[inner], "uses", inner.split()[0])

    def define(self, text: str, name: str, language: str) -> None:
        agf.define(text, language, name=name, registry=self.registry)

    def run(self, text: str) -> str:
        """The outcome of the run: ``ok`` or the code of the error."""
        run = agf.run(agf.load(text, "policy", registry=self.registry), registry=self.registry, raises=False)
        return "ok" if run.error is None else run.error.code


def document(form: str, space: Sequence[str] | None, agent: str = "uses") -> str:
    policy = {"id": "agf.sequential", "config": {"steps": [{"agent": agent}]}}
    if form == "bare":
        return json.dumps(policy)
    policy_document: dict[str, Any] = {"execution_policy": policy}
    if form == "whole":
        about = {"id": "d", "name": "D", "version": "1.0.0", "description": "d"}
        policy_document |= {"schema_version": "1.0.0", "metadata": about, "interface": {"input": {}, "output": {}}}
    if space is not None:
        tools = [{"alias": name} for name in space]
        policy_document["action_space"] = {"local_agents": [{"alias": agent, "source": "x"}], "local_tools": tools}
    return json.dumps(policy_document)


@pytest.mark.parametrize("inner", INNER)
def test_a_document_limits_what_it_runs_to_its_action_space(inner: str) -> None:
    for form, (name, space) in itertools.product(FORMS, SPACES.items()):
        house = House(inner)
        outcome = house.run(document(form, space))
        fine = form == "bare" or "a" in (space or ())
        assert house.called == (["a"] if fine else []), (form, name)
        assert outcome == ("ok" if fine or inner in KEEPS else "step.not-allowed")


@pytest.mark.parametrize("inner", INNER)
def test_a_document_below_another_only_takes_tools_away(inner: str) -> None:
    for outer, middle in itertools.product(SPACES.values(), SPACES.values()):
        house = House(inner)
        house.define(document("whole", middle), "middle", "policy")
        outcome = house.run(document("whole", outer, "middle"))
        fine = "a" in (outer or ()) and "a" in (middle or ())
        assert house.called == (["a"] if fine else []), (outer, middle)
        assert outcome == ("ok" if fine or inner in KEEPS else "step.not-allowed")


def test_an_alias_is_the_tool_of_its_name_unless_a_tool_is_registered_as_the_alias() -> None:
    aliased = {"alias": "b2", "name": "a"}
    for entry, fine in ((aliased, True), ({"alias": "b", "name": "a"}, False), ({"alias": "a", "name": "b"}, True)):
        house = House("pipeline")
        text = json.loads(document("whole", []))
        text["action_space"]["local_tools"] = [entry]
        assert house.run(json.dumps(text)) == ("ok" if fine else "step.not-allowed")


@pytest.mark.parametrize("how", ["call", "identity", "_delegate", "subgraph"])
def test_a_document_is_limited_whoever_calls_it(how: str) -> None:
    outer = {
        "call": "pipeline: p\nsteps:\n- call: {pipeline: d}\n- tool: {name: b}\n",
        "identity": "pipeline: p\nsteps:\n- agent: {prompt: x, identity: d}\n- tool: {name: b}\n",
        "_delegate": "name: p\ncalls: [{_delegate: d, _outputPath: †state.x}, {_tool: b, _outputPath: †state.y}]\n",
        "subgraph": "name: p\nnodes: {n: {type: subgraph, graph: d}, m: {type: tool, tool: b}}\n"
        "edges: [{from: START, to: n}, {from: n, to: m}]\n",
    }[how]
    for space, fine in ((["a"], True), ([], False)):
        house = House("pipeline")
        house.define(document("whole", space), "d", "policy")
        run = agf.run(outer, registry=house.registry, raises=False)
        if fine:  # the caller is not limited
            assert (run.status, sorted(house.called)) == ("ok", ["a", "b"])
        else:
            assert "step.not-allowed" in str(run.error)
            assert "a" not in house.called


def test_a_run_that_a_documents_agent_starts_is_limited_too() -> None:
    house = House("function")
    assert house.run(document("whole", [])) == "step.not-allowed"
    assert house.called == []


def test_a_resumed_run_is_limited_as_it_was(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current, "settings", Settings(journal=str(tmp_path / "runs.sqlite")))
    house = House("pipeline")
    house.define(document("whole", []), "d", "policy")
    run = agf.run("d", registry=house.registry, raises=False)
    assert run.error is not None
    again = agf.resume(run.run_id, registry=house.registry, raises=False)
    assert (again.error.code, house.called) == ("step.not-allowed", [])
