"""A model's reply while it arrives, as JupyterLab shows it."""

from __future__ import annotations

import os
import re
import threading
from itertools import count
from typing import Any

import pytest

from notebooks.scripted_server import Answer, ScriptedServer, calls
from tests.browser.harness import EXPLORERS, Lab, Notebook, Open
from tests.browser.test_seen import IN_SIGHT

pytestmark = pytest.mark.browser

MODEL = """%load_ext agf_magics
import asyncio, os
import agf_magics as agf
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall, FunctionModel

@agf.tool
def price(fruit: str) -> float:
    "The price of a kilo."
    print("looks up", fruit)
    return 7.0

async def talk(messages, info):
    if len(messages) == 1:
        yield {0: DeltaThinkingPart(content="The user asks for a price.")}
        yield {1: DeltaToolCall(name="price", json_args='{"fruit": "fig"}', tool_call_id="c1")}
        return
    yield "A kilo of figs costs"
    with await asyncio.to_thread(open, "end") as fifo:
        fifo.read()
    yield " **seven** euros. ![a](http://127.0.0.1:9/stolen.png) <b onclick='window.hacked=1'>$5</b>"

agf.registry.choose(FunctionModel(stream_function=talk, model_name="figs"))"""
ASK = """%%pipeline --run
pipeline: ask
steps:
- agent: {prompt: "What do figs cost?", capabilities: {tools: [price]}, output: answer}"""


def test_a_reply_is_shown_while_it_arrives_with_the_prints_of_tools(opened: Open, lab: Lab) -> None:
    os.mkfifo(lab.folder / "end")
    page = opened(MODEL, ASK)
    page.run_all(wait=False)
    row = page.explorer(1).locator(".row", has_text="A kilo of figs costs")
    row.wait_for()
    # The panel is below, so the text has room in the row.
    assert row.locator(".counted").evaluate("node => node.scrollWidth <= node.clientWidth")
    page.open_step(1, "looks up fig").locator("pre", has_text="looks up fig").wait_for()
    page.picture("a reply that arrives", 1)
    panel = page.open_step(1, "answer agent What do figs cost?")
    panel.locator(".said:has-text('arriving') >> text=A kilo of figs costs").wait_for()
    assert panel.locator(".said.model details").first.get_attribute("open") is None  # the thinking is folded
    page.open_view(1, "Picture")
    tail, frame = page.explorer(1).locator("g.box .tail"), page.explorer(1).locator(".picture")
    page.wait(f"{EXPLORERS}.some(root => root.querySelector('.tail')?.textContent.includes('costs'))")
    text, room = tail.first.bounding_box(), frame.bounding_box()
    assert text is not None and room is not None and text["y"] + text["height"] <= room["y"] + room["height"]  # noqa: PT018
    page.picture("a reply that arrives in its box", 1)
    page.open_view(1, "Steps")
    with (lab.folder / "end").open("w") as fifo:
        fifo.write("on")
    page.finished()
    panel = page.open_step(1, "answer agent What do figs cost?")
    written = panel.locator(".markdown", has_text="A kilo of figs costs seven euros.").first
    written.locator("strong:text-is('seven')").wait_for()
    assert written.locator("img").count() == 0
    assert "$5" in written.inner_text()
    assert page.page.evaluate("window.hacked") is None
    panel.locator("summary:text-is('thinking')").click()
    panel.locator("text=The user asks for a price.").wait_for()
    page.picture("a reply that has arrived", 1)


SLOW = """%load_ext agf_magics
import asyncio
import agf_magics as agf
from pydantic_ai.models.function import FunctionModel

async def talk(messages, info):
    with await asyncio.to_thread(open, "lines") as fifo:
        while text := await asyncio.to_thread(fifo.readline):
            yield text

agf.registry.choose(FunctionModel(stream_function=talk, model_name="figs"))"""
TALK = """%%pipeline --run
pipeline: talk
steps:
- agent: {prompt: "Name many fruits.", output: answer}"""
ITS_END = """([panel, text]) => {
    const said = [...panel.querySelectorAll('.said.model')].at(-1);
    const bottom = node => node.getBoundingClientRect().bottom;
    return said?.innerText.includes(text) && bottom(said) <= bottom(panel) && bottom(said) > bottom(panel) - 60
        && [...said.querySelectorAll('pre')].every(pre => pre.scrollHeight <= pre.clientHeight + 1);
}"""
"""Whether the last reply has this text, with its end completely in sight."""
ITS_PLACE = """panel => {
    const top = node => node.getBoundingClientRect().top;
    return top([...panel.querySelectorAll('.said.model')].at(-1)) - top(panel);
}"""
"""Where the last reply begins, in pixels from the top of the panel."""
HAS_RESULT = """panel => [...panel.querySelectorAll('h4')].some(node => node.textContent === 'Output')"""
PANEL = f"{EXPLORERS}.map(root => root.querySelector('.panel')).find(Boolean)"


@pytest.mark.parametrize("is_chosen", [False, True])
def test_the_panel_shows_the_reply_that_arrives_until_a_person_chooses(opened: Open, lab: Lab, is_chosen: bool) -> None:
    if not (lab.folder / "lines").exists():
        os.mkfifo(lab.folder / "lines")
    page = opened(SLOW, TALK)
    page.run_all(wait=False)
    explorer = page.explorer(1)
    panel = explorer.locator(".panel")
    with (lab.folder / "lines").open("w", buffering=1) as lines:
        lines.write("the first\n")
        panel.locator(".said:has-text('arriving') >> text=the first").wait_for()
        time = panel.locator(".facts").inner_text()
        page.wait(f"{PANEL}.querySelector('.facts').innerText !== it", time)  # it runs while nothing arrives
        for start in (1, 41):
            lines.write("".join(f"- fruit {number}\n" for number in range(start, start + 40)))
            shows_end(page, f"fruit {start + 39}")
        page.picture("a reply that arrives without a click", 1)
        if is_chosen:
            explorer.locator("button.title").click()
            panel.locator("h3:text-is('talk')").wait_for()
            lines.write("- the last fruit\n")
            explorer.locator(".row", has_text="the last fruit").first.wait_for()
            assert panel.locator(".said").count() == 0
    page.finished()
    panel.locator("h3:text-is('talk')").wait_for()  # the result of the run
    page.wait(f"({HAS_RESULT})({PANEL})")
    assert not page.errors


@pytest.mark.parametrize("is_scrolled", [False, True])
def test_an_arriving_reply_grows_and_the_view_keeps_its_end_or_its_place(
    opened: Open, lab: Lab, is_scrolled: bool
) -> None:
    if not (lab.folder / "lines").exists():
        os.mkfifo(lab.folder / "lines")
    page = opened(SLOW, TALK)
    page.run_all(wait=False)
    with (lab.folder / "lines").open("w", buffering=1) as lines:
        lines.write("the first\n")
        page.explorer(1).locator(".row", has_text="the first").first.wait_for()
        panel = page.open_step(1, "Name many fruits.")
        panel.locator(".said:has-text('arriving') >> text=the first").wait_for()
        for start in (1, 41, 81):
            lines.write("".join(f"- fruit {number}\n" for number in range(start, start + 40)))
            shows_end(page, f"fruit {start + 39}")
        page.picture("a long reply that arrives", 1)
        if is_scrolled:  # the user reads an earlier part
            place = page.page.evaluate(f"() => ({ITS_PLACE})({PANEL})") + 400
            panel.hover()
            page.page.mouse.wheel(0, -400)
            page.wait(f"Math.abs(({ITS_PLACE})({PANEL}) - it) < 5", place)
    page.finished()
    panel.locator(".said.model li", has_text="fruit 120").wait_for()
    page.wait(f"({HAS_RESULT})({PANEL})")  # it is above the reply
    if is_scrolled:
        page.wait(f"Math.abs(({ITS_PLACE})({PANEL}) - it) < 100", place)
    else:
        shows_end(page, "fruit 120")
    page.picture(f"a long reply that has arrived-{is_scrolled}", 1)


WRITTEN = """([panel]) => {
    const seen = [];
    const look = () => {
        const said = [...panel.querySelectorAll('.said.model')].at(-1);
        if (panel.isConnected) seen.push(said?.querySelector('.markdown')?.innerText ?? '');
    };
    window.agfSeen = seen;
    new MutationObserver(look).observe(panel, { subtree: true, childList: true, characterData: true });
}"""
"""Notes each text that the last reply has in the page, from now on."""


def test_a_reply_is_written_as_markdown_while_it_arrives(opened: Open, lab: Lab) -> None:
    if not (lab.folder / "lines").exists():
        os.mkfifo(lab.folder / "lines")
    page = opened(SLOW, TALK)
    page.run_all(wait=False)
    with (lab.folder / "lines").open("w", buffering=1) as lines:
        lines.write("# Fruit\n")
        page.explorer(1).locator(".row", has_text="Fruit").first.wait_for()
        panel = page.open_step(1, "Name many fruits.")
        arriving = panel.locator(".said:has-text('arriving') .markdown")
        arriving.locator("h1", has_text="Fruit").wait_for()
        page.page.evaluate(f"() => ({WRITTEN})([{PANEL}])")
        lines.write(
            "\n- **figs** and `plums`\n- <b onclick='window.hacked=1'>pears</b> ![a](http://127.0.0.1:9/a.png)\n"
        )
        arriving.locator("li strong", has_text="figs").wait_for()
        arriving.locator("li", has_text="pears").wait_for()
        lines.write("\nThe best one is **the que\n")
        arriving.locator("p strong", has_text="the que").wait_for()
        page.picture("markdown that arrives", 1)
        assert arriving.locator("img, [onclick]").count() == 0
    page.finished()
    panel.locator(".said.model .markdown h1", has_text="Fruit").wait_for()
    pages = page.page.evaluate("window.agfSeen")
    assert pages
    assert [text for text in pages if "# Fruit" in text or "**figs" in text or "Fruit" not in text] == []
    assert page.page.evaluate("window.hacked") is None


OUT = """async panel => {
    const place = panel.parentElement, next = panel.nextSibling;
    panel.remove();
    while (!panel.textContent.includes('Output')) await new Promise(wait => setTimeout(wait, 50));
    place.insertBefore(panel, next);
}"""
"""Takes the details out of the page until the run has ended, as the end of a cell does for a moment."""


def test_a_reply_that_comes_while_its_view_is_moved_is_written_as_markdown(opened: Open, lab: Lab) -> None:
    if not (lab.folder / "lines").exists():
        os.mkfifo(lab.folder / "lines")
    page = opened(SLOW, TALK)
    page.run_all(wait=False)
    with (lab.folder / "lines").open("w", buffering=1) as lines:
        page.open_step(1, "Name many fruits.")
        page.page.evaluate(f"() => {{ window.agfBack = ({OUT})({PANEL}); }}")
        lines.write("# Fruit\n")
    page.page.evaluate("() => window.agfBack")
    page.finished()
    page.explorer(1).locator(".said.model .markdown h1", has_text="Fruit").wait_for()
    page.explorer(1).locator("h4:text-is('Output') ~ .markdown h1", has_text="Fruit").wait_for()


ANSWERS = """%load_ext agf_magics
%config AgfMagics.journal = "answers.sqlite"
import agf_magics as agf
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

async def answer(messages, info):
    return ModelResponse(parts=[TextPart("# Fruit\\n\\n- **figs**\\n- plums")])

agf.registry.choose(FunctionModel(answer, model_name="figs"))"""


def test_what_a_model_answered_is_written_as_markdown_wherever_it_is_shown(opened: Open) -> None:
    page = opened(ANSWERS, TALK)
    page.run_all()
    explorer, written = page.explorer(1), ".markdown:has(h1:text-is('Fruit')) li strong:text-is('figs')"
    output = "h4:text-is('Output') ~ "
    explorer.locator(f".panel {output}{written}").wait_for()  # of the run
    explorer.locator(".panel summary", has_text="answer").click()
    explorer.locator(f".panel details {written}").wait_for()  # of the store
    page.open_step(1, "Name many fruits.")
    explorer.locator(f".panel {output}{written}").wait_for()
    explorer.locator(f".panel .said.model {written}").wait_for()
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    explorer.locator(".panel button:text-is('Copy')").click()
    explorer.locator(".panel button:text-is('Copied')").wait_for()
    assert page.page.evaluate("() => navigator.clipboard.readText()") == "# Fruit\n\n- **figs**\n- plums"
    explorer.locator("button:text-is('State over time')").click()
    explorer.locator(f".time {written}").wait_for()
    page.picture("markdown of an answer", 1)
    assert "**figs" not in explorer.locator(".time details, .panel").all_inner_texts()
    saved = str(page.save().cells[1].outputs)
    assert "<strong>figs</strong>" in saved.split("conversation")[0]
    assert not page.errors


def shows_end(page: Notebook, text: str) -> None:
    page.wait(f"({ITS_END})([{PANEL}, it])", text)


PRICED = """%load_ext agf_magics
%config AgfMagics.journal = "cost.sqlite"
import os
import agf_magics as agf
os.environ |= {"OPENAI_BASE_URL": "SERVER", "OPENAI_API_KEY": "any-text"}

@agf.tool
def price(fruit: str) -> float:
    "The price of a kilo."
    return 7.0

agf.registry.choose("openai-chat:gpt-4o")"""
EACH = """%%pipeline --run
pipeline: each
steps:
- agent: {prompt: "What do figs cost?", capabilities: {tools: [price]}, output: answer}
- for_each:
    items: [pears, plums]
    on_error: abort
    do: {agent: {prompt: "And {item}?"}}
    collect: {transform: {value: pipe}}"""


def test_tokens_and_cost_are_in_rows_panel_and_header_while_a_run_goes_on(opened: Open) -> None:
    numbers, answered = count(), threading.Event()

    def answer(request: dict[str, Any]) -> Answer:
        if next(numbers) == 0:
            return calls(("price", {"fruit": "fig"}))
        answered.wait(60)
        return "Seven euros."

    with ScriptedServer(answer) as server:
        page = opened(PRICED.replace("SERVER", server.url), EACH, EACH, "%runs")
        page.run(0)
        page.run(1, wait=False)
        explorer = page.explorer(1)
        explorer.locator("header", has_text="15 tokens in 1 request · ≈ $0.000075").wait_for()
        panel = page.open_step(1, "answer agent What do figs cost?")
        panel.locator("text=15 tokens · ≈ $0.000075").first.wait_for()
        panel.locator(".said.model small", has_text="10 + 5 tokens · ≈ $0.000075").wait_for()
        # Neither the price nor the name is cut off. Below is what the model did, in rows without internal steps.
        agent = explorer.locator(".row:nth-child(1)")
        assert agent.locator(".counted span", has_text="$0.000075").evaluate(IN_SIGHT)
        assert agent.locator(".name b").evaluate(IN_SIGHT)
        names = explorer.locator(".row .name b")
        texts = {"answer", "request 1 · price · request 2", "1 call of price", "each of [pears, plums]"}
        assert set(names.all_inner_texts()) >= texts
        assert not explorer.locator(".row", has_text="the model's choice").count()
        for theme in ("Dark", "Light"):
            page.theme(theme)
            page.picture(f"models-cost-running-{theme.lower()}", 1)
        answered.set()
        page.finished()
        explorer.locator("header", has_text="✓ ok").wait_for()
        explorer.locator("header", has_text="60 tokens in 4 requests · ≈ $0.00030").wait_for()
        fan = explorer.locator(".row", has_text="for_each")
        assert fan.locator(".counted span", has_text="≈ $0.00015").evaluate(IN_SIGHT)
        page.open_step(1, "for_each").locator("text=30 tokens · ≈ $0.00015").wait_for()
        for theme in ("Dark", "Light"):
            page.theme(theme)
            page.picture(f"models-cost-{theme.lower()}", 1)
        page.run(2)
        page.run(3)
        runs = page.explorer(3)
        runs.locator("tr", has_text="≈ $0.00030").first.wait_for()
        for number in (0, 1):
            runs.locator("input[type=checkbox]").nth(number).check()
        runs.locator("button:text-is('Compare')").click()
        bars = runs.locator(".bars .bar")
        runs.locator("label", has_text="whose result is the same").locator("input").check()
        bars.filter(has_text="≈ $0.00015").first.wait_for()
        page.picture("models-cost-compared", 3)
        for bar in bars.all():
            assert bar.evaluate(
                "node => node.lastChild.scrollHeight <= node.clientHeight && node.scrollWidth <= node.clientWidth"
            )
        assert len({bar.bounding_box()["width"] for bar in bars.locator("u").all()}) > 1  # type: ignore[index]
        assert not page.errors


FRUITS = """%load_ext agf_magics
%config AgfMagics.journal = "sessions.sqlite"
import asyncio, os
import agf_magics as agf
from pydantic_ai.models.function import FunctionModel

async def talk(messages, info):
    name = messages[0].parts[-1].content.split()[-1]
    yield f"About {name}: "
    if name == "fig":
        raise ValueError("the service is down")
    while name in ("plum", "kiwi") and not os.path.exists("told-" + name):
        await asyncio.sleep(0.05)
        yield "word "
    yield "done."

agf.registry.choose(FunctionModel(stream_function=talk, model_name="figs"))"""
SESSIONS = """%%pipeline --run
pipeline: fruits
steps:
- for_each:
    items: [pear, fig, plum, kiwi]
    on_error: continue
    do: {agent: {prompt: "Write about a {item}", output: said}}
    collect: {transform: {value: pipe}}"""
CHOSEN = "select.selectedOptions[0].textContent"


def test_the_conversation_that_arrives_is_shown_until_a_person_chooses_another(opened: Open, lab: Lab) -> None:
    page = opened(FRUITS, SESSIONS)
    page.run_all(wait=False)
    explorer = page.explorer(1)
    explorer.locator(".row", has_text=re.compile("About (plum|kiwi)")).first.wait_for()
    panel = page.open_step(1, "Write about")
    chosen = panel.locator("select[aria-label=Session]")
    panel.locator(".said:has-text('arriving')").wait_for()
    shown = chosen.evaluate(f"select => {CHOSEN}")
    assert shown in ("#2 · ▶ running · Write about a plum", "#3 · ▶ running · Write about a kiwi")
    names = {"#2": "plum", "#3": "kiwi"}
    (other,) = names.keys() - {shown[:2]}
    panel.locator(f".said.model:has-text('About {names[shown[:2]]}')").wait_for()
    states = {"pear": "✓ ok", "fig": "✗ failed", "plum": "▶ running", "kiwi": "▶ running"}
    options = [f"#{number} · {states[fruit]} · Write about a {fruit}" for number, fruit in enumerate(states)]
    page.wait(f"JSON.stringify([...{SELECT}.options].map(option => option.text)) === JSON.stringify(it)", options)
    page.picture("sessions-running", 1)
    (lab.folder / f"told-{names[shown[:2]]}").touch()  # the next one that arrives follows
    page.wait(f"{SELECT}.selectedOptions[0].text === it", f"{other} · ▶ running · Write about a {names[other]}")
    panel.locator(f".said.model:has-text('About {names[other]}')").wait_for()
    chosen.select_option(label="#0 · ✓ ok · Write about a pear")
    panel.locator(".said.model:has-text('About pear: done.')").wait_for()
    (lab.folder / f"told-{names[other]}").touch()
    page.finished()
    page.wait(f"{SELECT}?.options.length === 4 && [...{SELECT}.options].every(option => !option.text.includes('▶'))")
    explorer.locator(".said.model:has-text('About pear: done.')").wait_for()  # as the person has chosen
    page.picture("sessions-ended", 1)
    assert not page.errors


SELECT = f"{EXPLORERS}.map(root => root.querySelector('select[aria-label=Session]')).find(Boolean)"
