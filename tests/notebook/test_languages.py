"""Every language has the same magic: defined, drawn, run, written, asked about, wrong in the same ways."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from agf_magics.commands.magics import COMMANDS
from tests.notebook.conftest import Shell, code


class Told(NamedTuple):
    """A definition of one language and what must come of it."""

    body: str
    set: str
    gives: object
    size: str
    wrong: str
    """The same, misspelt."""
    code: str
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
    "plan": Told(
        PLAN,
        "word=pear",
        {"length": 4, "twice": 8},
        "plan article: 2 calls",
        PLAN.replace("_outputPath: †state.length", "_outputMethd: set"),
        "plan.unknown-key",
        3,
    ),
    "graph": Told(
        GRAPH,
        "n=3",
        {"n": 0},
        "graph article: 1 node",
        GRAPH.replace("passthrough", "passthru"),
        "graph.node-type",
        4,
    ),
    "policy": Told(
        POLICY,
        "topic=pears",
        {"text": "ON PEARS"},
        "policy article: 3 steps",
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
    told = LANGUAGES[language]
    shown = lab.good(f"%%{language} article\n{told.body}")
    assert shown.out.strip() == told.size
    assert shown.outputs == []
    assert "article" in lab.good("%flows").outputs[0]["text/plain"]


@each
def test_it_is_drawn_and_run_with_its_input(lab: Shell, language: str) -> None:
    told = LANGUAGES[language]
    drawn = lab.good(f"%%{language} article --draw\n{told.body}")
    assert "<img" in drawn.value._repr_mimebundle_()["text/html"]
    run = lab.good(f"%%{language} article --run --set {told.set} --quiet\n{told.body}").value
    assert run.output == told.gives
    assert lab.good(f"%run_pipeline article --set {told.set} --quiet").value.output == told.gives


@each
def test_a_run_keeps_what_is_asked_for(lab: Shell, language: str) -> None:
    told = LANGUAGES[language]
    lab.good(f"%%{language} article --run --set {told.set} --out r --write article.yaml --quiet\n{told.body}")
    assert lab.names["r"].output == told.gives
    lab.good("%flows --delete article")
    # The language of a file is what its text says, its name what the file is called.
    assert lab.good("%define article.yaml").out.strip() == told.size


@each
def test_a_mistake_is_told_at_its_line_of_the_cell(lab: Shell, language: str) -> None:
    told = LANGUAGES[language]
    shown = lab.run(f"%%{language} article --draw\n{told.wrong}")
    assert code(shown) == told.code
    assert f"In[{lab.ip.execution_count - 1}] %%{language}, line {told.line}" in str(shown.error)


@each
def test_its_help_shows_a_cell_that_can_be_read(lab: Shell, language: str) -> None:
    shown = lab.good(f"%%{language} --help")
    assert f"%%{language}" in shown.out
    assert "--draw" in shown.out
    first, body = COMMANDS[language].example.split("\n", 1)
    assert first.startswith(f"%%{language}")
    name = "" if language == "pipeline" else first.split()[1]
    lab.good(f"%%{language} {name} --quiet\n{body}")


@each
def test_a_cell_without_a_body_says_what_belongs_there(lab: Shell, language: str) -> None:
    assert not lab.run(f"%%{language} article").ok


def test_a_terminal_tells_every_visit_of_a_node(lab: Shell) -> None:
    """Without a kernel the view is lines; a visit that ends between two looks is told with the next."""
    shown = lab.good(f"%%graph article --run --set n=3 --out r\n{GRAPH}")
    lines = [line for line in shown.out.splitlines() if "nodes.tick" in line]
    assert lines[-1].startswith("✓ ok  tick passthrough n ×3  nodes.tick")
    assert "1 of 1 step" in shown.out
