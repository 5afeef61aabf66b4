"""The page of a run appears at the output of its cell, whatever the front end does with updates of outputs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.notebook.conftest import Cell, Kernel, headless, kernel, kernels, page_kernel  # noqa: F401

TOOLS = """
import agf_magics as agf, ipywidgets
from IPython.display import clear_output, display

@tool
def double(x: int) -> int:
    return 2 * x

@tool
def train(x: int, wait: bool = True) -> int:
    for epoch in range(3):
        clear_output(wait=wait)
        print("epoch", epoch)
    return x

@tool
def clears_and_fails(x: int) -> int:
    clear_output()
    raise ValueError("no pears")

@tool
def clears_another(x: int) -> int:
    other = ipywidgets.Output()
    other.clear_output()
    return x

def define(name, tool):
    agf.define("{pipeline: %s, steps: [{tool: {name: %s, args: {x: !expr ctx.x}}}]}" % (name, tool))

define("quick", "double")
define("trained", "train")
define("fails", "clears_and_fails")
define("other", "clears_another")
NODES = "{a: {type: python, tool: train, state_key: r}}"
GRAPH = "{state: {x: int, r: any}, nodes: %s, edges: [{from: START, to: a}]}" % NODES
agf.define(GRAPH, "graph", name="graph")
"""


@pytest.fixture
def ready(kernel: Kernel) -> Kernel:  # noqa: F811
    kernel.good(TOOLS)
    return kernel


class Screen:
    """A simulated front end that may ignore updates, and that clears outputs."""

    def __init__(self, cell: Cell, updates: bool) -> None:
        shown: list[tuple[str | None, str]] = []
        pending = False
        for message in cell.messages:
            kind, content = message["msg_type"], message["content"]
            id = content.get("transient", {}).get("display_id")
            if kind == "clear_output":
                pending = bool(content["wait"])
                shown = shown if pending else []
            if kind in ("display_data", "execute_result", "stream"):
                shown = [] if pending else shown
                pending = False
                text = content["text"] if kind == "stream" else content["data"].get("text/plain", "")
                shown.append((id, text))
            if kind == "update_display_data" and updates:
                shown = [(known, content["data"]["text/plain"] if known == id else text) for known, text in shown]
        self.outputs = [text for _, text in shown if text]
        self.text = "\n".join(self.outputs)


FRONTS = {"notebook": True, "nbclient": True, "console": False}
"""The front ends, with whether they replace outputs."""


@pytest.mark.kernel
@pytest.mark.parametrize("after", ["0", "30"])
@pytest.mark.parametrize("front", FRONTS)
def test_the_result_is_seen_in_every_front_end_and_once(front: str, after: str, ready: Kernel) -> None:
    ready.good(f"%config AgfMagics.progress_after = {after}")
    screen = Screen(ready.run("r = %run_pipeline quick --set x=21", front), FRONTS[front])
    assert screen.text.count("✓ ok · 1 of 1 step") == 1
    assert screen.text.count("output:\n  42") == 1
    if not FRONTS[front]:  # the first output says what it is, and the page is a second output
        first, page = screen.outputs
        assert first.startswith("quick · ▶ running · quick-")
        assert "output:\n  42" in page
    else:
        assert len(screen.outputs) == 1


@pytest.mark.kernel
@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("flow", ["trained", "graph"])
def test_a_tool_that_clears_the_output_leaves_the_page_of_its_run(flow: str, front: str, ready: Kernel) -> None:
    for options in ("--set x=7", "--set x=7 --draw"):
        screen = Screen(ready.run(f"r = %run_pipeline {flow} {options}", front), FRONTS[front])
        assert screen.text.count("✓ ok") >= 1
        assert "epoch 2" in screen.text
        assert screen.text.count("1 of 1 step") == 1


@pytest.mark.kernel
@pytest.mark.parametrize("front", FRONTS)
def test_a_background_run_that_clears_and_fails_shows_its_failure(front: str, ready: Kernel) -> None:
    cell = ready.begin("h = %run_pipeline_async fails --set x=1", front)
    while "no pears" not in Screen(cell, FRONTS[front]).text:
        message = ready.next()
        if message["parent_header"].get("msg_id") == cell.id:
            cell.messages.append(message)
    assert "✗" in Screen(cell, FRONTS[front]).text
    ready.reply(cell.id)
    ready.good("import agf_magics")


@pytest.mark.kernel
def test_clearing_another_output_changes_nothing_here(ready: Kernel) -> None:
    cell = ready.good("r = %run_pipeline other --set x=1")
    assert len([content for content in cell.of("display_data") if content["data"].get("text/plain")]) == 1


def inside(cell: Cell) -> list[dict[str, Any]]:
    """What an `Output` widget receives: the displays while it has the id of the cell. It ignores updates."""
    caught, active = [], False
    for message in cell.messages:
        kind, content = message["msg_type"], message["content"]
        state = content.get("data", {}).get("state", {}) if kind == "comm_msg" else {}
        if "msg_id" in state:
            active = state["msg_id"] == cell.id
        if kind == "display_data" and active:
            caught.append(content["data"])
    return caught


IN_AN_OUTPUT = {
    "%run_pipeline": "r = %run_pipeline quick --set x=21",
    "--draw": "r = %run_pipeline quick --set x=21 --draw",
    "%%pipeline": "get_ipython().run_cell_magic('pipeline', '--run --set x=21', "
    "'{pipeline: c, steps: [{tool: {name: double, args: {x: !expr ctx.x}}}]}')",
    "clears": "r = %run_pipeline trained --set x=42",
    "background": "r = %run_pipeline_async quick --set x=21\n    r.wait()",
    "displayed": "r = agf.start('quick', {'x': 21})\n    display(r)\n    r.wait()",
}


@pytest.mark.kernel
@pytest.mark.parametrize("way", IN_AN_OUTPUT)
def test_a_run_in_an_output_widget_is_shown_in_it(way: str, ready: Kernel) -> None:
    cell = ready.good(f"out = ipywidgets.Output()\nwith out:\n    {IN_AN_OUTPUT[way]}")
    if way in ("background", "displayed"):
        ready.good("from agf_magics.notebook.display.watching import join_views\njoin_views(r)")
        cell.messages += [message for message in ready.strays if message["parent_header"].get("msg_id") == cell.id]
        ready.strays = [message for message in ready.strays if message["parent_header"].get("msg_id") != cell.id]
    pages = [page for page in inside(cell) if "1 of 1 step" in page.get("text/plain", "")]
    assert len(pages) == 1, inside(cell)
    assert "output:\n  42" in pages[0]["text/plain"]
    assert "<img" in pages[0]["text/html"] or way != "--draw"


@pytest.mark.kernel
def test_a_capture_keeps_the_page_and_no_empty_output(ready: Kernel) -> None:
    for cell in ("r = %run_pipeline quick --set x=21", "%run_pipeline quick --set x=21", "agf.run('quick', {'x': 21})"):
        ready.good(f"%%capture c\n{cell}")
        displayed = ready.good("c.show()").of("display_data")
        assert all(content["data"].get("text/plain") for content in displayed), displayed
        pages = [output for output in displayed if "output:\n  42" in output["data"]["text/plain"]]
        assert len(pages) == 1
