"""A frame of the picture that is folded or unfolded stays below the pointer, and the picture keeps its layout. What a
click shows is in sight."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.harness import EXPLORERS, Notebook, Open

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
import agf_magics as agf

@agf.tool
def step(x: int, n: int) -> int:
    if n == 123:
        raise ValueError("the hundred and twenty-third")
    return x

steps = "".join(f"- tool: {{name: step, args: {{x: !expr ctx.x{n}, n: {n}}}, output: x{n + 1}}}\\n" for n in range(200))
agf.define("pipeline: two_hundred\\nsteps:\\n" + steps)"""

FRAMES = """%%pipeline --run --set 'words=[pear, fig]'
pipeline: frames
steps:
- tool: {name: step, args: {x: 1, n: 0}, output: one}
- tool: {name: step, args: {x: !expr ctx.one, n: 1}, output: two}
- parallel:
    branches:
      a: {tool: {name: step, args: {x: 1, n: 2}}}
      b: {tool: {name: step, args: {x: 1, n: 3}}}
      c: {tool: {name: step, args: {x: 1, n: 4}}}
      d: {tool: {name: step, args: {x: 1, n: 5}}}
    collect: {transform: {value: pipe}}
    output: all
- tool: {name: step, args: {x: !expr ctx.two, n: 6}, output: end}"""


def corner(locator: Locator) -> tuple[float, float]:
    """The place at which the border of a box or a frame begins."""
    place = locator.locator("rect:not([stroke-opacity])").first.bounding_box()
    assert place is not None
    return place["x"], place["y"]


def picture_of(page: Notebook, cell: int) -> Locator:
    page.open_view(cell, "Picture")
    picture = page.explorer(cell).locator(".picture")
    picture.locator("g.box").first.wait_for()
    page.output(cell).evaluate("node => node.scrollIntoView({block: 'start'})")
    return picture


FOCUSED = f"{EXPLORERS}.map(root => root.activeElement?.dataset.step)[0]"
"""The step whose box or title has the focus. Without a focus in there, JupyterLab gives it to its active cell."""


@pytest.mark.main
def test_a_frame_stays_where_it_was_clicked(opened: Open) -> None:
    page = opened(SETUP, FRAMES)
    page.run_all()
    picture = picture_of(page, 1)
    frame, folded = picture.locator("g.frame[data-step='steps[2]']"), picture.locator("g.box[data-step='steps[2]']")
    before = corner(frame)
    picture.locator("g[aria-label='Fold steps[2]']").click()
    folded.wait_for()
    assert corner(folded) == pytest.approx(before, abs=1)
    for action in ("dblclick", "press"):  # by the pointer, and by a key
        if action == "dblclick":
            folded.dblclick()
            frame.wait_for()
        else:
            folded.focus()
            page.press("Enter")
            frame.wait_for()
            page.wait(f"{FOCUSED} === it", "steps[2]")
        assert corner(frame) == pytest.approx(before, abs=1), action
        picture.locator("g[aria-label='Fold steps[2]']").click()
        folded.wait_for()
    assert page.errors == []


def test_a_group_of_a_long_chain_is_unfolded_where_it_is(opened: Open) -> None:
    page = opened(SETUP, "%run_pipeline two_hundred --set x0=1")
    page.run(0)
    page.run(1)
    picture = picture_of(page, 1)
    boxes = picture.locator("g.box")
    assert boxes.count() == 21, "the input and twenty groups"
    failed, name = boxes.filter(has_text="4/10 ✗1"), "steps[120] … steps[129]"
    assert failed.get_attribute("data-step") == name
    assert boxes.filter(has_text="✓ 10/10").count() == 12
    assert page.explorer(1).locator(".panel h3").inner_text() == "x124", "the step that failed is selected"
    page.picture("folded-chain")
    chosen = picture.locator("g.box[aria-pressed=true]")
    assert chosen.get_attribute("data-step") == name
    page.explorer(1).locator(".title").click()  # selects the run itself, and no box
    chosen.wait_for(state="detached")
    assert not picture.locator(".chosen").count()
    before = [corner(boxes.filter(has_text="x61 …")), corner(failed)]
    failed.click()
    frame = picture.locator(f"g.frame[data-step='{name}']")
    frame.wait_for()
    assert corner(frame) == pytest.approx(before[1], abs=1)
    step = picture.locator("g.box[data-step='steps[123]']")
    assert (step.get_attribute("aria-label") or "").endswith(", failed")
    page.picture("unfolded-group")
    picture.locator(f"g[aria-label='Fold {name}']").click()
    failed.wait_for()
    assert [corner(boxes.filter(has_text="x61 …")), corner(failed)] == [pytest.approx(place, abs=1) for place in before]
    away = "node => node.getRootNode().host.explorer.picture.show([9000, 9000, 300, 300])"
    page.explorer(1).evaluate(away)
    failed.focus()
    page.press("n")  # the next failed step comes in sight
    page.wait(f"{EXPLORERS}[0].host.explorer.picture.box[0] < 9000")
    (left, top), room = corner(failed), picture.bounding_box()
    assert room is not None
    assert room["x"] <= left < room["x"] + room["width"]
    assert room["y"] <= top < room["y"] + room["height"]
    assert not [error for error in page.errors if "the hundred" not in error]


IN_SIGHT = """node => {
  const bounds = part => part.getBoundingClientRect(), frame = bounds(node.querySelector("rect"));
  const isIn = (one, of) => one.left >= of.left && one.right <= of.right
    && one.top >= of.top && one.bottom <= of.bottom;
  const boxes = [...node.closest("svg").querySelectorAll("g.box")].map(box => bounds(box.querySelector("rect")));
  return boxes.filter(box => isIn(box, frame) && isIn(box, bounds(node.closest(".picture")))).length;
}"""
"""The number of boxes in a frame that are in sight."""


@pytest.mark.parametrize("group", [0, 7, 19])
def test_all_boxes_of_an_unfolded_group_are_in_sight(opened: Open, group: int) -> None:
    page = opened(SETUP.replace("== 123", "< 0"), "%run_pipeline two_hundred --set x0=1")
    page.page.set_viewport_size({"width": 1200, "height": 900})
    page.run(0)
    page.run(1)
    picture = picture_of(page, 1)
    name = f"steps[{10 * group}] … steps[{10 * group + 9}]"
    picture.locator(f"g.box[data-step='{name}']").click()
    frame = picture.locator(f"g.frame[data-step='{name}']")
    frame.wait_for()
    assert frame.evaluate(IN_SIGHT) == 10


BRANCH = "      b%d%d: {tool: {name: step, args: {x: !expr ctx.x0, n: 1}}}\n"
FAN = "".join(
    "- parallel:\n    branches:\n"
    + "".join(BRANCH % (part, n) for n in range(6))
    + f"    collect: {{transform: {{value: pipe}}}}\n    output: all{part}\n"
    for part in range(4)
)


@pytest.mark.parametrize("height", [768, 900])
def test_a_click_on_a_box_shows_the_first_lines_of_its_panel(opened: Open, height: int) -> None:
    page = opened(SETUP, f"%%pipeline fan --run --set x0=1\nsteps:\n{FAN}")
    page.page.set_viewport_size({"width": 1200, "height": height})
    page.run(0)
    page.run(1)
    picture = picture_of(page, 1)
    for box in ("b00", "b20"):
        picture.locator("g.box", has_text=box).click()
        heading = page.explorer(1).locator(".panel h3", has_text=box)
        heading.wait_for()
        for part in (
            heading,
            page.explorer(1).locator(".panel button", has_text="Run from here"),
            picture.locator("g.box", has_text=box),
        ):
            place = part.bounding_box()
            assert place is not None
            assert 95 <= place["y"] < height - 60, (box, place)
