"""%context: what a plan said, what a reference read at any moment, which call gave it; in a saved notebook too."""

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
def told(shell: Shell) -> Shell:
    """A shell in which the plan `report` has run."""
    shell.good(TOOLS)
    shell.good(f"%%plan report --run --quiet --set word=pear\n{PLAN}")
    return shell


def shown(shell: Shell, line: str) -> str:
    (output,) = shell.good(line).outputs
    assert set(output) == {"text/html", "text/plain"}
    return str(output["text/plain"])


def test_it_shows_every_message_and_what_each_reference_is_now_and_from_whom(told: Shell) -> None:
    text = shown(told, "%context report")
    assert "context report" in text
    assert re.search(r"†state.twice +8 +2 double", text)
    assert "4 messages" in text
    assert "measure" in text


def test_the_context_of_the_last_run_needs_no_name(told: Shell) -> None:
    assert shown(told, "%context") == shown(told, "%context report")


def test_a_reference_is_read_as_it_is_or_was(told: Shell) -> None:
    assert told.good("%context report †state.twice").value == 8
    assert told.good("%context †state").value == {"length": 4, "twice": 8}
    assert told.good("%context report †state --at 2").value == {"length": 4}
    assert told.good("x = %context '†state.nothing || 7'").ok
    assert told.names["x"] == 7


def test_a_value_that_is_read_cannot_change_the_log(told: Shell) -> None:
    told.good("x = %context †state\nx['twice'] = 0")
    assert told.good("%context †state.twice").value == 8


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("%context nowhere", "magic.unknown-context"),
        ("%context report †state.nowhere", "plan.not-found"),
        ("%context report †state..x", "plan.bad-reference"),
        ("%context report --at soon", "magic.count"),
        ("%context report --load nothing.jsonl", "magic.file"),
        ("%context --load nothing.jsonl", "magic.missing"),
    ],
)
def test_what_is_wrong_is_told_at_its_word(told: Shell, line: str, what: str) -> None:
    assert code(told.run(line)) == what


def test_clearing_begins_anew_and_leaves_the_old_log_to_who_has_it(told: Shell) -> None:
    told.good("from agf_magics import registry\nold = registry.contexts['report'].log")
    assert told.good("%context report --clear").out == "context report: empty\n"
    assert "0 messages" in shown(told, "%context report")
    assert len(told.names["old"]) == 4


def test_it_is_saved_and_loaded_a_message_a_line(told: Shell) -> None:
    told.good("%context report --save logs/report.jsonl")
    lines = Path("logs/report.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["data"] * 4
    told.good("%context copy --load logs/report.jsonl")
    assert told.good("%context copy †state.twice").value == 8


def test_a_plan_goes_on_with_the_context_that_is_named_in_its_line(told: Shell) -> None:
    told.good(
        "%%plan more --run --quiet --context report\n- {_tool: double, number: †state.twice, _outputPath: †state.four}"
    )
    assert told.good("%context report †state.four").value == 16
    assert "more" not in shown(told, "%context report")


SOME = """\
%%plan some --run --out r {}
- {{_tool: fail, _outputPath: †state.a}}
- {{_tool: double, number: 1, _outputPath: †state.b}}
"""


def test_a_plan_that_keeps_going_warns_of_what_failed(told: Shell) -> None:
    told.good("@tool\ndef fail() -> int:\n    raise ValueError('no pears')")
    assert code(told.run(SOME.format("--quiet"))) == "step.tool-failed"
    told.good(SOME.format("--keep-going"))
    run = told.names["r"]
    assert run.status == "ok"
    assert [row.state for row in run.steps.values()] == ["kept", "ok"]
    assert any("no pears" in str(found) for found in run.warnings)


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


def test_results_are_kept_in_the_order_of_the_list_where_that_is_asked_for(told: Shell) -> None:
    told.good(SLOW)
    told.good(f"%%plan race --run --quiet\n{RACE}")
    assert told.good("%context race †state.x").value == 1
    told.good("%context race --clear")
    told.good(f"%%plan race --run --quiet --ordered\n{RACE}")
    assert told.good("%context race †state.x").value == 2


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


def test_a_moment_says_what_every_reference_was_and_which_messages_made_it() -> None:
    assert state(SAID.until(2)).rows == (("†input.path", '"<script>"', "0 (input)"), ("†state.rows", "[1]", "1 load"))
    assert state(SAID).rows[1] == ("†state.rows", "[1, 2]", "1 load, 2 more")
    assert state(SAID.until(0)).text == "before the first message"


def test_a_saved_page_says_of_each_message_what_it_wrote_and_what_that_was_then() -> None:
    assert messages(SAID).rows[2] == ("2", "more", "†state.rows", "push", "2", "[1, 2]", "")


def test_a_message_that_says_nothing_is_listed_too() -> None:
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
