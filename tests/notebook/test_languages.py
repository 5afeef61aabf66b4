"""The magics of all languages behave the same: they define, draw, run, save and ask in the same way, with the same
mistakes."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from agf_magics.commands.magics import COMMANDS
from tests.notebook.conftest import Shell, code


class Example(NamedTuple):
    """A definition in one language, and the expected outcome."""

    body: str
    """The cell below its first line."""
    set: str
    """The input, as words of the line."""
    gives: object
    """The output of the run."""
    size: str
    """The words about the size of the definition."""
    wrong: str
    """The same definition with a misspelt word."""
    code: str
    """The code of the error of ``wrong``, and its line in the cell."""
    line: int


AGENTS = """\
from agf_magics import agent
@agent
def writer(topic: str) -> dict:
    return {'text': 'on ' + topic}

@agent
def editor(draft: str) -> dict:
    return {'text': draft.upper()}

@tool
def shout(text: str) -> str:
    return text.upper()

@tool
def measure(word: str) -> int:
    return len(word)

@tool
def double(number: int) -> int:
    return 2 * number
"""

POLICY = """\
id: agf.sequential
config:
  steps:
  - agent: writer
    input_mapping: {topic: parent.input.topic}
  - agent: editor
    input_mapping: {draft: writer.output.text}
"""

PLAN = """\
calls:
- {_tool: measure, word: †input.word, _outputPath: †state.length}
- {_tool: double, number: †state.length, _outputPath: †state.twice}
output: †state
"""

GRAPH = """\
state: {n: int}
nodes:
  tick: {type: passthrough, output: {n: "{state.n - 1}"}}
edges:
- {from: START, to: tick}
- {from: tick, to: tick, condition: n > 0}
- {from: tick, to: END, condition: else}
"""

LANGUAGES = {
    "plan": Example(
        PLAN,
        "word=pear",
        {"length": 4, "twice": 8},
        "plan article: 2 calls",
        PLAN.replace("_outputPath: †state.length", "_outputMethd: set"),
        "plan.unknown-key",
        3,
    ),
    "graph": Example(
        GRAPH,
        "n=3",
        {"n": 0},
        "graph article: 1 node",
        GRAPH.replace("passthrough", "passthru"),
        "graph.node-type",
        4,
    ),
    "policy": Example(
        POLICY,
        "topic=pears",
        {"text": "ON PEARS"},
        "policy article: 2 steps",
        POLICY.replace("agf.sequential", "agf.sequental"),
        "policy.unsupported-policy",
        2,
    ),
}
each = pytest.mark.parametrize("language", LANGUAGES)


@pytest.fixture
def lab(shell: Shell) -> Shell:
    shell.good(AGENTS)
    return shell


@each
def test_a_cell_is_defined_under_the_name_in_its_line_and_says_its_size(lab: Shell, language: str) -> None:
    example = LANGUAGES[language]
    result = lab.good(f"%%{language} article\n{example.body}")
    assert result.out.strip() == example.size
    assert result.outputs == []
    assert "article" in lab.good("%flows").outputs[0]["text/plain"]


@each
def test_a_flow_is_drawn_and_run_with_its_input(lab: Shell, language: str) -> None:
    example = LANGUAGES[language]
    drawn = lab.good(f"%%{language} article --draw\n{example.body}")
    assert "<img" in drawn.value._repr_mimebundle_()["text/html"]
    run = lab.good(f"%%{language} article --run --set {example.set} --quiet\n{example.body}").value
    assert run.output == example.gives
    assert lab.good(f"%run_pipeline article --set {example.set} --quiet").value.output == example.gives


@each
def test_a_run_has_the_requested_outputs(lab: Shell, language: str) -> None:
    example = LANGUAGES[language]
    lab.good(f"%%{language} article --run --set {example.set} --out r --write article.yaml --quiet\n{example.body}")
    assert lab.names["r"].output == example.gives
    lab.good("%flows --delete article")
    # The text of a file decides its language, and the name of the file is the name of the flow.
    assert lab.good("%define article.yaml").out.strip() == example.size


@each
def test_a_mistake_is_reported_at_its_line_of_the_cell(lab: Shell, language: str) -> None:
    example = LANGUAGES[language]
    result = lab.run(f"%%{language} article --draw\n{example.wrong}")
    assert code(result) == example.code
    assert f"In[{lab.ip.execution_count - 1}] %%{language}, line {example.line}" in str(result.error)


@each
def test_the_help_of_a_magic_shows_a_correct_cell(lab: Shell, language: str) -> None:
    result = lab.good(f"%%{language} --help")
    assert f"%%{language}" in result.out
    assert "--draw" in result.out
    first, body = COMMANDS[language].example.split("\n", 1)
    assert first.startswith(f"%%{language}")
    name = "" if language == "pipeline" else first.split()[1]
    lab.good(f"%%{language} {name} --quiet\n{body}")


@each
def test_a_cell_without_a_body_says_what_belongs_there(lab: Shell, language: str) -> None:
    assert not lab.run(f"%%{language} article").ok


def test_a_terminal_prints_every_visit_of_a_node(lab: Shell) -> None:
    """Without a kernel the view is lines. A visit that ends between two updates is printed with the next one."""
    result = lab.good(f"%%graph article --run --set n=3 --out r\n{GRAPH}")
    lines = [line for line in result.out.splitlines() if "nodes.tick" in line]
    assert lines[-1].startswith("✓ ok  tick passthrough n ×3  nodes.tick")
    assert "1 of 1 step" in result.out
