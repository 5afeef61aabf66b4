"""Runs in a real kernel: what the notebook is sent, in which order, and what is left of it."""

from __future__ import annotations

import re

import pytest

from tests.notebook.conftest import Cell, Kernel, steps

pytestmark = pytest.mark.kernel


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
    for format in ("text/html", "text/plain"):  # what is saved now says so
        assert re.search(r"at \d\d:\d\d:\d\d the run had not ended: %runs gated-", shown[format])
    open_gate(kernel)
    cell.end()
    assert "had not ended" not in str(cell.outputs)


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
    assert set(closed) == (opened[0] | opened[1]) - layouts(opened)
    rest = seen.good("%reload_ext agf_magics").of("comm_close")
    assert {content["comm_id"] for content in rest} == set().union(*opened[2:])


def layouts(opened: list[set[str]]) -> set[str]:
    """The layout that all explorers share, opened with the first one."""
    return opened[0] if len(opened[0]) > len(opened[1]) else set()


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


def test_nothing_comes_after_the_last_run(kernel: Kernel) -> None:
    assert not [message["msg_type"] for message in kernel.drain()]
