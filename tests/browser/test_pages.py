"""The pages of runs and questions: where their parts are, and how high and wide they are."""

from __future__ import annotations

import nbformat
import pytest

from tests.browser.harness import OUTPUT, Lab, Notebook, Open

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
import time
from agf_magics import tool

@tool
def sleep() -> None:
    time.sleep(300)

@tool
async def fail(number: int) -> int:
    raise ValueError('no_such_thing_' * 20)"""
LONG = "%%pipeline --quiet\npipeline: long\nsteps:\n" + "- transform: {value: 1 + 1}\n" * 80 + "- tool: {name: sleep}\n"
LONG += "- transform: {value: 1 + 1}\n" * 80
DROPS = """%%pipeline --run
pipeline: drops
steps:
- for_each:
    items: [1, 2, 3, 4]
    on_error: continue
    do: {tool: {name: fail, args: {number: !expr item}}}
    collect: {transform: {value: "count(pipe)"}}
- tool: {name: sleep}"""
ASKING = """%%graph --quiet
name: asking
state: {fruit: str, loud: str}
nodes:
  ask: {type: interrupt, message: "Which fruit?", resume_key: fruit}
  shout: {type: passthrough, output: {loud: "{state.fruit}!"}}
edges:
- {from: START, to: ask}
- {from: ask, to: shout}
- {from: shout, to: END}"""
CANCEL = "button:has-text('Cancel')"


def box(page: Notebook, cell: int, selector: str) -> dict[str, float]:
    locator, bounds = page.output(cell).locator(selector).first, None
    while bounds is None:  # the page may be replaced in the meantime, and is then drawn again
        locator.wait_for()
        bounds = locator.bounding_box()
    return dict(bounds)  # type: ignore[arg-type]


def is_inside(page: Notebook, cell: int) -> bool:
    """Whether no part of the output of a cell is wider than the output."""
    parts = "[...area.querySelectorAll('.jp-OutputArea-output, .widget-html, table')]"
    wide = f"{parts}.every(it => it.scrollWidth <= it.clientWidth + 1)"
    return bool(page.page.evaluate(f"it => (area => {wide})({OUTPUT})", [cell]))


def test_cancel_is_near_the_status_of_a_run_of_many_steps_which_stays_low(opened: Open) -> None:
    page = opened(SETUP, LONG, "%run_pipeline long")
    page.run_all(wait=False)
    page.output(2).locator(CANCEL).wait_for()
    page.says(2, "running", "80 of 161 steps")
    status, cancel = box(page, 2, ".explorer >> text=running"), box(page, 2, f".explorer >> {CANCEL}")
    assert abs(status["y"] - cancel["y"]) < 40  # beside it, or in the line below
    assert (
        box(page, 2, ".jp-OutputArea-child >> nth=0")["height"] < 0.7 * 1400
    )  # the list is at most 60 % of the window
    page.output(2).locator(CANCEL).click()
    page.finished()
    page.says(2, "RunCancelled", "steps[80]")
    assert (page.output(2).bounding_box() or {})["height"] < 0.85 * 1400  # type: ignore[typeddict-item]


@pytest.mark.parametrize("width", [1200, 760])
def test_a_live_table_and_long_words_fit_the_width_of_the_output(opened: Open, width: int) -> None:
    page = opened(SETUP, DROPS, width=width)
    page.run_all(wait=False)
    page.says(1, "4 failed and dropped")
    assert is_inside(page, 1)
    area, row = box(page, 1, ".explorer"), box(page, 1, ".row:has-text('for_each')")
    assert row["x"] + row["width"] <= area["x"] + area["width"]
    page.picture(f"drops-{width}")
    page.output(1).locator(CANCEL).click()
    page.finished()
    page.says(1, "RunCancelled")
    assert is_inside(page, 1)


def test_enter_answers_a_question_whose_field_has_the_question_as_its_name(opened: Open) -> None:
    page = opened(SETUP, ASKING, "h = %run_pipeline_async asking", "h.output['loud']")
    for cell in (0, 1, 2):
        page.run(cell)
    field = page.output(2).get_by_role("textbox", name="Which fruit?").first
    field.wait_for()
    page.says(2, "waiting")
    field.fill("pears")
    field.press("Enter")
    page.says(2, '→ "pears"', "✓ ok")
    page.output(2).get_by_role("textbox").first.wait_for(state="detached")
    page.run(3)
    page.says(3, "pears!")


def test_a_question_in_a_cell_is_closed_when_its_cell_has_ended(opened: Open) -> None:
    page = opened(SETUP, ASKING, "%run_pipeline asking")
    page.run_all(wait=False)
    field = page.explorer(2).get_by_role("textbox", name="Which fruit?")
    field.wait_for()
    page.interrupt()
    page.says(2, "run.cancelled", "not answered: the run has ended")
    field.wait_for(state="detached")
    assert "waits for an answer" not in page.output(2).inner_text()


def test_shift_tab_shows_the_help_of_a_magic_and_of_a_key(opened: Open) -> None:
    page = opened(SETUP, "%run_pipeline", "%%pipeline\npipeline: p\nsteps:\n- for_each")
    page.run(0)
    for cell, text in ((1, "--timeout SECONDS"), (2, "over, items")):
        page.type(cell, "")
        page.press("Shift+Tab")
        page.page.locator(f".jp-Tooltip:has-text('{text}')").wait_for()
        page.press("Escape")


def test_an_untrusted_page_keeps_its_layout(opened: Open, lab: Lab) -> None:
    page = opened(SETUP, "%%pipeline --run\npipeline: small\nsteps:\n- transform: {value: \"'x' \"}")
    page.run_all()
    saved = page.save()
    saved.cells[-1].source += " "
    nbformat.write(saved, lab.folder / "layout.ipynb")
    other = opened(file="layout.ipynb")
    other.says(1, "small")
    table = "document.querySelectorAll('.jp-Cell')[1].querySelector('table')"
    look = other.page.evaluate(f"(it => [getComputedStyle(it).tableLayout, it.parentNode.style.maxHeight])({table})")
    assert look == ["fixed", ""]


def test_in_a_narrow_output_the_names_of_a_saved_page_are_whole(opened: Open, lab: Lab) -> None:
    page = opened(SETUP, "%%pipeline --run\npipeline: low\nsteps:\n- transform: {value: 1 / 0}")
    page.run(0)
    page.run(1)
    nbformat.write(page.save(), lab.folder / "low.ipynb")
    other = opened(file="low.ipynb", width=420)
    other.says(1, "failed")
    step = "document.querySelectorAll('.jp-Cell')[1].querySelector('tbody td:last-child')"
    assert other.page.evaluate(f"{step}.clientWidth > 150 && {step}.clientHeight < 60")
    other.picture("low", 1)
