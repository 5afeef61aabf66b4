"""Workers with another version of Python: no code that the kernel has compiled reaches their interpreter."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.text.diagnostics import DefinitionError
from agf_magics.workers.sending.functions import PYTHON
from tests.workers.fans import FAN, run_fan

LOAD = """
import pickle, sys
try:
    found = pickle.loads(sys.stdin.buffer.read())
except BaseException as error:
    found = error
sys.stdout.buffer.write(pickle.dumps(found))
"""


@pytest.fixture(scope="module")
def other() -> tuple[str, str]:
    """A Python of this machine with another minor version, as its path and its version."""
    ask = "import sysconfig; print(sysconfig.get_python_version())"
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    folders += sorted((Path.home() / ".pyenv" / "versions").glob("3.*/bin"))
    for path in (path for folder in folders for path in sorted(folder.glob("python3.[0-9]*"))):
        version = subprocess.run([path, "-c", ask], capture_output=True, text=True).stdout.strip()
        if version.startswith("3.") and version != PYTHON and int(version[2:]) >= 8:
            return str(path), version
    pytest.skip("there is no other Python on this machine")


class InOtherPython(Executor):
    """An executor whose worker is a process with another Python."""

    _max_workers = 1

    def __init__(self, python: str) -> None:
        self.python = python

    def submit(self, function: Any, /, *order: Any, **options: Any) -> Future[Any]:
        ended = Future[Any]()
        assert function is pickle.loads
        completed = subprocess.run([self.python, "-c", LOAD], input=order[0], capture_output=True)
        assert completed.returncode == 0, "the interpreter crashed"
        ended.set_exception(pickle.loads(completed.stdout))
        return ended


@pytest.mark.slow
def test_a_worker_with_another_python_refuses_what_it_cannot_read(other: tuple[str, str]) -> None:
    python, version = other
    run = run_fan(lambda x: x, [1, 2], InOtherPython(python), "continue")
    diagnostics = [failure.error.diagnostic for failure in run.progress.failures]  # type: ignore[attr-defined]
    assert [diagnostic.code for diagnostic in diagnostics] == ["step.unsendable"] * 2
    where_from = f"Python {version} there, {PYTHON} here"
    assert diagnostics[0].message == f"a worker of InOtherPython cannot read 'work': {where_from}"
    assert diagnostics[0].hint == "start the workers with the Python of the kernel"
    assert run.status == "ok"


PRELOAD = """
import sys, sysconfig, types
import distributed.versions as versions

versions.sys = types.SimpleNamespace(**{**vars(sys), "version_info": (3, 99, 1, "final", 0)})
sysconfig.get_python_version = lambda: "3.99"
"""


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Any]:
    """A cluster with a worker process that claims Python 3.99."""
    distributed = pytest.importorskip("distributed")
    (tmp_path / "preload.py").write_text(PRELOAD)
    with (
        distributed.LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--no-dashboard"]
        command += ["--nthreads", "1", "--no-nanny", "--preload", str(tmp_path / "preload.py")]
        worker = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            client.wait_for_workers(1, timeout=60)
            yield client
            assert worker.poll() is None, "the worker has not ended"
        finally:
            worker.kill()
            worker.wait()


def test_a_dask_worker_with_another_python_is_an_error_before_the_first_step(client: Any) -> None:
    (address,) = client.nthreads()
    registry, calls = agf.Registry(), list[int]()
    agf.tool(lambda x: calls.append(x), name="work", registry=registry)
    with pytest.raises(DefinitionError) as raised:
        agf.run(FAN.format(on_error="abort"), {"xs": [1]}, registry=registry, on=client)
    assert raised.value.code == "on.versions"
    assert raised.value.diagnostic.message == (
        f"1 worker of dask {client.scheduler.address} cannot read what the kernel sends: "
        f"Python 3.99 there, {PYTHON} here ({address})"
    )
    assert calls == []
