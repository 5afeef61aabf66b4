"""The folders for the files of values are removed soon after the end of their process, however the process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agf_magics.workers.sending import file_folders
from agf_magics.workers.sending.file_folders import FileFolders, remove_dead

KERNEL = """
import sys
from pathlib import Path
import numpy as np
from agf_magics.workers.sending import file_folders
from tests.workers.fans import run_fan
file_folders.IN_MEMORY, pipe_path = sys.argv[1:]

def work(x):
    with open(pipe_path, "w") as pipe:
        pipe.write(str(len(x)))
    __import__("threading").Event().wait()

run_fan(work, [np.arange(300_000)], "processes:1")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_the_folder_of_a_killed_kernel_is_removed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)
    base = tmp_path / "memory"
    base.mkdir()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "kernel.py"), str(base), str(pipe)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as kernel:
        assert pipe.read_text() == "300000"
        remove_dead(str(base))
        (folder,) = base.iterdir()
        assert any(folder.joinpath("files").iterdir()), "it is in use"
        kernel.send_signal(signal.SIGKILL)
    monkeypatch.setattr(file_folders, "IN_MEMORY", str(base))
    folders = FileFolders()
    new_folder = folders.folder()
    assert [str(path / "files") for path in base.iterdir()] == [new_folder]
    folders.close()
    assert not list(base.iterdir())


def test_other_folders_stay(tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "files").mkdir(parents=True)
    (other / "1-abcdefabcdef").write_text(".")
    (tmp_path / "agf-workers-1").symlink_to(other)
    (tmp_path / "agf-workers-2").write_text("a file")
    (tmp_path / "agf-workers-3" / "files").mkdir(parents=True)  # another process is making it
    remove_dead(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "agf-workers-1",
        "agf-workers-2",
        "agf-workers-3",
        "other",
    ]
    assert (other / "1-abcdefabcdef").exists()


def test_without_room_in_memory_the_folder_is_a_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_folders, "IN_MEMORY", str(tmp_path))
    monkeypatch.setattr(file_folders, "ROOM", 1 << 80)
    folders = FileFolders()
    try:
        assert not folders.folder().startswith(str(tmp_path))
        monkeypatch.setattr(file_folders, "ROOM", 0)
        assert folders.folder().startswith(str(tmp_path))
    finally:
        folders.close()
