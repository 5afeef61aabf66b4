"""The explorer in a real kernel: the messages to the page, the answers to its requests, and the saved document."""

from __future__ import annotations

import base64
import gzip
import json
import queue
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agf_magics.notebook.explorer.widget_model import FOLDER, LATER_SCRIPTS, SCRIPTS, script
from agf_magics.pictures.pages.wire import BarRow, ElementRow, StepRow, UpdateRow
from tests.notebook.conftest import Cell, Kernel, kernel_in, started

pytestmark = pytest.mark.kernel

BESIDE = """\
import agf_magics as agf
from agf_magics import ToolContext, tool
@tool
async def wonder(context: ToolContext) -> str:
    return await context.ask("Go on?", ["yes", "no"])
_ = agf.define(chr(10).join((
    "pipeline: beside", "steps:", "- parallel:", "    branches:",
    "      ask: {tool: {name: wonder, args: {}}}", "      work: {tool: {name: gate, args: {name: beside}}}",
    "    collect: {transform: {value: pipe}}",
)))
h = agf.start("beside", quiet=True)
"""
LETTERS = """\
from agf_magics import tool
@tool
def pay(amount: int) -> int:
    return amount
import agf_magics as agf
calls = "[{_tool: pay, amount: 1, _outputPath: $state.a}, {_tool: pay, amount: 2, _outputPath: $state.b}]"
_ = agf.define("{confirm: true, calls: " + calls + "}", "plan", name="letters")
"""
GATED = """\
%%pipeline --run
pipeline: gated
steps:
- tool: {name: say, args: {word: first}, output: one}
- tool: {name: gate, args: {name: gate}, output: two}
"""
EACH = """\
%%pipeline --run
pipeline: each
steps:
- for_each:
    items: [pear, fig, plum]
    on_error: continue
    do: {tool: {name: choosy, args: {word: !expr item}}}
    collect: {transform: {value: pipe}}
    output: three
"""
CHOOSY = """\
@tool
def choosy(word: str) -> str:
    if word == "fig":
        raise ValueError(f"no {word}s")
    return word
"""
FRAGILE = """\
WORKS = False

@tool
async def fragile() -> int:
    if not WORKS:
        raise ValueError("no")
    return 1
"""


@pytest.fixture
def journaled(page_kernel: Kernel) -> Iterator[Kernel]:
    page_kernel.good('%config AgfMagics.journal = "runs.sqlite"')
    yield page_kernel
    page_kernel.good("%config AgfMagics.journal = None\n%config AgfMagics.progress_after = 0.3")


class Page:
    """The browser's side of the explorer. It keeps the messages of the kernel, and sends requests."""

    def __init__(self, kernel: Kernel, cell: Cell) -> None:
        self.kernel, self.asked = kernel, 0
        self.comm, self.mark, self.start = started(cell.messages)[-1]
        contents = [content["data"].get("content", {}) for content in cell.of("comm_msg")]
        self.messages = [
            message for message in contents if message.get("mark") == self.mark and message is not self.start
        ]

    @property
    def updates(self) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["type"] == "update"]

    def send(self, do: str, subshell: str | None = None, **arguments: Any) -> str:
        self.asked += 1
        content = {"mark": self.mark, "do": do, "id": self.asked, "with": arguments}
        data = {"comm_id": self.comm, "data": {"method": "custom", "content": content}}
        message = self.kernel.client.session.msg("comm_msg", data)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self.kernel.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def ask(self, do: str, subshell: str | None = None, **arguments: Any) -> Any:
        """Send a request. Returns the reply."""
        self.send(do, subshell, **arguments)
        while True:
            message = self.kernel.next()
            content = message["content"].get("data", {}).get("content") if message["msg_type"] == "comm_msg" else None
            if content is None:
                self.kernel.strays.append(message)
            elif content["type"] == "reply" and content["id"] == self.asked:
                return content
            else:
                self.messages.append(content)

    def get(self, do: str, **arguments: Any) -> Any:
        reply = self.ask(do, **arguments)
        assert reply["ok"], reply
        return reply["value"]


def held(kernel: Kernel) -> Cell:
    kernel.good("%config AgfMagics.progress_after = 0")
    cell = kernel.begin(GATED)
    cell.until("stream", "at the gate")
    cell.until("update_display_data", "running")
    return cell


def open_gate(kernel: Kernel) -> None:
    (kernel.folder / "gate").write_text("open")


def rows(updates: list[dict[str, Any]]) -> dict[int, list[Any]]:
    return {number: row for update in updates for number, *row in update["rows"]}


def test_an_explorer_opens_only_with_a_front_end(page_kernel: Kernel, headless: Kernel) -> None:
    for kernel, expected in ((page_kernel, True), (headless, False)):
        cell = held(kernel)
        open_gate(kernel)
        cell.end()
        sent = [content["data"].get("content", {}) for content in cell.of("comm_msg")]
        opened = cell.of("comm_open") or [
            message for message in sent if message.get("type") == "run"
        ]  # to the model that is there
        assert bool(opened) is expected
        assert ("agf-run" in str(cell.outputs)) is expected


def test_a_kernel_of_vs_code_is_recognized_by_its_name_for_the_notebook_and_not_by_its_environment(
    page_kernel: Kernel,
) -> None:
    page_kernel.good("import os; os.environ['VSCODE_PID'] = '1'")
    for before, expected in (("pass", False), ("__vsc_ipynb_file__ = 'a.ipynb'", True)):
        page_kernel.good(before)
        cell = held(page_kernel)
        open_gate(page_kernel)
        cell.end()
        assert (
            any(
                "application/vnd.jupyter.widget-view+json" in str(content) for content in cell.of("update_display_data")
            )
            is expected
        )
    page_kernel.good("del __vsc_ipynb_file__; del os.environ['VSCODE_PID']")


def test_the_document_never_has_a_widget(page_kernel: Kernel) -> None:
    cell = held(page_kernel)
    open_gate(page_kernel)
    cell.end()
    bundles = [content["data"] for content in cell.of("display_data", "update_display_data")]
    assert len(bundles) >= 3
    assert all(set(data) == {"text/html", "text/plain"} for data in bundles)
    assert Page(page_kernel, cell).mark in cell.outputs[0]["text/html"]


def test_the_explorer_opens_at_the_end_of_a_quick_run(page_kernel: Kernel) -> None:
    page_kernel.good("%config AgfMagics.progress_after = 100")
    cell = page_kernel.good("%%pipeline --run\npipeline: q\nsteps: [{transform: {value: '1 + 1'}}]")
    page = Page(page_kernel, cell)
    assert page.start["update"]["status"] == "ok"
    assert set(cell.outputs[0]) == {"text/html", "text/plain"}
    assert page.mark in cell.outputs[0]["text/html"]


def test_updates_have_only_what_changed_and_the_last_one_has_everything(page_kernel: Kernel) -> None:
    cell = held(page_kernel)
    open_gate(page_kernel)
    cell.end()
    page = Page(page_kernel, cell)
    last = page.updates[-1]
    assert not last["live"]
    assert [row[0] for row in last["rows"]] == [0, 1]
    assert rows(page.updates) == rows([last])
    assert [update["n"] for update in page.updates] == list(range(1, len(page.updates) + 1))


def test_an_explorer_that_fails_leaves_the_static_page_and_prints_nothing(page_kernel: Kernel) -> None:
    page_kernel.good(
        "import agf_magics.notebook.explorer.run_channel as e\n"
        "tick = e.Channel.tick\ne.Channel.tick = lambda self: 1 / 0"
    )
    cell = held(page_kernel)
    open_gate(page_kernel)
    cell.end()
    page_kernel.good("e.Channel.tick = tick")
    assert "Traceback" not in str(cell.messages)
    assert "ZeroDivisionError" not in str(cell.messages)
    assert "✓ ok" in cell.outputs[0]["text/plain"]


def says_busy_again(cell: Cell) -> None:
    """Wait until the kernel says again that it is busy with a cell: an answer to the page ends with idle."""
    is_busy = False
    while not is_busy:
        message = cell.kernel.next()
        is_busy = message["parent_header"]["msg_id"] == cell.id and message["content"] == {"execution_state": "busy"}


def test_the_kernel_is_busy_while_a_cell_awaits_a_run(page_kernel: Kernel) -> None:
    if "kernel subshells" not in page_kernel.reply(page_kernel.client.kernel_info()).get("supported_features", ()):
        pytest.skip("this kernel has no subshells")
    page_kernel.good("%config AgfMagics.progress_after = 0")
    page_kernel.good(GATED.replace(" --run", ""))
    cell = page_kernel.begin("import agf_magics as agf\nran = await agf.arun('gated')")
    cell.until("update_display_data", "running")
    page = Page(page_kernel, cell)
    page_kernel.client.control_channel.send(page_kernel.client.session.msg("create_subshell_request", {}))
    subshell = page_kernel.client.get_control_msg(timeout=60)["content"]["subshell_id"]
    page.send("step", subshell, step="steps[0]")
    cell_reply(cell, page)
    says_busy_again(cell)
    open_gate(page_kernel)
    cell.end()
    request = page_kernel.client.session.msg("delete_subshell_request", {"subshell_id": subshell})
    page_kernel.client.control_channel.send(request)
    page_kernel.client.get_control_msg(timeout=60)


def test_the_page_asks_while_the_cell_waits(page_kernel: Kernel) -> None:
    with_subshell = page_kernel.reply(page_kernel.client.kernel_info()).get("supported_features", ())
    if "kernel subshells" not in with_subshell:
        pytest.skip("this kernel has no subshells: only the interrupt reaches a cell that waits")
    page_kernel.client.control_channel.send(page_kernel.client.session.msg("create_subshell_request", {}))
    subshell = page_kernel.client.get_control_msg(timeout=60)["content"]["subshell_id"]
    cell = held(page_kernel)
    page = Page(page_kernel, cell)
    page.send("step", subshell, step="steps[0]")
    reply = cell_reply(cell, page)
    assert reply["value"]["output"] == {"kind": "text", "text": "first"}
    says_busy_again(cell)
    page.send("cancel", subshell)
    cell.end()
    assert cell.reply["ename"] == "RunCancelled"
    assert "Cancel button" in cell.traceback
    page_kernel.client.control_channel.send(
        page_kernel.client.session.msg("delete_subshell_request", {"subshell_id": subshell})
    )
    page_kernel.client.get_control_msg(timeout=60)


def cell_reply(cell: Cell, page: Page) -> Any:
    """The next reply, while the cell continues."""
    while True:
        message = cell.kernel.next()
        if message["parent_header"].get("msg_id") == cell.id:
            cell.messages.append(message)
        content = message["content"].get("data", {}).get("content") if message["msg_type"] == "comm_msg" else None
        if content is not None and content["type"] == "reply" and content["id"] == page.asked:
            return content


def test_a_failed_element_is_the_first_call_and_can_be_opened(journaled: Kernel) -> None:
    journaled.good(CHOOSY)
    page = Page(journaled, journaled.good(EACH))
    answer = page.get("calls", step="steps[0]")
    assert (answer["total"], answer["failed"]) == (3, 1)
    assert [row["failed"] for row in answer["rows"]] == [True, False, False]
    failed = page.get("calls", step="steps[0]", failed=True)
    assert failed["total"] == 1
    assert page.get("step", step="steps[0]", calls={"failed": True})["calls"] == failed  # both in one message
    call = page.get("call", step="steps[0]", number=answer["rows"][0]["number"])
    assert "no figs" in call["error"]
    assert call["given"]["parts"][0][1]["text"] == '"fig"'
    assert len(page.get("spans", step="steps[0]")["bars"]) == 3


COUNTED = """\
%%pipeline --run
pipeline: counted
steps:
- tool: {name: counts, args: {word: first}}
- for_each:
    items: [pear, fig]
    max_parallel: 1
    on_error: abort
    do: {tool: {name: counts, args: {word: !expr item}}}
    collect: {transform: {value: pipe}}
- tool: {name: stop, args: {}}
"""
COUNTS = """\
WORKS = False

@tool
def counts(word: str) -> int:
    return sum(range(2_000_000))

@tool
def stop() -> int:
    if not WORKS:
        raise ValueError("no")
    return 1
"""


def test_calls_stand_at_their_times_on_the_axis_of_the_run(journaled: Kernel) -> None:
    journaled.good("import agf_magics as agf\n" + COUNTS)
    failed = Page(journaled, journaled.run(COUNTED))
    past = Page(journaled, journaled.good("agf.runs(agf.runs()[0].run_id)"))
    resumed = Page(journaled, journaled.good("WORKS = True\n%resume counted"))
    for page in (failed, past, resumed):
        step = next(i for i, row in enumerate(page.start["tree"]["rows"]) if StepRow._make(row).id == "steps[1]")
        times = rows([page.start["update"], *page.updates])[step]
        start, end = (1e3 * times[UpdateRow._fields.index(name) - 1] for name in ("start", "end"))
        answer = page.get("spans", step="steps[1]")
        first, second = (BarRow._make(bar) for bar in answer["bars"])
        assert first.start == 0 < first.end <= second.start < second.end
        # The two clocks differ by the time between two lines.
        assert start - 5 <= answer["began"] <= answer["began"] + second.end <= end + 5


def test_a_list_of_runs_is_current_when_the_page_asks_again(journaled: Kernel) -> None:
    journaled.good("WORKS = False\n@tool\ndef stop() -> int:\n    if not WORKS: raise ValueError('no')\n    return 1")
    journaled.run("%%pipeline --run\npipeline: stopped\nsteps:\n- tool: {name: stop, args: {}}")
    lines = ("%runs --name stopped", "import agf_magics as agf\nagf.runs(flow='stopped')")
    lists = [Page(journaled, journaled.good(line)) for line in lines]
    assert [page.start["list"]["failed"] for page in lists] == [[True], [True]]
    journaled.good("WORKS = True\n%resume stopped")
    journaled.good("%run_pipeline stopped")
    answers = [page.get("list", first=0) for page in lists]
    assert [answer["failed"] for answer in answers] == [[False, False], [False]]  # the second value belongs to the user
    assert not any(answer["goes_on"] for answer in answers)


def test_a_cell_that_runs_again_and_again_leaves_the_explorers_of_other_cells_open(journaled: Kernel) -> None:
    journaled.good("from agf_magics.notebook.explorer.open_views import close_explorers\nclose_explorers()")
    first = Page(journaled, journaled.good(SHORT, id="first"))
    others = [Page(journaled, journaled.good(SHORT, id="other")) for _ in range(12)]
    assert first.get("run")["name"] == others[-1].get("run")["name"]
    assert others[0].ask("run")["why"].startswith("this explorer is closed")
    for number in range(10):
        journaled.good(SHORT, id=f"cell {number}")
    assert first.ask("run")["why"].startswith("this explorer is closed")


def test_the_page_of_a_run_that_goes_on_says_so_and_is_opened_once(journaled: Kernel) -> None:
    cell = held(journaled)
    assert 'data-live="true"' in str(cell.messages)
    open_gate(journaled)
    page = Page(journaled, cell.end())
    assert 'data-live="true"' not in cell.outputs[-1]["text/html"]
    journaled.good("from agf_magics.notebook.explorer.run_channel import open_again")
    opened = journaled.good(f"open_again({page.start['id']!r}, {page.mark!r})")
    assert opened.outputs[-1]["text/plain"] == "''"
    assert started(opened.messages) == []


def test_an_open_list_of_runs_hears_that_a_cell_ran(journaled: Kernel) -> None:
    journaled.good("%%pipeline --run --quiet\npipeline: listed\nsteps:\n- transform: {value: 1 + 1}")
    journaled.good("from agf_magics.notebook.explorer.open_views import close_explorers\nclose_explorers()")
    Page(journaled, journaled.good("%runs"))
    messages = journaled.good("1").of("comm_msg")
    assert {"type": "edited"} in [content["data"].get("content") for content in messages]


def test_a_past_run_is_explored_like_a_live_one(journaled: Kernel) -> None:
    journaled.good(CHOOSY)
    journaled.good(EACH)
    cell = journaled.good("import agf_magics\nagf_magics.runs(agf_magics.runs()[0].run_id)")
    page = Page(journaled, cell)
    assert page.mark in cell.outputs[0]["text/html"]
    assert page.get("calls", step="steps[0]")["failed"] == 1
    assert page.get("step", step="steps[0]")["counted"] == "2 ok, 1 failed of 3"


def test_a_run_that_the_explorer_of_a_past_run_starts_replaces_its_page(journaled: Kernel) -> None:
    journaled.good("@tool\ndef mute(word: str) -> str: return word")
    journaled.good("%%pipeline --run\npipeline: before\nsteps: [{tool: {name: mute, args: {word: one}}}]")
    cell = journaled.good("import agf_magics\nagf_magics.runs(agf_magics.runs()[0].run_id)")
    page = Page(journaled, cell)
    first = cell.outputs[0]["text/html"]
    assert page.ask("rerun", step="steps[0]")["ok"]
    messages = list(journaled.strays)  # includes messages of a run that ended before the reply
    while not (pages := [message for message in messages if message["msg_type"] == "update_display_data"]):
        messages.append(journaled.next())
    html = pages[-1]["content"]["data"]["text/html"]
    assert page.mark in html, html[:2000]
    runs_shown = [re.findall(r"before-\d+-\w+", text)[0] for text in (html, first)]
    assert runs_shown[0] != runs_shown[1]
    journaled.drain()


SESSIONS = """\
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
import agf_magics as agf
echo = FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart("said " + messages[-1].parts[-1].content)]))
agf.model_agent("echo", model=echo, instructions="Echo.")
"""
TALK = """\
%%pipeline --run
pipeline: talk
steps:
- for_each:
    items: [pear, fig]
    on_error: abort
    do: {agent: {prompt: "{item}", identity: echo}}
    collect: {transform: {value: pipe}}
"""


def sessions_of(page: Page) -> list[str]:
    """The ids of the steps that are sessions of a model."""
    ids = [StepRow._make(row).id for row in page.start["tree"]["rows"]]
    return [id for id in ids if page.get("step", step=id)["session"] == id]


def test_one_of_many_sessions_is_chosen_by_its_number(journaled: Kernel) -> None:
    journaled.good(SESSIONS)
    page = Page(journaled, journaled.good(TALK))
    (step,) = sessions_of(page)
    first = page.get("session", step=step)
    assert (first["total"], first["index"]) == (2, [0])
    assert [message["text"] for message in first["messages"]] == ["Echo.", "pear", "said pear"]
    second = page.get("session", step=step, index=[1])
    assert [message["text"] for message in second["messages"]] == ["Echo.", "fig", "said fig"]
    elements = [ElementRow._make(row) for row in page.get("elements", step="steps[0]")["rows"]]
    assert [(element.calls, element.output, element.input) for element in elements] == [
        (1, "said pear", "pear"),
        (1, "said fig", "fig"),
    ]
    past = Page(journaled, journaled.good("agf.runs(agf.runs()[0].run_id)"))
    assert past.start["tree"]["rows"] == page.start["tree"]["rows"]
    assert past.get("session", step=step, index=[1]) == second
    assert past.get("stale", auto=True)["new"] == []


def test_more_calls_than_bars_are_a_density(journaled: Kernel) -> None:
    journaled.good("@tool\nasync def one(n: int) -> int:\n    if n == 7: raise ValueError('seven')\n    return n")
    journaled.good("numbers = list(range(5_000))")
    page = Page(journaled, journaled.good(MANY))
    answer = page.get("spans", step="steps[0]")
    assert answer["total"] == 5_000
    assert (len(answer["density"]), answer["most"]) == (300, 1)
    assert sum(failed for _, failed in answer["density"]) >= 1
    elements = page.get("elements", step="steps[0]", offset=0)
    assert (elements["total"], len(elements["rows"])) == (5_000, 100)
    first, second = (ElementRow._make(row) for row in elements["rows"][:2])
    assert (first.numbers, first.calls, first.failed, first.is_failed) == ([7], 1, 1, True)
    assert (first.output, first.input) == ("ValueError: seven", "n: 7")
    for given, numbers in (({"failed": True}, [[7]]), ({"text": "SEVEN"}, [[7]]), ({"text": "no such"}, [])):
        some = page.get("elements", step="steps[0]", **given)
        assert [ElementRow._make(row).numbers for row in some["rows"]] == numbers
        assert (some["total"], some["failed"]) == (len(numbers), len(numbers))
    assert elements["failed"] == 1
    failed, ok = (page.get("element", step="steps[0]", index=[number]) for number in (7, 8))
    assert (failed["failed"], failed["sessions"], ok) == (True, [], {"failed": False, "sessions": []})
    assert "seven" in failed["lead"]["error"]
    assert failed["lead"]["given"] == page.get("call", step="steps[0]", number=failed["lead"]["number"])["given"]
    assert (second.output, second.input) == ("0", "n: 0")


MANY = """\
%%pipeline --run --set numbers=$numbers
pipeline: many
steps:
- for_each:
    over: ctx.numbers
    on_error: continue
    do: {tool: {name: one, args: {n: !expr item}}}
    collect: {transform: {value: count(pipe)}}
"""


@pytest.mark.parametrize(
    ("do", "arguments", "why"),
    [
        ("step", {"step": "steps[9]"}, "has no step 'steps[9]'"),
        ("step", {}, "has no step"),
        ("call", {"step": "steps[0]", "number": 999}, "no longer in the journal"),
        ("call", {"step": "steps[0]", "number": "1; DROP TABLE runs"}, "no longer in the journal"),
        ("picture", {"flow": ["steps[0]"]}, "calls no flow"),
        ("erase", {}, "unknown request 'erase'"),
        ("__class__", {}, "unknown request"),
    ],
)
def test_a_request_that_cannot_be_answered_names_the_problem(
    journaled: Kernel, do: str, arguments: Any, why: str
) -> None:
    journaled.good(CHOOSY)
    page = Page(journaled, journaled.good(EACH))
    reply = page.ask(do, **arguments)
    assert not reply["ok"]
    assert why in reply["why"]


def test_without_a_journal_the_panel_says_so(page_kernel: Kernel) -> None:
    page_kernel.good(CHOOSY)
    page = Page(page_kernel, page_kernel.good(EACH))
    assert "not journaled" in page.get("step", step="steps[0]")["note"]
    assert "not journaled" in page.ask("calls", step="steps[0]")["why"]


def test_a_lost_journal_is_named(journaled: Kernel) -> None:
    journaled.good(CHOOSY)
    page = Page(journaled, journaled.good(EACH))
    journaled.good("import os, glob\nfor name in glob.glob('runs.sqlite*'): os.remove(name)")
    reply = page.ask("calls", step="steps[0]")
    assert not reply["ok"]
    assert "the journal cannot be used" in reply["why"]
    assert page.get("picture")["boxes"] == ["steps[0].do"]
    once = page.get("step", step="steps[0].collect")
    assert "the journal cannot be used" in once["note"]
    assert once["output"]["title"] == "2 items"
    assert once["definition"]["first"] == 8


STEP = "- transform: {{value: '1', output: {name}_{number}}}"


def flow_of(name: str, *calls: str, count: int = 2) -> str:
    """A pipeline of some steps that then calls others."""
    steps = [STEP.format(name=name, number=number) for number in range(count)]
    called = [f"- call: {{pipeline: {inner}, output: {inner}}}" for inner in calls]
    return "\n".join([f"pipeline: {name}", "steps:", *steps, *called])


@pytest.mark.parametrize(
    ("inner", "middle", "frames", "called"),
    [
        (2, 2, {"steps[2]", "INNER"}, []),
        (24, 2, {"steps[2]"}, ["INNER"]),  # the innermost one has no room
        (2, 30, set[str](), ["steps[2]"]),
    ],
)
def test_called_flows_are_open_as_long_as_there_is_room(
    page_kernel: Kernel, inner: int, middle: int, frames: set[str], called: list[str]
) -> None:
    for text in (flow_of("inner", count=inner), flow_of("middle", "inner", count=middle)):
        page_kernel.good("%%pipeline\n" + text)
    page = Page(page_kernel, page_kernel.good("%%pipeline --run\n" + flow_of("outer", "middle")))
    picture = page.get("picture")
    path = f"steps[2]/steps[{middle}]"
    assert {frame.replace(path, "INNER") for frame in picture["frames"]} == frames
    assert [step.replace(path, "INNER") for step in picture["boxes"] if step in ("steps[2]", path)] == called
    rows = {row[0] for row in page.start["tree"]["rows"]}
    assert set(picture["boxes"]) - {"input"} <= rows
    # What is folded is a box, and each of them is shown by itself, by the whole path or by its parts.
    for way in (path.split("/"), [path]):
        assert "steps[1]" in page.get("picture", flow=way)["boxes"]
    assert "steps[2]" in page.get("picture", folded=["steps[2]"])["boxes"]


def test_a_dropped_call_names_the_line_that_raised_its_error(journaled: Kernel) -> None:
    journaled.good("@tool\ndef odd(n: int) -> int:\n    if n % 2: raise ValueError('odd')\n    return n")
    cell = journaled.good(
        "%%pipeline --run\npipeline: odds\nsteps:\n- for_each:\n    items: [2, 3]\n    on_error: continue\n"
        "    do: {tool: {name: odd, args: {n: !expr item}}}\n    collect: {transform: {value: pipe}}"
    )
    page = Page(journaled, cell)
    (failed,) = page.get("calls", step="steps[0]", failed=True)["rows"]
    call = page.get("call", step="steps[0]", number=failed["number"])
    assert re.search(r"\n  raised in In\[\d+\], line 3, in odd$", call["error"])
    assert (
        "raised in"
        not in Page(journaled, journaled.good("import agf_magics as agf\nagf.runs(agf.runs()[0].run_id)")).get(
            "call", number=failed["number"]
        )["error"]
    )


def test_resume_continues_in_the_same_output(journaled: Kernel) -> None:
    journaled.good(FRAGILE)
    cell = journaled.run(
        "%%pipeline --run\npipeline: fragile\nsteps:\n"
        "- tool: {name: whisper, args: {word: once}, output: a}\n- tool: {name: fragile, output: b}"
    )
    assert cell.reply["status"] == "error"
    page = Page(journaled, cell)
    assert page.start["update"]["can"] == ["resume", "rerun", "moments"]
    assert "ValueError: no" in page.start["update"]["why"]
    assert "output" not in page.get("run")
    assert re.search(r"\n  raised in In\[\d+\], line 6, in fragile$", page.get("step", step="steps[1]")["error"])
    journaled.good("WORKS = True")
    assert page.ask("resume")["ok"]
    while not any(update["status"] == "ok" for update in page.updates):
        content = journaled.next()["content"].get("data", {}).get("content")
        if isinstance(content, dict) and "type" in content:
            page.messages.append(content)
    assert page.updates[-1]["why"] == ""
    assert page.get("run")["output"]["text"] == "1"
    (again,) = [message for message in page.messages if message["type"] == "run"]
    assert again["tree"]["name"] == "fragile"
    answer = page.get("step", step="steps[1]")
    assert [(attempt["attempt"], attempt["failed"]) for attempt in answer["attempts"]] == [(1, True), (2, False)]
    journaled.drain()


def test_a_run_that_another_cell_resumes_goes_on_in_its_page(journaled: Kernel) -> None:
    journaled.good(FRAGILE)
    text = "%%pipeline --run\npipeline: fragile\nsteps:\n- tool: {name: fragile, output: a}"
    page = Page(journaled, journaled.run(text))
    journaled.good("WORKS = True")
    cell = journaled.begin(f"%resume {page.start['id']}", id="another-cell")
    while not any(update.get("status") == "ok" for update in page.updates):
        message = journaled.next()
        if message["parent_header"].get("msg_id") == cell.id:
            cell.messages.append(message)
        content = message["content"].get("data", {}).get("content")
        if isinstance(content, dict) and content.get("mark") == page.mark:
            page.messages.append(content)
    cell.end()
    assert [message["id"] for message in page.messages if message["type"] == "run"] == [page.start["id"]]
    assert "resume" not in page.updates[-1]["can"]
    journaled.drain()


def test_run_from_here_is_a_new_run_that_reuses_what_came_before(journaled: Kernel) -> None:
    cell = journaled.good(
        "%%pipeline --run\npipeline: again\nsteps:\n"
        "- tool: {name: whisper, args: {word: one}, output: a}\n- tool: {name: whisper, args: {word: two}, output: b}"
    )
    page = Page(journaled, cell)
    assert page.start["update"]["can"] == ["rerun", "moments"]
    assert page.ask("rerun", step="steps[1]")["ok"]
    while not any(update["status"] == "ok" for update in page.updates):
        content = journaled.next()["content"].get("data", {}).get("content")
        if isinstance(content, dict) and "type" in content:
            page.messages.append(content)
    assert re.fullmatch(r"run from 'b' of again-\S+; 1 call reused", page.get("run")["note"])
    wrong = page.ask("rerun", step="steps[5]")
    assert not wrong["ok"]
    assert "has no step 'steps[5]'" in wrong["why"]
    journaled.drain()


ASKS = """\
%%graph asks
state: {said: str}
nodes:
  ask: {type: interrupt, message: "Publish?", choices: ["now", "later"], resume_key: said}
edges:
- {from: START, to: ask}
- {from: ask, to: END}
"""


def test_a_question_of_a_background_run_is_answered_in_the_explorer(page_kernel: Kernel) -> None:
    page_kernel.good(ASKS + "\n")
    page_kernel.good("%config AgfMagics.progress_after = 0")
    cell = page_kernel.good("h = %run_pipeline_async asks")
    messages = []  # type: ignore[var-annotated]
    while not any("update" in str(m["content"]) and "Publish?" in str(m["content"]) for m in messages):
        messages.append(page_kernel.next())
    cell.messages += [*page_kernel.strays, *messages]
    page_kernel.strays.clear()
    page = Page(page_kernel, cell)
    updates = [page.start["update"], *page.updates]
    (question,) = next(update["questions"] for update in updates if update["questions"])
    assert (question["text"], question["choices"]) == ("Publish?", ["now", "later"])
    wrong = page.ask("answer", where=question["where"], mark=question["mark"], text="never")
    assert not wrong["ok"]
    assert "not an answer" in wrong["why"]
    other = page.ask("answer", where=question["where"], mark="0" * 16, choice=1)
    assert "not open here" in other["why"]  # as a page that still shows an answered question
    assert page.ask("answer", where=question["where"], mark=question["mark"], choice=1)["ok"]
    assert "later" in str(page_kernel.good("h.wait().stores['said']").of("execute_result"))
    assert not page.ask("answer", where=question["where"], mark=question["mark"], text="now")["ok"]
    page_kernel.drain()
    page_kernel.strays.clear()


def test_the_page_of_a_question_shows_what_goes_on_beside_it(page_kernel: Kernel) -> None:
    page, _ = asking(page_kernel, page_kernel.begin(BESIDE))
    tree = page.start["tree"]["rows"]
    (work,) = (number for number, row in enumerate(tree) if row[0].endswith("work"))
    (page_kernel.folder / "beside").write_text("open")
    while rows(page.updates).get(work, [None] * 6)[5] is None:  # its end
        content = page_kernel.next()["content"].get("data", {}).get("content")
        if isinstance(content, dict) and content.get("mark") == page.mark:
            page.messages.append(content)
    page_kernel.good("h.answer('yes'); assert h.wait().status == 'ok'")
    page_kernel.drain()


BOTH_ASKED = """\
import time
from agf_magics.lifecycle.runs.pending_questions import PendingQuestion
while len(two.progress.open_questions) < 2 or not PendingQuestion._open: time.sleep(0.01)
"""


def test_of_two_questions_the_page_offers_the_one_that_waits_for_its_answer(page_kernel: Kernel) -> None:
    page_kernel.good(LETTERS)
    page, _ = asking(page_kernel, page_kernel.begin("two = %run_pipeline_async letters"))
    page_kernel.good(BOTH_ASKED)
    (first,) = page.get("start")["update"]["questions"]
    # An answer that cannot be used: the question comes again, and no other one in its place.
    assert page.ask("answer", where=first["where"], mark=first["mark"], text="{amount: many}")["ok"]
    page_kernel.good("while 'many' not in str(two.progress.open_questions): time.sleep(0.01)\n" + BOTH_ASKED)
    (again,) = page.get("start")["update"]["questions"]
    assert again["where"] == first["where"]
    assert re.search("'many' · call pay", again["text"])
    assert page.ask("answer", where=again["where"], mark=again["mark"], text="{amount: 7}")["ok"]
    page_kernel.good(BOTH_ASKED.replace("< 2", "> 1"))
    (other,) = page.get("start")["update"]["questions"]
    assert page.ask("answer", where=other["where"], mark=other["mark"], text="yes")["ok"]
    page_kernel.good("assert two.wait().status == 'ok'")
    assert "'a': 7, 'b': 2" in str(page_kernel.good("two.stores").of("execute_result"))
    page_kernel.drain()


def asking(kernel: Kernel, cell: Cell) -> tuple[Page, dict[str, Any]]:
    """The page of the run of a cell, once it has the question of the run, and the place of the question."""
    while True:
        cell.messages.append(kernel.next())
        if started(cell.messages):
            page = Page(kernel, cell)
            updates = [page.start["update"], *page.updates]
            for question in (question for update in updates for question in update.get("questions", ())):
                return page, {"where": question["where"], "mark": question["mark"]}


def test_a_question_of_a_cell_is_answered_where_it_is_asked_at_the_prompt_or_in_the_page(tmp_path: Path) -> None:
    kernel = kernel_in(tmp_path, JPY_SESSION_NAME="a.ipynb")
    try:
        asks_twice(kernel)
    finally:
        kernel.close(now=True)


def asks_twice(kernel: Kernel) -> None:
    if "kernel subshells" not in kernel.reply(kernel.client.kernel_info()).get("supported_features", ()):
        pytest.skip("this kernel has no subshells: only the prompt is answered while a cell waits")
    kernel.client.control_channel.send(kernel.client.session.msg("create_subshell_request", {}))
    subshell = kernel.client.get_control_msg(timeout=60)["content"]["subshell_id"]
    kernel.good(ASKS + "\n")
    kernel.good("%config AgfMagics.progress_after = 0")
    # No click has come while a cell ran: the question is at the prompt, and in the page it cannot be answered.
    cell = kernel.begin("r = %run_pipeline asks")
    page, place = asking(kernel, cell)
    prompt = kernel.client.get_stdin_msg(timeout=60)["content"]
    assert not prompt["password"]
    refused = page.ask("answer", subshell, **place, choice=0)
    assert not refused["ok"]
    assert "answer it in the cell that asks" in refused["why"]
    kernel.client.input("2")
    assert cell.end().reply["status"] == "ok"
    assert "later" in str(kernel.good("r.stores['said']").of("execute_result"))
    # Now one has: the next question is in the page alone.
    cell = kernel.begin("r = %run_pipeline asks")
    page, place = asking(kernel, cell)
    assert page.ask("answer", subshell, **place, choice=0)["ok"]
    assert cell.end().reply["status"] == "ok"
    assert "now" in str(kernel.good("r.stores['said']").of("execute_result"))
    with pytest.raises(queue.Empty):
        kernel.client.get_stdin_msg(timeout=0)


EAGER = """\
from agf_magics.notebook.explorer.open_views import Answers

class Eager(Answers):
    # A page that asks while the kernel still tells it of the view.
    def start(self):
        self.receive({"do": "nothing", "id": 1})
        return super().start()

for view in [Eager({}, {}), Eager({}, {}, mark="second"), Eager({}, {}, alone=True)]:
    view.close()
"""


def test_a_view_replies_as_soon_as_the_page_knows_it(page_kernel: Kernel) -> None:
    cell = page_kernel.good(EAGER)
    replies = [content["data"].get("content", {}) for content in cell.of("comm_msg")]
    assert ("second", "reply") in [(reply.get("mark"), reply.get("type")) for reply in replies]


LONG = """\
steps = "".join(f"- transform: {{value: '{n}', output: o{n}}}\\n" for n in range(500))
long = agf_magics.define("pipeline: long\\nsteps:\\n" + steps)
"""


SHORT = "%%pipeline --run\npipeline: short\nsteps: [{transform: {value: '1'}}]"


@pytest.mark.parametrize("names", [SCRIPTS, LATER_SCRIPTS])
def test_a_name_is_declared_once_in_what_a_page_loads_at_once(names: Sequence[str]) -> None:
    """Two declarations of one name are an error of the whole script, and no explorer would be drawn."""
    parts = "\n".join((FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in names)
    # Indented lines declare names inside of something else.
    declared = re.findall(r"^(?:async )?(?:const|let|var|class|function) ([\w$]+)", parts, re.MULTILINE)
    assert len(declared) >= len(names)
    assert [name for name, count in Counter(declared).items() if count > 1] == []


def test_a_page_gets_one_model_with_the_script_for_all_runs(page_kernel: Kernel) -> None:
    page_kernel.good("%reload_ext agf_magics\n%config AgfMagics.progress_after = 0")
    cells = [page_kernel.good(SHORT) for _ in range(2)]
    models = [content["data"]["state"] for content in cells[0].of("comm_open") if "runs" in content["data"]["state"]]
    assert [len(state["runs"]) for state in models] == [1]
    packed = models[0]["_esm"].split('"')[1]
    assert len(packed) < 48_500
    assert gzip.decompress(base64.b64decode(packed)).decode().startswith(script())
    assert not cells[1].of("comm_open", "comm_close")
    assert len(cells[1].of("comm_msg")) == 2  # the begin and the end of the run
    assert Page(page_kernel, cells[1]).comm == Page(page_kernel, cells[0]).comm


def test_a_page_that_is_loaded_again_or_missed_a_message_asks_for_all_runs(page_kernel: Kernel) -> None:
    pages = [Page(page_kernel, page_kernel.good(SHORT)) for _ in range(2)]
    page_kernel.client.shell_channel.send(
        page_kernel.client.session.msg("comm_msg", {"comm_id": pages[0].comm, "data": {"method": "request_state"}})
    )
    content = {"method": "custom", "content": {"do": "runs"}}
    page_kernel.client.shell_channel.send(
        page_kernel.client.session.msg("comm_msg", {"comm_id": pages[0].comm, "data": content})
    )
    states: list[dict[str, Any]] = []
    while len(states) < 2:
        data = page_kernel.next()["content"].get("data", {})
        states += [state["runs"] for state in (data.get("state", {}), data.get("content", {})) if "runs" in state]
    for runs in states:
        assert all(runs[page.mark]["update"]["status"] == "ok" for page in pages)
    page_kernel.drain()
    page_kernel.strays.clear()


def test_an_explorer_opens_in_a_new_model_after_the_old_one_was_closed(page_kernel: Kernel) -> None:
    before = Page(page_kernel, page_kernel.good(SHORT))
    page_kernel.good("import ipywidgets\nipywidgets.Widget.close_all()")
    after = Page(page_kernel, page_kernel.good(SHORT))
    assert after.comm != before.comm
    assert after.get("run")["name"] == "short"


def test_the_messages_about_500_steps_are_small(page_kernel: Kernel) -> None:
    page_kernel.good("import agf_magics\n%config AgfMagics.progress_after = 0\n" + LONG)
    cell = page_kernel.good("%run_pipeline long --out r")
    page = Page(page_kernel, cell)
    assert len(json.dumps(page.start)) < 70_000  # the tree, all rows
    updates = [page.start["update"], *page.updates]
    assert len(updates[-1]["rows"]) == 500
    assert all(len(json.dumps(update)) < 45_000 for update in updates)
    # A picture of these steps is drawn on request only.
    assert "<svg" not in str(page.start)
    assert len(page.get("picture")["boxes"]) == 20, "groups of steps"
    picture = page.get("picture", folded=[])
    assert len(picture["boxes"]) == 500
    assert len(json.dumps(picture)) < 440_000
    assert page.get("store", number=499) == {"kind": "text", "text": "499"}
    assert "no longer has this store" in page.ask("store", number=500)["why"]
    assert page.get("text", number=499) == {"text": "499"}
    assert page.get("text") == {"text": "499"}
    assert page.get("text", step="steps[7]") == {"text": "7"}
    assert "no longer has this store" in page.ask("text", number=500)["why"]


def test_a_value_that_is_too_long_to_be_copied_is_refused(page_kernel: Kernel) -> None:
    cell = page_kernel.good(
        "%config AgfMagics.progress_after = 0\nimport agf_magics as agf\n"
        "@agf.tool\ndef many() -> list: return ['pear'] * 300_000\n"
        "agf.define('{pipeline: many_pears, steps: [{tool: {name: many}}]}')"
    )
    page = Page(page_kernel, page_kernel.good("%run_pipeline many_pears --out r"))
    assert "at most 1,000,000 characters are copied" in page.ask("text")["why"]
    assert cell


def test_prints_of_a_step_are_in_its_row_and_in_its_details(page_kernel: Kernel) -> None:
    cell = held(page_kernel)
    open_gate(page_kernel)
    cell.end()
    page = Page(page_kernel, cell)
    assert rows(page.updates)[0][6] == "prints: saying first"
    assert page.get("step", step="steps[0]")["printed"] == "saying first\n"


RUNNING = """\
from agf_magics import tool
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
import agf_magics as agf

@tool(secret=["token"])
def guarded(name: str, token: str, text: str) -> str:
    return gate(name)

def answer(messages, info):
    return ModelResponse(parts=[TextPart("said " + gate("gate"))])

agf.model_agent("slow", model=FunctionModel(answer), instructions="Answer slowly.")
agf.define('''
pipeline: holds
steps:
- tool: {name: guarded, args: {name: gate, token: !expr ctx.token, text: !expr ctx.text}, output: one}
''')
agf.define('''
pipeline: asks_slowly
steps:
- agent: {prompt: "Is a fig a fruit?", identity: slow, output: one}
''')
"""


def begun(kernel: Kernel, line: str) -> Page:
    """The explorer of a background run that waits at the gate."""
    cell = kernel.good(f"%config AgfMagics.progress_after = 0\n{line}")
    cell.messages += kernel.strays
    while not started(cell.messages) or "at the gate" not in str(cell.messages):
        cell.messages.append(kernel.next())
    kernel.strays.clear()
    return Page(kernel, cell)


def test_a_running_step_shows_its_input_masked_and_bounded_like_that_of_an_ended_one(journaled: Kernel) -> None:
    journaled.good(RUNNING + "text = 'x' * 200_000")
    page = begun(journaled, "held = %run_pipeline_async holds --set token=tk-4711-secret --set text=$text")
    running = page.get("step", step="steps[0]")
    assert running["state"] == "running"
    assert "tk-4711" not in json.dumps(running)
    assert "output" not in running
    open_gate(journaled)
    journaled.good("held.wait()")
    ended = page.get("step", step="steps[0]")
    assert ended["state"] == "ok"
    assert running["input"] == ended["input"]
    assert "gate" in json.dumps(ended["input"])
    assert len(json.dumps(running)) < 10_000
    journaled.drain()
    journaled.strays.clear()


def test_the_request_of_a_model_is_shown_before_its_reply(journaled: Kernel) -> None:
    journaled.good(RUNNING)
    page = begun(journaled, "held = %run_pipeline_async asks_slowly")
    (step,) = sessions_of(page)
    messages = page.get("session", step=step)["messages"]
    assert [message["text"] for message in messages if message["who"] == "user"] == ["Is a fig a fruit?"]
    (request,) = [row.id for row in map(StepRow._make, page.start["tree"]["rows"]) if row.id.endswith(".ask")]
    assert "Is a fig a fruit?" in json.dumps(page.get("step", step=request)["input"])
    open_gate(journaled)
    journaled.good("held.wait()")
    assert page.get("session", step=step)["messages"][: len(messages)] == messages
    journaled.drain()
    journaled.strays.clear()
