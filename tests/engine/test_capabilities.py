"""The tools that a step may use (decision A12): those allowed to its invoker, to its identity and by its capabilities.

No step may launch runs. The limits hold for everything that a step opens, whoever launched it and wherever its
definition came from.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import agf_magics as agf
from agf_magics.catalog import install
from agf_magics.lifecycle.agent_tools import launch_tools
from agf_magics.limits.grants import Grant

LAUNCHES = ["run_pipeline", "run_pipeline_inline"]
MAY = {"user": "abc", "anyone": "abc", "ab": "ab", "nothing": ""}
"""The tools that each identity may use at most."""

INVOKERS = ("user", "ab", "nothing")
IDENTITIES = (None, "user", "anyone", "ab", "nothing")
CAPABILITIES: tuple[Sequence[str] | None, ...] = (None, [], ["a"], ["b", "c"], ["a", "b", "c"])

NESTED: Mapping[str, str] = {
    "alone": "- STEP",
    "for_each": "- for_each: {items: [1], on_error: abort, do: STEP, collect: {transform: {value: 'pipe'}}}",
    "collect": "- for_each: {items: [1], on_error: abort, do: {transform: {value: item}}, collect: STEP}",
    "parallel": "- parallel: {branches: {x: STEP}, collect: {transform: {value: pipe.x}}}",
    "fold": "- fold: {items: [1], init: '0', do: STEP, output: o}",
    "call": "- call: {pipeline: inner}",
    "match": "- match: {on: \"'x'\", cases: {x: {pipeline: inner}}}",
    "for_each of call": "- for_each: {items: [1], on_error: abort, do: {call: {pipeline: inner}}, "
    "collect: {transform: {value: pipe}}}",
    "call of call": "- call: {pipeline: outer}",
}
"""The place of the step: in the definition itself, or in the registered flow ``inner``."""


class House:
    """Three tools, and agents that return their identity and their tools."""

    def __init__(self) -> None:
        self.registry = agf.Registry()
        self.used: list[str] = []
        for name in "abc":
            agf.tool(self._used(name), name=name, registry=self.registry)

        def answer(prompt: str, identity: str, tools: dict[str, Any]) -> str:
            return f"{identity} {''.join(sorted(tools))}"

        for name, tools in MAY.items():
            if name != "user":
                own_tools = None if tools == "abc" else [*tools, *LAUNCHES]
                agf.agent(answer, name=name, tools=own_tools, default=name == "anyone", registry=self.registry)

    def _used(self, name: str) -> Callable[[], str]:
        def use() -> str:
            self.used.append(name)
            return name

        return use

    def define(self, name: str, steps: str) -> None:
        agf.define(f"pipeline: {name}\nsteps:\n{steps}\n", registry=self.registry)

    def launch(self, how: str, invoker: str, steps: str) -> dict[str, Any]:
        """The answer to a launch of a registered flow, or of an inline definition."""
        tools = launch_tools(identity=invoker, registry=self.registry)
        if how == "inline":
            return tools["run_pipeline_inline"](f"pipeline: p\nsteps:\n{steps}\n")
        self.define("p", steps)
        return tools["run_pipeline"]("p")


def step(identity: str | None, capabilities: Sequence[str] | None) -> str:
    fields: dict[str, Any] = {"prompt": "who"}
    if identity is not None:
        fields["identity"] = identity
    if capabilities is not None:
        fields["capabilities"] = {"tools": capabilities}
    return json.dumps({"agent": fields})


def flat(value: Any) -> Any:
    return value[0] if isinstance(value, list) else value


@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize("how", ["registered", "inline"])
def test_an_agent_step_has_what_its_invoker_its_identity_and_its_capabilities_allow(how: str, nested: str) -> None:
    house = House()
    house.define("outer", "- call: {pipeline: inner}")
    for invoker, identity, capabilities in itertools.product(INVOKERS, IDENTITIES, CAPABILITIES):
        house.define("inner", f"- {step(identity, capabilities)}")
        steps = NESTED[nested].replace("STEP", step(identity, capabilities))
        outcome, is_nested = house.launch(how, invoker, steps), "STEP" in NESTED[nested]
        if how == "inline" and is_nested and identity not in (None, invoker):
            assert "[gate.identity]" in outcome["data"]["error"]
            assert "run_id" not in outcome["data"]
            continue
        may = set(MAY[invoker]) & set(MAY[identity or invoker]) & set("abc" if capabilities is None else capabilities)
        assert flat(outcome["data"]["output"]) == f"{identity or invoker} {''.join(sorted(may))}"


@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize("how", ["registered", "inline"])
def test_a_tool_step_is_called_only_for_those_who_may_use_the_tool(how: str, nested: str) -> None:
    for invoker, name in itertools.product(INVOKERS, "abc"):
        house, use = House(), f"{{tool: {{name: {name}}}}}"
        house.define("inner", f"- {use}")
        house.define("outer", "- call: {pipeline: inner}")
        outcome = house.launch(how, invoker, NESTED[nested].replace("STEP", use))
        if name in MAY[invoker]:
            assert (outcome["status"], house.used) == ("ok", [name])
        else:
            assert "[step.not-allowed]" in outcome["data"]["error"]
            assert house.used == []


# --- a tool for steps that ask ---


@pytest.mark.parametrize(
    ("tool", "alone", "asking"),
    [("read", True, True), ("pay", False, True), ("run_pipeline", False, False), ("other", False, False)],
)
def test_a_tool_for_steps_that_ask_is_for_no_other_step_and_for_nobody_below(
    tool: str, alone: bool, asking: bool
) -> None:
    asking_tools = frozenset({"pay", "run_pipeline"})
    grant = Grant().narrow(["read", "pay", "run_pipeline"], asked=asking_tools)
    assert (grant.allows(tool), grant.allows(tool, asks=True)) == (alone, asking)
    below = grant.narrow(["read", "pay", "run_pipeline", "other"])
    assert (below.allows(tool), below.allows(tool, asks=True)) == (alone, alone)


# --- what a step opens has no more ---


def run_as_flow(house: House, capabilities: str, *library: tuple[str, str]) -> agf.Run:
    """Run an agent step whose identity is the flow ``q``."""
    for name, steps in library:
        house.define(name, steps)
    text = f"pipeline: p\nsteps:\n- agent: {{prompt: x, identity: q, capabilities: {{tools: [{capabilities}]}}}}\n"
    return agf.run(text, registry=house.registry, raises=False)


@pytest.mark.parametrize("how", [key for key in NESTED if "call" not in key and key != "match"])
def test_a_flow_that_answers_an_agent_step_has_the_steps_capabilities(how: str) -> None:
    for name in "ab":
        house = House()
        run = run_as_flow(house, "a", ("q", NESTED[how].replace("STEP", f"{{tool: {{name: {name}}}}}")))
        assert run.status == ("ok" if name == "a" else "error")
        assert house.used == (["a"] if name == "a" else [])


def test_everything_below_such_a_flow_has_the_steps_capabilities() -> None:
    house = House()
    asks = "- agent: {prompt: x, capabilities: {tools: [a, b, c]}}"
    steps = "- agent: {prompt: x, identity: r, capabilities: {tools: [b, c]}}"
    run = run_as_flow(house, "a, b", ("q", "- call: {pipeline: s}"), ("s", steps), ("r", asks))
    assert run.result().output == "user b"
    denied = run_as_flow(
        house, "a, b", ("r", "- match: {on: \"'x'\", cases: {x: {pipeline: t}}}"), ("t", "- tool: {name: a}")
    )
    assert denied.error.code == "step.not-allowed"
    assert "it may use b" in str(denied.error)
    assert house.used == []


def test_one_step_does_not_narrow_the_next() -> None:
    house = House()
    house.define("q", "- tool: {name: a}")
    steps = "- agent: {prompt: x, identity: q, capabilities: {tools: [a]}}\n- tool: {name: c}\n- agent: {prompt: x}"
    run = agf.run(f"pipeline: p\nsteps:\n{steps}\n", registry=house.registry)
    assert (run.output, house.used) == ("user abc", ["a", "c"])


def test_siblings_do_not_narrow_each_other() -> None:
    house = House()
    house.define("q", "- agent: {prompt: x}")
    branches = {
        name: {"agent": {"prompt": "x", "identity": "q", "capabilities": {"tools": tools}}}
        for name, tools in (("x", ["a"]), ("y", ["b"]), ("z", ["a", "c"]))
    }
    steps = [{"parallel": {"branches": branches, "collect": {"transform": {"value": "pipe"}}}}]
    run = agf.run(json.dumps({"pipeline": "p", "steps": steps}), registry=house.registry)
    assert run.output == {"x": "user a", "y": "user b", "z": "user ac"}


def test_a_waiting_call_does_not_narrow_an_agent_that_is_asked_meanwhile() -> None:
    house, who = House(), []

    @agf.tool(registry=house.registry)
    async def slow() -> None:
        await asyncio.sleep(0.01)

    def ask(question: Any) -> bool:
        run = agf.run("pipeline: q\nsteps:\n- agent: {prompt: x}\n", registry=house.registry)
        who.append(run.output)
        return True

    calls = "- {_tool: slow, _outputPath: †state.x}\n- {_tool: b, _outputPath: †state.y}\n"
    agf.define(f"name: asks\nconfirm: [b]\ncalls:\n{calls}", registry=house.registry)
    step = "- agent: {prompt: x, identity: asks, capabilities: {tools: [b, slow]}}"
    agf.run(f"pipeline: p\nsteps:\n{step}\n", registry=house.registry, ask=ask)
    assert (who, house.used) == (["user abcslow"], ["b"])


def test_an_agent_that_starts_a_run_is_its_invoker() -> None:
    house = House()

    @agf.agent(tools=["a"], registry=house.registry)
    def boss(prompt: str) -> Any:
        return agf.run("pipeline: q\nsteps:\n- agent: {prompt: x}\n", registry=house.registry).output

    for capabilities, output in (("", "boss a"), (", capabilities: {tools: [b]}", "boss ")):
        text = f"pipeline: p\nsteps:\n- agent: {{prompt: x, identity: boss{capabilities}}}\n"
        assert agf.run(text, registry=house.registry).output == output


def test_an_agent_whom_a_vendors_policy_calls_has_its_own_tools_alone() -> None:
    house = House()
    outcomes = []

    def runs(input: Any) -> Any:
        outcomes.append(agf.run("pipeline: q\nsteps:\n- agent: {prompt: x}\n", registry=house.registry).output)
        return {}

    async def awaits(input: Any) -> Any:
        outcomes.append((await agf.arun("pipeline: q\nsteps:\n- agent: {prompt: x}\n", registry=house.registry)).output)
        return {}

    agf.agent(runs, tools=["a"], registry=house.registry)
    agf.agent(awaits, tools=["b"], registry=house.registry)

    @agf.policy("x-acme.both", registry=house.registry)
    async def both(config: Any, input: Any, agents: Any) -> Any:
        await agents["awaits"]({})
        return {}

    @agf.policy("x-acme.one", registry=house.registry)
    def one(config: Any, input: Any, agents: Any) -> Any:
        return agents["runs"]({})

    for policy in ("x-acme.both", "x-acme.one"):
        agf.run(agf.load(f"{{id: {policy}, config: {{}}}}", "policy", registry=house.registry), registry=house.registry)
    assert outcomes == ["awaits b", "runs a"]


# --- models ---


class Model:
    """A model that answers with the tools that it was offered, or asks for one tool first."""

    def __init__(self, asks_for: str = "") -> None:
        self.asks_for = asks_for
        self.told: list[str] = []

    def made(self) -> FunctionModel:
        async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            self.told += [str(part.content) for part in messages[-1].parts if part.part_kind == "tool-return"]
            if self.asks_for and len(messages) == 1:
                return ModelResponse([ToolCallPart(self.asks_for, {})])
            return ModelResponse([TextPart("".join(sorted(tool.name for tool in info.function_tools)) or "none")])

        return FunctionModel(answer)


@pytest.mark.parametrize("nested", ["alone", "for_each", "call"])
@pytest.mark.parametrize("how", ["registered", "inline"])
def test_a_model_is_offered_what_its_step_may_use(how: str, nested: str) -> None:
    house = House()
    for name, tools in (("clerk", None), ("careful", [*"ab", *LAUNCHES])):
        agf.model_agent(name, model=Model().made(), tools=tools, registry=house.registry)
    may = {**MAY, "clerk": "abc", "careful": "ab"}
    for invoker, identity, capabilities in itertools.product(
        ("user", "ab", "careful"), (None, "clerk", "careful"), CAPABILITIES
    ):
        named = identity or "careful"
        house.define("inner", f"- {step(named, capabilities)}")
        steps = NESTED[nested].replace("STEP", step(named, capabilities))
        outcome = house.launch(how, invoker, steps)
        if how == "inline" and "STEP" in NESTED[nested] and named != invoker:
            assert "[gate.identity]" in outcome["data"]["error"]
            continue
        assert outcome["status"] == "ok", outcome["data"]["error"]
        allowed = set(may[invoker]) & set(may[named]) & set("abc" if capabilities is None else capabilities)
        assert flat(outcome["data"]["output"]) == ("".join(sorted(allowed)) or "none")


def test_a_model_that_asks_for_what_it_was_not_offered_does_not_get_it() -> None:
    house, model = House(), Model(asks_for="b")
    agf.model_agent("clerk", model=model.made(), registry=house.registry)
    run = agf.run(f"pipeline: p\nsteps:\n- {step('clerk', ['a'])}\n", registry=house.registry)
    assert (run.output, house.used) == ("a", [])
    assert "'b'" in str(model.told)


GRAPH = "nodes: {n: {type: KIND, prompt: Do it now, identity: clerkMORE}}\nedges: [{from: START, to: n}]\n"


@pytest.mark.parametrize(
    ("language", "text", "offered"),
    [
        ("pipeline", "pipeline: p\nsteps:\n- agent: {prompt: x, identity: clerk}\n", "pay"),
        (
            "pipeline",
            "pipeline: p\nsteps:\n- agent: {prompt: x, identity: clerk, capabilities: {tools: [file__read]}}\n",
            "file__read",
        ),
        ("graph", GRAPH.replace("KIND", "agent").replace("MORE", ""), "pay"),
        ("graph", GRAPH.replace("KIND", "agent").replace("MORE", ", tools: [shell, pay]"), "payshell"),
        ("graph", GRAPH.replace("KIND", "llm").replace("MORE", ""), "none"),
        ("graph", GRAPH.replace("KIND", "router").replace("MORE", ", routes: {a: n}"), "none"),
        ("policy", "id: agf.sequential\nconfig: {steps: [{agent: clerk}]}\n", "pay"),
        ("policy", "id: agf.react\nconfig: {provider: a, model: b, instructions: x}\n", "none"),
        ("plan", "calls: [{_tool: ask, _outputPath: $state.x}]\noutput: $state.x\n", "pay"),
    ],
)
def test_a_model_is_offered_a_built_in_tool_only_where_it_is_listed(
    language: str, text: str, offered: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    offers, registry = list[str](), agf.Registry()

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        offers.append("".join(sorted(tool.name for tool in info.function_tools)) or "none")
        if len(messages) > 1:
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart("file__write", {"path": "x.txt", "content": "hi"})])

    install(registry, folder=Path.cwd, allow_shell=lambda: False)
    agf.tool(lambda: 1, name="pay", registry=registry)
    agf.model_agent("clerk", model=FunctionModel(answer), registry=registry)
    registry.choose(FunctionModel(answer))
    agf.define("pipeline: ask\nsteps:\n- agent: {prompt: x, identity: clerk}\n", registry=registry)
    run = agf.run(agf.load(text, language, registry=registry), {"x": 1}, registry=registry, raises=False)
    assert {*offers} == {offered}, run.error
    assert not (tmp_path / "x.txt").exists()


def test_a_function_gets_a_built_in_tool_only_where_it_is_listed() -> None:
    registry, offered = agf.Registry(), list[list[str]]()
    install(registry, folder=Path.cwd, allow_shell=lambda: False)
    agf.tool(lambda: 1, name="pay", registry=registry)
    agf.agent(lambda prompt, tools: offered.append(sorted(tools)), name="clerk", registry=registry)
    agf.agent(
        lambda prompt, tools: offered.append(sorted(tools)), name="reader", tools=["file__read"], registry=registry
    )
    steps = "".join(
        f"- {step(name, tools)}\n" for name, tools in (("clerk", None), ("clerk", ["shell"]), ("reader", None))
    )
    agf.run(f"pipeline: p\nsteps:\n{steps}", registry=registry)
    assert offered == [["pay"], ["shell"], ["file__read"]]


# --- names ---


@pytest.mark.parametrize(("named", "nearest"), [("anyon", "anyone"), ("users", None), ("ba", None)])
def test_an_unknown_identity_is_reported_before_the_run(named: str, nearest: str | None) -> None:
    house = House()
    house.define("inner", f"- tool: {{name: a}}\n- {step(named, None)}")
    for nested in ("alone", "fold", "call"):
        with pytest.raises(agf.DefinitionError) as caught:
            agf.run(
                f"pipeline: p\nsteps:\n{NESTED[nested].replace('STEP', step(named, None))}\n", registry=house.registry
            )
        diagnostic = caught.value.diagnostic
        assert (diagnostic.code, diagnostic.span and diagnostic.span.text) == ("flow.unknown-agent", f'"{named}"')
        assert ("did you mean" in str(diagnostic.hint)) is (nearest is not None)
        assert "registered agents are ab, anyone, nothing" in str(diagnostic.hint)
    assert house.used == []


def test_a_capability_that_is_no_tool_is_a_warning_when_defined_and_an_error_before_the_first_step() -> None:
    house = House()
    text = f"pipeline: p\nsteps:\n- {step(None, ['a', 'bb'])}\n"
    assert agf.define(text, registry=house.registry) is not None
    with pytest.raises(agf.DefinitionError, match=r"flow\.unknown-capability"):
        agf.run(text, registry=house.registry)
    with pytest.raises(agf.DefinitionError):
        agf.define(text, registry=house.registry, strict=True)
    inline = house.launch("inline", "user", f"- {step(None, ['a', 'bb'])}")
    assert "[flow.unknown-capability]" in inline["data"]["error"]
    assert house.used == []


def test_a_launch_among_the_capabilities_gives_none() -> None:
    house = House()
    agf.tool(lambda: None, name="run_pipeline", registry=house.registry)
    run = agf.run(
        f"pipeline: p\nsteps:\n- {step(None, ['a', 'run_pipeline'])}\n- {step(None, None)}\n", registry=house.registry
    )
    assert run.steps["steps[0]"].value == "user a"
    assert run.output == "user abc"
