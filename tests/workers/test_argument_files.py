"""Large arguments of workers on this machine are sent as files, wherever they are in a call, and no worker changes
them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

import agf_magics as agf
from agf_magics.workers.backends.processes import Processes
from agf_magics.workers.sending.argument_files import ArgumentFiles
from agf_magics.workers.sending.functions import Program
from agf_magics.workers.sending.unsendable import STAY
from tests.slow import slow_but
from tests.workers.fans import FAN, run_fan
from tests.workers.in_process import InProcess

N = 300_000


class Point:
    """A class of a module that a worker cannot import."""

    def __init__(self, values: Any) -> None:
        self.values = values


def first_of(x: Any) -> Any:
    return x[0]


LARGE: dict[str, Any] = {
    "bytes": b"a" * N,
    "a text": "a" * N * 4,
    "an array": np.arange(N),
    "arrays in a list": [np.arange(N)] * 3,
    "a slice with gaps": np.arange(2 * N)[::2],
    "dates": np.arange(N).view("M8[s]"),
    "durations in a table": [np.arange(N).view("m8[ms]").reshape(-1, 3).T],
    "dates with gaps": np.arange(2 * N).view("M8[s]")[::2],
    "a table of Arrow without texts": {0: pa.table({"a": np.arange(N), "b": [""] * N})},
    "a frame in a mapping": {0: pd.DataFrame({"a": np.arange(N), "b": ["word"] * N})},
    "a frame with objects of the notebook": {0: pd.DataFrame({"a": [Point(i) for i in range(N)]})},
    "an array in an object of the notebook": [Point(np.arange(N))],
}


@pytest.mark.parametrize("case", slow_but(["a text", "an array", "dates", "a frame in a mapping"], LARGE))
def test_a_large_argument_arrives_unchanged(case: str, processes: Processes) -> None:
    def work(x: Any) -> Any:
        return getattr(x[0], "values", x[0])

    argument = LARGE[case]
    run = run_fan(work, [argument, argument], processes)
    assert run.status == "ok", run.error
    expected = getattr(argument[0], "values", argument[0])
    for received in run.output:
        if case == "a frame with objects of the notebook":
            assert [point.values for point in received[:3, 0]] == [0, 1, 2]
        else:
            assert np.array_equal(received, expected)
    assert os.listdir(processes.folder()) == []


CHAIN = """
pipeline: chain
steps:
- tool: {name: load, output: one}
- tool: {name: clean, args: {frame: !expr one}, output: two}
- tool: {name: total, args: {frames: !expr "[one, two]"}}
"""


@pytest.mark.parametrize("on", ["processes", "here"])
def test_a_call_on_a_worker_has_a_copy_of_its_own(on: str, processes: Processes) -> None:
    """As on a worker of joblib or Dask, and as a call in the kernel has a copy of lists and mappings."""
    registry, folder = agf.Registry(), processes.folder()

    @agf.tool(registry=registry, where="worker")
    def load() -> Any:
        return np.ones(300_000)

    @agf.tool(registry=registry, where="worker")
    def clean(frame: Any) -> Any:
        import os

        frame *= 2  # changes only its own copy
        return frame, os.listdir(folder)

    @agf.tool(registry=registry, where="worker")
    def total(frames: Any) -> Any:
        return float(frames[0].sum()), float(frames[1][0].sum())

    run = agf.run(CHAIN, registry=registry, on=processes if on == "processes" else None)
    assert run.output == [300_000.0 if on == "processes" else 600_000.0, 600_000.0]
    assert bool(run.stores["two"][1]) == (on == "processes"), "the argument was a file"
    assert os.listdir(folder) == []


def test_a_call_does_not_change_the_arguments_of_others_in_its_chunk(processes: Processes) -> None:
    def work(x: int, frame: Any) -> float:
        frame["a"].array[0] += x
        return float(frame["a"].iloc[0])

    registry, frame = agf.Registry(), pd.DataFrame({"a": np.zeros(300_000)})
    agf.tool(work, registry=registry)
    text = FAN.format(on_error="abort").replace("x: !expr item", "x: !expr item, frame: !expr ctx.frame")
    run = agf.run(text, {"xs": list(range(1, 41)), "frame": frame}, registry=registry, on=processes)
    assert run.output == [float(x) for x in range(1, 41)]
    assert frame["a"].iloc[0] == 0


TAMPERS = {
    "gone": "path.unlink()",
    "cut": "os.truncate(path, 10)",
    "longer": "os.truncate(path, 10_000_000)",
    "a link": "path.unlink(); path.symlink_to('/etc/hostname')",
    "a pipe": "path.unlink(); os.mkfifo(path)",
    "a folder": "path.unlink(); path.mkdir()",
}


@pytest.mark.skipif(os.name != "posix", reason="pipes and links")
@pytest.mark.parametrize("tamper", TAMPERS)
def test_a_changed_file_is_not_read(tamper: str, tmp_path: Path) -> None:
    class Tampered(InProcess):
        def submit(self, run: Any, order: Any, done: Any) -> Any:
            for path in tmp_path.iterdir():
                exec(TAMPERS[tamper], {"path": path, "os": os})
            return super().submit(run, order, done)

        def folder(self) -> str:
            return str(tmp_path)

    run = run_fan(first_of, [np.arange(N)], Tampered())
    assert run.error is not None
    diagnostic = run.error.diagnostic
    assert (diagnostic.code, diagnostic.hint) == ("step.unsendable", STAY)
    assert "cannot read 'work' or its arguments" in diagnostic.message


def test_without_room_for_a_file_the_bytes_are_sent(tmp_path: Path) -> None:
    class Full(InProcess):
        def folder(self) -> str:
            return str(tmp_path / "missing")

    backend = Full()
    run = run_fan(first_of, [np.full(N, 7)], backend)
    assert run.output == [7]
    assert len(backend.sent[0]) > N * 8


def test_a_file_is_removed_with_its_value(tmp_path: Path) -> None:
    files, program = ArgumentFiles(f"{tmp_path}/"), Program(first_of)
    arrays = [np.full(N, number) for number in range(3)]
    data, sizes, held = files.packed([{"x": array} for array in (*arrays, arrays[0])], program)
    assert sum(sizes) == len(data)
    assert len(data) < 1000
    assert len(list(tmp_path.iterdir())) == 3
    del arrays[0], held
    assert len(list(tmp_path.iterdir())) == 2
    files.close()
    assert not list(tmp_path.iterdir())
