"""Runs in a real kernel: what the notebook is sent, in which order, and what is left of it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notebook.conftest import Cell, Kernel

pytestmark = pytest.mark.kernel

SETUP = """\
%load_ext agf_magics
import asyncio, time, threading
from agf_magics import tool

@tool
def say(word: str) -> str:
    print('saying', word)
    return word

@tool
async def whisper(word: str) -> str:
    print('whispering', word)
    return word

@tool
def gate(name: str) -> str:
    "Waits until the test opens it."
    print('at the gate', name)
    with open(name) as fifo:
        return fifo.read()

@tool
def sleep() -> None:
    print('asleep')
    time.sleep(30)

@tool
async def doze() -> None:
    print('dozing')
    await asyncio.sleep(30)

@tool
def stubborn() -> None:
    try:
        print('asleep')
        time.sleep(30)
    except KeyboardInterrupt:
        print('not yet')
        time.sleep(30)

@tool
def fail() -> None:
    raise ValueError('no pears')
"""


def kernel_in(folder: Path, **env: str) -> Iterator[Kernel]:
    fresh = {name: value for name, value in os.environ.items() if name not in ("JPY_SESSION_NAME", "VSCODE_PID")}
    kernel = Kernel(folder, {**fresh, **env})
    os.mkfifo(folder / "gate")
    kernel.good(SETUP)
    yield kernel
    kernel.close()


@pytest.fixture(scope="module")
def headless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    yield from kernel_in(tmp_path_factory.mktemp("headless"))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel that somebody looks at, as JupyterLab starts it."""
    yield from kernel_in(tmp_path_factory.mktemp("seen"), JPY_SESSION_NAME="a.ipynb")


@pytest.fixture(params=["headless", "seen"])
def kernel(request: pytest.FixtureRequest) -> Iterator[Kernel]:
    found: Kernel = request.getfixturevalue(request.param)
    yield found
    found.good("%config AgfMagics.progress_after = 0.3\n%config AgfMagics.progress = 'auto'")
    assert not [m for m in found.strays if m["msg_type"] in ("stream", "display_data", "error")], "output of no cell"


def steps(*names: str) -> str:
    body = "\n".join(f"- tool: {{name: {name}}}" for name in names)
    return f"%%pipeline --run\npipeline: p\nsteps:\n{body}\n"


def open_gate(kernel: Kernel) -> None:
    (kernel.folder / "gate").write_text("open")


GATED = """\
%%pipeline --run
pipeline: gated
steps:
- tool: {name: say, args: {word: first}, output: one}
- tool: {name: gate, args: {name: gate}, output: two}
- for_each:
    items: [a, b]
    on_error: abort
    do: {tool: {name: say, args: {word: !expr item}}}
    collect: {transform: {value: pipe}}
    output: three
"""


def held(kernel: Kernel) -> Cell:
    """A run that waits at the gate."""
    kernel.good("%config AgfMagics.progress_after = 0")
    cell = kernel.begin(GATED)
    cell.until("stream", "at the gate")
    return cell


def test_the_run_stands_above_what_its_tools_print_and_is_one_output(kernel: Kernel) -> None:
    cell = held(kernel)
    open_gate(kernel)
    cell.end()
    assert cell.reply["status"] == "ok"
    kinds = [
        (message["msg_type"], message["content"].get("text", ""))
        for message in cell.messages
        if message["msg_type"] in ("stream", "display_data", "execute_result")
    ]
    assert kinds[0][1].startswith("pipeline gated: 3 steps\n")
    assert kinds[1][0] == "display_data"
    assert {kind for kind, _ in kinds[2:]} == {"stream"}
    assert next(line for line in cell.printed.splitlines() if line.startswith("saying")) == "saying first"
    assert len(cell.outputs) == 1


def test_what_stays_is_static_html_and_text(kernel: Kernel) -> None:
    cell = held(kernel)
    open_gate(kernel)
    cell.end()
    (output,) = cell.outputs
    assert set(output) == {"text/html", "text/plain"}
    assert "✓ ok" in output["text/html"]
    assert "gated" in output["text/plain"]
    assert "running" not in output["text/html"]


def test_it_is_seen_while_it_runs(kernel: Kernel) -> None:
    cell = held(kernel)
    shown = cell.until("update_display_data", "running")["data"]
    assert "gate" in shown["text/html"]
    open_gate(kernel)
    cell.end()


def test_the_picture_is_there_before_the_run_and_takes_its_colours(kernel: Kernel) -> None:
    kernel.good("%config AgfMagics.progress_after = 0")
    cell = kernel.begin(GATED.replace("--run", "--draw --run"))
    cell.until("stream", "at the gate")
    first = next(content["data"] for content in cell.of("display_data"))
    assert "<img" in first["text/html"]
    live = cell.until("update_display_data", "running")["data"]["text/html"]
    open_gate(kernel)
    cell.end()
    last = cell.outputs[0]["text/html"]
    pictures = {re.findall('base64,([^"]*)', html)[0] for html in (first["text/html"], live, last)}
    assert len(pictures) == 3


def test_a_widget_where_somebody_looks_and_nowhere_else(seen: Kernel, headless: Kernel) -> None:
    for kernel, wanted in ((seen, True), (headless, False)):
        cell = held(kernel)
        live = cell.until("update_display_data", "running")["data"]
        assert ("application/vnd.jupyter.widget-view+json" in live) is wanted
        open_gate(kernel)
        cell.end()
        assert bool(cell.of("comm_open")) is wanted


def test_a_quick_run_opens_no_widget(seen: Kernel) -> None:
    seen.good("%config AgfMagics.progress_after = 100")
    cell = seen.good("%%pipeline --run\npipeline: q\nsteps: [{transform: {value: '1 + 1'}}]")
    assert not cell.of("comm_open")
    assert set(cell.outputs[0]) == {"text/html", "text/plain"}


def test_widgets_of_the_last_runs_stay_open_and_older_ones_are_closed(seen: Kernel) -> None:
    seen.good("%reload_ext agf_magics\n%config AgfMagics.progress_after = 0")
    opened, closed = [], []
    for _ in range(12):
        cell = held(seen)
        cell.until("update_display_data", "running")
        open_gate(seen)
        cell.end()
        opened.append({content["comm_id"] for content in cell.of("comm_open")})
        closed += [content["comm_id"] for content in cell.of("comm_close")]
    assert set(closed) == opened[0] | opened[1]
    rest = seen.good("%reload_ext agf_magics").of("comm_close")
    assert {content["comm_id"] for content in rest} == set().union(*opened[2:])


def test_the_cancel_button_works_while_the_cell_waits(seen: Kernel) -> None:
    if "kernel subshells" not in seen.reply(seen.client.kernel_info()).get("supported_features", ()):
        pytest.skip("this kernel has no subshells: only the interrupt reaches a cell that waits")
    seen.client.control_channel.send(seen.client.session.msg("create_subshell_request", {}))
    reply = seen.client.get_control_msg(timeout=60)["content"]
    cell = held(seen)
    cell.until("update_display_data", "widget-view")
    button = next(c for c in cell.of("comm_open") if c["data"]["state"].get("_model_name") == "ButtonModel")
    click = {"comm_id": button["comm_id"], "data": {"method": "custom", "content": {"event": "click"}}}
    message = seen.client.session.msg("comm_msg", click)
    message["header"]["subshell_id"] = reply["subshell_id"]
    seen.client.shell_channel.send(message)
    cell.end()
    assert cell.reply["ename"] == "RunCancelled"
    assert "Cancel button" in cell.traceback
    seen.client.control_channel.send(
        seen.client.session.msg("delete_subshell_request", {"subshell_id": reply["subshell_id"]})
    )
    seen.client.get_control_msg(timeout=60)


def test_prints_of_all_places_stay_in_their_cell(kernel: Kernel) -> None:
    cell = kernel.good(
        "%%pipeline --run\npipeline: p\nsteps:\n"
        "- tool: {name: say, args: {word: here}}\n"
        "- tool: {name: whisper, args: {word: loop}}\n"
        "- for_each:\n    items: [x, y, z]\n    on_error: abort\n"
        "    do: {tool: {name: say, args: {word: !expr item}}}\n    collect: {transform: {value: pipe}}\n"
    )
    for text in ("saying here", "whispering loop", "saying x", "saying y", "saying z"):
        assert text in cell.printed


def test_prints_stay_in_their_cell_run_after_run(kernel: Kernel) -> None:
    """Threads and the loop are reused: they must not remember the first cell they worked for."""
    fan = "- for_each: {items: [%s1, %s2], on_error: abort, do: {tool: {name: %s, args: {word: !expr item}}}, collect: {transform: {value: pipe}}}"  # noqa: E501
    for word in ("one", "two"):
        for name in ("say", "whisper"):
            cell = kernel.good("%%pipeline --run\npipeline: p\nsteps:\n" + fan % (word, word, name))
            assert cell.printed.count(word) == 2


@pytest.mark.parametrize("name", ["sleep", "doze"])
def test_the_interrupt_ends_a_tool_that_sleeps(kernel: Kernel, name: str) -> None:
    cell = kernel.begin(steps(name))
    cell.until("stream", "asleep" if name == "sleep" else "dozing")
    kernel.interrupt()
    cell.end()
    assert cell.reply["status"] == "error"
    assert cell.reply["ename"] == "RunCancelled"
    assert cell.of("error")[0]["ename"] == "RunCancelled"
    assert "Traceback" not in cell.traceback
    assert "■ cancelled" in cell.outputs[0]["text/plain"]
    assert kernel.good("1 + 1").outputs[0]["text/plain"] == "2"


@pytest.mark.parametrize("name", ["sleep", "doze"])
def test_the_interrupt_ends_a_fan_out(kernel: Kernel, name: str) -> None:
    cell = kernel.begin(
        "%%pipeline --run\npipeline: p\nsteps:\n- for_each:\n    items: [1, 2, 3]\n    on_error: continue\n"
        f"    do: {{tool: {{name: {name}}}}}\n    collect: {{transform: {{value: pipe}}}}\n"
    )
    cell.until("stream", "asleep" if name == "sleep" else "dozing")
    kernel.interrupt()
    cell.end()
    assert cell.reply["ename"] == "RunCancelled"
    assert kernel.good("1 + 1").outputs[0]["text/plain"] == "2"


def test_the_second_interrupt_gives_the_prompt_back(kernel: Kernel) -> None:
    cell = kernel.begin(steps("stubborn"))
    cell.until("stream", "asleep")
    kernel.interrupt()
    cell.until("stream", "not yet")
    kernel.interrupt()
    cell.end()
    assert cell.reply["ename"] == "KeyboardInterrupt"
    assert kernel.good("1 + 1").outputs[0]["text/plain"] == "2"


def test_a_cancelled_run_keeps_what_was_done(kernel: Kernel) -> None:
    cell = kernel.begin(
        "%%pipeline --run --out r\npipeline: p\nsteps:\n"
        "- tool: {name: say, args: {word: done}, output: kept}\n- tool: {name: sleep}\n"
    )
    cell.until("stream", "asleep")
    kernel.interrupt()
    cell.end()
    assert kernel.good("r.status, r.steps['steps[0]'].value").outputs[0]["text/plain"] == "('cancelled', 'done')"


def test_a_failing_step_is_an_error_of_the_cell(kernel: Kernel) -> None:
    cell = kernel.run(steps("fail"))
    assert cell.reply["status"] == "error"
    assert cell.reply["ename"] == "StepError"
    assert "tool 'fail' failed: ValueError: no pears [step.tool-failed]" in cell.traceback
    assert "raise ValueError('no pears')" in cell.traceback
    assert cell.of("error")[0]["traceback"] == cell.reply["traceback"]
    assert "✗ failed" in cell.outputs[0]["text/plain"]


@pytest.mark.parametrize(
    "line", ["%run_pipeline nope", "%run_pipeline", "%config AgfMagics.progress = 'nope'", "%%pipeline", "%r1 ctx.x"]
)
def test_every_mistake_is_an_error_of_the_cell(headless: Kernel, line: str) -> None:
    cell = headless.run(line)
    assert cell.reply["status"] == "error"
    assert cell.reply["ename"] in ("DefinitionError", "StepError", "BadSetting")
    assert cell.reply["ename"] in cell.traceback


def test_a_run_is_shown_once_in_its_cell_and_again_when_asked_for(headless: Kernel) -> None:
    headless.good("%%pipeline\npipeline: p\nsteps: [{transform: {value: '40 + 2', output: n}}]")
    assert len(headless.good("r = %run_pipeline p").outputs) == 1
    assert len(headless.good("%run_pipeline p").outputs) == 1
    again = headless.good("r").outputs
    assert len(again) == 1
    assert "42" in again[0]["text/html"]
    assert not headless.good("%run_pipeline p --quiet --out r").outputs


def test_the_same_cell_may_define_again_and_another_one_is_told_of(headless: Kernel) -> None:
    def define(cell_id: str) -> str:
        code = "%%pipeline\npipeline: mine\nsteps: [{transform: {value: '1'}}]"
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        message = headless.client.session.msg("execute_request", content, metadata={"cellId": cell_id})
        headless.client.shell_channel.send(message)
        return Cell(headless, message["header"]["msg_id"]).end().printed

    assert define("a") == define("a") == "pipeline mine: 1 step\n"
    assert "note: flow 'mine' was defined elsewhere before" in define("b")


def test_the_front_end_is_offered_our_words(headless: Kernel) -> None:
    cell = "%%pipeline\nsteps:\n- tool: {name: wh"
    reply = headless.reply(headless.client.complete(cell, len(cell)))
    assert reply["matches"] == ["whisper"]
    assert cell[reply["cursor_start"] : reply["cursor_end"]] == "wh"
    assert reply["metadata"]["_jupyter_types_experimental"][0]["type"] == "tool"


def test_a_megabyte_of_prints_and_a_huge_result_do_no_harm(headless: Kernel) -> None:
    headless.good("@tool\ndef loud() -> list:\n    print('x' * 1_000_000)\n    return list(range(1_000_000))")
    cell = headless.good(steps("loud"))
    assert len(cell.printed) > 1_000_000
    assert len(cell.outputs[0]["text/html"]) < 100_000


def test_markup_in_names_and_results_is_text(headless: Kernel) -> None:
    headless.good("@tool(name='<b>bold</b>')\ndef bold() -> str: return '<script>alert(1)</script>'")
    cell = headless.good("%%pipeline --run\npipeline: '<i>p</i>'\nsteps: [{tool: {name: <b>bold</b>}}]")
    html = cell.outputs[0]["text/html"]
    for tag in ("<b>bold", "<script", "<i>p"):
        assert tag not in html
    assert "&lt;script&gt;" in html


def test_nothing_comes_after_the_last_run(kernel: Kernel) -> None:
    assert not [message["msg_type"] for message in kernel.drain()]
