"""axe-core finds no fault in an explorer: while it runs, after a failure, and in a page without a kernel.

axe-core is read from the package axe-playwright-python, which contains it as one file. No page of this package loads
it.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.browser.harness import Notebook, Open

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
import asyncio
from agf_magics import tool

released = False

@tool
async def half(n: int) -> float:
    "Half of a number, of 3 not."
    if n == 3:
        raise ValueError("3 is odd")
    while n > 3 and not released:
        await asyncio.sleep(0.01)
    return n / 2

@tool
def publish(halves: list) -> str:
    raise ConnectionError("503")
"""
FLOW = """%%pipeline
pipeline: halves
steps:
- for_each:
    items: [1, 2, 3, 4, 5]
    max_parallel: 2
    on_error: continue
    do: {tool: {name: half, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
    output: halves
- tool: {name: publish, args: {halves: !expr ctx.halves}, output: address}
"""
FOUND = """async () => {
  const { violations, passes } = await axe.run(".agf-run", { resultTypes: ["violations", "passes"] });
  const inside = passes.flatMap(({ nodes }) => nodes).filter(({ target }) => Array.isArray(target[0]));
  return { inside: inside.length, wrong: violations.map(({ id, nodes }) => [id, nodes[0].html.slice(0, 200)]) };
}"""
"""The violations that axe finds in the explorers of a page, and the number of elements in their shadow roots that it
has checked."""


def check(page: Notebook, state: str, is_explorer: bool = True) -> None:
    """Check the page in both themes."""
    for theme in ("Light", "Dark"):
        page.theme(theme)
        violations: dict[str, Any] = page.page.evaluate(FOUND)
        assert violations["wrong"] == [], (state, theme)
        # With fewer elements axe would not have looked into the shadow root of the explorer.
        assert not is_explorer or violations["inside"] > 20, (state, theme)


def test_axe_finds_nothing_in_an_explorer_that_runs_that_failed_and_that_is_saved(opened: Open) -> None:
    package = pytest.importorskip("axe_playwright_python")
    source = Path(import_module(package.__name__).__path__[0], "axe.min.js").read_text("utf-8")
    page = opened(SETUP, FLOW, "%run_pipeline_async halves", "released = True", "%runs")
    page.page.evaluate(source)
    for cell in (0, 1, 2):
        page.run(cell)
    page.says(2, "running")
    for view in ("Steps", "Picture", "Timeline"):
        page.open_view(2, view)
        check(page, f"running, {view}")
    page.open_view(2, "Steps")
    page.run(3)
    page.says(2, "503")
    page.run(4)
    page.says(4, "halves")
    for view in ("Steps", "Picture", "Timeline"):
        page.open_view(2, view)
        check(page, f"failed, {view}")
    page.save()
    page.command("notebook:shutdown-kernel")
    page.reload()  # now with a kernel that does not know the run
    page.page.evaluate(source)
    page.output(2).locator(".agf-run").wait_for()
    check(page, "saved", is_explorer=False)
