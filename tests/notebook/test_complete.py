"""Completion: the vectors, and the law that no typed text can break it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.completer import CompletionContext, provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

import agf_magics
from agf_magics.catalog import Registry, agent, tool
from agf_magics.commands.magics import COMMANDS
from agf_magics.commands.words import quoted, split, split_begun
from agf_magics.editor.complete import Surroundings, complete
from agf_magics.editor.cursor import Reading
from agf_magics.editor.word_help import describe
from agf_magics.flow.checks.rules import check
from agf_magics.languages import LANGUAGES
from agf_magics.notebook.completion.matcher_result import matcher_result
from agf_magics.notebook.completion.tab import matcher
from agf_magics.text.diagnostics import Diagnostics
from agf_magics.text.source import Source
from agf_magics.text.yaml.reader import Bounds

EXTENSION = next((Path(agf_magics.__file__).parent / "labextension" / "static").glob("remoteEntry.*.js"))
VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "completion.json").read_text(encoding="utf-8"))

INGEST = """\
schema: Review
fields: {passed: {type: bool}, notes: {type: string}}
---
pipeline: ingest
steps:
- transform: {value: "ctx.folder + ctx.limit"}
"""


@pytest.fixture(scope="module")
def surroundings() -> Surroundings:
    registry = Registry()

    @tool(registry=registry)
    def fetch(url: str, timeout: int = 3) -> str:
        return url

    @tool(registry=registry)
    def summarise(text: str) -> str:
        return text

    @agent(registry=registry)
    def reviewer(prompt: str) -> str:
        return prompt

    loaded = LANGUAGES["pipeline"].load(Source("", INGEST), Diagnostics(), Bounds())
    assert loaded.flow is not None
    registry.flows.define(check(loaded.flow)[0], None)
    for schema in loaded.schemas.values():
        registry.schemas.define(schema, None)
    registry.contexts.named("month")
    names = {"params": {}, "text": "", "total": 1, "_": 0}
    return Surroundings(registry, names, {"ctx": {"doc": {"title": "", "size": 1}, "n": 1}, "pipe": 1})


@pytest.fixture
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "one.yaml").touch()
    (tmp_path / "flows" / "picture.png").touch()
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize("row", VECTORS["rows"], ids=lambda row: row["title"])
def test_completion(row: dict[str, Any], surroundings: Surroundings) -> None:
    before, _, after = row["cell"].partition("│")
    line = before.count("\n")
    offers = complete(before + after, line, len(before.rpartition("\n")[2]), surroundings)
    if row.get("offers", ()) is None:
        assert offers is None
        return
    offered = [choice.text for choice in offers.choices]
    assert offers.fragment == row.get("fragment", offers.fragment)
    assert before.endswith(offers.fragment)
    if "only" in row:
        assert offered == row["only"]
    assert set(row.get("offers", ())) <= set(offered)
    assert not set(row.get("never", ())) & set(offered)


def test_the_shell_offers_our_completions_and_no_names_of_python(surroundings: Surroundings) -> None:
    shell = InteractiveShell.instance()
    our_matcher = matcher(lambda: surroundings)
    shell.Completer.custom_matchers.append(our_matcher)

    def offered(cell: str) -> list[tuple[str, str, str]]:
        with provisionalcompleter():
            completions = list(shell.Completer.completions(cell, len(cell)))
        return [(c.text, c.type, cell[c.start : c.end]) for c in completions]

    try:
        assert offered("%%pipeline\nsteps:\n- to") == [("tool: ", "key", "to")]
        assert offered("%run_pipeline --ou") == [("--out", "option", "--ou")]
        assert offered("%%pipeline\npipeline: pri") == []
        assert "print" in [text for text, _, _ in offered("pri")]
    finally:
        shell.Completer.custom_matchers.remove(our_matcher)


def test_resume_offers_the_runs_that_can_go_on(surroundings: Surroundings) -> None:
    statuses = ("ok", "error", "running", "cancelled", "waiting", "interrupted", "damaged")
    runs = [(f"one-{number}", "one", status) for number, status in enumerate(statuses)]

    def offered(line: str) -> list[str]:
        offers = complete(line, 0, len(line), surroundings._replace(runs=lambda: runs))
        return [choice.text for choice in offers.choices if choice.text.startswith("one-")]

    assert offered("%resume one-") == ["one-1", "one-3", "one-4", "one-5"]
    assert len(offered("%rerun one-")) == len(runs)


@pytest.mark.parametrize(
    ("cell", "first"),
    [
        ("%%pipeline\n", ("pipeline: ", "key · Its name, under which it is registered and called")),
        ("%%pipeline\nsteps:\n", ("- transform: ", "key · Evaluates an expression")),
        ("%%policy\nid: agf.loop\nconfig:\n  steps:\n  ", ("- agent: ", "key · The alias of the agent")),
        ("%%plan\ncalls:\n  ", ("- _tool: ", "key · The tool or the flow that is called")),
        ("%%graph\nedges:\n", ("- from: ", "key · The node that it leaves")),
    ],
)
def test_a_blank_line_offers_everything_that_may_stand_there_and_says_what_it_is_for(
    cell: str, first: tuple[str, str], surroundings: Surroundings
) -> None:
    context = CompletionContext("", cell, len(cell.rpartition("\n")[2]), cell.count("\n"), None)
    offered = next(iter(matcher_result(context, surroundings)["completions"]))
    assert (offered.text, offered.type) == first


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("%answer ", ["ingest-1-4f2a", "other-2-4f2a"]),
        ("%answer ingest-1-4f2a ", []),
        ("%answer --step steps[0] ", ["ingest-1-4f2a", "other-2-4f2a"]),
        ("%answer ingest-1-4f2a yes --step ", ["steps[0]"]),
        ("%answer ingest-1-4f2a yes ", []),
        ("%step ", ["other-2-4f2a", "ingest-1-4f2a"]),
        ("%step ingest-1-4f2a ", ["steps[0]"]),
        ("%step --out a ingest-1-4f2a st", ["steps[0]"]),
        ("%tools fetch ", []),
        ("%flows ingest --export a ", []),
    ],
)
def test_each_word_of_a_line_is_completed_by_its_kind(
    line: str, offered: list[str], surroundings: Surroundings
) -> None:
    runs = [("other-2-4f2a", "other", "ok"), ("ingest-1-4f2a", "ingest", "running")]
    offers = complete(line, 0, len(line), surroundings._replace(runs=lambda: runs))
    assert offers is not None
    assert [choice.text for choice in offers.choices] == offered


def good(output: str, row: dict[str, Any]) -> bool:
    return output == row["word"]


@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize(
    ("line", "fragment", "offered"),
    [
        ("%run_pipeline tw│", "tw", ["'two words'"]),
        ("%run_pipeline 'two w│", "two w", ["two words'"]),
        ("%run_pipeline 'two w│'", "two w", ["two words"]),
        ('%run_pipeline "two w│', "two w", ['two words"']),
        ("%run_pipeline 'two words'│", "two words'", []),
        ("%run_pipeline it│", "it", ['"it\'s"']),
        ("%run_pipeline 'it│", "it", []),
        ("%run_pipeline # tw│", "", []),
        ("%run_pipeline 'two words' --set f│", "f", ["folder="]),
        ("%run_pipeline 'two words' --set 'f│", "f", ["folder="]),
        ("%run_pipeline 'two words' --set 'folder=$te│", "te", ["text'"]),
        ("%flows tw│", "tw", ["'two words'"]),
        ("%context la│", "la", ["'last month'"]),
        (
            "%run_pipeline ingest --over │",
            "",
            ["frame", "lazy", "rows", "file", "'an input.json'", "flows/", "rows.csv"],
        ),
        ("%run_pipeline ingest --over $ro│", "ro", ["rows"]),
        ("%run_pipeline ingest --over=ro│", "ro", ["rows", "rows.csv"]),
        ("%run_pipeline ingest --input │", "", ["params", "'an input.json'", "flows/"]),
        ("%run_pipeline ingest --input 'an│", "an", ["an input.json'"]),
        ("%run_pipeline ingest --input flows/│", "", ["one.yaml"]),
        ("%run_pipeline ingest --score │", "", ["good", "ingest", '"it\'s"', "'two words'"]),
        ("%run_pipeline ingest --over frame --against │", "", ["id", "'the label'"]),
        ("%run_pipeline ingest --over=$rows --against │", "", ["word"]),
        ("%run_pipeline ingest --over lazy --against │", "", []),
        ("%run_pipeline ingest --over rows.csv --against │", "", []),
        ("%run_pipeline ingest --over frame --map folder=th│", "th", ["'the label'"]),
        ("%run_pipeline ingest --out │", "", ["params", "frame", "lazy", "rows", "words", "file", "text"]),
        ("%%pipeline │", "", []),
        ("%%plan p --latent │", "", []),
    ],
)
def test_a_word_of_a_line_is_completed_as_a_line_has_it(
    line: str, fragment: str, offered: list[str], surroundings: Surroundings
) -> None:
    registry = surroundings.registry.copy()
    for name in ("two words", "it's"):
        loaded = LANGUAGES["pipeline"].load(Source("", INGEST), Diagnostics(), Bounds())
        assert loaded.flow is not None
        registry.flows.define(replace(check(loaded.flow)[0], name=name), None)
    registry.contexts.named("last month")
    for name in ("rows.csv", "an input.json", ".hidden.json", "notes.txt"):
        Path(name).touch()
    frame = pd.DataFrame({"id": [1], "the label": ["a"]})
    names = {
        "params": {}, "frame": frame, "lazy": pl.LazyFrame({"a": [1]}), "rows": [{"word": "pear"}], "words": ["pear"],
        "file": Path("rows.csv"), "text": "x", "good": good, "agent": agent, "pd": pd, "In": [],
    }  # fmt: skip
    before, _, after = line.partition("│")
    offers = complete(before + after, 0, len(before), surroundings._replace(registry=registry, names=names))
    assert offers is not None
    assert (offers.fragment, [choice.text for choice in offers.choices]) == (fragment, offered)


@given(st.text())
def test_any_name_is_one_word_of_a_line(name: str) -> None:
    assert [word.text for word in split(Source("", quoted(name)))] == [name]


@given(st.text(alphabet="""ab '"\\;#=$-—""", max_size=15))
def test_any_begun_line_has_a_last_word(line: str) -> None:
    begun = split_begun(line)
    assert begun is None or len(begun.word.at) == len(begun.word.text) + 1


def test_the_page_knows_which_lines_are_ours() -> None:
    ours = re.search(r"const OUR_LINE = /(.*)/;", EXTENSION.read_text(encoding="utf-8"))
    assert ours is not None
    for name in (name for command in COMMANDS.values() if (name := command.name).count("%") == 1):
        assert re.match(ours[1], f"{name} a")
        assert re.match(ours[1], f"x, y = {name} a")
    assert not re.match(ours[1], "%timeit a")


BITS = ["steps:", "\n", "- ", "  ", "tool: ", "{", "}", "[", "]", "'", '"', ": ", ",", "a", "!expr ", ">", "#", "\\"]
SCRAPS = st.lists(st.sampled_from([*BITS, "---\n", "|"]), max_size=25)


@given(SCRAPS.map("".join))
def test_any_text_has_a_place_to_complete(text: str) -> None:
    assert Reading(text).cursor.part in ("key", "value", "comment")


@given(SCRAPS.map("".join), SCRAPS.map("".join))
def test_where_the_cursor_is_does_not_change_what_is_there(before: str, after: str) -> None:
    assert Reading(before).everywhere(after) == Reading("").everywhere(before + after)


@given(SCRAPS.map("".join), SCRAPS.map("".join))
def test_any_body_can_be_completed(before: str, after: str) -> None:
    cell = "%%pipeline\n" + before
    offers = complete(cell + after, cell.count("\n"), len(cell.rpartition("\n")[2]), Surroundings(Registry(), {}, {}))
    assert cell.endswith(offers.fragment)


def test_completion_does_not_wait_for_jsonschema() -> None:
    module = "agf_magics.editor.complete"
    code = f"import sys, {module}; sys.exit('jsonschema' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_data_of_the_user_come_before_functions_modules_and_the_shell(surroundings: Surroundings) -> None:
    names = {"In": [], "exit": 1, "sys": sys, "measure": len, "words": ["pear"], "_hidden": 1, "figs": 3}
    offers = complete("%run_pipeline p --set x=$", 0, 25, surroundings._replace(names=names))
    assert [choice.text for choice in offers.choices] == ["words", "figs", "sys", "measure", "In", "exit"]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("%run_pip|eline longest", "Run a registered flow"),
        ("x = %run_pipeline lon|gest", "Run a registered flow"),
        ("%%pipe|line --run\npipeline: p", "Define a pipeline"),
        ("%%pipeline --ru|n\npipeline: p", "--run: "),
        ("%run_pipeline p --ov|er $rows", "--over "),
        ("%%pipeline\npipeline: p\nsteps:\n- for_e|ach:", "Keys: over, items, max_parallel"),
        ("%%pipeline\npipeline: p\nsteps:\n- for_each:\n    ov|er: ctx.words", "over: Gives the list"),
        ("%%pipeline\npipeline: p\nsteps:\n- transform: {value: 'count|(ctx.words)'}", "count("),
        ("%%graph\nnodes:\n  a: {ty|pe: passthrough}", "type: "),
        ("%%graph\nnodes:\n  a: {type: ma|p}", "map: Runs a node once for each item"),
        ("%%policy\nid: agf.l|oop\nconfig: {}", "agf.loop: agents one after the other"),
        ("%%policy\nmeta|data: {}", "metadata: The identity of the agent."),
        ("%%graph\nnam|e: g\nconfig: {}", "name: "),
        ("%%graph\nname: g\ncon|fig: {}", "Keys: recursion_limit, "),
        ("%%pipeline\nsteps:\n- tool: {name: fetch, args: {ur|l: x}}", "url: an argument of fetch(url: str"),
        ("%%plan\n- {_tool: fetch, ur|l: x}", "url: an argument of fetch(url: str"),
        ("%%plan\n- _tool: fet|ch", "tool fetch takes url (text), timeout (whole number, optional)"),
        ("%%pipeline\nsteps:\n- tool: {name: fe|tch}", "tool fetch takes url (text)"),
        ("%%pipeline\nsteps:\n- call: {pipeline: ing|est}", "pipeline ingest reads folder, limit"),
        (
            "%%pipeline\npipeline: p\nsteps:\n- tool: {name: fet|sh}",
            "error: no tool 'fetsh' is registered [flow.unknown-",
        ),
        ("%explain r1.missing-p|ath", "### r1.missing-path"),
    ],
)
def test_shift_tab_explains_the_word_at_the_cursor(code: str, text: str, surroundings: Surroundings) -> None:
    place = code.index("|")
    help_text = describe(code.replace("|", ""), place, surroundings.registry)
    assert help_text is not None
    assert text in help_text
    assert text.count("agf.loop") == help_text.count("agf.loop"), "a name is told once"


@pytest.mark.parametrize("code", ["filter|", "%time| x", "%%bash\nfor| x", "print|('%%pipeline')"])
def test_shift_tab_leaves_all_other_cells_to_ipython(code: str) -> None:
    assert describe(code.replace("|", ""), code.index("|"), Registry()) is None


def test_shift_tab_shows_nothing_for_a_value_in_our_cells() -> None:
    assert describe("%%pipeline\npipeline: mine\nsteps: [transform: {value: 1}]", 22, Registry()) == ""


@given(st.text(), st.integers(0, 40))
def test_shift_tab_never_fails(text: str, place: int) -> None:
    describe("%%pipeline\n" + text, place, Registry())
    describe(text, place, Registry())
