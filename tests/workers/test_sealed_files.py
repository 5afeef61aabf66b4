"""The result of a worker is passed to other workers by the name of its file, as long as the kernel has not changed
it."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

import agf_magics as agf
from agf_magics.workers.backends.processes import Processes
from agf_magics.workers.sending.sealed_files import MemoryFile, create, find, sees_changes
from tests.engine import kept
from tests.slow import slow_but
from tests.workers.fans import run_fan

pytestmark = pytest.mark.skipif(sys.platform != "linux" or not sees_changes(), reason="files in memory")

N = 1_500_000


@pytest.fixture
def processes() -> Iterator[Processes]:
    workers = Processes(2)
    yield workers
    workers.close()


def open_files() -> int:
    """The descriptors of sealed files in this process."""
    gc.collect()
    count = 0
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            count += "memfd:agf-workers" in os.readlink(f"/proc/self/fd/{number}")
    return count


def are_open(count: int) -> bool:
    """Whether this many files are open, once the threads of the workers have released their last calls."""
    for _ in range(200):
        if open_files() == count:
            return True
        time.sleep(0.02)
    return False


def mapped(array: Any) -> Any:
    """An array in the map of a sealed file."""
    file = create()
    assert file is not None
    os.write(file.descriptor, array.tobytes())
    whole = file.map(array.nbytes)
    assert whole is not None
    return np.frombuffer(memoryview(whole), array.dtype)


# --- changed values ---

SEEN: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "nothing": (lambda a: a, True),
    "read": (lambda a: (a.sum(), a)[1], True),
    "a slice": (lambda a: a[1000:-1000], True),
    "one element": (lambda a: (a.__setitem__(N // 2, 7), a)[1], False),
    "the first element": (lambda a: (a.__setitem__(0, 7), a)[1], False),
    "the last element": (lambda a: (a.__setitem__(-1, 7), a)[1], False),
    "written, but the same": (lambda a: (a.__setitem__(3, a[3]), a)[1], False),
    "what is beside it": (lambda a: (a.__setitem__(0, 7), a[5_000:])[1], True),
    "a copy": (lambda a: a.copy(), False),
    "sorted here": (lambda a: (a[::-1].sort(), a)[1], False),
}


@pytest.mark.parametrize("case", SEEN)
def test_a_part_of_a_map_is_found_as_long_as_it_was_not_written(case: str) -> None:
    change, is_found = SEEN[case]
    array = change(mapped(np.arange(N)))
    part = find(memoryview(array).cast("B"))
    assert (part is not None) == is_found
    if part is not None:
        data = Path(part.path).read_bytes()
        assert len(data) == part.size
        assert data[part.start : part.start + part.length] == array.tobytes()


def test_a_forked_process_has_the_files_too() -> None:
    array = mapped(np.arange(N))
    child = os.fork()
    if not child:
        part = find(memoryview(array).cast("B"))
        os._exit(0 if part is not None and Path(part.path).stat().st_size == N * 8 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_file_is_closed_with_its_last_map() -> None:
    before = open_files()
    array = mapped(np.arange(N))
    part = array[10:20]
    del array
    assert open_files() > before
    del part
    assert open_files() == before


def test_a_file_that_is_too_short_is_not_mapped() -> None:
    file = create()
    assert file is not None
    os.write(file.descriptor, bytes(5_000))
    assert file.map(9_000) is None


def test_there_are_not_more_files_than_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (320, limits[1]))
    try:
        files = [create() for _ in range(30)]
        assert [type(file) for file in files].count(MemoryFile) == 20
        files.clear()
        assert create() is not None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_python_that_was_built_for_an_older_system_has_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    assert find(memoryview(mapped(np.arange(N))).cast("B")) is not None


# --- chains of calls ---

CHAIN = """
pipeline: chain
steps:
- tool: {name: load, output: one}
- tool: {name: touch, args: {value: !expr one}, output: two}
- tool: {name: read, args: {value: !expr two}}
"""


def load_frame() -> Any:
    import numpy as np
    import pandas as pd

    return pd.DataFrame(np.arange(3_000_000.0).reshape(-1, 3), columns=list("abc"))


def load_columns() -> Any:
    import numpy as np
    import pandas as pd

    return pd.DataFrame({"a": np.arange(N), "b": np.arange(N) * 0.5, "c": pd.date_range("2020", periods=N, freq="s")})


def load_arrays() -> Any:
    import numpy as np

    return {"x": np.arange(N), "y": [np.arange(N) * 2, np.arange(N) * 3], "name": "a"}


def load_arrow() -> Any:
    import numpy as np
    import pyarrow as pa

    return pa.table({"a": np.arange(N), "b": np.arange(N) * 0.5, "c": [""] * N})


def set_cell(value: Any) -> Any:
    value.iloc[7, 0] = -1
    return value


def set_memory(value: Any) -> Any:
    value["b"].array[3] = -1
    return value


def set_array(value: Any) -> Any:
    value["y"][1][5] = -1
    return value


CHAINS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], int]] = {
    "a frame as it is": (load_frame, lambda value: value, 0),
    "columns as they are": (load_columns, lambda value: value, 0),
    "arrays as they are": (load_arrays, lambda value: value, 0),
    "a table of Arrow as it is": (load_arrow, lambda value: value, 0),
    "an array of several": (load_arrays, lambda value: value["y"][0], 0),
    "two columns": (load_columns, lambda value: value[["c", "a"]], 0),
    "the first rows": (load_columns, lambda value: value.iloc[: N // 2], 0),
    "other names": (load_frame, lambda value: value.rename(columns={"a": "z"}), 0),
    "another column": (load_columns, lambda value: value.assign(d=value["a"] * 2), 1),
    "a cell": (load_frame, set_cell, 2),
    "dates": (load_columns, lambda value: value["c"], 0),
    "a cell of one column": (load_columns, set_cell, 1),
    "the memory of a column": (load_columns, set_memory, 1),
    "one array of several": (load_arrays, set_array, 1),
    "doubled": (load_frame, lambda value: value * 2, 2),
}
"""The value that a worker returns, the change that the kernel makes, and the largest number of columns or arrays of 12
MB that are written afterwards. A frame with one block is written completely."""


def flat(value: Any) -> list[Any]:
    """All arrays in a value."""
    if isinstance(value, dict):
        return [array for part in value.values() for array in flat(part)]
    if isinstance(value, list):
        return [array for part in value for array in flat(part)]
    return [value]


@pytest.mark.parametrize("journal", ["without a journal", "with a journal"])
@pytest.mark.parametrize(
    "case", slow_but(["a frame as it is", "a cell", "the memory of a column", "one array of several"], CHAINS)
)
def test_a_worker_gets_the_current_value_of_the_kernel(
    case: str, journal: str, processes: Processes, tmp_path: Path
) -> None:
    load, touch, count = CHAINS[case]
    registry, folder = agf.Registry(), processes.folder()

    def read(value: Any) -> Any:
        import os
        import pathlib

        return value, sum(os.path.getsize(path) for path in pathlib.Path(folder).iterdir())

    agf.tool(load, name="load", registry=registry, where="worker")
    agf.tool(touch, name="touch", registry=registry)
    agf.tool(read, registry=registry, where="worker")
    with kept.journal_in(tmp_path) if journal == "with a journal" else contextlib.nullcontext():
        run = agf.run(CHAIN, registry=registry, on=processes)
    received, written = run.output
    expected = touch(load())
    for first, second in zip(flat(received), flat(expected), strict=True):
        if isinstance(second, pd.DataFrame | pd.Series | pa.Table):
            assert first.equals(second)
        else:
            assert np.array_equal(first, second)
    assert written < (count + 0.1) * N * 8
    assert os.listdir(folder) == []


SHARED = """
pipeline: shared
steps:
- tool: {name: load, output: one}
- for_each:
    over: ctx.xs
    on_error: abort
    do: {tool: {name: weigh, args: {value: !expr one, x: !expr item}}}
    collect: {transform: {value: pipe}}
"""


def test_forty_calls_get_the_file_of_a_result(processes: Processes) -> None:
    registry, folder = agf.Registry(), processes.folder()

    @agf.tool(registry=registry)
    def weigh(value: Any, x: int) -> Any:
        import os
        import pathlib

        value.iloc[0, 0] += x  # changes only its own copy
        return value.iloc[0, 0], sum(os.path.getsize(path) for path in pathlib.Path(folder).iterdir())

    agf.tool(load_frame, name="load", registry=registry, where="worker")
    run = agf.run(SHARED, {"xs": list(range(40))}, registry=registry, on=processes)
    assert [value for value, _ in run.output] == list(range(40))
    assert max(size for _, size in run.output) < 100_000
    assert run.stores["one"].equals(load_frame())


def test_a_call_that_is_sent_again_gets_the_file_again(processes: Processes, tmp_path: Path) -> None:
    registry, mark = agf.Registry(), str(tmp_path / "mark")

    @agf.tool(registry=registry, where="worker")
    def read(value: Any) -> Any:
        import os
        import pathlib
        import signal

        value["x"] += 1
        if not pathlib.Path(mark).exists():
            pathlib.Path(mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return int(value["x"][1])

    agf.tool(load_arrays, name="load", registry=registry, where="worker")
    agf.tool(lambda value: value, name="touch", registry=registry)
    run = agf.run(CHAIN, registry=registry, on=processes)
    assert (run.output, int(run.stores["one"]["x"][1])) == (2, 1)


def test_a_result_of_an_earlier_run_goes_by_its_file_too(processes: Processes) -> None:
    before = open_files()
    (value,) = run_fan(lambda x: load_arrays(), [1], processes).output
    assert find(memoryview(value["x"]).cast("B")) is not None
    assert run_fan(lambda x: int(x["x"][-1]), [value, value], processes).output == [N - 1] * 2
    del value
    assert are_open(before)


def test_no_file_is_left(processes: Processes) -> None:
    before = open_files()
    outputs = [run_fan(lambda x: load_arrays(), [1, 2, 3], processes).output]
    assert open_files() > before
    outputs.clear()
    assert are_open(before), "also of the threads that wait for calls"
    assert os.listdir(processes.folder()) == []
