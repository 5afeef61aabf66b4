"""Whole graphs run from their text to their final state, round by round (tests/vectors/graph_runs.json)."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.catalog import default as default_registry
from agf_magics.settings.settings import Settings, current
from tests.engine.virtual_time import run_virtual
from tests.languages.graph_case import run_case
from tests.languages.typed import typed

ROWS = json.loads((Path(__file__).parents[1] / "vectors" / "graph_runs.json").read_text("utf-8"))["rows"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_graph_runs_as_its_vector_says(row: dict[str, Any]) -> None:
    expected = {key: row[key] for key in ("ok", "order", "warnings", "error") if key in row}
    assert typed(run_case(row)) == typed(expected)


# --- cases that rows cannot describe ---


def graph(text: str, registry: agf.Registry, input: Any = None, **how: Any) -> agf.Run:
    run: agf.Run = run_virtual(agf.arun(agf.load(text, "graph", registry=registry), input, registry=registry, **how))
    return run


ONE = "nodes:\n  a: {node}\nedges: [{{from: START, to: a}}]\n"


def graph_of(node: str, more: str = "") -> str:
    return more + ONE.format(node=node)


def test_a_key_that_the_other_flow_does_not_return_is_reported() -> None:
    registry = agf.Registry()
    agf.define("{pipeline: other, steps: [{transform: {value: '7', output: z}}]}", registry=registry)
    node = "{type: subgraph, graph: other, input_mapping: {}, output_mapping: {n: output, m: z}}"
    run = graph(graph_of(node, "state: {n: int, m: int}\n"), registry, {"m": 5})
    assert run.output == {"n": 7, "m": 5}
    (warning,) = [(warning.code, warning.span.text) for warning in run.warnings if warning.span]
    assert warning == ("graph.subgraph-mapping", "z")


@pytest.mark.parametrize(
    ("before", "inside", "after"),
    [
        ([1], [1, 2], [1, 2]),
        ([1], [7], [1, 7]),
        ("a", "ab", "ab"),
        ("a", "b", "ab"),
        (3, 5, 5),
        (3, 2.5, 2.5),
    ],
)
def test_a_key_with_a_reducer_gets_what_the_other_graph_has_added(before: Any, inside: Any, after: Any) -> None:
    registry = agf.Registry()
    agf.tool(lambda: inside, name="change", registry=registry)
    agf.define(f"name: other\n{graph_of('{type: tool, tool: change, state_key: k}')}", "graph", registry=registry)
    text = graph_of("{type: subgraph, graph: other, mode: direct}", "state: {k: {type: any, reducer: add}}\n")
    assert graph(text, registry, {"k": before}).output["k"] == after


def test_an_answer_that_is_not_a_choice_fails_the_node() -> None:
    node = '{type: interrupt, message: "Publish?", choices: ["yes", "no"], resume_key: said}'
    flow = agf.load(graph_of(node), "graph")
    assert agf.run(flow, ask=lambda question: "no").output["said"] == "no"
    run = agf.run(flow, ask=lambda question: "maybe", raises=False)
    assert run.error is not None
    assert run.error.code == "step.question-failed"
    assert run.error.diagnostic.span is not None


def test_agents_are_asked_with_the_prompt_and_their_variables() -> None:
    registry, heard = agf.Registry(), list[Any]()

    @agf.agent(registry=registry, default=True)
    def answer(prompt: str, input: Any, tools: Any) -> str:
        heard.append([prompt, input, sorted(tools)])
        return "fine"

    agf.tool(lambda: 1, name="search", registry=registry)
    text = """
state: {topic: str, _own: str, said: str}
nodes:
  a: {type: llm, prompt: "On {topic} and {state._own}; {json: 1}", state_key: said}
  b: {type: agent, prompt: {system: Be brief, user: "More on {t}"}, variables: {t: "{state.topic}"}, tools: [search],
      state_key: said}
edges: [{from: START, to: a}, {from: a, to: b}]
"""
    run = graph(text, registry, {"topic": "tea", "_own": "x", "said": None})
    assert run.output["said"] == "fine"
    assert heard[0] == ["On tea and x; {json: 1}", {"topic": "tea"}, []]  # an llm node offers no tools
    assert heard[1] == ["Be brief\n\nMore on tea", {"t": "tea"}, ["search"]]


def test_a_prompt_may_be_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ask.yaml").write_text("system: Be brief\nuser: Greet {name}\n", encoding="utf-8")
    (tmp_path / "ask.txt").write_text("Greet {name} twice", encoding="utf-8")
    registry, heard = agf.Registry(), list[str]()

    @agf.agent(registry=registry, default=True)
    def answer(prompt: str) -> str:
        heard.append(prompt)
        return "hello"

    for name in ("ask.yaml", "ask.txt"):
        graph(graph_of(f"{{type: llm, prompt: {name}, state_key: r}}"), registry, {"name": "Ada"})
    assert heard == ["Be brief\n\nGreet Ada", "Greet Ada twice"]
    with pytest.raises(agf.DefinitionError, match=r"graph\.prompt-file"):
        agf.load(graph_of("{type: llm, prompt: ../ask.txt}"), "graph", registry=registry)


def test_a_function_that_reads_a_key_of_yamlgraph_gets_a_hint() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def gather(state: dict[str, Any]) -> str:
        return "".join(item["_map_each_sub"]["title"] for item in state["all"])

    flow = agf.load(ONE.format(node="{type: python, tool: gather, state_key: r}"), "graph", registry=registry)
    run = agf.run(flow, {"all": [{"_map_each_sub": {"title": "t"}}]}, registry=registry)
    (warning,) = [warning for warning in run.warnings if warning.code == "graph.peer-key"]
    assert (warning.span.text, "'_map_each_sub'" in warning.message) == ("gather", True)


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("question", ["message: 'Which {word}?'", "prompt: Ask them now"])
def test_an_idempotent_question_is_not_made_again(question: str, idempotent: bool) -> None:
    registry, questions = agf.Registry(), list[str]()
    agf.agent(lambda prompt: "Which pear?", name="asker", registry=registry, default=True)
    node = f"{{type: interrupt, {question}, state_key: q, resume_key: r, idempotent: {str(idempotent).lower()}}}"
    flow = agf.load("state: {word: str}\n" + ONE.format(node=node), "graph", registry=registry)

    def ask(asked_now: Any) -> str:
        questions.append(asked_now.text)
        return "that"

    run = agf.run(flow, {"word": "pear", "q": "Which fig?"}, registry=registry, ask=ask)
    expected = "Which fig?" if idempotent else "Which pear?"
    assert (questions, run.output["q"], run.output["r"]) == ([expected], expected, "that")


def test_commands_go_through_the_shell_tool_and_its_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    text = graph_of(
        '{type: tool, tool: say, variables: {what: "{state.what}"}, state_key: r}',
        "tools: {say: {command: 'echo {what} end'}, data: {command: 'echo [1]', parse: json}}\n",
    )
    with pytest.raises(agf.StepError, match="allow_shell"):
        graph(text, default_registry(), {"what": "hi"})
    monkeypatch.setattr(current, "settings", Settings(allow_shell=True))
    assert graph(text, default_registry(), {"what": "hi; ls $HOME"}).output["r"] == "hi; ls $HOME end"
    assert graph(text.replace("tool: say", "tool: data"), default_registry(), {"what": ""}).output["r"] == [1]


OWN = """
state: {{r: any}}
tools:
  say: {{command: "echo hello {{who}}", description: Says hello}}
  double: {{path: tools.py, function: twice}}
nodes: {{a: {{type: agent, prompt: Say it to Ann, tools: {tools}, state_key: r}}}}
edges: [{{from: START, to: a}}]
"""


def answer_with(tools: Any, tool_names: str) -> Any:
    offered = {name: (call.__doc__ or "").split("\n")[0] for name, call in tools.items()}
    return [offered, tools[tool_names](who="Ann; ls") if tool_names == "say" else tools[tool_names](n=4)]


def test_an_agent_may_use_the_tools_of_its_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").write_text('def twice(n):\n    "Doubles."\n    return n * 2\n', encoding="utf-8")
    monkeypatch.setattr(current, "settings", Settings(allow_shell=True, allow_import=True))
    registry = default_registry().with_tools(())
    agf.agent(lambda prompt, tools: answer_with(tools, sorted(tools)[-1]), name="own", registry=registry, default=True)
    offered = [graph(OWN.format(tools=tools), registry).output["r"] for tools in ("[say]", "[double]", "[say, double]")]
    hello = "hello Ann; ls"
    assert offered == [[{"say": "Says hello"}, hello], [{"double": "Doubles."}, 8],
                     [{"double": "Doubles.", "say": "Says hello"}, hello]]  # fmt: skip


def test_an_answer_is_not_reused_after_a_command_of_the_graph_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".agf").mkdir(mode=0o700)
    settings = Settings(allow_shell=True, journal=str(tmp_path / ".agf" / "runs.sqlite"))
    monkeypatch.setattr(current, "settings", settings)
    registry = default_registry().with_tools(())

    @agf.agent(registry=registry, default=True)
    def own(prompt: str, tools: Any) -> Any:
        return tools["say"](who="Ann")

    text = OWN.format(tools="[say]")
    for command, answer in (("hello", "hello Ann"), ("goodbye", "goodbye Ann")):
        changed = text.replace("echo hello", f"echo {command}").replace("state:", "name: reused\nstate:", 1)
        agf.define(changed, "graph", registry=registry)
        assert agf.run("reused", {}, registry=registry, reuse=command != "hello").output["r"] == answer


def test_a_model_may_call_the_tools_of_its_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    messages, function = pytest.importorskip("pydantic_ai.messages"), pytest.importorskip("pydantic_ai.models.function")
    monkeypatch.setattr(current, "settings", Settings(allow_shell=True))
    registry, offered = default_registry().with_tools(()), list[Any]()

    def reply(history: Any, info: Any) -> Any:
        offered.append([tool.name for tool in info.function_tools])
        if len(history) == 1:
            return messages.ModelResponse(parts=[messages.ToolCallPart("say", {"who": "Ann"})])
        return messages.ModelResponse(parts=[messages.TextPart(str(history[-1].parts[-1].content))])

    agf.model_agent("clerk", model=function.FunctionModel(reply), registry=registry)
    flow = agf.load(OWN.format(tools="[say], identity: clerk"), "graph", registry=registry)
    assert (agf.run(flow, {}, registry=registry).output["r"], offered) == ("hello Ann", [["say"], ["say"]])


def test_an_agent_has_no_command_of_its_graph_where_the_shell_is_not_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current, "settings", Settings(allow_shell=True))
    registry = default_registry().with_tools(())
    agf.agent(lambda prompt, tools: sorted(tools), name="own", registry=registry, default=True, tools=["say"])
    agf.define(OWN.format(tools="[say]").replace("state:", "name: inner\nstate:", 1), "graph", registry=registry)
    for capabilities, offered in (("", ["say"]), (", capabilities: {tools: [file__read]}", [])):
        outer = f"pipeline: p\nsteps: [{{agent: {{prompt: x, identity: inner{capabilities}}}}}]"
        run: agf.Run = run_virtual(agf.arun(outer, registry=registry))
        assert run.output["r"] == offered


def test_a_command_of_a_graph_needs_a_value_for_each_placeholder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current, "settings", Settings(allow_shell=True))
    text = graph_of("{type: tool, tool: list, state_key: r}", "tools: {list: {command: 'echo {{x}} {folder}'}}\n")
    assert graph(text, default_registry(), {"folder": "here"}).output["r"] == "{x} here"
    with pytest.raises(agf.StepError, match=r"'folder' has no value \[graph\.no-value\]") as caught:
        graph(text, default_registry(), {"file": "x", "folder": None})
    assert caught.value.diagnostic.span.text == "folder"
    skipped = text.replace("state_key: r", "state_key: r, on_error: skip")
    assert graph(skipped, default_registry(), {"folder": None}).output["r"] is None


@pytest.mark.parametrize(
    ("command", "column"),
    [
        ("cat {a}", 5),
        ("echo a {{a}} {a}", 14),
        ("echo 'a b' {b} '{a}'", 17),
        ("echo {b}{b} {b.c}{a}", 18),
    ],
)
def test_the_caret_of_a_placeholder_of_a_command_is_at_its_braces(
    command: str, column: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(current, "settings", Settings(allow_shell=True))
    text = graph_of("{type: tool, tool: show, state_key: r}", f'tools: {{show: {{command: "{command}"}}}}\n')
    with pytest.raises(agf.StepError, match=r"'a' has no value") as caught:
        graph(text, default_registry(), {"a": None, "b": {"c": "x"}})
    span = caught.value.diagnostic.span
    assert span is not None
    assert (span.text, span.start - span.source.text.index(command)) == ("a", column)


@pytest.mark.parametrize(
    ("least", "count", "succeeded", "is_enough"),
    [
        ("0.55", 100, 55, True),
        ("0.14", 50, 7, True),
        ("0.07", 100, 7, True),
        ("0.55", 100, 54, False),
        ("1.0", 3, 3, True),
        ("1.0", 3, 2, False),
        ("2", 3, 2, True),
    ],
)
def test_a_share_of_the_items_is_computed_as_it_is_written(
    least: str, count: int, succeeded: int, is_enough: bool
) -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def weigh(x: int) -> int:
        """Fails for the later items."""
        if x >= succeeded:
            raise ValueError(x)
        return x

    inner = "{type: tool, tool: weigh, variables: {x: '{state.x}'}}"
    text = graph_of(f"{{type: map, over: '{{state.xs}}', as: x, collect: ys, min_success: {least}, node: {inner}}}")
    if is_enough:
        assert len(graph(text, registry, {"xs": [*range(count)]}).output["ys"]) == succeeded
        return
    with pytest.raises(agf.StepError, match=f"{succeeded} of {count} items of 'a' succeeded"):
        graph(text, registry, {"xs": [*range(count)]})


def test_python_files_are_imported_only_where_that_is_switched_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").write_text("def double(n):\n    return {'n': n * 2}\n", encoding="utf-8")
    text = graph_of("{type: python, tool: d}", "state: {n: int}\ntools: {d: {path: tools.py, function: double}}\n")
    with pytest.raises(agf.DefinitionError, match=r"file\.import-off"):
        graph(text, agf.Registry(), {"n": 2})
    monkeypatch.setattr(current, "settings", Settings(allow_import=True))
    assert graph(text, agf.Registry(), {"n": 2}).output == {"n": 4}
    module = text.replace("path: tools.py, function: double", "module: statistics, function: mean")
    node = "{type: tool, tool: d, variables: {data: '{state.n}'}, state_key: n}"
    assert graph(module.replace("{type: python, tool: d}", node), agf.Registry(), {"n": [1, 3]}).output == {"n": 2}


def test_plain_functions_behind_an_else_with_two_targets_run_side_by_side() -> None:
    both = threading.Barrier(2)
    registry = agf.Registry()
    agf.tool(lambda state: both.wait(60) and None, name="meet", registry=registry)
    text = """
    state: {n: int}
    nodes:
      a: {type: passthrough, output: {n: 1}}
      b: {type: python, tool: meet}
      c: {type: python, tool: meet}
    edges:
    - {from: START, to: a}
    - {from: a, to: END, condition: n > 1}
    - {from: a, to: [b, c], condition: else}
    """
    assert agf.run(agf.load(text, "graph", registry=registry), {}, registry=registry).status == "ok"


def test_a_question_that_nobody_answers_leaves_the_run_waiting() -> None:
    registry = agf.Registry()
    text = graph_of("{type: interrupt, message: 'Publish {state.n}?', resume_key: said}")
    run = graph(text, registry, {"n": 3}, raises=False)
    assert (run.status, {row.state for row in run.progress.rows.values()}) == ("waiting", {"waiting"})
    ended = graph(text, registry, {"n": 3}, ask=lambda question: f"to {question.text}: yes")
    assert ended.output == {"n": 3, "interrupt_message": "Publish 3?", "said": "to Publish 3?: yes"}


def test_a_number_that_grows_too_large_is_the_cause_of_its_nodes_error() -> None:
    text = graph_of('{type: passthrough, output: {n: "{state.n * state.n}"}}')
    with pytest.raises(agf.StepError, match=r"graph\.value-failed") as caught:
        graph(text, agf.Registry(), {"n": 1 << 60_000})
    assert type(caught.value.__cause__) is ValueError
    assert caught.value.diagnostic.span is not None
