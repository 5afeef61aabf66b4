"""Names that are looked up in the registry before the first step. (Rows of vectors cannot describe a registry.)"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import agf_magics as agf
from agf_magics.engine.run_options import RunOptions
from agf_magics.languages.ours import detect_language
from agf_magics.lifecycle.definitions.checking import check_definition
from agf_magics.lifecycle.definitions.define import register
from agf_magics.lifecycle.definitions.linking import link_flow
from agf_magics.lifecycle.launch.launch import prepare_run
from agf_magics.schemas.schema import Field, Schema
from agf_magics.text.source import Source


def findings(text: str, registry: agf.Registry) -> list[tuple[str, str, str]]:
    """The severity, the code and the text under the caret of each problem of defining ``text``."""
    problems = register(text, registry=registry).problems
    return [(d.severity, d.code, d.span.text if d.span else "") for d in problems if d.severity != "note"]


def test_an_unknown_name_is_a_warning_when_defined_and_refuses_the_run() -> None:
    registry = agf.Registry()
    text = "pipeline: p\nsteps:\n  - tool: {name: fetch, args: {}}\n  - agent: {prompt: hello}\n"
    assert findings(text, registry) == [
        ("warning", "flow.unknown-tool", "fetch"),
        ("warning", "flow.no-agent", "agent"),
    ]
    with pytest.raises(agf.DefinitionError) as caught:
        agf.run("p", registry=registry)
    assert [d.code for d in caught.value.diagnostics] == ["flow.unknown-tool", "flow.no-agent"]


def test_the_names_of_arguments_are_checked_before_the_run() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def fetch(name: str, limit: int = 3) -> str:
        raise AssertionError("never called")

    text = "pipeline: p\nsteps:\n  - tool: {name: fetch, args: {nmae: x}}\n"
    assert findings(text, registry) == [("warning", "flow.unknown-argument", "nmae")]
    with pytest.raises(agf.DefinitionError) as caught:
        agf.run("p", registry=registry)
    hint = caught.value.diagnostic.hint
    assert hint.startswith("did you mean name? it takes name (text)")


def test_a_run_uses_what_was_linked() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def once() -> str:
        registry.tools.remove("once")
        return "done"

    text = "pipeline: p\nsteps:\n  - tool: {name: once, output: a}\n  - tool: {name: once, output: b}\n"
    agf.define(text, registry=registry)
    assert agf.run("p", registry=registry).stores == {"a": "done", "b": "done"}
    with pytest.raises(agf.DefinitionError, match=r"no tool 'once'"):
        agf.run("p", registry=registry)


def test_a_circle_of_calls_is_named() -> None:
    registry = agf.Registry()
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        agf.define(f"pipeline: {name}\nsteps:\n  - call: {{pipeline: {other}}}\n", registry=registry)
    with pytest.raises(agf.DefinitionError, match="'a' calls itself: a → b → c → a"):
        prepare_run("a", None, RunOptions(registry=registry))


def test_a_tools_name_may_be_a_flow_in_a_plan_and_never_in_a_pipeline() -> None:
    registry = agf.Registry()
    agf.define("pipeline: double\nsteps:\n  - transform: {value: ctx.n * 2}\n", registry=registry)
    agf.define("name: q\ncalls: [{_tool: double, n: 4, _outputPath: †state.x}]\noutput: †state.x\n", registry=registry)
    assert agf.run("q", registry=registry).output == 8
    defined = agf.define("pipeline: p\nsteps:\n  - tool: {name: double, args: {n: 4}}\n", registry=registry)
    assert defined is not None
    with pytest.raises(agf.DefinitionError) as caught:
        agf.run("p", registry=registry)
    assert (caught.value.code, caught.value.diagnostic.hint) == (
        "flow.unknown-tool",
        "'double' is a pipeline: call: {pipeline: double}",
    )
    agf.tool(lambda n: 3 * n, name="double", registry=registry)  # a tool goes before a flow with its name
    assert agf.run("p", registry=registry).output == 12


def test_a_tool_that_is_not_registered_is_never_said_to_be_nearly_a_flow() -> None:
    registry = agf.Registry()
    agf.define("pipeline: double\nsteps:\n  - transform: {value: ctx.n * 2}\n", registry=registry)
    with pytest.raises(agf.DefinitionError) as caught:
        agf.run("pipeline: p\nsteps:\n  - tool: {name: doubel, args: {n: 4}}\n", registry=registry)
    assert "double" not in str(caught.value.diagnostic.hint)


def test_a_schema_of_another_cell_is_found_and_the_documents_own_comes_first() -> None:
    registry = agf.Registry()
    assert agf.define("schema: R\nfields: {n: {type: number}}\n", registry=registry) is None

    @agf.tool(registry=registry)
    def give() -> dict[str, str]:
        return {"n": "one"}

    with pytest.raises(agf.StepError, match="does not conform to 'R'"):
        agf.run("pipeline: p\nsteps:\n  - tool: {name: give, schema: R}\n", registry=registry)
    with_own_schema = (
        "schema: R\nfields: {n: {type: string}}\n---\npipeline: p\nsteps:\n  - tool: {name: give, schema: R}\n"
    )
    assert agf.run(with_own_schema, registry=registry).output == {"n": "one"}


def test_a_schema_that_closes_a_circle_over_two_cells_is_refused_when_it_is_registered() -> None:
    registry = agf.Registry()
    agf.define("schema: a\nfields: {b: {type: ref, schema: b}}", registry=registry)
    with pytest.raises(agf.DefinitionError) as caught:
        agf.define("schema: b\nfields: {a: {type: ref, schema: a}}", registry=registry)
    assert [(d.code, d.span and d.span.text) for d in caught.value.diagnostics] == [("schema.cycle", "a")]
    assert list(registry.schemas) == ["a"]


def test_a_ref_to_a_schema_that_no_cell_declares_is_found_when_defined_and_refuses_the_run() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def use() -> dict[str, list[int]]:
        return {"q": [1]}

    text = """
schema: R
fields: {q: {type: list, of: {type: ref, schema: Qu}}}
---
pipeline: p
steps:
- tool: {name: use, schema: R}
"""
    agf.define(text, registry=registry)
    with pytest.raises(agf.DefinitionError) as refused:
        agf.define(text, registry=registry, strict=True)
    with pytest.raises(agf.DefinitionError) as caught:
        agf.run("p", registry=registry)
    for error in (refused.value, caught.value):
        assert [(d.code, d.span and d.span.text) for d in error.diagnostics] == [("flow.unknown-schema", "Qu")]
    agf.define("schema: Qu\nfields: {ok: {type: bool}}", registry=registry)
    with pytest.raises(agf.StepError):
        agf.run("p", registry=registry)


def test_a_circle_of_schemas_that_a_run_does_not_use_does_not_concern_it() -> None:
    registry = agf.Registry()
    for name, other in (("a", "b"), ("b", "a")):
        registry.schemas.define(Schema(name, {other: Field(kind="ref", schema=other)}), None)
    agf.agent(lambda prompt: "", name="writer", registry=registry)
    text = "pipeline: p\nsteps:\n- agent: {{prompt: x, schema: {schema}}}\n"
    schemas = "schema: R\nfields: {ok: {type: bool}}\n---\n"
    assert agf.run(schemas + text.format(schema="R"), registry=registry, dry=True).output == {"ok": True}
    with pytest.raises(agf.DefinitionError, match="schemas refer to each other: a → b → a"):
        agf.run(text.format(schema="a"), registry=registry, dry=True)


@pytest.mark.parametrize(
    ("name", "registered"), [("run_pipeline", True), ("run_pipeline", False), ("pipeline__add", False)]
)
def test_a_step_cannot_launch_a_pipeline(name: str, registered: bool) -> None:
    registry = agf.Registry()
    agf.define("pipeline: add\nsteps: [{transform: {value: '1'}}]", registry=registry)
    if registered:
        agf.tool(lambda name: name, name=name, registry=registry)
    with pytest.raises(agf.DefinitionError, match="a step cannot launch a pipeline") as caught:
        agf.run(f"pipeline: p\nsteps:\n  - tool: {{name: {name}, args: {{name: p}}}}\n", registry=registry)
    assert [d.code for d in caught.value.diagnostics] == ["flow.launch"]


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("pipeline: p\nsteps:\n- tool: {name: use, args: {token: abc, path: !expr ctx.p}}\n", "token"),
        ("pipeline: p\nsteps:\n- tool: {name: use, args: {token: !expr \"'a' + 'bc'\"}}\n", "token"),
        ("pipeline: p\nsteps:\n- tool: {name: use, args: {token: !expr ctx.token, path: abc}}\n", None),
        ("- {_tool: use, token: [abc], _outputPath: †state.x}\n", "token"),
        ("- {_tool: use, token: †input.token || 'abc', _outputPath: †state.x}\n", None),
        ("- {_tool: use, token: null, _outputPath: †state.x}\n", None),
        ("pipeline: p\nsteps:\n- tool: {name: use, args: {token: ''}}\n", None),
        ("name: g\nstate: {t: str}\nnodes:\n  a: {type: tool, tool: use, variables: {token: ''}}\n"
         "edges: [{from: START, to: a}, {from: a, to: END}]\n", None),
        ("name: g\nstate: {t: str}\nnodes:\n  a: {type: tool, tool: use, variables: {token: abc}}\n"
         "edges: [{from: START, to: a}, {from: a, to: END}]\n", "token"),
        ("name: g\nstate: {t: str}\nnodes:\n  a: {type: tool, tool: use, variables: {token: '{state.t}'}}\n"
         "edges: [{from: START, to: a}, {from: a, to: END}]\n", None),
    ],
)  # fmt: skip
def test_a_secret_that_is_written_out_is_warned_about_at_its_name(text: str, marked: str | None) -> None:
    registry = agf.Registry()
    agf.tool(lambda token, path="": path, name="use", registry=registry, secret=["token"])
    marks = [
        d
        for d in check_definition(Source("test", text), detect_language(text), strict=False, registry=registry).problems
        if "secret" in d.code
    ]
    assert [(d.code, d.severity, d.span and d.span.text) for d in marks] == (
        [("flow.literal-secret", "warning", marked)] if marked else []
    )
    assert "abc" not in "".join(d.message + str(d.hint) for d in marks)


def test_a_name_in_a_prompt_is_warned_about_only_if_the_input_does_not_have_it() -> None:
    registry = agf.Registry()
    agf.agent(lambda prompt: prompt, name="writer", registry=registry)
    text = "pipeline: p\nsteps:\n- agent: {prompt: 'Dear {name}, dear {nmae}'}\n"
    assert [finding[2] for finding in findings(text, registry)] == ["name", "nmae"]
    run = agf.start("p", {"name": "Ann"}, registry=registry)
    assert run.wait().output == "Dear Ann, dear {nmae}"
    assert [(d.code, d.span and d.span.text, d.hint) for d in run.warnings] == [
        ("pipeline.template-name", "nmae", "did you mean name?")
    ]


def test_a_call_that_passes_too_little_says_what_to_pass() -> None:
    registry = agf.Registry()
    register("pipeline: q\nsteps:\n- transform: {value: first + second}\n", registry=registry)
    for passed, hint in (("[first]", "pass: [first, second]"), ("[first, secnd]", "did you mean second?")):
        text = f"pipeline: p\nsteps:\n- call: {{pipeline: q, pass: {passed}}}\n"
        (problem,) = (d for d in register(text, registry=registry).problems if d.code == "flow.not-passed")
        assert problem.hint == hint


# --- a flow is linked again only if the registry has changed ---

CALLS = """
pipeline: outer
steps:
  - call: {pipeline: inner}
"""
INNER = """
pipeline: inner
steps:
  - tool: {name: price}
"""


def registry_with(price: int) -> agf.Registry:
    registry = agf.Registry()
    agf.tool(lambda: price, name="price", registry=registry)
    agf.define(INNER, registry=registry)
    return registry


def test_a_flow_that_is_run_again_is_not_linked_again() -> None:
    registry = registry_with(3)
    flow = agf.load(CALLS, registry=registry)
    linked, _ = link_flow(flow, registry)
    assert link_flow(flow, registry)[0] is linked
    other = registry_with(4)
    assert agf.run(flow, registry=other).output == 4
    assert agf.run(flow, registry=registry).output == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda registry: agf.tool(lambda: 5, name="price", registry=registry),
        lambda registry: agf.define(INNER.replace("name: price", "name: cheap"), registry=registry),
        lambda registry: agf.define("pipeline: inner\nsteps:\n  - transform: {value: '5'}", registry=registry),
    ],
)
def test_a_run_after_a_change_of_the_registry_has_the_change(change: Callable[[agf.Registry], object]) -> None:
    registry = registry_with(3)
    agf.tool(lambda: 5, name="cheap", registry=registry)
    flow = agf.load(CALLS, registry=registry)
    assert [agf.run(flow, registry=registry).output for _ in range(2)] == [3, 3]
    change(registry)
    assert agf.run(flow, registry=registry).output == 5


def test_a_tool_that_is_removed_is_missing_in_the_next_run() -> None:
    registry = registry_with(3)
    flow = agf.load(CALLS, registry=registry)
    agf.run(flow, registry=registry)
    registry.tools.remove("price")
    with pytest.raises(agf.DefinitionError, match="no tool 'price'"):
        agf.run(flow, registry=registry)


def test_another_default_agent_answers_the_next_run() -> None:
    registry = agf.Registry()
    agf.agent(lambda prompt: "one", name="one", registry=registry)
    flow = agf.load("pipeline: p\nsteps:\n  - agent: {prompt: hello}", registry=registry)
    assert agf.run(flow, registry=registry).output == "one"
    agf.agent(lambda prompt: "two", name="two", default=True, registry=registry)
    assert agf.run(flow, registry=registry).output == "two"


def test_a_session_is_linked_for_each_run_because_settings_choose_its_model() -> None:
    registry = agf.Registry()
    registry.choose("openai:gpt-4o")
    flow = agf.load("pipeline: p\nsteps:\n  - agent: {prompt: hello}", registry=registry)
    assert link_flow(flow, registry)[0] is not link_flow(flow, registry)[0]


def test_a_flow_with_a_warning_is_linked_for_each_run_so_that_each_run_has_the_warning() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def price(fruit: OfALaterCell = None) -> int:  # type: ignore[name-defined] # noqa: F821
        return 3

    flow = agf.load(INNER, registry=registry)
    for _ in range(2):
        assert [warning.severity for warning in link_flow(flow, registry)[1]] == ["warning"]
        assert len(agf.run(flow, registry=registry).warnings) == 1


def calling_graph(callee: str) -> str:
    edges = "edges: [{from: START, to: n}, {from: n, to: END}]"
    return f"state: {{x: str}}\nnodes: {{n: {{type: subgraph, graph: {callee}, mode: direct}}}}\n{edges}\n"


def calling_pipeline(callee: str) -> str:
    return f"pipeline: NAME\nsteps:\n- call: {{pipeline: {callee}}}\n"


CIRCLES: dict[str, tuple[list[tuple[str, str]], str]] = {
    "a graph named on its line": ([("a", calling_graph("a"))], "'a' calls itself: a → a"),
    "two graphs": ([("a", calling_graph("b")), ("b", calling_graph("a"))], "'b' calls itself: b → a → b"),
    "two pipelines": ([("a", calling_pipeline("b")), ("b", calling_pipeline("a"))], "'b' calls itself: b → a → b"),
    "three pipelines": (
        [("a", calling_pipeline("b")), ("b", calling_pipeline("c")), ("c", calling_pipeline("a"))],
        "'c' calls itself: c → a → b → c",
    ),
    "a graph and a pipeline": (
        [("a", calling_graph("b")), ("b", calling_pipeline("a"))],
        "'b' calls itself: b → a → b",
    ),
}


@pytest.mark.parametrize("case", CIRCLES)
def test_a_circle_of_calls_is_told_when_its_last_flow_is_defined(case: str) -> None:
    texts, message = CIRCLES[case]
    registry = agf.Registry()
    for name, text in texts:
        source = Source("test", text.replace("NAME", name))
        language = detect_language(source.text)
        problems = register(source, language, name=name, registry=registry).problems
        codes = {problem.code for problem in problems}
        if name != texts[-1][0]:
            assert codes == {"flow.unknown-flow"}
    (circle,) = [problem for problem in problems if problem.code.startswith("flow.")]
    assert (circle.code, circle.message, circle.severity) == ("flow.call-cycle", message, "warning")
    assert circle.span is not None
    assert circle.span.text == texts[-1][0]
