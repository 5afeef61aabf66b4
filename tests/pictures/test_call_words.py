"""The place of a call, in the words of the author of the flow."""

from __future__ import annotations

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
