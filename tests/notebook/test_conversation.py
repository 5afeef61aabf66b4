"""The part of the conversations with models that a cell saves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import agf_magics as agf
from agf_magics.catalog import Registry
from agf_magics.notebook.display.conversation import MOST_SAVED, conversations_html
from agf_magics.notebook.explorer.calls import CALL_REQUESTS
from agf_magics.notebook.explorer.requests import requests_of, session_of
from agf_magics.pictures.pages.run_page import run_html
from agf_magics.pictures.values import BLOCK
from agf_magics.settings.settings import current

ASKS = """\
pipeline: prices
steps:
- title: Price the figs
  agent: {prompt: "What do {ctx.fruit} cost?", capabilities: {tools: [price]}, output: reply}
"""


def registry_of(size: int) -> Registry:
    registry = Registry()

    @agf.tool(registry=registry)
    def price(fruit: str) -> str:
        return "<b>4</b>" + "x" * size

    def talk(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse([ToolCallPart("price", {"fruit": "figs"})])
        return ModelResponse([TextPart("They cost\n\n**four**.")])

    registry.choose(FunctionModel(talk))
    return registry


def run_asking(tmp_path: Path, size: int = 0, steps: str = ASKS) -> agf.Run:
    current.settings = replace(current.settings, journal=str(tmp_path / "runs.sqlite"))
    return agf.run(steps, {"fruit": "figs"}, registry=registry_of(size))


def test_the_saved_page_has_the_prompt_the_call_its_result_and_the_reply(tmp_path: Path) -> None:
    page = conversations_html(run_asking(tmp_path))
    assert page.count("<details>") >= 1
    for part in ("Price the figs", "What do figs cost?", "⚙ price", "&lt;b&gt;4&lt;/b&gt;", "<strong>four</strong>"):
        assert part in page, part
    assert "<b>4" not in page
    assert f'<pre style="{BLOCK}">What do figs cost?</pre>' in page  # JupyterLab's own rule breaks inside words


def test_what_a_model_answered_is_markdown_in_the_output_the_stores_and_each_moment(tmp_path: Path) -> None:
    run = run_asking(tmp_path)
    for view in (run, agf.runs(run.run_id)):
        assert run_html(view).count("<strong>four</strong>") == 2  # the output and the store
        requests = requests_of(view)
        (step,) = {session_of(view, row) for row in view.progress.rows.values() if session_of(view, row)}
        answers = [
            requests["run"]({})["output"], requests["store"]({"number": 1}), requests["step"]({"step": step})["output"],
            *(row[1] for row in map(tuple, requests["moment"]({"at": 1, "since": 0})["values"]) if row[0] == "reply"),
        ]  # fmt: skip
        assert len(answers) == 4
        assert all(answer.get("markdown") and answer["text"] == "They cost\n\n**four**." for answer in answers)
        assert "markdown" not in requests["store"]({"number": 0})  # the text of a person
        assert json.loads(requests["text"]({})["text"]) == "They cost\n\n**four**."


def test_a_run_without_a_model_or_without_a_journal_has_no_conversation(tmp_path: Path) -> None:
    assert conversations_html(run_asking(tmp_path, steps='{pipeline: p, steps: [{transform: {value: "1"}}]}')) == ""
    current.settings = replace(current.settings, journal="")
    run = agf.run(ASKS, {"fruit": "figs"}, registry=registry_of(0))
    assert conversations_html(run) == ""


def test_long_conversations_are_named_with_their_place(tmp_path: Path) -> None:
    steps = "pipeline: many\nsteps:\n" + "".join(
        f'- agent: {{prompt: "{"word " * 1_500} {{ctx.fruit}} {n}?", output: r{n}}}\n' for n in range(12)
    )
    page = conversations_html(run_asking(tmp_path, steps=steps))
    assert len(page) < MOST_SAVED + 500
    assert "more conversations" in page


EACH = """\
pipeline: prices
steps:
- for_each:
    over: ctx.fruits
    on_error: abort
    do: {agent: {prompt: "What do {item} cost?", capabilities: {tools: [price]}}}
    collect: {transform: {value: pipe}}
"""


def test_the_calls_of_agents_in_a_fan_out_are_in_the_order_of_the_elements_and_turns(tmp_path: Path) -> None:
    current.settings = replace(current.settings, journal=str(tmp_path / "runs.sqlite"))
    run = agf.run(EACH, {"fruits": [f"fruit {number}" for number in range(12)]}, registry=registry_of(0))
    turns = ("request 1", "price", "request 2")
    in_order = [f"#{number} · {turn}" for number in range(12) for turn in turns]
    for shown in (run, agf.runs(run.run_id)):
        for step, order in (("steps[0].do", "element"), ("steps[0].do", None), ("steps[0]", "element")):
            page = CALL_REQUESTS["calls"](shown, {"step": step, "order": order})
            assert [row["at"].removeprefix("each of fruits ") for row in page["rows"]] == in_order, (step, order)
