"""The header and the details of a run: nothing that matters is cut, nothing jumps, and Escape goes back."""

from __future__ import annotations

import pytest

from tests.browser.harness import Open

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
import secrets
import agf_magics as agf
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
get_ipython().run_line_magic("config", f"AgfMagics.journal = 'details-{secrets.token_hex(4)}.sqlite'")
agf.registry.choose(FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart("seven")]), model_name="figs"))

@agf.tool
def enrich(order: int) -> int:
    if order == 7:
        raise ValueError("no")
    return order"""
RUN = """%%pipeline --run --set orders=[1,2,3,7,8]
pipeline: quarterly_report_of_all_orders
steps:
- agent: {prompt: "What do figs cost?", output: summary_of_the_quarterly_report_of_the_northern_region}
- agent: {prompt: "What do apples cost?", output: summary_of_the_quarterly_report_of_the_southern_region}
- for_each:
    over: ctx.orders
    on_error: continue
    do: {tool: {name: enrich, args: {order: !expr item}}}
    collect: {transform: {value: pipe}}
    output: rich"""
FOCUS = """() => {
    let node = document.activeElement;
    while (node.shadowRoot?.activeElement) node = node.shadowRoot.activeElement;
    return `${node.tagName} ${node.className} ${node.textContent.slice(0, 20)}`.trim();
}"""
PLACE = "node => node.getBoundingClientRect().top"


def test_the_header_shows_the_cost_and_the_details_stay_where_they_are(opened: Open) -> None:
    page = opened(SETUP, RUN)
    page.run_all()
    explorer = page.explorer(1)
    explorer.locator("header", has_text="cost unknown").wait_for()
    assert explorer.locator(".titles").evaluate("node => node.scrollWidth <= node.clientWidth")
    assert explorer.locator(".title .counts").evaluate("node => getComputedStyle(node).textOverflow !== 'ellipsis'")
    for row in explorer.locator(".row").all():  # the time at its end is in sight, also beside a long name
        assert row.evaluate("node => node.scrollWidth <= node.clientWidth")
    for theme in ("Dark", "Light"):
        page.theme(theme)
        page.picture(f"details-{theme.lower()}", 1)
    tops = []
    panel = explorer.locator(".panel")
    for row in explorer.locator(".row").all():
        row.click()
        panel.locator("h4").first.wait_for()
        tops.append(round(panel.evaluate(PLACE) - explorer.evaluate(PLACE)))
    assert len({*tops}) == 1
    page.open_view(1, "Timeline")
    names = explorer.locator(".row .name")
    assert [names.nth(i).inner_text().split("…")[-1] for i in (0, 1)] == ["northern_region", "southern_region"]
    page.picture("details-timeline", 1)
    assert not page.errors


def test_escape_closes_what_is_open_and_the_focus_goes_back(opened: Open) -> None:
    page = opened(SETUP, RUN, RUN, "%runs")
    page.run_all()
    explorer = page.explorer(1)
    panel = explorer.locator(".panel")
    explorer.locator(".row", has_text="enrich").click()
    panel.locator("tr[tabindex]").first.wait_for()
    explorer.locator(".list").focus()
    page.press("Enter")
    assert page.page.evaluate(FOCUS).startswith("DIV panel")
    page.press("Escape")
    assert page.page.evaluate(FOCUS).startswith("DIV list")
    panel.locator("tr[tabindex]").nth(1).click()
    panel.locator("button:text-is('‹ Calls')").wait_for()
    page.press("Escape")
    panel.locator("tr[tabindex]:focus").wait_for()
    assert page.page.evaluate(FOCUS).startswith("TR  #0")
    time = explorer.locator("button:text-is('State over time')")
    time.click()
    explorer.locator(".time .bar-of-time").wait_for()
    page.press("Escape")
    explorer.locator(".time").wait_for(state="hidden")
    assert time.evaluate("node => node === node.getRootNode().activeElement")
    runs = page.explorer(3)
    for box in runs.locator("tbody input[type=checkbox]").all():
        box.check()
    runs.locator("button:text-is('Compare')").click()
    runs.locator("text=Comparison").wait_for()
    page.press("Escape")
    runs.locator("text=Comparison").wait_for(state="detached")
    runs.locator("tbody .link").first.click()
    page.output(3).locator(".agf-run .agf-run .row").first.click()
    page.press("Escape")
    page.output(3).locator(".agf-run .agf-run").wait_for(state="detached")
    assert page.page.evaluate(FOCUS).startswith("BUTTON link quarterly")
    assert not page.errors
