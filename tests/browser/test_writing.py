"""Help while a user writes a cell: problems are underlined, and Ctrl-Space completes words and blank lines."""

from __future__ import annotations

import pytest

from tests.browser.harness import Open

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
import os
from agf_magics import tool
os.mkfifo("writing.gate") if not os.path.exists("writing.gate") else None

@tool
def fetch(url: str) -> str:
    "Fetch a page."
    return url"""

WAITS = "open('writing.gate').read()"
TYPED = "%%pipeline\npipeline: p\nsteps:\n- tool: {name: fetsh, args: {url: x}}"


@pytest.mark.parametrize("app", [pytest.param("lab", marks=pytest.mark.main), "notebooks"])
def test_problems_are_underlined_while_a_cell_is_written(opened: Open, app: str) -> None:
    page = opened(SETUP, "", WAITS, "for name in ['fetsh']:\n    pass", app=app)
    page.run(0)
    problem = page.cell(1).locator(".agf-problem")
    page.type(1, TYPED)
    problem.filter(has_text="fetsh").wait_for()
    problem.hover()
    box = page.page.locator(".agf-problem-box")
    box.filter(has_text="error no tool 'fetsh' is registered [flow.unknown-tool]").wait_for()
    box.filter(has_text="did you mean fetch?").wait_for()
    if app == "lab":
        page.picture("writing-light")
        page.theme("Dark")
        page.picture("writing-dark")
        page.theme("Light")

    # The user corrects the word while another cell runs.
    page.page.mouse.move(5, 5)
    page.run(2, wait=False)
    page.cell(2).locator("text=[*]").wait_for()
    page.type(1, TYPED.replace("fetsh", "fetch"), instead=True)
    problem.wait_for(state="detached")
    page.type(1, TYPED.replace("tool", "tol"), instead=True)
    problem.filter(has_text="tol").wait_for()
    page.cell(2).locator("text=[*]").wait_for()
    (page.lab.folder / "writing.gate").write_text("open")
    page.finished()
    assert page.cell(3).locator(".agf-problem").count() == 0
    assert not [error for error in page.errors if "agf" in error]


def test_a_blank_line_is_completed_with_what_may_stand_there(opened: Open) -> None:
    page = opened(SETUP, "", "")
    page.run(0)
    for cell, typed, item, doc in (
        (1, "%%pipeline\npipeline: p\nsteps:\n", "- for_each:", "key · runs a step once per item"),
        (2, "%%policy\nid: agf.loop\nconfig:\nsteps: []\n", "max_iterations:", "key · the most rounds"),
    ):
        page.type(cell, typed)
        page.press("Control+Space")
        row = page.page.locator(f".jp-Completer-item:has-text('{item}')")
        row.filter(has_text=doc).wait_for()
        page.picture(f"writing-blank-{cell}")
        row.click()
        assert item in page.source(cell)


def test_the_next_step_is_completed_where_enter_leads(opened: Open) -> None:
    page = opened(SETUP, "%%pipeline\npipeline: p\nsteps:")
    page.run(0)
    page.type(1, "\n- tool: {name: fetch, args: {url: x}, output: orders}\n")
    page.press("Control+Space")
    rows = page.page.locator(".jp-Completer-item")
    rows.filter(has_text="- transform:").wait_for()
    page.picture("writing-next-step")
    assert all("- " in row for row in rows.all_inner_texts()[:3])
    page.press("Escape")
    page.type(1, '- transform: {value: "count(or')
    page.press("Control+Space")
    rows.filter(has_text="orders").wait_for()
    page.picture("writing-begun-name")
    assert len(rows.all_inner_texts()) == 1
    assert page.source(1).splitlines()[-1] == '  - transform: {value: "count(or'


def test_a_cell_of_an_opened_notebook_is_underlined_before_it_is_edited(opened: Open) -> None:
    later = TYPED.replace("fetsh", "registered_by_a_later_cell")
    page = opened(SETUP, TYPED.replace("tool", "tol"), later, "x = 1")
    page.run(0)
    page.cell(1).locator(".agf-problem").filter(has_text="tol").wait_for()
    page.run(3)
    assert page.cell(2).locator(".agf-problem").count() == 0, "the cell that registers it may not have run"
    page.type(2, " ")
    page.cell(2).locator(".agf-problem").filter(has_text="registered_by_a_later_cell").wait_for()


def test_a_name_that_is_nearly_a_known_one_is_underlined_in_a_cell_that_nobody_edited(opened: Open) -> None:
    page = opened(SETUP, TYPED)
    page.run(0)
    page.cell(1).locator(".agf-warning").filter(has_text="fetsh").wait_for()
    assert page.cell(0).locator(".agf-problem").count() == 0


def test_a_completion_offers_only_what_begins_with_the_word(opened: Open) -> None:
    page = opened(SETUP, "")
    page.run(0)
    page.type(1, "%%pipeline mine\nsteps:\n- ")
    page.type(1, "tool: {name: fe")
    page.press("Control+Space")
    items = page.page.locator(".jp-Completer-item")
    items.filter(has_text="fetch").wait_for()
    assert [item.split()[0] for item in items.all_inner_texts() if "fetch" not in item] == []


def test_shift_tab_shows_its_text_once(opened: Open) -> None:
    page = opened(SETUP, TYPED)
    page.run(0)
    word = page.cell(1).locator(".cm-line").nth(3).get_by_text("tool", exact=True)
    hover = page.page.locator(".cm-tooltip-hover")
    word.hover()
    hover.filter(has_text="Calls a registered tool").wait_for()
    word.click()
    page.press("Shift+Tab")
    page.page.locator(".jp-Tooltip").filter(has_text="Calls a registered tool").wait_for()
    hover.wait_for(state="detached")


EDIT_TOGETHER = """([cells, text]) => {
  const { content } = window.jupyterapp.shell.currentWidget;
  for (const cell of cells) content.widgets[cell].model.sharedModel.setSource(text);
}"""
NOTE_LOOKS = """cell => {
  const { editor } = window.jupyterapp.shell.currentWidget.content.widgets[cell].editor;
  const { dispatch } = editor;
  window.agfLooks = 0;
  editor.dispatch = (...given) => {
    window.agfLooks += Array.isArray(given[0]?.effects?.value);
    return dispatch.apply(editor, given);
  };
}"""
"""Counts the times that the editor of a cell was told what is wrong in it."""
KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"
MISTAKEN = TYPED.replace("tool", "tol")


@pytest.mark.parametrize("subshells", ["perCommTarget", "disabled"])
def test_cells_that_are_edited_or_opened_together_are_all_underlined(opened: Open, subshells: str) -> None:
    page = opened(SETUP, MISTAKEN, MISTAKEN, "", "")
    page.page.evaluate(f"it => {{ {KERNEL}.commsOverSubshells = it }}", subshells)
    page.run(0)
    page.page.evaluate(EDIT_TOGETHER, [[3, 4], MISTAKEN])
    for cell in (1, 2, 3, 4):
        page.cell(cell).locator(".agf-problem").filter(has_text="tol").wait_for()


def test_a_cell_that_was_edited_while_another_client_ran_something_is_underlined_afterwards(
    opened: Open,
) -> None:
    page = opened(SETUP, "")
    page.page.evaluate(f"() => {{ {KERNEL}.commsOverSubshells = 'disabled' }}")
    page.run(0)
    page.page.evaluate(f"it => {{ {KERNEL}.requestExecute({{code: it}}) }}", WAITS)
    page.wait(f"{KERNEL}.status === 'busy'")
    page.page.evaluate(EDIT_TOGETHER, [[1], MISTAKEN])
    page.page.evaluate(NOTE_LOOKS, 1)
    page.wait("window.agfLooks > 0")
    assert page.cell(1).locator(".agf-problem").count() == 0
    (page.lab.folder / "writing.gate").write_text("open")
    page.cell(1).locator(".agf-problem").filter(has_text="tol").wait_for()


NOTE_WAIT = """() => {
  const { node } = window.jupyterapp.shell.currentWidget.content.widgets[1];
  let typed = 0;
  node.addEventListener("keydown", () => { typed = performance.now(); window.agfWaits = []; }, true);
  new MutationObserver(() => {
    for (const mark of node.querySelectorAll(".agf-problem")) {
      const text = mark.textContent, { agfWaits: waits } = window;
      if (!waits.some(([other]) => other === text)) waits.push([text, performance.now() - typed]);
    }
  }).observe(node, { subtree: true, childList: true, attributes: true });
}"""
"""Keeps each underlined text with the milliseconds since the last key."""


def test_a_word_is_underlined_when_it_is_written(opened: Open) -> None:
    page = opened(SETUP, "")
    page.run(0)
    page.type(1, "%%pipeline\npipeline: p\nsteps:\n- tol: 1\n- tool: {name: fets")
    page.page.evaluate(NOTE_WAIT)
    page.press("h", "}")
    page.wait("window.agfWaits?.some(([text]) => text.includes('fetsh'))")
    (first, _), *_, (last, wait) = page.page.evaluate("window.agfWaits")
    assert (first, "fetsh" in last, wait >= 1200) == ("tol", True, True)
    page.press("i", "ArrowUp")
    page.cell(1).locator(".agf-problem").filter(has_text="i").wait_for()


def test_a_completion_has_no_other_words_of_the_cell(opened: Open) -> None:
    define = "import agf_magics\nagf_magics.define('pipeline: two words\\nsteps: [{transform: {value: ctx.a}}]')"
    page = opened(f"{SETUP}\n{define}", "", "", "")
    page.run(0)
    items = page.page.locator(".jp-Completer-item")
    for cell, (typed, offered) in enumerate([
        ("%%pipeline p\nsteps:\n- tool:\n    ", ["name:", "args:", "schema:", "on_error:", "output:"]),
        ("%run_pipeline 'two w", ["two words'"]),
        ("x = %run_pipeline 'two words' --score ", ["fetch", "'two words'"]),
    ], 1):  # fmt: skip
        page.type(cell, typed)
        page.press("Control+Space" if "\n" in typed else "Tab")
        items.first.wait_for()
        assert [item.split("\n")[1] for item in items.all_inner_texts()] == offered
        page.picture(f"writing-only-what-fits-{cell}")
        items.last.click()
        assert page.source(cell).endswith(("output: ", "'two words'"))
