"""A block of late imports in one thread does not affect the imports of other threads."""

from __future__ import annotations

import importlib
import sys
import threading
from pathlib import Path

import pytest

from agf_magics.compat.imports import FolderFinder, installed_only


def test_another_thread_finds_its_module_while_a_block_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The block ends while the other thread's import goes through the finders."""
    (tmp_path / "late_module.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    entered, leave = threading.Event(), threading.Event()

    def block() -> None:
        with installed_only():
            entered.set()
            leave.wait()

    other = threading.Thread(target=block)
    other.start()
    entered.wait()

    class Ends:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "late_module":
                leave.set()
                other.join()

    path_finder = sys.meta_path.index(FolderFinder)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path[:path_finder], Ends(), *sys.meta_path[path_finder:]])
    assert importlib.import_module("late_module").value == 7
    monkeypatch.delitem(sys.modules, "late_module")


def test_an_inner_block_leaves_the_outer_one_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of_the_folder.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with installed_only():
        with installed_only():
            pass
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("of_the_folder")
    importlib.import_module("of_the_folder")
    monkeypatch.delitem(sys.modules, "of_the_folder")
