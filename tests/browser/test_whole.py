"""The explorer in the size of its content: how much room each part gets, and how a user changes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.harness import EXPLORERS, PANEL, PICTURES, Lab, Notebook, Open

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, Locator

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
    """The left, top, right and bottom of a part."""
    bounds = part.bounding_box()
    assert bounds is not None
    return bounds["x"], bounds["y"], bounds["x"] + bounds["width"], bounds["y"] + bounds["height"]


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
    assert all(box(row)[2] <= box(main)[2] for row in states[:5])  # the border cuts nothing off
    divider.focus()
    page.press("ArrowRight", "ArrowRight")
    assert before[2] - 74 <= box(main)[2] <= before[2] - 70
    height = box(explorer)[3] - box(explorer)[1]
    drag(page, lower, 0, 150)
    assert height + 140 <= box(explorer)[3] - box(explorer)[1] <= height + 160
    assert explorer.locator(".row").count() > 20
    page.picture("whole-borders", 1)
    explorer.locator("button[aria-label^='Fill']").click()  # also the steps fill the screen
    page.wait("document.fullscreenElement !== null")
    tall = explorer.locator(".list")
    page.wait(f"{EXPLORERS}.some(root => root.querySelector('.list')?.clientHeight > innerHeight - 120)")
    assert box(tall)[3] <= page.page.viewport_size["height"]  # type: ignore[index]
    page.picture("whole-screen-steps")
    page.page.evaluate("document.exitFullscreen()")
    page.wait("document.fullscreenElement === null")
    page.open_view(1, "Picture")
    explorer.locator("g.box").first.wait_for()
    explorer.locator("button[title^='Fill']").click()
    page.wait("document.fullscreenElement !== null")
    assert box(explorer.locator(".picture"))[3] <= page.page.viewport_size["height"]  # type: ignore[index]
    page.picture("whole-screen")
    page.page.evaluate("document.exitFullscreen()")
    assert not page.errors


VIEW = f"{EXPLORERS}.map(root => root.host.explorer?.picture).find(picture => picture?.svg)"


def test_a_picture_on_the_whole_screen_is_arranged_for_it_and_returns_to_what_it_was(opened: Open) -> None:
    page = opened(SETUP, chain("screen", 24))
    page.page.set_viewport_size({"width": 1200, "height": 700})
    page.run_all()
    page.open_view(1, "Picture")
    explorer = page.explorer(1)
    explorer.locator("g.box").first.wait_for()
    explorer.locator("button[title='Zoom in']").click()
    before, size = page.page.evaluate(f"() => [{VIEW}.box, {VIEW}.whole]")
    explorer.locator("button[title^='Fill']").click()
    page.wait(f"document.fullscreenElement && `${{{VIEW}.whole}}` !== `${{it}}`", size)  # it has another form
    fits = f"(view => view.whole.every((side, k) => k < 2 || side <= view.box[k] + 1))({VIEW})"
    page.wait(fits)
    assert box(explorer)[2] - box(explorer)[0] > 1190
    page.picture("whole-screen-arranged")
    page.page.evaluate("document.exitFullscreen()")
    page.wait(f"!document.fullscreenElement && `${{{VIEW}.whole}}` === `${{it}}`", size)
    page.wait(f"{VIEW}.box.every((side, k) => Math.abs(side - it[k]) < 2)", before)
    assert not page.errors


def full(page: Notebook, is_full: bool) -> None:
    """To the whole screen, or back."""
    page.explorer(1).locator("button[title^='Fill']").click()
    page.wait("(document.fullscreenElement !== null) === it", is_full)


def widen(page: Notebook) -> None:
    page.page.set_viewport_size({"width": 1600, "height": 800})


def on_the_whole_screen(page: Notebook) -> None:
    """The window changes while the picture fills it, and another view is open for a while."""
    full(page, True)
    page.open_view(1, "Steps")
    widen(page)
    page.open_view(1, "Picture")
    full(page, False)


def behind_another_view(page: Notebook) -> None:
    full(page, True)
    page.open_view(1, "Steps")
    full(page, False)
    widen(page)
    page.open_view(1, "Picture")


LOOP = """- for_each:
    over: "[value_0, value_5]"
    on_error: abort
    do: {transform: {value: item}}
    collect: {transform: {value: pipe}}
    output: all"""

IS_SETTLED = f"(view => view.isFull === it && view.wide === view.canvas.clientWidth && view.wide > 900)({VIEW})"
"""Whether the picture has seen the size of its place."""

SCALE = """view => {
  const [, , width, height] = view.whole, [x, y, seenX, seenY] = view.box;
  const { clientWidth: wide, clientHeight: high } = view.canvas;
  const middle = [x + seenX / 2, y + seenY / 2], fits = Math.min(wide / width, high / height);
  return { scale: wide / seenX, high: high / seenY, middle, fits };
}"""


@pytest.mark.parametrize("change", [widen, on_the_whole_screen, behind_another_view])
def test_a_picture_that_was_fitted_is_fitted_to_each_size_and_one_that_was_zoomed_keeps_its_scale(
    opened: Open, change: Callable[[Notebook], None]
) -> None:
    page = opened(SETUP, chain("sizes", 6, LOOP))
    page.run_all()
    explorer = page.explorer(1)

    def seen(*clicks: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is in sight before and after the change, after clicks on these buttons."""
        page.page.set_viewport_size({"width": 1200, "height": 800})
        page.open_view(1, "Picture")
        explorer.locator("g.box").first.wait_for()
        page.wait(f"{VIEW}.canvas.clientWidth < 900 && {VIEW}.wide === {VIEW}.canvas.clientWidth")
        for click in clicks:
            explorer.locator(f"[aria-label^='{click}']").first.click()
        page.wait(f"{VIEW}.svg")
        before = page.page.evaluate(f"() => ({SCALE})({VIEW})")
        change(page)
        page.wait(IS_SETTLED, False)
        page.wait(f"{VIEW}.svg.isConnected")
        return before, page.page.evaluate(f"() => ({SCALE})({VIEW})")

    for clicks in [(), ("Fold",), ("Fit",)]:
        _, after = seen(*clicks)
        wanted = after["fits"] if "Fit" in clicks else min(max(after["fits"], 0.84), 1)
        assert abs(after["scale"] - wanted) < 0.01, clicks
        assert abs(after["high"] - wanted) < 0.01, clicks
    before, after = seen("Fit", "Zoom in", "Zoom in")
    assert abs(after["scale"] - before["scale"]) < 0.01
    assert abs(after["high"] - before["scale"]) < 0.01
    assert all(abs(one - other) < 2 for one, other in zip(before["middle"], after["middle"], strict=True))
    assert not page.errors


def test_a_wide_picture_has_the_width_and_the_panel_is_below_it(opened: Open) -> None:
    wide = "%%pipeline --run\npipeline: wide\nsteps:\n" + chain("", 5).split("steps:\n")[1]
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
    boxes = [box(part) for part in explorer.locator("g.box").all()]
    assert all(main[0] <= part[0] and part[2] <= main[2] and part[3] <= main[3] for part in boxes)
    divider = explorer.locator("[aria-label='Size of the details']")
    drag(page, divider, 0, 100)
    assert main[3] + 95 <= box(explorer.locator(".main"))[3] <= main[3] + 105
    page.picture("whole-wide", 1)


RUN = """%%pipeline --run --out r --set 'text="TEXT"'
pipeline: twice
steps:
- tool: {name: part, args: {n: 3}, output: three}
- transform: {value: "ctx.text + '!'", output: loud}"""
FAILED = '%%pipeline --run\npipeline: broken\nsteps:\n- transform: {value: "1 / 0"}'
EVIL = "<img src=x onerror='window.hacked=1'>\\u202e"


def test_the_list_of_runs_opens_them_and_compares_two(opened: Open) -> None:
    texts = [RUN.replace("TEXT", text) for text in (EVIL, "calm")]
    typed = (
        "older, newer = [run.run_id for run in agf.runs() if run.name == 'twice'][::-1]\n%runs $older --compare $newer"
    )
    page = opened(SETUP, *texts, FAILED, "%runs", typed)
    for cell in range(6):
        page.run(cell)
    runs = page.explorer(4)
    row = runs.locator("tr", has_text="broken")
    assert "division by zero" in row.inner_text()
    assert '"calm"' in runs.locator("tr", has_text="twice").first.inner_text()
    compare = runs.locator("button:text-is('Compare')")
    assert compare.is_disabled()
    for number in (1, 2):
        runs.locator("input[type=checkbox]").nth(number).check()
    compare.click()
    runs.locator("h4:text-is('Values that differ')").wait_for()
    sides = runs.locator(".sides").first.locator("tr", has_text="input.text").locator("td")
    assert (sides.nth(0).inner_text().startswith("<img src=x"), sides.nth(1).inner_text()) == (True, "calm")
    assert box(sides.nth(0))[2] <= box(sides.nth(1))[0] + 1
    bars = runs.locator("tr", has_text="three").locator(".bar u")
    assert [bar.bounding_box()["height"] > 5 for bar in bars.all()] == [True, True]  # type: ignore[index]
    page.picture("whole-compare", 4)
    alone = page.explorer(5).locator(".difference.whole")
    alone.locator("h4:text-is('Values that differ')").wait_for()  # the line shows the page of the button
    page.picture("whole-compare-typed", 5)
    assert alone.inner_text() == runs.locator(".difference").inner_text().removeprefix("Close").lstrip()
    link = runs.locator(".link").first
    link.click()
    inner = page.output(4).locator(".agf-run .agf-run .explorer")
    inner.locator("header", has_text="broken").wait_for()
    assert box(inner)[1] >= box(runs.locator(".sides").first)[1]
    chosen = runs.locator("tr[aria-current=true]")
    assert ["broken" in text for text in chosen.all_inner_texts()] == [True]
    page.picture("whole-runs", 4)
    link.click()
    inner.wait_for(state="detached")
    assert chosen.count() == 0
    assert page.page.evaluate("window.hacked") is None
    page.theme("Dark")
    page.picture("whole-runs-dark", 4)
    page.theme("Light")
    assert not page.errors


def test_a_page_of_an_earlier_kernel_opens_its_run(opened: Open) -> None:
    page = opened(SETUP, RUN.replace("TEXT", "calm"), "1 + 1")
    for cell in range(2):
        page.run(cell)
    page.explorer(1)
    page.save()
    page.page.evaluate(f"{PANEL}.sessionContext.session.kernel.restart()")
    page.output(1).locator(".explorer").wait_for(state="detached")
    page.wait(f"{PANEL}.sessionContext.session.kernel.status === 'idle'")
    assert not page.output(1).locator(".agf-open").is_visible()
    page.run(0)
    page.output(1).locator(".agf-open").click()
    page.explorer(1).locator("header", has_text="twice").wait_for()
    page.open_step(1, "part").locator("h4:text-is('Output')").wait_for()
    page.picture("whole-opened-again", 1)


LASTING = RUN.replace("name: part, args: {n: 3}", "name: last, args: {n: 3}").replace("TEXT", "calm")
LASTS = """
@tool
async def last(n: int) -> int:
    import asyncio
    await asyncio.sleep(600)
    return n"""


def test_the_page_of_a_run_whose_kernel_is_gone_says_that_it_was_interrupted(opened: Open) -> None:
    page = opened(SETUP + LASTS, LASTING)
    page.run(0)
    page.run(1, wait=False)
    page.explorer(1).locator("header", has_text="running").wait_for()
    page.page.evaluate(f"{PANEL}.sessionContext.session.kernel.restart()")
    page.output(1).locator(".explorer").wait_for(state="detached")
    page.says(1, "if that kernel is gone, %resume twice-")
    page.wait(f"{PANEL}.sessionContext.session.kernel.status === 'idle'")
    page.run(0)
    page.explorer(1).locator("header", has_text="interrupted").wait_for()  # without a click
    page.explorer(1).locator("header button:text-is('Resume')").wait_for()
    page.picture("whole-interrupted", 1)


INNER = """%%pipeline
pipeline: inner
steps:
- tool: {name: part, args: {n: 1}, output: one}
- tool: {name: part, args: {n: 2}, output: two}
"""
# With its caller, each of the two flows has more boxes than are drawn open.
INNER += "\n".join(f"- transform: {{value: '{n}', output: value_{n}}}" for n in range(23))
MIDDLE = "%%pipeline\npipeline: middle\nsteps:\n- call: {pipeline: inner}\n"
MIDDLE += "\n".join(f"- transform: {{value: '{n}', output: last_{n}}}" for n in range(24))


def test_a_called_flow_opens_in_place_and_the_way_back_keeps_the_zoom(opened: Open) -> None:
    page = opened(SETUP, INNER, MIDDLE, chain("outer", 4, "- call: {pipeline: middle}"))
    page.run_all()
    page.open_view(3, "Picture")
    explorer = page.explorer(3)
    explorer.locator("g.box").first.wait_for()
    explorer.locator("button[title='Zoom out']").click()
    explorer.locator("button[title='Zoom out']").click()
    view_box = explorer.locator(".picture > svg").get_attribute("viewBox")
    sign, room = box(explorer.locator(".opens")), box(explorer.locator(".picture"))
    assert room[0] <= sign[0] < sign[2] <= room[2]
    explorer.locator(".opens").click()
    explorer.locator(".crumbs b:text-is('middle')").wait_for()
    explorer.locator("g.box", has_text="inner").locator(".opens").click()
    explorer.locator(".crumbs b:text-is('inner')").wait_for()
    assert explorer.locator(".crumbs").inner_text() == "outer ▸ middle ▸ inner"
    assert box(explorer.locator(".crumbs"))[3] <= box(explorer.locator(".picture"))[1]
    page.picture("whole-inner", 3)
    explorer.locator("g.box", has_text="part").first.click()
    explorer.locator(".panel h3:has-text('one')").wait_for()
    explorer.locator(".crumbs button").first.click()
    explorer.locator("g.box", has_text="middle").wait_for()
    assert explorer.locator(".crumbs").inner_text() == ""
    assert explorer.locator(".picture > svg").get_attribute("viewBox") == view_box
    # A moment whose step is outside of the flow that is shown leads there.
    explorer.locator(".opens").click()
    explorer.locator(".crumbs b:text-is('middle')").wait_for()
    explorer.locator("button:text-is('State over time')").click()
    explorer.locator(".where", has_text="moment").wait_for()
    for key in ("Home", "End"):
        explorer.locator("input[aria-label=Moment]").press(key)
    explorer.locator(".crumbs:empty").wait_for(state="attached")
    explorer.locator("g.box[aria-pressed=true]").wait_for()


CUT = """() => [...document.querySelectorAll(".agf-figure, .agf-figure > div, .agf-run div")]
  .filter(node => ["auto", "scroll"].includes(getComputedStyle(node).overflowY))
  .filter(node => node.scrollHeight > node.clientHeight + 2)
  .map(node => node.outerHTML.slice(0, 120))"""
"""The elements that have a scroll bar, or would have one."""


def test_a_printed_notebook_has_whole_pictures_and_nothing_folded(opened: Open, lab: Lab, browser: Browser) -> None:
    from nbconvert import HTMLExporter

    branches = "\n".join(f"      b{n}: {{tool: {{name: part, args: {{n: {n}}}}}}}" for n in range(24))
    steps = f"- parallel:\n    on_error: abort\n    branches:\n{branches}\n    collect: {{transform: {{value: pipe}}}}"
    flow = f"%%pipeline --run --quiet\npipeline: tall\nsteps:\n{steps}\n- tool: {{name: part, args: {{n: 1}}}}"
    page = opened(SETUP, flow, "%draw tall --direction LR")
    page.run_all()
    page.explorer(1)
    text, _ = HTMLExporter().from_notebook_node(page.save())
    (lab.folder / "printed.html").write_text(text, encoding="utf-8")
    paper = browser.new_page(viewport={"width": 1000, "height": 1300})
    paper.goto((lab.folder / "printed.html").as_uri(), wait_until="domcontentloaded")
    folded = paper.locator(".agf-run details:not([open]) table").first
    assert not folded.is_visible()
    paper.emulate_media(media="print")
    assert folded.is_visible()
    signs = paper.locator(".agf-run summary").evaluate_all("all => all.map(one => getComputedStyle(one).listStyleType)")
    assert set(signs) == {"none"}
    assert paper.evaluate(CUT) == []
    heights = paper.locator(".agf-figure").evaluate_all("all => all.map(one => one.getBoundingClientRect().height)")
    assert max(heights) > 850  # this picture has a scroll bar on the screen
    paper.screenshot(path=PICTURES / "whole-printed.png", full_page=True)
    assert paper.pdf().startswith(b"%PDF")
    paper.close()


FRAMES = """import pandas as pd
wide = [pd.DataFrame({f"column_{n}": ["2026-01-02 12:00:00"] * 3 for n in range(count)}) for count in (11, 12)]
rows = [{"n": n, **{f"a_longer_name_{k}": "words and words and words" for k in range(38)}} for n in range(9)]

@tool
def frames() -> list:
    return wide

agf.define("pipeline: parts\\nsteps: [{tool: {name: part, args: {n: !expr ctx.n}}}]")
%run_pipeline parts --over $rows --yes"""
SIDES = """all => all.map(one => {
  const cells = [...one.querySelectorAll("td, th")], ends = cells.map(cell => cell.getBoundingClientRect().right);
  const cut = cells.filter(cell => cell.scrollWidth > cell.clientWidth + 1);
  return [one.rows[0].cells.length, Math.round(Math.max(...ends)), cut.length];
})"""
"""For each table, the number of its columns, where its last one ends, and the cells whose text goes on outside."""


def test_no_column_of_a_printed_table_is_cut(opened: Open, lab: Lab, browser: Browser) -> None:
    from nbconvert import HTMLExporter

    page = opened(SETUP, FRAMES, "%%pipeline --run\npipeline: p\nsteps:\n- tool: {name: frames, output: two}")
    page.run_all()
    page.explorer(2)
    text, _ = HTMLExporter().from_notebook_node(page.save())
    (lab.folder / "wide.html").write_text(text, encoding="utf-8")
    width = 718  # of A4 between its margins
    paper = browser.new_page(viewport={"width": width, "height": 1000})
    paper.goto((lab.folder / "wide.html").as_uri(), wait_until="domcontentloaded")
    paper.emulate_media(media="print")
    tables = paper.locator(".agf-run table").evaluate_all(SIDES)
    paper.screenshot(path=PICTURES / "wide-printed.png", full_page=True)
    assert {12, 13, 40} <= {columns for columns, _, _ in tables}
    assert [one for one in tables if one[1] > width or one[2]] == []
    paper.close()


LANES = """%%pipeline --run
pipeline: lanes
steps:
- tool: {name: part, args: {n: 0}, output: first}
- for_each:
    items: [1, 2, 3, 4, 5, 6, 7, 8]
    on_error: continue
    do: {tool: {name: odd, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
    output: odds"""
ODD = """@tool
async def odd(n: int) -> int:
    await asyncio.sleep(0.1 * n)
    if n % 2 == 0:
        raise ValueError(f"{n} is even")
    return n"""


def test_the_timeline_is_zoomed_by_a_drag_and_a_bar_of_a_lane_opens_its_call(opened: Open) -> None:
    page = opened(SETUP, f"import asyncio\n{ODD}", LANES)
    page.run_all()
    page.open_view(2, "Timeline")
    explorer = page.explorer(2)
    row = explorer.locator(".row:has(b:text-is('odd'))")
    before = box(row.locator("u"))
    assert "gradient" in row.locator("u").get_attribute("style")  # type: ignore[operator]  # a part of it failed
    row.click(position={"x": 80, "y": 10})
    canvas = explorer.locator(".lanes canvas")
    canvas.wait_for()
    left, _, right, bottom = box(canvas)
    axis = box(row.locator(".bar"))
    assert (left, right) == (pytest.approx(axis[0], abs=1.5), pytest.approx(axis[2], abs=1.5))
    page.page.mouse.move(left + (right - left) * 0.95, (bottom - 5))
    page.wait(f"{EXPLORERS}.some(root => root.querySelector('.lanes canvas')?.title.includes('failed'))")
    drag(page, row.locator(".bar"), 60, 0)
    after = box(row.locator("u"))
    assert after[2] - after[0] > 2 * (before[2] - before[0])
    assert explorer.locator(".mark").count() == 0
    ticks = explorer.locator(".axis span").all_inner_texts()
    assert "0" not in ticks
    page.picture("whole-timeline", 2)
    explorer.locator(".axis button:text-is('All')").click()
    again = box(row.locator("u"))
    assert (again[0], again[2]) == (before[0], before[2])
    drag(page, canvas, 80, 0)
    explorer.locator(".lanes .hint:has-text('Drag: zoom')").wait_for()
    explorer.locator(".lanes button:text-is('All')").click()
    left, _, right, bottom = box(canvas)
    page.page.mouse.click(left + (right - left) * 0.95, bottom - 5)
    explorer.locator(".panel h3", has_text="odd").last.wait_for()
    explorer.locator(".panel .error:has-text('8 is even')").first.wait_for()
    page.picture("whole-lanes", 2)
    assert not page.errors


TURNS = """%%graph turns --run --set text=Pears
state: {text: str, tries: int, score: float}
variables: {tries: 0, score: 0}
nodes:
  draft: {type: python, tool: draft}
  critique: {type: python, tool: critique}
edges:
- {from: START, to: draft}
- {from: draft, to: critique}
- {from: critique, to: draft, condition: score < 0.8}
- {from: critique, to: END, condition: else}"""
CRITIC = """@tool
def draft(text: str, tries: int) -> dict:
    time.sleep(0.1)
    return {"text": text, "tries": tries + 1}

@tool
def critique(text: str, tries: int) -> dict:
    time.sleep(0.1)
    return {"score": 0.3 * tries}"""
TOTAL = """%%pipeline --run
pipeline: total
steps:
- fold: {over: "[{amount: 0.1, of: 'a long name of an item'}, {amount: 0.2, of: 'another long name'}]", init: "0.0",
    do: {transform: {value: acc + item.amount}}, output: sum}"""


def test_the_bar_of_a_step_in_a_loop_has_a_piece_for_each_call_and_a_wide_table_stands_below(opened: Open) -> None:
    page = opened(SETUP, CRITIC, TURNS, TOTAL)
    page.run_all()
    page.open_view(2, "Timeline")
    for name in ("draft", "critique"):
        bar = page.explorer(2).locator(f".row:has(b:text-is('{name}')) u[style*=transparent]")
        bar.wait_for()
        assert (bar.get_attribute("style") or "").count("transparent") == 7  # two stops for each of three calls
    page.picture("whole-turns", 2)
    page.explorer(3).locator(".row", has_text="fold").first.click()
    page.explorer(3).locator(".panel td:text-is('0.3')").first.wait_for()
    page.explorer(3).locator("xpath=self::*[contains(@class, 'below')]").wait_for()
    page.picture("whole-fold", 3)
    assert not page.errors


WORD = """word => {
  for (const line of document.querySelectorAll('.jp-Cell .cm-line')) {
    const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const at = node.data.indexOf(word);
      if (at < 0 || !line.textContent.includes("tool: {")) continue;
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, at + word.length);
      const { left, top, right, bottom } = range.getBoundingClientRect();
      return [left, top, right, bottom];
    }
  }
}"""
"""The place of this word in a line that calls a tool."""


def test_help_on_a_tool_is_its_signature_and_its_docstring(opened: Open) -> None:
    page = opened(SETUP, "%%pipeline\npipeline: helped\nsteps:\n- tool: {name: part, args: {n: 1}}")
    page.run_all()
    left, top, _, bottom = page.page.evaluate(WORD, "part")
    page.page.mouse.move(left + 8, (top + bottom) / 2)
    page.page.mouse.move(left + 10, (top + bottom) / 2)
    tip = page.page.locator(".cm-tooltip .agf-problem-box")
    tip.wait_for()
    assert "part(n: int) -> int" in tip.inner_text()
    assert "Returns `n` as it is, after a while." in tip.inner_text()
    page.picture("whole-help")


FLAKY = """%%pipeline --run --out r
pipeline: flaky
steps:
- tool: {name: part, args: {n: 5}, output: five}
- transform: {value: "five * 2", output: ten}
- tool: {name: fragile, args: {n: !expr ten}, output: last}"""
FRAGILE = """WORKS = []

@tool
def fragile(n: int) -> int:
    if not WORKS:
        raise RuntimeError("the service is down")
    return n"""


def test_the_error_of_a_resumed_run_is_one_line_and_a_place_leads_to_its_cell(opened: Open) -> None:
    page = opened(SETUP, FRAGILE, FLAKY, "print('\\n' * 120); WORKS.append(1)")
    for cell in range(3):
        page.run(cell)
    explorer = page.explorer(2)
    assert "Traceback" in page.output(2).inner_text() or "StepError" in page.output(2).inner_text()
    page.run(3)
    inside = "(box => box.top > 0 && box.bottom < innerHeight)(document.querySelectorAll('.jp-Cell')[it]" \
             ".querySelectorAll('.cm-line')[5].getBoundingClientRect())"  # fmt: skip
    explorer.locator(".panel h4 .link").click()
    page.wait(inside, 2)
    explorer.locator(".panel .error .link", has_text="In[2], line 6").click()  # the line that raised the error
    page.wait(inside, 1)
    explorer.locator("button:text-is('Resume')").click()
    explorer.locator("header >> text=✓ ok").wait_for()
    page.says(2, "It failed, and was resumed above.")
    assert "StepError" not in page.output(2).inner_text()
    page.picture("whole-resumed", 2)
    saved = page.save().cells[2].outputs
    assert not [output for output in saved if output.output_type == "error"]
    page.open_step(2, "fragile")
    explorer.locator(".panel button, header button", has_text="Run from here").first.click()
    page.says(2, "It failed; the run above began from a step of it.")
    assert "resumed above" not in page.output(2).inner_text()


SLOW = """import asyncio
WORKS = []

@tool
async def fragile(n: int) -> int:
    await asyncio.sleep(0 if WORKS else 300)
    return n"""


def test_a_run_that_was_cancelled_and_resumed_says_so_in_the_saved_page(opened: Open) -> None:
    page = opened(SETUP, SLOW, FLAKY, "WORKS.append(1)")
    page.run(0)
    page.run(1)
    page.run(2, wait=False)
    explorer = page.explorer(2)
    explorer.locator("button:text-is('Cancel')").click()
    page.finished()
    page.run(3)
    # A click that follows one on Cancel at once means nothing.
    page.wait(f"{EXPLORERS}.some(root => performance.now() - root.host.explorer.state.kept.cancelled > 1000)")
    explorer.locator("button:text-is('Resume')").click()
    explorer.locator("header >> text=✓ ok").wait_for()
    page.says(2, "It was cancelled, and was resumed above.")
    texts = [output.get("data", {}).get("text/plain", "") for output in page.save().cells[2].outputs]
    assert "It was cancelled, and was resumed above." in texts
    panel = page.open_step(2, "fragile")
    panel.locator("h4:text-is('Output')").wait_for()  # the panel is drawn again until it has the call
    panel.locator("button:text-is('Run from here')").click()
    page.says(2, "It was cancelled; the run above began from a step of it.")


TWICE = """import asyncio
WORKS = []

@tool
async def fragile(n: int) -> int:
    if not WORKS:
        await asyncio.sleep(300)
    if len(WORKS) < 2:
        raise RuntimeError("the service is down")
    return n"""


def test_the_line_below_a_resumed_run_has_all_of_its_ends_in_order(opened: Open) -> None:
    page = opened(SETUP, TWICE, FLAKY, "WORKS.append(1)")
    page.run(0)
    page.run(1)
    page.run(2, wait=False)
    explorer = page.explorer(2)
    explorer.locator("button:text-is('Cancel')").click()
    page.finished()
    page.run(3)
    page.wait(f"{EXPLORERS}.some(root => performance.now() - root.host.explorer.state.kept.cancelled > 1000)")
    explorer.locator("button:text-is('Resume')").click()
    page.says(2, "It was cancelled, was resumed above, and failed.")
    page.picture("whole-resumed-and-failed", 2)
    page.run(3)
    explorer.locator("button:text-is('Resume')").click()
    explorer.locator("header >> text=✓ ok").wait_for()
    page.says(2, "It was cancelled, was resumed above, failed, and was resumed again.")


def test_a_moment_highlights_its_step_and_a_run_continues_from_it(opened: Open) -> None:
    page = opened(SETUP, FRAGILE + "\nWORKS.append(1)", FLAKY)
    page.run_all()
    explorer = page.explorer(2)
    page.open_view(2, "Picture")
    explorer.locator("g.box").first.wait_for()
    explorer.locator("button", has_text="State over time").click()
    page.says(2, "moment 4 of 4")
    explorer.locator("input[type=range]").fill("2")
    page.says(2, "moment 3 of 4")
    explorer.locator("g.box[aria-pressed=true]", has_text="ten").wait_for()
    page.picture("whole-moment", 2)
    explorer.locator("button:text-is('Go on from here')").click()
    explorer.locator(".panel code, header", has_text="flaky").first.wait_for()
    explorer.locator(".title").click()
    explorer.locator(".panel .hint", has_text="reused").wait_for()
    assert not page.errors


DULL = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = color => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map(k => top[k] * top[3] + below[k] * (1 - top[3])).concat(1);
  const light = ([r, g, b]) => {
    const linear = part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    const [x, y, z] = [r, g, b].map(part => linear(part / 255));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = (one, two) => {
    const [low, high] = [light(one), light(two)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const parent = node => node.parentElement ?? node.getRootNode().host;
  const page = rgba(getComputedStyle(document.body).getPropertyValue("--jp-layout-color0").trim() || "#fff");
  // What is painted below a text: backgrounds of its ancestors, or the shapes of the picture that contain its middle.
  const below = node => {
    const svg = node.closest("svg");
    if (svg) {
      const at = node.getBoundingClientRect(), x = at.left + at.width / 2, y = at.top + at.height / 2;
      let color = page;
      for (const shape of svg.querySelectorAll("rect, path, circle")) {
        if (shape.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_PRECEDING) continue;
        const box = shape.getBoundingClientRect(), style = getComputedStyle(shape);
        if (style.fill === "none" || style.visibility === "hidden") continue;
        if (x < box.left || x > box.right || y < box.top || y > box.bottom) continue;
        const [r, g, b, a] = rgba(style.fill);
        color = over([r, g, b, a * style.fillOpacity * style.opacity], color);
      }
      return color;
    }
    const chain = [];
    for (let outer = node; outer; outer = parent(outer)) chain.unshift(rgba(getComputedStyle(outer).backgroundColor));
    return chain.reduce((color, top) => over(top, color), page);
  };
  const dull = [];
  for (const host of document.querySelectorAll(".agf-run")) {
    const walker = document.createTreeWalker(host.shadowRoot, NodeFilter.SHOW_TEXT);
    for (let text = walker.nextNode(); text; text = walker.nextNode()) {
      const node = text.parentElement, style = node && getComputedStyle(node);
      if (!text.data.trim() || !node.checkVisibility({ visibilityProperty: true })) continue;
      if (node.closest("style, title, button:disabled, .hidden-text")) continue;
      const back = below(node), [r, g, b, a] = rgba(node.closest("svg") ? style.fill : style.color);
      let alpha = a;
      for (let outer = node; outer && outer !== host; outer = parent(outer)) alpha *= getComputedStyle(outer).opacity;
      const ratio = contrast(over([r, g, b, alpha], back), back);
      const what = `${node.tagName}.${node.getAttribute("class") ?? ""} ${text.data.slice(0, 30)}`;
      if (ratio < 4.5) dull.push(`${ratio.toFixed(2)} ${what}`);
    }
  }
  return dull;
}"""
"""The texts of all explorers whose contrast with their background is less than 4.5."""

EVERY = """%%pipeline --run
pipeline: every
steps:
- tool: {name: part, args: {n: 1}, output: one}
- for_each:
    items: [1, 2, 3, 4]
    on_error: continue
    do: {tool: {name: odd, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
    output: odds
- parallel:
    on_error: abort
    branches:
      left: {tool: {name: part, args: {n: 2}, output: left}}
      right: {call: {pipeline: inner, output: right}}
    collect: {transform: {value: pipe}}
    output: both
- match:
    on: "one > 0 and 'yes' or 'no'"
    cases: {"yes": {pipeline: inner}}
    default: {pipeline: inner}
- tool: {name: odd, args: {n: 2}, output: fails}
- transform: {value: "fails", output: never}"""


@pytest.mark.parametrize("theme", ["Light", pytest.param("Dark", marks=pytest.mark.main)])
def test_the_contrast_of_every_text_is_at_least_4_and_a_half(opened: Open, theme: str) -> None:
    page = opened(SETUP, f"import asyncio\n{ODD}", INNER, EVERY, "%runs")
    for cell in range(5):
        page.run(cell)
    page.theme(theme)
    try:
        for view in ("Steps", "Timeline", "Picture"):
            page.open_view(3, view)
            if view == "Picture":
                page.explorer(3).locator("g.box").first.wait_for()
            for chosen in ("part", "odd"):
                page.open_view(3, "Steps")
                page.open_step(3, chosen)
                page.open_view(3, view)
                assert page.page.evaluate(DULL) == []
            page.picture(f"whole-contrast-{view}-{theme}", 3)
    finally:
        page.theme("Light")
