"""Names that look the same are one name, as Python treats its identifiers (NFKC, decision D150).

Each kind of name, in each language and front end, is written in one form where it is defined and in another form where
it is used.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.commands.line import read
from agf_magics.commands.magics import COMMANDS
from agf_magics.commands.values import inputs
from tests.engine import kept
from tests.notebook.conftest import Shell

FORMS = {
    "composed": ("caf\u00e9", "cafe\u0301"),
    "micro": ("\u03bc_mean", "\u00b5_mean"),
    "ligature": ("find", "\ufb01nd"),
    "width": ("ab1", "ａｂ１"),
}
"""The form that Python uses, and another form that a user may write."""

both = pytest.mark.parametrize("turned", [False, True], ids=["", "turned"])
forms = pytest.mark.parametrize("form", FORMS)


def pair(form: str, turned: bool) -> tuple[str, str]:
    defined, used = FORMS[form]
    assert unicodedata.normalize("NFKC", used) == defined
    return (used, defined) if turned else (defined, used)


@pytest.fixture
def registry() -> agf.Registry:
    return agf.Registry()


def tool_with(registry: agf.Registry, name: str) -> None:
    names: dict[str, Any] = {}
    argument = unicodedata.normalize("NFKC", name)
    # Only code from a text can have a function with such a name.
    code = compile(f"def {argument}({argument}=0): return {argument}", "<cell>", "exec")
    exec(code, names)
    agf.tool(names[argument], name=name, registry=registry)


DEFINITIONS = {
    "a tool and its argument": ("pipeline", "{{pipeline: u, steps: [{{tool: {{name: {b}, args: {{{b}: 5}}}}}}]}}"),
    "a store": (
        "pipeline",
        "{{pipeline: u, steps: [{{tool: {{name: {b}, args: {{{b}: 5}}, output: {a}}}}},"
        " {{transform: {{value: \"get(ctx, '{b}')\"}}}}]}}",
    ),
    "the input": ("pipeline", "{{pipeline: u, steps: [{{transform: {{value: \"get(ctx, '{b}')\"}}}}]}}"),
    "a graph": (
        "graph",
        "{{name: u, state: {{{a}: int, r: int, c: int}},"
        " nodes: {{{a}: {{type: tool, tool: {b}, variables: {{{b}: '{{state.c}}'}}, state_key: r}}}},"
        " edges: [{{from: START, to: {b}}}, {{from: {a}, to: END}}]}}",
    ),
    "a plan": (
        "plan",
        "{{calls: [{{_tool: {b}, {b}: 5, _outputPath: $state.{a}}},"
        " {{_tool: {a}, {a}: $state.{b}, _outputPath: $state.r}}], output: $state.r}}",
    ),
    "a schema": (
        "pipeline",
        "{{schema: {a}, fields: {{v: {{type: number}}}}}}\n---\n"
        "{{pipeline: u, steps: [{{tool: {{name: wraps, schema: {b}}}}}, {{transform: {{value: pipe.v}}}}]}}",
    ),
    "another flow": ("pipeline", "{{pipeline: u, steps: [{{call: {{pipeline: {b}}}}}]}}"),
}


@both
@forms
@pytest.mark.parametrize("kind", DEFINITIONS)
def test_a_definition_finds_the_name(registry: agf.Registry, kind: str, form: str, turned: bool) -> None:
    a, b = pair(form, turned)
    language, text = DEFINITIONS[kind]
    if kind == "another flow":
        agf.define(f"{{pipeline: {a}, steps: [{{transform: {{value: '5'}}}}]}}", registry=registry)
    else:
        tool_with(registry, a)
    agf.tool(lambda: {"v": 5}, name="wraps", registry=registry)
    flow = agf.define(text.format(a=a, b=b), language, name="u", strict=True, registry=registry)
    assert flow is not None
    fields = {"the input": {a: 5}, "a graph": {"c": 5}}.get(kind)
    run = agf.run("u", fields, registry=registry)
    assert 5 in (run.output, run.output.get("r") if isinstance(run.output, dict) else None)


@both
@forms
def test_an_agent_and_a_list_of_its_tools(registry: agf.Registry, form: str, turned: bool) -> None:
    a, b = pair(form, turned)
    tool_with(registry, a)

    @agf.agent(name=a, tools=[b], registry=registry)
    async def asks(prompt: str, tools: Any) -> Any:
        return sorted(tools)

    agf.define(f"{{pipeline: u, steps: [{{agent: {{prompt: x, identity: {b}}}}}]}}", registry=registry)
    assert agf.run("u", registry=registry).output == [unicodedata.normalize("NFKC", a)]


@both
@forms
def test_the_registry_has_one_thing_for_both_forms(registry: agf.Registry, form: str, turned: bool) -> None:
    a, b = pair(form, turned)
    for name in (a, b):
        agf.define("{pipeline: p, steps: [{transform: {value: '1'}}]}", name=name, registry=registry)
        tool_with(registry, name)
    assert len(registry.flows) == len(registry.tools) == 1
    assert a in registry.flows
    assert b in registry.tools
    registry.flows.remove(b)
    assert not registry.flows


@both
@forms
def test_a_line_finds_a_variable_a_key_and_a_flow(shell: Shell, form: str, turned: bool) -> None:
    a, b = pair(form, turned)
    name = unicodedata.normalize("NFKC", a)
    parsed = read(COMMANDS["run_pipeline"], f"p --set {b}=${b}")
    assert parsed is not None
    assert inputs(parsed, {name: 5}) == {name: 5}
    shell.good(f"%%pipeline {a}\nsteps:\n- transform: {{value: \"get(ctx, '{a}')\"}}\n")
    shell.good(f"{a} = 5")
    shell.good(f"%run_pipeline {b} --set {b}=${b} --out {b} --quiet")
    assert shell.names[name].output == 5
    assert agf.runs(b).output == 5
    assert len(agf.runs(flow=a)) == 1


def test_two_fields_that_look_the_same_are_refused(registry: agf.Registry) -> None:
    agf.define("{pipeline: u, steps: [{transform: {value: '1'}}]}", registry=registry)
    with pytest.raises(agf.DefinitionError, match="look the same"):
        agf.run("u", dict.fromkeys(FORMS["micro"], 1), registry=registry)


def test_texts_and_keys_of_values_are_not_changed(registry: agf.Registry) -> None:
    a, b = FORMS["composed"]
    agf.tool(lambda v: v, name="same", registry=registry)
    text = f'{{pipeline: u, steps: [{{tool: {{name: same, args: {{v: {{"{b}": "{b} ²"}}}}}}}}]}}'
    agf.define(text, registry=registry)
    assert agf.run("u", registry=registry).output == {b: f"{b} ²"}
    inner = f"{{pipeline: w, steps: [{{transform: {{value: \"get(ctx.v, '{a}')\"}}}}]}}"
    agf.define(inner, registry=registry)
    assert agf.run("w", {"v": {b: 3}}, registry=registry).output == 3


def test_a_label_is_a_text(registry: agf.Registry) -> None:
    _, b = FORMS["composed"]
    agf.tool(lambda: b, name="word", registry=registry)
    agf.define("{pipeline: one, steps: [{transform: {value: '1'}}]}", registry=registry)
    agf.define("{pipeline: two, steps: [{transform: {value: '2'}}]}", registry=registry)
    agf.define(
        f"{{pipeline: u, steps: [{{tool: {{name: word}}}}, "
        f"{{match: {{on: pipe, cases: {{{b}: {{pipeline: one}}}}, default: {{pipeline: two}}}}}}]}}",
        registry=registry,
    )
    assert agf.run("u", registry=registry).output == 1


@both
@forms
def test_a_run_has_its_values_by_either_form(registry: agf.Registry, tmp_path: Path, form: str, turned: bool) -> None:
    written, looked_up = pair(form, turned)
    with kept.journal_in(tmp_path):
        agf.define(f"{{pipeline: u, steps: [{{transform: {{value: '5', output: {written}}}}}]}}", registry=registry)
        run = agf.run("u", registry=registry)
        assert (run.stores[looked_up], agf.runs(run.run_id).stores[looked_up]) == (5, 5)
