"""What a row and the panel show where there is little room, at the width of a notebook with the sidebar open."""

from __future__ import annotations

import os

import pytest

from tests.browser.harness import EXPLORERS, Lab, Open

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
%config AgfMagics.journal = "room.sqlite"
import asyncio
import agf_magics as agf
from agf_magics import tool
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

orders = list(range(400))

@tool
def lookup_order(order_id: str) -> dict:
    return {"id": order_id}

@tool
def lookup_customer(customer_id: str) -> dict:
    return {"id": customer_id}

@tool
async def enrich(order: int, rates: dict) -> dict:
    if order == 3:
        raise ValueError("the customer of this order is not in the warehouse")
    if order > 20:
        with await asyncio.to_thread(open, "ends") as fifo:
            fifo.read()
    return {"order": order}

@tool
def write_table(rows: list, table: str, mode: str) -> int:
    raise ConnectionError(f"the warehouse refused the table {table!r}")

WORDS = "The lamp arrived broken, so you get the full price back, and we are sorry. The money is on its way"

async def talk(messages, info):
    if len(messages) == 1:
        yield {0: DeltaToolCall(name="lookup_order", json_args='{"order_id": "A-1009"}', tool_call_id="c1"),
               1: DeltaToolCall(name="lookup_customer", json_args='{"customer_id": "C-7"}', tool_call_id="c2")}
        return
    yield WORDS
    with await asyncio.to_thread(open, "ends") as fifo:
        fifo.read()

agf.registry.choose(FunctionModel(stream_function=talk, model_name="clerk"))"""
FAN = """%%pipeline --run --set orders=$orders
pipeline: nightly
steps:
- for_each:
    over: ctx.orders
    on_error: continue
    max_parallel: 4
    do: {tool: {name: enrich, args: {order: !expr item, rates: {EUR: 1.0, USD: 1.08}}}}
    collect: {transform: {value: pipe}}
    output: enriched_orders
- tool: {name: write_table, args: {rows: !expr enriched_orders, table: orders_daily, mode: replaced}}"""
ASK = """%%pipeline --run
pipeline: support
steps:
- agent: {prompt: "Answer this mail", capabilities: {tools: [lookup_order, lookup_customer]}, output: reply}"""

CUT = """row => {
  const [name, label] = ['.name', '.name b'].map(part => row.querySelector(part).getBoundingClientRect());
  return Math.max(0, label.right - name.right);
}"""
"""The pixels of the name of a row that are not in sight."""
END = """row => {
  const [outer, inner] = ['.counted', '.counted bdi'].map(part => row.querySelector(part).getBoundingClientRect());
  return inner.right <= outer.right + 1 && inner.left < outer.left && outer.width > 120;
}"""
"""Whether the end of what arrives is in sight, with its beginning cut off."""
PARTS = f"""{EXPLORERS}.map(root => ['.main', '.panel'].map(part => root.querySelector(part).getBoundingClientRect()))
  .some(([main, panel]) => panel.top >= main.bottom - 2)"""
"""Whether a panel is below its list."""


def test_a_fan_out_that_runs_has_its_whole_name_and_its_calls_and_errors_the_whole_width(
    opened: Open, lab: Lab
) -> None:
    if not (lab.folder / "ends").exists():
        os.mkfifo(lab.folder / "ends")
    page = opened(SETUP, FAN)
    page.run(0)
    page.run(1, wait=False)
    explorer = page.explorer(1)
    row = explorer.locator(".row", has_text="enriched_orders").first
    row.locator(".counted", has_text="1 failed, 4 running of 400").wait_for()
    assert row.evaluate(CUT) == 0
    page.picture("room-fan", 1)
    page.interrupt()
    page.finished()
    row.click()
    panel = explorer.locator(".panel")
    panel.locator("th", has_text="input").wait_for()  # not hidden
    page.wait(PARTS)
    page.picture("room-calls", 1)


def test_the_carets_of_an_error_are_below_their_words(opened: Open) -> None:
    page = opened(SETUP, FAN.replace("$orders", "[0,1,2,3]"))
    page.run_all()
    panel = page.explorer(1).locator(".panel")
    panel.locator(".excerpt").first.wait_for()
    page.wait(PARTS)
    cut = "nodes => nodes.filter(node => node.scrollWidth > node.clientWidth).map(node => node.textContent)"
    assert panel.locator(".excerpt").evaluate_all(cut) == []
    page.picture("room-error", 1)


def test_rows_of_an_agent_say_what_it_does_now(opened: Open, lab: Lab) -> None:
    if not (lab.folder / "ends").exists():
        os.mkfifo(lab.folder / "ends")
    page = opened(SETUP, ASK)
    page.run(0)
    page.run(1, wait=False)
    explorer = page.explorer(1)
    row = explorer.locator(".row", has_text="on its way")
    row.wait_for()
    assert (
        row.locator(".name b").inner_text() == "request 1–2"
    )  # the time is that of both; the tools are in the next row
    assert row.evaluate(END)
    called = "1 call of lookup_order · 1 call of lookup_customer"
    assert explorer.locator(".row .name b").nth(2).inner_text().startswith(called)
    page.picture("room-agent", 1)
    page.interrupt()
    page.finished()


REFUSED = """%%pipeline --run --set orders=$orders
pipeline: refused_orders_of_today
steps:
- agent: {prompt: "Refuse", identity: picky, capabilities: {tools: [enrich, write_table]}, output: reply}
- for_each:
    over: ctx.orders
    on_error: continue
    do: {tool: {name: lookup_order, args: {order_id: !expr item}, on_error: continue}}
    collect: {transform: {value: pipe}}
    output: orders_that_were_found_today"""
PICKY = (
    SETUP.replace("orders = list(range(400))", "orders = list(range(60))")
    + """
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

def refuse(messages, info):
    asked = len(messages) // 2
    if asked == 3:
        return ModelResponse(parts=[TextPart("No.")])
    given = {"rows": [], "table": str(asked), "mode": "new"}
    calls = {"enrich": {"order": 3, "rates": {"n": asked}}, "write_table": given}
    return ModelResponse(parts=[ToolCallPart(*call) for call in calls.items()])

agf.model_agent("picky", model=FunctionModel(refuse))

@tool(name="lookup_order")
def found(order_id: int) -> int:
    if order_id == 7:
        raise KeyError(order_id)
    return order_id"""
)
WHOLE = "node => node.offsetWidth > 0 && node.scrollWidth <= node.clientWidth + 1"
"""Whether an element has room for its text."""


def test_failures_of_tools_are_counted_beside_a_name_that_is_cut(opened: Open) -> None:
    page = opened(PICKY, REFUSED)
    page.run_all()
    page.open_view(1, "Steps")
    explorer = page.explorer(1)
    tools = explorer.locator(".row", has_text="3 calls of enrich, 3 failed · 3 calls of write_table, 3 failed")
    tools.wait_for()
    assert tools.locator(".name").evaluate(WHOLE)
    for counts in ("60 ok of 60", "59 ok, 1 failed"):
        assert explorer.locator(".row .counted", has_text=counts).first.evaluate(WHOLE)
    page.picture("room-failures", 1)
    page.command("application:toggle-left-area")
    page.wait(f"{EXPLORERS}.every(root => root.host.offsetWidth > 900)")
    for part in (".title b", ".title .counts"):
        assert explorer.locator(part).evaluate(WHOLE)
    for state in explorer.locator(".row .state").all():
        assert state.evaluate(WHOLE)
    page.picture("room-failures-wide", 1)
