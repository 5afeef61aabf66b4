"""A picture by the pointer and by the keys alone: no text is selected, a drag ends, and each box gets the focus."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import agf_magics
from tests.browser.harness import EXPLORERS, PICTURES, Open
from tests.browser.test_folding import FOCUSED, picture_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
import agf_magics as agf

@agf.tool
def write(text: str, tries: int) -> dict:
    return {"text": text + "!", "tries": tries + 1}

@agf.tool
def judge(text: str) -> dict:
    return {"score": float(len(text))}"""

GRAPH = """%%graph article --run --set text=a
state: {text: str, tries: int, score: float}
variables: {tries: 0, score: 0}
nodes:
  draft: {type: python, tool: write}
  critique: {type: python, tool: judge}
  polish: {type: python, tool: write}
  publish: {type: python, tool: write}
edges:
- {from: START, to: draft}
- {from: draft, to: critique}
- {from: critique, to: draft, condition: score < 3}
- {from: critique, to: polish, condition: score < 5}
- {from: critique, to: publish, condition: else}
- {from: polish, to: polish, condition: tries < 5}
- {from: polish, to: publish, condition: else}
- {from: publish, to: END}"""

VIEW = f"{EXPLORERS}.map(root => root.querySelector('.picture svg').getAttribute('viewBox'))[0]"
SELECTED = f"() => String(getSelection()) + {EXPLORERS}.map(root => root.getSelection?.() ?? '').join('')"


def test_a_drag_selects_nothing_and_ends_when_the_button_is_released_elsewhere(opened: Open) -> None:
    page = opened(SETUP, GRAPH, "print('another cell')")
    page.run_all()
    picture = picture_of(page, 1)
    place = picture.bounding_box()
    assert place is not None
    mouse, start = page.page.mouse, page.page.evaluate(VIEW)
    mouse.move(place["x"] + 20, place["y"] + place["height"] - 10)
    mouse.down()
    mouse.move(place["x"] + 60, place["y"] - 90, steps=6)  # past the toolbar
    mouse.move(place["x"] + 60, place["y"] + place["height"] + 120, steps=6)  # and other cells
    moved = page.page.evaluate(VIEW)
    assert moved != start
    assert page.page.evaluate(SELECTED).strip() == ""
    # Outside of the window nobody hears that the button is released: the next move has no button.
    page.page.evaluate("() => dispatchEvent(new PointerEvent('pointermove', { clientX: 10, clientY: 10, buttons: 0 }))")
    mouse.move(place["x"] + 200, place["y"] + 40, steps=3)
    assert page.page.evaluate(VIEW) == moved, "the drag is over"
    mouse.up()
    assert page.errors == []


def test_the_picture_is_as_it_was_at_the_moment_of_the_state_over_time(opened: Open) -> None:
    page = opened(SETUP, GRAPH)
    page.run_all()
    picture = picture_of(page, 1)
    corners = f"() => {EXPLORERS}.flatMap(root => root.host.explorer.picture).flatMap(view => [...view.boxes.values()])"
    corners += ".map(box => box.corner.textContent)"
    numbers = f"() => {EXPLORERS}.flatMap(root => root.host.explorer.picture.edges.map(edge => edge.all))"
    end = page.page.evaluate(corners), page.page.evaluate(numbers)
    explorer = page.explorer(1)
    opener = explorer.locator("button:text-is('State over time')")
    opener.click()
    explorer.locator(".where", has_text="moment").wait_for()
    assert (page.page.evaluate(corners), page.page.evaluate(numbers)) == end  # the last moment
    explorer.locator("input[aria-label=Moment]").press("Home")
    explorer.locator(".where", has_text="moment 1 of").wait_for()
    page.wait(f"({corners})().includes('▶ running')")
    assert [words for words in page.page.evaluate(corners) if words] == ["▶ running"]
    assert sum(bool(words) for words in page.page.evaluate(numbers)) == 1
    picture.screenshot(path=PICTURES / "state-over-time-picture.png")
    opener.click()
    page.wait(f"!({corners})().includes('▶ running')")
    assert (page.page.evaluate(corners), page.page.evaluate(numbers)) == end
    assert not page.errors


def test_each_box_has_the_focus_by_keys_and_enter_leads_to_its_details(opened: Open) -> None:
    page = opened(SETUP, GRAPH)
    page.run_all()
    picture = picture_of(page, 1)
    for theme in ("Dark", "Light"):
        page.theme(theme)
        page.picture(f"labels of edges-{theme.lower()}", 1)
    boxes = picture.locator("g.box[data-row]")
    names = {boxes.nth(number).get_attribute("data-step") for number in range(boxes.count())}
    boxes.first.focus()
    reached = {page.page.evaluate(FOCUSED)}
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown", "ArrowRight") * 2:
        page.press(key)
        reached.add(page.page.evaluate(FOCUSED))
    assert reached == names
    assert picture.locator(".focus").evaluate("node => getComputedStyle(node).visibility") == "visible"
    page.picture("focus by keys", 1)
    view = page.page.evaluate(VIEW)
    page.press("+")
    assert page.page.evaluate(VIEW) != view
    page.press("0")
    page.press("Enter")
    page.wait(f"{EXPLORERS}[0].activeElement?.classList.contains('panel')")
    assert page.errors == []


BOXES = """%%pipeline --run
pipeline: boxes
steps:
- tool: {name: write, args: {text: "<b>fig</b>", tries: 1}, output: first}
- tool: {name: fails, output: second}"""
FAILS = """@agf.tool
def fails() -> int:
    raise RuntimeError("it is <i>down</i>\\nand more")"""


def test_a_box_tells_its_state_its_time_and_its_result_or_error_to_pointer_and_keys(opened: Open) -> None:
    page = opened(SETUP, FAILS, BOXES)
    page.run_all()
    picture = picture_of(page, 2)
    first, second = (picture.locator(f"g.box[data-step='steps[{number}]']") for number in (0, 1))
    first.hover()
    page.wait(f"{EXPLORERS}[0].querySelector('g.box title').textContent.includes('→')")
    told = first.locator("title").first.text_content() or ""
    assert re.match(r'✓ ok · (< 1|\d+) ms\n→ text: "<b>fig</b>!", tries: 2\n\nsteps\[0\]: tool first\n', told), told
    assert first.locator("b").count() == 0
    first.focus()
    page.press("ArrowDown", "ArrowRight")  # the picture has either direction
    page.wait(f"{EXPLORERS}[0].activeElement?.ariaLabel?.includes('it is')")
    label = second.get_attribute("aria-label") or ""
    assert re.search(r", ✗ failed · (< 1|\d+) ms, ✗ RuntimeError: it is <i>down</i>$", label), label
    assert page.errors == []


COUNTS = "7 ok, 2 failed, 3 running of 40 · 15/s, 2.1 s left"
BRIEF = "9/40 ✗2 ▶3 · 15/s, 2.1 s left"
PAGE = "3 of 10 · page 3 of the report on figs"
FITTED: list[tuple[list[str | None], int, int, list[str]]] = [
    # texts of which the first that has room is shown, the letters of a line, the lines, and what is shown
    (["2 ok, 1 running", "2 ▶1"], 20, 1, ["2 ok, 1 running"]),
    (["2 ok, 1 running", "2 ▶1"], 13, 2, ["2 ok,", "1 running"]),
    (["2 ok, 1 running", "2 ▶1"], 13, 1, ["2 ▶1"]),
    ([COUNTS, BRIEF], 60, 1, [COUNTS]),
    ([COUNTS, BRIEF], 30, 1, [BRIEF]),
    ([COUNTS, BRIEF], 16, 1, ["9/40 ✗2 ▶3 …"]),
    ([PAGE, None], 18, 1, ["3 of 10 · page 3 …"]),
    ([PAGE, None], 18, 2, ["3 of 10 · page 3", "of the report on …"]),
    ([PAGE, None], 13, 1, ["3 of 10 …"]),
    (["a_name_longer_than_its_box", None], 13, 1, ["a_name_longe…"]),
    (["", None], 13, 1, []),
    (["no line below the name"], 13, 0, []),
]


def test_what_a_box_says_while_it_runs_is_cut_between_counts_and_words(browser: Browser) -> None:
    script = (Path(agf_magics.__file__).parent / "notebook" / "browser" / "picture.js").read_text(encoding="utf-8")
    function = re.search(r"^function fitted.*?^}", script, re.DOTALL | re.MULTILINE)
    assert function
    page = browser.new_page()
    ask = "([texts, letters, lines]) => fitted(texts, { letters, tails: Array(lines) })"
    shown = [page.evaluate(f"given => {{ {function[0]}; return ({ask})(given); }}", case[:3]) for case in FITTED]
    page.close()
    assert shown == [case[3] for case in FITTED]
