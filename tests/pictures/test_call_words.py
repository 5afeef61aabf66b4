"""The place of a call, in the words of the author of the flow."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

import agf_magics as agf
from agf_magics.flow.progress.rows import Key
from agf_magics.flow.step_path import StepPath
from agf_magics.pictures.call_words import call_words

AUDIT = """\
pipeline: audit
steps:
- for_each:
    over: ctx.repos
    on_error: abort
    do: {tool: {name: scan, args: {repo: !expr item}}}
    collect: {transform: {value: pipe}}
    output: lines
"""
AUDITS = """\
pipeline: audits
steps:
- for_each:
    over: ctx.orgs
    on_error: abort
    do: {call: {pipeline: audit, pass: [repos]}}
    collect: {transform: {value: pipe}}
    output: all_audits
- agent: {prompt: hello, capabilities: {tools: [scan]}, output: told}
- tool: {name: scan, args: {repo: a}}
"""
BODY = "steps[0].do"


@pytest.mark.parametrize(
    ("path", "within", "call", "words"),
    [
        ((BODY, 0, BODY, 3), (), ("tool", "scan"), "all_audits #0 · lines #3"),
        ((BODY, 0, BODY, 3), ("steps[0]",), ("tool", "scan"), "all_audits #0 · lines #3"),
        ((BODY, 0, BODY, 3), (BODY, BODY), ("tool", "scan"), "#0 · #3"),
        (("steps[1]", "session.ask", 1), (), ("model", "m"), "told · request 2"),
        (("steps[1]", "session.ask", 1), ("steps[1]",), ("model", "m"), "request 2"),
        (("steps[1]", "session.then.tools.call", 0, 0), ("steps[1]",), ("tool", "scan"), "scan"),
        (("steps[2]",), (), ("tool", "scan"), "scan"),
        (("steps[2]",), ("steps[2]",), ("tool", "scan"), ""),
        (("elsewhere", 4), (), ("tool", "scan"), "#4"),
    ],
    ids=[
        "in an inner fan-out",
        "in an inner fan-out, below the row of the outer one",
        "in an inner fan-out, below its own row",
        "the second request",
        "the second request, below its agent",
        "a tool that the model called, below its agent",
        "a step of the flow",
        "a step of the flow, below itself",
        "an element of a step without a row",
    ],
)
def test_a_call_has_the_words_of_its_author(path: StepPath, within: Key, call: tuple[str, str], words: str) -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def scan(repo: str) -> str:
        "A scan."
        return repo

    registry.choose(FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart("hello")])))
    agf.define(AUDIT, registry=registry)
    agf.define(AUDITS, registry=registry)
    run = agf.run("audits", {"orgs": [], "repos": []}, registry=registry)
    assert call_words(run.progress.rows, path, within=within, call=call) == words


EACH = """\
pipeline: {name}
steps:
- for_each:
    over: {over}
    on_error: abort
    do: {do}
    collect: {{transform: {{value: pipe}}}}
    output: parts
"""
DIVIDE = "{transform: {value: 8 / item.n}}"
NESTED = f"{{for_each: {{over: item, on_error: abort, do: {DIVIDE}, collect: {{transform: {{value: pipe}}}}}}}}"
ASK = """\
pipeline: ask
steps:
- agent: {prompt: "Name one.", output: told}
"""
POLICY = """\
execution_policy: {id: agf.react, config: {model: "openai:gpt-4o", instructions: Help.}}
"""
PLACES = {
    "a request of a policy": (POLICY, "in step 'openai:gpt-4o' (react, request 1)"),
    "an expression of an element": (
        EACH.format(name="p", over="ctx.rows", do=DIVIDE),
        "in step 'parts' (steps[0].do, element 1: n: 0)",
    ),
    "a call of an element": (
        EACH.format(name="p", over="ctx.rows", do="{tool: {name: broken, args: {of: !expr item}}}"),
        "in step 'broken' (steps[0].do, element 1: n: 0)",
    ),
    "a called flow": (
        "{pipeline: outer, steps: [{call: {pipeline: inner, pass: [rows]}}]}",
        "in step 'parts' of 'inner' (steps[0]/steps[0].do, element 1: n: 0)",
    ),
    "an element of an element": (
        EACH.format(name="p", over="ctx.tables", do=NESTED),
        "in step 'each of item' (steps[0].do.do, element 0, element 1: n: 0)",
    ),
    "a request of an agent": (ASK, "in step 'told' (steps[0], request 1)"),
    "a step that runs once": ("{pipeline: p, steps: [{tool: {name: broken, args: {of: !expr ctx.rows}}}]}", ""),
}


@pytest.mark.parametrize("what", PLACES)
def test_an_error_names_its_step_and_its_element(what: str, journaled: Path) -> None:
    text, place = PLACES[what]
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def broken(of: object) -> None:
        if of != {"n": 4}:
            raise ValueError("no")

    def talk(messages: object, info: object) -> ModelResponse:
        raise ValueError("no model")

    registry.choose(FunctionModel(talk))
    agf.define(EACH.format(name="inner", over="ctx.rows", do=DIVIDE), registry=registry)
    rows = [{"n": 4}, {"n": 0}]
    inputs = {"tables": [rows]} if "ctx.tables" in text else {"rows": rows} if "rows" in text else {}
    run = agf.run(text, inputs, registry=registry, raises=False)
    assert run.error is not None
    assert run.error.path_text == place
    assert str(run.error).endswith(place)
    past = agf.runs(run.run_id).error
    assert past is not None
    assert past.path_text == place.partition(": ")[0] + ")" * (": " in place)  # a journal has no element of a failure
    with pytest.raises(agf.StepError) as raised:
        agf.run(text, inputs, registry=registry)
    assert raised.value.path_text == place
