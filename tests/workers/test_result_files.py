"""Large results of processes of this machine come as files, which are gone when they are read."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from agf_magics.workers import call_queue
from agf_magics.workers.backends.processes import Processes
from agf_magics.workers.sending.result_files import unpacked
from tests.workers.fans import run_fan

N = 500_000


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
def test_a_file_that_is_not_what_was_written_is_not_read(tamper: str, processes: Processes) -> None:
    folder, code = processes.folder(), TAMPERS[tamper]

    def work(x: int) -> Any:
        import numpy as np

        class Tampers:
            def __reduce__(self) -> Any:
                import os
                import pathlib

                for path in pathlib.Path(folder).iterdir():
                    exec(code, {"path": path, "os": os})
                return list, ()

        return [np.arange(500_000), Tampers()]

    run = run_fan(work, [1], processes)
    assert run.error.code == "step.unsent-result"
    assert "cannot read the result" in str(run.error)
    for left in Path(folder).iterdir():
        left.rmdir()


WRONG: dict[str, Any] = {
    "no parts": (),
    "a path": (b"", "/etc/hostname", [3]),
    "no numbers": (b"", 0, ["3"]),
    "a number below zero": (b"", 0, [-1]),
    "no list": (b"", 0, 3),
    "no files": (b"", 0, []),
    "a text": "text",
}


@pytest.mark.parametrize("packed", WRONG)
def test_an_answer_that_is_none_is_refused(packed: str, tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(b"abc")
    with pytest.raises((ValueError, TypeError, OSError, IndexError, EOFError, pickle.UnpicklingError)):
        unpacked(WRONG[packed], f"{tmp_path}/")
