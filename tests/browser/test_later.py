"""What the explorer shows after an edit and over time, in JupyterLab and in Notebook 7."""

from __future__ import annotations

import re

import pytest

from tests.browser.harness import PANEL, Lab, Notebook, Open

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
%config AgfMagics.journal = "later.sqlite"
from agf_magics import tool

@tool
def fetch(topic: str) -> list:
    return [{"id": i, "text": f"{topic} {i}"} for i in range(3)]

@tool
def clean(item: dict) -> dict:
    return {**item, "text": item["text"].upper()}

@tool
def report(rows: list, style: str) -> str:
    return f"{style}: {len(rows)} rows"
"""
FLOW = """%%pipeline --run --set topic=pears
pipeline: later
steps:
- tool: {name: fetch, args: {topic: !expr ctx.topic}, output: found}
- for_each:
    over: ctx.found
    on_error: abort
    do: {tool: {name: clean, args: {item: !expr item}}}
    collect: {transform: {value: pipe}}
    output: cleaned
- tool: {name: report, args: {rows: !expr found, style: short}, output: text}
"""
EDIT = """@tool
def clean(item: dict) -> dict:
    return {**item, "text": item["text"].lower()}
"""
GRAPH = """%%graph rounds --run
state: {n: int, word: str}
variables: {n: 0, word: ""}
nodes:
  add: {type: passthrough, output: {n: "{state.n + 1}", word: "{state.word}x"}}
edges:
- {from: START, to: add}
- {from: add, to: add, condition: n < 6}
- {from: add, to: END, condition: else}
"""


def badges(page: Notebook, cell: int) -> list[str]:
    texts = page.explorer(cell).locator(".row .badge").all_inner_texts()
    return [text for text in texts if text]


@pytest.mark.parametrize("app", ["lab", "notebooks"])
def test_after_an_edit_the_steps_that_would_run_again_are_marked(opened: Open, app: str) -> None:
    page = opened(SETUP, FLOW, EDIT, app=app)
    page.run(0)
    page.run(1)
    assert badges(page, 1) == []
    page.run(2)
    page.explorer(1).locator(".row .badge", has_text="stale").wait_for()
    assert badges(page, 1) == ["↻ stale"]
    page.says(1, "1 step would run again")
    page.picture(f"stale-{app}", 1)
    twist = page.explorer(1).locator(".row", has_text="for_each").locator(".twist")
    twist.click()
    page.explorer(1).locator(".row .badge", has_text="inside").wait_for()
    assert badges(page, 1) == ["↻ inside"]
    twist.click()
    page.open_step(1, "steps[1].do")
    page.says(1, "The code of its function was edited. A new run with --reuse makes")
    page.open_view(1, "Picture")
    page.explorer(1).locator("svg g.badge", has_text="stale").wait_for()
    page.picture(f"stale-picture-{app}", 1)
    if app == "lab":
        page.theme("Dark")
        page.picture("stale-picture-dark", 1)
        page.open_view(1, "Steps")
        page.picture("stale-dark", 1)
        page.theme("Light")


def test_a_mark_leaves_the_bars_of_the_timeline_free_and_a_long_reason_the_list_its_width(opened: Open) -> None:
    page = opened(SETUP, FLOW, EDIT)
    page.run_all()
    explorer = page.explorer(1)
    page.open_view(1, "Timeline")
    badge = explorer.locator(".row .badge", has_text="stale")
    badge.wait_for()
    side = "node => node.getBoundingClientRect()."
    assert badge.evaluate(f"{side}right") <= explorer.locator(".row:has(.badge) .name b").evaluate(f"{side}left")
    page.picture("stale-timeline", 1)
    page.open_step(1, "clean")
    page.open_view(1, "Picture")
    explorer.locator(".panel h3").first.evaluate("node => { node.textContent = 'a long reason '.repeat(40); }")
    explorer.locator("button[title^='Fill']").evaluate("button => button.click()")
    page.wait("document.fullscreenElement !== null")
    explorer.locator("button:text-is('Timeline')").click()
    assert explorer.locator(".list").evaluate("node => node.offsetWidth / innerWidth") >= 0.5
    page.picture("stale-screen")
    page.page.evaluate("document.exitFullscreen()")


def test_the_state_over_time_has_a_slider(opened: Open) -> None:
    page = opened(SETUP, FLOW, GRAPH)
    page.run_all()
    for cell, last in ((1, "4 of 4"), (2, "7 of 7")):
        page.explorer(cell).locator("button", has_text="State over time").click()
        page.says(cell, f"moment {last}")
        page.explorer(cell).locator("input[type=range]").fill("1")
        page.says(cell, f"moment 2 of {last[-1]}")
        page.picture(f"time-{cell}", cell)
    page.says(2, "after add")
    page.explorer(2).locator("select[aria-label='Compare with']").select_option("first")
    page.explorer(2).locator("input[type=range]").fill("5")
    page.says(2, "moment 6 of 7", "at moment 1")
    page.theme("Dark")
    page.picture("time-dark", 2)
    page.theme("Light")
    assert not page.errors


def test_a_call_is_opened_from_the_panel(opened: Open) -> None:
    page = opened(SETUP, FLOW)
    page.run_all()
    page.open_step(1, "steps[1].do")
    page.explorer(1).locator("button", has_text="Open here").click()
    page.says(1, "The variable arguments has the arguments", "A new cell below makes the call")
    page.picture("open-here")
    assert page.source(2) == "clean(**arguments)"
    page.run(2)
    page.says(2, "PEARS")  # of the call that ended last


def test_the_panel_of_a_selected_step_follows_the_marks(opened: Open) -> None:
    page = opened(SETUP, FLOW, EDIT, EDIT.replace("lower", "upper"))
    page.run(0)
    page.run(1)
    page.open_step(1, "steps[1].do")
    page.run(2)
    page.says(1, "The code of its function was edited. A new run with --reuse makes")
    page.run(3)
    page.explorer(1).locator(".panel .badge").wait_for(state="detached")


BACKGROUND = """%%pipeline
pipeline: slow
steps:
- tool: {name: hold, args: {until: !expr ctx.until}, output: done}
"""
HOLD = """import asyncio
from pathlib import Path

@tool
async def hold(until: str) -> str:
    while not Path(until).exists():
        await asyncio.sleep(0.05)
    if "fails" in until:
        raise RuntimeError("<b>too long</b>")
    return "rested"

def started(name: str) -> str:
    Path(name).unlink(missing_ok=True)
    return name
"""


def run_held(name: str) -> str:
    """A cell that starts a run in the background, which waits for the file ``name``."""
    return f"until = started({name!r})\nhandle = %run_pipeline_async slow --set until=$until"


def release(name: str) -> str:
    return f"Path({name!r}).touch()"


ASK = """%%graph asks
state: {until: str, said: str}
variables: {until: "UNTIL"}
nodes:
  hold: {type: python, tool: hold, variables: {until: "{state.until}"}, state_key: until}
  ask: {type: interrupt, message: "Publish <b>it</b>?", choices: ["now", "later"], resume_key: said}
edges:
- {from: START, to: hold}
- {from: hold, to: ask}
- {from: ask, to: END}
"""
FILL = "print('\\n' * 100)"


@pytest.mark.parametrize("app", ["lab", "notebooks"])
def test_a_background_run_that_ends_fails_or_asks_shows_a_notice(opened: Open, lab: Lab, app: str) -> None:
    names = ends, fails, asks = f"{app}-ends", f"{app}-fails", f"{app}-asks"
    page = opened(SETUP, HOLD, BACKGROUND, ASK.replace("UNTIL", asks), run_held(ends), run_held(fails),
                  "three = %run_pipeline_async asks", FILL, app=app)  # fmt: skip
    for cell in range(7):
        page.run(cell)
    for cell in (4, 5, 6):
        page.explorer(cell)
    page.run(7)
    page.cell(7).locator(".jp-Cell-outputArea").evaluate("node => node.scrollIntoView({ block: 'end' })")
    for name in names:
        (lab.folder / name).touch()
    for text in ("slow · ✓ ok", "slow · ✗ failed · ", "asks · ? Publish <b>it</b>?"):
        page.wait(f"({NOTICES})().includes(it)", text)
    page.picture(f"notices-{app}")
    if app == "lab":
        page.theme("Dark")
        page.picture("notices-dark")
        page.theme("Light")
    assert page.seen(7).strip() == ""  # no notice is printed into another cell
    if app == "lab":  # the notice has the choices, because its run is out of sight
        for choice in ("now", "later"):
            page.page.locator(".Toastify button", has_text=choice).wait_for()
    page.page.evaluate(f"({SHOW})()")
    in_sight = "(box => box && box.top < innerHeight && box.bottom > 0)"
    page.wait(f"{in_sight}(document.querySelectorAll('.jp-Notebook .jp-Cell')[6]?.getBoundingClientRect())")
    page.explorer(6).locator("button", has_text="now").click()
    page.says(6, "ok")
    page.wait(f"!({NOTICES})().includes('asks · ?')")


def test_no_notice_repeats_what_is_in_sight(opened: Open, lab: Lab) -> None:
    page = opened(SETUP, HOLD, BACKGROUND, ASK.replace("UNTIL", "seen-asks"), run_held("seen-fails"),
                  "asking = %run_pipeline_async asks")  # fmt: skip
    for cell in range(6):
        page.run(cell)
    page.explorer(4)
    page.explorer(5)
    for cell in (4, 5):
        page.cell(cell).scroll_into_view_if_needed()
    for name in ("seen-fails", "seen-asks"):
        (lab.folder / name).touch()
    page.says(4, "✗ failed")
    page.explorer(5).locator("button", has_text="now").wait_for()
    page.wait("document.querySelector('.agf-asked')")
    assert not page.page.locator(".agf-asked").is_visible()
    page.picture("seen-asks")
    page.theme("Dark")
    page.picture("seen-asks-dark")
    page.theme("Light")
    page.explorer(5).locator("button", has_text="now").click()
    page.says(5, "ok", "→ now")  # the notebook contains the question and its answer
    assert page.page.evaluate(f"({NOTICES})()") == ""


@pytest.mark.parametrize("is_seen", [True, False])
def test_the_views_of_a_run_have_one_notice_which_goes_when_one_of_them_is_seen(
    opened: Open, lab: Lab, is_seen: bool
) -> None:
    name = f"views-fails-{is_seen}"
    page = opened(SETUP, HOLD, BACKGROUND, run_held(name), FILL, "handle", FILL)
    for cell in range(7):
        page.run(cell)
    page.explorer(3)
    title = page.explorer(5).locator(".title")
    last = page.cell(6).locator(".jp-Cell-outputArea")
    (title if is_seen else last).evaluate("node => node.scrollIntoView({ block: 'end' })")
    (lab.folder / name).touch()
    if not is_seen:
        page.wait(f"({NOTICES})().includes(it)", "slow · ✗ failed · ")
    page.says(3, "✗ failed")
    page.says(5, "✗ failed")
    assert page.page.locator(".Toastify__toast").count() == (not is_seen)
    title.evaluate("node => node.scrollIntoView({ block: 'center' })")
    page.wait(f"({NOTICES})() === ''")


def test_a_cell_that_runs_again_leaves_one_notice(opened: Open, lab: Lab) -> None:
    page = opened(SETUP, HOLD, ASK.replace("UNTIL", "twice-asks"), "asking = %run_pipeline_async asks", FILL)
    for cell in range(5):
        page.run(cell)
    page.cell(4).locator(".jp-Cell-outputArea").evaluate("node => node.scrollIntoView({ block: 'end' })")
    (lab.folder / "twice-asks").touch()
    asked = "asks · ? Publish <b>it</b>?"
    page.wait(f"({NOTICES})().includes(it)", asked)
    page.run(3)
    page.explorer(3).locator("button", has_text="later").click()
    page.says(3, "ok", "→ later")
    page.wait(f"!({NOTICES})().includes(it)", asked)  # nor that of the run before, whose output is gone
    page.type(4, "import agf_magics\n[run.status for run in agf_magics.runs(flow='asks')[:2]]", instead=True)
    page.run(4)
    page.says(4, "['ok', 'waiting']")


ALONE = """() => {
  window.addEventListener("agf-notice", event => event.stopImmediatePropagation(), true); // no extension hears it
  window.told = [];
  window.Notification = class {
    static permission = "default";
    static requestPermission() { this.permission = "granted"; return Promise.resolve("granted"); }
    constructor(text) { window.told.push(text); }
  };
  Object.defineProperty(document, "hidden", { get: () => true });
}"""


DROPS = """%%pipeline
pipeline: some
steps:
- tool: {name: hold, args: {until: !expr ctx.until}, output: done}
- for_each:
    items: [1, 0, 0]
    on_error: continue
    do: {transform: {value: 1 / item}}
    collect: {transform: {value: pipe}}
"""


def test_without_the_extension_the_page_itself_shows_the_notice_and_the_bell_asks_the_browser(opened: Open) -> None:
    page = opened(SETUP, HOLD, BACKGROUND, run_held("own-ends"), run_held("own-fails"), release("own-ends"),
                  release("own-fails"), DROPS, run_held("own-drops").replace("slow", "some"),
                  release("own-drops"))  # fmt: skip
    page.page.evaluate(f"({ALONE})()")
    for cell in range(5):
        page.run(cell)
    page.explorer(3).locator("button[aria-label='Notify me through the browser']").click()
    page.explorer(4)
    page.run(5)
    page.wait("window.told.length === 1")
    page.run(6)
    page.wait("window.told.length === 2")
    good, bad = page.page.evaluate("window.told")
    assert good == "slow · ✓ ok"
    assert re.fullmatch(r"slow · ✗ failed · \S.+", bad)  # with its reason
    notices = page.page.locator("#agf-notices .notice")
    assert notices.last.inner_text().startswith("slow · ✗ failed · ")
    page.picture("notices-own")
    notices.last.locator("button[aria-label=Close]").click()
    page.wait("![...document.getElementById('agf-notices').shadowRoot.querySelectorAll('.notice.error')].length")
    for cell in (7, 8):
        page.run(cell)
    page.explorer(8)
    page.run(9)
    page.wait("window.told.length === 3")
    assert page.page.evaluate("window.told")[2] == "some · ! ok, 2 dropped"
    page.page.locator("#agf-notices .notice.warning", has_text="! ok, 2 dropped").wait_for()


@pytest.mark.parametrize("place", ["cell", "explorer"])
def test_the_end_of_a_run_leaves_the_focus_where_it_is(place: str, opened: Open, lab: Lab) -> None:
    held = f"focus-{place}"
    page = opened(SETUP, HOLD, BACKGROUND, run_held(held), "typed = 1")
    page.page.evaluate(f"({ALONE})()")
    for cell in range(4):
        page.run(cell)
    bell = page.explorer(3).locator("button[aria-label='Notify me through the browser']")
    bell.click()  # the bell has the focus when it is hidden
    bell.wait_for(state="hidden")
    if place == "cell":
        page.cell(4).locator(".cm-content").click()
    else:
        page.explorer(3).locator(".row").first.click()
    page.explorer(3).evaluate("node => { window.first = node.getRootNode().host; }")
    (lab.folder / held).touch()
    page.wait("!window.first.isConnected")  # the page of the ended run replaces it
    page.says(3, "✓ ok")
    where = "() => document.activeElement.shadowRoot?.activeElement?.role ?? document.activeElement.className"
    assert page.page.evaluate(where) == ("cm-content" if place == "cell" else "tree")


TWICE = """%%pipeline
pipeline: slow
steps:
- tool: {name: hold, args: {until: !expr ctx.until}, output: first}
- tool: {name: hold, args: {until: !expr ctx.then}, output: second}
- parallel:
    branches:
"""
TWICE += "".join(f"      a{number}: {{transform: {{value: '{number}'}}}}\n" for number in range(60))
TWICE += "    collect: {transform: {value: pipe}}\n"


def test_a_page_that_is_written_during_a_run_says_how_far_it_is_and_keeps_what_the_person_did(
    opened: Open, lab: Lab
) -> None:
    often = "from agf_magics.notebook.explorer import run_channel\nrun_channel.WRITTEN = 0.5\n"
    run = "handle = %run_pipeline_async slow --set until='kept' --set then='kept-again'"
    page = opened(SETUP, HOLD, TWICE, often + run)
    for cell in range(4):
        page.run(cell)
    explorer = page.explorer(3)
    steps = explorer.locator(".main")
    explorer.locator(".row").nth(1).click()
    steps.evaluate("node => { window.list = node.querySelector('[role=tree]'); window.list.scrollTop = 150; }")
    explorer.evaluate("node => { window.box = node; window.first = node.getRootNode().host; }")
    seen = "() => [window.list.scrollTop, document.activeElement.shadowRoot?.activeElement?.role]"
    before = page.page.evaluate(seen)
    assert before == [150, "tree"]
    saved = f"{PANEL}.content.widgets[3].model.sharedModel.outputs[0].data['text/html']"
    assert "1 of 3 steps" not in page.page.evaluate(f"() => [{saved}].flat().join('')")
    (lab.folder / "kept").touch()
    page.wait(f"[{saved}].flat().join('').includes('1 of 3 steps')")
    page.wait("!window.first.isConnected && window.box.isConnected")
    assert page.page.evaluate(seen) == before
    (lab.folder / "kept-again").touch()
    page.says(3, "✓ ok")
    page.wait(f"[{saved}].flat().join('').includes('✓ ok')")
    page.wait("window.box.isConnected")
    assert page.page.evaluate(seen) == before
    assert not page.errors


HOSTILE = """%%pipeline --run
pipeline: hostile
steps:
- tool: {name: evil, args: {text: "<img src=x onerror='window.hacked=1'>"}, output: found}
- tool: {name: evil, args: {text: !expr found}, output: "again"}
"""
EVIL = """@tool
def evil(text: str) -> str:
    return text + "<script>window.hacked=1</script>"
"""


def test_the_button_of_the_state_over_time_looks_pressed_as_long_as_it_is_open(opened: Open) -> None:
    page = opened(SETUP, FLOW)
    page.run_all()
    opener = page.explorer(1).locator("button:text-is('State over time')")
    for is_open in (True, False, True):
        opener.click()
        page.explorer(1).locator(f"button[aria-pressed={str(is_open).lower()}]:text-is('State over time')").wait_for()
        assert ("Close" in str(opener.get_attribute("title"))) == is_open
        assert (opener.evaluate("node => getComputedStyle(node).boxShadow") != "none") == is_open
    page.picture("state-over-time-open", 1)
    assert not page.errors


def test_html_in_any_text_is_shown_as_text(opened: Open) -> None:
    page = opened(SETUP, EVIL, HOSTILE, EVIL.replace("</script>", "</script>2"))
    page.run_all()
    page.explorer(2).locator("button", has_text="State over time").click()
    page.says(2, "moment 3 of 3", "<img src=x")
    page.open_step(2, "evil")
    page.explorer(2).locator(".row .badge").first.wait_for()
    page.explorer(2).locator("button", has_text="Open here").click()
    page.wait(f"{PANEL}.content.widgets[3].model.sharedModel.getSource().includes('evil(**arguments)')")
    assert page.page.evaluate("window.hacked") is None
    assert not page.errors


def test_a_page_that_is_loaded_again_during_a_run_shows_its_state_over_time(opened: Open) -> None:
    flow = BACKGROUND.replace("steps:\n", "steps:\n- transform: {value: '1', output: one}\n")
    page = opened(SETUP, HOLD, flow, run_held("again"), f"{release('again')}; handle.wait()", "handle")
    for cell in range(4):
        page.run(cell)
    page.explorer(3).locator("button", has_text="State over time").click()
    page.says(3, "moment 2 of 2", "still runs: the state after it is not known yet")
    page.save()
    page.reload()
    page.says(3, "slow")
    page.run(4)
    page.run(5)
    page.explorer(5).locator("button", has_text="State over time").click()
    page.says(5, "moment 3 of 3")


def test_without_a_journal_the_buttons_are_gone_and_a_lost_journal_is_named(opened: Open) -> None:
    gone = "import glob, os\nfor name in glob.glob('later.sqlite*'): os.remove(name)"
    page = opened(SETUP, FLOW, gone, "%config AgfMagics.journal = None", FLOW.replace("later", "none"))
    page.run_all()
    page.says(4, "short: 3 rows")
    assert not page.explorer(4).locator("button", has_text="State over time").is_visible()
    assert not page.explorer(4).locator("button", has_text="Check edits").is_visible()
    page.explorer(1).locator("button", has_text="State over time").click()
    page.explorer(1).locator(".time", has_text="journal").wait_for()
    page.explorer(1).locator("button", has_text="Check edits").click()
    page.says(1, "Edits cannot be checked: there is no journal")
    page.picture("journal-gone", 1)


def test_a_removed_step_and_a_kernel_that_was_shut_down_are_named(opened: Open) -> None:
    page = opened(SETUP, FLOW, FLOW.split("- for_each")[0].replace(" --run --set topic=pears", ""))
    page.run_all()
    page.explorer(1).locator(".row .badge", has_text="removed").first.wait_for()
    page.open_step(1, "report")
    page.says(1, "removed: The definition no longer has it")
    page.command("notebook:shutdown-kernel")
    page.wait(f"!{PANEL}.sessionContext.session?.kernel")
    page.explorer(1).locator("button", has_text="Run from here").click()
    page.says(1, "the kernel was shut down: start it, then run the cell again")


def test_notices_can_be_switched_off(opened: Open) -> None:
    page = opened(SETUP, HOLD, BACKGROUND, "%config AgfMagics.notices = False", run_held("off"), release("off"))
    for cell in range(5):
        page.run(cell)
    page.explorer(4)
    page.run(5)
    page.says(4, "✓ ok")
    assert page.page.evaluate(f"({NOTICES})()") == ""


NOTICES = """() => {
  const own = document.getElementById("agf-notices")?.shadowRoot.querySelector(".notices")?.innerText ?? "";
  return own + [...document.querySelectorAll(".jp-toastContainer, .Toastify")].map(node => node.innerText).join("\\n");
}"""

SHOW = """() => {
  const own = [...document.getElementById("agf-notices")?.shadowRoot.querySelectorAll(".notice") ?? []];
  const all = [...own, ...document.querySelectorAll(".Toastify__toast")];
  const found = all.find(node => node.innerText.includes("asks · ?"));
  [...found.querySelectorAll("button")].find(node => node.innerText.includes("Show")).click();
}"""


def test_a_cell_that_was_edited_and_not_run_is_named(opened: Open) -> None:
    page = opened(SETUP, FLOW, EDIT)
    page.run_all()
    page.open_step(1, "steps[2]")
    page.type(2, EDIT.replace("lower", "title"), instead=True)
    why = "'clean' was edited, and its cell has not run since: run that cell first"
    rerun = page.explorer(1).locator("button", has_text="Run from here")
    rerun.click()
    page.explorer(1).locator(".message", has_text=why).first.wait_for()
    page.explorer(1).locator("button", has_text="Check edits").click()
    page.explorer(1).locator(".message", has_text=f"Edits cannot be checked: {why}").wait_for()
    page.picture("edited-and-not-run", 1)
    page.run(2)
    page.explorer(1).locator(".row .badge", has_text="stale").wait_for()
    rerun.click()
    page.explorer(1).locator(".row .badge:visible", has_text="stale").wait_for(state="detached")
    assert not page.errors


MONTHLY = """%load_ext agf_magics
%config AgfMagics.journal = "monthly.sqlite"
from agf_magics import tool

@tool
def tax(x: int) -> int:
    return x * 2

@tool
def total(xs: list) -> int:
    return sum(xs)

@tool
def send(text: int, to: str) -> str:
    if to == "nobody":
        raise LookupError("no address")
    return f"sent {text} to {to}"
"""
MONTH = """%%pipeline --run --set to=nobody
pipeline: monthly
steps:
- for_each:
    items: [1, 2, 3]
    on_error: abort
    do: {tool: {name: tax, args: {x: !expr item}}}
    collect: {transform: {value: pipe}}
    output: taxed
- tool: {name: total, args: {xs: !expr taxed}, output: sum_of}
- tool: {name: send, args: {text: !expr sum_of, to: !expr ctx.to}, output: sent}
"""
MENDED = MONTHLY.replace("x * 2", "x * 3").replace('raise LookupError("no address")', 'to = "all"')
BEFORE = "Before this step it also runs"


def test_what_an_edit_changes_is_said_before_a_click_and_no_longer_than_it_holds(opened: Open) -> None:
    page = opened(MONTHLY, MONTH)
    page.run(0)
    page.run(1)
    explorer = page.explorer(1)
    page.page.evaluate(f"it => {PANEL}.content.widgets[0].model.sharedModel.setSource(it)", MENDED)
    explorer.locator("button:text-is('Resume')").click()
    page.says(1, "run that cell first")
    page.run(0)
    page.says(1, "After your edits 3 steps would run again")
    assert "run that cell first" not in page.seen(1)
    explorer.locator("button:text-is('Resume')").click()
    page.says(1, "sent 12 to all", "3 results of the old tax were kept.")
    assert badges(page, 1) == ["old code"]
    page.picture("kept-old", 1)
    page.open_step(1, "sent")
    page.says(1, f"{BEFORE} tax, sum_of again: the code of its function was edited.")  # nobody points at the button
    explorer.locator("button:text-is('Run from here')").click()
    page.says(1, "sent 18 to all")
    explorer.locator("button:text-is('Run from here')").hover()
    page.open_step(1, "tax")
    page.open_step(1, "sent")
    assert BEFORE not in page.seen(1)
    assert badges(page, 1) == []


def test_a_resumed_run_that_kept_results_of_an_edited_tool_is_run_again_with_the_edits_by_a_click(opened: Open) -> None:
    page = opened(MONTHLY, MONTH)
    page.run_all()
    page.page.evaluate(f"it => {PANEL}.content.widgets[0].model.sharedModel.setSource(it)", MENDED)
    page.run(0)
    explorer = page.explorer(1)
    explorer.locator("button:text-is('Resume')").click()
    page.says(1, "sent 12 to all")
    explorer.locator("button:text-is('Run again with the edits')").click()
    page.says(1, "sent 18 to all", "again, with the edits")
    assert "were kept" not in page.seen(1)
    assert badges(page, 1) == []
