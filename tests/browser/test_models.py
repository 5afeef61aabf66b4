"""A model's reply while it arrives, as it is seen in JupyterLab."""

from __future__ import annotations

import os

import pytest

from tests.browser.harness import Lab, Open

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
    yield " seven euros."

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
    with (lab.folder / "end").open("w") as fifo:
        fifo.write("on")
    page.finished()
    page.open_step(1, "agent What do figs cost?").locator("text=A kilo of figs costs seven euros.").first.wait_for()
    page.picture("a reply that has arrived", 1)
