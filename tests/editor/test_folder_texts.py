"""Which file an address names, by the rules of each system."""

from __future__ import annotations

from pathlib import PurePath, PurePosixPath, PureWindowsPath

import pytest

from agf_magics.editor.folder_texts import path_of

ADDRESSES: list[tuple[str, type[PurePath], str | None]] = [
    ("file:///c%3A/Users/a%20b/f.yaml", PureWindowsPath, r"c:\Users\a b\f.yaml"),
    ("file:///C:/Users/f.yaml", PureWindowsPath, r"C:\Users\f.yaml"),
    ("file://server/share/f.yaml", PureWindowsPath, r"\\server\share\f.yaml"),
    ("vscode-notebook-cell:/c%3A/Users/n.ipynb#W0", PureWindowsPath, r"c:\Users\n.ipynb"),
    ("vscode-notebook-cell://wsl/c%3A/n.ipynb#W0", PureWindowsPath, r"c:\n.ipynb"),
    ("file:///home/a%20b/f.yaml", PurePosixPath, "/home/a b/f.yaml"),
    ("file:///c%3A/f.yaml", PurePosixPath, "/c:/f.yaml"),
    ("untitled:Untitled-1", PureWindowsPath, None),
    ("file:", PurePosixPath, None),
]


@pytest.mark.parametrize(("address", "kind", "expected"), ADDRESSES)
def test_an_address_is_read_by_the_rules_of_the_system(
    address: str, kind: type[PurePath], expected: str | None
) -> None:
    path = path_of(address, kind)
    assert (path if path is None else str(path)) == expected
    assert path is None or path.is_absolute()
