"""The run explorer as a user sees and uses it, in JupyterLab and in Notebook 7."""

from __future__ import annotations

import pytest

from tests.browser.harness import PANEL, Notebook, Open

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
%config AgfMagics.journal = "runs.sqlite"
import struct, time, zlib
import agf_magics as agf
from agf_magics import tool
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

@tool
def fetch(url: str) -> list:
    return [{"id": i, "text": f"record {i}"} for i in range(12)]

@tool
async def clean(item: dict) -> dict:
    if item["id"] % 5 == 3:
        raise ValueError(f"bad record {item['id']}")
    return item

@tool
def price(fruit: str) -> float:
    return {"pear": 2.5, "fig": 7.0}[fruit]

@tool
def chart() -> bytes:
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", 200, 40, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\\0" + bytes(range(200))) * 40)
    return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")

WORKS = False

@tool
def fragile(number: int) -> int:
    if not WORKS:
        raise RuntimeError("the service is down")
    return 2 * number

@tool
def sleep() -> None:
    time.sleep(300)

def clerk(messages, info):
    if len(messages) < 2:
        return ModelResponse(parts=[TextPart("I look it up."), ToolCallPart("price", {"fruit": "fig"})])
    return ModelResponse(parts=[TextPart("A kilo of figs is 7.0.")])

agf.model_agent("clerk", model=FunctionModel(clerk), instructions="One sentence.", tools=["price"])"""

ASKS = """%%graph asks
state: {name: str, hello: str}
nodes:
  ask: {type: interrupt, message: "What is your name?", resume_key: name}
  done: {type: passthrough, output: {hello: "Hello {state.name}"}}
edges:
- {from: START, to: ask}
- {from: ask, to: done}
- {from: done, to: END}"""
DOUBLED = """%%pipeline
pipeline: doubled
steps:
- tool: {name: fragile, args: {number: 21}, output: twice}
- transform: {value: "{twice: ctx.twice}"}"""

DIGEST = """%%pipeline --run
pipeline: digest
steps:
- tool: {name: fetch, args: {url: "https://example.org/records"}, output: records}
- for_each:
    over: ctx.records
    max_parallel: 4
    on_error: continue
    do: {tool: {name: clean, args: {item: !expr item}}}
    collect: {transform: {value: pipe}}
    output: cleaned
- agent: {prompt: "What do figs cost?", identity: clerk, output: prices}
- tool: {name: chart, args: {}, output: chart}
- call: {pipeline: doubled, output: twice}"""

ASLEEP = "%%pipeline --run\npipeline: asleep\nsteps: [{tool: {name: fetch, args: {url: x}}}, {tool: {name: sleep}}]"


def both_themes(page: Notebook, name: str, cell: int) -> None:
    for theme in ("Dark", "Light"):
        page.theme(theme)
        page.picture(f"explorer-{name}-{theme.lower()}", cell)


@pytest.mark.parametrize("app", [pytest.param("lab", marks=pytest.mark.main), "notebooks"])
def test_every_view_of_a_failed_run_and_its_resumption(opened: Open, app: str) -> None:
    page = opened(SETUP, DOUBLED, DIGEST, "WORKS = True", app=app)
    for cell in (0, 1, 2):
        page.run(cell)
    explorer = page.explorer(2)
    panel = explorer.locator(".panel")
    panel.locator("text=the service is down").first.wait_for()  # the error of the failed step
    assert panel.locator("h4").first.inner_text().lower() == "error"
    both_themes(page, f"failed-{app}", 2)
    # No number is cut off at the width of a notebook with the sidebar open.
    numbers = explorer.locator(".row .counted.numbers")
    assert numbers.count() >= 2
    cut = "nodes => nodes.filter(node => node.scrollWidth > node.clientWidth).map(node => node.textContent)"
    assert numbers.evaluate_all(cut) == []

    panel = page.open_step(2, "for_each")
    panel.locator("text=1–12 of 12").wait_for()
    panel.locator("button:has-text('Only the 2 failed')").click()
    panel.locator("text=1–2 of 2").wait_for()
    panel.locator("tr[tabindex]").first.click()
    panel.locator("text=bad record 3").first.wait_for()
    page.picture(f"explorer-call-{app}", 2)

    # After the end, the row has all that the model did, as the saved page has it; where room lacks, its requests alone.
    turns = explorer.locator(".row .name b", has_text="price · request 2")
    assert turns.inner_text() == "request 1 · price · request 2"
    page.page.set_viewport_size({"width": 700 if app == "lab" else 380, "height": 1400})
    explorer.locator(".row .name b:text-is('request 1–2')").wait_for()
    page.page.set_viewport_size({"width": 1200, "height": 1400})
    page.open_step(2, "request 1 · ").locator(".said.model >> text=I look it up.").wait_for()
    page.picture(f"explorer-conversation-{app}", 2)
    page.open_step(2, "chart").locator("img").wait_for()

    page.open_view(2, "Timeline")
    explorer.locator(".row:has([title*=' for_each'])").first.click()  # shown without the kind of the step
    explorer.locator("canvas").wait_for()
    both_themes(page, f"timeline-{app}", 2)

    page.open_view(2, "Picture")
    box = explorer.locator(".picture g.box").first
    box.click()
    panel.locator("h3:has-text('records')").wait_for()
    explorer.locator("g[aria-label='Fold steps[1]']").click()
    explorer.locator("g[aria-label='Unfold steps[1]']").wait_for()
    both_themes(page, f"picture-{app}", 2)

    page.run(3)
    explorer.locator("button:text-is('Resume')").click()
    explorer.locator("header >> text=! ok").wait_for()
    page.open_view(2, "Steps")
    explorer.locator(".title").click()
    panel.locator("h4:text-is('Output')").wait_for()
    page.picture(f"explorer-resumed-{app}", 2)
    page.open_step(2, "chart")
    explorer.locator("button:text-is('Run from here')").click()
    explorer.locator(".title:has-text('! ok')").wait_for()
    explorer.locator(".title").click()
    panel.locator("text=run from 'chart' of digest-").wait_for()
    assert app != "lab" or page.errors == []


EXPLORER = "[...document.querySelectorAll('.agf-run')].map(host => host.explorer).findLast(Boolean)"
IDLE = "explorer => { explorer.extras.isDue = false; return !explorer.extras.stale.disabled; }"
"""Whether no check of edits is running, and none will start by itself."""
CHECKS = """(explorer, late) => {
    if (!explorer.state.kept.cancelled) throw new Error("nothing was cancelled");
    explorer.state.kept.cancelled = performance.now() - late;
    explorer.extras.stale.click();
    return explorer.extras.stale.disabled;
}"""
"""Whether a click on Check edits checks, when it comes so many milliseconds after a click on Cancel."""


@pytest.mark.parametrize("app", ["lab", "notebooks"])
def test_a_step_is_looked_at_and_the_run_cancelled_while_the_cell_waits(opened: Open, app: str) -> None:
    page = opened(SETUP, ASLEEP, app=app)
    page.run(0)
    page.run(1, wait=False)
    page.open_step(1, "fetch").locator("text=record 11").wait_for()
    page.picture(f"explorer-blocked-{app}", 1)
    page.explorer(1).locator("button:text-is('Cancel')").click()
    page.finished()
    page.says(1, "RunCancelled", "cancelled")
    # Check edits is at the place where Cancel was. So the second click of a double click does nothing, and a later
    # click checks.
    page.wait(f"({IDLE})({EXPLORER})")
    assert page.page.evaluate(f"() => [0, 1001].map(it => ({CHECKS})({EXPLORER}, it))") == [False, True]
    saved = page.save()
    assert {kind for output in saved.cells[1].outputs for kind in output.get("data", {})} == {"text/html", "text/plain"}
    assert "widgets" not in saved.metadata


DEAF = """%%pipeline --run
pipeline: deaf
steps:
- for_each: {over: "[1, 2, 3]", on_error: abort, do: {tool: {name: sleep}}, collect: {transform: {value: pipe}}}
"""


def test_the_header_says_from_the_click_on_which_calls_do_not_stop(opened: Open) -> None:
    page = opened(SETUP, DEAF)
    page.run(0)
    page.run(1, wait=False)
    page.says(1, "3 running of 3")
    page.explorer(1).locator("button:text-is('Cancel')").click()
    page.says(1, "■ cancelling", "3 calls still running")
    assert page.explorer(1).locator("button:text-is('Cancel')").is_disabled()
    page.picture("explorer-cancelling", 1)
    page.finished()
    page.says(1, "■ cancelled", "3 calls left running")


def test_the_keys_of_the_tree_move_in_the_explorer_and_leave_the_notebook_as_it_is(opened: Open) -> None:
    page = opened(SETUP, DOUBLED, DIGEST)
    page.run_all()
    explorer = page.explorer(2)
    selected = explorer.locator(".row[aria-selected=true]")
    tree = explorer.locator("[role=tree]")
    tree.focus()
    page.press("Home", "d", "d", "x", "j", "a", "b", "ArrowDown")
    selected.locator("b:text-is('cleaned')").wait_for()
    page.press("ArrowLeft")
    explorer.locator(".row >> text=▸").wait_for()
    page.press("n")
    selected.locator("b:text-is('twice')").wait_for()
    assert page.page.locator(".jp-Notebook .jp-Cell").count() == 3
    explorer.locator("[role=tab]").first.focus()
    page.press("ArrowRight")
    explorer.locator(".picture g.box").first.focus()
    page.press("ArrowDown")
    explorer.locator("g[aria-pressed=true]").wait_for()
    assert explorer.locator("[role=treeitem]").count() == 0


def test_the_explorer_stays_after_a_reload_and_the_page_without_a_kernel(opened: Open) -> None:
    page = opened(SETUP, DOUBLED, DIGEST)
    page.run_all()
    page.explorer(2)
    page.save()
    page.reload()
    page.open_step(2, "fetch").locator("text=record 11").wait_for()
    page.page.evaluate(f"() => {{ {PANEL}.sessionContext.restartKernel() }}")
    page.output(2).locator(".explorer").wait_for(state="detached")
    page.says(2, "the service is down", "digest")
    page.picture("explorer-gone", 2)


MARKUP = "<img src=x onerror=window.hacked=1><script>window.hacked=2</script>"

HOSTILE = f"""M = {MARKUP!r}
@tool
def evil(a: str) -> dict:
    "{MARKUP}"
    rows = [{{M: M, "b": "]]></svg><svg onload=window.hacked=3>"}}, {{M: "javascript:window.hacked=4", "b": 1}}]
    return {{M: M, "rows": rows}}

@tool
async def boom(a: str) -> str:
    raise ValueError(M * 3 + "</title></svg><svg onload=window.hacked=5>")

def liar(messages, info):
    text = M + "</pre><iframe srcdoc='<script>parent.hacked=6</script>'>"
    parts = [TextPart(text), ToolCallPart("boom", {{"a": M}})]
    return ModelResponse(parts=parts if len(messages) < 2 else [TextPart(M)])

agf.model_agent("liar", model=FunctionModel(liar), instructions=M, tools=["boom"])

@tool
def frame(a: str) -> object:
    import pandas
    return pandas.DataFrame({{M: [M, "</iframe><script>parent.hacked=7</script>"]}})"""

HOSTILE_RUN = f"""%%pipeline --run
pipeline: hostile
description: "{MARKUP}"
steps:
- tool: {{name: evil, args: {{a: "{MARKUP}</title><script>window.hacked=8</script>"}}, output: e}}
- for_each:
    over: "['{MARKUP}', 'b']"
    on_error: continue
    do: {{tool: {{name: boom, args: {{a: !expr item}}}}}}
    collect: {{transform: {{value: pipe}}}}
    output: c
- agent: {{prompt: "{MARKUP}", identity: liar, output: d}}
- tool: {{name: frame, args: {{a: "x"}}, output: f}}
- transform: {{value: "'{MARKUP}'"}}"""


def test_markup_in_every_text_is_shown_and_does_nothing(opened: Open) -> None:
    page = opened(SETUP, HOSTILE, HOSTILE_RUN)
    page.run_all()
    explorer = page.explorer(2)
    panel = explorer.locator(".panel")
    for text in ("evil", "for_each", "agent", "frame"):
        page.open_step(2, text)
        if text == "for_each":
            panel.locator("tr[tabindex]").first.click()
            panel.locator("h3:has-text('boom')").wait_for()
    panel.locator("td:has-text('parent.hacked=7')").wait_for()
    for view in ("Timeline", "Picture"):
        page.open_view(2, view)
    explorer.locator(".picture g.box").first.wait_for()
    page.picture("explorer-hostile", 2)
    assert page.page.evaluate("window.hacked") is None
    active = "it => [...document.querySelectorAll('.agf-run')].map(host => host.shadowRoot.querySelectorAll("
    active += "'script, [onerror], [onload], iframe').length)"
    assert page.page.evaluate(active) == [0]


def test_a_picture_that_did_not_arrive_is_asked_for_again(opened: Open) -> None:
    page = opened(SETUP, DOUBLED, "WORKS = True", "%run_pipeline doubled")
    page.run_all()
    explorer = page.explorer(3)
    page.page.evaluate("""() => {
      const state = document.querySelector(".agf-run").explorer.state, request = state.request;
      state.request = (name, ...given) => {
        if (name !== "picture") return request.call(state, name, ...given);
        state.request = request;
        return Promise.reject(new Error("too late"));
      };
    }""")
    page.open_view(3, "Picture")
    explorer.locator(".picture >> text=too late").wait_for()
    page.open_view(3, "Steps")
    page.open_view(3, "Picture")
    explorer.locator(".picture g.box").first.wait_for()


def test_a_lost_message_is_asked_for_and_a_repeated_one_ignored(opened: Open) -> None:
    page = opened(SETUP, DOUBLED, DIGEST)
    page.run_all()
    explorer = page.explorer(2)
    receive = """n => {
      const message = { type: "update", n, rows: [], live: true, status: "running", now: 0, counts: [], can: [] };
      document.querySelector(".agf-run").explorer.state.receive(message);
    }"""
    page.page.evaluate(receive, 99)
    explorer.locator(".title:has-text('✗ failed')").wait_for()
    page.page.evaluate(receive, 0)
    assert "failed" in explorer.locator(".title").inner_text()


def test_an_end_that_comes_while_nothing_is_painted_is_shown_afterwards(opened: Open) -> None:
    """A browser paints nothing in a window that is out of sight. The kernel replaces the page of a run meanwhile."""
    page = opened(SETUP, ASKS, "h = %run_pipeline_async asks", "h.answer('Ada'); h.wait().output")
    page.run(0)
    page.run(1)
    page.run(2)
    page.explorer(2).locator(".questions input").wait_for()
    page.page.evaluate("""() => {
      const paint = window.requestAnimationFrame, due = [];
      window.requestAnimationFrame = draw => due.push(draw);
      window.comeBack = () => {
        window.requestAnimationFrame = paint;
        for (const draw of due) paint(draw);
      };
      const host = document.querySelector(".agf-run");
      window.agfState = host.explorer.state;
      host.replaceWith(host.cloneNode(true));
    }""")
    page.run(3)
    page.wait("!agfState.last.live")
    page.page.evaluate("() => comeBack()")
    page.says(2, "✓ ok", "2 of 2 steps")
    explorer = page.explorer(2)
    assert not explorer.locator("button:text-is('Cancel')").is_visible()
    assert not explorer.locator(".questions").is_visible()


def test_an_answer_that_is_older_than_an_update_is_asked_for_again(opened: Open) -> None:
    page = opened(SETUP, DOUBLED, DIGEST)
    page.run_all()
    page.explorer(2)
    statuses = page.page.evaluate("""async () => {
      const { state } = document.querySelector(".agf-run").explorer, { request } = state, seen = [];
      const update = n => ({ type: "update", n, rows: [], live: true, status: "running", now: 0, counts: [], can: [] });
      const whole = await request.call(state, "start"), told = new Promise(end => {
        state.request = async (name, ...given) => {
          if (name !== "start") return request.call(state, name, ...given);
          seen.push(state.last.status);
          if (seen.length === 1) {
            state.receive({ ...update(101), live: false, status: "ok" });
            return { ...whole, update: { ...whole.update, n: 100, status: "running" } };
          }
          end();
          return { ...whole, update: { ...whole.update, n: 101, status: "ok" } };
        };
      });
      state.receive(update(100));
      await told;
      await new Promise(requestAnimationFrame);
      return [...seen, state.last.status];
    }""")
    assert statuses == ["running", "ok", "ok"]
