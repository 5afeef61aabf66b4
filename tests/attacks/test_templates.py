"""Jinja2 templates that take endless time or hold the interpreter end with a code, and loading any template is safe."""

from __future__ import annotations

import json

import pytest

import agf_magics as agf

pytest.importorskip("jinja2")

SHARED = "{% set a = (1, 1) %}" + "{% set a = (a, a) %}" * 60
"""A tuple whose hash takes 2**60 steps in C, while the interpreter is locked."""


def graph(template: str) -> str:
    node = {"type": "agent", "identity": "echo", "prompt": template, "state_key": "z"}
    edges = [{"from": "START", "to": "a"}, {"from": "a", "to": "END"}]
    return json.dumps({"name": "g", "state": {"s": "any", "z": "any"}, "nodes": {"a": node}, "edges": edges})


def rendered(template: str) -> agf.Run:
    registry = agf.Registry()

    @agf.agent(registry=registry)
    def echo(prompt: str) -> str:
        return prompt

    return agf.run(agf.load(graph(template), "graph", registry=registry), {"s": {}}, registry=registry, raises=False)


@pytest.mark.slow
def test_a_template_that_holds_the_interpreter_ends_with_a_code() -> None:
    run = rendered(SHARED + "{{ s[a] }}")
    assert (run.status, run.error and run.error.code) == ("error", "graph.template-limit")
    assert rendered("{{ 1 + 1 }}").output["z"] == "2"


@pytest.mark.parametrize(
    ("template", "loads"),
    [
        ("{% autoescape true %}x{% endautoescape %}", True),
        ("{{ " + "1 < (" * 30 + "1" + ") < 3" * 30 + " }}", True),
        ("{% set a.b = 1 %}{% trans %}x{% endtrans %}", False),
        ("{% do x %}", False),
    ],
)
def test_loading_any_template_raises_nothing_but_errors_of_definitions(template: str, loads: bool) -> None:
    if loads:
        assert agf.load(graph(template), "graph", registry=agf.Registry()).name == "g"
    else:
        with pytest.raises(agf.DefinitionError, match=r"graph\.template"):
            agf.load(graph(template), "graph", registry=agf.Registry())
