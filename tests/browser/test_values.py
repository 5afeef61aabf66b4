"""Values that belong to no call (of elements, accumulators and cases), and the search and order of the calls table."""

from __future__ import annotations

import pytest

from tests.browser.harness import Open

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
%config AgfMagics.journal = "runs.sqlite"
import agf_magics as agf
from agf_magics import tool

@tool
def add(a: int, b: int) -> int:
    return a + b

@tool
def check(n: int) -> int:
    if n == 7:
        raise ValueError("no sevens")
    return n * 100

agf.define("pipeline: even\\nsteps: [{transform: {value: 'item * 10'}}]")
agf.define("pipeline: odd\\nsteps: [{transform: {value: 'item + 1'}}]")"""

FLOW = """%%pipeline --run --set ns=[1,2,3,4,5,6,7,8,9]
pipeline: values
steps:
- for_each:
    over: ctx.ns
    on_error: abort
    do: {transform: {value: 'item * 2'}}
    collect: {transform: {value: 'pipe'}}
    output: doubled
- fold:
    over: ctx.ns
    init: '0'
    do: {tool: {name: add, args: {a: !expr acc, b: !expr item}}}
    output: total
- for_each:
    over: ctx.ns
    on_error: abort
    do:
      match:
        on: item == 2
        cases: {'True': {pipeline: even, pass: {item: item}}}
        default: {pipeline: odd, pass: {item: item}}
    collect: {transform: {value: 'pipe'}}
    output: matched
- match:
    on: ctx.total > 3
    cases: {'True': {pipeline: even, pass: {item: ctx.total}}}
    default: {pipeline: odd, pass: {item: ctx.total}}
    output: one
- for_each:
    over: ctx.ns
    on_error: continue
    do: {tool: {name: check, args: {n: !expr item}}}
    collect: {transform: {value: 'pipe'}}
    output: checked"""


def test_each_element_shows_what_went_in_and_out_and_calls_are_found_and_ordered(opened: Open) -> None:
    page = opened(SETUP, FLOW)
    page.run_all()
    explorer = page.explorer(1)
    explorer.locator("header >> text=! ok").wait_for()

    def table(row: str, part: str, *texts: str) -> None:
        explorer.locator(f".row[id='{row}']").click()
        rows = explorer.locator(f".panel h4:text-is('{part}') >> xpath=.. >> tr")
        for text in texts:
            rows.filter(has_text=text).first.wait_for()

    ids = explorer.locator(".row").evaluate_all(
        "rows => rows.map(row => [row.querySelector('i.id').textContent.trim(), row.id])"
    )
    row = dict(ids)
    table(row["steps[0]"], "Values", "elementitemoutput", "#236")  # the element with the number 2 is the value 3
    assert not explorer.locator(".panel h4:text-is('Calls')").is_visible()
    table(row["steps[0].do"], "Values", "#236")
    table(row["steps[1]"], "Values", "elementaccitemoutput", "#2336")
    page.picture("values-fold", 1)
    table(row["steps[2]"], "Values", "#12True20")
    table(row["steps[2].do"], "Values", "elementitemcaseoutput", "#12True20", "#01default2")
    page.picture("values-match", 1)
    explorer.locator(f".row[id='{row['steps[3]']}']").click()
    explorer.locator(".panel h4:text-is('Values') >> xpath=..", has_text="ctx.total45case: True").wait_for()
    table(row["steps[4]"], "Calls", "no sevens")
    assert not explorer.locator(".panel h4:text-is('Values')").is_visible()
    call_rows = explorer.locator(".panel tbody tr")
    assert call_rows.first.text_content().startswith("#6✗ failed")  # type: ignore[union-attr]
    heads = explorer.locator(".panel th")
    assert heads.all_inner_texts() == ["element", "state ▾", "took", "output or error", "input"]
    heads.locator("button:text-is('element')").click()
    explorer.locator(".panel tbody tr:first-child >> text=#0").wait_for()
    assert [row[:2] for row in call_rows.all_inner_texts()] == [f"#{number}" for number in range(9)]
    heads.locator("button:text-is('took')").click()
    explorer.locator(".panel th[aria-sort=descending]:has-text('took ▾')").wait_for()
    page.picture("values-calls", 1)
    explorer.locator("input[aria-label='Find a call']").fill('n": 5')
    explorer.locator("input[aria-label='Find a call']").press("Enter")
    explorer.locator(".panel >> text=1–1 of 1").wait_for()
    assert call_rows.count() == 1
    assert "#4" in (call_rows.first.text_content() or "")
    assert not page.errors


TABLE = """%%pipeline --run --set 'found=[{"id": 0, "price": 0.0}, {"id": 1, "price": 5.0}]'
pipeline: divides
steps:
- transform: {value: "map(found, r -> 10 / (r.price - 5))", output: dear}"""


def test_a_table_that_a_failed_transform_read_is_a_table(opened: Open) -> None:
    page = opened(SETUP, TABLE)
    page.run_all()
    panel = page.explorer(1).locator(".panel")
    read = panel.locator("h4:text-is('Values') >> xpath=..")
    read.locator("code", has_text="found").wait_for()
    assert read.locator("summary").inner_text() == "2 rows"
    assert read.locator("td").all_inner_texts() == ["0", "0.0", "1", "5.0"]
    page.picture("values-table", 1)
    assert not page.errors
