"""The explorer's table of a run over a table: pages, order, filters, labels, and the calls of a row."""

from __future__ import annotations

import pytest

from tests.browser.harness import Open

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
%config AgfMagics.journal = "runs.sqlite"
import agf_magics as agf
from agf_magics import tool

cut = 3
@tool
def size(name: str) -> dict:
    if name == "n7":
        raise ValueError("no sevens")
    return {"length": len(name) * 10 + int(name[1:]) % cut, "note": "<b>bold</b>"}

agf.define("pipeline: sizes\\nsteps: [{tool: {name: size, args: {name: !expr ctx.name}}}]")
rows = [{"name": f"n{i}"} for i in range(120)]
first = agf.run("sizes", over=rows)
cut = 4"""

RUN = """%run_pipeline sizes --over $rows --out r"""
SCORE = """r.table.add_column("quality", [None, float("nan"), "text", *[i / 100 for i in range(117)]])"""
LABELS = "print([agf.runs(r.run_id).table[place]['label'] for place in (3, 4)])"


@pytest.mark.main
def test_a_table_is_paged_sorted_filtered_and_labelled(opened: Open) -> None:
    page = opened(SETUP, RUN, SCORE, LABELS)
    page.run_all()
    explorer = page.explorer(1)
    explorer.locator("header >> text=! ok").wait_for()
    panel = explorer.locator(".panel")
    rows = panel.locator("table.rows tbody tr")
    where = panel.locator(".actions >> [role=status]")
    panel.locator("text=1–50 of 120").wait_for()
    assert rows.count() == 50
    # How a row ended is in sight, and so is why.
    assert rows.nth(3).locator("td").all_inner_texts()[:5] == ["3", "", "ok", "", "23"]
    assert rows.nth(7).locator("td").all_inner_texts()[2:5] == ["failed", "ValueError: no sevens", ""]
    sides = "node => [...node.querySelectorAll('td')].slice(0, 4).map(cell => cell.getBoundingClientRect().right)"
    right = panel.evaluate("node => node.getBoundingClientRect().right")
    assert max(rows.nth(7).evaluate(sides)) < right
    page.picture("table", 1)
    # Go to the next page, then back by a new order.
    panel.locator("button[aria-label='Next page']").first.click()
    panel.locator("text=51–100 of 120").wait_for()
    panel.locator("th button:text-matches('^length')").click()
    panel.locator("th[aria-sort=ascending] button:text-matches('length ▴')").wait_for()
    panel.locator("th button:text-matches('^length')").click()
    panel.locator("th[aria-sort=descending] button:text-matches('length ▾')").wait_for()
    assert rows.first.text_content().find("43") > 0  # type: ignore[union-attr]
    # Filter scores below a number. A value that is not a number is not below it.
    panel.locator("th button:text-matches('^quality')").click()
    panel.locator("th[aria-sort=ascending] button:text-matches('quality')").wait_for()
    panel.locator("input[aria-label='Only rows below']").fill("0.05")
    panel.locator("input[aria-label='Only rows below']").press("Enter")
    panel.locator("text=1–5 of 5").wait_for()
    panel.locator("input[aria-label='Only rows below']").fill("")
    panel.locator("input[aria-label='Only rows below']").press("Enter")
    filter_of_rows = panel.locator("select[aria-label='Rows that are shown']")
    filter_of_rows.select_option("failed")
    panel.locator("text=1–1 of 1").wait_for()
    assert "no sevens" in (rows.first.text_content() or "")
    filter_of_rows.select_option("changed")
    where.filter(has_text="of 89").wait_for()  # n % 3 equals n % 4 for three of twelve numbers, and n7 failed twice
    filter_of_rows.select_option("")
    panel.locator("text=1–50 of 120").wait_for()
    panel.locator("th button:text-matches('^quality')").click()
    panel.locator("th button:text-matches('^quality')").click()  # back to the order of the table
    panel.locator("th[aria-sort]").wait_for(state="detached")
    # Labels, with HTML in one of them.
    for place, text in ((3, "good"), (4, "<img src=x onerror=alert(1)>")):
        field = rows.nth(place).locator("input")
        field.fill(text)
        field.press("Enter")
        panel.locator("input[title='saved with the run']").nth(place - 3).wait_for()
    page.picture("table-labels", 1)
    page.run(3)
    page.output(3).locator("text=['good', '<img src=x onerror=alert(1)>']").wait_for()
    # A row shows its calls in the same panel.
    rows.nth(5).locator("td button").first.click()
    panel.locator("b:text-is('#5')").wait_for()
    page.picture("table-row", 1)
    assert panel.locator("h4:text-is('Calls') >> xpath=.. >> tbody tr").count() == 1
    assert not page.errors
