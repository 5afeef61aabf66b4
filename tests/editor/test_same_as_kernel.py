"""Tests that the language server reports the same problems as the kernel, for every document of the vectors.

The kernel is asked after the cell was run, so that both know a flow that calls itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agf_magics.editor.positions import Positions
from agf_magics.editor.problems import Problem, problems_of, read_cell
from agf_magics.editor.text_group import new_registry
from agf_magics.languages.ours import recognized_language
from agf_magics.lifecycle.definitions.define import register
from agf_magics.text.diagnostics import AgfError
from agf_magics.text.source import Source
from tests.editor.client import Editor

VECTORS = Path(__file__).parents[1] / "vectors"

SEVERITIES = {"error": 1, "warning": 2}


def texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for inner in value.values():
                yield from texts(inner)
        case list():
            for inner in value:
                yield from texts(inner)


def cells() -> list[str]:
    """Every cell of the vectors, and every document as the cell that it would be."""
    cells_in_order = dict[str, None]()
    for path in sorted(VECTORS.glob("*.json")):
        for text in texts(json.loads(path.read_text(encoding="utf-8"))):
            if read_cell(text) is not None:
                cells_in_order[text] = None
            elif "\n" in text and (language := recognized_language(text)):
                cells_in_order[f"%%{language}\n{text}" if language == "pipeline" else f"%%{language} t\n{text}"] = None
    return [cell for cell in cells_in_order if cell.isascii() or is_text(cell)]


def is_text(cell: str) -> bool:
    """Whether JSON can carry a text: not half of a surrogate pair."""
    return not any("\ud800" <= character <= "\udfff" for character in cell)


def said_by_the_kernel(cell: str) -> list[Problem]:
    registry, read = new_registry(), read_cell(cell)
    if read is not None and not read.is_run:
        with suppress(AgfError):
            body = Source("this cell", cell[read.definition_start :])
            register(body, read.language, name=read.name, registry=registry)
    return problems_of(cell, registry)


def problem_of_kernel(cell: str, problem: Problem) -> tuple[Any, ...]:
    """A problem of the kernel as the protocol has it."""
    units = cell.encode("utf-16-le")
    positions = Positions(cell)
    sides = [len(units[: 2 * problem[side]].decode("utf-16-le")) for side in ("start", "end")]
    return (problem["code"], *(tuple(positions.position(side)) for side in sides), SEVERITIES[problem["severity"]])


def problem_of_server(problem: dict[str, Any]) -> tuple[Any, ...]:
    sides = [(problem["range"][side]["line"], problem["range"][side]["character"]) for side in ("start", "end")]
    return (problem["code"], *sides, problem["severity"])


def differences(editor: Editor, first: int, cells: list[str]) -> list[tuple[str, list[Any], list[Any]]]:
    opened = [editor.open_notebook(f"none/{number}/n.ipynb", [cell])[0] for number, cell in enumerate(cells, first)]
    editor.wait_for(*opened)
    wrong = []
    for uri, cell in zip(opened, cells, strict=True):
        kernel = [problem_of_kernel(cell, problem) for problem in said_by_the_kernel(cell)]
        server = [problem_of_server(problem) for problem in editor.problems[uri]]
        if sorted(kernel) != sorted(server):
            wrong.append((cell, kernel, server))
    return wrong


@pytest.mark.timeout(600)
@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 4], ids=["every cell", "one of four"])
def test_the_server_says_what_the_kernel_says(step: int, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'no-settings-of-ours'\n")
    cell_texts = cells()
    assert len(cell_texts) > 1_500
    cell_texts = cell_texts[::step]
    editor = Editor(tmp_path)
    wrong = [
        difference
        for start in range(0, len(cell_texts), 100)
        for difference in differences(editor, start, cell_texts[start : start + 100])
    ]
    assert editor.end() == (0, "")
    assert wrong[:5] == []
