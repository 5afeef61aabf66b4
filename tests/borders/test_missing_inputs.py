"""A missing input is named before the first step, wherever a pipeline, a policy or a graph names it.

It is not an error where the run may not need it: in the later parts of a condition (after ``or``, in a later group or
route), and in a condition of a graph, where a missing key is null.
"""

from __future__ import annotations

import pytest

import agf_magics as agf
from agf_magics.catalog import Registry

CALLS: list[object] = []


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    CALLS.clear()

    @agf.tool(registry=registry)
    def note(x: str = "") -> str:
        CALLS.append(x)
        return x

    @agf.agent(registry=registry, default=True)
    def free(input: object) -> object:
        CALLS.append(input)
        return {"kind": "other", "draft": "d"}

    @agf.agent(registry=registry)
    def writer(topic: str) -> str:
        CALLS.append(topic)
        return topic

    return registry


def sequential(*steps: str) -> str:
    return f"id: agf.sequential\nconfig: {{steps: [{', '.join(steps)}]}}"


FREE = "{agent: free, input_mapping: {a: parent.input.a}}"


def loop(exit: str, rounds: int = 3) -> str:
    return f"id: agf.loop\nconfig: {{steps: [{FREE}], max_iterations: {rounds}, exit_condition: {exit}}}"


def conditional(*whens: str) -> str:
    routes = ", ".join(f"{{when: {when}, agent: free}}" for when in whens)
    return f"id: agf.conditional\nconfig: {{routes: [{routes}], default_agent: free}}"


def on_input(name: str, value: str = "x") -> str:
    return f"{{args_match: {{parent.input.{name}: {value}}}}}"


OTHER = "{args_match: {free.output.kind: other}}"


def graph(node: str, edges: str = "{from: x, to: y}, {from: y, to: END}") -> str:
    """A graph whose node y reads the missing key, after a node x that makes a call."""
    first = "{type: tool, tool: note, variables: {x: '{state.a}'}, state_key: first}"
    nodes = f"nodes:\n  x: {first}\n  y: {node}"
    return f"state: {{a: any, b: any, c: any}}\n{nodes}\nedges: [{{from: START, to: x}}, {edges}]"


def pipeline(step: str) -> str:
    return f"pipeline: flow\nsteps:\n- tool: {{name: note, args: {{x: !expr ctx.a}}}}\n- {step}"


MISSING = {
    "pipeline": {
        "expression": (pipeline("transform: {value: ctx.b}"), "ctx.b"),
        "argument": (pipeline("tool: {name: note, args: {x: !expr ctx.b}}"), "ctx.b"),
        "prompt": (pipeline("agent: {prompt: 'Say {ctx.b}'}"), "ctx.b"),
        "case": (pipeline("match: {on: ctx.b, cases: {x: {pipeline: flow2}}}"), "ctx.b"),
        "list": (
            pipeline(
                "for_each: {over: ctx.b, on_error: abort, do: {transform: {value: item}}, "
                "collect: {transform: {value: pipe}}}"
            ),
            "ctx.b",
        ),
    },
    "policy": {
        "mapping": (sequential(FREE, "{agent: writer, input_mapping: {topic: parent.input.b}}"), "parent.input.b"),
        "inside a field": (sequential(FREE, "{agent: free, input_mapping: {t: parent.input.b.c}}"), "parent.input.b.c"),
        "list": ("id: agf.batch\nconfig: {agent: free, input_mapping: {t: 'parent.input.b.[]'}}", "parent.input.b.[]"),
        "branch": (
            "id: agf.parallel\nconfig: {agents: "
            f"[{FREE}, {{agent: writer, input_mapping: {{topic: parent.input.b}}}}]}}",
            "parent.input.b",
        ),
        "end of a loop": (loop(on_input("b")), "parent.input.b"),
        "end of a loop, below a field": (loop(on_input("b.c", "{gt: 3}")), "parent.input.b.c"),
        "end of a loop, beside another field": (
            loop("{args_match: {free.output.kind: zzz, parent.input.b: x}}"),
            "parent.input.b",
        ),
        "end of a loop of one round": (loop(on_input("b"), rounds=1), "parent.input.b"),
        "first group": (loop(f"[{on_input('b')}, {OTHER}]"), "parent.input.b"),
        "route": (conditional(on_input("b")), "parent.input.b"),
        "first route": (conditional(on_input("b"), on_input("a")), "parent.input.b"),
    },
    "graph": {
        "value": (graph("{type: passthrough, output: {c: '{state.b}'}}"), "state.b"),
        "part of a text": (graph("{type: passthrough, output: {c: 'a {state.b}'}}"), "state.b"),
        "argument": (graph("{type: tool_call, tool: note, args: {x: '{state.b}'}, state_key: c}"), "state.b"),
        "variable": (graph("{type: llm, prompt: 'Say {t} now', variables: {t: '{state.b}'}, state_key: c}"), "state.b"),
        "prompt": (graph("{type: llm, prompt: 'Say {b} now', state_key: c}"), "b"),
        "prompt, with state.": (graph("{type: llm, prompt: 'Say {state.b} now', state_key: c}"), "state.b"),
        "template": (graph("{type: llm, prompt: 'Say {{ b }} now', state_key: c}"), "b"),
        "template, with state.": (graph("{type: llm, prompt: 'Say {{ state.b }} now', state_key: c}"), "b"),
        "question": (graph("{type: interrupt, message: 'Is {state.b} right?', state_key: c}"), "state.b"),
        "list": (
            graph("{type: map, over: '{state.b}', as: i, collect: c, node: {type: llm, prompt: 'Say {i} now'}}"),
            "state.b",
        ),
    },
}


@pytest.mark.parametrize(("language", "place"), [(one, place) for one in MISSING for place in MISSING[one]])
def test_a_missing_input_is_named_before_the_first_step(language: str, place: str, registry: Registry) -> None:
    text, span_text = MISSING[language][place]
    with pytest.raises(agf.DefinitionError) as caught:
        agf.run(agf.load(text, language), {"a": "x"}, registry=registry)
    (diagnostic,) = [diagnostic for diagnostic in caught.value.diagnostics if diagnostic.code == "run.missing-input"]
    assert (diagnostic.span.text if diagnostic.span else None) == span_text
    assert "'b'" in diagnostic.message
    assert "--set b=" in str(diagnostic.hint)
    assert CALLS == []


NOT_NEEDED = {
    "a later group": ("policy", loop(f"[{OTHER}, {on_input('b')}]")),
    "a later route": ("policy", conditional(on_input("a"), on_input("b"))),
    "a condition of a graph": (
        "graph",
        graph(
            "{type: passthrough, output: {c: '1'}}",
            "{from: x, to: y, condition: b == 3}, {from: x, to: END, condition: else}, {from: y, to: END}",
        ),
    ),
    "behind or": ("pipeline", pipeline("transform: {value: ctx.a or ctx.b}")),
    "a default": ("pipeline", pipeline("transform: {value: \"get(ctx, 'b', 1)\"}")),
}


@pytest.mark.parametrize("place", NOT_NEEDED)
def test_an_input_that_the_run_does_not_need_may_be_missing(place: str, registry: Registry) -> None:
    language, text = NOT_NEEDED[place]
    assert agf.run(agf.load(text, language), {"a": "x"}, registry=registry).status == "ok"


def test_a_flow_that_calls_a_policy_passes_what_its_conditions_read(registry: Registry) -> None:
    agf.define(conditional(on_input("b")), "policy", name="routed", registry=registry)
    with pytest.raises(agf.DefinitionError, match=r"'routed' reads 'b', which this step does not pass"):
        agf.run(agf.load(pipeline("call: {pipeline: routed, pass: {a: ctx.a}}")), {"a": "x"}, registry=registry)
    assert CALLS == []
