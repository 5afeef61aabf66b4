"""The name of a flow on the line of its cell, in all four languages (decision P28).

It names a text without a name. If the text has a different name, the cell is refused.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import agf_magics as agf
from agf_magics.editor.problems import problems_of
from tests.notebook.conftest import Shell, code

BODIES = {
    "pipeline": ("steps:\n- transform: {value: '1'}\n", "pipeline: @\n"),
    "policy": (
        "interface: {input: {type: object, properties: {}}, output: {type: object, properties: {}}}\n"
        "execution_policy: {id: agf.sequential, config: {steps: [{agent: w}]}}\n"
        "action_space: {local_agents: [{alias: w, source: w}]}\n",
        "schema_version: 1.0.0\nmetadata: {id: @, name: n, version: 1.0.0, description: d}\n",
    ),
    "plan": ("calls: [{_tool: t, _outputPath: $state.a}]\noutput: $state.a\n", "name: @\n"),
    "graph": ("nodes: {n: {type: passthrough, output: {a: '1'}}}\nedges: [{from: START, to: n}]\n", "name: @\n"),
}


@pytest.fixture
def world(shell: Shell) -> Shell:
    shell.good("@tool\ndef t() -> int: return 1\n@agent\ndef w(prompt): return 'w'")
    return shell


def body(language: str, name: str | None) -> str:
    text, head = BODIES[language]
    return text if name is None else head.replace("@", name) + text


@pytest.mark.parametrize("language", BODIES)
def test_the_line_names_a_text_without_a_name(world: Shell, language: str) -> None:
    if language == "policy":
        world.good("%%policy one\nid: agf.sequential\nconfig: {steps: [{agent: w}]}")
    else:
        world.good(f"%%{language} one\n{body(language, None)}")
    assert agf.registry.flows["one"].language == language


@pytest.mark.parametrize("language", BODIES)
def test_the_same_name_twice_is_correct_and_two_names_are_refused(world: Shell, language: str) -> None:
    world.good(f"%%{language} one\n{body(language, 'one')}")
    result = world.run(f"%%{language} one\n{body(language, 'two')}")
    assert code(result) == "define.two-names"
    assert "the line names it 'one', and the text 'two'" in str(result.error)
    assert "two" not in agf.registry.flows
    assert agf.registry.flows["one"].source.text == body(language, "one")


@pytest.mark.parametrize("language", BODIES)
def test_the_editor_says_the_same(world: Shell, language: str) -> None:
    def codes(cell: str) -> list[str]:
        return [row["code"] for row in problems_of(cell, agf.registry) if row["severity"] == "error"]

    assert "define.two-names" in codes(f"%%{language} one\n{body(language, 'two')}")
    if language != "policy":
        assert not codes(f"%%{language} one\n{body(language, None)}")
        assert codes(f"%%{language}\n{body(language, None)}")


def test_names_that_look_the_same_are_the_same(world: Shell) -> None:
    world.good("%%pipeline cafe\u0301\n" + body("pipeline", "café"))


NAMELESS = (
    "# what it is\ndescription: d\nsteps:\n- transform: {value: ctx.a}\n---\nschema: S\nfields: {a: {type: string}}\n"
)


def test_a_pipeline_without_a_name_is_resumed_exported_and_written_with_it(world: Shell) -> None:
    world.good("%%pipeline one --write one.yaml\n" + NAMELESS)
    written = Path("one.yaml").read_text()
    assert written == NAMELESS.replace("description", "pipeline: one\ndescription", 1)
    world.good("%flows one --export two.yaml")
    assert Path("two.yaml").read_text() == written
    flow = agf.define(Path("one.yaml"))
    assert flow is not None
    assert flow.name == "one"
    agf.define(NAMELESS, name="one")
    run = agf.run("one", {"a": 3})
    assert agf.runs(run.run_id).flow.name == "one"
    assert agf.rerun("one", "steps[0]").output == 3


def test_a_flow_with_a_name_from_the_line_is_resumed(world: Shell) -> None:
    world.good("opened = []\n@tool\ndef door() -> int:\n    return opened[0]")
    world.good("%%pipeline one\nsteps:\n- tool: {name: door}\n")
    assert not world.run("%run_pipeline one").ok
    world.good("opened.append(5)\nagain = %resume one")
    assert world.names["again"].output == 5


@pytest.mark.parametrize("text", ["{steps: [{transform: {value: '1'}}]}", "  steps:\n  - transform: {value: '1'}\n"])
def test_each_form_of_a_text_is_written_with_its_name(world: Shell, text: str) -> None:
    world.good(f"%%pipeline 'a: b' --write one.yaml\n{text}")
    flow = agf.define(Path("one.yaml"))
    assert flow is not None
    assert flow.name == "a: b"


def test_a_file_needs_its_name_itself(world: Shell) -> None:
    Path("p.yaml").write_text(body("pipeline", None))
    assert code(world.run("%define p.yaml")) == "pipeline.document-kind"
    with pytest.raises(agf.DefinitionError, match=r"pipeline\.document-kind"):
        agf.define(Path("p.yaml"), name="p")


def test_in_python_a_name_replaces_that_of_the_text() -> None:
    registry = agf.Registry()
    agf.define(body("pipeline", "two"), name="one", registry=registry)
    agf.define(body("pipeline", None), name="three", registry=registry)
    assert [*registry.flows] == ["one", "three"]


def test_errors_of_a_text_without_a_name_are_at_their_places(world: Shell) -> None:
    result = world.run("%%pipeline one\nsteps:\n- transfrom: {value: '1'}\n")
    assert code(result) == "pipeline.step-kind"
    assert "line 3" in str(result.error)
    result = world.run("%%pipeline one\nsteps: []\n---\nsteps: []\n")
    assert "pipeline.two-pipelines" in str(result.error)


# --- files that are defined together ---

FILES = {
    "flows/a.yaml": "{pipeline: a, steps: [{call: {pipeline: b}}]}",
    "flows/b.yaml": "{pipeline: b, steps: [{call: {pipeline: c}}]}",
    "flows/below/c.yaml": "{pipeline: c, steps: [{transform: {value: '1'}}]}",
    "flows/below/g.yaml": (
        "name: g\nstate: {a: any}\n"
        "nodes: {n: {type: subgraph, graph: a, mode: direct}}\nedges: [{from: START, to: n}]\n"
    ),
    "flows/ci.yaml": "on: push\njobs: {}\n",
}


@pytest.fixture
def files(shell: Shell) -> Shell:
    for name, text in FILES.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    return shell


@pytest.mark.parametrize(
    "words", ["flows", "flows/*.yaml flows/below", "flows/a.yaml flows/below flows/b.yaml", "./flows"]
)
def test_files_that_are_defined_together_know_each_other(files: Shell, words: str) -> None:
    Path("flows/ci.yaml").unlink()
    result = files.good(f"%define {words} --strict")
    assert "warning" not in result.out
    assert agf.run("a").output == 1


def test_a_folder_has_other_files_too(files: Shell) -> None:
    files.good("%define flows --strict")
    assert {"a", "b", "c", "g"} <= set(agf.registry.flows)


def test_a_wrong_file_is_reported_and_the_others_are_defined(files: Shell) -> None:
    Path("flows/b.yaml").write_text("{pipeline: b, steps: [{nonsense: 1}]}")
    result = files.run("%define flows")
    assert code(result) == "pipeline.step-kind"
    assert "no flow 'b' is registered" in result.out
    assert {"a", "c"} <= set(agf.registry.flows)
    assert "b" not in agf.registry.flows


def test_a_folder_without_a_definition_and_one_in_python_have_a_hint(files: Shell) -> None:
    Path("empty").mkdir()
    assert "no definition in the folder 'empty'" in str(files.run("%define empty").error)
    with pytest.raises(agf.DefinitionError, match="%define reads a folder"):
        agf.define(Path("flows"))


def test_the_command_line_reads_them_in_the_same_way(files: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    from agf_magics.__main__ import main

    assert main(["check", "flows", "--strict"]) == 0
    assert "flows/a.yaml: ok" in capsys.readouterr().out
    assert "a" not in agf.registry.flows  # a check registers nothing
    assert main(["run", "flows/a.yaml", "--define", "flows"]) == 0
    assert capsys.readouterr().out == "1\n"
    assert main(["run", "flows/a.yaml", "--define", "nowhere/*.yaml"]) == 2
