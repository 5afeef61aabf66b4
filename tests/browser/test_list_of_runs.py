"""The list of `%runs` in the page: its fields filter all pages, and a run opens where the person looks."""

from __future__ import annotations

import pytest

from tests.browser.harness import OUTPUT, Notebook, Open

pytestmark = pytest.mark.browser

RUNS = """%load_ext agf_magics
import secrets, agf_magics as agf
get_ipython().run_line_magic("config", f"AgfMagics.journal = 'listed-{secrets.token_hex(4)}.sqlite'")  # its own runs
for flow in 12 * ["good"] + ["bad"] + 12 * ["good"]:
    value = "1 / 0" if flow == "bad" else "1"
    try:
        agf.run(f"{{pipeline: {flow}, steps: [{{transform: {{value: '{value}'}}}}]}}", registry=agf.Registry())
    except agf.StepError:
        pass"""


def in_both_themes(page: Notebook, name: str) -> None:
    for theme in ("Dark", "Light"):
        page.theme(theme)
        page.picture(f"list-of-runs-{name}-{theme.lower()}")


def test_the_fields_of_a_list_of_runs_filter_all_its_pages(opened: Open) -> None:
    page = opened(RUNS, "%runs --limit 5", "%runs --name good")
    page.run_all()
    runs = page.explorer(1)
    runs.locator("text=1–5 of 25 runs").wait_for()
    runs.locator("button:text-is('›')").click()
    runs.locator("text=6–10 of 25 runs").wait_for()
    runs.locator("[aria-label=Status]").focus()
    page.press("Shift+Tab")
    page.page.keyboard.type("BAD zero")  # it is on another page; the error has the second word
    runs.locator("text=1–1 of 1 run (25 in all)").wait_for()
    assert runs.locator("tbody .link").inner_text().startswith("bad-13-")
    in_both_themes(page, "filtered")
    runs.locator("[aria-label='Filter runs']").fill("")
    runs.locator("text=1–5 of 25 runs").wait_for()
    runs.locator("[aria-label=Status]").select_option("failed")
    runs.locator("text=1–1 of 1 run (25 in all)").wait_for()
    page.explorer(2).locator("[aria-label=Status]").select_option("failed")  # the line has chosen already
    page.explorer(2).locator("text=no run fits (24 in all)").wait_for()
    (saved,) = page.save().cells[1].outputs
    assert "next: <code>%runs --limit 5 --page 2</code>" in saved.data["text/html"]
    assert not page.errors


def test_a_run_of_a_list_opens_below_its_row_and_closes(opened: Open) -> None:
    page = opened(RUNS, "%runs --limit 25", "")
    page.run_all()
    runs = page.explorer(1)
    row = runs.locator("tbody tr").nth(23)
    row.locator(".link").click()
    inner = page.output(1).locator(".agf-run .agf-run")
    inner.locator(".row").first.wait_for()
    below = "row => row.nextElementSibling.getBoundingClientRect().top - row.getBoundingClientRect().bottom"
    assert abs(row.evaluate(below)) < 1
    page.wait(f"{OUTPUT}.querySelector('.agf-run .agf-run').getBoundingClientRect().bottom <= innerHeight", [1])
    in_both_themes(page, "open")
    inner.locator(".explorer").evaluate("node => { node.isTheSame = true; }")
    runs.locator("[aria-label='Filter runs']").fill("bad")
    runs.locator("text=1–1 of 1 run (25 in all)").wait_for()
    assert inner.locator(".explorer").evaluate("node => node.isTheSame && node.offsetHeight > 0")  # it stays open
    runs.locator("[aria-label='Filter runs']").fill("")
    runs.locator("text=1–25 of 25 runs").wait_for()
    runs.locator("button:text-is('Close')").click()
    inner.wait_for(state="detached")
    assert row.locator(".link").evaluate("link => link === link.getRootNode().activeElement")
    assert runs.locator("tbody tr").count() == 25
    assert not page.errors
