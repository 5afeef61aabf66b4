"""Tests that file__read and file__write use files below the notebook's folder and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agf_magics.catalog import Registry, install
from agf_magics.text.diagnostics import StepError
from tests.processes import script

posix = pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("hunter2")
    place = tmp_path / "notebook"
    place.mkdir()
    return place


@pytest.fixture
def call(folder: Path) -> Callable[..., Any]:
    registry = Registry()
    install(registry, folder=lambda: folder, allow_shell=lambda: False)

    def by_name(name: str, **given: Any) -> Any:
        registered = registry.tools[name]
        return registered.function(**registered.check(given))

    return by_name


FULL = """
import os, resource, signal, sys
from pathlib import Path
from agf_magics.catalog import Registry, install
from agf_magics.text.diagnostics import StepError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
registry = Registry()
install(registry, folder=Path.cwd, allow_shell=lambda: False)
write = registry.tools["file__write"].function
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, resource.RLIM_INFINITY))  # as a disk with this room
if sys.argv[1] == "other":
    del os.posix_fallocate
for size in map(int, sys.argv[2:]):
    try:
        print(write(path="notes.txt", content="x" * size)["bytes"])
    except StepError as error:
        print(error.code)
"""


@posix
@pytest.mark.parametrize("system", ["linux", "other"])
def test_a_file_keeps_its_text_if_the_disk_has_no_room_for_another(system: str, tmp_path: Path) -> None:
    """Other systems do not have all functions that Linux has."""
    notes = tmp_path / "notes.txt"
    notes.write_text("precious " * 100)
    completed = script(FULL, tmp_path, system, "2001", "100000")
    assert (completed.stdout.split(), notes.read_text()) == (["tool.file-write"] * 2, "precious " * 100)
    completed = script(FULL, tmp_path, system, "2000", "3", "2000", "0", "7", "2001")
    assert completed.stdout.split() == ["2000", "3", "2000", "0", "7", "tool.file-write"], completed.stderr
    assert notes.read_text() == "x" * 7


def test_what_is_written_can_be_read(call: Callable[..., Any], folder: Path) -> None:
    text = "größer\r\nsecond\n"
    assert call("file__write", path="verdict.txt", content=text) == {"path": "verdict.txt", "bytes": 17}
    assert (folder / "verdict.txt").read_bytes() == text.encode()
    assert call("file__read", path="verdict.txt") == text
    assert call("file__write", path="./verdict.txt", content="")["bytes"] == 0
    assert call("file__read", path="verdict.txt") == ""


def test_folders_on_the_way_are_made(call: Callable[..., Any], folder: Path) -> None:
    assert call("file__write", path="out/a/b.txt", content="x") == {"path": "out/a/b.txt", "bytes": 1}
    assert (folder / "out" / "a" / "b.txt").read_text() == "x"


def test_a_json_value_is_written_as_json(call: Callable[..., Any], folder: Path) -> None:
    call("file__write", path="report.json", content={"größe": [1, None]})
    assert (folder / "report.json").read_text("utf-8") == '{\n  "größe": [\n    1,\n    null\n  ]\n}\n'


@pytest.mark.parametrize("content", [object(), float("nan"), {"a": object()}, {1: 2}])
def test_what_is_neither_text_nor_json_is_not_written(call: Callable[..., Any], folder: Path, content: Any) -> None:
    with pytest.raises(StepError, match="neither text nor JSON") as caught:
        call("file__write", path="report.json", content=content)
    assert caught.value.code == "tool.file-write"
    assert not list(folder.iterdir())


OUTSIDE = ["../secret.txt", "a/../../secret.txt", "a/..", "..", "/etc/hostname", "//etc/hostname", "../notebook/a.txt"]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("name", ["file__read", "file__write"])
def test_a_path_may_not_lead_out(call: Callable[..., Any], tmp_path: Path, name: str, path: str) -> None:
    with pytest.raises(StepError, match=r"is outside of the notebook's folder") as caught:
        call(name, path=path, **({"content": "x"} if name == "file__write" else {}))
    assert caught.value.code == "tool.file-path"
    assert (tmp_path / "secret.txt").read_text() == "hunter2"


def test_an_absolute_path_is_refused_even_when_it_lies_below(call: Callable[..., Any], folder: Path) -> None:
    (folder / "a.txt").write_text("x")
    with pytest.raises(StepError, match="is outside"):
        call("file__read", path=str(folder / "a.txt"))


@pytest.mark.parametrize("path", ["", "  ", "a\0b", "a\nb", "a\ud800"])
def test_what_is_no_path_is_refused(call: Callable[..., Any], path: str) -> None:
    with pytest.raises(StepError, match="is not a path"):
        call("file__read", path=path)
    with pytest.raises(StepError, match="is not a path"):
        call("file__write", path=path, content="x")


@posix
@pytest.mark.parametrize("target", ["../secret.txt", "inside.txt", "loop"])
def test_a_link_is_refused_wherever_it_leads(
    call: Callable[..., Any], folder: Path, tmp_path: Path, target: str
) -> None:
    (folder / "inside.txt").write_text("inside")
    (folder / "loop").symlink_to(target)
    for refused in (lambda: call("file__read", path="loop"), lambda: call("file__write", path="loop", content="x")):
        with pytest.raises(StepError, match="goes through a symbolic link"):
            refused()
    assert (tmp_path / "secret.txt").read_text() == "hunter2"
    assert (folder / "inside.txt").read_text() == "inside"


@posix
def test_a_path_through_a_linked_folder_is_refused(call: Callable[..., Any], folder: Path, tmp_path: Path) -> None:
    (folder / "up").symlink_to(tmp_path)
    for path in ("up/secret.txt", "up/new.txt", "up/notebook/x.txt"):
        with pytest.raises(StepError, match="goes through a symbolic link"):
            call("file__write", path=path, content="x")
    assert not (tmp_path / "new.txt").exists()


@posix
def test_the_notebooks_folder_itself_may_be_reached_through_a_link(tmp_path: Path, folder: Path) -> None:
    (folder / "a.txt").write_text("x")
    (tmp_path / "link").symlink_to(folder)
    registry = Registry()
    install(registry, folder=lambda: tmp_path / "link", allow_shell=lambda: False)
    assert registry.tools["file__read"].function(path="a.txt") == "x"


def test_a_file_that_is_not_there_is_told_with_the_nearest(call: Callable[..., Any], folder: Path) -> None:
    (folder / "verdict.txt").write_text("x")
    with pytest.raises(StepError) as caught:
        call("file__read", path="verdikt.txt")
    problem = caught.value.diagnostic
    assert (problem.code, problem.message) == ("tool.file-read", "'verdikt.txt' does not exist")
    assert problem.hint == "did you mean verdict.txt?"
    with pytest.raises(StepError, match="does not exist"):
        call("file__read", path="no/such/folder.txt")


def test_a_folder_is_not_a_file(call: Callable[..., Any], folder: Path) -> None:
    (folder / "out").mkdir()
    for path in ("out", "."):
        with pytest.raises(StepError, match="is a folder"):
            call("file__read", path=path)
        with pytest.raises(StepError, match="is not a file"):
            call("file__write", path=path, content="x")


def test_a_file_is_not_a_folder(call: Callable[..., Any], folder: Path) -> None:
    (folder / "a").write_text("x")
    with pytest.raises(StepError, match="cannot be written"):
        call("file__write", path="a/b.txt", content="x")


@posix
def test_a_named_pipe_is_not_waited_for(call: Callable[..., Any], folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(StepError, match="is not a file"):
        call("file__read", path="pipe")
    with pytest.raises(StepError, match="is not a file"):
        call("file__write", path="pipe", content="x")


def test_a_file_that_is_not_utf_8_is_told(call: Callable[..., Any], folder: Path) -> None:
    (folder / "x.bin").write_bytes(b"ab\xff")
    with pytest.raises(StepError, match=r"'x.bin' is not UTF-8 text \(byte 2\)"):
        call("file__read", path="x.bin")
    (folder / "bom.csv").write_bytes(b"\xef\xbb\xbfname")
    assert call("file__read", path="bom.csv") == "name"


def test_a_text_that_cannot_be_encoded_leaves_the_file_as_it_was(call: Callable[..., Any], folder: Path) -> None:
    (folder / "a.txt").write_text("x")
    with pytest.raises(StepError, match="lone surrogates"):
        call("file__write", path="a.txt", content="\ud800")
    assert (folder / "a.txt").read_text() == "x"


def test_a_name_that_is_too_long_is_told(call: Callable[..., Any]) -> None:
    for path in ("n" * 256, "ü" * 128, "n" * 5000, "/".join(["name"] * 1000), f"{'n' * 256}/x"):
        for name, arguments in (("file__read", {}), ("file__write", {"content": "x"})):
            with pytest.raises(StepError, match="is too long") as caught:
                call(name, path=path, **arguments)
            assert caught.value.code == "tool.file-path"
            assert len(str(caught.value)) < 300
    call("file__write", path="n" * 255, content="x")


PROGRAMS = [
    "jsonschema.py",
    "x.PYC",
    "a/b.so",
    "m.pyd",
    "start.sh",
    "run.bat",
    "x.ps1",
    "x.exe",
    "page.js",
    "lib.py/notes.txt",
]


@pytest.mark.parametrize("path", PROGRAMS)
def test_what_is_imported_or_run_is_not_written(call: Callable[..., Any], folder: Path, path: str) -> None:
    with pytest.raises(StepError, match="could be run") as caught:
        call("file__write", path=path, content="x")
    assert caught.value.code == "tool.file-path"
    assert list(folder.rglob("*")) == []


CONFIGURING = ["package.json", "sub/requirements.txt", "requirements-dev.txt", "Dockerfile", "MkDocs.yml", "build"]


@pytest.mark.parametrize("path", CONFIGURING)
def test_what_configures_a_program_is_not_written(call: Callable[..., Any], folder: Path, path: str) -> None:
    with pytest.raises(StepError, match="configures a program") as caught:
        call("file__write", path=path, content="x")
    assert caught.value.code == "tool.file-path"
    assert list(folder.rglob("*")) == []
    call("file__write", path="requirements.json", content="{}")  # no program reads it


@pytest.mark.parametrize("path", ["json/data.txt", "jsonschema/x.txt", "pytest/notes.txt"])
def test_a_folder_with_the_name_of_a_package_is_not_written(call: Callable[..., Any], path: str) -> None:
    with pytest.raises(StepError, match="the name of a package"):
        call("file__write", path=path, content="x")


def test_a_program_is_not_overwritten(call: Callable[..., Any], folder: Path) -> None:
    program = folder / "deploy"
    program.write_text("echo")
    program.chmod(0o755)
    with pytest.raises(StepError, match="it is a program"):
        call("file__write", path="deploy", content="x")
    assert program.read_text() == "echo"


def test_a_file_that_is_too_large_is_not_read(call: Callable[..., Any], folder: Path) -> None:
    with (folder / "large.txt").open("wb") as file:
        file.truncate(3_000_000_000)
    with pytest.raises(StepError, match="more than 10 MB"):
        call("file__read", path="large.txt")


def test_a_late_import_does_not_look_into_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "wave.py").write_text("raise SystemExit('imported')")
    (tmp_path / "only_here.py").write_text("raise SystemExit('imported')")
    code = """
import sys
from agf_magics.compat.imports import installed_only
assert sys.path[0] == ""
with installed_only():
    import wave
    try:
        import only_here
    except ModuleNotFoundError as error:
        print(error.name, wave.__file__ != "wave.py")
try:
    import only_here
except SystemExit as end:
    print(end)
"""
    completed = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert completed.stdout.splitlines() == ["only_here True", "imported"]
