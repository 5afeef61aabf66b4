"""The lanes below the timeline: the calls of a step stand at their times on the axis."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.harness import EXPLORERS, Lab, Notebook, Open

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
%config AgfMagics.journal = "lanes.sqlite"
import time
from agf_magics import tool

WORKS = []

@tool
def paced(n: int) -> int:
    time.sleep(0.3 * (n + 1))
    if n == 2 and not WORKS:
        with open("GATE") as fifo:
            fifo.read()
        raise ValueError("no")
    return n"""
PACED = """%%pipeline
pipeline: paced
steps:
- tool: {name: paced, args: {n: 0}}
- for_each:
    items: [0, 1, 2]
    max_parallel: 2
    on_error: abort
    do: {tool: {name: paced, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}"""

PLACES = """root => {
  const unit = text => text.split(' ').reduce((sum, part, k, parts) =>
    k % 2 ? sum + parts[k - 1] * { ms: 1, s: 1e3, min: 6e4 }[part] : sum, 0);
  const axis = root.querySelector('.axis .bar').getBoundingClientRect();
  const tick = [...root.querySelectorAll('.axis span')].findLast(node => unit(node.textContent));
  const canvas = root.querySelector('.lanes canvas'), place = canvas.getBoundingClientRect();
  const pixels = y => canvas.getContext('2d').getImageData(0, y, canvas.width, 1).data;
  const data = pixels(Math.round(6 * canvas.height / canvas.clientHeight));
  const kind = x => data[4 * x + 3] < 128 ? 0 : data[4 * x] > 127 ? 2 : 1;
  const kinds = [0, ...[...Array(canvas.width).keys()].map(kind), 0];
  const changes = kinds.slice(1).map((kind, x) => [x, kinds[x], kind]).filter(([_, before, kind]) => before !== kind);
  const begins = changes.filter(([_, before, kind]) => kind).map(([x]) => x);
  const ends = changes.filter(([_, before]) => before).map(([x]) => x);
  const x = column => place.left - axis.left + column * place.width / canvas.width;
  const bar = [...root.querySelectorAll('.row u')].at(-1).getBoundingClientRect();
  return { scale: parseFloat(tick.style.left) / 100 * axis.width / unit(tick.textContent),
    bars: begins.map((begin, k) => [x(begin), x(ends[k])]),
    left: place.left, top: place.top, step: bar.left - axis.left };
}"""
"""Of the lanes: the pixels of a millisecond of the axis; in pixels of the axis the bars of the first lane and the begin
of the step; and the corner of the lanes in the page."""


def places(page: Notebook) -> Any:
    return page.page.evaluate(f"() => ({PLACES})({EXPLORERS}.at(-1))")


def grown(page: Notebook, scale: float) -> None:
    """Wait until a millisecond has much fewer pixels."""
    page.wait(f"({PLACES})({EXPLORERS}.at(-1)).scale < it", 0.6 * scale)


def assert_on_the_axis(page: Notebook, count: int) -> None:
    """The first lane has this many calls, each where the axis has the times that the lane says of it."""
    canvas = page.explorer(2).locator(".lanes canvas")
    page.wait(f"({PLACES})({EXPLORERS}.at(-1)).bars.length === it", count)
    for k in range(count):
        seen = places(page)
        begin, end = seen["bars"][k]
        page.page.mouse.move(seen["left"] + (begin + end) / 2, seen["top"] + 6)
        page.wait(f"{EXPLORERS}.at(-1).querySelector('.lanes canvas').title")
        times = re.findall(r"([\d.]+) (ms|s)\b", canvas.get_attribute("title") or "")
        took, began = (float(number) * {"ms": 1, "s": 1e3}[unit] for number, unit in times)
        seen = places(page)
        begin, end = seen["bars"][k]
        # A time of seconds has one digit after the point.
        exact = 5 + 50 * seen["scale"]
        assert begin == pytest.approx(seen["step"] + began * seen["scale"], abs=exact)
        assert end == pytest.approx(seen["step"] + (took + began) * seen["scale"], abs=exact)


@pytest.fixture
def gate(lab: Lab) -> Path:
    path = lab.folder / "lanes.gate"
    os.mkfifo(path)
    return path


def test_the_lanes_follow_the_axis_of_a_run_that_goes_on_ends_and_is_resumed(opened: Open, gate: Path) -> None:
    page = opened(SETUP.replace("GATE", gate.name), PACED, "%run_pipeline_async paced", "WORKS.append(1)")
    for cell in range(3):
        page.run(cell)
    page.open_view(2, "Timeline")
    explorer = page.explorer(2)
    explorer.locator(".row:has(b:text-is('paced'))").last.click()
    explorer.locator(".lanes canvas").wait_for()
    page.wait(f"({PLACES})({EXPLORERS}.at(-1)).bars.length === 1")
    grown(page, places(page)["scale"])
    assert_on_the_axis(page, 1)
    page.picture("lanes-live", 2)

    canvas = explorer.locator(".lanes .marked")
    bounds = canvas.bounding_box()
    assert bounds is not None
    page.page.mouse.move(bounds["x"] + 5, bounds["y"] + 6)
    page.page.mouse.down()
    page.page.mouse.move(bounds["x"] + bounds["width"] / 2, bounds["y"] + 6, steps=4)
    page.page.mouse.up()
    every, times = explorer.locator(".lanes button:text-is('All')"), explorer.locator(".lanes .hint")
    every.wait_for()
    zoomed = times.inner_text()
    grown(page, places(page)["scale"])
    assert times.inner_text() == zoomed
    every.click()
    assert_on_the_axis(page, 1)

    gate.write_text("open")
    explorer.locator("header >> text=failed").first.wait_for()
    page.wait(f"{EXPLORERS}.at(-1).querySelector('.lanes h4')?.textContent.includes('3 calls')")
    assert_on_the_axis(page, 2)
    page.run(3)
    explorer.locator("button:text-is('Resume')").click()
    explorer.locator("header >> text=✓ ok").wait_for()
    page.wait(f"{EXPLORERS}.at(-1).querySelector('.lanes h4')?.textContent.includes('4 calls')")
    assert_on_the_axis(page, 3)
    page.picture("lanes-resumed", 2)
    assert not page.errors


ROUNDS = """%%graph rounds --run
state: {n: int, m: int}
variables: {n: 0, m: 0}
nodes:
  work: {type: python, tool: rest, variables: {n: "{state.n}"}, state_key: n}
  wait: {type: python, tool: waits, variables: {n: "{state.n}"}, state_key: m}
  count: {type: passthrough, output: {n: "{state.n}"}}
edges:
- {from: START, to: work}
- {from: work, to: wait}
- {from: wait, to: count}
- {from: count, to: work, condition: n < 4}
- {from: count, to: END, condition: else}"""
REST = """%load_ext agf_magics
import time
from agf_magics import tool

@tool
def rest(n: int) -> int:
    time.sleep(0.2)
    return n + 1

@tool
def waits(n: int) -> int:
    time.sleep(0.6)
    return n"""


def test_the_bar_of_a_node_in_a_loop_is_filled_only_where_it_worked(opened: Open) -> None:
    page = opened(REST, ROUNDS)
    page.run_all()
    page.open_view(1, "Timeline")
    paint = f"[...{EXPLORERS}.at(-1).querySelectorAll('.row u')].map(bar => bar.style.background)"
    page.wait(f"{paint}.length === 3 && {paint}.every(paint => paint.includes('gradient'))")
    work, _, count = page.page.evaluate(f"() => {paint}")
    assert work.count("rgb(") == 2 * 4  # each call begins and ends
    assert "color-mix" in count  # two marks: the times between them are not known
    panel = page.open_step(1, "work")
    row = page.explorer(1).locator(".row", has_text="work")
    took, within = row.locator(".took").inner_text(), row.locator(".took").get_attribute("title")
    assert re.fullmatch(r"(8|9)\d\d ms within (2\.[5-9]|3\.\d) s", within or ""), within
    assert within.startswith(f"{took} within")  # type: ignore[union-attr]
    panel.locator(".facts", has_text=within).wait_for()
    page.explorer(1).locator(".lanes h4", has_text=f"work: 4 calls in 1 lane, {within}").wait_for()
    page.picture("lanes-rounds", 1)


TRIES = """%load_ext agf_magics
import asyncio, os
from agf_magics import tool

@tool
async def half(n: int) -> int:
    if n == 0:
        raise ValueError("no")
    await asyncio.sleep(0.5)
    while n == 5 and not os.path.exists("half-5"):
        await asyncio.sleep(0.01)
    return n

@tool
async def pause() -> int:
    await asyncio.sleep(0.8)
    return 1"""
PAIRS = """%%pipeline --run
pipeline: pairs
steps:
- for_each:
    items: [[0, 1, 2], [3, 4], [5, 6]]
    max_parallel: 1
    on_error: abort
    do: {call: {pipeline: pair, pass: {numbers: item}}}
    collect: {transform: {value: pipe}}"""
PAIR = """%%pipeline
pipeline: pair
steps:
- for_each:
    over: ctx.numbers
    on_error: continue
    do: {tool: {name: half, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
- tool: {name: pause}"""
HALF = f"""(() => {{
  const bar = [...{EXPLORERS}.at(-1).querySelectorAll('.row')].find(row => row.textContent.includes('half'))?.querySelector('u');
  return bar?.style.background ?? '';
}})()"""  # noqa: E501
FAILED = f"parseFloat(/--bad\\) ([^%]+)%/.exec({HALF})?.[1])"
"""Where the first failure stands on the bar, in percent."""


def test_calls_at_the_same_time_show_when_they_ran_and_when_they_failed(opened: Open, lab: Lab) -> None:
    (lab.folder / "half-5").unlink(missing_ok=True)
    page = opened(TRIES, PAIR, PAIRS)
    for cell in (0, 1):
        page.run(cell)
    page.run(2, wait=False)
    page.open_view(2, "Timeline")
    page.wait(f"{FAILED} < 5")  # while the run goes on
    page.picture("lanes-pairs-running", 2)
    (lab.folder / "half-5").touch()
    page.finished()
    page.explorer(2).locator("header >> text=ok").wait_for()
    page.wait(f"{FAILED} < 5 && {HALF}.split('#').length > 3")
    paint = page.page.evaluate(HALF)
    assert paint.count("#") == 3, paint  # pieces
    page.picture("lanes-pairs", 2)
    assert not page.errors
