"""Runs in Python without threads, as in a web page, give the same results as runs with threads (page.py).

`make test-lite` runs the lessons in Pyodide itself. This file needs neither node nor a browser, so that the code
without threads is tested everywhere.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.slow import slow_but

HERE = Path(__file__).parent
WAYS = ["jspi", "plain"]
"""Two kinds of browsers: one that can suspend a cell, and one that cannot."""


@cache
def answers(way: str) -> dict[str, Any]:
    environment = {**os.environ, "AGF_MAGICS_ALLOW_SHELL": "true", "PYTHONPATH": str(HERE.parents[1])}
    with TemporaryDirectory() as folder, TemporaryDirectory() as memory:
        (Path(folder) / "pyproject.toml").touch()
        completed = subprocess.run(
            [sys.executable, HERE / "page.py", HERE / "page_program.py", way],
            cwd=folder, env={**environment, "TMPDIR": memory}, capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
    assert (completed.returncode, completed.stderr) == (0, "")
    return {name: answer for line in completed.stdout.splitlines() for name, answer in json.loads(line).items()}


EQUAL = {
    "a plain tool": 4,
    "an async tool": 4,
    "a fan-out of plain calls": 3,
    "a fan-out of async calls": 3,
    "a run in a tool": 4,
    "a graph with a loop": {"n": 0},
    "a policy": {"draft": "about tea"},
    "a template": {"word": "abc", "text": "a.b.c."},
    "a journal": [7, "resumed: 2 completed calls not repeated", "3 calls reused", 2, 15],
    "stale steps": "no step would run again",
}


@pytest.mark.parametrize("way", slow_but(["plain"], WAYS))
@pytest.mark.parametrize("name", EQUAL)
def test_a_run_gives_the_same_as_with_threads(name: str, way: str) -> None:
    assert answers(way)[name] == EQUAL[name]


TOLD = {
    "a failure": "tool 'fails' failed: ValueError: bad pear [step.tool-failed]",
    "an async tool that is late": "tool 'naps' took longer than 0.05 s [step.timeout]",
    "a plain tool that is late": "tool 'blocks' took longer than 0.05 s [step.timeout]",
    "a run that is late": "took longer than its timeout of 0.05 s [limit.timeout]",
    "a pattern": "patterns do not work in a browser, for which there is no google-re2 [schema.pattern]",
    "a shell command": "'ls' cannot be run: a browser has no programs [tool.shell-command]",
    "processes": "--on processes needs other processes, and a browser has none [on.not-installed]",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", TOLD)
def test_what_a_page_cannot_do_is_reported(name: str, way: str) -> None:
    assert TOLD[name] in answers(way)[name]


def test_a_background_run_is_waited_for_where_the_browser_can_suspend_the_cell() -> None:
    assert answers("jspi")["a run in the background"] == "cancelled"
    assert "use `await run`" in answers("plain")["a run in the background"]
