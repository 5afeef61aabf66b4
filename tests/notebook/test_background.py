"""Runs in the background from a notebook: where they are shown, how they are waited for and cancelled, inline
definitions."""

from __future__ import annotations

import threading

import pytest

import agf_magics as agf
from agf_magics.flow.progress.question import Question
from agf_magics.lifecycle.runs.live import live
from agf_magics.lifecycle.runs.run import state_of
from agf_magics.notebook.display.view import Page
from agf_magics.notebook.display.watching import join_views
from tests.notebook.conftest import Cell, Kernel, Shell, code

GATED = """\
pipeline: gated
steps:
- tool: {name: gate, args: {name: gate}, output: one}
- tool: {name: say, args: {word: pear}, output: two}
"""

INLINE = """\
pipeline: twice
steps:
- transform: {value: ctx.n * 2, output: m}
"""


# --- in a shell ---


def test_a_cell_returns_a_handle_at_once_and_its_result_later(ready: Shell) -> None:
    result = ready.good("h = %run_pipeline_async longest --set 'words=[pear, fig]'\nh.origin, h.background")
    assert result.value == (f"In[{ready.ip.execution_count - 1}]", True)
    assert ready.good("h.result().output").value == 2
    assert ready.good("(await h).stores['lengths']").value == [4, 3]


def test_the_variable_of_out_receives_the_handle(ready: Shell) -> None:
    assert ready.good("%run_pipeline_async longest --out h --set 'words=[pear]'").value is None
    assert ready.good("h.result().output").value == 1


def test_a_wrong_start_is_the_error_of_the_cell_and_nothing_runs(ready: Shell) -> None:
    before = tuple(live)
    for cell, expected in (
        ("%run_pipeline_async lngest", "magic.unknown-flow"),
        ("%run_pipeline_async longest", "run.missing-input"),
        ("%%run_pipeline_inline\npipeline: p\nsteps:\n- tool: {name: nobody}", "flow.unknown-tool"),
        ("%%run_pipeline_inline\npipeline: p\nsteps:\n- agent: {prompt: x, identity: eve}", "flow.unknown-agent"),
        ("%%run_pipeline_inline_async\npipeline: p\nsteps:\n- tool: {name: run_pipeline}", "flow.launch"),
        ("%%run_pipeline_inline\nschema: S\nfields: {a: {type: bool}}", "pipeline.no-pipeline"),
        ("%%run_pipeline_inline", "yaml.empty"),
    ):
        result = ready.run(cell)
        assert not result.ok
        if expected != "yaml.empty":
            assert code(result) == expected
    assert tuple(live) == before


def test_a_question_is_shown_once_in_the_cell_that_asks_it(shell: Shell) -> None:
    is_asked, is_answered = threading.Event(), threading.Event()

    def ask(question: Question) -> bool:
        is_asked.set()
        return is_answered.wait(60)

    registry = agf.Registry()
    agf.tool(lambda: 1, name="one", registry=registry)
    run = agf.start("confirm: true\ncalls: [{_tool: one, _outputPath: †state.a}]\n", registry=registry, ask=ask)
    is_asked.wait(60)
    config = shell.ip.magics_manager.registry["PipelineMagics"].notebook.settings
    page_of_cell, page_elsewhere = Page(config, None).page(run), Page(config, None, elsewhere=True).page(run)
    is_answered.set()
    run.result()
    for format in ("text/html", "text/plain"):
        assert "waits for an answer" not in page_of_cell[format]
        assert "waits for an answer" in page_elsewhere[format]
        assert "waiting" in page_of_cell[format]


def test_the_check_of_inline_definitions_points_at_the_cell(ready: Shell) -> None:
    ready.good("@agent\ndef eve(prompt: str) -> str: return 'hi'")
    result = ready.run("%%run_pipeline_inline\npipeline: p\nsteps:\n- agent: {prompt: x, identity: eve}")
    assert code(result) == "gate.identity"
    assert "%%run_pipeline_inline, line 4, column 32" in str(result.error)


def test_an_inline_definition_is_run_and_not_registered(ready: Shell) -> None:
    result = ready.good("%%run_pipeline_inline --set n=3\n" + INLINE)
    assert result.value.output == 6
    assert "twice" not in ready.good("import agf_magics as agf\nlist(agf.registry.flows)").value
    ready.good("%%run_pipeline_inline_async --out h --set n=4\n" + INLINE)
    assert ready.good("h.result().output").value == 8


def test_a_terminal_reports_the_end_of_a_run_in_a_line(ready: Shell) -> None:
    cell = "import threading\nh = %run_pipeline_async longest --set 'words=[pear]'\n"
    result = ready.good(cell + "[t.join() for t in threading.enumerate() if t.name.startswith('agf-view ')];")
    (report,) = [line for line in result.out.splitlines() if ready.names["h"].run_id in line]
    assert report.startswith("longest · ✓ ok")


def test_a_terminal_reports_an_end_at_the_next_prompt_and_not_while_the_user_types(
    ready: Shell, capfd: pytest.CaptureFixture[str]
) -> None:
    gated = "@tool\ndef measure(word: str) -> int:\n    gate.wait()\n    return len(word)"
    ready.good(f"import threading\ngate = threading.Event()\n{gated}")
    started = ready.good("h = %run_pipeline_async longest --set 'words=[pear]'")
    ready.names["gate"].set()  # so the run ends after its cell
    join_views(ready.names["h"].wait())
    assert started.out + capfd.readouterr().out == ""
    result = ready.good("print('typed')")
    (first, report) = result.out.splitlines()
    assert (first, report[:14]) == ("typed", "longest · ✓ ok")
    assert ready.good("1").out.splitlines()[1:] == []


def test_a_terminal_without_notices_reports_nothing(ready: Shell) -> None:
    ready.good("%config AgfMagics.notices = False")
    ready.good("h = %run_pipeline_async longest --set 'words=[pear]'")
    join_views(ready.names["h"].wait())
    assert ready.good("%config AgfMagics.notices = True").out == ""


def test_the_list_names_every_run_and_where_it_is_shown(ready: Shell) -> None:
    ready.good("h = %run_pipeline_async longest --set 'words=[pear]'\nh.wait()")
    (listed,) = ready.good("%runs").outputs
    run_id, origin = ready.names["h"].run_id, ready.names["h"].origin
    row = next(line for line in listed["text/plain"].splitlines() if run_id in line)
    assert "ok" in row
    assert origin in row
    assert run_id in listed["text/html"]


def test_one_run_is_shown_by_its_id_or_a_beginning_of_it(ready: Shell) -> None:
    ready.good("h = %run_pipeline_async longest --set 'words=[pear]'\nh.wait()")
    run_id = ready.names["h"].run_id
    assert ready.good(f"%runs {run_id}").value is ready.names["h"]
    assert ready.good(f"%runs {run_id[:-3]}").value is ready.names["h"]
    assert code(ready.run("%runs --cancel nobody")) == "magic.unknown-run"
    ready.good("g = %run_pipeline_async longest --set 'words=[pear]'\ng.wait()")
    assert "write more of it" in str(ready.run("%runs longest-").error)


def test_runs_are_waited_for_and_cancelled(shell: Shell) -> None:
    shell.good("import asyncio\n@tool\nasync def doze() -> None:\n    await asyncio.sleep(3600)")
    shell.good("%%pipeline\npipeline: long\nsteps:\n- tool: {name: doze}")
    shell.good("h = %run_pipeline_async long")
    run = shell.names["h"]
    assert f"cancelling {run.run_id}" in shell.good(f"%runs --cancel {run.run_id}").out
    shell.good(f"%runs --wait {run.run_id}")
    shell.good("%runs --wait")
    assert run.status == "cancelled"
    assert "has ended: cancelled" in shell.good(f"%runs --cancel {run.run_id}").out
    assert code(shell.run("h.result()")) == "run.cancelled"


def test_unloading_cancels_background_runs(shell: Shell) -> None:
    shell.good("import asyncio\n@tool\nasync def doze() -> None:\n    await asyncio.sleep(3600)")
    shell.good("%%pipeline\npipeline: long\nsteps:\n- tool: {name: doze}")
    shell.good("h = %run_pipeline_async long")
    shell.good("%reload_ext agf_magics")
    run = shell.names["h"]
    assert run.status == "cancelled"
    assert "the extension was unloaded" in str(run.error)


@pytest.mark.parametrize("way", ["%runs --cancel {run}", "%unload_ext agf_magics"])
def test_a_background_call_continues_after_its_run_and_can_be_cancelled(shell: Shell, way: str) -> None:
    shell.good(
        "import asyncio, threading\nended = threading.Event()\n@tool\nasync def doze() -> None:\n"
        "    try:\n        await asyncio.sleep(3600)\n    finally:\n        ended.set()"
    )
    shell.good("%%plan --run --out r\nname: fires\ncalls:\n- {_tool: doze}")
    run = shell.names["r"]
    assert (run.status, state_of(run).background_calls) == ("ok", 1)
    printed = shell.good(way.format(run=run.run_id)).out
    assert shell.names["ended"].wait(60)
    if "--cancel" in way:
        assert f"cancelling 1 background call of {run.run_id}" in printed
    else:
        shell.good("%load_ext agf_magics")
    while state_of(run).background_calls:  # its end is reported right after the call
        threading.Event().wait(0.001)
    (warning,) = run.warnings
    assert "'doze' was cancelled before its end" in warning.message


# --- in a kernel ---


def started(kernel: Kernel, line: str = "h = %run_pipeline_async gated") -> Cell:
    """Start a background run that waits at the gate. Its cell has ended."""
    kernel.good("%config AgfMagics.progress_after = 0")
    kernel.good("%%pipeline --quiet\n" + GATED)
    cell = kernel.good(line)
    more(cell, "running")
    more(cell, "at the gate")
    return cell


def more(cell: Cell, part: str) -> None:
    """Collect further messages of a cell that has ended, until it shows ``part``. Other cells ran meanwhile."""
    kernel = cell.kernel
    while True:
        late, kernel.strays = kernel.strays, []
        for message in late:
            (cell.messages if message["parent_header"].get("msg_id") == cell.id else kernel.strays).append(message)
        if part in f"{cell.outputs}{cell.printed}":
            return
        kernel.strays.append(kernel.next())


def open_gate(kernel: Kernel) -> None:
    (kernel.folder / "gate").write_text("open")


@pytest.mark.kernel
def test_the_result_is_shown_in_the_cell_that_started_it(kernel: Kernel) -> None:
    cell = started(kernel)
    assert cell.reply["status"] == "ok"
    other = kernel.good("print('meanwhile')")
    assert other.printed == "meanwhile\n"
    assert not other.outputs
    open_gate(kernel)
    more(cell, "✓ ok")
    assert "saying pear" in cell.printed
    (output,) = cell.outputs
    assert set(output) == {"text/html", "text/plain"}
    assert "running" not in output["text/html"]
    assert "pear" in output["text/plain"]
    assert kernel.good("h.result().output").outputs[0]["text/plain"] == "'pear'"


@pytest.mark.kernel
def test_an_interrupt_does_not_stop_a_background_run_and_cancel_does(kernel: Kernel) -> None:
    cell = started(kernel)
    waiting = kernel.begin("print('waiting')\nh.wait()")
    waiting.until("stream", "waiting")
    kernel.interrupt()
    waiting.end()  # it waits or is about to wait, and an interrupt works in both cases
    assert waiting.reply["ename"] == "KeyboardInterrupt"
    assert kernel.good("h.status").outputs[0]["text/plain"] == "'running'"
    kernel.good("h.cancel('enough')\nh.wait();")
    more(cell, "cancelled")
    assert "enough" in cell.outputs[0]["text/plain"]
    open_gate(kernel)  # lets the plain function end, which still waits


@pytest.mark.kernel
def test_a_failure_is_shown_with_its_error_there_and_raises_nowhere(kernel: Kernel) -> None:
    kernel.good("%%pipeline --quiet\npipeline: bad\nsteps:\n- tool: {name: fail}")
    cell = kernel.good("h = %run_pipeline_async bad")
    more(cell, "no pears")
    assert "step.tool-failed" in cell.outputs[0]["text/plain"]
    assert not cell.of("error")


@pytest.mark.kernel
def test_a_background_run_can_be_shown_again_while_it_runs(kernel: Kernel) -> None:
    cell = started(kernel)
    again = kernel.good("h")
    more(again, "running")
    open_gate(kernel)
    more(cell, "✓ ok")
    more(again, "✓ ok")


def test_a_run_whose_output_cannot_be_shown_does_not_begin(kernel: Kernel) -> None:
    """The cell that would show the run says why."""
    kernel.good("%%pipeline\npipeline: unseen\nsteps:\n- transform: {value: '1 + 1'}")
    cell = kernel.run("""
def fails(*given, **named):
    raise ValueError("no place")

get_ipython().display_pub.publish = fails
handle = %run_pipeline_async unseen
""")
    assert cell.reply["ename"] == "ValueError"
    count_running = "from agf_magics.lifecycle.runs.live import live; print(len(live.running))"
    assert kernel.good(f"del get_ipython().display_pub.publish\n{count_running}").printed == "0\n"
