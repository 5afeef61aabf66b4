"""Notebooks executed as CI and papermill do it: without anybody who looks at them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

pytestmark = pytest.mark.kernel

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))

SETUP = """\
%load_ext agf_magics
from agf_magics import tool
import asyncio

@tool
async def measure(word: str) -> int:
    await asyncio.sleep(0.2)
    return len(word)

@tool
def fail() -> None:
    raise ValueError('no pears')
"""

RUN = """\
%%pipeline --run --draw --set 'words=[pear, fig, kiwi]' --out r
pipeline: lengths
steps:
- for_each:
    over: ctx.words
    on_error: abort
    max_parallel: 1
    do: {tool: {name: measure, args: {word: !expr item}}}
    collect: {transform: {value: pipe}}
    output: lengths
"""


def execute(notebook: Any, folder: Path) -> Any:
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def notebook_of(*cells: str) -> Any:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_our_notebooks_run_from_top_to_bottom(path: Path, tmp_path: Path) -> None:
    done = execute(nbformat.read(path, as_version=4), tmp_path)
    assert "widgets" not in done.metadata


def test_an_executed_notebook_holds_no_widget_and_reads_without_a_kernel(tmp_path: Path) -> None:
    done = execute(notebook_of(SETUP, RUN, "r", "r.output"), tmp_path)
    nbformat.validate(done)
    assert "widgets" not in done.metadata
    printed, page = done.cells[1].outputs
    assert printed.text == "pipeline lengths: 1 step\n"
    assert set(page.data) == {"text/html", "text/plain"}
    assert "✓ ok" in page.data["text/html"]
    assert "data:image/svg+xml;base64," in page.data["text/html"]
    assert done.cells[3].outputs[0].data["text/plain"] == "[4, 3, 4]"


def test_an_executed_notebook_stops_at_an_error_and_shows_it(tmp_path: Path) -> None:
    notebook = notebook_of(SETUP, "%%pipeline --run\npipeline: p\nsteps: [{tool: {name: fail}}]", "print('never')")
    with pytest.raises(CellExecutionError, match="no pears"):
        execute(notebook, tmp_path)
    error = notebook.cells[1].outputs[-1]
    assert (error.output_type, error.ename) == ("error", "StepError")
    assert not notebook.cells[2].outputs


def test_a_wrong_line_stops_it_too(tmp_path: Path) -> None:
    notebook = notebook_of("%load_ext agf_magics", "%run_pipeline nobody --out r")
    with pytest.raises(CellExecutionError, match=r"magic\.unknown-flow"):
        execute(notebook, tmp_path)
