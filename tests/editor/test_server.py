"""Tests of the language server with a client in another process: problems of files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editor.client import Editor

WRONG = "pipeline: p\nsteps:\n- tool: {name: fetsh}\n"
TOOLS = "from agf_magics import tool\n\n\n@tool\ndef fetch(url: str) -> str:\n    raise SystemExit('called')\n"


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'no-settings-of-ours'\n")
    editor = Editor(tmp_path)
    yield editor
    if editor.process.poll() is None:
        code, printed = editor.end()
        assert (code, printed) == (0, "")


def test_a_problem_of_a_file_is_published_with_its_place_and_its_hint(editor: Editor) -> None:
    (editor.folder / "tools.py").write_text(TOOLS)
    [problem] = editor.wait_for(editor.open("p.yaml", WRONG))
    assert problem["range"] == {"start": {"line": 2, "character": 15}, "end": {"line": 2, "character": 20}}
    assert (problem["code"], problem["severity"], problem["source"]) == ("flow.unknown-tool", 1, "agf-magics")
    assert "did you mean fetch?" in problem["message"]
    assert problem["codeDescription"]["href"].endswith("errors/flow.html#flow.unknown-tool")


def test_a_change_is_checked_and_many_changes_once(editor: Editor) -> None:
    uri = editor.open("p.yaml", WRONG)
    editor.wait_for(uri)
    editor.checks.clear()
    for version in range(2, 102):
        editor.change(uri, WRONG.replace("fetsh", f"f{version}"), version)
    editor.change(uri, "pipeline: p\nsteps:\n- shel: x\n", 102)
    assert [problem["code"] for problem in editor.wait_for(uri)] == ["pipeline.step-kind"]
    assert len(editor.checks) <= 5


def test_a_tool_that_another_open_file_registers_is_known(editor: Editor) -> None:
    uri = editor.open("p.yaml", WRONG.replace("fetsh", "fetch, args: {url: x}"))
    assert [problem["code"] for problem in editor.wait_for(uri)] == ["flow.unknown-tool"]
    editor.problems.clear()
    editor.open("tools.py", TOOLS, "python")
    assert editor.wait_for(uri) == []


def test_a_name_that_only_a_kernel_knows_is_information(editor: Editor) -> None:
    (editor.folder / "tools.py").write_text("import agf_magics as agf\nfor f in found:\n    agf.tool(f, name=f.name)\n")
    assert [(problem["code"], problem["severity"]) for problem in editor.wait_for(editor.open("p.yaml", WRONG))] == [
        ("flow.unknown-tool", 3)
    ]


def test_a_file_that_is_no_definition_has_no_problems(editor: Editor) -> None:
    assert editor.wait_for(editor.open("compose.yaml", "services: {web: {image: [}}\n")) == []


def test_a_place_counts_utf_16_units(editor: Editor) -> None:
    [problem] = editor.wait_for(editor.open("p.yaml", 'pipeline: p\nsteps:\n- tool: {args: {a: "🍐"}, name: fetsh}\n'))
    assert problem["range"]["start"] == {"line": 2, "character": 32}


def test_a_very_large_file_is_left_alone(editor: Editor) -> None:
    large = editor.open("large.yaml", "pipeline: p\nsteps:\n" + "- tool: {name: fetsh}\n" * 450_000)
    assert editor.wait_for(large) == []


def test_nonsense_of_a_client_ends_nothing(editor: Editor) -> None:
    editor.send_bytes(b"Content-Length: 9\r\n\r\nnot json!")
    editor.send({"method": "textDocument/didOpen", "params": {"textDocument": 3}})
    editor.send({"method": "textDocument/didChange", "params": {}})
    editor.tell(
        "textDocument/didOpen", {"textDocument": {"uri": "untitled:x", "languageId": "yaml", "version": 1, "text": "a"}}
    )
    editor.open("half.yaml", "pipeline: '\ud83c'\nsteps: []\n")
    assert len(editor.wait_for(editor.open("p.yaml", WRONG))) == 1


def test_an_editor_that_closes_in_the_middle_ends_the_server(editor: Editor) -> None:
    assert editor.process.stdin is not None
    editor.open("p.yaml", WRONG * 100)
    editor.process.stdin.close()
    code, printed = editor.wait()
    assert (code, printed) == (0, "")


def test_a_folder_of_10_000_files_is_looked_at_in_part(editor: Editor) -> None:
    for number in range(20):
        inner = editor.folder / f"data{number:02}"
        inner.mkdir()
        for name in range(550):
            (inner / f"{name}.txt").touch()
    late = editor.folder / "late"
    late.mkdir()
    (late / "tools.py").write_text(TOOLS.replace("fetch", "late"))
    (editor.folder / "tools.py").write_text(TOOLS)
    [problem] = editor.wait_for(editor.open("p.yaml", WRONG))
    assert "did you mean fetch?" in problem["message"]


def test_what_follows_the_command_is_refused(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "agf_magics", "lsp", "now"]
    completed = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (completed.returncode, completed.stdout) == (2, "")
    assert "unexpected word 'now'" in completed.stderr


def test_without_pygls_the_command_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['pygls'] = None; from agf_magics.__main__ import main; sys.exit(main(['lsp']))"
    program = [sys.executable, "-c", code]
    completed = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (completed.returncode, completed.stdout) == (1, "")
    assert "[define.not-installed]" in completed.stderr
    assert "pip install 'agf-magics[lsp]'" in completed.stderr
