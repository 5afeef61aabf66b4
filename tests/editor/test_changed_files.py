"""Tests of texts with other line ends, texts without a file, and files that other programs change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agf_magics.editor.positions import Positions
from tests.editor.client import Editor

WRONG = "pipeline: p\nsteps:\n- tool: {name: fetsh, args: {url: x}}\n"
RIGHT = WRONG.replace("fetsh", "fetch")
TOOLS = "from agf_magics import tool\n\n@tool\ndef fetch(url: str) -> str: ...\n"


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    folder = tmp_path_factory.mktemp("texts")
    (folder / "pyproject.toml").touch()
    (folder / "tools.py").write_text(TOOLS)
    editor = Editor(folder, watches=True)
    yield editor
    assert editor.end() == (0, "")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("crlf.yaml", WRONG.replace("\n", "\r\n")),
        ("cr.yaml", WRONG.replace("\n", "\r")),
        ("bom.yaml", "\ufeff" + WRONG),
        ("CAPITALS.YAML", WRONG),
        ("separator.yaml", WRONG.replace("pipeline: p", 'pipeline: "p\u2028"')),
    ],
)
def test_a_text_with_other_signs_has_its_problem_at_its_place(editor: Editor, name: str, text: str) -> None:
    [problem] = editor.wait_for(editor.open(name, text))
    assert problem["range"] == {"start": {"line": 2, "character": 15}, "end": {"line": 2, "character": 20}}
    assert "did you mean fetch?" in problem["message"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_position_after_the_end_of_a_line_is_at_its_end(end: str) -> None:
    positions = Positions(f"ab{end}🍐{end}")
    assert [positions.offset(0, 2), positions.offset(0, 9), positions.offset(1, 9)] == [2, 2, 3 + len(end)]
    assert positions.position(2 + len(end)) == (1, 0)


def test_a_text_that_is_in_no_file_is_known_by_its_language(editor: Editor) -> None:
    for uri, language, text in (
        ("untitled:Untitled-1", "yaml", WRONG.replace("fetsh", "shel")),
        ("untitled:Untitled-2", "python", TOOLS),
        ((editor.folder / "no_suffix").as_uri(), "yaml", WRONG),
    ):
        item = {"uri": uri, "languageId": language, "version": 1, "text": text}
        editor.tell("textDocument/didOpen", {"textDocument": item})
        assert len(editor.wait_for(uri)) == (language == "yaml")


def test_what_another_program_does_with_a_file_is_known(editor: Editor) -> None:
    uri = editor.open("inner/p.yaml", RIGHT.replace("fetch", "gather"))
    assert [problem["code"] for problem in editor.wait_for(uri)] == ["flow.unknown-tool"]
    assert editor.watched == ["**/*.{py,yaml,yml,json}"]
    tools = editor.folder / "inner" / "tools.py"
    tools.parent.mkdir()
    tools.write_text(TOOLS.replace("fetch", "gather"))
    editor.changed_on_disk("inner/tools.py", 1)
    assert editor.wait_for(uri) == []
    tools.write_text(TOOLS)
    editor.changed_on_disk("inner/tools.py", 2)
    assert [problem["code"] for problem in editor.wait_for(uri)] == ["flow.unknown-tool"]
    editor.open("inner/tools.py", TOOLS.replace("fetch", "gather"), "python")  # it is not saved yet
    editor.problems.clear()
    assert editor.wait_for(uri) == []
    tools.unlink()
    editor.changed_on_disk("inner/tools.py", 3)
    editor.change(uri, RIGHT.replace("fetch", "gather") + "# still known\n")
    assert editor.wait_for(uri) == []


def test_what_was_not_saved_is_gone_when_its_file_is_closed(editor: Editor) -> None:
    folder = editor.folder / "unsaved"
    folder.mkdir()
    (folder / "tools.py").write_text(TOOLS)
    uri = editor.open("unsaved/p.yaml", RIGHT)
    assert editor.wait_for(uri) == []
    editor.problems.clear()
    tools = editor.open("unsaved/tools.py", TOOLS.replace("fetch", "gather"), "python")
    assert [problem["code"] for problem in editor.wait_for(uri)] == ["flow.unknown-tool"]
    editor.problems.clear()
    editor.tell("textDocument/didClose", {"textDocument": {"uri": tools}})
    assert editor.wait_for(uri) == []


def test_a_deleted_file_registers_nothing(editor: Editor) -> None:
    folder = editor.folder / "other"
    folder.mkdir()
    (folder / "tools.py").write_text(TOOLS.replace("fetch", "once"))
    uri = editor.open("other/p.yaml", RIGHT.replace("fetch", "once"))
    assert editor.wait_for(uri) == []
    (folder / "tools.py").unlink()
    editor.changed_on_disk("other/tools.py", 3)
    assert [problem["code"] for problem in editor.wait_for(uri)] == ["flow.unknown-tool"]


def test_a_flood_of_changed_files_is_read_up_to_a_bound(editor: Editor) -> None:
    folder = editor.folder / "flood"
    folder.mkdir()
    uri = editor.open("flood/p.yaml", RIGHT.replace("fetch", "tool_0009"))
    assert [problem["code"] for problem in editor.wait_for(uri)] == ["flow.unknown-tool"]
    changes = []
    for number in range(1_000):
        file = folder / f"m{number:04}.py"
        file.write_text(TOOLS.replace("fetch", f"tool_{number:04}"))
        changes.append({"uri": file.as_uri(), "type": 1})
    editor.problems.clear()
    editor.tell("workspace/didChangeWatchedFiles", {"changes": changes})
    assert editor.wait_for(uri) == []
    editor.change(uri, RIGHT.replace("fetch", "tool_0999"))
    assert [problem["code"] for problem in editor.wait_for(uri)] == ["flow.unknown-tool"]


def test_a_renamed_file_is_another_text(editor: Editor) -> None:
    old = editor.open("old.yaml", WRONG)
    assert len(editor.wait_for(old)) == 1
    editor.tell("textDocument/didClose", {"textDocument": {"uri": old}})
    editor.problems.clear()
    assert editor.wait_for(old) == []
    assert len(editor.wait_for(editor.open("new.yaml", WRONG))) == 1
