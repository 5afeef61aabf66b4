"""How a cell in a real kernel ends: its error, the page of its run, and the notice to the front end."""

from __future__ import annotations

import pytest

from tests.notebook.conftest import Cell, Kernel, steps

pytestmark = pytest.mark.kernel


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


EXPORT = """\
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
spans = InMemorySpanExporter()
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(spans))
"""


def test_runs_of_a_notebook_are_traced_while_its_setting_says_so(headless: Kernel) -> None:
    headless.good(EXPORT)
    names = "print([span.name for span in spans.get_finished_spans()])"
    headless.good("%%pipeline\npipeline: traced\nsteps: [{transform: {value: '1'}}]")
    for setting, expected in (("True", "['transform steps[0]', 'invoke_agent traced']\n"), ("False", "[]\n")):
        headless.good(f"%config AgfMagics.tracing = {setting}")
        headless.good("spans.clear()\n%run_pipeline traced --quiet --out r")
        assert headless.good(names).printed == expected


def test_a_second_cell_that_defines_the_same_flow_is_reported(headless: Kernel) -> None:
    def define(cell_id: str) -> str:
        code = "%%pipeline\npipeline: mine\nsteps: [{transform: {value: '1'}}]"
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        message = headless.client.session.msg("execute_request", content, metadata={"cellId": cell_id})
        headless.client.shell_channel.send(message)
        return Cell(headless, message["header"]["msg_id"]).end().printed

    assert define("a") == define("a") == "pipeline mine: 1 step\n"
    assert "note: flow 'mine' was defined by another cell" in define("b")


def test_the_front_end_gets_our_completions(headless: Kernel) -> None:
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
