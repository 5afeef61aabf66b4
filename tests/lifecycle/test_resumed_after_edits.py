"""A resumed run names the tools and agents that were edited since it began, if it keeps results of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.journal.database.store import Store
from agf_magics.pictures.pages.parts import steps_text
from agf_magics.pictures.row_words import old_results
from agf_magics.settings.settings import current

FLOW = """
pipeline: graded
steps:
- for_each:
    items: [a, b]
    on_error: abort
    do: {tool: {name: grade, args: {word: !expr item}}}
    collect: {transform: {value: pipe}}
    output: words
- agent: {prompt: "say {words}", identity: carol, output: said}
- tool: {name: last, args: {text: !expr said}}
"""

CELL = """
FACTOR = 1
SEEN = []
def helper(word): return word * FACTOR
@agf.tool(registry=registry)
def grade(word: str) -> str:
    SEEN.append(word)
    return helper(word)
@agf.agent(registry=registry)
def carol(prompt: str) -> str: return "yes"
@agf.tool(registry=registry)
def last(text: str) -> str:
    if not good.exists():
        raise ValueError("not yet")
    return text
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(current, "settings", replace(current.settings, journal=str(tmp_path / "runs.sqlite")))
    yield tmp_path
    Store.close_all()


def registry_of(cell: str, folder: Path) -> agf.Registry:
    registry = agf.Registry()
    names: dict[str, Any] = {"__name__": "__main__", "agf": agf, "registry": registry, "good": folder / "good"}
    exec(compile(cell, "<cell>", "exec"), names)
    agf.define(FLOW, registry=registry)
    return registry


EDITS = {
    # an edit of the cell, and the warnings
    "nothing": ("", "", []),
    "a comment": ("FACTOR = 1\n", "FACTOR = 1  # one\n", []),
    "the tool": ("helper(word)\n@", "helper(word) + '!'\n@", ["tool 'grade' was edited"]),
    "a helper": ("word * FACTOR", "word + 'x'", ["tool 'grade' was edited"]),
    "a constant": ("FACTOR = 1", "FACTOR = 2", ["tool 'grade' was edited"]),
    "an object that calls change": ("SEEN = []", "SEEN = [1]", []),
    "an agent": ('return "yes"', 'return "no"', ["agent 'carol' was edited"]),
    "a tool without results": ("return text\n", "return text + '!'\n", []),
}


@pytest.mark.parametrize("case", EDITS)
def test_the_warning_names_what_was_edited(case: str, folder: Path) -> None:
    old, new, warnings = EDITS[case]
    run = agf.run("graded", registry=registry_of(CELL, folder), raises=False)
    assert run.status == "error"
    (folder / "good").touch()
    assert old in CELL
    resumed = agf.resume(run.run_id, registry=registry_of(CELL.replace(old, new, 1) if old else CELL, folder))
    of_edits = [warning for warning in resumed.warnings if warning.code == "run.edited-since"]
    assert [warning.message.partition(" since")[0] for warning in of_edits] == warnings
    assert (resumed.status, resumed.output) == ("ok", "yes!" if "without" in case else "yes")
    tools = {"tool 'grade' was edited": "2 results of the old grade were kept",
             "agent 'carol' was edited": "1 result of the old carol was kept"}  # fmt: skip
    words = tools[warnings[0]] if warnings else ""
    for shown in (resumed, agf.runs(resumed.run_id)):
        assert old_results(shown.progress) == words
        assert sum("old code" in line for line in steps_text(shown.progress, now=0.0)) == len(warnings)


def test_results_that_several_sessions_made_are_not_all_of_the_old_function(folder: Path) -> None:
    fails = CELL.replace(
        "    return helper(word)", "    if word == 'b' and FACTOR == 1:\n        raise ValueError\n    return 'x'"
    )
    run = agf.run("graded", registry=registry_of(fails, folder), raises=False)
    edited = registry_of(fails.replace("FACTOR = 1", "FACTOR = 2", 1), folder)
    again = agf.resume(run.run_id, registry=edited, raises=False)
    assert (again.error.code, old_results(again.progress)) == ("step.tool-failed", "1 result of the old grade was kept")
    (folder / "good").touch()
    last = agf.resume(run.run_id, registry=edited)
    for shown in (last, agf.runs(run.run_id)):
        assert old_results(shown.progress) == "up to 2 results of the old grade were kept"
