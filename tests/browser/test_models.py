"""A model's reply while it arrives, as it is seen in JupyterLab."""

from __future__ import annotations

import os

import pytest

from tests.browser.harness import EXPLORERS, Lab, Open

pytestmark = pytest.mark.browser

MODEL = """%load_ext agf_magics
import asyncio, os
import agf_magics as agf
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall, FunctionModel

@agf.tool
def price(fruit: str) -> float:
    "The price of a kilo."
    print("looks up", fruit)
    return 7.0

async def talk(messages, info):
    if len(messages) == 1:
        yield {0: DeltaThinkingPart(content="The user asks for a price.")}
        yield {1: DeltaToolCall(name="price", json_args='{"fruit": "fig"}', tool_call_id="c1")}
        return
    yield "A kilo of figs costs"
    with await asyncio.to_thread(open, "end") as fifo:
        fifo.read()
    yield " **seven** euros. ![a](http://127.0.0.1:9/stolen.png) <b onclick='window.hacked=1'>$5</b>"

agf.registry.choose(FunctionModel(stream_function=talk, model_name="figs"))"""
ASK = """%%pipeline --run
pipeline: ask
steps:
- agent: {prompt: "What do figs cost?", capabilities: {tools: [price]}, output: answer}"""


def test_a_reply_is_shown_while_it_arrives_with_the_prints_of_tools(opened: Open, lab: Lab) -> None:
    os.mkfifo(lab.folder / "end")
    page = opened(MODEL, ASK)
    page.run_all(wait=False)
    page.explorer(1).locator(".row", has_text="A kilo of figs costs").wait_for()
    page.open_step(1, "tool the model's choice").locator("text=looks up fig").wait_for()
    page.picture("a reply that arrives", 1)
    panel = page.open_step(1, "agent What do figs cost?")
    panel.locator(".said:has-text('arriving') >> text=A kilo of figs costs").wait_for()
    assert panel.locator(".said.model details").first.get_attribute("open") is None  # thinking is folded
    page.open_view(1, "Picture")
    tail, frame = page.explorer(1).locator("g.box .tail"), page.explorer(1).locator(".picture")
    page.wait(f"{EXPLORERS}.some(root => root.querySelector('.tail')?.textContent.includes('costs'))")
    text, room = tail.first.bounding_box(), frame.bounding_box()
    assert text is not None and room is not None and text["y"] + text["height"] <= room["y"] + room["height"]  # noqa: PT018
    page.picture("a reply that arrives in its box", 1)
    page.open_view(1, "Steps")
    with (lab.folder / "end").open("w") as fifo:
        fifo.write("on")
    page.finished()
    panel = page.open_step(1, "agent What do figs cost?")
    written = panel.locator(".markdown", has_text="A kilo of figs costs seven euros.").first
    written.locator("strong:text-is('seven')").wait_for()
    assert written.locator("img").count() == 0
    assert "$5" in written.inner_text()
    assert page.page.evaluate("window.hacked") is None
    panel.locator("summary:text-is('thinking')").click()
    panel.locator("text=The user asks for a price.").wait_for()
    page.picture("a reply that has arrived", 1)
