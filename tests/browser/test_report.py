"""A report that is opened from the disk: as the explorer, as one page without scripts, and on paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import agf_magics as agf
from agf_magics.catalog import Registry
from agf_magics.settings.settings import current
from tests.browser.harness import PICTURES

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.main]

EVIL = "</script><img src=x onerror=\"document.title='evil'\"><script>document.title='evil'</script>"
NESTED = """\
pipeline: inner
steps:
- tool: {name: double, args: {x: !expr ctx.n}}
"""
FAN = """\
pipeline: fan
steps:
- for_each:
    over: ctx.numbers
    on_error: continue
    do: {tool: {name: double, args: {x: !expr item}}}
    collect: {transform: {value: pipe}}
    output: doubled
- call: {pipeline: inner, pass: {n: ctx.last}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    current.settings = replace(current.settings, journal=str(tmp_path / "runs.sqlite"))
    registry = Registry()

    @agf.tool(registry=registry)
    def double(x: int) -> Any:
        if x == 3:
            raise ValueError(f"three {EVIL}")
        return {"double": 2 * x, "evil": EVIL}

    agf.define(NESTED, registry=registry)
    run = agf.run(FAN, {"numbers": list(range(150)), "last": 3}, registry=registry, raises=False)
    return agf.report(run, tmp_path / "run.html")


def open_file(browser: Browser, file: Path, **how: Any) -> tuple[Page, list[str]]:
    """Open the file. Returns the page, and the list of all that it loaded or complained about."""
    context = browser.new_context(**how)
    page, requests = context.new_page(), list[str]()
    page.on("console", lambda message: requests.append(message.text))
    page.on("pageerror", lambda error: requests.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    return page, [url for url in requests if not url.startswith("data:image/")]


def test_the_explorer_answers_without_a_kernel(browser: Browser, file: Path) -> None:
    page, requests = open_file(browser, file)
    panel = page.get_by_role("region").locator(".panel")
    panel.get_by_text("three", exact=False).first.wait_for()
    page.screenshot(path=PICTURES / "report.png")
    page.get_by_role("treeitem").filter(has_text="steps[0].do").click()
    panel.get_by_text("1–100 of 150").wait_for()
    panel.get_by_role("button", name="Next page").click()
    panel.get_by_text("101–150 of 150").wait_for()
    panel.get_by_role("button", name="Only the 1 failed").click()
    panel.locator("tbody tr").first.click()
    panel.locator(".error").first.wait_for()
    page.get_by_role("tab", name="Timeline").click()
    page.locator("canvas").wait_for()
    page.get_by_role("tab", name="Picture").click()
    call = page.get_by_role("group").get_by_role("button", name="inner")
    call.first.dblclick()
    page.locator(".crumbs b:text-is('inner')").wait_for()
    page.screenshot(path=PICTURES / "report-picture.png")
    page.get_by_role("button", name="State over time").click()
    where = page.locator(".time .where")
    where.get_by_text("moment 2 of 2 · after doubled").wait_for()
    page.locator(".time summary", has_text="doubled").wait_for()
    page.get_by_role("button", name="One moment back").click()
    where.get_by_text("moment 1 of 2 · start").wait_for()
    assert page.locator(".time option").all_inner_texts() == ["the moment before", "the start"]
    page.screenshot(path=PICTURES / "report-moment.png")
    assert page.title() == "fan · failed"
    assert requests == [file.as_uri()]


def test_without_scripts_and_on_paper_everything_is_there(browser: Browser, file: Path) -> None:
    page, _ = open_file(browser, file, java_script_enabled=False, color_scheme="dark")
    text = page.locator("#agf-page").inner_text()
    for part in ("doubled #3", "#149\t✓ ok", "three </script>", "steps[1]/steps[0]", "double: 6", "pipeline: fan"):
        assert part in text, part
    page.screenshot(path=PICTURES / "report-without-scripts.png", full_page=True)
    assert not page.get_by_role("button", name="Show everything on one page").is_visible()
    page, _ = open_file(browser, file)
    assert not page.locator("#agf-page").is_visible()
    page.emulate_media(media="print")
    assert page.locator("#agf-page").is_visible()
    assert not page.locator("#agf-explorer").is_visible()
    page.emulate_media(media="screen", color_scheme="dark")
    page.get_by_role("button", name="Show everything on one page").click()
    assert page.locator("#agf-page").is_visible()


def test_the_rows_of_a_run_over_data_are_a_table_with_and_without_scripts(browser: Browser, tmp_path: Path) -> None:
    current.settings = replace(current.settings, journal=str(tmp_path / "runs.sqlite"))
    registry = Registry()

    @agf.tool(registry=registry)
    def double(x: int) -> Any:
        if x in (3, 205):
            raise ValueError(f"no {x}")
        return {"double": 2 * x, "evil": EVIL}

    run = agf.run(NESTED, over=[{"n": number} for number in range(210)], registry=registry)
    run.table.label(1, "mine")
    file = agf.report(run, tmp_path / "rows.html")
    page, requests = open_file(browser, file)
    panel = page.get_by_role("region").locator(".panel")
    panel.get_by_text("1–50 of 200").wait_for()
    panel.get_by_text("The first 200 of 210 rows are in this report.").wait_for()
    assert panel.locator("tbody tr").nth(1).locator("td").all_inner_texts()[:3] == ["1", "mine", "ok"]
    assert panel.locator("tbody :is(button, input), th button").count() == 0
    for _ in range(3):
        panel.get_by_role("button", name="Next page").click()
    panel.get_by_text("151–200 of 200").wait_for()
    assert panel.get_by_role("button", name="Next page").is_disabled()
    panel.get_by_label("Rows that are shown").select_option("failed")
    panel.get_by_text("1–2 of 2").wait_for()
    page.screenshot(path=PICTURES / "report-rows.png")
    assert page.title() == "inner over rows · ok"
    assert requests == [file.as_uri()]
    page, _ = open_file(browser, file, java_script_enabled=False, color_scheme="dark")
    table = page.locator("h2:text-is('Rows') + div table")
    assert table.locator("tbody tr").count() == 201
    assert table.locator("tr", has_text="no 205").is_visible()
    page.screenshot(path=PICTURES / "report-rows-without-scripts.png")
