"""Stale steps, the state over time and *Open here* in a real kernel: requests, limits and wrong input."""

from __future__ import annotations

import json
import re
import textwrap
from typing import Any

import pytest

from agf_magics.notebook.explorer.widget_model import script
from tests.notebook.conftest import Kernel
from tests.notebook.test_explorer import CHOOSY, EACH, Page, journaled

pytestmark = pytest.mark.kernel

__all__ = ["journaled"]

TWO = """\
%%pipeline --run
pipeline: two
steps:
- tool: {name: choosy, args: {word: pear}, output: a}
- tool: {name: second, args: {word: !expr a}, output: b}
"""
LAST = "import agf_magics as a\na.runs(next(one.run_id for one in a.runs() if one.name == '{}'))"
SECOND = """\
@tool
def second(word: str) -> str:
    return f"second {word}"
"""


def test_a_value_whose_class_is_gone_is_shown_by_its_preview(journaled: Kernel) -> None:
    journaled.good("class Point:\n    pass\n@tool\ndef point() -> object:\n    return Point()")
    journaled.good("%%pipeline --run\npipeline: gone\nsteps:\n- tool: {name: point, output: p}")
    journaled.good("del Point")
    page = Page(
        journaled,
        journaled.good(LAST.format("gone")),
    )
    assert "Point" in json.dumps(page.get("moment", at=1, since=0))
    assert page.get("stale")["marks"][0][:2] == [0, "again"]


def two(kernel: Kernel) -> Page:
    kernel.good(CHOOSY)
    kernel.good(SECOND)
    return Page(kernel, kernel.good(TWO))


def test_the_end_of_a_cell_notifies_the_explorers_of_possible_edits(journaled: Kernel) -> None:
    page = two(journaled)
    cell = journaled.good(SECOND.replace("second {word}", "edited {word}"))
    assert {"type": "edited"} in [content["data"].get("content") for content in cell.of("comm_msg")]
    answer = page.get("stale", auto=True)
    assert [mark[:2] for mark in answer["marks"]] == [[1, "again"]]
    assert answer["summary"] == "1 step would run again"


@pytest.mark.parametrize(
    ("cell", "step", "words"),
    [(TWO, 0, "its call"), (EACH, 1, "3 of its 3 calls")],
    ids=["one call", "several"],
)
def test_a_mark_says_how_many_calls_are_made_again(journaled: Kernel, cell: str, step: int, words: str) -> None:
    journaled.good(CHOOSY)
    journaled.good(SECOND)
    page = Page(journaled, journaled.good(cell))
    journaled.good(CHOOSY.replace("return word", "return word + '!'"))
    why = {mark[0]: mark[2] for mark in page.get("stale")["marks"]}[step]
    assert why == f"The code of its function was edited. A new run with --reuse makes {words} again."


def test_new_and_removed_steps_are_reported(journaled: Kernel) -> None:
    page = two(journaled)
    new = "steps:\n- transform: {value: '1', output: x}\n- tool: {name: choosy, args: {word: plum}}\n"
    journaled.good(TWO.replace(" --run", "").replace("steps:\n", new))
    answer = page.get("stale")
    assert answer["marks"] == []
    assert answer["new"] == ["tool choosy"]
    journaled.good(TWO.replace(" --run", "").rpartition("- ")[0])
    answer = page.get("stale")
    assert [(mark[0], mark[-1]) for mark in answer["marks"]] == [(1, "removed")]


FRAMED = """\
%%pipeline{}
pipeline: framed
steps:
- tool: {{name: clean, output: good}}
- tool: {{name: second, args: {{word: {}}}, output: b}}
"""


@pytest.mark.parametrize(
    ("edit", "marks"),
    [
        ("1", []),
        (SECOND, []),
        (SECOND.replace("second {", "2nd {"), [1]),
        (FRAMED.format("", "figs"), [1]),
        ("import datetime\n@tool\ndef clean() -> object:\n    return [datetime.date(2026, 11, 24)]", [0]),
    ],
    ids=["another cell", "the same function", "a function", "the definition", "the function whose result is no JSON"],
)
def test_an_edit_is_told_of_a_run_whose_results_nobody_asked_to_read(
    journaled: Kernel, edit: str, marks: list[int]
) -> None:
    journaled.good("import datetime\n@tool\ndef clean() -> object:\n    return [datetime.date(2026, 11, 23)]")
    journaled.good(SECOND)
    page = Page(journaled, journaled.good(FRAMED.format(" --run", "pears")))
    assert page.get("stale", auto=True)["edited"] is False
    journaled.good(edit)
    told = page.get("stale", auto=True)
    assert (told["edited"], "not JSON" in told["skipped"]) == (bool(marks), True)
    asked = page.get("stale")
    assert (asked["edited"], [mark[0] for mark in asked["marks"]]) == (bool(marks), marks)


def test_a_comparison_that_nobody_asked_for_unpickles_nothing(journaled: Kernel) -> None:
    journaled.good("import datetime\n@tool\ndef now() -> object:\n    return [datetime.date(2026, 11, 23)]")
    page = Page(journaled, journaled.good("%%pipeline --run\npipeline: day\nsteps:\n- tool: {name: now, output: d}"))
    assert "not JSON" in page.get("stale", auto=True)["skipped"]
    assert page.get("stale")["marks"] == []


def test_a_run_with_data_frames_is_compared_without_unpickling(journaled: Kernel) -> None:
    journaled.good("import pandas\n@tool\ndef clean() -> object:\n    return pandas.DataFrame({'a': [1, 2]})")
    journaled.good("@tool\ndef second(word: object) -> object:\n    return word.sum()")
    page = Page(journaled, journaled.good(FRAMED.format(" --run", "!expr good")))
    journaled.good("import pickle\nloads, pickle.loads = pickle.loads, None")
    assert page.get("stale", auto=True)["marks"] == []
    journaled.good("@tool\ndef clean() -> object:\n    return pandas.DataFrame({'a': [1, 3]})")
    answer = page.get("stale", auto=True)
    assert [(mark[0], mark[1]) for mark in answer["marks"]] == [(0, "again"), (1, "depends")]
    journaled.good("pickle.loads = loads")
    assert page.get("stale") == answer


def test_a_comparison_that_nobody_asked_for_unpickles_no_input(journaled: Kernel) -> None:
    journaled.good(CHOOSY)
    journaled.good("%%pipeline\npipeline: given\nsteps:\n- tool: {name: choosy, args: {word: !expr ctx.word}}")
    journaled.good("import agf_magics as agf, datetime\n"
                   "_ = agf.run('given', {'word': 'pear', 'more': datetime.date(2026, 11, 23)})")  # fmt: skip
    page = Page(journaled, journaled.good(LAST.format("given")))
    assert "not JSON" in page.get("stale", auto=True)["skipped"]
    assert page.get("stale")["marks"] == []


def test_a_comparison_that_nobody_asked_for_is_skipped_after_a_slow_one(journaled: Kernel) -> None:
    page = two(journaled)
    journaled.good("from agf_magics.notebook.explorer import forecasts\nslow, forecasts.SLOW = forecasts.SLOW, 0.0")
    assert page.get("stale", auto=True)["marks"] == []
    assert page.get("stale", auto=True) == {"skipped": "the last comparison was slow"}
    assert page.get("stale")["marks"] == [], "a person asked for it"
    journaled.good("forecasts.SLOW = slow")


def test_the_state_at_each_moment_and_its_difference(journaled: Kernel) -> None:
    page = two(journaled)
    assert page.get("moments") == {"total": 3, "note": ""}
    answer = page.get("moment", at=2, since=0)
    assert answer["label"] == "b"
    assert [(name, about) for name, _, is_new, about in answer["values"] if is_new] == [
        ("a", '"pear"'),
        ("b", '"second pear"'),
    ]
    assert answer["differs"] == [["a", "", '"pear"'], ["b", "", '"second pear"']]
    wrong = page.ask("moment", at=3, since=0)
    assert not wrong["ok"]
    assert "no moment 4" in wrong["why"]


ROUNDS = """\
%%graph rounds --run --set n=0
state: {n: int}
nodes:
  add: {type: passthrough, output: {n: "{state.n + 1}"}}
  check: {type: passthrough, output: {n: "{state.n}"}}
edges:
- {from: START, to: add}
- {from: add, to: check}
- {from: check, to: add, condition: n < 2}
- {from: check, to: END, condition: else}
"""


def test_the_picture_at_a_moment_has_what_had_run_by_then_what_runs_and_the_edges_so_far(journaled: Kernel) -> None:
    page = Page(journaled, journaled.good(ROUNDS))
    corners, edges = [], []
    for at in range(page.get("moments")["total"]):
        answer = page.get("moment", at=at, since=0, rows=True)
        corners.append([row[2] for row in sorted(answer["rows"])])
        edges.append([words for _, words in sorted(answer["edges"].items())])
    assert corners == [
        ["▶ running", "· pending"],
        ["✓ ok", "▶ running"],
        ["1× ▶1", "✓ ok"],
        ["✓ 2×", "1× ▶1"],
        ["✓ 2×", "✓ 2×"],
    ]
    assert edges == [["1"], ["1", "2"], ["1", "2", "3"], ["1", "2, 4", "3"], ["1", "2, 4", "5", "3"]]
    assert "rows" not in page.get("moment", at=1, since=0), "a report has no such picture"


def test_a_past_run_has_moments_even_without_its_tools(journaled: Kernel) -> None:
    two(journaled)
    journaled.good("from agf_magics import registry\nregistry.tools.remove('second')\nregistry.tools.remove('choosy')")
    page = Page(
        journaled,
        journaled.good(LAST.format("two")),
    )
    assert page.get("moments")["total"] == 3
    assert page.get("moment", at=2, since=1)["differs"] == [["b", "", '"second pear"']]
    reply = page.ask("stale")
    assert not reply["ok"]
    assert "no tool" in reply["why"]


def test_values_of_10_mb_are_bounded(journaled: Kernel) -> None:
    journaled.good("@tool\ndef large(n: int) -> object:\n    return {'text': 'x' * 9_000_000, 'list': list(range(n))}")
    page = Page(journaled, journaled.good(
        "%%pipeline --run\npipeline: large\nsteps:\n- tool: {name: large, args: {n: 50000}, output: a}\n"
        "- tool: {name: large, args: {n: 50001}, output: a}"))  # fmt: skip
    answer = page.get("moment", at=2, since=1)
    assert len(json.dumps(answer)) < 200_000
    assert answer["differs"] == [["a.list[50000]", "", "50000"]]


@pytest.mark.parametrize("request_", ["stale", "moments", "open"])
def test_without_a_journal_the_reason_is_named(page_kernel: Kernel, request_: str) -> None:
    page_kernel.good(CHOOSY)
    page = Page(page_kernel, page_kernel.good(EACH))
    reply = page.ask(request_, step="steps[0].do")
    assert not reply["ok"]
    assert "journal" in reply["why"]
    assert "moments" not in page.start["update"]["can"]


@pytest.mark.parametrize("request_", ["stale", "moments", "open"])
def test_a_lost_journal_is_named(journaled: Kernel, request_: str) -> None:
    page = two(journaled)
    journaled.good("import os, glob\nfor name in glob.glob('runs.sqlite*'): os.remove(name)")
    reply = page.ask(request_, step="steps[0]")
    assert not reply["ok"]
    assert "journal" in reply["why"] or "there is no run" in reply["why"]


def test_a_call_is_opened_as_a_variable_and_a_cell(journaled: Kernel) -> None:
    journaled.good(CHOOSY)
    page = Page(journaled, journaled.good(EACH))
    assert page.get("step", step="steps[0].do")["opens"] is True
    assert page.get("step", step="steps[0]")["opens"] is False
    answer = page.get("open", step="steps[0].do")
    assert (answer["name"], answer["code"]) == ("arguments", "choosy(**arguments)")
    assert "fig" in str(journaled.good("arguments").of("execute_result"))
    wrong = page.ask("open", step="steps[7]")
    assert not wrong["ok"]
    assert "there is no tool call 'steps[7]'" in wrong["why"]


EVIL = """\
%%pipeline --run
pipeline: evil
steps:
- tool: {name: choosy, args: {word: "<img src=x onerror=alert(1)>"}, output: a}
"""


def test_html_stays_text(journaled: Kernel) -> None:
    journaled.good(CHOOSY)
    page = Page(journaled, journaled.good(EVIL))
    answer = page.get("moment", at=1, since=0)
    assert answer["differs"] == [["a", "", '"<img src=x onerror=alert(1)>"']]  # the page shows this as text


def test_the_script_of_these_views_is_sent_only_on_request(journaled: Kernel) -> None:
    page = two(journaled)
    assert "class Time" not in script()
    assert "class Time" in page.get("later")["code"]


WORDS = """\
%%plan words --run --set word=pear
calls:
- {_tool: choosy, word: †input.word, _outputPath: †state.first}
- {_tool: choosy, word: †state.first, _outputPath: †state.second}
output: †state
"""


def test_a_context_has_a_moment_after_each_message_and_no_widget(journaled: Kernel) -> None:
    journaled.good(CHOOSY)
    journaled.good(WORDS)
    cell = journaled.good("%context words")
    bundles = [content["data"] for content in cell.of("display_data")]
    assert [set(data) for data in bundles] == [{"text/html", "text/plain"}]
    page = Page(journaled, cell)
    assert page.start["context"] == "words"
    total = page.get("moments")["total"]
    first, last = page.get("moment", at=0, since=0), page.get("moment", at=total - 2, since=total - 3)
    assert (first["label"], first["values"], first["differs"]) == ("before the first message", [], [])
    assert [(name, about) for name, _, is_new, about in last["values"] if is_new] == [("†state.second", '"pear"')]
    assert last["differs"] == [["†state.second", "", '"pear"']]
    assert page.ask("moment", at=total, since=0)["why"] == f"the context has no moment {total + 1}"
    assert page.ask("step", step="x")["why"] == "unknown request 'step'"


REPORT = "pipeline: report\nsteps:\n- tool: {name: second, args: {word: x}, output: b}\n- call: {pipeline: inner}\n"
CELLS = {
    "tools": SECOND,
    "inner": "%%pipeline inner\nsteps:\n- agent: {prompt: hello, identity: clerk}\n",
    "agents": "from agf_magics import agent\n@agent\ndef clerk(prompt: str) -> str:\n    return prompt",
    "report": f"\n%%pipeline --run\n{REPORT}",
    "other": "1",
}
SINCE = ": run that cell first"


def presented(cells: dict[str, Any]) -> dict[str, list[object]]:
    """Cells as the page sends them, with the numbers of their last runs. Here it knows no number."""
    return {id: [text, None] for id, text in cells.items()}


@pytest.mark.parametrize(
    ("cells", "name"),
    [
        ({}, ""),
        (None, ""),
        ({"tools": 7}, ""),
        ({"other": "2"}, ""),
        ({"report": f"%%pipeline\n{REPORT}\n"}, ""),
        ({"report": f"  %%pipeline --run\n{textwrap.indent(REPORT, '  ')}"}, ""),
        ({"report": CELLS["report"].replace("word: x", "word: y")}, "report"),
        ({"report": ""}, "report"),
        ({"inner": CELLS["inner"].replace("hello", "good night")}, "inner"),
        ({"tools": SECOND + "\n"}, ""),
        ({"tools": SECOND.replace("second {", "2nd {")}, "second"),
        ({"agents": CELLS["agents"].replace("return prompt", "return 'no'")}, "clerk"),
    ],
)  # fmt: skip
def test_a_cell_that_was_edited_and_not_run_is_named(
    journaled: Kernel, cells: dict[str, object] | None, name: str
) -> None:
    *_, (_, run), _ = [(id, journaled.good(text, id)) for id, text in CELLS.items()]
    page = Page(journaled, run)
    present = cells if cells is None else presented({**CELLS, **cells})
    asks = [("stale", {}), ("rerun", {"step": "steps[0]"})]
    replies = [page.ask(do, cells=present, **more) for do, more in asks]
    if name:
        why = f"'{name}' was edited, and its cell has not run since{SINCE}"
        assert [reply.get("why") for reply in replies] == [why, why]
    else:
        assert [reply["ok"] for reply in replies] == [True, True]


EARLY = """\
from agf_magics import tool
class Price:
    tax = 2

@tool
def early(n: int) -> int:
    return n * Price.tax
"""
LOADING = """\
def half(n: int) -> int:
    return n // 2

@tool
def load_number(n: int) -> int:
    return n

@tool
def halve(n: int) -> int:
    if n == 0:
        raise ValueError("no number")
    return half(n)

%load_ext agf_magics
"""
LATER = "def shown(n: int) -> str:\n    return f'{n} pears'\n"
FAILS = """\
%%pipeline --run
pipeline: late
steps:
- tool: {name: load_number, args: {n: 0}, output: n}
- tool: {name: show, args: {n: 1}, output: shown}
- tool: {name: early, args: {n: !expr ctx.n}, output: n}
- tool: {name: halve, args: {n: !expr ctx.n}, output: n}
"""
LATE = {
    "early": EARLY,
    "loading": LOADING,
    "later": LATER,
    "show": "@tool\ndef show(n: int) -> str:\n    return shown(n)\n",
}


@pytest.mark.parametrize(
    ("cell", "old", "new", "why"),
    [
        ("loading", "", "", ""),
        ("loading", "n == 0", "n < 0", "'halve' was edited, and its cell has not run since"),
        ("loading", "return n\n", "return n + 1\n", "'load_number' was edited, and its cell has not run since"),
        ("loading", "n // 2", "n / 2", "'half' was edited, and its cell has not run since"),
        ("loading", "%load", "# edited\n%load", "the cell of 'load_number' was edited, and has not run since"),
        ("early", "n *", "2 * n *", "'early' was edited, and its cell has not run since"),
        ("early", "tax = 2", "tax = 3", "'Price' was edited, and its cell has not run since"),
        ("later", "pears", "figs", "'shown' was edited, and its cell has not run since"),
        ("show", "return", "return (", "'show' was edited, and its cell has not run since"),
    ],
)
def test_an_edit_is_named_whenever_its_cell_ran_before_the_run(
    journaled: Kernel, cell: str, old: str, new: str, why: str
) -> None:
    """A run that failed offers all three ways on: *Check edits*, *Run from here* and *Resume*."""
    journaled.good("%unload_ext agf_magics")
    ran = {id: journaled.good(text, id) for id, text in LATE.items()}
    journaled.good('%config AgfMagics.journal = "runs.sqlite"')
    page = Page(journaled, journaled.begin(FAILS, id="late").end())
    present = {id: [text, ran[id].reply["execution_count"]] for id, text in LATE.items()}
    present["late"] = [FAILS, None]
    present[cell][0] = present[cell][0].replace(old, new)
    asks: list[tuple[str, dict[str, str]]] = [("stale", {}), ("resume", {}), ("rerun", {"step": "steps[3]"})]
    # Without an edit the page shows the run that goes on, which cannot be asked for another one before its end.
    replies = [page.ask(do, cells=present, **more) for do, more in (asks if why else asks[:2])]
    assert {reply.get("why", "") for reply in replies} == {f"{why}{SINCE}" if why else ""}


def test_an_edited_definition_does_not_keep_a_run_from_being_resumed(journaled: Kernel) -> None:
    """A resumed run has the definition of its start, so nothing of the edit would run anyway."""
    for id, text in LATE.items():
        journaled.good(text.replace("%load_ext agf_magics\n", ""), id)
    page = Page(journaled, journaled.begin(FAILS, id="late").end())
    present = presented({"late": FAILS.replace("n: 1", "n: 2")})
    assert page.ask("rerun", cells=present, step="steps[3]")["why"].startswith("'late' was edited")
    assert page.ask("resume", cells=present)["ok"]


ROWS = """\
%%pipeline --run
pipeline: rows
steps:
- transform: {value: "[{fruit: 'fig', kilos: 2, note: 'the first order of the day'}, {fruit: 'plum', kilos: 3}]", output: orders}
- transform: {value: "[1, 2]", output: short}
"""  # noqa: E501


def test_a_new_list_of_rows_is_named_by_its_size_and_is_a_table(journaled: Kernel) -> None:
    page = Page(journaled, journaled.good(ROWS))
    answer = page.get("moment", at=2, since=0)
    assert answer["differs"] == [["orders", "", "2 rows"], ["short", "", "[1, 2]"]]
    assert [(name, value["kind"]) for name, value, *_ in answer["values"]] == [("orders", "grid"), ("short", "group")]


RETRIED = """\
%%pipeline --run
pipeline: retried
steps:
- for_each:
    items: [0, 1, 2, 3, 4]
    on_error: continue
    do: {tool: {name: shaky, args: {n: !expr item}}}
    collect: {transform: {value: "count(pipe)"}}
    output: ended
"""
SHAKY = """\
made = []

@tool
def shaky(n: int) -> int:
    made.append(n)
    if n % 2 and made.count(n) < 2:
        raise ValueError("503")
    return n
"""


def test_the_calls_that_failed_are_made_again_and_all_others_are_reused(journaled: Kernel) -> None:
    journaled.good(SHAKY, "shaky")
    page = Page(journaled, journaled.good(RETRIED, "retried"))
    assert page.start["update"]["can"] == ["rerun", "moments", "retry"]
    present = presented({"shaky": SHAKY.replace("503", "504"), "retried": RETRIED})
    assert page.ask("rerun", cells=present)["why"].startswith("'shaky' was edited")
    assert page.ask("rerun", cells=presented({"shaky": SHAKY, "retried": RETRIED}))["ok"]
    while not any(update.get("status") == "ok" for update in page.updates):
        content = journaled.next()["content"].get("data", {}).get("content")
        if isinstance(content, dict) and "type" in content:
            page.messages.append(content)
    assert re.fullmatch(r"makes the failed calls of retried-\S+ again; 3 calls reused", page.get("run")["note"])
    assert page.get("start")["update"]["can"] == ["rerun", "moments"]
    journaled.drain()
    assert journaled.good("print(sorted(made[5:]))").printed == "[1, 3]\n"


@pytest.mark.parametrize("kind", ["@tool(reuse=False)", "@tool"])
def test_a_retry_is_not_offered_if_it_would_repeat_an_effect(kind: str, journaled: Kernel) -> None:
    journaled.good(SHAKY.replace("@tool", kind), "shaky")
    page = Page(journaled, journaled.good(RETRIED, "retried"))
    may_repeat = kind == "@tool"
    assert ("retry" in page.start["update"]["can"]) is may_repeat
    if not may_repeat:
        assert "would make other calls again" in page.ask("rerun")["why"]
        assert journaled.good("print(len(made))").printed == "5\n"
