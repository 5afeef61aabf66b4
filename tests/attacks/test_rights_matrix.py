"""Every kind of call under every restriction: the call reaches the tool, or fails with the code of the reason.

A row is a way to call a tool (``a``, or ``shell``). A column is the caller, or the restriction around the call. Every
column allows the other tools of a row (those that start runs or threads), so the outcome is about the tool alone.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import agf_magics as agf
from agf_magics.catalog import install
from agf_magics.flow.step import Step
from agf_magics.lifecycle.agent_tools import launch_tools
from agf_magics.lifecycle.definitions.define import register
from agf_magics.lifecycle.runs.live import live
from agf_magics.settings.settings import Settings, current
from tests.slow import slow_but

PROGRAM = [sys.executable, "-c", "pass"]
DENIED = "step.not-allowed"
HELPERS = ("runs", "aruns", "starts", "in_thread", "in_pool", "launches", "defines")
LAUNCHES = ("run_pipeline", "run_pipeline_async", "run_pipeline_inline", "run_result")
NODE = "name: {}\nstate: {{x: any, t: str}}\n{}\nedges: [{{from: START, to: n}}]\n"
DOCUMENT = {
    "schema_version": "1.0.0",
    "metadata": {"id": "d", "name": "D", "version": "1.0.0", "description": "d"},
    "interface": {"input": {}, "output": {}},
}


class Kind(NamedTuple):
    """A way to reach a tool."""

    step: str
    """The call as a step of a pipeline."""
    code: str | None = DENIED
    """The code of the call where the tool is not allowed. None: the tool is not offered, so nothing fails."""
    gate: str | None = None
    """The code of an inline definition with this step; None: it runs."""
    target: str = "a"
    always: str | None = None
    """The code of the call in every place."""


TOOL = "{tool: {name: a}}"
KINDS: Mapping[str, Kind] = {
    "tool": Kind(f"- {TOOL}"),
    "shell": Kind(f"- shell: {{command: {json.dumps(PROGRAM)}}}", target="shell"),
    "shell as a tool": Kind(f"- tool: {{name: shell, args: {{command: {json.dumps(PROGRAM)}}}}}", target="shell"),
    "for_each": Kind(
        f"- for_each: {{items: [1], on_error: abort, do: {TOOL}, collect: {{transform: {{value: pipe}}}}}}"
    ),
    "for_each collect": Kind(
        f"- for_each: {{items: [1], on_error: abort, do: {{transform: {{value: item}}}}, collect: {TOOL}}}"
    ),
    "parallel": Kind(f"- parallel: {{branches: {{b: {TOOL}}}, collect: {{transform: {{value: pipe}}}}}}"),
    "fold": Kind(f"- fold: {{items: [1], init: '0', do: {TOOL}, output: o}}"),
    "call": Kind("- call: {pipeline: pipeline}"),
    "call of a call": Kind("- call: {pipeline: calls}"),
    "match": Kind("- match: {on: \"'x'\", cases: {x: {pipeline: pipeline}}}"),
    "policy": Kind("- call: {pipeline: policy}", "step.agent-failed"),
    "plan": Kind("- call: {pipeline: plan}"),
    "delegate": Kind("- call: {pipeline: delegates}"),
    "graph": Kind("- call: {pipeline: graph}"),
    "subgraph": Kind("- call: {pipeline: subgraph}"),
    "python node": Kind("- call: {pipeline: python}"),
    "tool_call": Kind("- call: {pipeline: chooses}", None),
    "map": Kind("- call: {pipeline: map}", "graph.map-incomplete"),
    "command node": Kind("- call: {pipeline: command}", target="shell"),
    "agent function": Kind("- agent: {prompt: x, identity: boss}", "step.agent-failed", "gate.identity"),
    "agent flow": Kind("- agent: {prompt: x, identity: pipeline}", gate="gate.identity"),
    "agent with a model": Kind("- agent: {prompt: x, identity: model}", None, "gate.identity"),
    "react": Kind("- call: {pipeline: react}", None),
    "vendor's policy": Kind("- call: {pipeline: vendor}", "step.policy-failed"),
    "vendor's builder": Kind("- call: {pipeline: builder}", "step.agent-failed"),
    "agent in Python": Kind("- agent: {prompt: x, identity: runner}", gate="gate.identity"),
    "agf.run": Kind("- tool: {name: runs}"),
    "agf.arun": Kind("- tool: {name: aruns}"),
    "agf.start": Kind("- tool: {name: starts}"),
    "thread": Kind("- tool: {name: in_thread}"),
    "pool": Kind("- tool: {name: in_pool}"),
    "agf.define": Kind("- tool: {name: defines}"),
    "launch in Python": Kind("- tool: {name: launches}", always="flow.launch"),
    "launch": Kind("- tool: {name: run_pipeline, args: {name: pipeline}}", always="flow.launch"),
    "launch of one flow": Kind("- tool: {name: pipeline__pipeline}", always="flow.launch"),
    "a flow as a tool": Kind("- tool: {name: pipeline}", always="flow.unknown-tool"),
    "a delegation": Kind("- tool: {name: delegate_to_agent}", always="flow.unknown-tool"),
}


class House:
    """The tools, agents and flows that the rows name."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.registry = agf.Registry()
        self.reached: list[str] = []
        install(self.registry, folder=Path.cwd, allow_shell=self._reach("shell"))
        agf.tool(self._reach("a"), name="a", registry=self.registry)
        self._tools()
        self._agents()
        for language, name, text in FLOWS:
            register(text, language, name=name, registry=self.registry)
        self.define("uses", kind.step)

    def define(self, name: str, steps: str) -> None:
        register(f"pipeline: {name}\nsteps:\n{steps}\n", "pipeline", registry=self.registry)

    def use(self) -> Any:
        return agf.run("pipeline", registry=self.registry).output

    def _reach(self, name: str) -> Callable[[], bool]:
        def reach() -> bool:
            self.reached.append(name)
            return True

        return reach

    def _tools(self) -> None:
        def in_thread() -> Any:
            return thread(self.use)

        def in_pool() -> Any:
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(self.use).result()

        async def aruns() -> Any:
            return (await agf.arun("pipeline", registry=self.registry)).output

        def starts() -> Any:
            return agf.start("pipeline", registry=self.registry).result()

        def launches() -> Any:
            return launch_tools(registry=self.registry)["run_pipeline"]("pipeline")

        def defines() -> Any:
            agf.define("pipeline: new\nsteps:\n- tool: {name: a}\n", registry=self.registry)
            return agf.run("new", registry=self.registry).output

        for function in (in_thread, in_pool, aruns, starts, launches, defines):
            agf.tool(function, registry=self.registry)
        agf.tool(lambda: self.use(), name="runs", registry=self.registry)

    def _agents(self) -> None:
        def boss(input: Any, tools: Mapping[str, Callable[..., Any]]) -> Any:
            return tools["a"]()

        async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            asks = len(messages) == 1 and any(tool.name == "a" for tool in info.function_tools)
            return ModelResponse([ToolCallPart("a", {}) if asks else TextPart("done")])

        agf.agent(boss, registry=self.registry)
        agf.agent(lambda prompt: self.use(), name="runner", registry=self.registry)
        agf.model_agent("model", model=FunctionModel(answer), registry=self.registry)

        @agf.policy("x-acme.first", registry=self.registry)
        def first(config: Any, input: Any, agents: Mapping[str, Any]) -> Any:
            return agents["boss"](input)

        @agf.policy("x-acme.built", builder=True, registry=self.registry)
        def built(config: Any) -> Step:
            flow = agf.load("id: agf.sequential\nconfig: {steps: [{agent: boss}]}", "policy", registry=self.registry)
            return replace(flow.body.steps[0], target=None)


FLOWS: Sequence[tuple[str, str, str]] = (
    ("pipeline", "pipeline", f"pipeline: pipeline\nsteps:\n- {TOOL}\n"),
    ("pipeline", "calls", "pipeline: calls\nsteps:\n- call: {pipeline: pipeline}\n"),
    ("policy", "policy", "id: agf.sequential\nconfig: {steps: [{agent: boss}]}\n"),
    ("policy", "vendor", "id: x-acme.first\nconfig: {}\n"),
    ("policy", "builder", "id: x-acme.built\nconfig: {}\n"),
    ("plan", "plan", "calls: [{_tool: a, _outputPath: †state.x}]\n"),
    ("plan", "delegates", "calls: [{_delegate: pipeline, _outputPath: †state.x}]\n"),
    ("graph", "graph", NODE.format("graph", "nodes: {n: {type: tool, tool: a}}")),
    ("graph", "subgraph", NODE.format("subgraph", "nodes: {n: {type: subgraph, graph: graph}}")),
    ("graph", "python", NODE.format("python", "nodes: {n: {type: python, tool: a}}")),
    (
        "graph",
        "chooses",
        NODE.format("chooses", "variables: {t: a}\nnodes: {n: {type: tool_call, tool: '{state.t}', args: {}}}"),
    ),
    (
        "graph",
        "map",
        "name: map\nstate: {l: list, i: any, o: {type: list, reducer: add}}\nvariables: {l: [1]}\n"
        "nodes: {n: {type: map, over: '{state.l}', as: i, node: {type: tool, tool: a}, collect: o}}\n"
        "edges: [{from: START, to: n}]\n",
    ),
    (
        "graph",
        "command",
        NODE.format("command", f"tools: {{c: {{type: shell, command: {json.dumps(' '.join(PROGRAM))}}}}}")
        + "nodes: {n: {type: tool, tool: c}}\n",
    ),
    (
        "graph",
        "react",
        NODE.format("react", "nodes: {n: {type: agent, prompt: please do, identity: model, tools: [a], state_key: x}}"),
    ),
)
"""Flows that call a tool, each with its language and its name."""


def thread(work: Callable[[], Any]) -> Any:
    """Do ``work`` in a new thread. Returns its result or raises its error."""
    results: list[Any] = []

    def do() -> None:
        try:
            results.append((True, work()))
        except BaseException as error:
            results.append((False, error))

    thread = threading.Thread(target=do)
    thread.start()
    thread.join()
    ok, value = results[0]
    if not ok:
        raise value
    return value


def became(work: Callable[[], Any]) -> str | None:
    """The code of the error that it raised; None: no error."""
    try:
        work()
    except (agf.DefinitionError, agf.StepError) as error:
        return error.code
    return None


def code_of(answer: Mapping[str, Any]) -> str | None:
    """The code in the answer to a launch."""
    match = re.search(r"\[([a-z]+\.[a-z-]+)\]", str(answer["data"].get("error", "")))
    return match[1] if match else None


# --- the columns: run the flow ``uses`` for somebody who may use ``tools`` ---


def by_identity(house: House, tools: Sequence[str]) -> str | None:
    agf.agent(lambda prompt: prompt, name="clerk", tools=[*tools, *HELPERS, *LAUNCHES], registry=house.registry)
    return code_of(launch_tools(identity="clerk", registry=house.registry)["run_pipeline"]("uses"))


def by_identity_behind(house: House, tools: Sequence[str]) -> str | None:
    agf.agent(lambda prompt: prompt, name="clerk", tools=[*tools, *HELPERS, *LAUNCHES], registry=house.registry)
    launch = launch_tools(identity="clerk", registry=house.registry)
    started = launch["run_pipeline_async"]("uses")
    run = live.find(started["data"].get("run_id", ""))
    if run is None:
        return code_of(started)
    run.wait()
    return code_of(launch["run_result"](run.run_id))


def by_identity_inline(house: House, tools: Sequence[str]) -> str | None:
    agf.agent(lambda prompt: prompt, name="clerk", tools=[*tools, *HELPERS, *LAUNCHES], registry=house.registry)
    launch = launch_tools(identity="clerk", registry=house.registry)["run_pipeline_inline"]
    return code_of(launch("pipeline: outer\nsteps:\n- call: {pipeline: uses}\n"))


def by_action_space(house: House, tools: Sequence[str]) -> str | None:
    agents = [{"alias": "uses", "source": "x", "source_type": "kernel"}]
    space = {"local_agents": agents, "local_tools": [{"alias": name} for name in (*tools, *HELPERS)]}
    policy = {"id": "agf.sequential", "config": {"steps": [{"agent": "uses"}]}}
    text = json.dumps({**DOCUMENT, "action_space": space, "execution_policy": policy})
    return became(lambda: agf.run(agf.load(text, "policy", registry=house.registry), registry=house.registry))


def by_capabilities(house: House, tools: Sequence[str]) -> str | None:
    step = {"prompt": "x", "identity": "uses", "capabilities": {"tools": [*tools, *HELPERS, *LAUNCHES]}}
    house.define("outer", f"- agent: {json.dumps(step)}")
    return became(lambda: agf.run("outer", registry=house.registry))


def deputy(how: Callable[[House], Any]) -> Callable[[House, Sequence[str]], str | None]:
    def column(house: House, tools: Sequence[str]) -> str | None:
        def do(prompt: str) -> str | None:
            return became(lambda: how(house))

        agf.agent(do, name="deputy", tools=[*tools, *HELPERS, *LAUNCHES], registry=house.registry)
        house.define("outer", "- agent: {prompt: x, identity: deputy}")
        outcome: str | None = agf.run("outer", registry=house.registry).output
        return outcome

    return column


def run(house: House) -> None:
    agf.run("uses", registry=house.registry)


def arun(house: House) -> None:
    asyncio.run(agf.arun("uses", registry=house.registry))


COLUMNS: Mapping[str, Callable[[House, Sequence[str]], str | None]] = {
    "identity": by_identity,
    "identity, behind": by_identity_behind,
    "identity, inline": by_identity_inline,
    "action space": by_action_space,
    "capabilities": by_capabilities,
    "a run of an agent's": deputy(run),
    "a thread of an agent's": deputy(lambda house: thread(lambda: run(house))),
    "a loop in a thread of an agent's": deputy(lambda house: thread(lambda: arun(house))),
    "a background run of an agent's": deputy(lambda house: agf.start("uses", registry=house.registry).result()),
}


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(current, "settings", Settings(journal=None, allow_shell=True))


CALLS = [(row, column) for row in KINDS for column in COLUMNS]
MAIN = ("identity", "a run of an agent's", "tool", "shell")
"""The columns that `make test` tries with all rows, and the rows that it tries with all columns."""


@pytest.mark.parametrize(
    ("row", "column"), slow_but([(row, column) for row, column in CALLS if row in MAIN or column in MAIN], CALLS)
)
def test_every_call_under_every_restriction(row: str, column: str) -> None:
    kind = KINDS[row]
    for tools in ((kind.target,), ()):
        house = House(kind)
        outcome = COLUMNS[column](house, tools)
        if kind.always is not None:
            assert (outcome, house.reached) == (kind.always, [])
        elif tools:
            assert (outcome, house.reached) == (None, [kind.target])
        else:
            assert (outcome, house.reached) == (kind.code, [])


@pytest.mark.parametrize("row", KINDS)
def test_every_call_by_the_user(row: str) -> None:
    kind = KINDS[row]
    for how in (run, arun):
        house = House(kind)
        outcome = became(lambda: how(house))  # noqa: B023
        assert (outcome, house.reached) == ((kind.always, []) if kind.always else (None, [kind.target]))


@pytest.mark.parametrize("row", KINDS)
def test_every_call_of_an_inline_definition(row: str) -> None:
    kind = KINDS[row]
    for form in ("- STEP", "- call: {pipeline: uses}"):
        house = House(kind)
        steps = kind.step if form == "- STEP" else form
        outcome = code_of(
            launch_tools(registry=house.registry)["run_pipeline_inline"](f"pipeline: i\nsteps:\n{steps}\n")
        )
        expected = kind.always or (kind.gate if form == "- STEP" else None)
        assert outcome == expected
        assert house.reached == ([] if expected else [kind.target])


# --- switches ---

SHELLS = [row for row, kind in KINDS.items() if kind.target == "shell"]


@pytest.mark.parametrize("row", SHELLS)
def test_no_program_is_started_while_the_shell_is_off(row: str) -> None:
    house = House(KINDS[row])
    install(house.registry, folder=Path.cwd, allow_shell=lambda: not house._reach("asked")())
    assert (became(lambda: run(house)), house.reached) == ("tool.shell-off", ["asked"])


NAMED: Mapping[str, str] = {
    "path": "{type: python, path: code.py, function: f}",
    "module": "{type: python, module: code_to_import, function: f}",
    "path only": "{path: code.py}",
}


@pytest.mark.parametrize("around", ["alone", "subgraph", "call", "delegate", "inline"])
@pytest.mark.parametrize("named", NAMED)
def test_nothing_is_imported_while_imports_are_off(named: str, around: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "open('imported', 'a').close()\ndef f(): return 1\n"
    Path("code.py").write_text(code)
    Path("code_to_import.py").write_text(code)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    text = NODE.format("g", f"tools: {{f: {NAMED[named]}}}\nnodes: {{n: {{type: python, tool: f, state_key: x}}}}")
    outer = {
        "alone": text.replace("name: g", "name: outer"),
        "subgraph": NODE.format("outer", "nodes: {n: {type: subgraph, graph: g}}"),
        "call": "pipeline: outer\nsteps:\n- call: {pipeline: g}\n",
        "delegate": "name: outer\ncalls: [{_delegate: g, _outputPath: †state.x}]\n",
        "inline": "pipeline: outer\nsteps:\n- call: {pipeline: g}\n",
    }[around]
    for allowed in (False, True):
        monkeypatch.setattr(current, "settings", Settings(journal=None, allow_import=allowed))
        registry = agf.Registry()
        agf.define(text, "graph", registry=registry)
        if around == "inline":
            outcome = code_of(launch_tools(registry=registry)["run_pipeline_inline"](outer))
        else:
            outcome = became(lambda: agf.run(outer, registry=registry))  # noqa: B023
        assert (outcome, Path("imported").exists()) == ((None, True) if allowed else ("file.import-off", False))
    sys.modules.pop("code_to_import", None)


def test_the_rows_name_every_way_to_call() -> None:
    """A new kind of callee needs a row here."""
    from agf_magics.engine.linking.link import LOOK_UP

    assert set(LOOK_UP) == {"tool", "agent", "flow", "transform", "policy", "question", "model"}
