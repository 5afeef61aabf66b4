"""The notebooks of the project are executed without a front end, as CI and papermill do."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.slow import slow_but

pytestmark = pytest.mark.kernel

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SPEC = importlib.util.spec_from_file_location("notebooks_execute", FOLDER / "execute.py")
assert SPEC
assert SPEC.loader
runner = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(runner)

LAYERS = "agent|flow|graph|journal|limit|magic|model|on|over|pipeline|plan|planner|policy|r1|run|schema|step|tool|yaml"
CODE = rf"(?:{LAYERS})\.[a-z][a-z-]*"
FENCED = re.compile(r"^```\n(.*?)\n```$", re.DOTALL | re.MULTILINE)
WANTED = re.compile(r"must give `(.+)`\.$|must show:\n\n```text\n(.*?)\n```$", re.MULTILINE | re.DOTALL)

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
    (folder / "pyproject.toml").touch()  # makes the folder a project
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def notebook_of(*cells: str) -> Any:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])


STARTS = ("quickstart", "four-languages", "pipeline-language", "agents-and-tools")
"""The notebooks with which a reader starts."""


@pytest.mark.parametrize(
    "path", slow_but([FOLDER / f"{name}.ipynb" for name in STARTS], NOTEBOOKS), ids=lambda path: path.name
)
def test_our_notebooks_run_give_the_stored_outputs_and_announce_their_errors(path: Path, tmp_path: Path) -> None:
    shutil.copy(FOLDER / "scripted_server.py", tmp_path)
    shutil.copytree(FOLDER / "graphs", tmp_path / "graphs")
    stored = nbformat.read(path, as_version=4)
    executed = execute(nbformat.read(path, as_version=4), tmp_path)
    assert "widgets" not in executed.metadata
    expected = {}
    for before, cell in zip(executed.cells, executed.cells[1:], strict=False):
        if "raises-exception" in cell.metadata.get("tags", ()):
            expected[cell.id] = re.findall(f"`({CODE})`", before.source), codes(cell)
        elif cell.cell_type == "code":
            assert not codes(cell), cell.id
    assert expected
    assert all(raised for _, raised in expected.values())
    announced = {id: codes for id, (codes, _) in expected.items()}
    assert announced == {id: raised for id, (_, raised) in expected.items()}
    now, before = runner.stable(executed), runner.stable(stored)
    assert {id: now[id] for id in now if now[id] != before[id]} == {}, "python -m docs notebooks stores the outputs"


COST = re.compile(r"\b\d+ requests, \d+ tokens")


def values(notebook: Any) -> dict[str, Any]:
    """The outputs of the cells, without the pages of runs, which differ in a replay."""
    values_given = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and runner.VARIES not in cell.metadata.get("tags", ()):
            outputs = [output.get("data", {}) for output in cell.outputs]
            texts = [data["text/plain"] for data in outputs if "text/plain" in data and "text/html" not in data]
            values_given[cell.id] = codes(cell), COST.sub("", "\n".join(texts))
    return values_given


@pytest.mark.parametrize("name", slow_but(["agents-and-tools"], ["agents-and-tools", "plans"]))
def test_notebooks_that_ask_a_model_replay_without_it(name: str, tmp_path: Path) -> None:
    """`scripted_server.py` is missing, and nothing listens at the address of the model."""
    path = FOLDER / f"{name}.ipynb"
    stored, again = (nbformat.read(path, as_version=4) for _ in range(2))
    executed = execute(runner.within_recording(again, runner.recording_of(path), new=False), tmp_path)
    now = values(executed)
    assert {id: now[id] for id in values(stored) if now.get(id) != values(stored)[id]} == {}
    assert any(text for _, text in now.values())


@pytest.mark.slow
def test_a_recording_of_a_notebook_has_its_calls_in_a_file_of_their_own(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "scripted_server.py", tmp_path)
    path, new = FOLDER / "plans.ipynb", tmp_path / "plans.agf"
    execute(runner.within_recording(nbformat.read(path, as_version=4), new, new=True), tmp_path)
    calls = [json.loads(line) for line in runner.recording_of(path).read_text("utf-8").splitlines()]
    recorded = [json.loads(line) for line in new.read_text("utf-8").splitlines()]
    same = [sorted((line.get("kind", ""), line["name"]) for line in lines) for lines in (calls, recorded)]
    assert same[0] == same[1], "python notebooks/execute.py --record notebooks/plans.ipynb"
    assert ("model", "openai:scripted") in same[0]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_our_notebooks_are_stored_with_outputs_and_nothing_of_this_computer(path: Path) -> None:
    stored = nbformat.read(path, as_version=4)
    assert path.stat().st_size <= runner.MOST_BYTES
    assert runner.clean(stored) == stored
    assert str(Path.home()) not in path.read_text(encoding="utf-8")
    cells = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert sum(bool(cell.outputs) for cell in cells) > len(cells) / 2
    assert any("data:image/svg+xml" in "".join(o.get("data", {}).values()) for cell in cells for o in cell.outputs)
    for cell in stored.cells:
        assert set(cell.metadata.get("tags", ())) <= {"raises-exception", runner.VARIES}
        assert re.fullmatch("[a-z0-9-]+", cell.id)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("cities · ✓ ok · 15 ms · cities-1-d3d35e", "cities · ✓ ok · < 1 ms · cities-1-00aa11"),
        ("took   1 min 2 s\nok", "took 3.5 s\nok"),
        ("2026-01-02 03:04:05 a#1 a#0", "2025-11-12 13:14:15 a#0 a#1"),
    ],
)
def test_outputs_that_differ_in_times_ids_and_order_are_equal(first: str, second: str) -> None:
    assert runner.stable(notebook_with_output(first)) == runner.stable(notebook_with_output(second))


def test_outputs_that_differ_in_values_are_not_equal_unless_the_cell_varies() -> None:
    assert runner.stable(notebook_with_output("5 crates")) != runner.stable(notebook_with_output("6 crates"))
    assert runner.stable(notebook_with_output("5 crates", "varies")) == runner.stable(
        notebook_with_output("6 crates", "varies")
    )


def notebook_with_output(text: str, *tags: str) -> Any:
    cell = nbformat.v4.new_code_cell("", id="cell", metadata={"tags": list(tags)})
    cell.outputs = [nbformat.v4.new_output("stream", text=text)]
    return nbformat.v4.new_notebook(cells=[cell])


def test_every_solution_gives_the_output_that_its_exercise_shows(tmp_path: Path) -> None:
    notebook = nbformat.read(FOLDER / "pipeline-language.ipynb", as_version=4)
    cells, expected = [], {}
    for cell in notebook.cells:
        cells.append(cell)
        if cell.cell_type == "markdown" and (match := WANTED.search(cell.source)):
            cells += [nbformat.v4.new_code_cell(code) for code in FENCED.findall(cell.source.partition("<details>")[2])]
            expected[cells[-1].id] = match[1] or match[2]
    notebook.cells = cells
    execute(notebook, tmp_path)
    assert len(expected) == sum(cell.source.startswith("**Exercise.**") for cell in cells) == 23
    for cell in cells:
        if cell.id in expected:
            output_text = cell.outputs[-1].data["text/plain"]
            assert output_text == expected[cell.id] or f"\n{expected[cell.id]}\n" in output_text, cell.source


@pytest.mark.parametrize(
    ("licences", "left_out", "last", "report"),
    [
        (["MIT"] * 3, 0, "3 packages, 1 licences", "Every package comes under an allowed licence."),
        pytest.param(
            ["MIT"] * 400 + ["Fancy"] * 200, 7, "600 packages, 2 licences", "- p400 1.0: other", marks=pytest.mark.slow
        ),
    ],
    ids=["3 packages", "607 packages"],
)
def test_the_quickstart_reads_whatever_is_installed(
    licences: list[str], left_out: int, last: str, report: str, tmp_path: Path
) -> None:
    """``left_out``: the number of further packages whose metadata have no version."""
    for number, licence in enumerate([*licences, *[""] * left_out]):
        folder = tmp_path / "site" / f"p{number}-1.0.dist-info"
        folder.mkdir(parents=True)
        version = f"Version: 1.0\nLicense: {licence}\n" if licence else ""
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: p{number}\n{version}")
    notebook = nbformat.read(FOLDER / "quickstart.ipynb", as_version=4)
    only = f"def distributions(): return importlib.metadata.distributions(path=[{str(tmp_path / 'site')!r}])"
    tools = next(place for place, cell in enumerate(notebook.cells) if cell.id == "tools")
    look = f"import importlib.metadata, sys\nsys.path.insert(0, {str(tmp_path / 'site')!r})\n{only}"
    notebook.cells.insert(tools + 1, nbformat.v4.new_code_cell(look))
    execute(notebook, tmp_path)
    outputs = next(cell for cell in notebook.cells if cell.id == "result").outputs
    printed = "".join(output.text for output in outputs)  # a busy kernel sends each line as a separate output
    assert printed.splitlines()[-1] == f"{last}; report: licences.md"
    assert report in (tmp_path / "licences.md").read_text()
    page = next(cell for cell in notebook.cells if cell.id == "packages").outputs[-1].data["text/plain"]
    assert (f"{left_out} elements failed and dropped" in page) == bool(left_out)


def codes(cell: Any) -> list[str]:
    """The codes of the errors with which a cell ended."""
    tracebacks = "\n".join(
        line for output in cell.outputs if output.output_type == "error" for line in output.traceback
    )
    return re.findall(rf"\[({CODE})\]", re.sub(r"\x1b\[[0-9;]*m", "", tracebacks))


def test_a_run_in_the_background_is_in_the_cell_that_started_it_when_the_last_one_waits(tmp_path: Path) -> None:
    define = RUN.replace("--run --draw --set 'words=[pear, fig, kiwi]' --out r", "--quiet")
    start = "h = %run_pipeline_async lengths --set 'words=[pear, fig, kiwi]'"
    executed = execute(notebook_of(SETUP, define, start, "6 * 7", "%runs --wait"), tmp_path)
    nbformat.validate(executed)
    assert "widgets" not in executed.metadata
    (page,) = executed.cells[2].outputs
    assert "✓ ok" in page.data["text/html"]
    assert "output:\n  - 4\n  - 3\n  - 4\n" in page.data["text/plain"]
    assert "In[3]" in executed.cells[4].outputs[0].data["text/plain"]


def test_an_executed_notebook_holds_no_widget_and_reads_without_a_kernel(tmp_path: Path) -> None:
    executed = execute(notebook_of(SETUP, RUN, "r", "r.output"), tmp_path)
    nbformat.validate(executed)
    assert "widgets" not in executed.metadata
    printed, page = executed.cells[1].outputs
    assert printed.text == "pipeline lengths: 1 step\n"
    assert set(page.data) == {"text/html", "text/plain"}
    assert "✓ ok" in page.data["text/html"]
    assert "data:image/svg+xml;base64," in page.data["text/html"]
    assert executed.cells[3].outputs[0].data["text/plain"] == "[4, 3, 4]"


def test_an_executed_notebook_stops_at_an_error_and_shows_it(tmp_path: Path) -> None:
    notebook = notebook_of(SETUP, "%%pipeline --run\npipeline: p\nsteps: [{tool: {name: fail}}]", "print('never')")
    with pytest.raises(CellExecutionError, match="no pears"):
        execute(notebook, tmp_path)
    error = notebook.cells[1].outputs[-1]
    assert (error.output_type, error.ename) == ("error", "StepError")
    assert not notebook.cells[2].outputs


def test_a_wrong_line_stops_a_notebook_too(tmp_path: Path) -> None:
    notebook = notebook_of("%load_ext agf_magics", "%run_pipeline nobody --out r")
    with pytest.raises(CellExecutionError, match=r"magic\.unknown-flow"):
        execute(notebook, tmp_path)
