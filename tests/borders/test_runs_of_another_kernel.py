"""A run that works in another process of the project: the magics report its true state, with hints that can be pasted
there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notebook.conftest import Shell, code

HELD = """\
import sys
import agf_magics as agf

@agf.tool
def hold() -> str:
    print("holding", flush=True)
    return sys.stdin.readline().strip()

agf.define("pipeline: held\\nsteps:\\n- tool: {name: hold}\\n")
print(agf.start("held").result().output, flush=True)
"""


@pytest.fixture
def other(shell: Shell) -> Iterator[subprocess.Popen[str]]:
    """Start another process in the folder of the shell, with a run that waits for a line."""
    command = [sys.executable, "-c", HELD]
    process = subprocess.Popen(
        command, cwd=Path.cwd(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "holding\n"
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("named", ["held", "held-1"])
@pytest.mark.parametrize("magic", ["%runs --cancel {}", "%runs {} --wait"])
def test_a_run_of_another_process_is_reported_as_running_there(
    shell: Shell, other: subprocess.Popen[str], magic: str, named: str
) -> None:
    result = shell.run(magic.format(named))
    assert code(result) == "journal.running"
    assert "is running in another kernel" in str(result.error)
    assert "cancel it in the kernel where it runs: %runs --cancel held-1-" in str(result.error)
    assert other.communicate("go on\n", timeout=120)[0] == "go on\n"
    ended = shell.run(magic.format(named))
    assert code(ended) == "magic.unknown-run"
    assert "has ended: ok" in str(ended.error)


def test_a_run_of_another_process_is_not_deleted(shell: Shell, other: subprocess.Popen[str]) -> None:
    result = shell.run("%runs --delete held")
    assert code(result) == "journal.running"
    assert "in the kernel where it runs: %runs --cancel held-1-" in str(result.error)


def test_a_run_of_no_process_is_unknown(shell: Shell, other: subprocess.Popen[str]) -> None:
    assert code(shell.run("%runs --cancel hold")) == "magic.unknown-run"
    assert "there is no run 'hold'" in str(shell.run("%runs --cancel hold").error)
