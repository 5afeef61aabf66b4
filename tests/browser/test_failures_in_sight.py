"""What a user sees of the failures in a long list of steps: where the list rests, and what the header leads to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.harness import Lab, Notebook, Open

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
%config AgfMagics.journal = "sight.sqlite"
import os, time
from agf_magics import tool

@tool
def part(n: int) -> int:
    while not os.path.exists(f"part-{n}"):
        time.sleep(0.01)
    return n

@tool
async def clean(n: int) -> int:
    if n % 5 == 3:
        raise ValueError(f"bad record {n}")
    return n

@tool
def fragile() -> int:
    raise RuntimeError("the service is down")

numbers = list(range(1500))"""
FLOW = """%%pipeline --run --set numbers=$numbers
pipeline: sight
steps:
""" + "".join(f"- transform: {{value: '{n}', output: a{n}}}\n" for n in range(30)) + """\
- for_each:
    over: ctx.numbers
    on_error: continue
    do: {tool: {name: clean, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
    output: cleaned
- tool: {name: fragile, on_error: continue, output: fragile}
- tool: {name: part, args: {n: 1}, output: first}
""" + "".join(f"- transform: {{value: '{n}', output: b{n}}}\n" for n in range(30)) + """\
- tool: {name: part, args: {n: 2}, output: second}
"""  # fmt: skip
DROPS = """\
- for_each:
    items: [1, 3]
    on_error: continue
    do: {tool: {name: clean, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
    output: cleaned
"""
PICTURE = "[...document.querySelectorAll('.agf-run')].at(-1).explorer.picture"
BEYOND = """({ box, whole }) => [0, 1].filter(k => {
  const [low, high] = [box[k] - whole[k], box[k] + box[k + 2] - whole[k] - whole[k + 2]];
  return low * high > 0.01; // empty at one side, and more of the picture at the other
})"""
IN_PICTURE = """picture => {
  const box = picture.boxOf(picture.state.tree.findIndex((_, i) => picture.state.nameOf(i) === 'clean')), [x, y, width, height] = picture.box;
  return box.x > x && box.x < x + width && box.y > y && box.y < y + height;
}"""  # noqa: E501
"""Whether the box of the step ``clean`` is in sight."""
IN_LIST = """row => {
  const inner = row.getBoundingClientRect(), outer = row.closest('.list').getBoundingClientRect();
  return inner.top >= outer.top && inner.bottom <= outer.bottom;
}"""
ON_PAGE = """node => {
  const { top, bottom } = node.getBoundingClientRect(), page = document.querySelector('.jp-WindowedPanel-outer').getBoundingClientRect();
  return top >= page.top && bottom <= page.bottom;
}"""  # noqa: E501
TOP = "list => list.scrollTop"


def row(explorer: Locator, name: str) -> Locator:
    return explorer.locator(f".row:has(b:text-is('{name}'))")


def going(opened: Open, lab: Lab, width: int = 1200, flow: str = FLOW) -> tuple[Notebook, Locator]:
    """A run that waits in its last step, with the list of its steps."""
    for number in (1, 2):
        (lab.folder / f"part-{number}").unlink(missing_ok=True)
    (lab.folder / "part-1").touch()
    page = opened(SETUP, flow, width=width)
    page.page.set_viewport_size({"width": width, "height": 800})  # of which the list has 20 rows
    page.run(0)
    page.run(1, wait=False)
    explorer = page.explorer(1)
    page.open_view(1, "Steps")
    row(explorer, "second").locator(".state[title='▶ running']").wait_for()
    return page, explorer


def ended(page: Notebook, lab: Lab) -> None:
    (lab.folder / "part-2").touch()
    page.finished()
    page.explorer(1).locator("header >> text=! ok").wait_for()


def test_at_the_end_of_a_run_the_list_rests_at_the_first_failure(opened: Open, lab: Lab) -> None:
    page, explorer = going(opened, lab)
    assert not row(explorer, "clean").count()  # far above the step that runs
    ended(page, lab)
    row(explorer, "clean").wait_for()
    assert row(explorer, "clean").evaluate(IN_LIST)
    assert row(explorer, "fragile").evaluate(IN_LIST)
    page.picture("sight-rest", 1)


def test_a_list_that_a_person_scrolled_stays_where_it_is(opened: Open, lab: Lab) -> None:
    page, explorer = going(opened, lab)
    tree = explorer.locator(".list")
    tree.hover()
    page.page.mouse.wheel(0, -240)
    page.wait("[...document.querySelectorAll('.agf-run')].some(host => host.explorer?.state.kept.isMoved)")
    row(explorer, "b15").wait_for()
    before = tree.evaluate(TOP)
    ended(page, lab)
    row(explorer, "b15").wait_for()
    assert tree.evaluate(TOP) == before > 500


def test_no_row_is_hidden_between_the_last_one_and_the_steps_that_did_not_run(opened: Open) -> None:
    def flow(count: int) -> str:
        steps = "".join(f"- transform: {{value: '{n}', output: a{n}}}\n" for n in range(count))
        last = "- tool: {name: fragile, output: last}\n- transform: {value: '1', output: never}"
        return f"%%pipeline --run\npipeline: rows\nsteps:\n{DROPS}{steps}{last}"

    page = opened(SETUP, flow(22), flow(60))
    page.page.set_viewport_size({"width": 1200, "height": 800})  # 60 % of which are 20 rows
    page.run(0)
    for cell in (1, 2):
        page.run(cell)
        page.open_view(cell, "Steps")
    few, many = (page.explorer(cell) for cell in (1, 2))
    row(few, "last").wait_for()
    for part in (row(few, "cleaned"), row(few, "last"), few.locator(".rest")):
        assert part.evaluate(IN_LIST)
    page.picture("sight-few-rows", 1)
    row(many, "last").wait_for()
    assert row(many, "last").evaluate(IN_LIST)
    tree = many.locator(".list")
    fades = "list => ['--up', '--down'].map(name => getComputedStyle(list).getPropertyValue(name))"
    tree.evaluate("list => { list.scrollTop = 0; }")
    row(many, "cleaned").wait_for()
    assert tree.evaluate(fades) == ["0px", "20px"]
    assert not many.locator(".rest").evaluate(IN_LIST)
    tree.evaluate("list => { list.scrollTop = 1e6; }")
    row(many, "last").wait_for()
    assert tree.evaluate(fades) == ["20px", "0px"]
    assert many.locator(".rest").evaluate(IN_LIST)
    many.locator(".rest").click()
    row(many, "never").wait_for()
    # The words about what was dropped do not lead to the step that failed the run.
    for _ in range(2):
        many.locator("header button:has-text('1 failed and dropped')").click()
        many.locator(".row[aria-selected=true]", has_text="clean").wait_for()
        many.locator(".panel >> text=bad record 3").first.wait_for()


def test_the_picture_rests_at_the_first_failure_and_shows_no_more_than_itself(opened: Open, lab: Lab) -> None:
    early = DROPS.replace("cleaned", "early")
    page, explorer = going(opened, lab, width=700, flow=FLOW.replace("steps:\n", f"steps:\n{early}"))
    page.page.set_viewport_size({"width": 700, "height": 600})  # less than the picture needs
    page.open_view(1, "Picture")
    page.wait(f"{PICTURE}?.isFollowing")
    assert not page.page.evaluate(f"() => ({IN_PICTURE})({PICTURE})")
    assert page.page.evaluate(f"() => ({BEYOND})({PICTURE})") == []
    ended(page, lab)
    explorer = page.explorer(1)
    explorer.locator("g.box").first.wait_for()
    page.wait(f"{PICTURE}?.box && !{PICTURE}.isFollowing")
    assert page.page.evaluate(f"() => ({IN_PICTURE})({PICTURE})")
    page.picture("sight-picture", 1)
    for key in ("-", "-", "+", "+", "+", "0"):
        explorer.locator(".picture g.box").first.focus()
        page.press(key)
        assert page.page.evaluate(f"() => ({BEYOND})({PICTURE})") == []


def test_the_words_about_failures_lead_from_one_to_the_next(opened: Open, lab: Lab) -> None:
    page, explorer = going(opened, lab)
    ended(page, lab)
    words, panel = explorer.locator("header button:has-text('301 failed and dropped')"), explorer.locator(".panel")
    for name, failure in (("clean", "bad record 3"), ("fragile", "the service is down"), ("clean", "bad record 3")):
        words.click()
        chosen = explorer.locator(".row[aria-selected=true]", has_text=name)
        chosen.wait_for()
        assert chosen.evaluate(IN_LIST)
        assert chosen.evaluate(ON_PAGE)
        panel.locator(f"h3:text-is('{name}')").wait_for()
        panel.locator(f"text={failure}").first.wait_for()
    page.picture("sight-words")
    page.open_view(1, "Picture")
    explorer.locator("g.box").first.wait_for()
    words.click()
    box = explorer.locator("g.box[aria-pressed=true]", has_text="fragile")
    box.wait_for()
    assert box.evaluate(ON_PAGE)
    page.picture("sight-words-picture")
    assert not page.errors


@pytest.mark.parametrize("width", [1200, 1600])
def test_the_header_is_as_high_during_a_run_as_after_it(opened: Open, lab: Lab, width: int) -> None:
    page, explorer = going(opened, lab, width)
    height = "header => header.offsetHeight"
    before = explorer.locator("header").evaluate(height)
    ended(page, lab)
    explorer.locator("header button:has-text('301 failed and dropped')").wait_for()
    explorer.locator("header button:text-is('Check edits')").wait_for()
    assert explorer.locator("header").evaluate(height) == before
    page.picture(f"sight-header-{width}", 1)


def test_a_state_is_whole_where_there_is_room(opened: Open, lab: Lab) -> None:
    page, explorer = going(opened, lab, 1600)
    ended(page, lab)
    state = row(explorer, "clean").locator(".state")
    assert state.inner_text() == "! ok, 300 dropped"
    assert state.evaluate("node => node.scrollWidth <= node.clientWidth")
    left = "nodes => [...new Set(nodes.map(node => Math.round(node.getBoundingClientRect().left)))]"
    assert len(explorer.locator(".row .name").evaluate_all(left)) == 1  # the names are below each other
    page.picture("sight-states", 1)


RING = """row => {
  const style = getComputedStyle(row), list = getComputedStyle(row.closest('.list'));
  return style.outlineStyle === 'solid' && parseFloat(style.outlineOffset) <= -parseFloat(style.outlineWidth) && list.outlineStyle === 'none';
}"""  # noqa: E501
"""Whether a row has its ring inside of itself, where no neighbour covers it, and the list has none."""


def test_the_ring_around_what_has_the_focus_is_whole(opened: Open, lab: Lab) -> None:
    page, explorer = going(opened, lab)
    ended(page, lab)
    row(explorer, "fragile").click()
    page.press("ArrowUp")
    chosen = explorer.locator(".row[aria-selected=true]", has_text="clean")
    chosen.wait_for()
    assert chosen.evaluate(RING)
    page.picture("sight-ring-row", 1)
    page.open_view(1, "Picture")
    explorer.locator("g.box").first.wait_for()
    explorer.locator("g.box[data-row]").nth(1).focus()
    page.press("ArrowDown")
    ring = explorer.locator(".picture .focus")
    is_last = "ring => getComputedStyle(ring).visibility === 'visible' && ring === ring.parentNode.lastChild"
    assert ring.evaluate(is_last)
    inner, outer = explorer.locator("g.box:focus > rect").first.bounding_box(), ring.bounding_box()
    assert inner is not None
    assert outer is not None
    assert outer["x"] < inner["x"] < inner["x"] + inner["width"] < outer["x"] + outer["width"]
    assert outer["y"] < inner["y"] < inner["y"] + inner["height"] < outer["y"] + outer["height"]
    page.picture("sight-ring-box", 1)
    assert not page.errors
