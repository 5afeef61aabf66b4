"""The launch functions for agents outside a run: their answers, and that nobody inside a run has them."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, Literal

import pydantic_ai
import pytest

import agf_magics as agf
from agf_magics.languages.pipeline.words import STEPS
from agf_magics.lifecycle.agent_tools import launch_tools
from agf_magics.lifecycle.runs.live import live
from tests.engine import kept

ADD = "pipeline: add\ndescription: Adds one.\nsteps:\n- transform: {value: ctx.n + 1, output: m}\n"
INLINE = ADD.replace("pipeline: add", "pipeline: mine")


@pytest.fixture
def registry() -> agf.Registry:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def fail() -> None:
        raise ValueError("no pears")

    @agf.tool(registry=registry)
    def secret() -> str:
        return "of the person"

    @agf.agent(registry=registry, default=True)
    def alice(prompt: str, tools: dict[str, Any], identity: str) -> str:
        return f"{identity}: {', '.join(sorted(tools)) or 'none'}"

    agf.define(ADD, registry=registry)
    agf.define("pipeline: broken\nsteps:\n- tool: {name: fail}\n", registry=registry)
    return registry


def call(registry: agf.Registry, name: str, *arguments: Any, identity: str = "user", **named: Any) -> dict[str, Any]:
    answer = launch_tools(registry=registry, identity=identity)[name](*arguments, **named)
    assert json.loads(json.dumps(answer)) == answer
    return answer


def later(registry: agf.Registry, started: dict[str, Any]) -> dict[str, Any]:
    run = live.find(started["data"]["run_id"])
    run.wait()
    return call(registry, "run_result", run.run_id)


@pytest.mark.parametrize(("name", "case"), [("run_pipeline", "add"), ("run_pipeline_inline", INLINE)])
def test_a_run_that_ended_well(registry: agf.Registry, name: str, case: str) -> None:
    answer = call(registry, name, case, {"n": 1})
    assert answer == {
        "status": "ok",
        "data": {"run_id": answer["data"]["run_id"], "output": 2, "named_stores": {"n": 1, "m": 2}},
    }


@pytest.mark.parametrize(("name", "case"), [("run_pipeline_async", "add"), ("run_pipeline_inline_async", INLINE)])
def test_a_run_that_was_started(registry: agf.Registry, name: str, case: str) -> None:
    started = call(registry, name, case, {"n": 1})
    assert started == {"status": "started", "data": {"run_id": started["data"]["run_id"]}}
    assert later(registry, started)["data"]["output"] == 2


def test_a_working_run_is_started_and_a_cancelled_run_is_cancelled(registry: agf.Registry) -> None:
    @agf.tool(registry=registry)
    async def doze() -> None:
        await asyncio.sleep(3600)

    started = call(registry, "run_pipeline_inline_async", "pipeline: p\nsteps:\n- tool: {name: doze}\n")
    run_id = started["data"]["run_id"]
    assert call(registry, "run_result", run_id) == started
    run = live.find(run_id)
    run.cancel("enough")
    answer = later(registry, started)
    assert answer["status"] == "cancelled"
    assert answer["data"]["run_id"] == run_id
    assert "enough" in answer["data"]["error"]


def test_a_failed_run_says_why(registry: agf.Registry) -> None:
    answer = call(registry, "run_pipeline", "broken")
    assert answer["status"] == "error"
    assert "no pears" in answer["data"]["error"]
    assert set(answer["data"]) == {"error", "run_id"}
    assert later(registry, call(registry, "run_pipeline_async", "broken"))["status"] == "error"


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("run_pipeline", ["ad"], "did you mean add?"),
        ("run_pipeline_async", ["ad"], "did you mean add?"),
        ("run_pipeline", [""], "name is required"),
        ("run_pipeline", [None], "name is required"),
        ("run_pipeline", ["add"], "run.missing-input"),
        ("run_pipeline", ["add", [1]], "run.input"),
        ("run_pipeline", ["add", {1: 2}], "run.input"),
        ("run_pipeline_inline", [""], "definition is required"),
        ("run_pipeline_inline", [{"pipeline": "p"}], "definition is required"),
        ("run_pipeline_inline", ["add"], "pipeline.document-shape"),  # a name is neither a definition nor a file
        ("run_pipeline_inline", ["pipeline: [\n"], "yaml."),
        ("run_pipeline_inline", ["pipeline: p\nsteps:\n- tool: {name: nobody}\n"], "flow.unknown-tool"),
        ("run_pipeline_inline_async", ["pipeline: p\nsteps:\n- tool: {name: nobody}\n"], "flow.unknown-tool"),
        ("run_result", ["nobody"], "no run 'nobody'"),
        ("run_result", [None], "run_id is required"),
    ],
)
def test_a_mistake_of_the_caller_is_an_answer(
    registry: agf.Registry, name: str, arguments: list[Any], message: str
) -> None:
    before = tuple(live)
    answer = call(registry, name, *arguments)
    assert (answer["status"], list(answer["data"])) == ("error", ["error"])
    assert message in answer["data"]["error"]
    assert tuple(live) == before


def test_an_error_of_a_called_flow_says_which_flow(registry: agf.Registry) -> None:
    agf.define("pipeline: inner\nsteps:\n- transform: {value: ctx.nope}", registry=registry)
    agf.define("pipeline: outer\nsteps:\n- call: {pipeline: inner}", registry=registry)
    with pytest.raises(agf.DefinitionError) as caught:
        agf.run("outer", registry=registry)
    assert "--> <text of outer>, line 3" in str(caught.value)
    assert "--> <text of inner>, line 3" in str(caught.value)
    assert call(registry, "run_pipeline", "outer")["data"]["error"].startswith("'outer' cannot run: ")


def test_an_error_of_a_run_says_which_flow_ran(registry: agf.Registry) -> None:
    agf.define("pipeline: half\nsteps:\n- transform: {value: 1 / ctx.n}", registry=registry)
    assert call(registry, "run_pipeline", "half", {"n": 0})["data"]["error"].startswith("'half': division by zero")


@pytest.mark.parametrize(("name", "arguments"), [("add", {"n": 1}), ("broken", {})])
def test_the_result_of_a_run_that_an_earlier_kernel_made_is_in_the_journal(
    registry: agf.Registry, tmp_path: Path, name: str, arguments: dict[str, Any]
) -> None:
    with kept.journal_in(tmp_path):
        started = call(registry, "run_pipeline_async", name, arguments)
        before = later(registry, started)
        live.forget()
        after = call(registry, "run_result", started["data"]["run_id"])
        assert after["status"] == before["status"]
        assert after["data"].get("output") == before["data"].get("output")
        assert after["data"].get("named_stores") == before["data"].get("named_stores")
        assert ("no pears" in after["data"].get("error", "")) is (name == "broken")
        assert call(registry, "run_result", started["data"]["run_id"][:-1])["status"] == "error"


def test_values_that_are_not_json_are_named(registry: agf.Registry) -> None:
    odd = {"a": [object(), math.nan], "b": (1, 2), "c": date(2026, 1, 2), "d": {1: "x"}, "e": {1: "x", "1": "y"}}
    agf.tool(lambda: odd, name="odd", registry=registry)
    answer = call(registry, "run_pipeline_inline", "pipeline: p\nsteps:\n- tool: {name: odd}\n")
    assert answer["data"]["output"] == {
        "a": ["<an opaque object>", None],
        "b": [1, 2],
        "c": "2026-01-02",
        "d": {"1": "x"},
        "e": "<an opaque dict with keys that are not text>",
    }


LONG = {"day": date(2026, 1, 2), "numbers": list(range(1_000)), "text": "word " * 1_000}
SECRET = "hunter2-and-more"


@pytest.mark.parametrize(
    ("output", "read", "cut"),
    [
        (LONG, {**LONG, "day": "2026-01-02"}, "not whole: named_stores.made; "),
        ([*range(3_000)], [*range(3_000)], ""),  # JSON
        (f"the key is {SECRET}", "the key is •••", "not whole: output, named_stores.made; "),
    ],
)
def test_the_result_is_whole_although_the_run_is_no_longer_in_memory(
    tmp_path: Path, output: Any, read: Any, cut: str
) -> None:
    own = agf.Registry()
    agf.tool(lambda key: output, name="make", secret=["key"], registry=own)
    agf.define("pipeline: p\nsteps: [{tool: {name: make, args: {key: !expr ctx.key}, output: made}}]", registry=own)
    with kept.journal_in(tmp_path):
        before = call(own, "run_pipeline", "p", {"key": SECRET})
        live.forget()
        after = call(own, "run_result", before["data"]["run_id"])
    assert (before["data"]["output"], before["data"]["named_stores"]["made"]) == (read, read)
    assert SECRET not in repr((before, after))
    assert ("warnings" in before["data"], after["data"].get("warnings", "")[: len(cut) or 1]) == (False, cut)
    assert after["data"]["output"] == (read if "output" not in cut else "⟨•••⟩")


# --- as tools ---


def test_every_registered_flow_is_offered_with_its_description_and_what_it_reads(registry: agf.Registry) -> None:
    tools = launch_tools(registry=registry)
    assert sorted(tools) == [
        "pipeline__add",
        "pipeline__broken",
        "run_pipeline",
        "run_pipeline_async",
        "run_pipeline_inline",
        "run_pipeline_inline_async",
        "run_result",
    ]
    add, broken = tools["pipeline__add"], tools["pipeline__broken"]
    assert (add.__name__, add.__doc__) == ("pipeline__add", "Adds one.")
    assert [(p.name, p.default is p.empty) for p in inspect.signature(add).parameters.values()] == [("n", True)]
    assert add(n=4)["data"]["output"] == 5
    assert list(inspect.signature(broken).parameters) == ["input"]
    assert all(tool.__doc__ and tool.__name__ == name for name, tool in tools.items())


def test_inputs_that_a_flow_may_read_are_optional(registry: agf.Registry) -> None:
    agf.define("pipeline: hi\nsteps:\n- transform: {value: \"ctx.a + get(ctx, 'b', '!')\"}\n", registry=registry)
    hi = launch_tools(registry=registry)["pipeline__hi"]
    required = {p.name: p.default is p.empty for p in inspect.signature(hi).parameters.values()}
    assert required == {"a": True, "b": False}
    assert hi(a="so")["data"]["output"] == "so!"


def test_names_that_no_parameter_can_have_are_passed_as_one_object(registry: agf.Registry) -> None:
    agf.define("pipeline: odd\nsteps:\n- transform: {value: ctx.class + ctx.n}\n", registry=registry)
    odd = launch_tools(registry=registry)["pipeline__odd"]
    assert list(inspect.signature(odd).parameters) == ["input"]
    assert odd(input={"class": 1, "n": 2})["data"]["output"] == 3


def test_a_policy_is_offered_with_its_interface(registry: agf.Registry) -> None:
    text = """schema_version: "1.0.0"
metadata: {id: greeter, name: Greeter, version: "1.0.0", description: Greets somebody.}
interface:
  input: {type: object, properties: {who: {type: string}, loud: {type: boolean}}, required: [who]}
  output: {}
execution_policy: {id: agf.sequential, config: {steps: [{agent: alice}]}}
"""
    agf.define(text, "policy", registry=registry)
    greeter = launch_tools(registry=registry)["pipeline__greeter"]
    required = {p.name: p.default is p.empty for p in inspect.signature(greeter).parameters.values()}
    assert (greeter.__doc__, required) == ("Greets somebody.", {"who": True, "loud": False})
    assert greeter(who="Ann")["status"] == "ok"
    assert greeter(who=1)["status"] == "error"


def test_the_parameters_have_the_types_of_the_interface(registry: agf.Registry) -> None:
    text = """schema_version: "1.0.0"
metadata: {id: shop, name: Shop, version: "1.0.0", description: Buys.}
interface:
  input:
    type: object
    properties:
      what: {type: string, description: A fruit.}
      count: {type: integer}
      prices: {type: array, items: {type: number}}
      more: {type: object}
      how: {enum: [slow, fast]}
      when: {type: [string, "null"]}
      size: {anyOf: [{type: integer}, {type: string}]}
      other: {}
      where: {type: string, default: here}
    required: [what, count, prices, more, how, when, size, other]
  output: {}
execution_policy: {id: agf.sequential, config: {steps: [{agent: alice}]}}
"""
    agf.define(text, "policy", registry=registry)
    shop = launch_tools(registry=registry)["pipeline__shop"]
    parameters = inspect.signature(shop).parameters
    assert {name: parameter.annotation for name, parameter in parameters.items()} == {
        "what": str,
        "count": int,
        "prices": list[float],
        "more": dict[str, Any],
        "how": Literal["slow", "fast"],
        "when": str | None,
        "size": int | str,
        "other": Any,
        "where": str | None,
    }
    assert parameters["where"].default == "here"
    assert shop.__doc__ == "Buys.\n\nArgs:\n    what: A fruit."
    tool = pydantic_ai.Tool(shop)
    schema = tool.function_schema.json_schema
    assert schema["properties"]["what"] == {"description": "A fruit.", "type": "string"}
    assert schema["properties"]["prices"] == {"items": {"type": "number"}, "type": "array"}
    assert "where" not in schema["required"]


def test_none_of_an_optional_field_leaves_it_out(registry: agf.Registry) -> None:
    agf.define("pipeline: hi\nsteps:\n- transform: {value: \"get(ctx, 'b', '!')\"}\n", registry=registry)
    assert launch_tools(registry=registry)["pipeline__hi"](b=None)["data"]["output"] == "!"


def test_the_grammar_of_an_inline_pipeline_names_each_step_and_each_key(registry: agf.Registry) -> None:
    tools = launch_tools(registry=registry)
    for name in ("run_pipeline_inline", "run_pipeline_inline_async"):
        text = tools[name].__doc__ or ""
        assert text.splitlines()[0].endswith(".")
        for step in STEPS.values():
            (line,) = [text_line for text_line in text.splitlines() if text_line.startswith(f"- {step.name}: ")]
            assert all(key in line for key in step.keys)
        assert len(text) < 4_000
    assert "pipeline: NAME" not in (tools["run_pipeline"].__doc__ or "")


def test_the_public_functions_use_the_registry_of_the_process() -> None:
    agf.define(ADD.replace("pipeline: add", "pipeline: add_in_public"))
    try:
        assert agf.agent_tools.run_pipeline("add_in_public", {"n": 1})["data"]["output"] == 2
        started = agf.agent_tools.run_pipeline_async("add_in_public", {"n": 2})
        run = live.find(started["data"]["run_id"])
        run.wait()
        assert agf.agent_tools.run_result(run.run_id)["data"]["output"] == 3
        assert agf.agent_tools.run_pipeline_inline(INLINE, {"n": 3})["data"]["output"] == 4
        assert agf.agent_tools.run_pipeline_inline_async(INLINE, {"n": 3})["status"] == "started"
    finally:
        agf.registry.flows.remove("add_in_public")


# --- the owner of a run ---


def test_an_agent_sees_its_own_runs_which_have_its_rights(registry: agf.Registry) -> None:
    agf.agent(lambda prompt: "", name="bob", tools=["fail", "run_pipeline_inline", "run_result"], registry=registry)
    text = "pipeline: p\nsteps:\n- agent: {prompt: who}\n"
    assert call(registry, "run_pipeline_inline", text)["data"]["output"] == "user: fail, secret"
    assert call(registry, "run_pipeline_inline", text, identity="bob")["data"]["output"] == "bob: fail"
    denied = call(registry, "run_pipeline_inline", "pipeline: p\nsteps:\n- tool: {name: secret}\n", identity="bob")
    assert "step.not-allowed" in denied["data"]["error"]
    assert sorted(launch_tools(registry=registry, identity="bob")) == ["run_pipeline_inline", "run_result"]


def test_an_unknown_agent_is_reported_with_the_nearest_name(registry: agf.Registry) -> None:
    with pytest.raises(agf.DefinitionError, match="did you mean alice") as caught:
        launch_tools(registry=registry, identity="alicia")
    assert caught.value.code == "flow.unknown-agent"


# --- inside a run ---

Launch = Callable[[], Any]


def launches(registry: agf.Registry) -> dict[str, Launch]:
    tools = launch_tools(registry=registry)
    return {
        "run_pipeline": lambda: tools["run_pipeline"]("add", {"n": 1}),
        "run_pipeline_async": lambda: tools["run_pipeline_async"]("add", {"n": 1}),
        "run_pipeline_inline": lambda: tools["run_pipeline_inline"](INLINE, {"n": 1}),
        "run_pipeline_inline_async": lambda: tools["run_pipeline_inline_async"](INLINE, {"n": 1}),
        "run_result": lambda: tools["run_result"]("x"),
        "pipeline__add": lambda: tools["pipeline__add"](n=1),
    }


@pytest.mark.parametrize("place", ["loop", "kernel", "thread"])
@pytest.mark.parametrize("name", sorted(launches(agf.Registry())))
def test_python_code_inside_a_run_cannot_launch(registry: agf.Registry, name: str, place: Any) -> None:
    agf.tool(launches(registry)[name], name="sneak", where=place, registry=registry)
    before = tuple(live)
    with pytest.raises(agf.StepError, match="inside a run") as caught:
        agf.run("pipeline: p\nsteps:\n- tool: {name: sneak}\n", registry=registry)
    assert caught.value.code == "flow.launch"
    assert tuple(live) == before


def test_an_agent_a_coroutine_and_a_run_of_a_run_cannot_launch(registry: agf.Registry) -> None:
    launch = launches(registry)["run_pipeline"]

    async def later_on() -> Any:
        await asyncio.sleep(0)
        return launch()

    agf.agent(lambda prompt: launch(), name="sly", registry=registry)
    agf.tool(later_on, registry=registry)
    inner = "pipeline: p\nsteps:\n- tool: {name: later_on}\n"
    agf.tool(lambda: agf.run(inner, registry=registry).output, name="nested", registry=registry)
    for text in (
        "pipeline: p\nsteps:\n- agent: {prompt: x, identity: sly}\n",
        inner,
        inner.replace("later_on", "nested"),
    ):
        with pytest.raises(agf.StepError, match="inside a run"):
            agf.run(text, registry=registry)
        with pytest.raises(agf.StepError, match="inside a run"):
            asyncio.run(agf.arun(text, registry=registry))
    assert launch()["status"] == "ok"  # outside of the run again


def test_a_tool_may_start_a_run_with_no_more_than_its_own_rights(registry: agf.Registry) -> None:
    inner = "pipeline: q\nsteps:\n- tool: {name: secret}\n"

    @agf.agent(tools=["fail"], registry=registry)
    def narrow(prompt: str) -> Any:
        return getattr(agf, prompt)(inner, registry=registry).result().output

    agf.tool(lambda how: getattr(agf, how)(inner, registry=registry).result().output, name="wide", registry=registry)
    for how in ("run", "start"):
        wide = f"pipeline: p\nsteps:\n- tool: {{name: wide, args: {{how: {how}}}}}\n"
        assert agf.run(wide, registry=registry).output == "of the person"
        with pytest.raises(agf.StepError, match="'narrow' may not use tool 'secret'"):
            agf.run(f"pipeline: p\nsteps:\n- agent: {{prompt: {how}, identity: narrow}}\n", registry=registry)
