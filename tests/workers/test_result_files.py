"""Large results of processes on this machine come back in a file, which is gone after it was read.

The file belongs to the kernel, or to the worker if there is no room in memory.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from agf_magics.workers import call_queue, chunk
from agf_magics.workers.backends.processes import Processes
from agf_magics.workers.sending import file_folders
from agf_magics.workers.sending.functions import Program
from agf_magics.workers.sending.result_files import ResultFile, prefix_in, remove_files, unpacked
from tests.workers.fans import run_fan

N = 500_000


@pytest.fixture(scope="module", params=["in memory", "on the disk"])
def processes(request: pytest.FixtureRequest) -> Iterator[Processes]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "on the disk":
            # asks for more room than any memory has
            patch.setattr(file_folders, "ROOM", 1 << 80)
        backend = Processes(2)
        yield backend
        backend.close()


def array(x: int) -> Any:
    import numpy as np

    return np.arange(500_000) * x


def frame(x: int) -> Any:
    import numpy as np
    import pandas as pd

    return pd.DataFrame({"a": np.arange(500_000) * x, "b": ["word"] * 500_000, "c": np.arange(500_000) * 0.5})


def polars_frame(x: int) -> Any:
    import numpy as np
    import polars as pl

    return pl.DataFrame({"a": np.arange(500_000) * x})


def text(x: int) -> Any:
    return str(x) * 3_000_000


def of_the_notebook(x: int) -> Any:
    import numpy as np

    class Fit:  # only cloudpickle can send this class
        weights = np.arange(500_000) * x

    return Fit


def dates(x: int) -> Any:
    import numpy as np

    return (np.arange(500_000) * x).view("M8[ms]")


def mixed(x: int) -> Any:
    import numpy as np

    return {"arrays": [np.arange(500_000) * x, np.arange(500_000) * 2, np.arange(3)], "small": x}


def are_equal(first: list[Any], second: list[Any]) -> bool:
    return len(first) == len(second) and all(
        np.array_equal(first_value, second_value) for first_value, second_value in zip(first, second, strict=True)
    )


SAME: dict[Callable[[int], Any], Callable[[Any, int], bool]] = {
    array: lambda value, x: bool(np.array_equal(value, array(x)) and value.flags.writeable),
    frame: lambda value, x: bool(value.equals(frame(x)) and type(value) is pd.DataFrame),
    polars_frame: lambda value, x: bool(value.equals(polars_frame(x)) and type(value) is pl.DataFrame),
    text: lambda value, x: bool(value == text(x)),
    of_the_notebook: lambda value, x: bool(np.array_equal(value.weights, np.arange(N) * x)),
    dates: lambda value, x: bool(np.array_equal(value, dates(x)) and value.dtype == "M8[ms]" and value.flags.writeable),
    mixed: lambda value, x: value["small"] == x and are_equal(value["arrays"], mixed(x)["arrays"]),
}


@pytest.mark.parametrize("work", SAME, ids=lambda work: work.__name__)
def test_a_large_result_comes_back_unchanged(
    work: Callable[[int], Any], processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The result is larger than a message in a pipe may be.
    monkeypatch.setattr(call_queue, "RESULT", 100_000)
    run = run_fan(work, [1, 2, 3], processes)
    assert run.status == "ok", run.error
    assert all(SAME[work](value, x) for value, x in zip(run.output, (1, 2, 3), strict=True))
    assert os.listdir(processes.folder()) == []


def large(x: int) -> Any:
    import numpy as np

    return {"array": np.arange(2_000_000) * x, "text": str(x) * 3_000_000}


def test_a_mapped_result_is_like_any_other(processes: Processes) -> None:
    run = run_fan(large, [1, 2, 3], processes)
    for x, value in zip((1, 2, 3), run.output, strict=True):
        assert value["text"] == str(x) * 3_000_000
        assert value["array"].flags.writeable
        value["array"] += 1
        assert np.array_equal(value["array"], np.arange(2_000_000) * x + 1)


def test_the_files_of_a_lost_worker_are_removed(processes: Processes) -> None:
    def work(x: int) -> Any:
        import os
        import signal

        import numpy as np

        class Dies:
            def __reduce__(self) -> Any:
                os.kill(os.getpid(), signal.SIGKILL)

        return [np.arange(500_000), Dies()]

    run = run_fan(work, [1], processes)
    assert run.error.code == "step.worker-lost"
    assert os.listdir(processes.folder()) == []


FIND = """
import os, pathlib
paths = list(pathlib.Path(folder).iterdir())
for number in os.listdir("/proc/self/fd") if not paths else ():
    if os.path.exists(f"/proc/self/fd/{number}") and "memfd:agf" in os.readlink(f"/proc/self/fd/{number}"):
        paths.append(pathlib.Path(f"/proc/self/fd/{number}"))
(path,) = paths
"""
"""Code that finds the file of the current chunk, which no tool does by accident."""

TAMPERS = {
    "cut": "os.truncate(path, 10)",
    "gone": "path.unlink()",
    "a link": "path.unlink(); path.symlink_to('/etc/hostname')",
    "a pipe": "path.unlink(); os.mkfifo(path)",
    "a folder": "path.unlink(); path.mkdir()",
}
"""What is done to the file. The last rows are for a file with a name."""


def tampering(folder: str, code: str) -> Callable[[int], Any]:
    """A tool whose result changes its own file after the first buffer."""
    find = FIND

    def work(x: int) -> Any:
        import numpy as np

        class Tampers:
            def __reduce__(self) -> Any:
                exec(find + code, {"folder": folder})
                return list, ()

        return [np.arange(2_000_000) * x, Tampers()]

    return work


@pytest.mark.skipif(sys.platform != "linux", reason="pipes, links and descriptors")
@pytest.mark.parametrize("tamper", TAMPERS)
def test_a_changed_file_is_not_read(tamper: str, processes: Processes) -> None:
    if tamper != "cut" and processes.folder().startswith("/dev/shm"):
        pytest.skip("a file in memory has no name")
    run = run_fan(tampering(processes.folder(), TAMPERS[tamper]), [1], processes)
    assert run.error.code == "step.unsent-result"
    assert "cannot read the result" in str(run.error)
    for file in Path(processes.folder()).iterdir():
        file.rmdir()  # only the case "a folder" leaves one


LATER = {
    "longer": "os.truncate(path, 100_000_000)",
    "kept open": "os.kept = os.open(path, os.O_RDWR)",
    "kept as a map": "import mmap; os.kept = mmap.mmap(os.open(path, os.O_RDWR), 0)",
}
"""Changes of the file that leave the value correct. ``os.kept``: the file, for a later call on the worker (`WRITE`)."""

WRITE = """
import os
try:
    if type(os.kept) is int:
        os.pwrite(os.kept, bytes(8_000), 0)
        os.ftruncate(os.kept, 10)
    else:
        os.kept[:8_000] = bytes(8_000)
except PermissionError:
    pass
"""


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors")
@pytest.mark.parametrize("tamper", LATER)
def test_no_worker_changes_a_result_in_the_kernel(tamper: str) -> None:
    """A process that loses the memory of a map is ended, which must not happen to the kernel."""
    processes = Processes(1)
    try:
        run = run_fan(tampering(processes.folder(), LATER[tamper]), [1], processes)
        code = WRITE

        def write(x: int) -> Any:
            exec(code if x else "pass", {})
            return x

        is_kept = tamper.startswith("kept")
        assert run_fan(write, [int(is_kept)], processes).output == [int(is_kept)]
        assert np.array_equal(run.output[0][0], np.arange(2_000_000))
    finally:
        processes.close()


@pytest.mark.skipif(os.name != "posix", reason="limits of files")
def test_without_room_the_bytes_travel(processes: Processes) -> None:
    def work(x: int) -> Any:
        import resource

        import numpy as np

        # A file may have 3 MB: the first array is in it.
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, before[1]))
        return [np.arange(200_000) * x, np.arange(2_000_000) * x, "a" * 2_000_000]

    (value,) = run_fan(work, [3], processes).output
    assert np.array_equal(value[0], np.arange(200_000) * 3)
    assert np.array_equal(value[1], np.arange(2_000_000) * 3)
    assert value[2] == "a" * 2_000_000
    processes.restart()


def test_a_worker_that_cannot_open_the_file_of_the_kernel_makes_one(processes: Processes) -> None:
    prefix = prefix_in(processes.folder)
    results, program = ResultFile(prefix, is_alone=True), Program(large)
    # The first path cannot be opened: there is no process 0.
    options = {"results": ("/proc/0/fd/0", results.paths[1])}
    marks, packed, *_ = chunk.run(program.pickled, program.digest, *program.dump_each([{"x": 3}]), options)
    value = unpacked(packed[0], results)
    assert (marks, value["text"]) == (chunk.VALUE, "3" * 3_000_000)
    assert np.array_equal(value["array"], np.arange(2_000_000) * 3)
    remove_files(prefix)
    assert os.listdir(processes.folder()) == []


WRONG: dict[str, Any] = {
    "no parts": (),
    "a path": (b"", "/etc/hostname"),
    "no numbers": (b"", [("0", "3")]),
    "a size below zero": (b"", [(0, -1)]),
    "a place below zero": (b"", [(-1, 3)]),
    "more than there is": (b"", [(0, 9)]),
    "no list": (b"", 3),
    "no places": (b"", []),
    "a text": "text",
}


@pytest.mark.parametrize("packed", WRONG)
def test_a_malformed_answer_is_refused(packed: str, tmp_path: Path) -> None:
    (tmp_path / "results").write_bytes(b"abc")
    with pytest.raises((ValueError, TypeError, OSError, IndexError, EOFError, pickle.UnpicklingError)):
        unpacked(WRONG[packed], ResultFile(f"{tmp_path}/", is_alone=True))
