"""Runs on executors: threads and processes of `concurrent.futures`."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import Executor, ThreadPoolExecutor

import pytest

import agf_magics as agf
from tests.workers.fans import run_fan


def double(x: int) -> int:
    if x < 0:
        raise KeyError(f"negative: {x}")
    return x * 2


def process_of(x: int) -> list[int]:
    return [x, os.getpid()]


def test_a_run_on_an_executor_gives_what_a_run_on_threads_gives(executor: Executor) -> None:
    xs = [*range(300), -1, *range(300)]
    on_threads, on_executor = (run_fan(double, xs, on, "continue") for on in (None, executor))
    assert on_threads.output == on_executor.output == [x * 2 for x in xs if x >= 0]
    assert [failure.at for failure in on_threads.progress.failures] == [
        failure.at for failure in on_executor.progress.failures
    ]
    assert on_threads.calls == on_executor.calls == len(xs)


def test_a_failure_ends_the_fan_out_and_has_the_traceback_of_the_worker(executor: Executor) -> None:
    run = run_fan(double, [1, -7, 3], executor)
    assert str(run.error.diagnostic.message) == "tool 'work' failed: KeyError: 'negative: -7'"
    assert isinstance(run.error.__cause__, KeyError)
    assert "in double" in str(run.error.__cause__.__cause__)


def test_single_calls_that_run_concurrently_go_to_workers(executor: Executor) -> None:
    text = """
pipeline: main
steps:
  - parallel:
      branches:
        a: {tool: {name: work, args: {x: 1}}}
        b: {tool: {name: work, args: {x: 2}}}
      collect: {transform: {value: pipe}}
"""
    registry = agf.Registry()
    agf.tool(process_of, name="work", registry=registry)
    output = agf.run(text, registry=registry, on=executor).output
    pids = {output["a"][1], output["b"][1]}
    assert (output["a"][0], output["b"][0]) == (1, 2)
    assert (pids == {os.getpid()}) == isinstance(executor, ThreadPoolExecutor)


def test_where_decides_which_calls_leave_the_kernel(executor: Executor) -> None:
    if isinstance(executor, ThreadPoolExecutor):
        pytest.skip("threads are in this process")
    assert {pid for _, pid in run_fan(process_of, [1, 2], executor, where="thread").output} == {os.getpid()}
    flow_text = "pipeline: main\nsteps:\n  - tool: {name: work, args: {x: 1}}\n"
    for where, leaves in ((None, False), ("worker", True)):
        registry = agf.Registry()
        agf.tool(process_of, name="work", registry=registry, where=where)  # type: ignore[call-overload]
        assert (agf.run(flow_text, registry=registry, on=executor).output[1] != os.getpid()) is leaves
        assert agf.run(flow_text, registry=registry).output[1] == os.getpid()


def test_a_large_function_is_named_with_its_large_variables(executor: Executor) -> None:
    table = os.urandom(1_500_000)

    def pick(x: int) -> int:
        return table[x]

    run = run_fan(pick, [0, 1, 2], executor)
    assert run.output == list(table[:3])
    (warning,) = run.warnings
    message = "the function 'pick' is sent to the workers with 1.5 MB, because it uses 'table' (1.5 MB)"
    assert (warning.code, warning.message) == ("on.heavy", message)


def test_the_extension_imports_nothing_of_the_workers() -> None:
    code = (
        "import sys\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "InteractiveShell.instance().run_line_magic('load_ext', 'agf_magics')\n"
        "print(sorted({'cloudpickle', 'distributed', 'loky', 'multiprocessing.pool'} & set(sys.modules)))"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert completed.stdout == "[]\n"
