"""`%context`: the messages of a plan, the value of a reference at each moment, and the call that gave it.

A saved notebook shows them, too.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from agf_magics.languages.plan import Log, as_log
from agf_magics.notebook.display.context_slider import static
from agf_magics.notebook.display.context_timeline import MOST_ROWS, messages, state
from tests.notebook.conftest import Shell, code

TOOLS = """\
@tool
def measure(word: str) -> int:
    return len(word)

@tool
def double(number: int) -> int:
    return 2 * number
"""
PLAN = """\
calls:
- {_tool: measure, word: †input.word, _outputPath: †state.length}
- {_tool: double, number: †state.length, _outputPath: †state.twice}
output: †state
"""


@pytest.fixture
def ran_report(shell: Shell) -> Shell:
    """A shell in which the plan `report` has run."""
    shell.good(TOOLS)
    shell.good(f"%%plan report --run --quiet --set word=pear\n{PLAN}")
    return shell


def output_of(shell: Shell, line: str) -> str:
    (output,) = shell.good(line).outputs
    assert set(output) == {"text/html", "text/plain"}
    return str(output["text/plain"])


def test_context_shows_every_message_and_each_reference_with_its_writer(ran_report: Shell) -> None:
    text = output_of(ran_report, "%context report")
    assert "context report" in text
    assert re.search(r"†state.twice +8 +2 double", text)
    assert "4 messages" in text
    assert "measure" in text


def test_the_context_of_the_last_run_needs_no_name(ran_report: Shell) -> None:
    assert output_of(ran_report, "%context") == output_of(ran_report, "%context report")


def test_a_reference_has_its_current_or_an_earlier_value(ran_report: Shell) -> None:
    assert ran_report.good("%context report †state.twice").value == 8
    assert ran_report.good("%context †state").value == {"length": 4, "twice": 8}
    assert ran_report.good("%context report †state --at 2").value == {"length": 4}
    assert ran_report.good("x = %context '†state.nothing || 7'").ok
    assert ran_report.names["x"] == 7


def test_a_value_that_is_read_cannot_change_the_log(ran_report: Shell) -> None:
    ran_report.good("x = %context †state\nx['twice'] = 0")
    assert ran_report.good("%context †state.twice").value == 8


@pytest.mark.parametrize(
    ("line", "case"),
    [
        ("%context nowhere", "magic.unknown-context"),
        ("%context report †state.nowhere", "plan.not-found"),
        ("%context report †state..x", "plan.bad-reference"),
        ("%context report --at soon", "magic.count"),
        ("%context report --load nothing.jsonl", "magic.file"),
        ("%context --load nothing.jsonl", "magic.missing"),
    ],
)
def test_a_mistake_is_reported_at_its_word(ran_report: Shell, line: str, case: str) -> None:
    assert code(ran_report.run(line)) == case


def test_clearing_begins_a_new_log_and_does_not_change_the_old_one(ran_report: Shell) -> None:
    ran_report.good("from agf_magics import registry\nold = registry.contexts['report'].log")
    assert ran_report.good("%context report --clear").out == "context report: empty\n"
    assert "0 messages" in output_of(ran_report, "%context report")
    assert len(ran_report.names["old"]) == 4


def test_a_context_is_saved_and_loaded_with_a_message_on_each_line(ran_report: Shell) -> None:
    ran_report.good("%context report --save logs/report.jsonl")
    lines = Path("logs/report.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["data"] * 4
    ran_report.good("%context copy --load logs/report.jsonl")
    assert ran_report.good("%context copy †state.twice").value == 8


def test_a_text_that_is_no_utf8_is_saved_escaped_in_place_of_the_file_before(ran_report: Shell) -> None:
    ran_report.good("import agf_magics as agf\n@agf.tool\ndef half() -> str: return 'a\\udcff'")
    ran_report.good("%%plan half --run --quiet\n- {_tool: half, _outputPath: †state.half}")
    Path("half.jsonl").write_text("precious")
    ran_report.good("%context half --save half.jsonl")
    ran_report.good("%context copy --load half.jsonl")
    assert ran_report.good("%context copy †state.half").value == "a\udcff"


def test_a_plan_continues_the_context_that_its_line_names(ran_report: Shell) -> None:
    ran_report.good(
        "%%plan more --run --quiet --context report\n- {_tool: double, number: †state.twice, _outputPath: †state.four}"
    )
    assert ran_report.good("%context report †state.four").value == 16
    assert "more" not in output_of(ran_report, "%context report")


SOME = """\
%%plan some --run --out r {}
- {{_tool: fail, _outputPath: †state.a}}
- {{_tool: double, number: 1, _outputPath: †state.b}}
"""


def test_a_plan_that_continues_after_failures_warns_of_them(ran_report: Shell) -> None:
    ran_report.good("@tool\ndef fail() -> int:\n    raise ValueError('no pears')")
    assert code(ran_report.run(SOME.format("--quiet"))) == "step.tool-failed"
    ran_report.good(SOME.format("--keep-going"))
    run = ran_report.names["r"]
    assert run.status == "ok"
    assert [row.state for row in run.steps.values()] == ["kept", "ok"]
    assert any("no pears" in str(warning) for warning in run.warnings)


SLOW = """\
import asyncio
@tool
async def after(n: int, turns: int) -> int:
    for _ in range(turns):
        await asyncio.sleep(0)
    return n
"""
RACE = """\
- {_tool: after, n: 1, turns: 200, _outputPath: †state.x}
- {_tool: after, n: 2, turns: 0, _outputPath: †state.x}
"""


def test_results_can_be_stored_in_the_order_of_the_list(ran_report: Shell) -> None:
    ran_report.good(SLOW)
    ran_report.good(f"%%plan race --run --quiet\n{RACE}")
    assert ran_report.good("%context race †state.x").value == 1
    ran_report.good("%context race --clear")
    ran_report.good(f"%%plan race --run --quiet --ordered\n{RACE}")
    assert ran_report.good("%context race †state.x").value == 2


# --- moments ---

SAID = as_log(
    [
        {"type": "data", "kind": "input", "data": {"path": "<script>"}},
        {"type": "data", "kind": "state", "data": {"rows": [1]},
         "_call": {"_tool": "load", "_outputPath": "†state.rows"}},
        {"type": "data", "kind": "state", "data": {"rows": 2}, "_outputMethod": "push",
         "_call": {"_tool": "more", "_outputPath": "†state.rows"}},
        {"type": "text", "text": "thoughts"},
    ]
)  # fmt: skip


def test_a_moment_has_the_value_and_the_messages_of_every_reference() -> None:
    assert state(SAID.until(2)).rows == (("†input.path", '"<script>"', "0 (input)"), ("†state.rows", "[1]", "1 load"))
    assert state(SAID).rows[1] == ("†state.rows", "[1, 2]", "1 load, 2 more")
    assert state(SAID.until(0)).text == "before the first message"


def test_a_saved_page_shows_what_each_message_wrote() -> None:
    assert messages(SAID).rows[2] == ("2", "more", "†state.rows", "push", "2", "[1, 2]", "")


def test_an_empty_message_is_listed_too() -> None:
    assert messages(SAID).rows[-1] == ("3", "(text)", "", "", "", "", "")


def test_everything_is_escaped() -> None:
    page = static("<b>", SAID)["text/html"]
    assert "<script>" not in page
    assert "<b>" not in page


def test_a_long_log_is_shown_in_part_and_says_so() -> None:
    long = Log([{"type": "state", "state": {f"k{n}": n}} for n in range(5_000)])
    page = static("long", long)["text/html"]
    assert len(page) < 100_000
    assert f"the last {MOST_ROWS}" in page
    assert f"the last {MOST_ROWS} of 5,000" in state(long).title
