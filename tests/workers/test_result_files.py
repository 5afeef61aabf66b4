"""Large results of processes of this machine come in a file: of the kernel, or of the worker where there is no room in
memory. It is gone when it is read."""

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

from agf_magics.workers import call_queue
from agf_magics.workers.backends.processes import Processes
from agf_magics.workers.sending import file_folders
from agf_magics.workers.sending.result_files import ResultFile, unpacked
from tests.workers.fans import run_fan

N = 500_000


@pytest.fixture(scope="module", params=["in memory", "on the disk"])
def processes(request: pytest.FixtureRequest) -> Iterator[Processes]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "on the disk":
            patch.setattr(file_folders, "ROOM", 1 << 80)
        found = Processes(2)
        found.folder()
        yield found
        found.close()


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

    class Fit:  # which only cloudpickle can send
        weights = np.arange(500_000) * x

    return Fit


def dates(x: int) -> Any:
    import numpy as np

    return (np.arange(500_000) * x).view("M8[ms]")


def mixed(x: int) -> Any:
    import numpy as np

    return {"arrays": [np.arange(500_000) * x, np.arange(500_000) * 2, np.arange(3)], "small": x}


def are_equal(some: list[Any], others: list[Any]) -> bool:
    return len(some) == len(others) and all(np.array_equal(one, other) for one, other in zip(some, others, strict=True))


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
def test_a_large_result_comes_back_as_it_is(
    work: Callable[[int], Any], processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More than a pipe may bring.
    monkeypatch.setattr(call_queue, "RESULT", 100_000)
    run = run_fan(work, [1, 2, 3], processes)
    assert run.status == "ok", run.error
    assert all(SAME[work](value, x) for value, x in zip(run.output, (1, 2, 3), strict=True))
    assert os.listdir(processes.folder()) == []


def large(x: int) -> Any:
    import numpy as np

    return {"array": np.arange(2_000_000) * x, "text": str(x) * 3_000_000}


def test_a_result_that_is_mapped_is_as_any_other(processes: Processes) -> None:
    run = run_fan(large, [1, 2, 3], processes)
    for x, value in zip((1, 2, 3), run.output, strict=True):
        assert value["text"] == str(x) * 3_000_000
        assert value["array"].flags.writeable
        value["array"] += 1
        assert np.array_equal(value["array"], np.arange(2_000_000) * x + 1)


def test_what_a_lost_worker_has_written_is_removed(processes: Processes) -> None:
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
"""Finds the file of the chunk that is being pickled, as no tool does by accident."""

TAMPERS = {
    "cut": "os.truncate(path, 10)",
    "gone": "path.unlink()",
    "a link": "path.unlink(); path.symlink_to('/etc/hostname')",
    "a pipe": "path.unlink(); os.mkfifo(path)",
    "a folder": "path.unlink(); path.mkdir()",
}
"""The last ones are for a file with a name."""


def tampering(folder: str, code: str) -> Callable[[int], Any]:
    """A tool whose result does something to its file after the first buffer."""
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
def test_a_file_that_is_not_what_was_written_is_not_read(tamper: str, processes: Processes) -> None:
    if tamper != "cut" and processes.folder().startswith("/dev/shm"):
        pytest.skip("it has no name")
    run = run_fan(tampering(processes.folder(), TAMPERS[tamper]), [1], processes)
    assert run.error.code == "step.unsent-result"
    assert "cannot read the result" in str(run.error)
    for left in Path(processes.folder()).iterdir():
        left.rmdir()


LATER = {
    "longer": "os.truncate(path, 100_000_000)",
    "kept open": "os.kept = os.open(path, os.O_RDWR)",
    "kept as a map": "import mmap; os.kept = mmap.mmap(os.open(path, os.O_RDWR), 0)",
}
"""What may be done to the file, so that the value is right all the same."""

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
def test_nobody_changes_a_result_that_is_here(tamper: str) -> None:
    """A process that is cut off from the memory of a map is ended: the kernel must not be."""
    processes = Processes(1)
    try:
        run = run_fan(tampering(processes.folder(), LATER[tamper]), [1], processes)
        code = WRITE

        def write(x: int) -> Any:
            exec(code if x else "pass", {})
            return x

        kept = tamper.startswith("kept")
        assert run_fan(write, [int(kept)], processes).output == [int(kept)]
        assert np.array_equal(run.output[0][0], np.arange(2_000_000))
    finally:
        processes.close()


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
def test_an_answer_that_is_none_is_refused(packed: str, tmp_path: Path) -> None:
    (tmp_path / "results").write_bytes(b"abc")
    with pytest.raises((ValueError, TypeError, OSError, IndexError, EOFError, pickle.UnpicklingError)):
        unpacked(WRONG[packed], ResultFile(f"{tmp_path}/", is_alone=True))
