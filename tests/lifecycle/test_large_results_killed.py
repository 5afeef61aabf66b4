"""A process is killed at each system call of storing a large value: the resumed run has the right result."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.processes import script

SESSION = """
import json, os, signal, sys
from dataclasses import replace

import numpy as np

import agf_magics as agf
from agf_magics.journal.database import value_files
from agf_magics.lifecycle.past import past_runs
from agf_magics.settings.settings import current

current.settings = replace(current.settings, journal=os.path.abspath("runs.sqlite"))
value_files.RATE = 1e18
last = int(sys.argv[1])


class Dying:
    "The module os, whose last call kills this process: before it is made, or after."

    left = abs(last)

    def __getattr__(self, name):
        there = getattr(os, name)
        if name not in ("open", "write", "replace", "close", "lstat") or not last:
            return there

        def call(*given, **options):
            Dying.left -= 1
            if not Dying.left and last > 0:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return there(*given, **options)
            finally:
                if not Dying.left:
                    os.kill(os.getpid(), signal.SIGKILL)

        return call


value_files.os = Dying()
value_files.PIECE = 1 << 22
made = []


@agf.tool
def load() -> object:
    made.append("load")
    return {"a": np.arange(1_500_000), "text": ["words"] * 100_000}


@agf.tool
def grow(data: object) -> object:
    made.append("grow")
    return {**data, "b": data["a"] * 2.0}


@agf.tool
def total(data: object) -> float:
    made.append("total")
    return float(data["b"].sum()) + len(data["text"])


agf.define('''
pipeline: main
steps:
- tool: {name: load, output: one}
- tool: {name: grow, args: {data: !expr one}, output: two}
- tool: {name: total, args: {data: !expr two}}
''')
unfinished = [each for each in agf.runs() if each.status == "interrupted"]
run = agf.resume(unfinished[0].run_id) if unfinished else agf.run("main")
if not last:
    past_runs.prune(days=0, size=0)
print(json.dumps([run.output, made, [warning.code for warning in run.warnings]]))
"""

ROOT = Path(__file__).parents[2]

OUTPUT = float(sum(range(1_500_000)) * 2.0) + 100_000


def session(folder: Path, last: int) -> Any:
    """Run a session. Returns its output, or None if it was killed."""
    ran = script(SESSION, folder, str(last))
    if ran.returncode == -signal.SIGKILL:
        return None
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("last", [1, -1, 2, -2, 4, -5, 7, -8, 10, 13, -14, 17])
def test_a_process_that_is_killed_while_it_stores_leaves_nothing_torn(last: int, tmp_path: Path) -> None:
    assert session(tmp_path, last) is None
    output, calls, warned = session(tmp_path, 0)
    assert (output, warned) == (OUTPUT, [])
    assert calls[-1] == "total"
    for path in (tmp_path / "values").iterdir():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name, "no other file is left after the pruning"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_two_processes_that_are_killed_at_random_instants_leave_nothing_torn_and_nothing_wrong(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.lifecycle.value_kills", "16", "1"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)
    assert ran.returncode == 0, ran.stderr
    counts = json.loads(ran.stdout.splitlines()[-1])
    assert counts["wrong"] == []
    assert sum(counts["kills"].values()) == 16
    assert "had failed" not in counts["kills"]
