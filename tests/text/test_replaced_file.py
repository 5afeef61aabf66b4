"""Tests of `replaced_file`: a reader sees the old file or the new one."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from agf_magics.text.diagnostics import DefinitionError
from agf_magics.text.replaced_file import replaced_file


@pytest.mark.parametrize("before", ["", "the one before, which is longer"])
def test_the_new_text_takes_the_place_of_the_file(before: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    if before:
        path.write_text(before)
    with replaced_file(path) as file:
        file.write("new\n")
        file.flush()
        assert (path.read_text() if path.exists() else "") == before
    assert path.read_bytes() == b"new\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_and_the_rights_of_a_file_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "run.json", tmp_path / "link.json"
    path.write_text("old")
    path.chmod(0o600)
    link.symlink_to(path)
    with replaced_file(link) as file:
        file.write("new")
    assert link.is_symlink()
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o600)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    link = tmp_path / "link"
    for device, error in (("/dev/null", None), ("/dev/full", DefinitionError)):
        link.unlink(missing_ok=True)
        link.symlink_to(device)
        with pytest.raises(error) if error else contextlib.nullcontext(), replaced_file(link) as file:
            file.write("new")
        assert link.is_symlink()
        assert not Path(device).is_file()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_ends_with_an_error_leaves_the_file_before(error: type[BaseException], tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("the one before")

    def fail() -> None:
        with replaced_file(path) as file:
            file.write("half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "the one before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["run.json.part", ".run.json.part", "run.part", "run.json.tmp", "run.json~"])
def test_no_file_of_another_name_is_touched(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("a person's own")
    with replaced_file(tmp_path / "run.json") as file:
        file.write("new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "a person's own", "run.json": "new"}


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="there is no folder"), replaced_file(tmp_path / "no" / "run.json"):
        pass
