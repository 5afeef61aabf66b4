"""Two rules for all places: the files that a definition may name, and the files that `file__write` may write."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import agf_magics as agf
from agf_magics.settings.settings import current

SECRET = "hunter2"
HEAD = 'schema_version: "1.0.0"\nmetadata: {id: t, name: T, version: "1.0.0", description: t}\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place = tmp_path / "notebook"
    place.mkdir()
    monkeypatch.chdir(place)
    before = current.settings
    current.settings = replace(before, allow_import=True, journal=None)
    yield place
    current.settings = before


class Model:
    """What an agent received, and what it returned."""

    def __init__(self) -> None:
        self.registry, self.heard = agf.Registry(), list[str]()

        @agf.agent(default=True, registry=self.registry)
        def model(prompt: str) -> str:
            self.heard.append(prompt)
            return "heard"


def graph(nodes: str, more: str = "") -> str:
    return f"name: g\nstate: {{a: str}}\nnodes: {{n: {nodes}}}\nedges: [{{from: START, to: n}}]\n{more}"


# Definitions that name a file, by the place of the name.
PLACES: dict[str, Callable[[str], tuple[str, str]]] = {
    "prompt": lambda name: (graph(f"{{type: llm, prompt: {json.dumps(name)}, state_key: o}}"), "graph"),
    "prompt of a folder": lambda name: (
        graph(
            f"{{type: llm, prompt: {json.dumps(Path(name).name)}, state_key: o}}",
            f"prompts_dir: {json.dumps(str(Path(name).parent))}\n",
        ),
        "graph",
    ),
    "subgraph": lambda name: (graph(f"{{type: subgraph, graph: {json.dumps(name)}}}"), "graph"),
    "source": lambda name: (
        f"{HEAD}interface: {{input: {{}}, output: {{}}}}\n"
        f"action_space: {{local_agents: [{{alias: a, source: {json.dumps(name)}}}]}}\n"
        "execution_policy: {id: agf.sequential, config: {steps: [{agent: a}]}}\n",
        "policy",
    ),
    "python": lambda name: (
        graph("{type: python, tool: u, state_key: a}", f"tools: {{u: {{type: python, path: {json.dumps(name)}}}}}\n"),
        "graph",
    ),
    "attach": lambda name: (
        f"pipeline: p\nsteps: [{{agent: {{prompt: look, attach: [{json.dumps(repr(name))}]}}}}]\n",
        "pipeline",
    ),
    "file__read": lambda name: (
        f"pipeline: p\nsteps: [{{tool: {{name: file__read, args: {{path: {json.dumps(name)}}}}}}}]\n",
        "pipeline",
    ),
}
HIDDEN = {
    "a dot-file": ".secret{}",
    "in a dot-folder": ".aws/credentials{}",
    "deep in a dot-folder": ".git/a/b/config{}",
    "a dot-file in a folder": "sub/.p{}",
    "the journal's folder": ".agf/x{}",
    "with a dot before": "./.aws/x{}",
    "through a folder": "sub/../.aws/y{}",
    "outside": "../outside{}",
    "outside, through a folder": "sub/../../outside{}",
    "look-alike dot": "\uff0esecret{}",
    "an invisible character before the dot": "\u200b.secret{}",
    "a blank before the dot": " .secret{}",
    "what pytest imports": "conftest{}",
    "in capitals": "CONFTEST{}",
    "a configuration, by case": "sub/PyProject.TOML/x{}",
    "trailing dots": ".aws./x{}",
}
ENDINGS = {"prompt": ".txt", "prompt of a folder": ".yaml", "python": ".py", "attach": ".txt", "file__read": ".txt"}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", HIDDEN)
def test_a_definition_reads_no_protected_file_wherever_it_names_it(folder: Path, kind: str, place: str) -> None:
    name = HIDDEN[kind].format(ENDINGS.get(place, ".yaml"))
    (folder / "sub").mkdir()
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"user: {SECRET}\n" if place != "python" else f"def u():\n    return '{SECRET}'\n")
    check_is_refused(folder, *PLACES[place](name))


LINKS = {
    "a link to a dot-file": ("plain{}", ".secret{}"),
    "a link to a file outside": ("plain{}", "../outside{}"),
    "a link in a linked folder": ("link/x{}", ".aws/x{}"),
}


@pytest.mark.skipif(os.name != "posix", reason="links need rights on Windows")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", LINKS)
def test_a_link_leads_to_no_protected_file(folder: Path, kind: str, place: str) -> None:
    name, target = (part.format(ENDINGS.get(place, ".yaml")) for part in LINKS[kind])
    file = folder / target
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"user: {SECRET}\n" if place != "python" else f"def u():\n    return '{SECRET}'\n")
    if "/" in name:
        (folder / "link").symlink_to(file.parent, target_is_directory=True)
    else:
        (folder / name).symlink_to(file)
    check_is_refused(folder, *PLACES[place](name))


def check_is_refused(folder: Path, text: str, language: str) -> None:
    model = Model()
    try:
        run = agf.run(
            agf.load(text, language, registry=model.registry), {"a": "x"}, registry=model.registry, raises=False
        )
        error, texts = run.error, f"{run.output} {dict(run.stores)} {run.error}"
    except agf.DefinitionError as refused:
        error, texts = refused, str(refused)  # type: ignore[assignment]
    assert SECRET not in texts
    assert not any(SECRET in heard for heard in model.heard)
    is_text = error is None and model.heard  # a text that cannot be the name of a file is itself the prompt
    assert is_text or (error is not None and error.diagnostic.span is not None)


OTHERS = {
    "a value": f"db_password: {SECRET}\n",
    "broken JSON": f'{{"password": "{SECRET}"',
    "no YAML": f"TOKEN={SECRET}\n",
    "broken YAML": f"password: '{SECRET}\n",
    "a secret of a cluster": f"apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\ndata: {{password: {SECRET}}}\n",
    "a database": f"user: admin\npassword: {SECRET}\nschema: public\n",
    "a pipeline of another program": f"pipeline: x\nstages: [{SECRET}]\n",
    "a list": f"- {SECRET}\n",
    "a tag": f"a: !secret {SECRET}\n",
    "twice": f"a: 1\na: {SECRET}\n",
}


@pytest.mark.parametrize("place", ["prompt", "prompt of a folder", "subgraph", "source"])
@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("ending", [".yaml", ".yml", ".json"])
def test_an_error_about_a_file_of_another_program_shows_no_line_of_it(
    folder: Path, kind: str, place: str, ending: str
) -> None:
    if "prompt" in place and ending == ".json":
        pytest.skip("a prompt is no JSON file")
    (folder / "sub").mkdir()
    (folder / f"sub/s{ending}").write_text(OTHERS[kind])
    text, language = PLACES[place](f"sub/s{ending}")
    if place == "prompt of a folder":
        text = text.replace(f's{ending}"', 's"')
    check_is_refused(folder, text, language)


def test_an_error_in_a_definition_that_another_one_names_shows_its_line(folder: Path) -> None:
    (folder / "inner.yaml").write_text(graph("{type: passthrough, nonsense: 1}"))
    with pytest.raises(agf.DefinitionError) as raised:
        agf.run(agf.load(*PLACES["subgraph"]("inner.yaml")), {"a": "x"})
    assert "nonsense: 1" in str(raised.value)


# --- files that are written ---

RUN = (
    "test_notes.txt", "TEST_notes.TXT", "tests.md", "test.rst", "test_a:b.py", "x:y.sh", "a.txt:b.py", "pytest.ini",
    "tox.ini", "sub/PyTest.INI", "x.pyz", "x.hta", "x.jse", "x.pif", "x.cpl", "x.url", "x.scf", "x.vb", "x.awk",
    "x.service", "x.applescript", "x.psc1", "x.xlsm", "x.toml", "x.cfg", "x.conf", "x.env", "x.unknown",
    "x.TXT.exe. ", "x.\uff50\uff59", "x.p\u200by", "package.json", "sub/Package.JSON", "requirements.txt",
    "requirements-dev.txt", "docker-compose.yml", "Dockerfile", "Justfile", "CMakeLists.txt",
    "a.dist-info/entry_points.txt", "x.app/Contents/a.txt", "__pycache__/x.txt", "node_modules/a.txt", "lib.py/a.txt",
    "postBuild", "BUILD", "entry_points.txt",
)  # fmt: skip
FINE = (
    "notes.txt", "a.b.md", "table.csv", "result.json", "rows.jsonl", "page.html", "10:30.txt", "größe.txt", "plain",
    "my_test.txt", "contest.txt", "setup.py.txt", "sub/deep/v1.2/data.yaml", "latest.md", "pyproject.md",
)  # fmt: skip
WRITE = "pipeline: w\nsteps: [{tool: {name: file__write, args: {path: !expr ctx.p, content: x}}}]"


def error_of_writing(path: str) -> str:
    run = agf.run(WRITE, {"p": path}, raises=False)
    return "" if run.error is None else str(run.error.code)


@pytest.mark.parametrize("path", RUN)
def test_a_file_that_a_program_would_run_is_not_written(folder: Path, path: str) -> None:
    assert error_of_writing(path) == "tool.file-path"
    assert [path for path in folder.rglob("*") if path.is_file()] == []


@pytest.mark.skipif(os.name != "posix", reason="Windows has no colon in a name")
@pytest.mark.parametrize("path", FINE)
def test_texts_and_data_are_written(folder: Path, path: str) -> None:
    assert error_of_writing(path) == ""
    assert (folder / path).read_text() == "x"


@pytest.mark.skipif(os.name != "posix", reason="Windows needs rights for a link")
def test_a_file_is_not_written_by_another_name(folder: Path) -> None:
    (folder / ".bashrc").write_text("mine")
    os.link(folder / ".bashrc", folder / "notes.txt")
    assert error_of_writing("notes.txt") == "tool.file-path"
    assert (folder / ".bashrc").read_text() == "mine"


def test_a_graph_exports_no_file_that_runs(folder: Path) -> None:
    for name in ("test_notes.txt", "requirements.txt", "a.dist-info/x.txt"):
        text = graph("{type: passthrough, output: {a: x}}", f"exports: {{a: {{format: text, filename: {name}}}}}\n")
        run = agf.run(agf.load(text, "graph"), {"a": "x"})
        with pytest.raises(agf.StepError) as raised:
            agf.export(run, folder)
        assert raised.value.code == "tool.file-path"
