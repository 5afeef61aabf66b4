"""Tools that end or stop their worker process, or block its connection: the run ends, and no call is made twice."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.settings.settings import Settings, current
from agf_magics.workers.backends.processes import Processes
from tests.slow import slow_but
from tests.workers.fans import FAN, run_fan

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and signals")


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    workers = Processes(2)
    yield workers
    workers.close()


def dies_beside_its_fork(x: int) -> int:
    if x == 1:
        if os.fork() == 0:
            time.sleep(20)  # the child keeps the pipe open
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def reads_its_input(x: int) -> int:
    return len(subprocess.run(["cat"], stdout=subprocess.PIPE, check=True).stdout) + x


def leaves_a_reader_behind(x: int) -> int:
    if x < 2:
        subprocess.Popen(["cat"], stdout=subprocess.DEVNULL)
    return x


def stops_its_process(x: int) -> int:
    if x == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    return x


def holds_the_lock(x: int) -> int:
    if x == 1:
        re.match("(a*)*b", "a" * 60)
    return x


class Exits:
    def __init__(self, how: Callable[[], None]) -> None:
        self.how = how

    def __reduce__(self) -> Any:
        return self.how, ()


def system_exit() -> None:
    raise SystemExit(3)


def keyboard_interrupt() -> None:
    raise KeyboardInterrupt


def memory_error() -> None:
    raise MemoryError


WAYS = pytest.mark.parametrize("where", ["worker", None], ids=["calls", "elements"])


@pytest.mark.slow
@WAYS
def test_a_death_is_noticed_although_a_process_that_the_tool_forked_lives(where: Any, processes: Processes) -> None:
    run = run_fan(dies_beside_its_fork, list(range(8)), processes, "continue", where=where)
    assert run.output == [0, 2, 3, 4, 5, 6, 7]
    assert [failure.error.code for failure in run.progress.failures] == ["step.worker-lost"]  # type: ignore[attr-defined]


@WAYS
@pytest.mark.parametrize("tool", [reads_its_input, leaves_a_reader_behind])
def test_a_program_that_a_tool_starts_does_not_read_the_chunks(tool: Any, where: Any, processes: Processes) -> None:
    assert run_fan(tool, list(range(20)), processes, where=where).output == list(range(20))


@pytest.mark.parametrize(
    ("tool", "where"), slow_but([(holds_the_lock, None)], [(stops_its_process, "worker"), (holds_the_lock, None)])
)
def test_the_kernel_sees_a_time_limit_that_its_worker_cannot_see(
    tool: Any, where: Any, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agf_magics.workers.backends.processes.SILENCE", 1.0)  # CPU seconds of the worker
    run = run_fan(tool, list(range(6)), processes, "continue", where=where, timeout=0.3)
    assert run.output == [0, 2, 3, 4, 5]
    (failure,) = run.progress.failures
    assert failure.error.code == "step.timeout"  # type: ignore[attr-defined]
    assert "took longer than 0.3 s (its worker gave no sign of life and was ended)" in failure.error.diagnostic.message  # type: ignore[attr-defined]


@WAYS
@pytest.mark.parametrize("how", [system_exit, keyboard_interrupt, memory_error])
def test_a_result_that_raises_while_it_is_read_is_a_failed_step(how: Any, where: Any, processes: Processes) -> None:
    def work(x: int) -> Any:
        return Exits(how) if x == 1 else x

    run = run_fan(work, list(range(6)), processes, "continue", where=where)
    assert run.output == [0, 2, 3, 4, 5]
    assert [failure.error.code for failure in run.progress.failures] == ["step.unsent-result"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("on_error", ["abort", "continue", "retry(3)"])
def test_an_effect_whose_worker_was_lost_is_not_repeated(
    on_error: str, processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after the death of a kernel (decision D7), the user says what the outcome of the call was."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(current, "settings", Settings(journal=str(tmp_path / "runs.sqlite")))
    paid = str(tmp_path / "paid")

    def work(x: int) -> int:
        with open(paid, "a", encoding="utf-8") as file:
            file.write(f"{x} ")
        os._exit(1)

    registry = agf.Registry()
    agf.tool(work, reuse=False, registry=registry)
    run = agf.run(FAN.format(on_error=on_error), {"xs": [2]}, registry=registry, on=processes, raises=False)
    assert run.status == "waiting"
    assert run.error.code == "step.unknown-outcome"
    assert "the outcome of 'work' is unknown: its worker was lost" in run.error.diagnostic.message
    again = agf.resume(run.run_id, registry=registry, on=processes, raises=False)
    assert (again.status, again.error and again.error.code) == ("waiting", "step.unknown-outcome")
    assert Path(paid).read_text() == "2 "
    assert agf.resume(run.run_id, registry=registry, on=processes, answer={"result": 22}).output == [22]
    assert Path(paid).read_text() == "2 "


def test_an_effect_without_a_journal_says_what_to_check(processes: Processes) -> None:
    run = run_fan(lambda x: os._exit(1), [1], processes, "retry(2)", reuse=False)
    assert run.error.code == "step.unknown-outcome"
    assert "check whether it had its effect" in str(run.error.diagnostic.hint)


def test_a_killed_kernel_leaves_no_stopped_worker(tmp_path: Path) -> None:
    """A stopped worker cannot look for its parent, so Linux ends it."""
    if sys.platform != "linux":
        pytest.skip("needs prctl")
    pids = tmp_path / "pid"
    script = tmp_path / "script.py"
    script.write_text(f"""
import os, signal
import agf_magics as agf
@agf.tool(where="worker")
def work() -> int:
    open({str(pids)!r}, "w").write(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGSTOP)
agf.run("pipeline: main\\nsteps:\\n- tool: {{name: work}}\\n", on="processes:1", raises=False)
""")
    kernel = subprocess.Popen([sys.executable, str(script)], cwd=tmp_path)
    until = time.monotonic() + 30
    while not (pids.exists() and pids.read_text()) and time.monotonic() < until:
        assert kernel.poll() is None
    kernel.kill()
    kernel.wait()
    worker = Path("/proc", pids.read_text())
    while worker.exists() and "State:\tZ" not in (worker / "status").read_text():
        assert time.monotonic() < until
