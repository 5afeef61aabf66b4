"""All languages together: each calls each, and limits, cancellation and progress pass through the calls."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.languages.ours import detect_language
from agf_magics.limits.budgets import LimitReached

VECTORS = Path(__file__).parents[1] / "vectors"
LANGUAGES = ("pipeline", "policy", "plan", "graph")
pairs = pytest.mark.parametrize(
    ("outer", "inner"), [(outer, inner) for outer in LANGUAGES for inner in LANGUAGES], ids=lambda name: str(name)
)

TEXTS = json.loads((VECTORS / "languages.json").read_text("utf-8"))["rows"]


@pytest.mark.parametrize("row", TEXTS, ids=lambda row: row["text"][:40])
def test_the_language_of_a_text_is_detected_by_its_lines(row: dict[str, str]) -> None:
    assert detect_language(row["text"]) == row["language"]


DOCUMENTS = {
    language: json.loads((VECTORS / f"{language}_documents.json").read_text("utf-8"))["rows"] for language in LANGUAGES
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_strict_turns_warnings_into_errors(language: str) -> None:
    warned = [row for row in DOCUMENTS[language] if "warnings" in row and "errors" not in row]
    assert warned
    for row in warned:
        with pytest.raises(agf.DefinitionError) as caught:
            agf.load(row["text"], language, registry=agf.Registry(), strict=True)
        assert {warning["code"] for warning in row["warnings"]} <= {
            diagnostic.code for diagnostic in caught.value.diagnostics
        }, row


# The inner flow takes n and gives {"twice": 2n}, by a call of something registered.
INNER: Mapping[str, str] = {
    "pipeline": """\
pipeline: inner
steps:
- tool: {name: double, args: {n: !expr ctx.n}, output: twice}
- transform: {value: "{twice: ctx.twice}"}
""",
    "policy": """\
id: agf.sequential
config: {steps: [{agent: doubler, input_mapping: {n: parent.input.n}}]}
""",
    "plan": """\
calls: [{_tool: double, n: †input.n, _outputPath: †state.twice}]
output: {twice: †state.twice}
""",
    "graph": """\
state: {n: int, twice: int}
nodes: {double: {type: tool, tool: double, variables: {n: "{state.n}"}, state_key: twice}}
edges: [{from: START, to: double}, {from: double, to: END}]
""",
}

# The outer flow, in each language's own way.
OUTER: Mapping[str, str] = {
    "pipeline": """\
pipeline: outer
steps:
- call: {pipeline: inner, pass: [n], output: got}
- transform: {value: got.twice}
""",
    "policy": """\
id: agf.sequential
config:
  steps:
  - {agent: inner, input_mapping: {n: parent.input.n}}
""",
    "plan": "calls: [{_tool: inner, n: †input.n, _outputPath: †state.got}]\noutput: †state.got.twice\n",
    "graph": """\
state: {n: int, twice: int}
nodes: {call: {type: subgraph, graph: inner, input_mapping: {n: n}, output_mapping: {twice: twice}}}
edges: [{from: START, to: call}, {from: call, to: END}]
""",
}

# The same for each element of a list, with the fan-out of each language.
EACH_INNER: Mapping[str, str] = {
    "pipeline": """\
pipeline: inner
steps:
- for_each:
    items: [1, 2]
    on_error: abort
    do: {tool: {name: double, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
    output: twice
- transform: {value: "{twice: ctx.twice}"}
""",
    "policy": 'id: agf.batch\nconfig: {agent: doubler, input_mapping: {n: "parent.input.ns.[]"}}\n',
    "plan": """\
instances: {a: {state: {n: 1}}, b: {state: {n: 2}}}
calls: [{_tool: double, n: †state.n, _outputPath: †state.twice}]
""",
    "graph": """\
state: {ns: list, twice: {type: list, reducer: add}}
variables: {ns: [1, 2]}
nodes:
  each: {type: map, over: "{state.ns}", as: n, collect: twice,
         node: {type: tool_call, tool: double, args: {n: "{state.n}"}}}
edges: [{from: START, to: each}, {from: each, to: END}]
""",
}
EACH_OUTER: Mapping[str, str] = {
    "pipeline": """\
pipeline: outer
steps:
- for_each:
    items: [1, 2]
    on_error: abort
    do: {call: {pipeline: inner, pass: [ns]}}
    collect: {transform: {value: pipe}}
    output: all
""",
    "policy": 'id: agf.batch\nconfig: {agent: inner, input_mapping: {ns: "parent.input.lists.[].ns"}}\n',
    "plan": """\
instances: {a: {state: {x: 1}}, b: {state: {x: 2}}}
calls: [{_tool: inner, ns: †input.ns, _outputPath: †state.got}]
""",
    "graph": """\
state: {lists: list, one: any, ns: list, got: {type: list, reducer: add}}
nodes:
  each: {type: map, over: "{state.lists}", as: one, collect: got,
         node: {type: subgraph, graph: inner, input_mapping: {ns: ns}, output_mapping: {twice: twice}}}
edges: [{from: START, to: each}, {from: each, to: END}]
""",
}
GIVEN = {"n": 21, "ns": [1, 2], "lists": [{"ns": [1, 2]}, {"ns": [1, 2]}]}


class Waiting:
    """A tool that never ends by itself, with whether it was begun and whether it was stopped."""

    def __init__(self) -> None:
        self.begun, self.stopped = threading.Event(), threading.Event()

    async def __call__(self, n: int) -> int:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()
        return n


def kernel(double: Any = None) -> agf.Registry:
    registry = agf.Registry()
    waits = double

    if waits is None:

        def doubled(n: int) -> int:
            return 2 * n

        agf.tool(doubled, name="double", registry=registry)

        @agf.agent(registry=registry)
        def doubler(n: int) -> dict[str, int]:
            return {"twice": 2 * n}
    else:

        async def endless(n: int) -> int:
            return int(await waits(n))

        agf.tool(endless, name="double", registry=registry)
        agf.agent(endless, name="doubler", registry=registry)
    return registry


def defined(registry: agf.Registry, inner: str, outer: str, in_fan_out: bool = False) -> agf.Flow:
    texts = (EACH_INNER, EACH_OUTER) if in_fan_out else (INNER, OUTER)
    agf.define(texts[0][inner], inner, name="inner", registry=registry)
    flow = agf.define(texts[1][outer], outer, name="outer", registry=registry)
    assert flow is not None
    return flow


def number(output: Any) -> int:
    """The number in an output, which is an object in some languages."""
    return int(output["twice"] if isinstance(output, dict) else output)


@pairs
def test_each_language_calls_each_and_its_steps_stand_under_the_call(outer: str, inner: str) -> None:
    registry = kernel()
    flow = defined(registry, inner, outer)
    run = agf.run(flow, {"n": 21}, registry=registry)
    assert number(run.output) == 42
    under = [row for row in run.steps.values() if len(row.key) > 1]
    assert under
    assert {(row.state, row.times) for row in run.steps.values()} == {("ok", 1)}
    assert {row.key[0] for row in under} <= {row.id for row in run.steps.values()}


@pairs
def test_the_depth_of_fan_outs_is_counted_through_every_call(outer: str, inner: str) -> None:
    registry = kernel()
    flow = defined(registry, inner, outer, in_fan_out=True)
    fine = agf.run(flow, GIVEN, registry=registry, limits=agf.Limits(fan_out_depth=2))
    assert fine.status == "ok"
    with pytest.raises(LimitReached) as raised:
        agf.run(flow, GIVEN, registry=registry, limits=agf.Limits(fan_out_depth=1))
    assert raised.value.code == "limit.fan-out-depth"


LIMITED = """\
state: {n: int}
variables: {n: 0}
nodes: {a: {type: passthrough, output: {n: "{state.n + 1}"}}, b: {type: passthrough}}
edges:
- {from: START, to: a}
- {from: a, to: a, condition: n < 100}
- {from: a, to: END, condition: else}
- {from: b, to: END}
loop_limits: {a: 3}
loop_exits: {a: b}
"""


def test_the_way_out_of_a_loop_that_reached_its_limit_is_a_part_of_the_path() -> None:
    outline = agf.draw(agf.run(LIMITED)).outline()
    assert "a → b  after 3 times  (4)" in outline


@pairs
def test_a_cancel_reaches_the_innermost_call(outer: str, inner: str) -> None:
    waiting = Waiting()
    registry = kernel(waiting)
    flow = defined(registry, inner, outer)
    run = agf.start(flow, {"n": 1}, registry=registry)
    assert waiting.begun.wait(60)
    run.cancel("enough")
    run.wait(60)
    assert run.status == "cancelled"
    assert waiting.stopped.wait(60)
    assert "cancelled" in {row.state for row in run.steps.values() if len(row.key) > 1}


@pairs
def test_a_failure_inside_is_reported_with_its_own_place(outer: str, inner: str) -> None:
    registry = kernel()

    def broken(n: int) -> int:
        raise ValueError("no pears")

    agf.tool(broken, name="double", registry=registry)
    agf.agent(broken, name="doubler", registry=registry)
    flow = defined(registry, inner, outer)
    with pytest.raises(agf.StepError) as raised:
        agf.run(flow, {"n": 1}, registry=registry)
    assert "no pears" in str(raised.value)
