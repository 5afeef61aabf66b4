"""``agf-magics run --mcp FILE --allow-mcp``: the servers of a file are started only with the user's permission."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.mcp.servers import PROGRAMS, marks
from tests.processes import command_line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    entry = {"command": "python", "args": [str(PROGRAMS / "quick.py")], "env": {"MARK": str(tmp_path / "mark")}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"quick": entry}}), encoding="utf-8")
    text = "pipeline: add\nsteps: [{tool: {name: quick__add, args: {a: 2}}}]"
    (tmp_path / "add.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.agf-magics]\njournal = ''\n", encoding="utf-8")
    return tmp_path


def test_the_servers_of_a_file_are_started_and_end_with_the_command(folder: Path) -> None:
    completed = command_line(folder, "run", "add.yaml", "--quiet", "--mcp", "mcp.json", "--allow-mcp")
    assert completed.stdout.strip() == '"3"', completed.stderr
    assert marks(folder / "mark") == ["add"]


def test_without_the_permission_nothing_is_started_and_the_commands_are_shown(folder: Path) -> None:
    completed = command_line(folder, "run", "add.yaml", "--mcp", "mcp.json")
    assert completed.returncode != 0
    assert "mcp.not-allowed" in completed.stderr
    assert "quick.py" in "".join(completed.stderr.split())
    assert marks(folder / "mark") == []


def test_a_server_that_the_file_disables_is_not_started(folder: Path) -> None:
    listed = json.loads((folder / "mcp.json").read_text(encoding="utf-8"))
    off = {"command": "python", "args": ["off.py"], "disabled": True}
    listed["mcpServers"]["off"] = off
    (folder / "mcp.json").write_text(json.dumps(listed), encoding="utf-8")
    (folder / "off.py").write_text("open('started', 'w').close()", encoding="utf-8")
    completed = command_line(folder, "run", "add.yaml", "--quiet", "--mcp", "mcp.json", "--allow-mcp")
    assert (completed.stdout, (folder / "started").exists()) == ('"3"\n', False), completed.stderr
