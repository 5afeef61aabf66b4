"""Tests the language server's answers about a text: completions, help, places, symbols, folds, repairs, tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.editor.client import Editor

TOOLS = 'from agf_magics import tool\n\n\n@tool\ndef fetch(url: str) -> str:\n    """Fetch a page."""\n    return url\n'

TEXT = """pipeline: p
steps:
- tool: {name: fetch, args: {url: x}}
- for_each:
    over: ctx.pages
    on_error: abort
    do: {tool: {args: {url: "🍐"}, name: fetsh}}
    collect: {transform: {value: "pipe"}}
"""


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    folder = tmp_path_factory.mktemp("project")
    (folder / "pyproject.toml").write_text("[project]\nname = 'no-settings-of-ours'\n")
    (folder / "tools.py").write_text(TOOLS)
    editor = Editor(folder)
    yield editor
    assert editor.end() == (0, "")


@pytest.fixture
def cell(editor: Editor, request: Any) -> str:
    """The second cell of a notebook; the first one registers a tool."""
    [_, cell] = editor.open_notebook(f"{request.node.name}/n.ipynb", [TOOLS, f"%%pipeline\n{TEXT}"])
    return cell


@pytest.fixture
def file(editor: Editor, request: Any) -> str:
    return editor.open(f"{request.node.name}.yaml", TEXT)


def test_a_place_in_a_cell_and_in_a_file_is_completed(editor: Editor, cell: str, file: str) -> None:
    for uri, line in ((cell, 3), (file, 2)):
        answer = editor.ask("textDocument/completion", editor.at(uri, line, 16))
        [item_of_fetch] = [item for item in answer["items"] if item["label"] == "fetch"]
        assert item_of_fetch["detail"] == "tool"
        assert item_of_fetch["textEdit"]["range"] == {
            "start": {"line": line, "character": 15}, "end": {"line": line, "character": 16}
        }  # fmt: skip


def test_a_word_is_explained_and_its_problem_is_left_to_the_editor(editor: Editor, file: str) -> None:
    help = editor.ask("textDocument/hover", editor.at(file, 2, 16))["contents"]["value"]
    assert "fetch(url: str) -> str" in help
    assert "Fetch a page." in help
    assert editor.ask("textDocument/hover", editor.at(file, 6, 42)) is None


def test_a_tool_is_found_in_the_python_text_that_defines_it(editor: Editor, cell: str, file: str) -> None:
    answer = editor.ask("textDocument/definition", editor.at(file, 2, 16))
    assert answer["uri"] == (editor.folder / "tools.py").as_uri()
    assert answer["range"] == {"start": {"line": 4, "character": 4}, "end": {"line": 4, "character": 9}}
    answer = editor.ask("textDocument/definition", editor.at(cell, 3, 16))
    assert (answer["uri"], answer["range"]["start"]) == (cell.replace("#c1", "#c0"), {"line": 4, "character": 4})


def test_a_flow_is_found_in_its_file(editor: Editor) -> None:
    inner = editor.open("inner.yaml", "pipeline: inner\nsteps:\n- tool: {name: fetch, args: {url: x}}\n")
    outer = editor.open("outer.yaml", "pipeline: outer\nsteps:\n- pipeline: {name: inner}\n- tool: {name: inner}\n")
    answer = editor.ask("textDocument/definition", editor.at(outer, 3, 17))
    assert (answer["uri"], answer["range"]["start"]) == (inner, {"line": 0, "character": 10})


def test_the_steps_of_a_text_are_a_tree(editor: Editor, cell: str, file: str) -> None:
    for uri in (cell, file):
        [flow] = editor.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
        names = [(symbol["name"], [child["name"] for child in symbol["children"]]) for symbol in flow["children"]]
        assert flow["name"] == "pipeline p"
        assert names == [("tool fetch", []), ("for_each ctx.pages", ["tool fetsh", "transform pipe"])]


def test_a_text_with_an_error_that_hides_its_steps_has_its_lines_as_an_outline(editor: Editor) -> None:
    text = "pipeline: p\nsteps:\n- tool:\n    name: fetch\n- for_each:\n    do: {shel: x}\n- transform: {value: [1}\n"
    uri = editor.open("broken.yaml", text)
    assert editor.wait_for(uri) != []

    def names(symbols: list[dict[str, Any]]) -> list[Any]:
        return [
            (symbol["name"], names(symbol["children"])) if symbol["children"] else symbol["name"] for symbol in symbols
        ]

    answer = editor.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
    steps = [("tool", ["name fetch"]), ("for_each", ["do {shel: x}"]), "transform {value: [1}"]
    assert names(answer) == ["pipeline p", ("steps", steps)]
    [tool, *_] = answer[1]["children"]
    assert tool["range"] == {"start": {"line": 2, "character": 2}, "end": {"line": 3, "character": 15}}


def test_a_block_below_a_line_can_be_folded(editor: Editor, file: str) -> None:
    answer = editor.ask("textDocument/foldingRange", {"textDocument": {"uri": file}})
    assert (3, 7) in [(fold["startLine"], fold["endLine"]) for fold in answer]


def test_a_repair_is_offered_and_takes_the_problem_away(editor: Editor, cell: str, file: str) -> None:
    for uri, line, text in ((cell, 7, f"%%pipeline\n{TEXT}"), (file, 6, TEXT)):
        where = {"start": {"line": line, "character": 42}, "end": {"line": line, "character": 42}}
        params = {"textDocument": {"uri": uri}, "range": where, "context": {"diagnostics": []}}
        [action] = editor.ask("textDocument/codeAction", params)
        [edit] = action["edit"]["changes"][uri]
        assert (action["title"], edit["newText"]) == ("Replace by fetch", "fetch")
        lines = text.split("\n")
        units = lines[line].encode("utf-16-le")
        start, end = (2 * edit["range"][side]["character"] for side in ("start", "end"))
        lines[line] = units[:start].decode("utf-16-le") + edit["newText"] + units[end:].decode("utf-16-le")
        if uri == file:
            editor.change(uri, "\n".join(lines))
            assert editor.wait_for(uri) == []


def test_a_repair_that_brings_another_problem_is_not_offered(editor: Editor) -> None:
    uri = editor.open("needs.yaml", "pipeline: p\nsteps:\n- tool: {name: fetsh}\n")
    where = {"start": {"line": 2, "character": 16}, "end": {"line": 2, "character": 16}}
    params = {"textDocument": {"uri": uri}, "range": where, "context": {"diagnostics": []}}
    assert editor.ask("textDocument/codeAction", params) == []


def test_names_and_references_have_their_kinds(editor: Editor, file: str) -> None:
    data = editor.ask("textDocument/semanticTokens/full", {"textDocument": {"uri": file}})["data"]
    kinds = editor.abilities["semanticTokensProvider"]["legend"]["tokenTypes"]
    line, unit, tokens = 0, 0, []
    for down, right, length, kind, _ in zip(*[iter(data)] * 5, strict=True):
        line, unit = line + down, right if down else unit + right
        tokens.append((TEXT.split("\n")[line][unit : unit + length], kinds[kind]))
    assert ("fetch", "function") in tokens
    assert ("ctx.pages", "variable") in tokens


def test_a_text_that_is_not_ours_has_no_answers(editor: Editor) -> None:
    uri = editor.open("compose.yaml", "services:\n  web: {image: x}\n")
    assert editor.ask("textDocument/completion", editor.at(uri, 1, 3)) is None
    assert editor.ask("textDocument/hover", editor.at(uri, 1, 3)) is None
    assert editor.ask("textDocument/definition", editor.at(uri, 1, 3)) is None
    assert editor.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}}) == []
    assert editor.ask("textDocument/hover", editor.at("file:///no/where.yaml", 900, 900)) is None


def test_a_cell_that_another_cell_defines_for_is_checked_again(editor: Editor) -> None:
    first, second = editor.open_notebook(
        "again/n.ipynb", ["x = 1", "%%pipeline\npipeline: p\nsteps:\n- tool: {name: get}\n"]
    )
    assert [problem["code"] for problem in editor.wait_for(second)] == ["flow.unknown-tool"]
    editor.problems.clear()
    change = {
        "cells": {
            "textContent": [
                {
                    "document": {"uri": first, "version": 2},
                    "changes": [{"text": "import agf_magics as agf\n@agf.tool\ndef get(): ..."}],
                }
            ]
        }
    }
    notebook = {"uri": (editor.folder / "again/n.ipynb").as_uri(), "version": 2}
    editor.tell("notebookDocument/didChange", {"notebookDocument": notebook, "change": change})
    assert editor.wait_for(second) == []


def test_a_notebook_of_500_cells_checks_the_cell_that_changes(editor: Editor) -> None:
    texts = [f"%%pipeline\npipeline: p{n}\nsteps:\n- tool: {{name: no{n}}}\n" for n in range(500)]
    cells = editor.open_notebook("large/n.ipynb", texts)
    editor.wait_for(*cells)
    editor.checks.clear()
    editor.problems.clear()
    change = {
        "cells": {
            "textContent": [
                {
                    "document": {"uri": cells[250], "version": 2},
                    "changes": [{"text": "%%pipeline\npipeline: p250\nstps: []"}],
                }
            ]
        }
    }
    notebook = {"uri": (editor.folder / "large/n.ipynb").as_uri(), "version": 2}
    editor.tell("notebookDocument/didChange", {"notebookDocument": notebook, "change": change})
    assert editor.wait_for(cells[250])[0]["code"] == "pipeline.unknown-key"
    assert editor.checks == [cells[250]]
