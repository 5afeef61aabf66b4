"""The picture of the README: `python -m tests.browser.readme_picture` takes it again, in JupyterLab with a real kernel.

The README shows what a person sees: a definition, and its run in the explorer. The picture is 1,200 pixels wide.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.browser.harness import Lab, Notebook, chromium

TARGET = Path(__file__).parents[2] / "docs" / "_static" / "notebook.png"
WIDTH = 1200

SETUP = """%load_ext agf_magics
import asyncio
from agf_magics import tool

@tool
async def measure(word: str) -> int:
    "Count the letters of a word."
    await asyncio.sleep(0.02 * len(word))
    return len(word)"""

DEFINED = """%%pipeline --draw --run --set 'words=[pear, fig, plum]'
pipeline: longest
steps:
- for_each:
    over: ctx.words
    on_error: continue
    do: {tool: {name: measure, args: {word: !expr item}}}
    collect: {transform: {value: "filter(pipe, n -> n > 3)"}}
    output: lengths
- transform: {value: "count(ctx.lengths)", output: long}"""


def take(target: Path) -> None:
    """Write the picture to ``target``."""
    with tempfile.TemporaryDirectory() as folder, Lab(Path(folder) / "notebooks") as lab, chromium() as browser:
        lab.write("longest.ipynb", SETUP, DEFINED)
        page = Notebook(browser, lab, "longest.ipynb")
        page.page.set_viewport_size({"width": WIDTH, "height": 1100})
        page.run_all()
        explorer = page.explorer(1)
        explorer.locator(".picture g.box").first.wait_for()
        explorer.locator("header >> text=✓ ok").wait_for()
        explorer.locator(".picture g.box").nth(1).click()
        explorer.locator(".panel >> text=1–3 of 3").wait_for()
        page.page.locator(".jp-Notebook").evaluate("node => { node.scrollTop = 0 }")
        first, last = page.cell(0).bounding_box(), page.cell(1).bounding_box()
        assert first is not None
        assert last is not None
        bottom = min(1100.0, last["y"] + last["height"] + 12)
        page.page.screenshot(path=target, clip={"x": 0, "y": 0, "width": WIDTH, "height": bottom})


if __name__ == "__main__":
    take(Path(sys.argv[1]) if sys.argv[1:] else TARGET)
