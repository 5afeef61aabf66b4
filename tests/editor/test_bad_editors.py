"""Tests that the language server survives large, hostile and impatient editors and folders, and those that vanish."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editor.client import Editor

WRONG = "pipeline: p\nsteps:\n- tool: {name: fetsh}\n"
TOOLS = "from agf_magics import tool\n\n@tool\ndef fetch(url: str) -> str: ...\n"
QUESTIONS = ("completion", "hover", "definition")
OF_TEXTS = ("documentSymbol", "foldingRange", "semanticTokens/full")


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    """Ended at last by a person who closes the window: the server says nothing."""
    (tmp_path / "pyproject.toml").touch()
    editor = Editor(tmp_path)
    yield editor
    if editor.process.poll() is None:
        assert editor.end() == (0, "")


def ask_all(editor: Editor, uri: str, line: int, character: int) -> None:
    """Ask all that an editor asks about a text; each question is answered."""
    for name in QUESTIONS:
        editor.ask(f"textDocument/{name}", editor.at(uri, line, character))
    for name in OF_TEXTS:
        editor.ask(f"textDocument/{name}", {"textDocument": {"uri": uri}})
    place = {"line": line, "character": character}
    params = {"textDocument": {"uri": uri}, "range": {"start": place, "end": place}, "context": {"diagnostics": []}}
    editor.ask("textDocument/codeAction", params)


def test_a_change_in_a_notebook_of_500_cells_checks_one_cell(editor: Editor) -> None:
    cell = "%%pipeline\npipeline: p{0}\nsteps:\n- tool: {{name: fetch, args: {{url: x}}}}\n"
    uris = editor.open_notebook("n.ipynb", [TOOLS, *(cell.format(number) for number in range(499))])
    assert editor.wait_for(*uris) == []
    editor.checks.clear()
    changed = uris[250]
    del editor.problems[changed]
    text = {"document": {"uri": changed, "version": 2}, "changes": [{"text": f"%%pipeline\n{WRONG}"}]}
    book = {"uri": (editor.folder / "n.ipynb").as_uri(), "version": 2}
    editor.tell("notebookDocument/didChange", {"notebookDocument": book, "change": {"cells": {"textContent": [text]}}})
    assert [problem["code"] for problem in editor.wait_for(changed)] == ["flow.unknown-tool"]
    assert editor.checks == [changed]


def test_a_file_of_ten_megabytes_is_not_checked_and_each_question_is_answered(editor: Editor) -> None:
    uri = editor.open("large.yaml", WRONG + "- transform: {value: '1', output: abc}\n" * 260_000)
    assert editor.wait_for(uri) == []
    ask_all(editor, uri, 130_000, 8)
    assert [problem["code"] for problem in editor.wait_for(editor.open("p.yaml", WRONG))] == ["flow.unknown-tool"]


@pytest.mark.parametrize("ending", ["py", "yaml"])
@pytest.mark.slow
def test_a_folder_of_ten_thousand_files_is_read_up_to_a_bound(editor: Editor, ending: str) -> None:
    (editor.folder / "a.py").write_text(TOOLS)
    for number in range(10_000):
        (editor.folder / f"m{number:05}.{ending}").write_text(f"a: {number}\n")
    [problem] = editor.wait_for(editor.open("p.yaml", WRONG))
    assert "did you mean fetch?" in problem["message"]


def test_half_a_surrogate_pair_is_a_problem_at_its_place(editor: Editor) -> None:
    uri = editor.open("p.yaml", 'pipeline: p\nsteps:\n- tool: {name: "f\ud83cx"}\n')
    [problem] = editor.wait_for(uri)
    assert (problem["code"], problem["range"]["start"]) == ("yaml.character", {"line": 2, "character": 17})
    ask_all(editor, uri, 2, 19)
    editor.open("tools.py", f"{TOOLS}'\ud83c'\n", "python")
    editor.change(uri, WRONG)
    assert [problem["code"] for problem in editor.wait_for(uri)] == ["flow.unknown-tool"]


def test_a_client_that_floods_gets_a_check_of_the_last_text_and_all_answers(editor: Editor) -> None:
    uri = editor.open("p.yaml", WRONG)
    editor.wait_for(uri)
    editor.checks.clear()
    question = {"method": "textDocument/foldingRange", "params": {"textDocument": {"uri": uri}}}
    for version in range(2, 1_002):
        editor.change(uri, WRONG.replace("fetsh", f"f{version}"), version)
        editor.send({"id": f"q{version}", **question})
    editor.change(uri, "pipeline: p\nsteps:\n- shel: x\n", 1_002)
    ask_all(editor, uri, 2, 3)
    assert [problem["code"] for problem in editor.wait_for(uri)] == ["pipeline.step-kind"]


def test_a_question_before_the_check_is_answered_from_the_new_text(editor: Editor) -> None:
    uri = editor.open("p.yaml", "pipeline: p\nsteps:\n- transform: {value: '1'}\n")
    editor.change(uri, "pipeline: q\nsteps:\n- transform: {value: '1'}\n")
    [flow] = editor.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
    assert flow["name"] == "pipeline q"


def test_a_file_that_is_no_definition_has_no_problems(editor: Editor) -> None:
    texts = {"a.yaml": "services:\n  web: {image: nginx}\n", "b.json": "[1, 2", "c.yaml": "\0\x07 {{", "d.yaml": ""}
    for name, text in texts.items():
        uri = editor.open(name, text)
        assert editor.wait_for(uri) == [], name
        ask_all(editor, uri, 0, 1)


def test_nothing_of_a_folder_is_imported_or_run(editor: Editor) -> None:
    trap = "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n"
    for name in ("yaml.py", "agf_magics_plugin.py", "conftest.py", "sitecustomize.py"):
        (editor.folder / name).write_text(trap)
    (editor.folder / "tools.py").write_text(trap + TOOLS)
    uris = editor.open_notebook("n.ipynb", [trap + TOOLS, f"%%pipeline\n{WRONG}"])
    [problem] = editor.wait_for(*uris)
    assert "did you mean fetch?" in problem["message"]
    ask_all(editor, uris[1], 3, 18)
    assert not (editor.folder / "ran").exists()


@pytest.mark.parametrize("half", [b"", b"Content-Length: 5000\r\n\r\n{", b"Content-Len"])
def test_an_editor_that_closes_in_the_middle_ends_the_server_without_a_word(editor: Editor, half: bytes) -> None:
    uri = editor.open("p.yaml", WRONG)
    editor.change(uri, WRONG + "# changed\n")
    editor.send({"id": 99, "method": "textDocument/hover", "params": editor.at(uri, 2, 16)})
    editor.send_bytes(half)
    assert editor.process.stdin is not None
    editor.process.stdin.close()
    _, printed = editor.wait()
    assert printed == ""
