"""Prompt files of graphs, and the requests that nodes make: folders, roles, schemas, models, and the steps around
them."""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import agf_magics as agf
from agf_magics.__main__ import main
from agf_magics.catalog import default as default_registry
from agf_magics.flow.steps import every
from agf_magics.languages.graph.prompts.answer_schema import read_type
from agf_magics.settings.settings import Settings, current
from tests.engine import kept


def graph_of(node: str, extra: str = "", state: str = "r: any") -> str:
    return f"name: g\nstate: {{{state}}}\n{extra}nodes: {{a: {node}}}\nedges: [{{from: START, to: a}}]\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a folder ``flows`` for a graph."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flows").mkdir()
    return tmp_path


class Model:
    """A scripted model that records the requests that it receives."""

    def __init__(self, *replies: Any) -> None:
        self.replies, self.heard, self.asked = list(replies), list[list[tuple[str, str]]](), list[AgentInfo]()
        self.registry = agf.Registry()
        self.registry.choose(FunctionModel(self.answer))

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.heard.append(
            [(part.part_kind, str(getattr(part, "content", ""))) for message in messages for part in message.parts]
        )
        self.asked.append(info)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, dict) and info.output_tools:
            return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, reply)])
        return ModelResponse(parts=[TextPart(reply if isinstance(reply, str) else json.dumps(reply))])

    def run(self, text: str, fields: dict[str, Any] | None = None) -> agf.Run:
        return agf.run(agf.load(text, "graph", registry=self.registry), fields or {}, registry=self.registry)


# --- files ---


PLACES = {
    "flows/texts/ask.yaml": {"prompts_dir": "texts", "prompts_relative": True},
    "texts/ask.yml": {"prompts_dir": "texts", "prompts_relative": True},
    "flows/ask.yaml": {"prompts_relative": True},
    "prompts/ask.yaml": {},
    "flows/prompts/ask.yml": {},
}
"""The folders in the order of the search, each with the settings that include it."""


def found_template(folder: Path, name: str, settings: dict[str, Any], where: str = "") -> str:
    graph = folder / "flows" / "g.yaml"
    keys = {"defaults": settings} if where == "defaults" else settings
    extra = "".join(f"{key}: {json.dumps(value)}\n" for key, value in keys.items())
    graph.write_text(graph_of(f"{{prompt: {name}, state_key: r}}", extra), encoding="utf-8")
    model = Model("ok")
    flow = agf.load(graph, registry=model.registry)
    agf.run(flow, {}, registry=model.registry)
    return model.heard[0][-1][1]


@pytest.mark.parametrize("path", PLACES)
@pytest.mark.parametrize("where", ["graph", "defaults"])
def test_a_name_leads_to_the_first_file_that_exists(path: str, where: str, folder: Path) -> None:
    for place in list(PLACES)[list(PLACES).index(path) :]:
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).write_text(f"user: this is {place}\n", encoding="utf-8")
    assert found_template(folder, "ask", PLACES[path], where) == f"this is {path}"  # type: ignore[arg-type]


def test_a_name_with_a_slash_leads_into_prompts_of_that_folder(folder: Path) -> None:
    (folder / "loop" / "prompts").mkdir(parents=True)
    (folder / "loop" / "prompts" / "ask.yaml").write_text("user: in the loop\n", encoding="utf-8")
    assert found_template(folder, "loop/ask", {}) == "in the loop"


def test_no_name_leads_out_of_the_folder(folder: Path) -> None:
    inner = folder / "flows"
    (folder / "secret.yaml").write_text("user: secret\n", encoding="utf-8")
    (inner / "prompts").mkdir()
    (inner / "prompts" / "link.yaml").symlink_to(folder / "secret.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(inner)
        for text in ("{prompt: ../secret.yaml}", "{prompt: prompts/link.yaml}", "{prompt: a/link}"):
            extra = "prompts_dir: ../\n" if "a/" in text else ""
            with pytest.raises(agf.DefinitionError, match=r"graph\.prompt-file"):
                agf.load(graph_of(text, extra), "graph", registry=agf.Registry())


def test_an_error_of_a_prompt_file_is_at_its_line(folder: Path) -> None:
    (folder / "prompts").mkdir()
    (folder / "prompts" / "ask.yaml").write_text("user: |\n  Hello\n  {{ name | uper }}\n", encoding="utf-8")
    with pytest.raises(agf.DefinitionError) as caught:
        agf.load(graph_of("{prompt: ask}"), "graph", registry=agf.Registry())
    span = caught.value.diagnostic.span
    assert (span.source.name, span.place[0]) == ("prompts/ask.yaml", 3)


def test_a_template_that_fails_names_the_line_of_its_file(folder: Path) -> None:
    (folder / "prompts").mkdir()
    (folder / "prompts" / "ask.yaml").write_text("user: |\n  Hello\n\n  {{ nobody }}\n", encoding="utf-8")
    with pytest.raises(agf.StepError) as caught:
        Model("ok").run(graph_of("{prompt: ask}"))
    problem = caught.value.diagnostic
    assert problem.code == "graph.template-failed"
    assert (problem.span.source.name, problem.span.place) == ("prompts/ask.yaml", (4, 3))


def test_a_file_that_is_too_large_or_not_text_is_refused(folder: Path) -> None:
    (folder / "prompts").mkdir()
    for content in (b"user: " + b"a" * 1_000_001, b"user: \xff\n"):
        (folder / "prompts" / "ask.yaml").write_bytes(content)
        with pytest.raises(agf.DefinitionError, match=r"graph\.prompt-file"):
            agf.load(graph_of("{prompt: ask}"), "graph", registry=agf.Registry())


# --- roles ---


SPOKEN = graph_of("{prompt: {system: 'Be brief, {n}', user: 'Greet {n}'}, state_key: r}")


def test_the_system_prompt_is_a_message_of_its_own() -> None:
    model = Model("hello")
    assert model.run(SPOKEN, {"n": "Ada"}).output["r"] == "hello"
    assert model.heard == [[("system-prompt", "Be brief, Ada"), ("user-prompt", "Greet Ada")]]


def test_the_system_prompt_comes_after_the_instructions_of_the_agent() -> None:
    model = Model("hello")
    agf.model_agent("clerk", model=FunctionModel(model.answer), instructions="Be polite", registry=model.registry)
    model.run(SPOKEN.replace("state_key: r", "state_key: r, identity: clerk"), {"n": "Ada"})
    assert model.heard[0] == [
        ("system-prompt", "Be polite"),
        ("system-prompt", "Be brief, Ada"),
        ("user-prompt", "Greet Ada"),
    ]


def test_a_function_gets_the_system_prompt_as_a_parameter_or_before_the_prompt() -> None:
    registry, heard = agf.Registry(), list[Any]()
    agf.agent(lambda prompt, system: heard.append((prompt, system)), name="two", registry=registry)
    agf.agent(lambda prompt: heard.append(prompt), name="one", registry=registry)
    agf.agent(lambda **given: heard.append(given), name="all", registry=registry)
    for name in ("two", "one", "all"):
        text = SPOKEN.replace("state_key: r", f"state_key: r, identity: {name}")
        agf.run(agf.load(text, "graph", registry=registry), {"n": "Ada"}, registry=registry)
    assert heard[:2] == [("Greet Ada", "Be brief, Ada"), "Be brief, Ada\n\nGreet Ada"]
    assert heard[2] == {"n": "Ada"}


# --- schemas ---


RATED = graph_of(
    "{prompt: {user: Rate it, schema: {name: R, fields: {n: {type: int, constraints: {ge: 1}}, s: "
    "{type: str, optional: true}}}}, state_key: r}"
)


def test_a_model_is_asked_again_until_its_answer_conforms() -> None:
    model = Model({"n": 0}, {"n": 2, "s": None})
    assert model.run(RATED).output["r"] == {"n": 2, "s": None}
    assert len(model.asked) == 2
    assert "needs at least 1" in model.heard[1][-1][1]


def test_the_schema_of_the_node_is_used_in_place_of_the_prompts() -> None:
    registry, expected = agf.Registry(), list[Any]()
    agf.define("schema: S\nfields: {x: {type: string, required: true}}", registry=registry)
    agf.agent(lambda prompt, schema: expected.append(schema) or {"x": "y"}, name="f", registry=registry, default=True)  # type: ignore[func-returns-value]
    text = RATED.replace("state_key: r", "schema: S, state_key: r")
    assert agf.run(agf.load(text, "graph", registry=registry), {}, registry=registry).output["r"] == {"x": "y"}
    assert [schema["title"] for schema in expected] == ["S"]


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("list[dict[str, int]]",
         {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "integer"}}}),
        (" list [ str ] ", {"type": "array", "items": {"type": "string"}}),
        ("list[", None), ("list[str", None), ("list[]", None), ("dict[str]", None), ("str[int]", None),
        ("int]", None), ("list[str]]", None), ("list[" * 40, None), ("x" * 1000, None), ("", None),
    ],
)  # fmt: skip
def test_types_of_fields(text: str, schema: Any) -> None:
    assert read_type(text) == schema


# --- models ---


def test_settings_of_the_node_precede_those_of_the_prompt_and_the_defaults() -> None:
    model = Model("ok")
    extra = "defaults: {temperature: 0.1, max_tokens: 1, max_iterations: 3}\n"
    model.run(graph_of("{prompt: {user: Say it, temperature: 0.2, max_tokens: 2}, max_tokens: 3}", extra))
    settings = model.asked[0].model_settings
    assert (settings["temperature"], settings["max_tokens"]) == (0.2, 3)


def test_a_named_model_answers_where_none_is_configured() -> None:
    flow = agf.load(graph_of("{prompt: Say it now, provider: openai, model: gpt-4o}"), "graph", registry=agf.Registry())
    with pytest.MonkeyPatch.context() as patch:
        for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
            patch.delenv(name, raising=False)
        with pytest.raises(agf.DefinitionError, match=r"openai:gpt-4o.*model\.no-key"):
            agf.run(flow, {}, registry=agf.Registry())


def test_the_configured_model_answers_in_place_of_a_named_one() -> None:
    run = Model("ok").run(graph_of("{prompt: Say it now, model: 'openai:gpt-4o', state_key: r}"))
    assert run.output["r"] == "ok"
    assert "answers instead of 'openai:gpt-4o'" in run.note


def test_max_iterations_bounds_the_requests_of_a_session() -> None:
    model = Model("")
    model.answer = lambda messages, info: ModelResponse(parts=[ToolCallPart("look", {})])  # type: ignore[method-assign]
    model.registry.choose(FunctionModel(model.answer))
    agf.tool(lambda: 1, name="look", registry=model.registry)
    with pytest.raises(agf.StepError, match=r"model\.max-steps") as caught:
        model.run(graph_of("{type: agent, prompt: Say it now, tools: [look], max_iterations: 2}"))
    assert caught.value.diagnostic.hint == "max_iterations: 4 allows more; or tell it in its instructions to stop"


# --- the steps around a request ---


def test_an_answer_without_json_is_kept_with_a_warning() -> None:
    run = Model("I do not know").run(graph_of("{prompt: 'As JSON', parse_json: true, state_key: r}"))
    assert run.output["r"] == "I do not know"
    assert [warning.code for warning in run.warnings] == ["graph.no-json"]


@pytest.mark.parametrize(
    ("prompt", "heard"),
    [
        ("写 {主题}, {分.数}, {state.分.数}", "写 猫, 0.5, 0.5"),
        ("{हिन्दी} und {größe}", "1 und 2"),
        ("e\u0301: {e\u0301te\u0301}", "e\u0301: 3"),
        ("{名} and {{主题}}", "{名} and 猫"),
    ],
)
def test_the_names_in_a_prompt_are_of_any_script(prompt: str, heard: str) -> None:
    state = {"主题": "猫", "分": {"数": 0.5}, "हिन्दी": 1, "größe": 2, "\u00e9t\u00e9": 3}
    model = Model("ok")
    model.run(graph_of(json.dumps({"prompt": prompt, "state_key": "r"})), state)
    assert model.heard[0][-1][1] == heard


def test_the_warning_of_a_called_graph_is_one_of_the_run() -> None:
    model = Model("I do not know")
    inner = graph_of("{prompt: 'As JSON', parse_json: true, state_key: r}").replace("name: g", "name: inner")
    agf.define(inner, "graph", registry=model.registry)
    run = model.run(graph_of("{type: subgraph, graph: inner, mode: direct}"))
    assert [warning.code for warning in run.warnings] == ["graph.no-json"]


def test_exit_codes_that_succeed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current, "settings", Settings(allow_shell=True))
    command = f"{sys.executable} -c 'print(1); raise SystemExit(3)'"
    for codes, fails in (("[0, 3]", False), ("[0]", True)):
        text = graph_of(
            "{type: tool, tool: t, state_key: r}", f'tools: {{t: {{command: "{command}", success_codes: {codes}}}}}\n'
        )
        flow = agf.load(text, "graph", registry=default_registry())
        if fails:
            with pytest.raises(agf.StepError, match=r"tool\.shell-exit"):
                agf.run(flow, {}, registry=default_registry())
        else:
            assert agf.run(flow, {}, registry=default_registry()).output["r"] == "1"


def test_a_template_without_jinja2_is_refused_before_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    model = Model("ok")
    flow = agf.load(graph_of("{prompt: 'Hi {{ n }} {state.m}'}"), "graph", registry=model.registry)
    with pytest.raises(agf.DefinitionError) as refused:
        agf.run(flow, {"n": 1}, registry=model.registry)
    assert [problem.code for problem in refused.value.diagnostics] == ["graph.jinja-not-installed"], "m is no input"
    assert not model.asked
    assert model.run(graph_of("{prompt: 'Hi {n}', state_key: r}"), {"n": 1}).output["r"] == "ok"


# --- exports ---


EXPORTED = graph_of("{type: passthrough, output: {n: 1}}", "exports: {r: {format: HOW, filename: FILE}}\n")


@pytest.mark.parametrize(
    ("how", "value", "written"),
    [
        ("json", {"a": 1}, '{\n  "a": 1\n}\n'), ("json", "x", '"x"\n'), ("text", "x", "x\n"),
        ("text", [1], "[\n  1\n]\n"),
        ("markdown", "# x\n", "# x\n"), ("markdown", ["a", {"b": 1}], '- a\n- {"b": 1}\n'),
        ("markdown", {"a": "x\ny"}, "- **a**: x y\n"), ("markdown", 3, "3\n"),
    ],
)  # fmt: skip
def test_formats_of_exports(how: str, value: Any, written: str, tmp_path: Path) -> None:
    text = EXPORTED.replace("HOW", how).replace("FILE", {"json": "r.json", "text": "r.txt", "markdown": "r.md"}[how])
    run = agf.run(agf.load(text, "graph", registry=agf.Registry()), {"r": value}, registry=agf.Registry())
    (path,) = agf.export(run, tmp_path / "new")
    assert path.read_text(encoding="utf-8") == written


def test_an_export_without_a_value_has_no_file_and_the_next_one_has_its_own(tmp_path: Path) -> None:
    text = graph_of("{type: passthrough, output: {n: 1}}", "exports: {s: {}, r: {}}\n", "r: any, s: any, n: any")
    run = agf.run(agf.load(text, "graph", registry=agf.Registry()), {"r": 7, "s": None}, registry=agf.Registry())
    assert [path.name for path in agf.export(run, tmp_path / "new")] == ["r.json"]


@pytest.mark.parametrize(
    ("exports", "caret", "hint"),
    [
        ("{r: {filename: x.json}, s: {filename: x.json}}", "x.json", "filename: s.json"),
        ("{r: {filename: x.json}, s: {filename: X.json}}", "X.json", "filename: s.json"),
        ("{r: {filename: o/x.json}, s: {filename: './o//x.json'}}", "'./o//x.json'", "filename: s.json"),
        ("{r: {filename: s.json}, s: {}}", "s", "filename: s-2.json"),
        ("{r: {format: text}, s: {format: text, filename: r.txt}}", "r.txt", "filename: s.txt"),
    ],
)
def test_two_exports_have_two_files(exports: str, caret: str, hint: str) -> None:
    text = graph_of("{type: passthrough, output: {r: 1, s: 2}}", f"exports: {exports}\n")
    with pytest.raises(agf.DefinitionError) as caught:
        agf.load(text.replace("r: any", "r: any, s: any"), "graph", registry=agf.Registry())
    diagnostic = caught.value.diagnostic
    assert (diagnostic.code, diagnostic.hint) == ("graph.export-file", hint)
    assert diagnostic.span is not None
    assert diagnostic.span.text == caret


def test_an_export_follows_no_link_and_replaces_no_protected_file(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "link").symlink_to(tmp_path)
    for file in ("link/r.json", ".hidden/r.json"):
        text = EXPORTED.replace("HOW", "json").replace("FILE", file)
        run = agf.run(agf.load(text, "graph", registry=agf.Registry()), {"r": 1}, registry=agf.Registry())
        with pytest.raises(agf.StepError, match=r"tool\.file-path"):
            agf.export(run, tmp_path / "out")
    assert not (tmp_path / "r.json").exists()


def test_the_command_line_exports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = EXPORTED.replace("{n: 1}", "{r: fine}").replace("HOW", "text").replace("FILE", "r.txt")
    (tmp_path / "g.yaml").write_text(text, encoding="utf-8")
    assert main(["run", str(tmp_path / "g.yaml"), "--export", str(tmp_path / "out"), "--quiet"]) == 0
    assert (tmp_path / "out" / "r.txt").read_text(encoding="utf-8") == "fine\n"
    assert "wrote" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "live", "past"),
    [
        ([*range(1_000)], "", ""),
        ({"day": date(2026, 1, 2), "rows": [*range(1_000)]}, "it is a Python object", "only a preview of 'r'"),
        ("the key is hunter2-and-more", "it has a secret", "only a preview of 'r'"),
    ],
)
def test_an_export_has_the_whole_value_or_is_refused(value: Any, live: str, past: str, tmp_path: Path) -> None:
    registry = agf.Registry()
    agf.tool(lambda key: 1, name="send", secret=["key"], registry=registry)
    node = "{type: tool_call, tool: send, args: {key: '{state.key}'}}"
    exports = "exports: {r: {format: json, filename: r.json}}\n"
    flow = agf.load(graph_of(node, exports, "r: any, key: str"), "graph", registry=registry)
    with kept.journal_in(tmp_path):
        run = agf.run(flow, {"r": value, "key": "hunter2-and-more"}, registry=registry)
        for exported, why in ((run, live), (agf.runs(run.run_id), past)):
            if why:
                with pytest.raises(agf.StepError, match=why):
                    agf.export(exported, tmp_path / "out")
                assert not list((tmp_path / "out").iterdir())
            else:
                (path,) = agf.export(exported, tmp_path / "out")
                assert json.loads(path.read_text(encoding="utf-8")) == value


def test_an_object_without_a_text_is_not_exported(tmp_path: Path) -> None:
    text = EXPORTED.replace("HOW", "text").replace("FILE", "r.txt")
    run = agf.run(agf.load(text, "graph", registry=agf.Registry()), {"r": object()}, registry=agf.Registry())
    with pytest.raises(agf.StepError, match=r"run\.export"):
        agf.export(run, tmp_path)
    without = agf.run(
        agf.load(graph_of("{type: passthrough}"), "graph", registry=agf.Registry()), {}, registry=agf.Registry()
    )
    with pytest.raises(agf.StepError, match=r"run\.export"):
        agf.export(without, tmp_path)


# --- routers ---


# --- combinations ---


@pytest.mark.parametrize(
    "kind", ["", "type: agent, tools: [], tool_results_key: t, ", "type: router, routes: {good: a}, "]
)
@pytest.mark.parametrize("how", ["fail", "skip", "retry", "fallback, fallback: {model: 'x:y'}"])
@pytest.mark.parametrize(
    "more", ["", ", parse_json: true", ", skip_if_exists: true", ", parse_json: true, skip_if_exists: true"]
)
@pytest.mark.parametrize("in_map", [False, True])
def test_the_keys_around_a_request_can_be_combined(kind: str, how: str, more: str, in_map: bool) -> None:
    registry, tried = agf.Registry(), list[int]()

    @agf.agent(registry=registry, default=True)
    def answer(prompt: str) -> str:
        tried.append(1)
        if len(tried) == 1 and not how.startswith(("fail", "skip")):
            raise ValueError("busy")
        return 'good {"v": 1}'

    node = f"{{{kind}prompt: Rate it now, on_error: {how}{more}, state_key: r}}"
    if in_map:
        node = f"{{type: map, over: [1], as: x, node: {node}, collect: c}}"
    flow = agf.load(graph_of(node, state="r: any, t: list, c: list"), "graph", registry=registry)
    ids = [step.id for step in every(flow.body)]
    assert len(ids) == len(set(ids))
    output = agf.run(flow, {}, registry=registry).output
    answer_kept = output["c"][0] if in_map else output["r_answer" if "router" in kind else "r"]
    read = {"v": 1} if "parse_json" in more else 'good {"v": 1}'
    assert json.dumps(read)[1:-1] in json.dumps(answer_kept)
