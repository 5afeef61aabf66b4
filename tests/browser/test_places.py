"""Runs at places whose outputs are not replaced: in an ipywidgets `Output`, and after `clear_output`."""

from __future__ import annotations

import pytest

from tests.browser.harness import Open

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
import time
import agf_magics as agf, ipywidgets
from IPython.display import clear_output
from agf_magics import tool

@tool
def train(x: int) -> int:
    for epoch in range(3):
        clear_output(wait=True)
        print("epoch", epoch)
        time.sleep(0.2)
    return x

@tool
def slow(x: int) -> int:
    time.sleep(1.5)
    return x

agf.define("{pipeline: trained, steps: [{tool: {name: train, args: {x: 42}}}]}")
agf.define("{pipeline: calm, steps: [{tool: {name: slow, args: {x: 42}}}]}")
out = ipywidgets.Output()"""


def test_a_run_in_an_output_widget_is_shown_in_it_live_and_at_its_end(opened: Open) -> None:
    page = opened(SETUP, "out", "with out:\n    r = %run_pipeline calm")
    page.run(0)
    page.run(1)
    page.run(2, wait=False)
    page.explorer(1).locator("text=running").first.wait_for()
    page.finished()
    page.says(1, "✓ ok", "42")
    assert page.output(1).locator(".explorer").count() == 1
    assert page.output(2).inner_text().strip() == ""
    page.picture("in-an-output-widget", 1)


def test_a_tool_that_clears_the_output_leaves_the_page_of_its_run(opened: Open) -> None:
    page = opened(SETUP, "r = %run_pipeline trained")
    page.run(0)
    page.run(1)
    page.says(1, "epoch 2", "✓ ok", "42")
    assert page.output(1).locator(".explorer").count() == 1
    page.picture("after-clear-output", 1)
