"""The list of ``%runs`` in a real shell: filters, pages, the line for the next page, and the comparison of two runs."""

from __future__ import annotations

import html
import re
import threading
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.catalog import Registry
from agf_magics.commands.words import split
from agf_magics.editor.complete import Surroundings, complete
from agf_magics.flow.progress.question import Question
from agf_magics.flow.progress.run_line import RunLine
from agf_magics.lifecycle.runs.live import live
from agf_magics.notebook.display.run_list import _goes_on, moment
from agf_magics.pictures.pages.run_list import ALL, runs_table
from agf_magics.settings.settings import current
from agf_magics.text.source import Source
from tests.notebook.conftest import Shell, code

NOON = datetime(2026, 11, 22, 12, 0).timestamp()


@pytest.fixture
def full_shell(shell: Shell) -> Shell:
    """A shell with a failed run of `strict`, and then 44 runs of `other`."""
    live.forget()  # forgets runs of other tests
    shell.good("%%pipeline strict --quiet\npipeline: strict\nsteps:\n- transform: {value: ctx.n / 0}")
    assert not shell.run("%run_pipeline strict --quiet --set n=1").ok
    shell.good("%%pipeline other --quiet\npipeline: other\nsteps:\n- transform: {value: 1 + 1}")
    for _ in range(44):
        shell.good("%run_pipeline other --quiet")
    return shell


def page(shell: Shell, line: str) -> str:
    return str(shell.good(line).outputs[-1]["text/plain"])


def names(text: str) -> list[str]:
    """The names of the flows in a list, without its first and its last line."""
    return [match[1] for row in text.split("\n")[1:] if (match := re.match(r"(\S+?)-\d", row))]


def test_the_line_below_a_page_gives_the_next_page_until_all_runs_are_listed(full_shell: Shell) -> None:
    line, sizes, listed_text = "%runs", [], ""
    while line:
        text = page(full_shell, line)
        sizes.append(len(names(text)))
        listed_text += text
        line = text.partition(" · next: ")[2]
    assert sizes == [20, 20, 5]
    assert "runs 1–20 of 45 · next: %runs --page 2" in listed_text
    assert "runs 41–45 of 45" in listed_text
    assert len(set(re.findall(r"^(?:other|strict)-\S+", listed_text, re.MULTILINE))) == 45


@pytest.mark.parametrize(
    ("line", "following"),
    [
        ("%runs --limit 1 # my runs", "%runs --limit 1 --page 2"),
        ("%runs --page 2 --limit=1 --name 'oth'", "%runs --limit 1 --name 'oth' --page 3"),
        ("%runs --limit=20 --before '3000-01-01 00:00'", "%runs --limit 20 --before '3000-01-01 00:00' --page 2"),
    ],
)
def test_the_next_line_has_the_words_of_the_line(full_shell: Shell, line: str, following: str) -> None:
    assert page(full_shell, line).partition(" · next: ")[2] == following
    assert page(full_shell, following)


def test_the_next_line_keeps_the_filters_and_replaces_the_page(full_shell: Shell) -> None:
    text = page(full_shell, "%runs --page 2 --name OTH --limit 3")
    assert names(text) == ["other"] * 3
    assert text.endswith("runs 4–6 of 44 · next: %runs --name OTH --limit 3 --page 3")
    assert (
        "<code>%runs --name OTH --limit 3 --page 3</code>"
        in full_shell.good("%runs --page=2 --name OTH --limit 3").outputs[-1]["text/html"]
    )


@pytest.mark.parametrize(
    "filters",
    [
        "--status error",
        "--status failed",
        "--name STRI",
        "--text 'zero STRI'",
        "--name stri --since 1h",
        "--status error --before 3000-01-01",
    ],
)
def test_a_filter_lists_only_matching_runs(full_shell: Shell, filters: str) -> None:
    text = page(full_shell, f"%runs {filters}")
    assert names(text) == ["strict"]
    assert "next" not in text


@pytest.mark.parametrize(
    "filters", ["--since 3000-01-01", "--before '2000-01-01 10:00'", "--status waiting", "--notebook elsewhere"]
)
def test_an_empty_list_names_the_filters(full_shell: Shell, filters: str) -> None:
    flag = filters.split()[0]
    assert page(full_shell, f"%runs {filters}") == f"no runs fit {flag}: %runs lists all 45 runs"


def test_the_next_line_is_escaped_and_keeps_its_quotes(full_shell: Shell) -> None:
    last_output = full_shell.good("%runs --limit 1 --notebook= --before '3000-01-01 00:00'").outputs[-1]
    assert "--before &#x27;3000-01-01 00:00&#x27; --page 2</code>" in last_output["text/html"]
    assert names(page(full_shell, last_output["text/plain"].partition(" · next: ")[2])) == ["other"]


def test_runs_are_filtered_by_their_notebook(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.good("%%pipeline p --quiet\npipeline: p\nsteps:\n- transform: {value: 1 + 1}")
    for notebook in ("/work/Fruit.ipynb", "/work/nuts.ipynb", "/work/nuts.ipynb"):
        monkeypatch.setenv("JPY_SESSION_NAME", notebook)
        shell.good("%run_pipeline p --quiet")
    assert len(names(page(shell, "%runs --notebook"))) == 2
    assert len(names(page(shell, "%runs --notebook fruit"))) == 1
    assert len(names(page(shell, "%runs --notebook .ipynb"))) == 3


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", NOON - 1_800),
        ("1.5h", NOON - 5_400),
        ("3d", NOON - 3 * 86_400),
        ("1w", NOON - 7 * 86_400),
        ("9:05", datetime(2026, 11, 22, 9, 5).timestamp()),
        ("2026-11-20", datetime(2026, 11, 20).timestamp()),
        ("'2026-11-20 18:30'", datetime(2026, 11, 20, 18, 30).timestamp()),
    ],
)
def test_a_time_is_a_duration_a_clock_time_or_a_date(text: str, seconds: float) -> None:
    (word,) = split(Source("", text))
    assert moment(word, NOON) == seconds


@pytest.mark.parametrize("text", ["yesterday", "25:00", "-2h", "2026-13-01", "9" * 400 + "d", "''", "1e5h"])
def test_a_wrong_time_is_marked(shell: Shell, text: str) -> None:
    assert code(shell.run(f"%runs --since={text}")) == "magic.time"


@pytest.mark.parametrize("line", ["%runs --page 0", "%runs --page 2", "%runs --page 99 --status ok"])
def test_a_missing_page_is_refused(shell: Shell, line: str) -> None:
    shown = shell.run(line)
    assert code(shown) == "magic.page"
    assert shown.error.diagnostic.hint == "write --page 1"


def test_the_values_of_the_options_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "/work/Fruit.ipynb")

    def offered(line: str) -> list[str]:
        offers = complete(line, 0, len(line), Surroundings(Registry(), {}, {}))
        return [choice.text for choice in offers.choices]

    assert offered("%runs --pa") == ["--page"]
    assert "1d" in offered("%runs --since ")
    assert offered("%runs --notebook Fr") == ["Fruit.ipynb"]


FIRST = """\
%%pipeline grading --quiet
pipeline: grading
steps:
- for_each:
    over: ctx.names
    on_error: abort
    do: {tool: {name: grade, args: {name: !expr item}}}
    collect: {transform: {value: pipe}}
    output: grades
"""


@pytest.fixture
def two(shell: Shell) -> tuple[Shell, Any]:
    """Two runs with different definitions, tools and inputs, and their comparison as `%runs` displays it."""
    shell.good("@tool\ndef grade(name: str) -> dict:\n    return {'name': name, 'note': '<b>1</b>'}")
    shell.good(FIRST)
    shell.good("%run_pipeline grading --quiet --out a --set 'names=[pears, plums, figs]'")
    shell.good("@tool\ndef grade(name: str) -> dict:\n    return {'name': name, 'note': '<b>2</b>'}")
    shell.good(FIRST.replace("abort", "continue") + "- transform: {value: '\"<i>\"'}\n")
    shell.good("%run_pipeline grading --quiet --out b --set 'names=[pears, nuts]'")
    comparison = shell.good(f"%runs {shell.names['a'].run_id} --compare {shell.names['b'].run_id}").value
    return shell, comparison


def test_two_runs_differ_in_values_and_definitions(two: tuple[Shell, Any]) -> None:
    _, comparison = two
    rows = {row["value"]: (row["differs"], row["first"], row["other"]) for row in comparison.values}
    assert rows["input.names[1]"] == ("yes", "plums", "nuts")
    assert rows["input.names[2]"] == ("only in the first", "figs", None)
    assert rows["steps[0].do#0 output.note"] == ("yes", "<b>1</b>", "<b>2</b>")
    assert rows["steps[0].do#1 input.name"] == ("yes", "plums", "nuts")
    assert rows["output"][0] == "yes"
    changed = [line for line in comparison.definitions.split("\n") if line[:1] in "+-" and line]
    assert changed[2:] == ["-    on_error: abort", "+    on_error: continue", "+- transform: {value: '\"<i>\"'}"]


def test_a_comparison_is_escaped_and_says_what_is_the_same(two: tuple[Shell, Any]) -> None:
    shell, comparison = two
    page = comparison._repr_html_()
    assert "<b>" not in page
    assert "<i>" not in page
    assert "&lt;b&gt;1" in page
    assert "&lt;i&gt;" in page
    shell.good("%run_pipeline grading --quiet --out c --set 'names=[pears, nuts]'")
    same = shell.good(f"%runs {shell.names['b'].run_id} --compare {shell.names['c'].run_id}").value
    assert (same.values, same.definitions) == ((), "")
    assert "The values are the same" in repr(same)
    assert "The definitions are the same" in repr(same)


def test_large_runs_are_compared_in_a_bounded_display(shell: Shell) -> None:
    shell.good("numbers = list(range(2000))")
    shell.good("@tool\ndef big(n: int, first: str) -> str:\n    return first + 'x' * (3_000_000 if n == 0 else 3)")
    shell.good(
        "%%pipeline many --quiet\npipeline: many\nsteps:\n- for_each:\n    over: ctx.numbers\n    on_error: abort\n"
        "    do: {tool: {name: big, args: {n: !expr item, first: !expr ctx.first}}}\n"
        "    collect: {transform: {value: count(pipe)}}\n    output: n\n"
    )
    shell.good("%run_pipeline many --quiet --out a --set first=a --set numbers=$numbers")
    shell.good("%run_pipeline many --quiet --out b --set first=bb --set numbers=$numbers")
    comparison = shell.good(f"%runs {shell.names['a'].run_id} --compare {shell.names['b'].run_id}").value
    (step,) = (row for row in comparison if row["calls"] == 2000)
    assert (step["same input"], step["same output"]) == (0, 0)
    large = next(row for row in comparison.values if row["value"] == "steps[0].do#0 output")
    assert (large["first"], large["other"]) == ("3,000,003 characters of JSON", "3,000,004 characters of JSON")
    assert len(comparison.values) == 42  # the input, the inputs and outputs of 20 calls, and the number of others
    assert comparison.values[-1]["value"] == "1,980 more calls"
    assert len(comparison._repr_html_()) < 30_000


def test_a_damaged_run_is_named_and_not_compared(two: tuple[Shell, Any]) -> None:
    import sqlite3

    shell, _ = two
    with sqlite3.connect(Path(".agf/runs.sqlite")) as connection:
        connection.create_function("agf_checksum", -1, lambda *_: 0)
        connection.execute("UPDATE runs SET work='{}' WHERE run=?", (shell.names["a"].run_id,))
    result = shell.run(f"%runs {shell.names['b'].run_id} --compare {shell.names['a'].run_id}")
    assert code(result) == "journal.damaged"
    assert len(names(page(shell, "%runs --notebook="))) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("raise TimeoutError('30 s')", "fails: TimeoutError: 30 s"),
        ("raise ValueError(\"tool 'b' failed: again\")", "fails: ValueError: tool 'b' failed: again"),
    ],
)
def test_the_error_of_a_run_begins_with_the_name_of_what_failed(shell: Shell, text: str, expected: str) -> None:
    shell.good(f"@tool\ndef fails():\n    {text}")
    assert not shell.run("%%pipeline bad --run --quiet\npipeline: bad\nsteps:\n- tool: {name: fails, args: {}}").ok
    shown = shell.good("%runs --name bad").outputs[-1]["text/html"]
    assert expected in html.unescape(shown).replace("<wbr>", "").replace("\xa0", " ")


@pytest.mark.parametrize("is_journaled", [True, False])
def test_a_run_whose_question_is_open_waits_for_an_answer(shell: Shell, tmp_path: Path, is_journaled: bool) -> None:
    current.settings = replace(current.settings, journal=str(tmp_path / "runs.sqlite") if is_journaled else None)
    asked, answered = threading.Event(), threading.Event()

    def ask(question: Question) -> bool:
        asked.set()
        return answered.wait(60)

    registry = agf.Registry()
    agf.tool(lambda: 1, name="one", registry=registry)
    run = agf.start("confirm: true\ncalls: [{_tool: one, _outputPath: †state.a}]\n", registry=registry, ask=ask)
    assert asked.wait(60)
    lists = [page(shell, "%runs"), page(shell, "%runs --status waiting"), repr(agf.runs())]
    (listed,) = [one for one in agf.runs() if one.run_id == run.run_id]
    states = (listed.status, run.status, _goes_on(listed))
    answered.set()
    run.result()
    assert ["? waiting for an answer" in text for text in lists] == [True] * 3
    assert states == ("waiting", "running", True)  # the status of a run is that of the specification
    assert not any(map(_goes_on, agf.runs()[:1]))
    assert "waiting for an answer" not in page(shell, "%runs")


@pytest.mark.parametrize(
    ("run_id", "name", "shown"),
    [
        ("sizes-1-0a1b2c", "sizes", []),
        ("sizes_over_rows-1-0a1b2c", "sizes over rows", []),
        ("größe-1-0a1b2c", "gro\u0308ße", []),
        ("sizes-1-0a1b2c", "weights", ["name"]),
        (f"{60 * 'a'}-1-0a1b2c", 61 * "a", []),  # the column would be cut, too
        (f"{59 * 'a'}-1-0a1b2c", 61 * "a", ["name"]),
    ],
)
def test_a_name_that_the_id_says_has_no_column(run_id: str, name: str, shown: list[str]) -> None:
    columns, _ = runs_table([RunLine(run_id, name, "ok", 0.0, 1.0, "")], ALL)
    assert [column for column in columns if column == "name"] == shown
