"""What a user sees of a run that is larger than its place on the page: what is in sight, and what is cut off."""

from __future__ import annotations

import re
from itertools import pairwise, product

import pytest

from tests.browser.harness import EXPLORERS, Lab, Open

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
%config AgfMagics.journal = "runs.sqlite"
import asyncio, os, threading, time
import agf_magics as agf
from agf_magics import tool

WORKS, opened = False, threading.Event()

@tool
def part(n: int) -> int:
    time.sleep(0.004)
    return n

@tool
def waits(n: int) -> int:
    opened.wait(60)
    return n

@tool
async def clean(n: int) -> int:
    if n % 5 == 3:
        raise ValueError(f"bad record {n}")
    return n

@tool
async def holds(n: int) -> int:
    if n > 3:
        while not os.path.exists("rest"):
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.2 * n)  # the fourth ends when a pace is no guess any more
    return n

@tool
def fragile() -> int:
    if not WORKS:
        raise RuntimeError("the service is down")
    return 42"""

FAN = """%%pipeline --run --out result
pipeline: fan
steps:
- for_each:
    over: ctx.numbers
    on_error: continue
    do: {tool: {name: clean, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
    output: cleaned
- tool: {name: fragile, output: answer}"""
FAN = FAN.replace("--out result", "--out result --set numbers=$numbers")

HELD = """%%pipeline --run --set numbers=$numbers
pipeline: held
steps:
- for_each:
    over: ctx.numbers
    max_parallel: 40
    on_error: continue
    do: {tool: {name: holds, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
    output: kept"""


def chain(count: int, last: str) -> str:
    steps = [f"- tool: {{name: part, args: {{n: {n}}}, output: value_{n}}}" for n in range(count)]
    return "\n".join(["%%pipeline --run", "pipeline: chain", "steps:", *steps, f"- {last}"])


WHOLE = """
(host => {
  const root = host?.shadowRoot, seen = root?.querySelector('SELECTOR');
  if (!seen) return false;
  const place = seen.closest('.picture, .list, .panel') ?? root.querySelector('.explorer');
  const inner = seen.getBoundingClientRect(), outer = place.getBoundingClientRect();
  return inner.width > 0 && inner.left >= outer.left - 1 && inner.right <= outer.right + 1
    && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
})([...document.querySelectorAll('.jp-Notebook *')].findLast(node => node.shadowRoot?.querySelector('.explorer')))"""
"""Whether an element of the last explorer is completely in sight."""


def whole(selector: str) -> str:
    return WHOLE.strip().replace("SELECTOR", selector)


UNCUT = """calls => [calls, ...calls.querySelectorAll('td.bad')].every(node => node.scrollWidth <= node.clientWidth)
  && [...calls.querySelectorAll('tr:has(.bad)')].every(row => row.innerText.includes('bad record'))
  && [...calls.querySelectorAll('tr:not(:has(.bad))')].every(row => row.clientHeight < 30)"""
"""Whether no message of a failed call is cut off, nothing extends beyond the table, and other calls have one line."""
IN_SIGHT = """node => {
  const inner = node.getBoundingClientRect();
  const outers = [node.parentNode, node.closest('.list')].map(outer => outer.getBoundingClientRect());
  return inner.width > 0 && outers.every(outer => inner.left >= outer.left - 1 && inner.right <= outer.right + 1
    && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1);
}"""
"""Whether a part of a row is completely in sight. Parts without room move below the row."""


def test_failures_are_grouped_elements_counted_and_a_resumed_run_has_its_name(opened: Open) -> None:
    page = opened(SETUP, "numbers = list(range(40))", FAN, "WORKS = True", "print(result.status, result.output)")
    page.run_all()
    explorer = page.explorer(2)
    explorer.locator("header >> text=40 of 40 elements").wait_for()
    explorer.locator(".title").click()
    panel = explorer.locator(".panel")
    panel.locator("summary:has-text('8 × tool \\'clean\\' failed: ValueError: bad record …')").click()
    panel.locator("code:has-text('cleaned #3, cleaned #8')").wait_for()
    panel.locator("text=in Python: agf.runs('fan-").wait_for()
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    panel.locator("summary:has-text('cleaned')").click()
    panel.locator("button:text-is('Copy')").click()
    panel.locator("button:text-is('Copied')").wait_for()
    assert page.page.evaluate("() => navigator.clipboard.readText()").startswith("[\n 0,\n 1,\n 2,\n 4,")
    page.picture("seen-failures", 2)
    page.open_step(2, "for_each").locator("td:text-is('#3')").wait_for()
    assert panel.locator(".of-calls tr:has(td.bad)").count() == 8
    assert panel.locator(".of-calls").evaluate(UNCUT)
    page.picture("seen-calls", 2)
    page.run(3)
    explorer.locator("button:text-is('Resume')").click()
    explorer.locator("header >> text=! ok").wait_for()
    page.run(4)
    page.says(4, "ok 42")


def test_a_running_fan_out_has_its_numbers_and_its_pace_in_the_row_at_every_width(opened: Open, lab: Lab) -> None:
    page = opened(SETUP, "numbers = [n % 5 if n < 4 else 4 for n in range(40)]", HELD, width=1600)
    page.run_all(wait=False)
    explorer = page.explorer(2)
    pace = r"[\d.]+/s, .+ left"
    row = explorer.locator(".row", has_text="for_each")
    row.filter(has_text=re.compile(f"4 ok, 36 running of 40 · {pace}")).wait_for()
    explorer.locator("header", has_text=re.compile(f"4 of 40 elements · {pace}")).wait_for()
    row.click()
    explorer.locator(".panel h4").first.wait_for()
    explorer.locator(".panel .facts", has_text=re.compile(f"4 ok, 36 running of 40 · {pace}")).wait_for()
    explorer.locator(".title").click()  # beside the steps again
    for width in (1200, 900, 700):
        page.page.set_viewport_size({"width": width, "height": 1400})
        brief = row.filter(has_text=re.compile(f"4/40 ▶36 · {pace}"))
        brief.wait_for()
        parts = row.locator(".counted span")
        page.wait(f"{EXPLORERS}.at(-1).querySelector('.numbers').clientHeight < 24")
        assert [part.evaluate(IN_SIGHT) for part in parts.all()] == [True, True]
        assert row.locator(".state").get_attribute("aria-label") == "▶ running"
        assert row.locator(".name").bounding_box()["width"] >= 70  # type: ignore[index]
        for theme in ("Dark", "Light"):
            page.theme(theme)
            page.picture(f"seen-fan-out-{width}-{theme.lower()}", 2)
    (lab.folder / "rest").touch()
    page.finished()
    (lab.folder / "rest").unlink()
    explorer.locator("header >> text=40 of 40 elements").wait_for()
    assert row.filter(has_text="left").count() == 0


PROGRESS = """%load_ext agf_magics
import os, time
from agf_magics import ToolContext, tool

@tool
def reads(topic: str, context: ToolContext) -> str:
    "Reads pages."
    context.progress(3, 10, f"page 3 of the report on {topic}")
    while not os.path.exists("read"):
        time.sleep(0.05)
    return topic"""
READ = """%%pipeline --run
pipeline: reading
steps:
- tool: {name: reads, args: {topic: figs}, output: text}"""


def test_the_progress_of_a_tool_is_in_its_row_its_panel_and_its_box(opened: Open, lab: Lab) -> None:
    page = opened(PROGRESS, READ)
    page.run_all(wait=False)
    explorer = page.explorer(1)
    row = explorer.locator(".row", has_text="3 of 10 · page 3 of the report on figs")
    row.wait_for()
    assert row.locator(".counted span").first.evaluate(IN_SIGHT)
    assert "30%" in row.locator(".counted").get_attribute("style")  # type: ignore[operator]
    page.open_step(1, "reads").locator("text=3 of 10 · page 3 of the report on figs").wait_for()
    explorer.locator(".panel h4:text-is('Input')").wait_for()  # the input of a running step is shown
    for theme in ("Dark", "Light"):
        page.theme(theme)
        page.picture(f"seen-progress-{theme.lower()}", 1)
    page.open_view(1, "Picture")
    tail = explorer.locator("g.box .tail", has_text="3 of 10 · page 3")
    tail.wait_for()
    text, room = tail.bounding_box(), explorer.locator(".picture").bounding_box()
    assert text is not None
    assert room is not None
    assert text["y"] + text["height"] <= room["y"] + room["height"]
    page.picture("seen-progress-box", 1)
    (lab.folder / "read").touch()
    page.finished()
    (lab.folder / "read").unlink()
    explorer.locator("header >> text=✓ ok").wait_for()
    assert not explorer.locator("text=3 of 10").count()


def test_the_view_follows_the_run_until_a_person_moves_it(opened: Open) -> None:
    # In a narrow window the chain is longer than its place, but short enough to have no groups.
    page = opened(SETUP, chain(55, "tool: {name: waits, args: {n: 1}}"), width=700)
    page.run(0)
    page.run(1, wait=False)
    explorer = page.explorer(1)
    page.open_view(1, "Steps")
    page.wait(whole(".row:has(b):nth-last-child(1)"))
    row = explorer.locator(".row", has_text="waits")
    row.wait_for()
    page.open_view(1, "Picture")
    explorer.locator("svg.minimap rect.seen").wait_for()
    page.wait("!" + whole("g.box rect"))  # the view has moved to the running step
    page.picture("seen-following", 1)
    explorer.locator("svg.minimap").click(position={"x": 2, "y": 2})
    first = explorer.locator("g.box").first
    first.wait_for()
    page.wait(whole("g.box rect"))
    page.interrupt()
    page.finished()


def test_the_timeline_has_an_axis_and_the_tree_a_search(opened: Open) -> None:
    page = opened(SETUP, chain(30, "tool: {name: part, args: {n: 99}}"))
    page.run_all()
    explorer = page.explorer(1)
    page.open_view(1, "Timeline")
    ticks = explorer.locator(".axis span")
    ticks.nth(1).wait_for()
    places = [box for box in (tick.bounding_box() for tick in ticks.all()) if box is not None]
    assert len(places) == ticks.count() >= 2
    assert all(first["x"] + first["width"] <= second["x"] for first, second in pairwise(places))
    assert ticks.first.text_content() == "0"
    page.picture("seen-timeline", 1)
    page.open_view(1, "Steps")
    explorer.locator("input[type=search]").fill("[17]")
    rows = explorer.locator(".row")
    explorer.locator(".row:has-text('part')").first.wait_for()
    assert rows.count() == 1
    explorer.locator("input[type=search]").fill("")
    explorer.locator(".row").nth(10).wait_for()


LONG = """%%pipeline --run
pipeline: writing
steps:
- tool: {name: writes, args: {count: 300}, output: report}
- title: Read all of it again, slowly and with care
  tool: {name: waits, args: {n: 1}, output: again}
- tool: {name: writes, args: {count: 300}, output: last}"""
WRITES = """@agf.tool
def writes(count: int) -> str:
    time.sleep(0.2)
    return "\\n".join(f"line {k} of a long text" for k in range(1, count + 1))
opened.set()"""


def test_a_long_result_ends_with_a_whole_line_and_a_button_shows_all_of_it(opened: Open) -> None:
    page = opened(SETUP, WRITES, LONG)
    page.run_all()
    panel = page.explorer(2).locator(".panel")
    text, more = panel.locator("pre.whole").first, panel.locator("button", has_text="… and 288 more lines").first
    more.wait_for()
    assert text.inner_text().split("\n")[-1] == "line 12 of a long text"
    assert text.evaluate("pre => pre.scrollHeight === pre.clientHeight")
    for theme in ("Dark", "Light"):
        page.theme(theme)
        page.picture(f"a long result-{theme.lower()}", 2)
    more.click()  # the kernel sends the rest
    panel.locator("pre.whole", has_text="line 300 of a long text").first.wait_for()


def test_a_button_of_the_panel_works_even_if_the_click_draws_the_panel_again(opened: Open) -> None:
    page = opened(SETUP, WRITES, LONG)
    page.run_all()
    panel = page.open_step(2, "report")
    panel.locator("h4", has_text="Output").wait_for()
    room = panel.locator("button:text-is('Run from here')").bounding_box()
    assert room is not None
    page.page.mouse.move(room["x"] + room["width"] / 2, room["y"] + room["height"] / 2)
    page.page.mouse.down()
    again = (
        "root => root.host.explorer.panel.show({ ...root.host.explorer.panel.step, error: 'news', printed: 'more' })"
    )
    page.page.evaluate(f"() => {EXPLORERS}.forEach({again})")
    panel.locator(".error", has_text="news").wait_for()
    page.page.mouse.up()
    page.wait(f"{EXPLORERS}.some(root => root.host.explorer.state.runId.startsWith('writing-2'))")


def test_the_head_of_a_panel_has_the_names_of_the_author_and_no_path(opened: Open) -> None:
    page = opened(SETUP, "numbers = [1, 2, 3]", FAN)
    page.run_all()
    page.explorer(2)
    facts = page.open_step(2, "clean tool").locator(".facts")
    facts.filter(has_text="in cleaned").wait_for()
    assert "steps[" not in facts.inner_text()


LABELS = """root => {
  const room = root.querySelector('.axis').getBoundingClientRect();
  const labels = [...root.querySelectorAll('.axis span')].filter(span => span.textContent);
  const places = labels.map(label => label.getBoundingClientRect());
  return places.map(({ left, right }) => [left, right, room.left, room.right]);
}"""


@pytest.mark.parametrize("width", [1000, 1200, 1320, 1600])
def test_the_labels_of_the_time_axis_and_the_names_are_complete(opened: Open, width: int) -> None:
    page = opened(SETUP, WRITES, LONG, width=width)
    page.run_all()
    page.open_view(2, "Timeline")
    page.explorer(2).locator(".row", has_text="slowly and with care").wait_for()
    for theme in ("Dark", "Light"):
        page.theme(theme)
        page.picture(f"a timeline-{width}-{theme.lower()}", 2)
    fonts = ("monospace", "serif", "'DejaVu Sans', Verdana", "'Liberation Sans Narrow', 'Arial Narrow'", "inherit")
    for font, end in product(fonts, [0.93, 1.0, 1.04, 1.93, 61.3, 89.7, 3599, 86_399]):  # seconds
        page.page.evaluate(
            f"""([font, end]) => {{
              const {{ shown, box }} = {EXPLORERS}[0].host.explorer;
              box.style.fontFamily = font;
              shown.drawAxis([0, end]);
            }}""",
            [font, end],
        )
        labels = page.page.evaluate(f"() => ({LABELS})({EXPLORERS}[0])")
        assert labels, (font, end)
        (left, right, begin, stop), *_ = labels
        # The first label, and the last one where there is room for two.
        assert len(labels) >= (2 if stop - begin > 5 * (right - left) + 200 else 1), (font, end)
        for (_, before, *_), (after, *_) in pairwise(labels):
            assert before <= after, (font, end, labels)
        assert labels[-1][1] <= labels[-1][3], (font, end, labels)
    # The bars have at least half of the room: how long a name then is depends on the font.
    uncut = "names => names.map(name => name.scrollWidth <= name.clientWidth || name.clientWidth >= ROOM)"
    list_width = page.explorer(2).locator(".list").evaluate("list => list.clientWidth")
    uncut = uncut.replace("ROOM", str((list_width - 130) // 2))
    assert all(page.explorer(2).locator(".row .name").evaluate_all(uncut))
