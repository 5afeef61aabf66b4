"""A run at the size of its work: the room of its parts, and what a person does with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.harness import Notebook, Open

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
%config AgfMagics.journal = "whole.sqlite"
import time
import agf_magics as agf
from agf_magics import tool

@tool
def part(n: int) -> int:
    "Halves nothing.\\n\\nReturns `n` as it is, after a while."
    time.sleep(0.004)
    return n"""


def chain(name: str, count: int, *more: str) -> str:
    steps = [f"- tool: {{name: part, args: {{n: {n}}}, output: value_{n}}}" for n in range(count)]
    return "\n".join(["%%pipeline --run", f"pipeline: {name}", "steps:", *steps, *more])


def box(part: Locator) -> tuple[float, float, float, float]:
    """Left, top, right, bottom."""
    found = part.bounding_box()
    assert found is not None
    return found["x"], found["y"], found["x"] + found["width"], found["y"] + found["height"]


def drag(page: Notebook, part: Locator, dx: float, dy: float) -> None:
    part.scroll_into_view_if_needed()
    left, top, right, bottom = box(part)
    x, y = (left + right) / 2, (top + bottom) / 2
    page.page.mouse.move(x, y)
    page.page.mouse.down()
    page.page.mouse.move(x + dx, y + dy, steps=4)
    page.page.mouse.up()


def test_the_border_of_the_panel_and_the_lower_border_move(opened: Open) -> None:
    page = opened(SETUP, chain("rooms", 30))
    page.run_all()
    explorer, main, panel = page.explorer(1), page.explorer(1).locator(".main"), page.explorer(1).locator(".panel")
    divider, lower = explorer.locator("[aria-label='Size of the details']"), explorer.locator("[aria-label=Height]")
    page.open_view(1, "Steps")
    before = box(main)
    assert abs(before[2] - box(panel)[0]) <= 2
    drag(page, divider, -120, 0)
    assert before[2] - 122 <= box(main)[2] <= before[2] - 118
    assert abs(box(main)[2] - box(panel)[0]) <= 2
    states = explorer.locator(".row .took").all()
    assert all(box(row)[2] <= box(main)[2] for row in states[:5])  # nothing is cut by the border
    divider.focus()
    page.press("ArrowRight", "ArrowRight")
    assert before[2] - 74 <= box(main)[2] <= before[2] - 70
    height = box(explorer)[3] - box(explorer)[1]
    drag(page, lower, 0, 150)
    assert height + 140 <= box(explorer)[3] - box(explorer)[1] <= height + 160
    assert explorer.locator(".row").count() > 20
    page.picture("whole-borders", 1)
    explorer.locator("button[aria-label^='Fill']").wait_for(state="detached")
    page.open_view(1, "Picture")
    explorer.locator("g.box").first.wait_for()
    explorer.locator("button[title^='Fill']").click()
    page.wait("document.fullscreenElement !== null")
    assert box(explorer.locator(".picture"))[3] <= page.page.viewport_size["height"]  # type: ignore[index]
    page.picture("whole-screen")
    page.page.evaluate("document.exitFullscreen()")
    assert not page.errors


def test_a_wide_picture_has_the_width_and_the_panel_is_below_it(opened: Open) -> None:
    wide = "%%pipeline --run\npipeline: wide\nsteps:\n" + chain("", 6).split("steps:\n")[1]
    page = opened(SETUP, wide, "agf.registry.flows['wide']")
    page.run(0)
    page.run(1)
    page.open_view(1, "Picture")
    explorer = page.explorer(1)
    explorer.locator("g.box").first.wait_for()
    explorer.locator("button[title^=Direction]").click()
    explorer.locator("button[title^=Direction]").click()
    page.wait("[...document.querySelectorAll('.agf-run')].some(host => host.explorer?.isBelow)")
    main, panel = box(explorer.locator(".main")), box(explorer.locator(".panel"))
    assert panel[1] >= main[3] - 2
    assert abs(main[2] - panel[2]) <= 2
    boxes = [box(one) for one in explorer.locator("g.box").all()]
    assert all(main[0] <= one[0] and one[2] <= main[2] and one[3] <= main[3] for one in boxes)
    divider = explorer.locator("[aria-label='Size of the details']")
    drag(page, divider, 0, 100)
    assert main[3] + 95 <= box(explorer.locator(".main"))[3] <= main[3] + 105
    page.picture("whole-wide", 1)
