"""Why a file cannot be read or written, in a few words."""

from __future__ import annotations

from pathlib import Path

import pytest

from agf_magics.text.diagnostics import DefinitionError
from agf_magics.text.replaced_file import check_writable
from agf_magics.text.source import UNUSABLE, path_error_reason

CASES: dict[str, tuple[str, str]] = {
    "a folder that is not there": ("nowhere/a.yaml", "No such file or directory"),
    "a folder": (".", "Is a directory"),
    "a path with a null": ("a\0.yaml", "embedded null byte"),
    "half of a surrogate pair": ("\ud83d", "'utf-8' codec can't encode"),
    "bytes that are no text": ("latin.yaml", "it is not UTF-8: save it in that encoding"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_reason_is_said(case: str, tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"\xe4\xff")
    name, reason = CASES[case]
    with pytest.raises(UNUSABLE) as caught:
        (tmp_path / name).read_text(encoding="utf-8")
    assert path_error_reason(caught.value).startswith(reason)


def test_an_error_without_words_is_its_class() -> None:
    assert path_error_reason(OSError()) == "OSError"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a.yaml", None),
        ("latin.yaml", None),
        (".", "it is a folder"),
        ("nowhere/a.yaml", "there is no folder"),
        ("latin.yaml/a.yaml", "there is no folder"),
        ("x" * 5_000, "File name too long"),
    ],
)
def test_the_reason_why_no_file_can_be_written_is_said_before(name: str, reason: str | None, tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"\xe4")
    told = ""
    try:
        check_writable(tmp_path / name)
    except DefinitionError as refused:
        told = refused.diagnostic.message
    assert (f"cannot be written: {reason}" in told) if reason else told == ""
