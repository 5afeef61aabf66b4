"""The magics in a real shell: defining, running, looking and stopping."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agf_magics import Flow, Run, RunInterrupted, StepError, load
from agf_magics.catalog import default
from agf_magics.engine.run_options import RunOptions
from agf_magics.lifecycle.launch.launch import start_run
from agf_magics.notebook.display.view import View
from agf_magics.notebook.display.watching import watch
from agf_magics.pictures.diagram import Diagram
from tests.notebook.conftest import LONGEST, TOOLS, Shell, code

BOOM = """\
pipeline: boom
steps:
- tool: {name: explode, args: {word: pear}}
"""


# --- defining --------------------------------------------------------------------------------------------------------


def test_defining_prints_one_line(shell: Shell) -> None:
    shell.good(TOOLS)
    assert shell.good("%%pipeline\n" + LONGEST).out == "pipeline longest: 2 steps\n"
    assert "longest" in default().flows


def test_a_name_on_the_line_is_for_a_text_without_one(ready: Shell) -> None:
    assert code(ready.run("%%pipeline other\n" + LONGEST)) == "define.two-names"
    nameless = LONGEST.replace("pipeline: longest\n", "")
    assert ready.good("%%pipeline other\n" + nameless).out == "pipeline other: 2 steps\n"
    assert {"other", "longest"} == set(default().flows)


def test_a_blank_name_is_refused(ready: Shell) -> None:
    assert code(ready.run("%%pipeline ' '\n" + LONGEST)) == "magic.name"


def test_schemas_alone_are_registered(shell: Shell) -> None:
    cell = "%%pipeline\nschema: A\nfields: {a: {type: bool}}\n---\nschema: B\nfields: {b: {type: bool}}\n"
    assert shell.good(cell).out == "schemas A, B\n"
    assert set(default().schemas) == {"A", "B"}


@pytest.mark.parametrize("option", ["--run", "--draw"])
def test_schemas_alone_cannot_be_run_or_drawn(shell: Shell, option: str) -> None:
    result = shell.run(f"%%pipeline {option}\nschema: A\nfields: {{a: {{type: bool}}}}\n")
    assert code(result) == "magic.no-flow"


def test_an_unknown_name_is_a_warning_with_a_caret(shell: Shell) -> None:
    result = shell.good("%%pipeline\n" + LONGEST)
    assert result.out.startswith("pipeline longest: 2 steps\nwarning: no tool 'measure' is registered")
    assert "^^^^^^^" in result.out


def test_strict_turns_warnings_into_errors(shell: Shell) -> None:
    assert code(shell.run("%%pipeline --strict\n" + LONGEST)) == "flow.unknown-tool"
    assert not default().flows


def test_quiet_prints_nothing(shell: Shell) -> None:
    assert shell.good("%%pipeline --quiet\n" + LONGEST).out == ""


def test_nothing_in_braces_or_dollars_is_expanded(shell: Shell) -> None:
    shell.names["PIPELINE"] = "pasted"
    shell.good("@agent\ndef echo(prompt: str) -> str: return prompt")
    cell = "pipeline: p\nsteps:\n- agent: {prompt: 'See {ctx.doc} $PIPELINE {PIPELINE} {{PIPELINE}}'}"
    shell.good("%%pipeline --run --out r --set doc='\"{PIPELINE}\"'\n" + cell)
    assert shell.names["r"].output == "See {PIPELINE} $PIPELINE {PIPELINE} {{PIPELINE}}"


@pytest.mark.parametrize("cell", ["%%pipeline", "%%pipeline\n", "%%pipeline\n\n  \n"])
def test_an_empty_cell_is_an_error_with_a_place(shell: Shell, cell: str) -> None:
    result = shell.run(cell)
    assert code(result) == "pipeline.no-pipeline"
    assert "%%pipeline, line 2" in result.out


@pytest.mark.parametrize("magic", ["%%pipeline", "%run_pipeline", "%flows", "%tools", "%draw", "%r1", "%define"])
def test_every_magic_has_help(shell: Shell, magic: str) -> None:
    lines = shell.good(f"{magic} --help").out.splitlines()
    assert any(line.startswith(magic) for line in lines)
    assert max(map(len, lines)) <= 78
    assert "Example:" in shell.good(f"{magic}?").out


def test_the_cell_can_be_written_to_a_file_and_defined_from_it(ready: Shell) -> None:
    result = ready.good("%%pipeline --write flows/longest.yaml\n" + LONGEST)
    assert result.out == f"pipeline longest: 2 steps\nwrote {Path('flows/longest.yaml')}\n"
    assert Path("flows/longest.yaml").read_text() == LONGEST
    assert ready.good("%define flows/*.yaml").out.startswith("pipeline longest: 2 steps\n")


def test_a_wrong_cell_is_not_written(ready: Shell) -> None:
    ready.run("%%pipeline --write bad.yaml\npipeline: p\n")
    assert not Path("bad.yaml").exists()


def test_a_file_that_cannot_be_written_is_an_error(ready: Shell) -> None:
    Path("folder").mkdir()
    assert code(ready.run("%%pipeline --write folder\n" + LONGEST)) == "file.not-written"


def test_define_registers_the_correct_files_and_reports_the_wrong_ones(ready: Shell) -> None:
    Path("a.yaml").write_text("pipeline: a\nsteps: [{transform: {value: '1'}}]\n")
    Path("b.yaml").write_text("pipeline: b\nsteps: [{transfrom: {value: '1'}}]\n")
    result = ready.run("%define *.yaml none/*.yaml")
    assert {diagnostic.code for diagnostic in result.error.diagnostics} == {"pipeline.step-kind", "magic.file"}
    assert "b.yaml, line 2" in result.out
    assert "a" in default().flows


# --- running ---------------------------------------------------------------------------------------------------------


def test_a_run_is_returned(ready: Shell) -> None:
    result = ready.good("r = %run_pipeline longest --set 'words=[pear, fig]'")
    run = ready.names["r"]
    assert isinstance(run, Run)
    assert (run.status, run.output, run.stores["lengths"]) == ("ok", 2, [4, 3])
    assert "measuring pear" in result.out


def test_a_run_is_bound_to_a_name(ready: Shell) -> None:
    ready.names["fruits"] = ["kiwi"]
    result = ready.good("%run_pipeline longest --set words=$fruits --out kept")
    assert result.value is None
    assert ready.names["kept"].stores["lengths"] == [4]


def test_one_cell_defines_draws_and_runs(ready: Shell) -> None:
    ready.good("%config AgfMagics.progress = 'html'")
    result = ready.good("%%pipeline --draw --run --set 'words=[a]' --out r\n" + LONGEST)
    assert ready.names["r"].output == 1
    assert "<img" in result.outputs[-1]["text/html"]


def test_a_terminal_prints_a_line_for_each_step_that_ended(ready: Shell) -> None:
    result = ready.good("%run_pipeline longest --set 'words=[pear, fig]' --out r")
    words_of_lines = [line.split("  ")[:3] for line in result.out.splitlines() if not line.startswith("measuring")]
    assert [line[0] for line in words_of_lines[:2]] == ["✓ ok"] * 2
    assert [line[2] for line in words_of_lines[:2]] == ["steps[0]", "steps[1]"]
    assert words_of_lines[2][0].startswith("longest · ✓ ok · 2 of 2 steps")


def test_a_mapping_is_the_whole_input(ready: Shell) -> None:
    ready.names["params"] = {"words": ["a", "bc"]}
    Path("params.json").write_text(json.dumps({"words": ["abc"]}))
    assert ready.good("%run_pipeline longest --input params").value.stores["lengths"] == [1, 2]
    assert ready.good("%run_pipeline longest --input params.json").value.stores["lengths"] == [3]


def test_a_variable_of_the_function_around_is_found(ready: Shell) -> None:
    ready.good("def go():\n    words = ['local']\n    r = %run_pipeline longest --set words=$words\n    return r")
    assert ready.good("go()").value.stores["lengths"] == [5]


def test_an_opaque_object_arrives_unchanged(shell: Shell) -> None:
    shell.good("@tool\ndef same(it: object) -> bool: return it is thing\nthing = object()")
    cell = "%%pipeline --run --set it=$thing\npipeline: p\nsteps:\n- tool: {name: same, args: {it: !expr ctx.it}}"
    assert shell.good(cell).value.output is True


@pytest.mark.parametrize("option", ["--set a=1", "--input ready", "--out r", "--dry", "--timeout 3"])
def test_an_option_of_a_run_needs_a_run(shell: Shell, option: str) -> None:
    result = shell.run(f"%%pipeline {option}\n" + LONGEST)
    assert code(result) == "magic.needs-run"
    assert not default().flows


def test_a_dry_run_calls_nothing(ready: Shell) -> None:
    result = ready.good("%run_pipeline longest --dry --set 'words=[a, b]'")
    assert "measuring" not in result.out
    assert result.value.calls == 2


def test_a_run_has_a_time_limit(shell: Shell) -> None:
    shell.good("import asyncio\n@tool\nasync def forever() -> None: await asyncio.Event().wait()")
    shell.good("%%pipeline\npipeline: p\nsteps: [{tool: {name: forever}}]")
    result = shell.run("%run_pipeline p --timeout 0.05")
    assert code(result) == "limit.timeout"
    assert "Traceback" not in result.out


def test_a_failing_tool_shows_our_step_and_its_own_frames(ready: Shell) -> None:
    ready.good("%%pipeline\n" + BOOM)
    result = ready.run("%run_pipeline boom")
    assert isinstance(result.error, StepError)
    assert "StepError: tool 'explode' failed: KeyError: 'pear' [step.tool-failed]" in result.out
    assert "%%pipeline, line 4, column 16" in result.out
    assert "return inner(word)" in result.out
    assert "raise KeyError(word)" in result.out
    assert "agf_magics" not in result.out


def test_a_failure_among_many_says_which_element_it_was(shell: Shell) -> None:
    shell.good("@tool\ndef half(n: int) -> int:\n    assert n % 2 == 0\n    return n // 2")
    fan_out = "for_each: {over: ctx.ns, on_error: abort, do: {tool: {name: half, args: {n: !expr item}}}, "
    cell = f"pipeline: p\nsteps:\n- {fan_out}collect: {{transform: {{value: pipe}}}}}}"
    result = shell.run(f"%%pipeline --run --set 'ns=[2, 4, 5]'\n{cell}")
    assert "\n  in step 'half' (steps[0].do, element 2: 5)\n" in result.out


def test_an_error_at_the_end_of_a_cell_is_shown_like_a_raised_error(ready: Shell) -> None:
    ready.good("%%pipeline\n" + BOOM)
    result = ready.good("import agf_magics\nerror = agf_magics.run('boom', raises=False).error\nerror")
    assert "tool 'explode' failed: KeyError: 'pear' [step.tool-failed]\n  --> " in result.out
    assert (
        ready.good("repr([error])").value == "[<StepError: tool 'explode' failed: KeyError: 'pear' [step.tool-failed]>]"
    )


def test_python_tracebacks_can_be_turned_on(ready: Shell) -> None:
    ready.good("%config AgfMagics.traceback = 'full'")
    result = ready.run("%run_pipeline longst")
    assert "Traceback (most recent call last)" in result.out
    assert "notebook.py" in result.out, result.out


def test_a_group_of_errors_of_a_tool_is_reported_in_our_words(shell: Shell) -> None:
    shell.good("@tool\ndef many() -> None: raise ExceptionGroup('both', [ValueError('a'), KeyError('b')])")
    result = shell.run("%%pipeline --run\npipeline: p\nsteps: [{tool: {name: many}}]")
    assert "StepError: tool 'many' failed" in result.out
    assert result.error.__context__ is None


def test_colours_and_escapes_of_a_name_do_not_reach_the_screen(shell: Shell) -> None:
    shell.good("@tool\ndef rude() -> None: raise ValueError('\\x1b[2J<b>gone</b>')")
    result = shell.run("%%pipeline --run\npipeline: p\nsteps: [{tool: {name: rude}}]")
    assert "\x1b[2J" not in result.out.split("Traceback")[0]


# --- looking ---------------------------------------------------------------------------------------------------------


def test_flows_lists_shows_exports_and_deletes(ready: Shell) -> None:
    assert "longest" in ready.good("%flows").outputs[0]["text/plain"]
    assert ready.good("%flows longest").out == LONGEST + "\n"
    assert ready.good("%flows longest --export out/l.yaml").out == f"wrote {Path('out/l.yaml')}\n"
    assert Path("out/l.yaml").read_text() == LONGEST
    assert ready.good("%flows --delete longest").out == "deleted longest\n"
    assert "longest" not in default().flows
    assert code(ready.run("%flows longest")) == "magic.unknown-flow"
    assert code(ready.run("%flows --export x.yaml")) == "magic.missing"


def test_tools_lists_tools_and_agents(ready: Shell) -> None:
    ready.good("@agent(tools=['measure'])\ndef reviewer(prompt: str) -> str:\n    'Reads closely.'\n    return prompt")
    page = ready.good("%tools").outputs[0]
    for part in ("measure", "word (text)", "file__read", "reviewer", "Reads closely.", "if no identity is named"):
        assert part in page["text/plain"]
        assert part in page["text/html"]


def test_tools_shows_one_tool_or_agent(ready: Shell) -> None:
    page = ready.good("%tools measure").outputs[0]["text/plain"]
    assert "word (text)" in page
    assert "explode" not in page
    assert code(ready.run("%tools mesure")) == "magic.unknown-tool"


def size(picture: Diagram) -> tuple[float, float]:
    """The width and the height in pixels."""
    width, height = re.findall(r' (?:width|height)="(\d+)"', picture.svg())[:2]
    return float(width), float(height)


def test_draw_shows_or_saves_the_picture(ready: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "measure" in repr(ready.good("%draw longest").value)
    steps = "".join(f"- tool: {{name: measure, args: {{word: !expr ctx.w{n}}}, output: w{n + 1}}}\n" for n in range(4))
    ready.good(f"%%pipeline\npipeline: long\nsteps:\n{steps}")
    assert ready.good("%draw longest --save l.dot").out == "wrote l.dot\n"
    assert "digraph" in Path("l.dot").read_text()
    assert code(ready.run("%draw longest --save l.xyz")) == "file.not-written"
    assert code(ready.run("%draw longest --direction right")) == "magic.direction"
    tall, wide = (size(ready.good(f"%draw long --direction {way}").value) for way in ("TB", "LR"))
    assert tall[0] < tall[1]
    assert wide[0] > wide[1]
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    assert "the package cairosvg is not installed" in ready.run("%draw longest --save l.png").out
    assert code(ready.run("%draw longest --save no/such/l.dot")) == "file.not-written"


def test_r1_reads_what_the_last_run_left(ready: Shell) -> None:
    ready.good("%run_pipeline longest --set 'words=[pear, fig]'")
    assert ready.good("%r1 filter(ctx.lengths, n -> n > 3)").value == [4]
    assert ready.good("%r1 count(lengths) + pipe + count(ctx.words)").value == 6
    result = ready.run("%r1 ctx.lenghts")
    assert code(result) == "r1.missing-path"
    assert "%r1, line 1, column 9" in result.out
    assert "did you mean lengths?" in result.out


def test_r1_works_before_any_run(shell: Shell) -> None:
    assert shell.good("%r1 1 + 2 * 3").value == 7
    assert code(shell.run("%r1 1 +")) == "r1.syntax"


def test_objects_have_rich_forms(ready: Shell) -> None:
    ready.good("r = %run_pipeline longest --set 'words=[a]'")
    format = ready.ip.display_formatter.format
    for name in ("r", "agf_magics.registry", "agf_magics.registry.flows['longest']", "agf_magics.draw('longest')"):
        ready.good("import agf_magics")
        result = ready.good(name)
        bundle = result.outputs[-1] if result.outputs else format(result.value)[0]
        assert "longest" in bundle["text/html"] or "data:image/svg+xml" in bundle["text/html"], name
        assert "longest" in bundle["text/plain"], name
    assert isinstance(ready.good("agf_magics.registry.flows['longest']").value, Flow)


# --- stopping --------------------------------------------------------------------------------------------------------


STOP = """\
import os, signal, time
@tool
def stop() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(30)
"""


def test_an_interrupted_run_is_kept(shell: Shell) -> None:
    shell.good(STOP)
    result = shell.run("%%pipeline --run --out r\npipeline: p\nsteps: [{tool: {name: stop}}]")
    assert isinstance(result.error, RunInterrupted)
    assert shell.names["r"] is result.error.run
    assert shell.names["r"].status == "cancelled"


def test_an_interrupt_before_anybody_waits_counts_as_the_first(shell: Shell) -> None:
    flow = load("pipeline: p\nsteps: [{tool: {name: stop}}]")

    def begin_and_stop(enter: Callable[[], None]) -> Run:
        run = start_run(flow, None, RunOptions(enter=enter))  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGINT)
        return run

    shell.good(STOP)
    with pytest.raises(RunInterrupted) as interrupt:
        watch(begin_and_stop, View(), 10)  # type: ignore[arg-type]
    assert interrupt.value.run.status == "cancelled"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


BUSY = """\
import threading
free = threading.Event()
@tool
async def hold() -> None:
    free.wait(30)
"""


def test_a_run_in_the_background_is_shown_by_its_cell_also_while_the_loop_is_busy(shell: Shell) -> None:
    """The loop reserves a place for the output, which may come after the end of the cell. nbclient would drop it
    then."""
    shell.good(BUSY)
    flow = load("pipeline: p\nsteps: [{tool: {name: hold}}]")
    first = start_run(flow, None, RunOptions(background=True))
    runs_shown = list[Run]()
    second = start_run(flow, None, RunOptions(background=True, enter=runs_shown.append))
    assert runs_shown == [second]
    shell.names["free"].set()
    assert [run.wait().status for run in (first, second)] == ["ok", "ok"]


WARNED = """\
pipeline: greets
steps:
- agent: {prompt: "Hello {ctx.name}, {nmae}"}
"""


def test_a_warning_is_shown_once(shell: Shell) -> None:
    """It is shown when the flow is defined, and not again with the run. A run of a text in Python shows it with the
    run."""
    shell.good("@agent\ndef writer(prompt):\n    return prompt")
    both = shell.good(f"%%pipeline --run --set name=Ann\n{WARNED}")
    assert output_of(both).count("[pipeline.") == 1
    assert output_of(shell.good(f"%%pipeline\n{WARNED}")).count("[pipeline.") == 1
    assert output_of(shell.good("%run_pipeline greets --set name=Ann")).count("[pipeline.") == 0
    text = output_of(shell.good(f"import agf_magics\nprint(agf_magics.run({WARNED!r}, {{'name': 'Ann'}}).warnings)"))
    assert text.count("pipeline.") == 1


def output_of(result: Any) -> str:
    pages = [result.value._repr_mimebundle_()] if isinstance(result.value, Run) else []
    return result.out + "".join(page.get("text/plain", "") for page in (*result.outputs, *pages))


WRONG_CALLS = {
    "agf_magics.run('longest', {'a': 1}, inputs={})": "TypeError: run() has no parameter 'inputs': did you mean input?",
    "agf_magics.run([1])": "TypeError: a definition must be text or the Path of a file, not a list",
    "@tool\ndef bad(x, *args): return x": "ValueError: tool 'bad' cannot have *args",
    "last.outputs": "AttributeError: a run has no 'outputs': did you mean output?",
    "last.stores.x": "AttributeError: values are read by name, as ['x']: there are no names yet",
    "last.steps['steps[9]']": "KeyError: \"there is no 'steps[9]' here: did you mean steps[0]?",
}


@pytest.mark.parametrize("cell", WRONG_CALLS)
def test_a_wrong_call_shows_the_call_and_nothing_of_ours(cell: str, ready: Shell) -> None:
    ready.good("import agf_magics\nlast = agf_magics.run('{pipeline: one, steps: [{transform: {value: \"1\"}}]}')")
    result = ready.run(cell)
    assert WRONG_CALLS[cell] in result.out
    assert cell.split("\n")[0] in result.out
    assert "/agf_magics/" not in result.out


def test_an_error_of_other_code_has_all_its_frames(ready: Shell) -> None:
    result = ready.run("import json\njson.loads('{')")
    assert "decoder.py" in result.out


def test_the_handler_of_the_user_stays(ready: Shell) -> None:
    ready.good("%unload_ext agf_magics")
    handled: list[type] = []
    ready.ip.set_custom_exc((ValueError,), lambda shell, kind, error, tb, tb_offset=None: handled.append(kind))
    try:
        ready.good("%load_ext agf_magics")
        ready.run("int('x')")
        assert handled == [ValueError]
    finally:
        ready.ip.set_custom_exc((), None)


def test_without_the_extension_ipython_shows_errors_as_before(ready: Shell) -> None:
    ready.good("import agf_magics\n%unload_ext agf_magics")
    try:
        assert not ready.ip.custom_exceptions
        assert "/agf_magics/" in ready.run("agf_magics.run([1])").out
    finally:
        ready.good("%load_ext agf_magics")


@pytest.mark.parametrize(
    ("cell", "hint"),
    [
        ("%run_pipline longest", "did you mean %run_pipeline?"),
        ("%%pipelin\npipeline: a", "did you mean %%pipeline?"),
        ("%nosuchthing", None),
    ],
)
def test_the_error_of_a_misspelt_magic_names_the_nearest_one(cell: str, hint: str | None, ready: Shell) -> None:
    result = ready.run(cell)
    assert "not found" in result.err
    assert ("did you mean" in result.err) is (hint is not None)
    assert hint is None or result.err.rstrip().endswith(hint)


def test_the_output_of_a_running_run_is_announced(ready: Shell) -> None:
    ready.good(
        "import agf_magics, threading\nopened = threading.Event()\n"
        "@tool\ndef waits() -> int:\n    opened.wait(20)\n    return 1\n"
        "h = agf_magics.start('{pipeline: w, steps: [{tool: {name: waits}}]}')"
    )
    with pytest.warns(UserWarning, match="has not ended and has no output yet"):
        assert ready.good("early = h.output").ok
    ready.good("opened.set()\nassert h.wait().output == 1")


def test_a_misspelt_parameter_of_the_package_is_explained_and_not_that_of_a_user(shell: Shell) -> None:
    result = shell.run("import agf_magics as agf\nagf.Limits(time=5)")
    assert "did you mean timeout? its parameters are fan_out_depth, spawns, timeout" in result.out
    result = shell.run("def Limits(timeout): pass\nLimits(time=5)")
    assert "did you mean timeout" not in result.out


def test_a_variable_has_the_run_of_a_line(shell: Shell) -> None:
    shell.good("%%pipeline --run --out first\npipeline: p\nsteps:\n- transform: {value: '1'}")
    shell.good("known = first.run_id")
    for name in ("$first", "$known"):
        assert shell.good(f"%runs {name}").value.run_id == shell.names["known"]
    assert "has no variable 'frist'" in shell.run("%runs $frist").out


def test_a_flow_runs_over_a_table_of_the_notebook(
    ready: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ready.names["rows"] = [{"words": ["pear", "fig"]}, {"words": ["a"]}]
    for line in ("%run_pipeline longest --over $rows", "%run_pipeline longest --over rows"):
        table = ready.good(f"r = {line}\nr.table").value
        assert [row["words"] for row in table] == [["pear", "fig"], ["a"]]
