"""A picture by the pointer and by the keys alone: no text is selected, a drag ends, and each box gets the focus."""

from __future__ import annotations

import pytest

from tests.browser.harness import EXPLORERS, Open
from tests.browser.test_folding import FOCUSED, picture_of

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
