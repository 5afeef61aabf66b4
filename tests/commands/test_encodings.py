"""A character that stdout cannot encode is printed as an escape of the format, so that a reader gets the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.processes import script

COMMAND = """
import sys
from agf_magics.__main__ import main
sys.stdout.reconfigure(encoding="ascii")
sys.exit(main(sys.argv[1:]))
"""


def stdout(folder: Path, *words: str, code: int = 0) -> str:
    (folder / "pyproject.toml").write_text("[tool.agf-magics]\njournal = ''\n", encoding="utf-8")
    (folder / "flow.yaml").write_text("pipeline: größe\nsteps:\n- transform: {value: ctx.a}\n", encoding="utf-8")
    (folder / "bad.yaml").write_text("pipeline: p\nsteps:\n- transform: {value: größe}\n", encoding="utf-8")
    completed = script(COMMAND, folder, *words)
    assert (completed.returncode, "Traceback" in completed.stderr) == (code, False), completed.stderr
    assert completed.stdout.isascii()
    return completed.stdout


@pytest.mark.parametrize("value", ["größe", "→", "𝄞"])
def test_the_output_is_the_same_json(value: str, tmp_path: Path) -> None:
    printed = stdout(tmp_path, "run", "flow.yaml", "--set", f"a={json.dumps(value)}", "--quiet")
    assert json.loads(printed) == value


def test_problems_for_a_program_are_the_same_json(tmp_path: Path) -> None:
    [problem] = json.loads(stdout(tmp_path, "check", "bad.yaml", "--format", "json", code=1))
    assert "'ö'" in problem["message"]


@pytest.mark.parametrize("format", ["github", "text"])
def test_problems_for_a_person_are_whole(format: str, tmp_path: Path) -> None:
    printed = stdout(tmp_path, "check", "bad.yaml", "flow.yaml", "--format", format, code=1)
    assert "bad.yaml" in printed


def test_a_picture_is_the_same_for_graphviz(tmp_path: Path) -> None:
    assert 'digraph "gr&#246;&#223;e"' in stdout(tmp_path, "draw", "flow.yaml")
