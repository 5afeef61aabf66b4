"""Workers that run out of memory: real processes with a limit, and a real nanny of Dask."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.workers.backends.processes import Processes
from agf_magics.workers.on import Workers
from tests.workers.fans import run_fan

XS = list(range(8))

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory")


@pytest.fixture
def processes() -> Iterator[Processes]:
    workers = Processes(2)
    yield workers
    workers.close()


def failure(run: agf.Run) -> agf.Diagnostic:
    """The failure of element 3. All other elements have their values."""
    assert run.output == [x for x in XS if x != 3]
    (failure,) = run.progress.failures
    assert failure.at[-1] == 3
    diagnostic: agf.Diagnostic = failure.error.diagnostic  # type: ignore[attr-defined]
    assert diagnostic.span.text == "work"
    return diagnostic


def limit_memory() -> None:
    """Limit the memory of this process to half a gigabyte more than it has now."""
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 500_000_000,) * 2)


def test_a_call_over_the_limit_of_its_process_fails_alone(processes: Processes) -> None:
    def work(x: int) -> int:
        return len(bytearray(4_000_000_000)) if x == 3 else x

    run = run_fan(work, XS, Workers(processes, setup=limit_memory), "continue")
    diagnostic = failure(run)
    assert (diagnostic.code, diagnostic.message) == ("step.tool-failed", "tool 'work' failed: MemoryError")
    assert (
        diagnostic.hint == "its process has too little memory: give the call less data, or the process a higher limit"
    )


def test_a_call_whose_process_the_system_kills_fails_alone(processes: Processes) -> None:
    """The process ends by SIGKILL, as the system does when memory is short."""

    def work(x: int) -> int:
        if x == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    diagnostic = failure(run_fan(work, XS, processes, "continue"))
    assert diagnostic.code == "step.worker-lost"
    assert "4 times: the process was ended by SIGKILL, as the system does when memory is short" in diagnostic.message
    assert diagnostic.hint is not None
    assert "give each call less data, or start workers with more memory" in diagnostic.hint


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A cluster whose workers may use 400 MB, and whose scheduler does not repeat a task after the end of its
    worker."""
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, memory_limit="400MB", host="127.0.0.1", dashboard_address=":0",
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as new_client,
    ):  # fmt: skip
        yield new_client


def grow(x: int) -> int:
    """Use 600 MB until the nanny ends the process."""
    import threading

    if x == 3:
        memory = bytes(1) * 600_000_000
        threading.Event().wait()
        return len(memory)
    return x


@pytest.mark.slow
@pytest.mark.parametrize("way", ["calls", "effect"])
def test_a_worker_that_its_nanny_restarts_is_named_with_its_memory(way: str, client: Any) -> None:
    options: dict[str, Any] = {"calls": {}, "effect": {"reuse": False}}[way]
    run = run_fan(grow, XS, client, "continue", **options)
    diagnostic = run.error.diagnostic if way == "effect" else failure(run)
    assert diagnostic.code == ("step.unknown-outcome" if way == "effect" else "step.worker-lost")
    assert ": worker tcp://127.0.0.1:" in diagnostic.message
    assert " was out of memory at " in diagnostic.message
    assert diagnostic.message.endswith(" MB, so its nanny restarted it")
