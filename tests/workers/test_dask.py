"""Runs on Dask: with one LocalCluster for all tests of this file, and with clusters that the kernel starts."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.flow.progress import events as ev
from agf_magics.journal.runs import records
from agf_magics.limits.limits import Limits
from agf_magics.notebook.magics.workers import list_workers
from agf_magics.pictures.row_words import on_workers
from agf_magics.settings.settings import Settings, current
from agf_magics.text.diagnostics import DefinitionError
from agf_magics.workers.backends.dask.start import start_cluster
from agf_magics.workers.backends.dask.tasks import process_token
from agf_magics.workers.on import Workers, find_backend
from agf_magics.workers.started_backends import started
from tests.workers import fans
from tests.workers.fans import FAN

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0", silence_logs=50
    )
    new_client = distributed.Client(cluster)
    yield new_client
    new_client.close()
    cluster.close()
    started.close()


def run_fan(work: Any, xs: list[Any], on: object, **options: Any) -> agf.Run:
    return fans.run_fan(work, xs, on, "continue", **options)


def codes(run: agf.Run) -> list[str]:
    return [failure.error.code for failure in run.progress.failures]  # type: ignore[attr-defined]


def test_a_run_gives_what_a_run_on_threads_gives(client: Any) -> None:
    def work(x: int) -> int:
        if x < 0:
            raise KeyError(f"negative: {x}")
        return x * 2

    xs = [*range(300), -1, *range(300)]
    on_threads, on_cluster = (run_fan(work, xs, on) for on in ("here", client))
    assert on_threads.output == on_cluster.output
    assert [failure.at for failure in on_threads.progress.failures] == [
        failure.at for failure in on_cluster.progress.failures
    ]
    assert "tool 'work' failed: KeyError: 'negative: -1'" in str(on_cluster.progress.failures[0].error)
    assert "in work" in str(on_cluster.progress.failures[0].error.__cause__.__cause__)


@pytest.mark.slow
def test_a_call_on_a_cluster_reports_once_a_second(client: Any, tmp_path: Path) -> None:
    run, reports = fans.run_reporting(client, tmp_path)
    assert run.output == [7]
    assert [(report.at, report.total) for report in reports] == [(("steps[0].do", 0), 10.0)]
    error = fans.ask_from_a_worker(client).error
    assert error.code == "step.no-user"


def test_classes_of_the_notebook_travel_both_ways_and_their_exceptions_are_instances(client: Any) -> None:
    class Point:
        def __init__(self, x: int) -> None:
            self.x = x

    class TooFar(Exception):
        pass

    def work(x: Point) -> Point:
        if x.x > 2:
            raise TooFar(x.x)
        return Point(x.x + 1)

    run = run_fan(work, [Point(1), Point(3)], client)
    (point,) = run.output
    assert (type(point), point.x) == (Point, 2)
    assert isinstance(run.progress.failures[0].error.__cause__, TooFar)


def test_prints_of_a_chunk_arrive_with_it(client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def work(x: int) -> int:
        print("number", x)
        print("problem", x, file=sys.stderr)
        return x

    run_fan(work, [1, 2], client)
    printed = capsys.readouterr()
    assert sorted(printed.out.split("\n")) == ["", "number 1", "number 2"]
    assert sorted(printed.err.split("\n")) == ["", "problem 1", "problem 2"]


@pytest.mark.slow
def test_prints_of_a_long_call_arrive_while_it_runs(
    client: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def work(x: int) -> int:
        import pathlib
        import time

        print("begun")
        while not pathlib.Path(stop).exists():
            time.sleep(0.05)
        print("ended")
        return x

    stop = str(tmp_path / "stop")
    registry = agf.Registry()
    agf.tool(work, name="work", registry=registry)
    handle = agf.start(FAN.format(on_error="abort"), {"xs": [1]}, registry=registry, on=client)
    printed = ""
    while "begun\n" not in printed:
        assert not handle.done
        printed += capsys.readouterr().out
        handle.wait(0.1)
    Path(stop).touch()
    assert handle.result().output == [1]
    assert (printed + capsys.readouterr().out).count("begun") == 1


@pytest.mark.slow
@pytest.mark.parametrize("times", [2])
def test_killed_workers_lose_no_result_and_no_call_is_recorded_twice(
    times: int, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(current, "settings", Settings(journal=str(tmp_path / "runs.sqlite")))

    def work(x: int) -> int:
        import time

        time.sleep(0.002)
        return x * 2

    registry, xs = agf.Registry(), list(range(1500))
    agf.tool(work, name="work", registry=registry)
    handle = agf.start(FAN.format(on_error="abort"), {"xs": xs}, registry=registry, on=client)
    for _ in range(times):
        pids = list(client.run(os.getpid, on_error="ignore").values())
        os.kill(next(pid for pid in pids if isinstance(pid, int)), signal.SIGKILL)
        handle.wait(0.5)
    assert handle.result().output == [x * 2 for x in xs]
    recorded = [record.at for record in records(handle.journal.store, handle.journal.num)]
    assert len(recorded) == len(set(recorded)) == len(xs)


def ends_its_worker(x: int) -> int:
    if x == 7:
        os._exit(1)
    return x


@pytest.mark.parametrize("repeats", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_a_call_that_always_ends_its_worker_fails_alone(
    repeats: int, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds even if Dask removes a worker from its cluster before the nanny has restarted it. Dask itself repeats
    a chunk ``distributed.scheduler.allowed-failures`` times, by default 3, so that the call ends 8 workers."""
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", repeats)
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "0s"}):
        run = run_fan(ends_its_worker, list(range(20)), client)
    assert run.output == [x for x in range(20) if x != 7], run.error
    assert codes(run) == ["step.worker-lost"]
    ended = f"{repeats + 1} workers ended" if repeats else "ended during it"
    assert ended in str(run.progress.failures[0].error)


def test_each_process_has_one_token_of_its_own() -> None:
    """A restarted worker at the same address must not make the call that its predecessor has begun."""
    code = "from agf_magics.workers.backends.dask.tasks import process_token as t; print(t(), t())"
    other, again = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert other == again != process_token() == process_token() != ""


@pytest.mark.slow
def test_a_call_with_an_effect_is_sent_once(client: Any, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    log.touch()

    def work(x: int) -> int:
        import os

        with open(path, "a") as file:
            file.write(f"{x}\n")
        if x == 2:
            os._exit(1)
        return x

    path = str(log)
    run = run_fan(work, [1, 2, 3], client, reuse=False)
    assert run.status == "waiting"
    assert run.error.code == "step.unknown-outcome"
    assert log.read_text().split().count("2") == 1


@pytest.mark.slow
def test_cancelled_calls_with_an_effect_that_wait_for_a_worker_are_not_made(client: Any, tmp_path: Path) -> None:
    def work(x: int) -> int:
        import pathlib
        import time

        (pathlib.Path(folder) / f"begun{x}").touch()
        while not (pathlib.Path(folder) / "go").exists():
            time.sleep(0.01)
        return x

    folder, left_running = str(tmp_path), set[int]()

    def hear(event: Any) -> None:
        if isinstance(event, ev.StepAbandoned):
            left_running.add(int(event.at[-1]) + 1)

    registry = agf.Registry()
    agf.tool(work, name="work", registry=registry, reuse=False)
    flow = agf.load(FAN.format(on_error="abort"), registry=registry)
    handle = agf.start(flow, {"xs": [1, 2, 3, 4, 5]}, registry=registry, on=client, on_event=hear)
    wait_until(lambda: len(list(tmp_path.glob("begun*"))) == 2)
    handle.cancel()
    handle.wait(60)
    begun = {int(path.name[5:]) for path in tmp_path.glob("begun*")}
    assert left_running == begun
    (tmp_path / "go").touch()
    assert run_fan(lambda x: x, [5, 6, 7], client, reuse=False).output == [5, 6, 7]
    assert len(list(tmp_path.glob("begun*"))) == 2


@pytest.mark.slow
@pytest.mark.parametrize("holds_lock", [False, True])
def test_a_call_that_is_cancelled_ends_with_its_worker_on_a_cluster_of_the_kernel(
    holds_lock: bool, tmp_path: Path
) -> None:
    def work(x: int) -> int:
        import pathlib
        import re
        import time

        pathlib.Path(begun).touch()
        if holds_lock:  # the worker cannot answer
            re.match("(a+)+$", "a" * 60 + "b")
        time.sleep(600)
        return x

    begun = str(tmp_path / "begun")
    registry = agf.Registry()
    agf.tool(work, name="work", registry=registry)
    handle = agf.start(FAN.format(on_error="abort"), {"xs": [1]}, registry=registry, on="dask:1")
    wait_until(lambda: Path(begun).exists())
    backends = list_workers([backend.describe() for backend in started])["text/plain"]  # type: ignore[attr-defined]
    assert "dask, 1 worker" in backends, "it does not wait"
    handle.cancel()
    run = handle.wait(60)
    assert run.status == "cancelled"
    assert "left running" not in str(run.error)
    assert run_fan(lambda x: x, [5], "dask:1").output == [5]


@pytest.mark.slow
def test_the_live_row_says_that_workers_start_until_they_are_there(tmp_path: Path) -> None:
    def work(x: int, go: str) -> int:
        import pathlib
        import time

        while not pathlib.Path(go).exists():
            time.sleep(0.05)
        return x

    backend = start_cluster(1)
    registry, texts, go, started_run = agf.Registry(), list[str](), tmp_path / "go", threading.Event()
    agf.tool(work, registry=registry, where="worker")

    def listen(event: Any) -> None:
        if isinstance(event, ev.Placed):
            assert started_run.wait(60)
            texts.append(on_workers(handle.progress.rows["steps[0]",]))

    text = FAN.format(on_error="abort").replace("x: !expr item", "x: !expr item, go: !expr ctx.go")
    try:
        assert "starting 1 worker" in list_workers([backend.describe()])["text/plain"]
        handle = agf.start(text, {"xs": [1, 2], "go": str(go)}, registry=registry, on=backend, on_event=listen)
        started_run.set()
        wait_until(lambda: any(row_text.startswith("running") for row_text in texts))  # no call has ended yet
        go.touch()
        assert handle.result().output == [1, 2]
    finally:
        backend.close()
    assert texts[0] == "starting 1 worker"
    assert next(row_text for row_text in texts if row_text != texts[0]) == "running 2 on dask, 1 worker"


def test_a_large_function_is_sent_once_to_the_cluster(client: Any) -> None:
    table = list(range(400_000))

    def work(x: int) -> int:
        return table[x]

    assert run_fan(work, list(range(200)), client).output == list(range(200))


@pytest.mark.slow
def test_no_result_is_lost_with_the_workers_that_had_a_large_function(client: Any, tmp_path: Path) -> None:
    table, folder = os.urandom(1_500_000), str(tmp_path)

    def work(x: int) -> int:
        if x % 20 == 5:
            try:
                os.close(os.open(f"{folder}/{x}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return table[x]

    run = run_fan(work, list(range(100)), client)
    assert (codes(run), run.output) == ([], list(table[:100]))
    assert len(os.listdir(folder)) == 5


@pytest.mark.slow
def test_large_functions_of_earlier_runs_leave_the_cluster(client: Any) -> None:
    def reads(table: bytes) -> Callable[[int], int]:
        return lambda x: table[x]

    for number in range(4):
        assert run_fan(reads(bytes([number]) * 1_500_000), [0, 1], client).output == [number] * 2
    wait_until(lambda: sum("-bytes-" in key for key in client.who_has()) == 1)


@pytest.mark.slow
def test_the_scheduler_gets_bytes_and_no_result_passes_through_it(tmp_path: Path) -> None:
    def work(x: int) -> int:
        import pathlib
        import time

        pathlib.Path(begun).touch()
        while not pathlib.Path(goes_on).exists():
            time.sleep(0.01)
        return x

    def read_specs(dask_scheduler: Any) -> list[Any]:
        tasks = [task for key, task in dask_scheduler.tasks.items() if str(key).startswith("agf-") and task.run_spec]
        return [(task.run_spec.func.__module__, [type(part).__name__ for part in task.run_spec.args]) for task in tasks]

    begun, goes_on = str(tmp_path / "begun"), str(tmp_path / "goes_on")
    with (
        distributed.LocalCluster(n_workers=1, host="127.0.0.1", dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster, set_as_default=False) as own_client,
    ):
        del cluster.scheduler.handlers["gather"]
        registry = agf.Registry()
        agf.tool(work, registry=registry, where="worker")
        handle = agf.start(FAN.format(on_error="abort"), {"xs": [1, 2]}, registry=registry, on=own_client)
        wait_until(lambda: Path(begun).exists())
        specs = own_client.run_on_scheduler(read_specs)
        Path(goes_on).touch()
        assert handle.result().output == [1, 2]
    assert specs
    assert all(spec == ("_pickle", ["bytes"]) for spec in specs)


@pytest.mark.slow
def test_resources_place_calls_and_bound_the_lanes(tmp_path: Path) -> None:
    spec = {"cls": distributed.Nanny, "options": {"nthreads": 1, "resources": {"gpu": 1}}}
    plain = {"cls": distributed.Nanny, "options": {"nthreads": 1}}
    with (
        distributed.SpecCluster(
            workers={"gpu": spec, "plain": plain},
            scheduler={"cls": distributed.Scheduler, "options": {"host": "127.0.0.1", "dashboard_address": ":0"}},
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as own_client,
    ):

        def work(x: int) -> str:
            from distributed import get_worker

            return str(get_worker().name)

        own_client.wait_for_workers(2)
        assert set(run_fan(work, list(range(20)), own_client, resources={"gpu": 1}).output) == {"gpu"}
        with_effect = run_fan(work, list(range(6)), own_client, resources={"gpu": 1}, reuse=False)
        assert set(with_effect.output) == {"gpu"}
        on = Workers(own_client, resources={"gpu": 1})
        assert find_backend(on).lanes == 1  # type: ignore[union-attr]
        assert set(run_fan(work, list(range(20)), on).output) == {"gpu"}
        registry = agf.Registry()
        agf.tool(work, resources={"gpu": 2}, registry=registry)
        with pytest.raises(DefinitionError, match=r"tool 'work' needs 2 gpu.*on\.resources"):
            agf.run(FAN.format(on_error="abort"), {"xs": [1]}, registry=registry, on=own_client)


def test_the_lanes_follow_the_cluster_and_a_run_waits_for_the_first_worker(tmp_path: Path) -> None:
    with (
        distributed.LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as own_client,
    ):
        registry = agf.Registry()
        agf.tool(lambda x: x, name="work", registry=registry)
        flow = FAN.format(on_error="abort")
        handle = agf.start(flow, {"xs": [1, 2]}, registry=registry, on=Workers(own_client, adaptive=True))
        assert [warning.code for warning in handle.warnings] == ["on.no-workers"]
        assert not handle.wait(0.2).done
        cluster.scale(1)
        assert handle.result().output == [1, 2]
        backend = find_backend(own_client)
        assert backend.lanes == sum(own_client.nthreads().values()) > 0


@pytest.mark.slow
def test_a_run_whose_workers_have_left_says_that_it_waits_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(x: int) -> int:
        import pathlib
        import time

        pathlib.Path(begun).touch()
        while not pathlib.Path(goes_on).exists():
            time.sleep(0.01)
        return x

    begun, goes_on = str(tmp_path / "begun"), str(tmp_path / "goes_on")
    monkeypatch.setattr("agf_magics.workers.backends.dask.backend.LOOK", 0.05)
    warned = threading.Event()
    with (
        distributed.LocalCluster(n_workers=1, host="127.0.0.1", dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as own_client,
    ):
        registry = agf.Registry()
        agf.tool(work, name="work", registry=registry)
        own_client.wait_for_workers(1)
        find_backend(own_client).patience = 24  # type: ignore[attr-defined,union-attr]
        handle = agf.start(
            FAN.format(on_error="abort"), {"xs": [1, 2]}, registry=registry, on=own_client,
            on_event=lambda event: warned.set() if isinstance(event, ev.Warned) else None,
        )  # fmt: skip
        while not Path(begun).exists():
            assert not handle.wait(0.02).done
        cluster.scale(0)
        assert warned.wait(60)
        Path(goes_on).touch()
        cluster.scale(1)
        assert handle.result().output == [1, 2]
        (warning,) = handle.warnings
        assert (warning.code, warning.message) == (
            "on.no-workers", "the scheduler has lost all workers: the run waits for one",
        )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("way", [None, "worker"], ids=["elements", "calls"])
def test_a_run_whose_workers_have_left_for_good_ends(way: Any, tmp_path: Path) -> None:
    """It ends whatever ``on_error`` says: no element is dropped because there was no worker."""

    def work(x: int) -> int:
        import pathlib
        import time

        pathlib.Path(begun).touch()
        time.sleep(600)
        return x

    begun = str(tmp_path / "begun")
    with (
        distributed.LocalCluster(n_workers=1, host="127.0.0.1", dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster, set_as_default=False) as own_client,
    ):
        registry, backend = agf.Registry(), find_backend(own_client)
        backend.patience = 0.5  # type: ignore[attr-defined,union-attr]
        agf.tool(work, name="work", where=way, registry=registry)
        handle = agf.start(FAN.format(on_error="continue"), {"xs": list(range(50))}, registry=registry, on=own_client)
        while not Path(begun).exists():
            assert not handle.wait(0.02).done
        cluster.scale(0)
        run = handle.wait(60)
        assert run.error.code == "on.no-workers"
        assert run.error.diagnostic.message == "all workers are lost, and no new one has joined within 0.5 s"
        cluster.scale(1)
        own_client.wait_for_workers(1)
        assert run_fan(lambda x: x, [1, 2], own_client).output == [1, 2], "the next run finds new workers"


@pytest.mark.slow
def test_our_cluster_starts_again_if_a_worker_dies_while_it_starts(tmp_path: Path) -> None:
    dies = tmp_path / "dies_once.py"
    dies.write_text(
        f"import os, pathlib\nmark = pathlib.Path({str(tmp_path / 'mark')!r})\n"
        "if not mark.exists():\n    mark.touch()\n    os._exit(1)\n"
    )
    with dask.config.set({"distributed.worker.preload": [str(dies)]}):
        backend = start_cluster(1)
        try:
            assert run_fan(lambda x: x, [1, 2], backend).output == [1, 2]
        finally:
            backend.close()
    assert (tmp_path / "mark").exists()


@pytest.mark.slow
def test_our_cluster_opens_another_worker_for_one_that_died_while_it_started(tmp_path: Path) -> None:
    """The nanny of a worker that did not start stays with its cluster, which starts no other worker."""

    def work(x: int) -> int:
        import os
        import pathlib

        if not pathlib.Path(begun).exists():
            pathlib.Path(begun).touch()
            os._exit(1)
        return x

    begun = str(tmp_path / "begun")
    dies = tmp_path / "dies_second.py"
    dies.write_text(
        f"import os, pathlib\nbegun, mark = pathlib.Path({begun!r}), pathlib.Path({str(tmp_path / 'mark')!r})\n"
        "if begun.exists() and not mark.exists():\n    mark.touch()\n    os._exit(1)\n"
    )
    with dask.config.set({"distributed.worker.preload": [str(dies)]}):
        backend = start_cluster(1)
        try:
            assert run_fan(work, list(range(5)), backend).output == list(range(5))
        finally:
            backend.close()
    assert (tmp_path / "mark").exists()


@pytest.mark.slow
def test_our_cluster_replaces_a_worker_that_dask_has_given_up(tmp_path: Path) -> None:
    def work(x: int) -> int:
        import os
        import pathlib

        if not pathlib.Path(begun).exists():
            pathlib.Path(begun).touch()
            os._exit(1)
        return x

    begun = str(tmp_path / "begun")
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "0s"}):
        backend = start_cluster(1)
        try:
            assert run_fan(work, list(range(5)), backend).output == list(range(5))
        finally:
            backend.close()


@pytest.mark.slow
def test_a_scheduler_that_ends_fails_the_calls(tmp_path: Path) -> None:
    def work(x: int) -> int:
        import pathlib
        import time

        pathlib.Path(begun).touch()
        time.sleep(600)
        return x

    begun = str(tmp_path / "begun")
    cluster = distributed.LocalCluster(n_workers=1, host="127.0.0.1", dashboard_address=":0", silence_logs=50)
    own_client = distributed.Client(cluster, set_as_default=False)
    registry = agf.Registry()
    agf.tool(work, name="work", registry=registry)
    handle = agf.start(FAN.format(on_error="continue"), {"xs": [1]}, registry=registry, on=own_client)
    wait_until(lambda: Path(begun).exists())
    own_client.close()
    cluster.close()
    assert codes(handle.wait(60)) == ["step.worker-lost"]
    with pytest.raises(DefinitionError, match=r"on\.unreachable"):
        find_backend(own_client)


def start_program(name: str, *options: str) -> subprocess.Popen[bytes]:
    """Start a program of Dask: ``dask_scheduler`` or ``dask_worker``."""
    line = [sys.executable, "-m", f"distributed.cli.{name}", *options, "--no-dashboard"]
    return subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.slow
def test_a_scheduler_that_is_killed_fails_the_calls_that_have_no_result(tmp_path: Path) -> None:
    def work(x: int) -> int:
        import pathlib
        import time

        pathlib.Path(begun).touch()
        time.sleep(600)
        return x

    begun, port = str(tmp_path / "begun"), free_port()
    scheduler = start_program("dask_scheduler", "--host", "127.0.0.1", "--port", str(port))
    worker = start_program("dask_worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-nanny")
    try:
        wait_until(lambda: is_open(port))
        registry = agf.Registry()
        agf.tool(work, name="work", registry=registry)
        flow = FAN.format(on_error="continue")
        handle = agf.start(flow, {"xs": [1, 2, 3, 4]}, registry=registry, on=f"tcp://127.0.0.1:{port}")
        wait_until(lambda: Path(begun).exists())
        scheduler.kill()
        run = handle.wait(60)
    finally:
        for program in (scheduler, worker):
            program.kill()
            program.wait()
    assert codes(run) == ["step.worker-lost"] * 4
    assert "the connection to the scheduler was lost" in str(run.progress.failures[0].error)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def is_open(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    return False


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "setsid"), reason="needs sessions")
def test_an_interrupt_of_the_kernel_reaches_no_worker_of_its_own_cluster() -> None:
    def group(x: int) -> int:
        import os

        return os.getpgid(0)

    backend = start_cluster(1)
    try:
        assert os.getpgid(0) not in run_fan(group, [1], backend).output
        backend.restart()
        assert os.getpgid(0) not in run_fan(group, [1], backend).output
    finally:
        backend.close()


def test_an_address_is_a_cluster(client: Any) -> None:
    run = run_fan(lambda x: x + 1, [1, 2], client.scheduler.address)
    assert run.output == [2, 3]
    assert run_fan(lambda x: x + 1, [1], Workers(client.scheduler.address)).output == [2]


@pytest.mark.parametrize(
    ("template", "expected"),
    [("/user/ada/proxy/{port}/status", True), ("/user/{NO_SUCH_VARIABLE}/proxy/{port}", False), ("{0}", False)],
)
def test_the_dashboard_has_the_address_that_the_person_configured(client: Any, template: str, expected: bool) -> None:
    backend = find_backend(client.scheduler.address)
    assert backend is not None
    with dask.config.set({"distributed.dashboard.link": template}):
        bundle = list_workers([backend.describe()])  # type: ignore[attr-defined]
    assert ("/proxy/" in bundle["text/plain"]) == ("/proxy/" in bundle["text/html"]) == expected


@pytest.mark.slow
def test_an_address_without_a_scheduler_is_refused_in_time() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(DefinitionError) as raised:
            find_backend(f"tcp://127.0.0.1:{listener.getsockname()[1]}")
        assert raised.value.code == "on.unreachable"


SCRIPT = """
import os, sys, time
from pathlib import Path
import agf_magics as agf
from agf_magics import tool

@tool
def work(x: int) -> int:
    with open("calls.txt", "a") as file:
        file.write(f"{x} {os.getpid()}\\n")
    time.sleep(0.002)
    return x * 2

TEXT = '''
pipeline: main
steps:
  - for_each:
      over: ctx.xs
      on_error: abort
      do: {tool: {name: work, args: {x: !expr item}}}
      collect: {transform: {value: count(pipe)}}
'''

if __name__ == "__main__":
    agf.define(TEXT)
    if sys.argv[1] == "start":
        agf.run("main", {"xs": list(range(1000))}, on="dask:2")
    else:
        print(agf.resume(on="dask:2").output)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_no_process_survives_a_killed_kernel_and_its_run_is_resumed(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "pyproject.toml").touch()
    calls = tmp_path / "calls.txt"
    calls.touch()
    environment = {**os.environ, "PYTHONPATH": str(Path(agf.__file__).parents[1])}
    command = [sys.executable, "script.py"]
    log = tmp_path / "log"
    with log.open("wb") as errors:
        kernel = subprocess.Popen([*command, "start"], cwd=tmp_path, env=environment, stderr=errors)
    wait_until(lambda: calls.read_text().count("\n") > 300 or kernel.poll() is not None)
    assert calls.read_text().count("\n") > 300, log.read_text()
    kernel.kill()
    kernel.wait()
    workers = {int(line.split()[1]) for line in calls.read_text().splitlines() if len(line.split()) == 2}
    wait_until(lambda: not any(is_running(pid) for pid in workers))
    before = calls.read_text().count("\n")
    completed = subprocess.run([*command, "resume"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert completed.stdout == "1000\n", completed.stderr
    assert calls.read_text().count("\n") - before < 1000 - 50


@pytest.mark.slow
def test_no_process_survives_close() -> None:
    pids = set(run_fan(lambda x: os.getpid(), list(range(50)), "dask:2").output)
    assert os.getpid() not in pids
    started.close()
    wait_until(lambda: not any(is_running(pid) for pid in pids))
    assert not any(thread.name.startswith("agf-dask") for thread in threading.enumerate())


def test_a_time_limit_of_the_run_ends_calls_on_workers(client: Any) -> None:
    registry = agf.Registry()

    def work(x: int) -> int:
        import time

        time.sleep(600)
        return x

    agf.tool(work, registry=registry)
    limits = Limits(timeout=1.0)
    run = agf.run(
        FAN.format(on_error="abort"), {"xs": [1]}, registry=registry, on="dask:1", limits=limits, raises=False
    )
    assert run.error.code == "limit.timeout"


def is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for another process. The faulthandler of pytest ends a test that never ends."""
    while not condition():
        time.sleep(0.05)
