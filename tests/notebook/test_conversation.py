"""The part of the conversations with models that a cell saves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import agf_magics as agf
from agf_magics.catalog import Registry
from agf_magics.notebook.display.conversation import MOST_SAVED, conversations_html
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
