"""Workers in a notebook: `--on` in the lines of magics, `%config AgfMagics.on`, and `%workers`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from agf_magics.notebook.magics.workers import list_workers
from agf_magics.workers.backends.status import BackendStatus, WorkerStatus
from agf_magics.workers.on import find_backend
from agf_magics.workers.started_backends import started

if TYPE_CHECKING:
    from .conftest import Shell

CELL = """%%pipeline --run --out r --quiet{}
pipeline: where
steps:
- for_each:
    items: [1, 2]
    on_error: abort
    do: {{tool: {{name: process, args: {{x: !expr item}}}}}}
    collect: {{transform: {{value: pipe}}}}"""
TOOL = "import os\nfrom agf_magics import tool\n@tool\ndef process(x: int) -> int:\n    return os.getpid()"


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    started.close()


def pids(shell: Shell) -> set[int]:
    return set(shell.names["r"].output)


def text(result: object) -> str:
    return str(result.outputs[0]["text/plain"])  # type: ignore[attr-defined]


def test_on_is_an_option_of_a_cell_and_of_a_line_and_workers_are_listed_and_closed(shell: Shell) -> None:
    shell.good(TOOL)
    shell.good(CELL.format(" --on processes:1"))
    (pid,) = pids(shell)
    assert pid != os.getpid()
    shell.good("%run_pipeline where --on processes:1 --out r --quiet")
    assert pids(shell) == {pid}
    shell.good("from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)")
    shell.good("%run_pipeline where --on pool --out r --quiet")
    assert pids(shell) == {os.getpid()}
    assert f"process {pid}" in text(shell.good("%workers"))
    shell.good("%workers --restart")
    shell.good("%run_pipeline where --on processes:1 --out r --quiet")
    assert pids(shell) not in ({pid}, {os.getpid()})
    assert shell.good("%workers --close").out == "closed 1 worker backend\n"
    assert "this process has used no workers" in text(shell.good("%workers"))


def test_a_setting_is_the_default_of_all_runs_and_here_turns_it_off(shell: Shell) -> None:
    shell.good(TOOL)
    shell.good("%config AgfMagics.on = 'processes:1'")
    shell.good(CELL.format(""))
    assert pids(shell) != {os.getpid()}
    shell.good(CELL.format(" --on here"))
    assert pids(shell) == {os.getpid()}
    result = shell.run("%config AgfMagics.on = 'proceses'")
    assert "AgfMagics.on must be processes, processes:4, dask" in result.out


def test_a_failure_on_a_worker_has_the_frames_of_the_cell(shell: Shell) -> None:
    shell.good("def inner(x):\n    raise KeyError(x)")
    shell.good("from agf_magics import tool\n@tool\ndef process(x: int) -> int:\n    return inner(x)")
    result = shell.run(CELL.format(" --on processes:1"))
    assert "StepError: tool 'process' failed: KeyError: 1 [step.tool-failed]" in result.out
    frames = result.out[result.out.index("On the worker:") :]
    assert re.search(r"Cell In\[[0-9]+\], line 4, in process\n    return inner\(x\)\n", frames)
    assert re.search(r"Cell In\[[0-9]+\], line 2, in inner\n    raise KeyError\(x\)\n", frames)
    assert "agf_magics" not in frames


@pytest.mark.parametrize("line", ["--on pol", "--on tcp://127.0.0.1:9"])
def test_a_mistake_in_on_points_at_its_word(shell: Shell, line: str) -> None:
    shell.good(TOOL)
    result = shell.run(CELL.format(f" {line}"))
    assert not result.ok
    assert f"{'^' * len(line.split()[1])}\n" in result.out


def test_unloading_ends_the_processes(shell: Shell) -> None:
    shell.good(TOOL)
    shell.good(CELL.format(" --on processes:1"))
    backend = find_backend("processes:1")
    shell.good("%unload_ext agf_magics")
    assert backend is not None
    assert getattr(backend, "closed", False)
    assert not list(started)


def test_the_list_escapes_names_and_links_only_to_web_addresses() -> None:
    worker = WorkerStatus("<b>one</b>", 2, 1, 10_000_000, 20_000_000, {}, {"<i>": 1})
    status = BackendStatus("<s>", 2, 1, (worker,), "http://127.0.0.1:8787/status?a=\"'>")
    bundle = list_workers([status, BackendStatus("b", 1, None, (), "javascript:alert(1)")])
    assert "<b>" not in bundle["text/html"]
    assert "<i>" not in bundle["text/html"]
    assert "<s>" not in bundle["text/html"]
    assert "javascript" not in bundle["text/html"]
    assert "10 MB of 20 MB" in bundle["text/plain"]
    assert ">dashboard<" in bundle["text/html"]


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("https://hub.example/user/ada/proxy/8787/status", True),
        ("/user/ada/proxy/8787/status", True),
        ("//elsewhere.example/status", False),
        ("/\\elsewhere.example/status", False),
        ("javascript:alert(1)", False),
        ("", False),
    ],
)
def test_the_dashboard_is_a_web_address_or_a_path_of_the_server(link: str, expected: bool) -> None:
    bundle = list_workers([BackendStatus("b", 1, None, (), link)])
    assert (f'<a href="{link}"' in bundle["text/html"]) == (link in bundle["text/plain"] and link != "") == expected
