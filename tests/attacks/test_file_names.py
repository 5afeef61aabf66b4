"""A definition with an impossible file name gives a coded error with a caret, at every place that takes a file name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import agf_magics as agf
from agf_magics.catalog import Registry
from agf_magics.text.diagnostics import AgfError, DefinitionError
from tests.processes import command_line

NAMES = {
    "too long": "q" * 300 + ".yaml", "a long path": "/".join(["q" * 200] * 30) + ".yaml", "NUL": "a\0b.yaml",
    "half a character": "\ud800.yaml", "a link in a circle": "circle.yaml", "a folder": "folder.yaml",
    "through a file": "file.txt/a.yaml", "nothing": "absent.yaml",
}  # fmt: skip
HEAD = 'schema_version: "1.0.0"\nmetadata: {id: t, name: T, version: "1.0.0", description: test}\n'
PLACES = {
    "source": ("policy", HEAD + "interface: {input: {}, output: {}}\n"
               "action_space: {local_agents: [{alias: a, source: %s}]}\n"
               "execution_policy: {id: agf.sequential, config: {steps: [{agent: a, input_mapping: {}}]}}\n"),
    "subgraph": ("graph", "name: g\nstate: {a: any}\nnodes: {s: {type: subgraph, graph: %s}}\n"
                 "edges: [{from: START, to: s}]\n"),
    "prompt": ("graph", "name: g\nstate: {a: any}\nnodes: {s: {type: llm, prompt: %s, state_key: a}}\n"
               "edges: [{from: START, to: s}]\n"),
    "python": ("graph", "name: g\nstate: {a: any}\ntools: {u: {type: python, path: %s, function: f}}\n"
               "nodes: {s: {type: python, tool: u, state_key: a}}\nedges: [{from: START, to: s}]\n"),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "circle.yaml").symlink_to("circle.yaml")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "file.txt").write_text("x")
    return tmp_path


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", NAMES)
def test_a_name_that_is_no_file_is_an_error_at_the_name(kind: str, place: str, folder: Path) -> None:
    language, text = PLACES[place]
    name = NAMES[kind].replace(".yaml", ".py") if place == "python" else NAMES[kind]
    with pytest.raises(AgfError) as raised:
        agf.run(agf.load(text % json.dumps(name), language), {}, registry=Registry())
    assert raised.value.diagnostic.span is not None
    assert len(str(raised.value)) < 3_000


@pytest.mark.parametrize("kind", [kind for kind in NAMES if kind != "nothing"])
def test_a_path_that_is_no_file_is_reported(kind: str, folder: Path) -> None:
    with pytest.raises(DefinitionError) as raised:
        agf.load(Path(NAMES[kind]), "pipeline")
    assert raised.value.code == "define.file"


@pytest.mark.parametrize("option", ["--define", "--input", "--tools", "file"])
def test_the_command_line_reports_it_without_a_traceback(option: str, folder: Path) -> None:
    (folder / "p.yaml").write_text("pipeline: p\nsteps: [{transform: {value: '1'}}]\n")
    name = NAMES["too long"].replace(".yaml", ".py") if option == "--tools" else NAMES["too long"]
    words = [name] if option == "file" else ["p.yaml", option, name]
    completed = command_line(folder, "run", *words)
    assert completed.returncode != 0
    assert completed.stderr
    assert "Traceback" not in completed.stderr
