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
    explorer.locator(".panel tr:has(td:text-is('#1'))").click()  # all of what one element read and gave
    values = explorer.locator(".panel h3:text-is('#1') >> xpath=..")
    for text in ("item2", "case: True", "Output20"):
        values.filter(has_text=text).wait_for()
    explorer.locator(".panel button:text-is('‹ Values')").click()
    table(row["steps[2].do"], "Values", "#01default2")
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


RECORDS = """%%pipeline --run --set ns=[1,2]
pipeline: records
steps:
- for_each:
    over: ctx.ns
    on_error: abort
    do: {transform: {value: '{n: item, both: [item, item], words: "some text"}'}}
    collect: {transform: {value: pipe}}
    output: made"""


def test_the_parts_of_a_value_in_a_table_do_not_run_together(opened: Open) -> None:
    page = opened(SETUP, RECORDS)
    page.run_all()
    panel = page.open_step(1, "made")
    panel.locator("td:text-is('n: 1, both: [1, 1], words: \"some text\"')").wait_for()
    page.picture("values-records", 1)


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


LARGE = """%load_ext agf_magics
%config AgfMagics.journal = "runs.sqlite"
import agf_magics as agf, pandas
from agf_magics import tool

frame = pandas.DataFrame({"n": range(55), "half": [n / 2 for n in range(55)]})
frame.index = pandas.Index(range(100, 155), name="key")
rows = [{"n": n} for n in range(60)]

@tool
def grow(value: object) -> object:
    return value.assign(double=value.n * 2)

@tool
def listed(value: object) -> list:
    return value.to_dict("records")

@tool
def text(value: list) -> str:
    return "line\\n" * 100

@tool
def length(value: str) -> int:
    return len(value)

@tool
def row(n: int, value: object) -> dict:
    return {"n": n, "text": "row"}

agf.define("pipeline: each\\nsteps: [{tool: {name: row, args: {n: !expr ctx.n, value: !expr ctx.value}}}]")"""

CHAIN = """%%pipeline --run --set value=$frame
pipeline: chain
steps:
- tool: {name: grow, args: {value: !expr ctx.value}, output: grown}
- tool: {name: listed, args: {value: !expr grown}, output: rows}
- tool: {name: text, args: {value: !expr rows}, output: lines}
- tool: {name: length, args: {value: !expr lines}, output: size}"""

BELOW = "node => node.getBoundingClientRect().top - node.closest('.panel').getBoundingClientRect().top"
"""Pixels from the top of the panel."""


def test_what_came_of_a_step_is_in_sight_whatever_went_in(opened: Open) -> None:
    page = opened(LARGE, CHAIN, "%run_pipeline each --over $rows --set value=$frame")
    page.run_all()
    explorer = page.explorer(1)
    for number, name in enumerate(("grown", "rows", "lines", "size")):
        explorer.locator(".row").nth(number).click()
        panel = explorer.locator(f".panel:has(> h3:text-is('{name}'))")
        panel.locator("h4:text-is('Input')").wait_for()
        assert panel.locator("h4").first.inner_text() == "Output"
        assert panel.locator("h4").first.evaluate(BELOW) < 130
    # A frame is the same table as input and as output.
    explorer.locator(".row").first.click()
    explorer.locator(".panel:has(> h3:text-is('grown')) h4:text-is('Input')").wait_for()
    tables = explorer.locator(".panel table")
    for table in (tables.first, tables.last):
        assert table.locator("tbody tr").first.locator("td").all_inner_texts()[:3] == ["100", "0", "0.0"]
        assert table.locator("td.index").count() == table.locator("tbody tr").count() == 20
        assert table.locator("th.number").all_inner_texts()[:3] == ["key", "n", "half"]
    page.picture("frames", 1)
    # The calls of a row that is opened are in sight, although the step has tables, too.
    explorer = page.explorer(2)
    explorer.locator("table.rows tbody tr button:text-is('40')").click()
    explorer.locator(".panel b:text-is('#40')").wait_for()
    called = explorer.locator(".panel td:has-text('n: 40, text')")
    called.wait_for()
    height = explorer.locator(".panel").evaluate("node => node.clientHeight")
    assert 0 < called.evaluate(BELOW) < height - 40
    page.picture("frames-row", 2)
    assert not page.errors
