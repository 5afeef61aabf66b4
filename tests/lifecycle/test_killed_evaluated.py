"""A run whose process was killed shows the steps that evaluate expressions as far as later calls prove them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

import agf_magics as agf
from agf_magics.flow.steps import Invoke
from agf_magics.pictures.pages.run_page import run_text
from agf_magics.pictures.row_words import shown_name
from tests.engine.kept import journal_in
from tests.processes import script

KILLED = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
import agf_magics as agf
from agf_magics.settings.settings import current

current.settings = replace(current.settings, journal=str(Path("runs.sqlite").absolute()))

@agf.tool
def work(n: int) -> int:
    if n == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return n

agf.define(Path("inner.txt").read_text())
agf.run(Path("flow.txt").read_text())
"""
INNER = """\
pipeline: inner
steps:
- transform: {value: ctx.item * 2, output: twice}
- tool: {name: work, args: {n: !expr twice}}
"""
PIPELINE = """\
pipeline: killed
steps:
- transform: {value: "1", output: one}
- parallel: {branches: {left: {transform: {value: "one"}}}, collect: {transform: {value: pipe}}, output: both}
- for_each:
    items: [1, 2]
    on_error: abort
    do: {call: {pipeline: inner, pass: [item]}}
    collect: {transform: {value: pipe}}
    output: all
- tool: {name: work, args: {n: 5}}
- transform: {value: "13", output: last}
- tool: {name: work, args: {n: !expr last}}
- transform: {value: last}
"""
GRAPH = """\
name: killed
state: {n: int, m: int}
variables: {n: 0}
nodes:
  first: {type: passthrough, output: {n: "{state.n + 1}"}}
  called: {type: tool_call, tool: work, args: {n: "{state.n}"}, state_key: m}
  then: {type: passthrough, output: {n: "{state.n + 12}"}}
  dies: {type: tool_call, tool: work, args: {n: "{state.n}"}, state_key: m}
edges:
- {from: START, to: first}
- {from: first, to: called}
- {from: called, to: then}
- {from: then, to: dies}
- {from: dies, to: END}
"""


@pytest.mark.parametrize(
    ("text", "ran"),
    [
        (PIPELINE, {"one": 1, "both": 1, "all": 1, "twice": 2}),
        (GRAPH, {"first": 1}),
    ],
)
def test_what_a_later_call_proves_to_have_run_is_shown_as_run(text: str, ran: dict[str, int], tmp_path: Path) -> None:
    (tmp_path / "flow.txt").write_text(text)
    (tmp_path / "inner.txt").write_text(INNER)
    done = script(KILLED, tmp_path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with journal_in(tmp_path):
        run = agf.runs("killed")
        assert run.status == "interrupted"
        rows = {shown_name(row): row for row in run.progress.rows.values() if not isinstance(row.step, Invoke)}
        assert {name: rows[name].finished for name in ran} == ran
        assert {rows[name].look for name in ran} == {"ok"}
        # No record proves what came last.
        assert [rows[name].started for name in ("last", "then") if name in rows] == [0]
        assert "✓ ok" in run_text(run)
