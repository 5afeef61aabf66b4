"""The notebook's folder is found only once (decision A16): no later change of the folder has an effect on a run.

The tests try each way to change the current folder with each thing that is read from the notebook's folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import agf_magics as agf
from agf_magics.catalog.builtin.attachments import read_attachment
from agf_magics.settings.folders import journal_file
from agf_magics.text.folder import notebook_folder
from tests.notebook.conftest import Shell, code

GRAPH = """\
name: g
state: {a: any}
nodes:
  n: {type: llm, prompt: greet, state_key: a}
edges: [{from: START, to: n}]
"""
SUBGRAPH = """\
name: s
state: {answer: any}
nodes:
  n: {type: subgraph, graph: inner.yaml, output_mapping: {answer: answer}}
edges: [{from: START, to: n}]
"""
INNER = """\
name: i
state: {answer: any}
nodes:
  n: {type: passthrough, output: {answer: '1'}}
edges: [{from: START, to: n}]
"""
PLACES = {
    "file__read": ("pipeline", "{pipeline: p, steps: [{tool: {name: file__read, args: {path: here.txt}}}]}"),
    "shell": (
        "pipeline",
        "{pipeline: p, steps: [{shell: {command: cat here.txt}}, {transform: {value: pipe.stdout}}]}",
    ),
    "prompt": ("graph", GRAPH),
}


@pytest.fixture
def two(shell: Shell, tmp_path: Path) -> Shell:
    """A notebook whose folder has files with the text "home", and another folder with the same file names."""
    for folder, word in ((tmp_path, "home"), (tmp_path / "data", "away")):
        (folder / "prompts").mkdir(parents=True)
        (folder / "here.txt").write_text(word)
        (folder / "prompts/greet.yaml").write_text(f"user: {word}\n")
    (tmp_path / "data/pyproject.toml").touch()  # another project

    @agf.agent(default=True)
    def echo(prompt: str) -> str:
        return prompt

    @agf.tool
    def wander() -> None:
        os.chdir("data")

    shell.good("%config AgfMagics.allow_shell = True")
    return shell


def _cd(shell: Shell) -> None:
    shell.good("%cd data")


def _chdir(shell: Shell) -> None:
    shell.good("import os; os.chdir('data')")


def _tool(shell: Shell) -> None:
    shell.good("import agf_magics; agf_magics.run('{pipeline: w, steps: [{tool: {name: wander}}]}')")


LEAVE: dict[str, Callable[[Shell], None]] = {"%cd": _cd, "os.chdir": _chdir, "a tool": _tool}


@pytest.mark.parametrize("leave", LEAVE)
@pytest.mark.parametrize("place", PLACES)
def test_the_files_of_a_definition_are_those_of_the_notebooks_folder(two: Shell, place: str, leave: str) -> None:
    language, text = PLACES[place]
    for _ in range(2):
        agf.define(text, language, name="f")
        assert "home" in str(agf.run("f").output)
        assert read_attachment("here.txt").data == b"home"
        if Path.cwd() == notebook_folder.path:
            LEAVE[leave](two)
    assert Path.cwd().name == "data"


@pytest.mark.parametrize("leave", LEAVE)
def test_the_runs_of_a_notebook_stay_in_its_folder(two: Shell, leave: str) -> None:
    before = journal_file()
    run = agf.run("{pipeline: p, steps: [{transform: {value: '1'}}]}")
    LEAVE[leave](two)
    later = agf.run("{pipeline: p, steps: [{transform: {value: '2'}}]}")
    assert journal_file() == before
    assert [line.run_id for line in agf.runs(flow="p")] == [later.run_id, run.run_id]
    assert not Path(".agf").exists()


def test_a_tool_that_goes_elsewhere_changes_no_later_step(two: Shell) -> None:
    two.good(
        "%%pipeline --run --out r\npipeline: p\nsteps:\n- tool: {name: wander}\n"
        "- tool: {name: file__write, args: {path: new.txt, content: x}}\n"
        "- tool: {name: file__read, args: {path: here.txt}}\n"
    )
    assert two.names["r"].output == "home"
    assert Path("../new.txt").read_text() == "x"


def test_a_file_that_was_defined_before_still_finds_its_own_files(two: Shell, tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows/inner.yaml").write_text(INNER)
    (tmp_path / "flows/outer.yaml").write_text(SUBGRAPH)
    two.good("%define flows/outer.yaml")
    os.chdir("data")
    assert agf.run("s").stores["answer"] == "1"
    agf.define(Path("../flows/outer.yaml"), name="t")  # the user's path is relative to the current folder
    os.chdir("..")
    assert agf.run("t").stores["answer"] == "1"


def write_two(outer: Path, named: str) -> None:
    """Write a graph, and the other graph that it names."""
    for file, text in ((outer, SUBGRAPH.replace("inner.yaml", named)), (outer.parent / named, INNER)):
        place = Path(os.path.normpath(file))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


@pytest.mark.parametrize(
    ("outer", "named"),
    [
        ("data/flows/outer.yaml", "../inner.yaml"),
        ("data/outer.yaml", "flows/inner.yaml"),
        ("flows/outer.yaml", "inner.yaml"),
        ("flows/outer.yaml", "below/inner.yaml"),
    ],
)
def test_a_file_names_files_of_the_notebooks_folder_and_one_from_elsewhere_those_beside_it(
    two: Shell, tmp_path: Path, outer: str, named: str
) -> None:
    two.good("%config AgfMagics.folder = 'data'")
    write_two(tmp_path / outer, named)
    agf.define(tmp_path / outer)
    assert agf.run("s").stores["answer"] == "1"


@pytest.mark.parametrize(
    ("outer", "named"), [("data/flows/outer.yaml", "../../inner.yaml"), ("flows/outer.yaml", "../inner.yaml")]
)
def test_a_file_names_no_file_above_its_folder_and_that_of_the_notebook(
    two: Shell, tmp_path: Path, outer: str, named: str
) -> None:
    two.good("%config AgfMagics.folder = 'data'")
    write_two(tmp_path / outer, named)
    agf.define(tmp_path / outer)
    with pytest.raises(agf.DefinitionError, match=named) as caught:
        agf.run("s")
    assert caught.value.code == "file.outside"


@pytest.mark.parametrize(
    ("leaves", "path", "shown"),
    [
        (False, "bad.yaml", "bad.yaml"),
        (False, "data/../bad.yaml", "data/../bad.yaml"),
        (True, "../bad.yaml", "bad.yaml"),
        (True, "far.yaml", "data/far.yaml"),
    ],
)
def test_the_name_of_a_file_leads_to_it_from_the_notebooks_folder(
    two: Shell, tmp_path: Path, leaves: bool, path: str, shown: str
) -> None:
    for file in ("bad.yaml", "data/far.yaml"):
        (tmp_path / file).write_text("pipeline: p\nsteps: 1\n")
    agf.run("{pipeline: p, steps: [{transform: {value: '1'}}]}")  # the folder is known from here on
    if leaves:
        two.good("%cd data")
    with pytest.raises(agf.DefinitionError) as caught:
        agf.define(Path(path))
    assert caught.value.diagnostic.span is not None
    assert caught.value.diagnostic.span.source.name == shown


def test_only_the_user_changes_the_folder(two: Shell, tmp_path: Path) -> None:
    two.good("%cd data\n%config AgfMagics.folder = '.'")
    assert notebook_folder.path == tmp_path / "data"
    assert journal_file() == tmp_path / "data/.agf/runs.sqlite"
    two.good("%cd ..")
    agf.define(PLACES["file__read"][1])
    assert agf.run("p").output == "away"
    result = two.run("%config AgfMagics.folder = 'nowhere'")
    assert "must be the path of a folder that exists" in str(result.error)
    assert notebook_folder.path == tmp_path / "data"


PLAIN = """\
import os
import agf_magics as agf
agf.define("{pipeline: p, steps: [{tool: {name: file__read, args: {path: here.txt}}}]}")
os.chdir("data")
print(agf.run("p").output)
os.chdir("..")
print(agf.run("p").output, len(agf.runs()))
"""


def test_in_plain_python_the_first_run_finds_the_folder(tmp_path: Path) -> None:
    for folder, word in ((tmp_path, "home"), (tmp_path / "data", "away")):
        folder.mkdir(exist_ok=True)
        (folder / "here.txt").write_text(word)
        (folder / "pyproject.toml").touch()
    process = subprocess.run([sys.executable, "-c", PLAIN], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert process.stdout.split("\n")[:2] == ["away", "away 2"], process.stderr


def test_on_the_command_line_the_folder_is_that_of_the_file(tmp_path: Path) -> None:
    flows = tmp_path / "flows"
    flows.mkdir()
    (flows / "here.txt").write_text("home")
    (flows / "p.yaml").write_text("{pipeline: p, steps: [{tool: {name: file__read, args: {path: here.txt}}}]}")
    (flows / "waits.yaml").write_text(
        "name: waits\nstate: {a: any}\nnodes: {n: {type: interrupt, message: 'Name?', state_key: a}}\n"
        "edges: [{from: START, to: n}]\n"
    )

    def line(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "agf_magics", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    assert line("run", "flows/p.yaml").stdout == '"home"\n'
    assert (flows / ".agf/runs.sqlite").exists()
    assert not (tmp_path / ".agf").exists()
    (tmp_path / "here.txt").write_text("away")
    assert line("run", "flows/p.yaml", "--folder", ".").stdout == '"away"\n'
    waits = line("run", "flows/waits.yaml")
    words = waits.stderr.partition("to resume it: agf-magics ")[2].split("\n")[0].split()
    assert words[-2:] == ["--folder", "flows"], waits.stderr
    resumed = subprocess.run(
        [sys.executable, "-m", "agf_magics", *words],
        cwd=tmp_path, capture_output=True, text=True, input="Ann\n",
    )  # fmt: skip
    assert "Ann" in resumed.stdout, resumed.stderr
    assert "there is no folder 'nowhere'" in line("run", "flows/p.yaml", "--folder", "nowhere").stderr


def test_a_flow_of_a_run_inside_of_a_journal_folder_is_refused_as_ever(two: Shell) -> None:
    agf.define("{pipeline: p, steps: [{tool: {name: file__read, args: {path: .agf/runs.sqlite}}}]}")
    assert code(two.run("%run_pipeline p")) == "tool.file-path"
