"""Processes of this machine as workers: how they start and end, and what they do with calls, files and prints.

In some tests a worker holds the writing end of a named pipe. A reader of the pipe then sees its end when the process is
gone.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.workers.backends.processes import Processes
from tests.workers.fans import FAN, ask_from_a_worker, run_fan, run_reporting

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")


def double(x: int) -> int:
    return x * 2


def poison(x: int) -> int:
    if x == 77:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def hold(x: str) -> str:
    """Open the pipe and never return."""
    import signal

    with open(x, "w", encoding="utf-8") as file:
        file.write("begun\n")
        file.flush()
        while True:
            signal.pause()


def hold_lock(x: str) -> str:
    """Open the pipe and never return, without giving another thread of this process a turn."""
    import re

    with open(x, "w", encoding="utf-8") as file:
        file.write("begun\n")
        file.flush()
        re.match("(a+)+$", "a" * 60 + "b")
    return x


def hold_on(x: str) -> str:
    """Open the pipe, and keep it open until the process ends."""
    import sys

    file = open(x, "w", encoding="utf-8")  # noqa: SIM115
    sys.modules["_held_pipe"] = file  # type: ignore[assignment]
    return "held"


def read_input(x: int) -> list[Any]:
    """The text that the call reads from the standard input, and the text that a program of the call reads."""
    import subprocess
    import sys

    code = "import sys; print(repr(sys.stdin.read()))"
    return [sys.stdin.read(), subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout]


def test_a_call_and_its_programs_find_an_empty_input(processes: Processes) -> None:
    assert run_fan(read_input, [1, 2], processes).output == [["", "''\n"]] * 2


def test_a_call_that_ends_its_worker_is_dropped_alone(processes: Processes) -> None:
    run = run_fan(poison, list(range(200)), processes, "continue")
    assert run.output == [x for x in range(200) if x != 77]
    (failure,) = run.progress.failures
    assert failure.element == 77
    assert failure.error.diagnostic.code == "step.worker-lost"  # type: ignore[attr-defined]
    assert "ended before the call did, 4 times: the process was ended by SIGKILL" in failure.error.diagnostic.message  # type: ignore[attr-defined]


def test_no_result_is_lost_with_the_workers(processes: Processes, tmp_path: Path) -> None:
    folder = str(tmp_path)

    def dies_once(x: int) -> int:
        if x % 20 == 3:
            try:
                os.close(os.open(f"{folder}/{x}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return x * 2

    run = run_fan(dies_once, list(range(100)), processes)
    assert run.output == [x * 2 for x in range(100)]
    assert len(os.listdir(folder)) == 5
    assert run.calls == 100


def test_an_interrupt_ends_a_call(processes: Processes, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    registry = agf.Registry()
    agf.tool(hold, name="work", registry=registry)
    run = agf.start(FAN.format(on_error="abort"), {"xs": [str(pipe)]}, registry=registry, on=processes)
    with pipe.open() as file:
        assert file.readline() == "begun\n"
        run.cancel()
        assert file.read() == "", "the worker has ended"
    assert run.wait().status == "cancelled"
    assert run.error is None or "left running" not in str(run.error.diagnostic.hint)
    assert run_fan(double, [1, 2], processes).output == [2, 4], "another process has replaced it"


KERNEL = """
import sys
from agf_magics.workers.backends.processes import Processes
from tests.workers.fans import run_fan
from tests.workers import test_processes

if __name__ == "__main__":
    run_fan(getattr(test_processes, sys.argv[2]), [sys.argv[1]], Processes(2))
"""


@pytest.mark.parametrize("work", ["hold", "hold_lock"])
def test_no_process_outlives_a_kernel_that_is_killed(work: str, tmp_path: Path) -> None:
    if work == "hold_lock" and sys.platform != "linux":
        pytest.skip("only Linux ends a process whose threads get no turn")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    root = Path(__file__).parents[2]
    line = [sys.executable, "-c", KERNEL, str(pipe), work]
    with subprocess.Popen(line, cwd=root) as kernel, pipe.open() as file:
        assert file.readline() == "begun\n"
        kernel.kill()
        assert file.read() == "", "the worker has ended"


@pytest.mark.slow
@pytest.mark.parametrize("end", ["idle", "close"])
def test_a_process_ends_after_a_time_without_work_and_when_it_is_closed(end: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    workers = Processes(1, idle=0.05 if end == "idle" else 60)
    registry = agf.Registry()
    agf.tool(hold_on, name="work", registry=registry)
    run = agf.start(FAN.format(on_error="abort"), {"xs": [str(pipe)]}, registry=registry, on=workers)
    with pipe.open() as file:
        assert run.result().output == ["held"]
        if end == "close":
            workers.close()
        assert file.read() == "", "the worker has ended"
    if end == "idle":
        assert run_fan(double, [1, 2], workers).output == [2, 4], "a new process starts on demand"
        workers.close()
    else:
        run = run_fan(double, [1], workers)
        assert run.error.diagnostic.code == "step.worker-lost"


@pytest.mark.parametrize("reuse", [True, False], ids=["repeated", "with an effect"])
def test_a_run_says_that_its_workers_were_closed_while_it_ran(reuse: bool, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    workers, registry = Processes(1), agf.Registry()
    agf.tool(hold, name="work", reuse=reuse, registry=registry)
    run = agf.start(FAN.format(on_error="abort"), {"xs": [str(pipe)]}, registry=registry, on=workers)
    with pipe.open() as file:
        assert file.readline() == "begun\n"
        workers.close()
    error = run.wait().error
    diagnostic, why = error.diagnostic, "its workers were closed (%workers --close)"
    if reuse:
        assert (diagnostic.code, diagnostic.message) == ("step.worker-lost", f"no worker can run 'work': {why}")
        assert "%resume" in str(diagnostic.hint)
    else:
        assert diagnostic.code == "step.unknown-outcome"
        assert diagnostic.message == f"the outcome of 'work' is unknown: its worker was lost: {why}"
        assert "check whether it had its effect" in str(diagnostic.hint)


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    """`multiprocessing` would import the script again in each process."""
    script = tmp_path / "script.py"
    script.write_text(
        "import agf_magics as agf\n"
        "from agf_magics.workers.backends.processes import Processes\n"
        "class Pair:\n"
        "    def __init__(self, a): self.a = a\n"
        "class Odd(Exception): pass\n"
        "@agf.tool\n"
        "def work(x):\n"
        "    if x == 1: raise Odd('one')\n"
        "    print('here is', x)\n"
        "    return Pair(x)\n"
        f"text = {FAN.format(on_error='continue')!r}\n"
        "run = agf.run(text, {'xs': [0, 1, 2]}, on=Processes(1))\n"
        "assert [type(one) is Pair and one.a for one in run.output] == [0, 2]\n"
        "(failure,) = run.progress.failures\n"
        "assert type(failure.error.__cause__) is Odd\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    completed = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (completed.stderr, completed.stdout) == ("", "here is 0\nhere is 2\n")


def test_a_function_over_a_large_table_travels_once(processes: Processes) -> None:
    table = os.urandom(1_500_000)

    def pick(x: int) -> int:
        return table[x]

    assert run_fan(pick, list(range(50)), processes).output == list(table[:50])
    assert run_fan(pick, list(range(50)), processes).output == list(table[:50])


@pytest.mark.slow
def test_files_of_large_functions_are_removed_when_runs_no_longer_use_them(processes: Processes) -> None:
    def reads(table: bytes) -> Any:
        return lambda x: table[x]

    for number in range(5):
        processes.look()
        assert run_fan(reads(bytes([number]) * 1_500_000), [0, 1], processes).output == [number] * 2
    assert 1 <= len(os.listdir(processes.folder())) <= 3


EDITED = """
import os, sys
import agf_magics as agf
from tests.workers.fans import run_fan

def work(x):
    import parts.colours
    return parts.colours.name(x), os.getpid()

def write(text, when):
    with open("parts/colours.py", "w") as file:
        file.write(text)
    os.utime("parts/colours.py", (when, when))

def run():
    found = run_fan(work, [0] * 8, "processes:1").output
    assert len({tuple(one) for one in found}) == 1
    return found[0]

os.mkdir("parts")
write("def name(x): return 'red'", 1)
first = run()
assert run() == first, "the same process"
write("def name(x): return 'sea'", 2)
second = run()
write("from .shades import name", 3)
with open("parts/shades.py", "w") as file:
    file.write("def name(x): return 'sky'")
third = run()
print(first[0], second[0], third[0], len({first[1], second[1], third[1]}), *run() == third and ["same"])
"""


def test_a_run_after_an_edit_of_a_module_uses_the_edit(tmp_path: Path) -> None:
    """The call imports the module itself, so the module cannot travel with the function."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), str(tmp_path)])}
    command = [sys.executable, "-c", EDITED]
    completed = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (completed.stderr, completed.stdout) == ("", "red sea sky 3 same\n")


def test_a_process_that_a_call_forks_does_not_answer(processes: Processes, tmp_path: Path) -> None:
    def forks(x: int) -> int:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        return x + 1

    assert run_fan(forks, list(range(20)), processes).output == list(range(1, 21))


@pytest.mark.slow
def test_a_timeout_counts_from_the_start_of_the_call_on_its_worker(processes: Processes) -> None:
    def slow(x: int) -> int:
        import threading

        if x == 3:
            threading.Event().wait()
        return x

    run = run_fan(slow, list(range(30)), processes, "continue", timeout=0.3)
    assert run.output == [x for x in range(30) if x != 3]
    (failure,) = run.progress.failures
    assert failure.error.diagnostic.code == "step.timeout"  # type: ignore[attr-defined]
    message = failure.error.diagnostic.message  # type: ignore[attr-defined]
    assert re.search(r"took longer than 0\.3 s \(left running: work on process \d+ on \S+\)", message), message


@pytest.mark.slow
@pytest.mark.parametrize("has_effect", [False, True], ids=["elements", "calls"])
def test_a_call_that_was_left_running_ends_with_its_process_when_the_next_run_starts(
    has_effect: bool, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    workers, registry = Processes(1), agf.Registry()
    agf.tool(hold, name="work", timeout=0.5, registry=registry, reuse=not has_effect)
    run = agf.start(FAN.format(on_error="continue"), {"xs": [str(pipe)]}, registry=registry, on=workers)
    with pipe.open() as file:
        assert file.readline() == "begun\n"
        assert [failure.error.code for failure in run.wait().progress.failures] == ["step.timeout"]  # type: ignore[attr-defined]
        (before,) = workers.pids
        workers.look()
        assert run_fan(double, [1], workers).output == [2]
        assert file.read() == "", "the process has ended"
    assert before not in workers.pids
    workers.close()


def test_prints_of_calls_are_written_in_the_kernel_and_reported_for_each_call(
    processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    def speak(x: int) -> int:
        print("word", x)
        return x

    registry, events = agf.Registry(), list[Any]()
    agf.tool(speak, name="work", registry=registry)
    text = FAN.format(on_error="abort")
    agf.run(text, {"xs": [1, 2, 3]}, registry=registry, on=processes, on_event=events.append, stream=True)
    assert sorted(capsys.readouterr().out.splitlines()) == ["word 1", "word 2", "word 3"]
    printed = {event.at: event.text for event in events if type(event).__name__ == "StepPrinted"}
    assert printed == {("steps[0].do", i): f"word {i + 1}\n" for i in range(3)}


def test_an_async_tool_with_where_worker_runs_on_a_worker(processes: Processes) -> None:
    async def remote(x: int) -> int:
        import asyncio

        await asyncio.sleep(0)
        return os.getpid()

    pids = run_fan(remote, [1, 2], processes, where="worker").output
    assert os.getpid() not in pids
    assert run_fan(remote, [1], processes).output == [os.getpid()]


def test_the_live_row_says_how_many_elements_are_on_workers(processes: Processes) -> None:
    registry, events = agf.Registry(), list[Any]()
    agf.tool(double, name="work", registry=registry)
    text = FAN.format(on_error="abort")
    run = agf.run(text, {"xs": list(range(50))}, registry=registry, on=processes, on_event=events.append)
    placed = [event for event in events if type(event).__name__ == "Placed"]
    assert {row.where for row in placed} == {"2 processes"}
    assert max(row.elements for row in placed) > 1
    assert placed[-1].elements == 0
    assert run.progress.rows["steps[0]",].on_workers is None


@pytest.mark.slow
def test_a_call_on_a_process_reports_once_a_second(processes: Processes, tmp_path: Path) -> None:
    run, reports = run_reporting(processes, tmp_path)
    assert run.output == [7]
    assert len(reports) == 1, "it ends less than a second after its first report"
    assert reports[0].at == ("steps[0].do", 0)
    assert (reports[0].total, reports[0].text[:5]) == (10.0, "part ")


def test_a_call_on_a_process_has_no_user(processes: Processes) -> None:
    error = ask_from_a_worker(processes).error
    assert error.code == "step.no-user"
    assert "where='thread'" in str(error)


def test_a_tool_on_a_worker_has_no_flows_of_the_kernel(processes: Processes) -> None:
    def work(x: int) -> Any:
        import agf_magics

        return agf_magics.run("main").output

    run = run_fan(work, [1], processes, "continue")
    assert "a worker has no flows of the kernel: @tool(where='thread')" in str(run.progress.failures[0].error)


def test_a_program_that_ends_without_closing_its_workers_gets_no_warning(tmp_path: Path) -> None:
    Path(tmp_path, "program.py").write_text(
        "import agf_magics as agf\n"
        "LARGE = list(range(300_000))\n"
        "@agf.tool\n"
        "def t(x): return x + len(LARGE)\n"
        "run = agf.run('{pipeline: p, steps: [{for_each: {items: [1, 2], on_error: abort, "
        "do: {tool: {name: t, args: {x: !expr item}}}, collect: {transform: {value: pipe}}}}]}', on='processes:2')\n"
        "print(run.output)\n"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    completed = subprocess.run(
        [sys.executable, "-W", "error", "program.py"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (completed.stdout, completed.stderr) == ("[300001, 300002]\n", "")
    assert not list(temporary.glob("agf-*"))
