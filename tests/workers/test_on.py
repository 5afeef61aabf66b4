"""The values of `on`: words, addresses and variables, in settings, on the command line and in the lines of magics."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.settings.settings import Settings, current
from agf_magics.settings.worker_words import read_word
from agf_magics.text.diagnostics import DefinitionError
from agf_magics.workers.backends.backend import WorkerBackend
from agf_magics.workers.backends.dask.cluster import is_private
from agf_magics.workers.on import Workers, find_backend
from agf_magics.workers.started_backends import started

FAN = """
pipeline: main
steps:
  - for_each:
      over: ctx.xs
      on_error: continue
      do: {tool: {name: process, args: {x: !expr item}}}
      collect: {transform: {value: pipe}}
"""


@pytest.fixture
def registry() -> agf.Registry:
    registry = agf.Registry()

    def process(x: int) -> int:
        import os

        return os.getpid()

    agf.tool(process, registry=registry)
    agf.define(FAN, registry=registry)
    return registry


@pytest.fixture(scope="module", autouse=True)
def closed() -> Iterator[None]:
    yield
    started.close()


def refusal(on: object, names: dict[str, Any] | None = None) -> agf.Diagnostic:
    with pytest.raises(DefinitionError) as raised:
        find_backend(on, names)
    return raised.value.diagnostic


@pytest.mark.parametrize(
    ("text", "kind", "number"),
    [("here", "here", None), ("processes", "processes", None), ("processes:4", "processes", 4), ("dask", "dask", None),
     ("dask:2", "dask", 2), ("tcp://10.0.0.5:8786", "address", None), ("tls://[::1]:8786", "address", None),
     ("tcp://scheduler.example-1.org:1", "address", None)],
)  # fmt: skip
def test_a_word_or_an_address_is_read(text: str, kind: str, number: int | None) -> None:
    backend = read_word(text)
    assert (backend.kind, backend.number) == (kind, number)


@pytest.mark.parametrize(
    "text",
    ["", "process", "processes:0", "processes:1025", "processes:-1", "processes: 4", "dask:", "DASK", "here:2",
     "tcp://", "tcp://host", "tcp://host:0", "tcp://host:99999", "tcp://a b:1", "http://host:80", "inproc://1/2/3",
     "tcp://user@host:8786", "tcp://host:8786/x", "tcp://host:8786\n", "ucx://host:8786"],
)  # fmt: skip
def test_every_other_text_is_neither(text: str) -> None:
    assert read_word(text) is None


@pytest.mark.parametrize(
    ("address", "private"),
    [("tcp://127.0.0.1:1", True), ("tcp://[::1]:1", True), ("tcp://localhost:1", True), ("tls://10.0.0.5:1", True),
     ("tcp://10.0.0.5:1", False), ("tcp://127.0.0.1.example.org:1", False), ("tcp://0.0.0.0:1", False),
     ("ws://10.0.0.5:1", False)],
)  # fmt: skip
def test_only_this_machine_and_encrypted_connections_are_private(address: str, private: bool) -> None:
    assert is_private(address) is private


@pytest.mark.parametrize(
    ("on", "message", "hint"),
    [
        ("proceses", "'proceses' is neither a word nor an address", "did you mean processes?"),
        (
            "tcp://host",
            "the address of a scheduler must be tcp://HOST:PORT or tls://HOST:PORT, got 'tcp://host'",
            "write ",
        ),
        ("dask:0", "the number of workers must be 1 to 1024, got 'dask:0'", "did you mean dask?"),
        ("processes:0", "the number of processes must be 1 to 1024, got 'processes:0'", "did you mean processes?"),
        (5, "on must be a word, an address, a Dask client or an Executor, got int", "write processes"),
        ("", "on is empty", "write processes"),
    ],
)
def test_an_unknown_text_or_object_is_refused(on: object, message: str, hint: str) -> None:
    error = refusal(on)
    assert (error.code, error.message) == ("on.unknown", message)
    assert (error.hint or "").startswith(hint)


def test_a_text_may_name_a_variable_and_a_misspelled_one_is_suggested() -> None:
    with ThreadPoolExecutor(3) as pool:
        backend = find_backend("pool", {"pool": pool})
        assert isinstance(backend, WorkerBackend)
        assert backend.lanes == 3
        assert find_backend("$pool", {"pool": pool}) is not None
        assert refusal("pol", {"pool": pool, "other": 1}).hint == "did you mean pool?"
        assert (
            refusal("pool").message == "'pool' is neither a word nor an address"
        )  # in Python the object itself is passed


def test_here_and_none_are_this_process() -> None:
    assert find_backend(None) is find_backend("here") is None


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    error = refusal("dask")
    assert (error.code, error.hint) == ("on.not-installed", "pip install 'agf-magics[dask]'")


def test_a_word_starts_its_workers_once_and_a_run_uses_them(registry: agf.Registry) -> None:
    first = agf.run("main", {"xs": [1, 2]}, registry=registry, on="processes:1")
    again = agf.run("main", {"xs": [3]}, registry=registry, on="processes:1")
    assert {*first.output, *again.output} == {first.output[0]} != {os.getpid()}
    assert find_backend("processes:1") is find_backend("processes:1")


def test_the_settings_are_the_default_and_here_turns_them_off(
    registry: agf.Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(current, "settings", replace(current.settings, on="processes:1"))
    assert agf.run("main", {"xs": [1]}, registry=registry).output != [os.getpid()]
    assert agf.run("main", {"xs": [1]}, registry=registry, on="here").output == [os.getpid()]
    handle = agf.start("main", {"xs": [1]}, registry=registry)
    assert handle.result().output != [os.getpid()]
    awaited = asyncio.run(agf.arun("main", {"xs": [1]}, registry=registry))
    assert awaited.output != [os.getpid()]


def test_a_dry_run_has_no_workers(registry: agf.Registry) -> None:
    run = agf.run("main", {"xs": [1]}, registry=registry, on="tcp://127.0.0.1:9", dry=True)
    assert run.status == "ok"


def test_a_run_inside_a_tool_follows_the_settings_not_the_run_around_it(registry: agf.Registry) -> None:
    def outer() -> list[int]:
        inner: list[int] = agf.run("main", {"xs": [1]}, registry=registry).output
        return inner

    agf.tool(outer, registry=registry)
    run = agf.run("pipeline: nest\nsteps: [{tool: {name: outer}}]", registry=registry, on="processes:1")
    assert run.output == [os.getpid()]


def test_a_wrong_value_is_refused_before_the_first_step(registry: agf.Registry) -> None:
    with pytest.raises(DefinitionError, match=r"on\.unknown"):
        agf.run("main", {"xs": [1]}, registry=registry, on="proceses")
    with pytest.raises(DefinitionError, match=r"on\.unreachable"):
        agf.start("main", {"xs": [1]}, registry=registry, on="tcp://127.0.0.1:9")


def test_resources_need_workers_that_have_them(registry: agf.Registry) -> None:
    agf.tool(lambda x: x, name="process", resources={"gpu": 1}, registry=registry)
    with pytest.raises(DefinitionError) as raised:
        agf.run("main", {"xs": [1]}, registry=registry, on="processes:1")
    assert raised.value.code == "on.resources"
    assert "tool 'process' needs 1 gpu, and no worker of 1 process has it" in str(raised.value)
    assert "dask worker ADDRESS --resources gpu=1; or remove resources= from the tool" in str(raised.value)
    agf.tool(lambda x: x, name="process", registry=registry)
    with pytest.raises(DefinitionError) as raised:
        agf.run("main", {"xs": [1]}, registry=registry, on=Workers("processes:1", resources={"disk": 2}))
    assert "each call needs 2 disk, and no worker of 1 process has it" in str(raised.value)
    assert "--resources disk=2; or remove resources= from agf.Workers" in str(raised.value)
    agf.tool(lambda x: x, name="process", resources={"gpu": 1}, registry=registry)
    assert agf.run("main", {"xs": [1]}, registry=registry, on="here").output == [1]


@pytest.mark.parametrize("resources", [{"gpu": 0}, {"gpu": "1"}, {1: 1}, {"gpu": True}, 5, "gpu", ["gpu"]])
def test_resources_are_names_and_numbers(resources: Any, registry: agf.Registry) -> None:
    with pytest.raises(TypeError, match="resources must be a mapping of names to numbers above 0"):
        agf.tool(lambda x: x, name="f", resources=resources, registry=agf.Registry())
    with pytest.raises(DefinitionError, match="resources must be a mapping of names to numbers above 0"):
        agf.run("main", {"xs": [1]}, registry=registry, on=agf.Workers("processes:1", resources=resources))


def test_a_setup_that_is_not_a_function_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="setup must be a function without parameters, got int"):
        agf.Workers("processes:1", setup=3)  # type: ignore[arg-type]


def test_setup_runs_once_in_each_process_and_its_failure_is_that_of_the_calls(registry: agf.Registry) -> None:
    def count() -> None:
        import builtins

        builtins.agf_setups = getattr(builtins, "agf_setups", 0) + 1  # type: ignore[attr-defined]

    def setups(x: int) -> int:
        import builtins

        return int(builtins.agf_setups)  # type: ignore[attr-defined]

    def fail() -> None:
        raise OSError("no model")

    agf.tool(setups, name="process", registry=registry)
    on = Workers("processes:1", setup=count)
    runs = [agf.run("main", {"xs": [1, 2, 3]}, registry=registry, on=on) for _ in range(2)]
    assert [run.output for run in runs] == [[1, 1, 1], [1, 1, 1]]
    failed = agf.run("main", {"xs": [1, 2]}, registry=registry, on=Workers("processes:1", setup=fail))
    assert {failure.error.code for failure in failed.progress.failures} == {"step.setup-failed"}  # type: ignore[attr-defined]
    error = failed.progress.failures[0].error
    assert "the setup of a worker failed: OSError: no model" in str(error)
    assert "in fail" in str(error.__cause__)
    assert str(error.__cause__).count('File "') == 1, "the frames of the setup alone"


def test_the_manifest_has_no_on_and_a_run_resumes_anywhere(
    registry: agf.Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(current, "settings", Settings(journal=str(tmp_path / "runs.sqlite")))
    log = tmp_path / "broken"
    log.touch()

    def process(x: int) -> int:
        import os

        if x == 2 and os.path.exists(broken):
            raise OSError("not yet")
        return os.getpid()

    broken = str(log)
    agf.tool(process, registry=registry)
    agf.define(FAN.replace("continue", "abort"), registry=registry)
    first = agf.run("main", {"xs": [1, 2, 3]}, registry=registry, on="processes:1", raises=False)
    assert first.status == "error"
    assert b"processes:1" not in (tmp_path / "runs.sqlite").read_bytes()
    log.unlink()
    resumed = agf.resume(first.run_id, registry=registry, on="here")
    assert resumed.status == "ok"
    assert resumed.output[1] == os.getpid()


COMMAND = """
import os
from agf_magics import tool

@tool
def process(x: int) -> int:
    return os.getpid()
"""


def test_the_command_line_has_on(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(COMMAND)
    (tmp_path / "main.yaml").write_text(FAN)
    (tmp_path / "input.json").write_text(json.dumps({"xs": [1, 2]}))
    command = [sys.executable, "-m", "agf_magics", "run", "main.yaml", "--tools", "tools.py", "--input", "input.json"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(agf.__file__).parents[1]), *sys.path])}

    def call(on: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, "--quiet", "--on", on], cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    good = call("processes:1")
    assert len(set(json.loads(good.stdout))) == 1, good.stderr
    bad = call("proceses")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "'proceses' is neither a word nor an address [on.unknown]" in bad.stderr
