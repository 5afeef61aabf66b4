"""The first minute of a newcomer: the quickstart, in a window of 800 pixels' height."""

from __future__ import annotations

import nbformat
import pytest

from tests.browser import movie
from tests.browser.harness import Lab, Open

pytestmark = pytest.mark.browser

EDGES = """cell => {
  const bottom = node => node.getBoundingClientRect().bottom;
  const host = cell.querySelector(".agf-run").shadowRoot;
  const boxes = [...host.querySelectorAll(".picture g.box, .picture g.frame")].map(bottom);
  return [Math.max(...boxes), bottom(document.querySelector(".jp-NotebookPanel-notebook"))];
}"""


@pytest.mark.parametrize(("width", "has_sidebar"), [(1200, True), (800, False)])
def test_the_picture_of_the_first_run_is_whole_on_the_first_screen(
    opened: Open, lab: Lab, width: int, has_sidebar: bool
) -> None:
    name = f"first-{width}.ipynb"
    notebook = movie.played()
    nbformat.write(notebook, lab.folder / name)
    page = opened(file=name, width=width)
    page.page.set_viewport_size({"width": width, "height": 800})
    if not has_sidebar:
        page.command("application:toggle-left-area")
    function, run = (n for n, cell in enumerate(notebook.cells) if cell.cell_type == "code")
    page.run(function)
    page.run(run)
    page.explorer(run).locator("header >> text=failed").wait_for()
    page.explorer(run).locator(".picture g.box").first.wait_for()
    page.picture(f"first-minute-{width}")
    picture, screen = page.cell(run).evaluate(EDGES)
    assert picture < screen + 1  # a part of a pixel is not seen
