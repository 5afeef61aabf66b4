"""Runs in a real kernel: the messages to the notebook, their order, and what the notebook saves."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable

import pytest

from agf_magics.notebook.completion.editor import TARGET
from tests.notebook.conftest import Cell, Kernel, started, steps
from tests.slow import slow_but

pytestmark = pytest.mark.kernel


def open_gate(kernel: Kernel) -> None:
    (kernel.folder / "gate").write_text("open")


GATED = """\
%%pipeline --run
pipeline: gated
steps:
- tool: {name: say, args: {word: first}}
- tool: {name: gate, args: {name: gate}}
- for_each:
    items: [a, b]
    on_error: abort
    do: {tool: {name: say, args: {word: !expr item}}}
    collect: {transform: {value: pipe}}
    output: three
"""


def held(kernel: Kernel) -> Cell:
    """A cell with a run that waits at the gate."""
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


def test_the_saved_output_is_static_html_and_text(kernel: Kernel) -> None:
    cell = held(kernel)
    open_gate(kernel)
    cell.end()
    (output,) = cell.outputs
    assert set(output) == {"text/html", "text/plain"}
    assert "✓ ok" in output["text/html"]
    assert "gated" in output["text/plain"]
    assert "running" not in output["text/html"]


@pytest.mark.parametrize(
    ("journal", "later"),
    [("None", "another kernel has nothing of it"), ("'runs.sqlite'", r"%resume gated-\S+ in another one")],
)
def test_a_run_is_visible_while_it_runs(kernel: Kernel, journal: str, later: str) -> None:
    kernel.good(f"%config AgfMagics.journal = {journal}")
    cell = held(kernel)
    bundle = cell.until("update_display_data", "running")["data"]
    assert "gate" in bundle["text/html"]
    for format in ("text/html", "text/plain"):  # a notebook that is saved now says that the run continues
        assert re.search(f"the run had not ended: .* {later}", bundle[format])
        assert re.search(r"running(</span>)? at \d\d:\d\d:\d\d", bundle[format])
    open_gate(kernel)
    cell.end()
    assert "had not ended" not in str(cell.outputs)
    kernel.good("%config AgfMagics.journal = None")


def pictures(contents: Iterable[object]) -> list[str]:
    return [picture for content in contents for picture in re.findall('base64,([^"]*)', str(content))]


def test_the_picture_is_above_the_steps_and_takes_the_colours_of_the_run(kernel: Kernel) -> None:
    kernel.good("%config AgfMagics.progress_after = 0")
    cell = kernel.begin(GATED.replace("--run", "--draw --run"))
    cell.until("stream", "at the gate")
    kinds = ("update_display_data", "comm_open", "comm_msg")
    while not (live := pictures(cell.of(*kinds))):
        cell.messages.append(kernel.next())
    open_gate(kernel)
    cell.end()
    page = cell.outputs[0]["text/html"]
    (last,) = pictures([page])
    assert last not in live
    assert page.index("<img") < page.index("<table")


BEGUN = """\
@tool
def begin(name: str) -> str:
    with open(name, "w"):  # waits until graphviz is running
        return "begun"
"""


@pytest.mark.skipif(os.name != "posix", reason="a script as a program, and a named pipe")
@pytest.mark.parametrize(
    ("progress", "width"), slow_but([("widget", 24)], [("html", 20), ("widget", 24), ("text", 28), ("off", 32)])
)
def test_the_first_step_starts_before_the_picture_is_drawn(kernel: Kernel, progress: str, width: int) -> None:
    """``width``: the length of the output's name, so that no layout of another run can be reused."""
    fifo, program = kernel.folder / f"begun-{progress}", kernel.folder / "bin" / "dot"
    step = f"tool: {{name: begin, args: {{name: {fifo.name}}}, output: {'o' * width}}}"
    flow = f"pipeline: begins_{progress}\nsteps: [{{{step}}}]"
    os.mkfifo(fifo)
    program.parent.mkdir(exist_ok=True)
    # The layout waits until the first step opens the other end. It does so once, because a picture is laid out more
    # than once.
    work = "import sys; from agf_magics.pictures.layout.graphviz_module import positions; "
    work += "sys.stdout.buffer.write(positions(sys.stdin.read()))"
    waits = f"if [ -p {fifo.name} ]; then cat {fifo.name}; rm {fifo.name}; fi"
    program.write_text(f"#!/bin/sh\ncd '{kernel.folder}'\n{waits}\nexec '{sys.executable}' -c '{work}'\n")
    program.chmod(0o755)
    path = f"import os\nos.environ['PATH'] = {str(program.parent)!r} + os.pathsep + os.environ['PATH']"
    hidden = "import sys; sys.modules['wasmtime'] = None  # the program is used where the package is not installed"
    kernel.good(f"{path}\n{hidden}\n%config AgfMagics.progress = {progress!r}\n{BEGUN}")
    cell = kernel.good(f"%%pipeline --run --draw\n{flow}")
    assert any("<img" in output.get("text/html", "") for output in cell.outputs)
    assert "Traceback" not in cell.printed
    restored = "os.environ['PATH'] = os.environ['PATH'].partition(os.pathsep)[2]; del sys.modules['wasmtime']"
    kernel.good(f"{restored}\n%config AgfMagics.progress = 'auto'")


def test_the_page_of_a_large_flow_has_its_steps_in_place_of_a_picture(kernel: Kernel) -> None:
    steps = "\n".join(f"- transform: {{value: '{number}'}}" for number in range(501))
    page = kernel.good(f"%%pipeline --run --draw\npipeline: large\nsteps:\n{steps}").outputs[-1]
    assert "501 of 501 steps" in page["text/plain"]
    assert "<img" not in page["text/html"]
    assert "no picture" not in page["text/html"]


def test_explorers_of_the_last_runs_stay_open_and_older_ones_are_closed(page_kernel: Kernel) -> None:
    page_kernel.good("%reload_ext agf_magics\n%config AgfMagics.progress_after = 0")
    opened, gone = [], []
    for _ in range(12):
        cell = held(page_kernel)
        cell.until("update_display_data", "running")
        open_gate(page_kernel)
        cell.end()
        ((comm, mark, start),) = started(cell.messages)
        opened.append(mark)
        gone += start.get("gone", [])
    assert gone == opened[:2]
    problems = set(page_kernel.reply(page_kernel.client.comm_info(target_name=TARGET))["comms"])
    rest = page_kernel.good("%reload_ext agf_magics").of("comm_close")
    assert {content["comm_id"] for content in rest} == {comm, *problems}


CAUGHT = """\
from IPython import get_ipython
from IPython.utils.capture import capture_output
caught = []
get_ipython().display_pub.register_hook(caught.append)
"""


def test_a_capture_and_a_hook_get_the_page_of_a_run(kernel: Kernel) -> None:
    quick = "pipeline: quick\nsteps: [{transform: {value: '1 + 1'}}]"
    kernel.good(f"import agf_magics\nagf_magics.define({quick!r})")
    assert not kernel.good("%%capture page\n%run_pipeline quick --out r").of("display_data", "update_display_data")
    assert "✓ ok" in kernel.good("print(page.outputs[-1].data['text/plain'])").printed
    # Another thread reserves the output, and has no hook. The page comes from the thread of the cell.
    cell = kernel.good(f"{CAUGHT}%run_pipeline quick --out r\nget_ipython().display_pub.unregister_hook(caught.append)")
    assert not cell.of("update_display_data")
    assert "✓ ok" in kernel.good("print(caught[-1]['content']['data']['text/plain'])").printed


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
    """Threads and the loop are reused, and must not remember the first cell that they worked for."""
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
    assert cell.reply["ename"] == "RunInterrupted"
    assert cell.of("error")[0]["ename"] == "RunInterrupted"
    assert "Traceback" not in cell.traceback
    assert "■ cancelled" in cell.outputs[0]["text/plain"]
    assert kernel.good("1 + 1").outputs[0]["text/plain"] == "2"


@pytest.mark.parametrize("name", slow_but(["doze"], ["sleep", "doze"]))
def test_the_interrupt_ends_a_fan_out(kernel: Kernel, name: str) -> None:
    cell = kernel.begin(
        "%%pipeline --run\npipeline: p\nsteps:\n- for_each:\n    items: [1, 2, 3]\n    on_error: continue\n"
        f"    do: {{tool: {{name: {name}}}}}\n    collect: {{transform: {{value: pipe}}}}\n"
    )
    cell.until("stream", "asleep" if name == "sleep" else "dozing")
    kernel.interrupt()
    cell.end()
    assert cell.reply["ename"] == "RunInterrupted"
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


def test_a_cancelled_run_keeps_its_results(kernel: Kernel) -> None:
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
