"""A wrong module in ``--tools`` is reported in the author's words, without words of Python's import system."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import command_line

NAME_A_FILE = "name a file, as --tools tools.py, or a module, as --tools package.tools"
CASES = {
    # the word after --tools, and the message
    ".": f"'.' is a folder: {NAME_A_FILE}",
    "plain/": f"'plain/' is a folder: {NAME_A_FILE}",
    "plain": f"'plain' is a folder without an __init__.py: {NAME_A_FILE}",
    "../tools": f"'../tools' is neither a module nor a .py file: {NAME_A_FILE}",
    "my-tools": f"'my-tools' is neither a module nor a .py file: {NAME_A_FILE}",
    "nothere": "there is no module 'nothere'",
    "nothere.py": "there is no file 'nothere.py'",
    "broken.py": "broken.py, line 1: SyntaxError: '(' was never closed",
    "broken": "broken.py, line 1: SyntaxError: '(' was never closed",
    "nulls.py": "nulls.py: SyntaxError: source code string cannot contain null bytes",
    "ends.py": "ends.py, line 2: SystemExit: 0",
    "ends": "ends.py, line 2: SystemExit: 0",
    "lacking": "lacking.py, line 1: ModuleNotFoundError: No module named 'nothere'",
}


@pytest.mark.parametrize("named", CASES)
def test_a_wrong_module_is_reported(tmp_path: Path, named: str) -> None:
    Path(tmp_path, "plain").mkdir()
    Path(tmp_path, "broken.py").write_text("x = (")
    Path(tmp_path, "nulls.py").write_bytes(b"x = 1\0")
    Path(tmp_path, "ends.py").write_text("import sys\nsys.exit(0)")  # as a program without a guard ends
    Path(tmp_path, "lacking.py").write_text("import nothere")
    Path(tmp_path, "p.yaml").write_text('{pipeline: p, steps: [{transform: {value: "1"}}]}')
    completed = command_line(tmp_path, "check", "p.yaml", "--tools", named)
    printed = " ".join(completed.stderr.split())
    assert completed.returncode != 0
    assert CASES[named] in printed
    assert not any(word in printed for word in ("importlib", "runpy", "argument is required", "Traceback")), printed
