"""What a person reads of a run: its times, its numbers, its comparison and its place in the list."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from agf_magics.notebook.explorer.widget_model import script
from agf_magics.pictures.amounts import duration
from tests.browser.harness import EXPLORERS, Lab, Notebook, Open

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
%config AgfMagics.progress_after = 0
import asyncio, secrets
get_ipython().run_line_magic("config", f"AgfMagics.journal = 'words-{secrets.token_hex(4)}.sqlite'")  # its own runs
from pathlib import Path
import agf_magics as agf
from agf_magics import tool

WORKS, TRIES = [], []

@tool
async def fetch() -> list:
    await asyncio.sleep(0.2)
    return [{"id": k, "price": 0.1 * 3 * k, "share": k / 3} for k in range(12)]

@tool
async def publish(amount: float) -> float:
    await asyncio.sleep(0.1)
    if not WORKS:
        raise RuntimeError("the service at the other end did not answer within thirty seconds, and its queue is full")
    return 2 * amount

@tool
async def flaky() -> str:
    TRIES.append(1)
    if len(TRIES) < 3:
        raise ConnectionError("the connection to the warehouse was closed by the other side before a reply arrived")
    return "a reply of the warehouse that is as long as the messages of the errors before it, and a little longer"

@tool
async def work(n: int) -> int:
    await asyncio.sleep(0.4)
    while n == 3 and not Path("go").exists():
        await asyncio.sleep(0.02)
    return n + 1"""

INVOICES = """%%pipeline --run
pipeline: invoices
steps:
- tool: {name: fetch, args: {}, output: records}
- transform: {value: "ctx.records", output: sorted}
- transform: {value: "0.1 + 0.2", output: amount}
- tool: {name: publish, args: {amount: !expr amount}, output: doubled}
- transform: {value: "{doubled: doubled, third: 1 / 3}", output: answer}"""

RETRIED = """%%pipeline --run
pipeline: retried
steps:
- tool: {name: flaky, args: {}, on_error: "retry(5)", output: a_reply_with_a_name_that_is_as_long_as_the_line_is_wide}
- transform: {value: "1", output: last}"""

ROUNDS = """%%graph rounds --run
state: {n: int}
variables: {n: 0}
nodes:
  add: {type: tool, tool: work, variables: {n: "{state.n}"}, state_key: n}
edges:
- {from: START, to: add}
- {from: add, to: add, condition: n < 5}
- {from: add, to: END, condition: else}"""

CUT = """nodes => nodes.filter(node => node.scrollWidth > node.clientWidth + 1).map(node => node.textContent)"""


def in_both_themes(page: Notebook, name: str, cell: int) -> None:
    for theme in ("Dark", "Light"):
        page.theme(theme)
        page.picture(f"words-{name}-{theme.lower()}", cell)


def resumed(page: Notebook) -> None:
    """The run of `INVOICES` in cell 1 fails and is resumed by its button."""
    page.run(0)
    page.run(1)
    page.run(2)
    page.explorer(1).locator("button:text-is('Resume')").click()
    page.explorer(1).locator("header >> text=✓ ok").wait_for()


def test_the_steps_of_a_resumed_run_follow_each_other_in_the_timeline(opened: Open) -> None:
    page = opened(SETUP, INVOICES, "WORKS.append(1)")
    resumed(page)
    page.open_view(1, "Timeline")
    bars = page.explorer(1).locator(".row .bar u")
    bars.nth(4).wait_for()
    places = [(bounds["x"], bounds["x"] + bounds["width"]) for bar in bars.all() if (bounds := bar.bounding_box())]
    assert len(places) == 5
    room = page.explorer(1).locator(".row .bar").first.bounding_box()
    assert room is not None
    for (begin, end), (after, _) in pairwise(places):
        assert room["x"] - 1 <= begin < end <= room["x"] + room["width"] + 1
        assert end <= after + 4  # a mark is two pixels wide
    # The attempt that failed before the run was resumed is red, and the one that succeeded green.
    red = """root => root.querySelectorAll('u[style*="var(--bad)"]').length === 1"""
    page.wait(f"{EXPLORERS}.some({red})")
    published = page.explorer(1).locator(".row:has(b:text-is('doubled')) u").get_attribute("style") or ""
    assert re.search(r"var\(--bad\).*transparent.*(#|rgb)", published)
    in_both_themes(page, "resumed", 1)
    # The first number of the axis is above the begin of the bars.
    axis = page.explorer(1).locator(".axis span").first.bounding_box()
    assert axis is not None
    assert abs(axis["x"] - room["x"]) <= 1
    assert not page.errors


@pytest.mark.parametrize(
    ("end", "labels"),
    [
        (0.003, ["0", "1 ms", "2 ms", "3 ms"]),
        (0.93, ["0", "200 ms", "400 ms", "600 ms", ""]),  # 800 ms would be cut at the edge
        (1.3, ["0", "0.5 s", "1.0 s"]),
        (47, ["0", "10 s", "20 s", "30 s", "40 s"]),
        (200, ["0", "1 min", "2 min", "3 min"]),
        (4000, ["0", "20 min", "40 min", "1 h"]),
        (20000, ["0", "1 h", "2 h", "3 h", "4 h", "5 h"]),
    ],
)
def test_the_times_of_an_axis_are_those_that_a_person_reads(opened: Open, end: float, labels: list[str]) -> None:
    page = opened(SETUP, INVOICES, "WORKS.append(1)")
    page.run(0)
    page.run(1)
    page.open_view(1, "Timeline")
    page.explorer(1).locator(".axis span").first.wait_for()
    ticks = page.page.evaluate(
        f"""end => {{
      const list = {EXPLORERS}[0].host.explorer.shown;
      Object.defineProperty(list.ticks, "clientWidth", {{ value: 56 * 6 }});
      list.drawAxis([0, end]);
      return [...list.ticks.children].map(tick => tick.textContent);
    }}""",
        end,
    )
    assert ticks == labels


def test_the_calls_of_a_loop_are_pieces_while_it_goes_on(opened: Open, lab: Lab) -> None:
    page = opened(SETUP, ROUNDS)
    page.run(0)
    page.run(1, wait=False)
    page.explorer(1)
    page.open_view(1, "Timeline")
    bar = page.explorer(1).locator(".row u[style*=transparent]")
    pieces = "root => (root.querySelector('.row u').style.background.match(/transparent/g) ?? []).length"
    page.wait(f"{EXPLORERS}.some(root => ({pieces})(root) === 9)")  # three calls, and one that goes on
    assert "running" in page.explorer(1).locator("header").inner_text()
    requests = page.page.evaluate(f"() => {EXPLORERS}[0].host.explorer.state.requests")
    page.page.evaluate(f"() => {{ for (let k = 0; k < 100; k++) {EXPLORERS}[0].host.explorer.draw(); }}")
    assert page.page.evaluate(f"() => {EXPLORERS}[0].host.explorer.state.requests") <= requests + 1
    page.picture("words-loop", 1)
    (lab.folder / "go").touch()
    page.finished()
    page.wait(f"{EXPLORERS}.some(root => ({pieces})(root) === 11)")
    assert "running" not in (bar.get_attribute("style") or "")
    assert not page.errors


LOST = f"""%%pipeline --run
pipeline: lost
steps:
- for_each:
    items: {[*range(40)]}
    max_parallel: 4
    on_error: continue
    do: {{tool: {{name: rare, args: {{n: !expr item}}, output: one}}}}
    collect: {{transform: {{value: pipe}}}}
    output: rares
- for_each:
    items: {[*range(40)]}
    on_error: continue
    do: {{transform: {{value: "1 / (item - 20)"}}}}
    collect: {{transform: {{value: pipe}}}}
    output: divided"""
RARE = """@tool
async def rare(n: int) -> int:
    await asyncio.sleep(0.05)
    if n == 20:
        raise ValueError("no such row")
    return n"""


def test_what_failed_of_a_fan_out_is_marked_at_its_time_in_the_timeline(opened: Open) -> None:
    page = opened(SETUP, RARE, LOST)
    page.run_all()
    page.open_view(2, "Timeline")
    paint = "row => [row.querySelector('b').textContent, row.querySelector('u').style.background]"
    paints = f"() => [...{EXPLORERS}[0].querySelectorAll('.row')].map({paint})"
    page.wait(f"({paints})().filter(([, paint]) => paint.includes('transparent')).length === 2")
    painted = dict(page.page.evaluate(paints))
    for name in ("rares", "one"):
        ((begin, end),) = re.findall(r"var\(--bad\) ([\d.]+)% max\(([\d.]+)%", painted[name])
        assert 30 < float(begin) < float(end) < 70  # half of the calls were before it
    assert "/ 4px" in painted["divided"]  # no call, so no time: a small mark
    in_both_themes(page, "lost", 2)
    assert not page.errors


def test_numbers_are_rounded_among_others_and_whole_where_the_pointer_is(opened: Open) -> None:
    page = opened(SETUP, INVOICES, "WORKS.append(1)")
    resumed(page)
    page.explorer(1).locator(".title").click()
    panel = page.explorer(1).locator(".panel")
    third = panel.locator("pre[title='0.3333333333333333']").first
    third.wait_for()
    assert third.inner_text() == "≈ 0.333333"
    assert panel.locator("summary", has_text="amount · 0.3").count() == 1
    page.open_step(1, "fetch").locator("td:text-is('0.3')").wait_for()
    assert not [text for text in panel.locator("td").all_inner_texts() if re.search(r"\d{10}", text)]
    page.open_step(1, "amount").locator("pre:text-is('0.30000000000000004')").wait_for()
    in_both_themes(page, "numbers", 1)


def test_a_comparison_marks_what_was_reused_and_names_the_steps_without_calls(opened: Open) -> None:
    page = opened(SETUP, INVOICES, "WORKS.append(1)", "%runs")
    resumed(page)
    page.open_step(1, "publish")
    page.explorer(1).locator("button:text-is('Run from here')").click()
    page.says(1, "the run above began from a step of it")
    page.run(3)
    runs = page.explorer(3)
    runs.locator("tr").nth(2).wait_for()
    for box in runs.locator("input[type=checkbox]").all():
        box.check()
    runs.locator("button:text-is('Compare')").click()
    row = runs.locator("tr:has(th:text-is('records'))")
    runs.locator("h4").last.wait_for()
    assert runs.locator("h4").last.inner_text() == "Steps"  # after the values and the definitions
    same = runs.locator("label", has_text="whose result is the same").locator("input")
    same.set_checked(False)
    row.wait_for(state="hidden")
    page.picture("compare-differs", 3)
    same.check()
    row.locator(".other", has_text="↺ reused").wait_for()
    steps = runs.locator("tr:has(.bars) th").all_inner_texts()
    assert steps == ["records", "doubled"]  # in the order of the flow, each by its name
    assert "sorted, amount, answer" in runs.locator(".hint", has_text="Without calls").inner_text()
    in_both_themes(page, "compare", 3)
    assert not page.errors


HALVES = """%%pipeline --run
pipeline: halves
steps:
- for_each:
    over: "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]"
    on_error: continue
    max_parallel: 1
    do: {tool: {name: half, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
    output: halved"""
HALF = """@tool
async def half(n: int) -> int:
    if n % 2:
        raise ValueError("it is odd")
    if n == 10 and not WORKS:
        await asyncio.Event().wait()
    return n // 2"""


@pytest.mark.parametrize("width", [1200, 1600])
def test_a_resumed_fan_out_says_what_was_dropped_and_that_results_were_reused(opened: Open, width: int) -> None:
    page = opened(SETUP, HALF, HALVES, "WORKS.append(1)", width=width)
    page.run(0)
    page.run(1)
    page.run(2, wait=False)
    page.says(2, "4 ok, 5 failed")
    page.explorer(2).locator("button:text-is('Cancel')").click()
    page.finished()
    page.run(3)
    page.explorer(2).locator("button:text-is('Resume')").click()
    page.says(2, "1 of 1 step")
    row = page.explorer(2).locator(".row", has_text="halved").first
    state = row.locator(".state")
    assert re.fullmatch(r"! ok, 6 dropped, ↺( \d+ reused)?", state.inner_text())
    assert state.evaluate("node => node.scrollWidth <= node.clientWidth")


def test_an_open_list_of_runs_goes_on(opened: Open) -> None:
    page = opened(SETUP, INVOICES, "WORKS.append(1)", "%runs", "1 + 1")
    page.run(0)
    page.run(1)
    page.run(3)
    runs = page.explorer(3)
    row = runs.locator("tr", has_text="invoices")
    row.locator("text=✗ failed").wait_for()
    assert "publish: RuntimeError: the service" in row.inner_text()
    runs.locator("input[type=checkbox]").check()
    ago = "root => Number(/(\\d+) s ago/.exec(root.querySelector('.runs')?.textContent)?.[1] ?? 0)"
    before = page.page.evaluate(f"() => Math.max(...{EXPLORERS}.map({ago}))")
    page.wait(f"Math.max(...{EXPLORERS}.map({ago})) > it", before)  # nothing runs meanwhile
    in_both_themes(page, "runs", 3)
    page.run(2)
    page.explorer(1).locator("button:text-is('Resume')").click()
    row.locator("text=✓ ok").wait_for()
    row.locator("text=resumed once").wait_for()
    assert runs.locator("input[type=checkbox]").is_checked()
    page.type(4, "%run_pipeline invoices --quiet", instead=True)
    page.run(4)
    runs.locator("text=1–2 of 2 runs").wait_for()
    in_both_themes(page, "runs-later", 3)
    assert "ago" not in str(page.save().cells[3].outputs)
    assert not page.errors


def test_no_line_of_a_panel_is_cut(opened: Open) -> None:
    page = opened(SETUP, RETRIED)
    page.run_all()
    panel = page.open_step(1, "flaky")
    panel.locator("h4:text-is('Attempts')").wait_for()
    assert panel.locator(".attempts td, .definition > *").evaluate_all(CUT) == []
    assert panel.locator(".attempts td:has-text('a little longer')").get_attribute("title")
    assert "gradient" in panel.evaluate("panel => getComputedStyle(panel).maskImage")
    assert panel.evaluate("panel => getComputedStyle(panel).paddingBottom") == "18px"
    page.explorer(1).locator(".row").first.wait_for()
    high = "list => parseFloat(getComputedStyle(list).maxHeight) % 24"
    assert page.explorer(1).locator(".list").evaluate(high) == 0
    in_both_themes(page, "attempts", 1)


def test_a_duration_has_the_same_words_in_python_and_in_the_page(browser: Browser) -> None:
    seconds = [0, 1e-9, 0.0004999, 0.0005, 0.0006, 0.0015, 0.0025, 0.9994, 0.9995, 0.99951, 1.25, 1.35, 59.94, 59.95]
    seconds += [60, 60.5, 61.5, 3599.4, 3599.5, 3600, 7260, 86_399.5, *(n * 0.0005 for n in range(3000))]
    function = re.search(r"^function duration.*?^}$", script(), re.MULTILINE | re.DOTALL)
    assert function is not None
    page = browser.new_page()
    words = page.evaluate(f"seconds => {{ {function[0]}; return seconds.map(duration); }}", seconds)
    page.close()
    assert words == [duration(each) for each in seconds]
