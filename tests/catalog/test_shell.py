"""Tests of the shell tool: it is off at first, uses no shell, and leaves no process running."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agf_magics.catalog import Registry, Tool, install
from agf_magics.text.diagnostics import StepError

posix = pytest.mark.skipif(os.name != "posix", reason="signals and process groups of POSIX")

PYTHON = [sys.executable, "-c"]

FAMILY = """
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", '''
import fcntl, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
held = open("held", "w")
fcntl.flock(held, fcntl.LOCK_EX)
open("ready", "w").close()
time.sleep(600)
'''])
while not os.path.exists("ready"):
    time.sleep(0.01)
for word in sys.argv[1:]:
    os.kill(os.getppid(), getattr(signal, word))
time.sleep(600)
"""
"""A command whose own child holds a lock, cannot be asked to end, and which then sends its parent signals. Both last
longer than a test may: one that waits for the lock then fails."""

KERNEL = """
import sys, threading, time
from pathlib import Path
from agf_magics.catalog import Registry, install
registry = Registry()
install(registry, folder=Path.cwd, allow_shell=lambda: True)
shell = registry.tools["shell"]
given = shell.check({"command": sys.argv[1:]})
threading.Thread(target=lambda: shell.function(**given), daemon=True).start()
while not Path("ready").exists():
    time.sleep(0.01)
"""
"""A program that ends while a thread of it waits for a command."""


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., Any]:
    return _calling(tmp_path)


def _calling(folder: Path, **options: Any) -> Callable[..., Any]:
    registry = Registry()
    install(registry, folder=lambda: folder, **{"allow_shell": lambda: True, **options})
    registered: Tool = registry.tools["shell"]
    return lambda command, **keywords: registered.function(**registered.check({"command": command, **keywords}))


def _nothing_is_left(folder: Path) -> None:
    import fcntl

    with open(folder / "held", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # comes back when whoever held it has ended


def test_the_shell_is_off_and_says_how_to_turn_it_on(tmp_path: Path) -> None:
    with pytest.raises(StepError) as caught:
        _calling(tmp_path, allow_shell=lambda: False)(["touch", "made"])
    problem = caught.value.diagnostic
    assert (problem.code, problem.hint) == ("tool.shell-off", "%config AgfMagics.allow_shell = True")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("code", "options"), [("pass", {}), ("exit(3)", {}), ("import time; time.sleep(60)", {"timeout": 0.1})]
)
def test_nothing_of_a_command_stays_in_memory(shell: Callable[..., Any], code: str, options: dict[str, Any]) -> None:
    """What ends a command at the exit of the kernel is forgotten with the command."""
    command = [*PYTHON, code, "forgotten"]
    with contextlib.suppress(StepError):
        shell(command, **options)
    gc.collect()
    processes_alive = [element.args for element in gc.get_objects() if isinstance(element, subprocess.Popen)]
    assert command not in processes_alive


def test_a_command_gives_what_it_printed(shell: Callable[..., Any]) -> None:
    code = "import sys; print('a'); print('größe\\n\\n'); print('note', file=sys.stderr)"
    assert shell([*PYTHON, code]) == {"stdout": "a\ngröße", "stderr": "note", "exit_code": 0}


def test_it_runs_in_the_notebooks_folder_with_nothing_to_read(shell: Callable[..., Any], tmp_path: Path) -> None:
    printed = shell([*PYTHON, "import os, sys; print(os.getcwd()); print(repr(sys.stdin.read()))"])
    assert printed["stdout"].splitlines() == [os.path.realpath(tmp_path), "''"]


def test_no_shell_reads_the_command(shell: Callable[..., Any], tmp_path: Path) -> None:
    printed = shell([*PYTHON, "import sys; print(sys.argv[1:])", "$HOME", "*", ";", "touch made", "> made", "`id`"])
    assert printed["stdout"] == "['$HOME', '*', ';', 'touch made', '> made', '`id`']"
    assert not list(tmp_path.iterdir())


def test_a_command_that_fails_fails_the_step_with_its_last_words(shell: Callable[..., Any]) -> None:
    with pytest.raises(StepError) as caught:
        shell([*PYTHON, "import sys; print('x' * 10_000, 'no such branch', file=sys.stderr); sys.exit(3)"])
    problem = caught.value.diagnostic
    assert (problem.code, problem.message) == ("tool.shell-exit", f"{sys.executable!r} exited with 3")
    assert str(problem.hint).startswith("it wrote: xxx")
    assert str(problem.hint).endswith("xxx no such branch")
    assert len(str(problem.hint)) < 2100


def test_other_exit_codes_may_count_as_success(shell: Callable[..., Any]) -> None:
    assert shell([*PYTHON, "raise SystemExit(1)"], success_codes=[0, 1])["exit_code"] == 1
    with pytest.raises(StepError, match="exited with 0"):
        shell([*PYTHON, ""], success_codes=[1])


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ([], "the command is empty"),
        (["  "], "the command is empty"),
        (["no-such-program-here"], "'no-such-program-here' cannot be run: there is no such program"),
        (["."], "'.' cannot be run: "),
        (["a\0b"], "cannot be run: embedded null byte"),
    ],
)
def test_a_command_that_cannot_be_run_is_told(shell: Callable[..., Any], command: list[str], says: str) -> None:
    with pytest.raises(StepError) as caught:
        shell(command)
    assert caught.value.code == "tool.shell-command"
    assert says in caught.value.diagnostic.message


@pytest.mark.parametrize("command", ["ls -l", [1], None])
def test_a_command_is_a_list_of_texts(shell: Callable[..., Any], command: Any) -> None:
    with pytest.raises(StepError) as caught:
        shell(command)
    assert caught.value.code == "tool.arguments"


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_timeout_is_above_zero(shell: Callable[..., Any], timeout: float) -> None:
    with pytest.raises(StepError, match="seconds above 0"):
        shell([*PYTHON, ""], timeout=timeout)


def test_output_without_end_is_an_error_and_not_cut(shell: Callable[..., Any]) -> None:
    with pytest.raises(StepError, match="printed more than 10,000,000 bytes") as caught:
        shell([*PYTHON, "while True: print('x' * 100_000)"])
    assert caught.value.code == "tool.shell-output"
    with pytest.raises(StepError, match="printed more than"):
        shell([*PYTHON, "print('x' * 10_000_000)"])


@posix
def test_a_timeout_ends_it_and_what_it_started(shell: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(StepError, match=r"did not end within 0\.5 s") as caught:
        shell([*PYTHON, FAMILY], timeout=0.5)
    assert caught.value.code == "tool.shell-timeout"
    _nothing_is_left(tmp_path)


@posix
def test_an_interrupt_ends_it_and_what_it_started(shell: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        shell([*PYTHON, FAMILY, "SIGINT"])
    _nothing_is_left(tmp_path)


@posix
def test_a_call_on_a_thread_that_no_interrupt_reaches_asks_whether_it_is_stopped(tmp_path: Path) -> None:
    stopped = _calling(tmp_path, stopped=(tmp_path / "ready").exists)
    with pytest.raises(StepError, match="was stopped") as caught:
        stopped([*PYTHON, FAMILY])
    assert caught.value.code == "tool.shell-stopped"
    _nothing_is_left(tmp_path)


@posix
def test_the_exit_of_the_kernel_ends_it_and_what_it_started(tmp_path: Path) -> None:
    subprocess.run([*PYTHON, KERNEL, *PYTHON, FAMILY], cwd=tmp_path, check=True, timeout=60)
    _nothing_is_left(tmp_path)


@posix
def test_a_command_that_is_killed_says_by_what(shell: Callable[..., Any]) -> None:
    with pytest.raises(StepError, match=f"was ended by signal {int(signal.SIGKILL)}"):
        shell([*PYTHON, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])


@posix
def test_a_second_interrupt_while_it_ends_leaves_nothing_either(shell: Callable[..., Any], tmp_path: Path) -> None:
    # The first makes the call end the command, which answers with a second interrupt and goes on.
    stubborn = FAMILY.replace("for word", "signal.signal(signal.SIGTERM, lambda *_: interrupt())\nfor word")
    answer = "def interrupt(): os.kill(os.getppid(), signal.SIGINT)\n"
    with pytest.raises(KeyboardInterrupt):
        shell([*PYTHON, answer + stubborn, "SIGINT"])
    _nothing_is_left(tmp_path)
