"""Tests the scan of the project's notebooks: it finds everything they register, and no problem in a cell that runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from agf_magics.catalog import Registry
from agf_magics.editor.text_group import TextGroup, new_registry

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SHELVES = ("tools", "agents", "transforms", "policies", "flows", "schemas")

ONLY_RUNNING = {
    "graphs.ipynb": {"tools take_topic", "tools log_question", "tools issue_ticket"},
    "large-values.ipynb": {"flows reserved"},
}
"""What only the running program knows: a loop over functions, in a module that gets the registry; `agf.define`."""

WIDER = {"what-you-see.ipynb": {"tools chart"}}
"""Tools whose stand-in takes more: an annotation is a type of another package."""

LOOK = f"""
import json as _json, agf_magics as _agf
print("held", _json.dumps({{
    f"{{shelf}} {{name}}": getattr(thing, "accepts", None)
    for shelf in {SHELVES!r} for name, thing in getattr(_agf.registry, shelf).items()
}}, default=str))
"""


def scanned(path: Path) -> tuple[TextGroup, list[Any]]:
    """A notebook as an editor opens it that sees no other file, and its cells."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    group = TextGroup()
    for cell in cells:
        group.put(cell.id, cell.source, is_cell=True)
    group.arrange([cell.id for cell in cells])
    group.check()
    return group, cells


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_cell_that_runs_has_no_error(path: Path) -> None:
    group, cells = scanned(path)
    errors = [
        (cell.id, problem.message)
        for cell in cells
        if "raises-exception" not in cell.metadata.get("tags", ())
        for problem in group.files[cell.id].problems or ()
        if problem.diagnostic.severity == "error" and group.is_certain(problem)
    ]
    assert errors == []


def held(registry: Registry) -> dict[str, Any]:
    return {
        f"{shelf} {name}": getattr(entry, "accepts", None)
        for shelf in SHELVES
        for name, entry in getattr(registry, shelf).items()
    }


def held_by_a_kernel(path: Path, folder: Path) -> dict[str, Any]:
    """What the registry of a kernel holds that has run a notebook."""
    shutil.copy(FOLDER / "scripted_server.py", folder)
    shutil.copytree(FOLDER / "graphs", folder / "graphs")
    (folder / "pyproject.toml").touch()  # a project of its own
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(LOOK))
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    printed = "".join(output.get("text", "") for output in notebook.cells[-1].outputs)
    return json.loads(printed.partition("held ")[2])  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.kernel
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_what_a_notebook_registers_is_found_without_running_it(path: Path, tmp_path: Path) -> None:
    ran, (group, _) = held_by_a_kernel(path, tmp_path), scanned(path)
    registered, from_the_start = held(group.registry), held(new_registry())
    assert from_the_start.items() <= ran.items()
    only_running = ONLY_RUNNING.get(path.name, set())
    assert ran.keys() - registered.keys() == only_running
    assert registered.keys() - ran.keys() == set()
    assert {name for name in registered if registered[name] != ran[name]} == WIDER.get(path.name, set())
    if only_running:
        assert not group.is_complete, "its unknown names are information, not errors"
