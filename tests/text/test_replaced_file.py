"""Tests of `replaced_file`: a reader sees the old file or the new one."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replaced_file(tmp_path / "no" / "run.json"):
        pass
