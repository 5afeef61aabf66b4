"""A policy document uses the MCP servers that the user has connected, and starts no server itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic_ai.messages as ai
import pytest
from pydantic_ai.models.function import AgentInfo, FunctionModel

import agf_magics as agf
from tests.mcp.servers import marks, program

DOCUMENT = """
schema_version: "1.0.0"
metadata: {{id: analyst, name: Analyst, version: "1.0.0", description: Adds}}
interface: {{input: {{}}, output: {{}}}}
action_space:
  mcp_servers: [{server}]
execution_policy:
  id: agf.react
  config: {{instructions: Be brief., model: m}}
"""


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "mark"
    agf.mcp.close_all()


def connect(mark: Path, registry: agf.Registry, name: str = "quick", **options: Any) -> None:
    options.setdefault("trust", True)
    agf.mcp.connect(name, command=program("quick"), env={"MARK": str(mark)}, registry=registry, **options)


class Model:
    """A model that calls one tool, records the tools that it was offered, and answers with the results that it
    received."""

    def __init__(self, tool: str, registry: agf.Registry) -> None:
        self.offered: list[str] = []

        def reply(messages: list[ai.ModelMessage], info: AgentInfo) -> ai.ModelResponse:
            self.offered = [tool.name for tool in info.function_tools]
            last = messages[-1].parts[-1]
            if isinstance(last, ai.ToolReturnPart | ai.RetryPromptPart):
                return ai.ModelResponse(parts=[ai.TextPart(str(last.content))])
            return ai.ModelResponse(parts=[ai.ToolCallPart(tool, {"a": 1}, "1")])

        registry.choose(FunctionModel(reply, model_name="m"))


def run(server: str, registry: agf.Registry, **options: Any) -> agf.Run:
    return agf.run(agf.load(DOCUMENT.format(server=server), registry=registry), registry=registry, **options)


def test_all_tools_of_the_connected_server_are_offered(mark: Path) -> None:
    registry = agf.Registry()
    connect(mark, registry)
    model = Model("quick__add", registry)
    assert run("{alias: quick}", registry).output == "2"
    assert sorted(model.offered) == ["quick__add", "quick__die", "quick__drop"]


def test_only_the_allowed_tools_are_offered_and_can_be_called(mark: Path) -> None:
    registry = agf.Registry()
    connect(mark, registry)
    model = Model("quick__drop", registry)
    assert "quick__drop" in run("{alias: quick, allowed_tools: [add]}", registry).output
    assert model.offered == ["quick__add"]
    assert marks(mark) == []


@pytest.mark.parametrize("allowed", ["", ", allowed_tools: [add]"])
def test_a_server_is_also_found_by_its_reference(mark: Path, allowed: str) -> None:
    registry = agf.Registry()
    connect(mark, registry, "mine", ref="acme/sums")
    model = Model("sums__add", registry)
    assert run(f"{{alias: sums, server_ref: acme/sums{allowed}}}", registry).output == "2"
    assert "sums__add" in model.offered


@pytest.mark.parametrize(
    ("server", "asks"),
    [
        ("{alias: quick, approval: true}", True),
        ("{alias: quick, approval: true, allowed_tools: [{name: add, approval: false}]}", False),
        ("{alias: quick, allowed_tools: [{name: add, approval: true}]}", True),
        ("{alias: quick, allowed_tools: [add, {name: drop, approval: true}]}", False),
    ],
)
def test_the_approval_of_a_tool_counts_before_that_of_its_server(mark: Path, server: str, asks: bool) -> None:
    registry, questions = agf.Registry(), list[str]()
    connect(mark, registry)
    Model("quick__add", registry)

    def ask(question: agf.Question) -> bool:
        questions.append(question.text)
        return True

    assert run(server, registry, ask=ask).output == "2"
    assert bool(questions) is asks


def test_a_server_that_is_not_connected_is_reported_before_the_first_step(mark: Path) -> None:
    registry = agf.Registry()
    Model("quick__add", registry)
    flow = agf.load(DOCUMENT.format(server="{alias: quick, server_ref: acme/quick}"), registry=registry)
    with pytest.raises(agf.DefinitionError) as caught:
        agf.run(flow, registry=registry)
    (diagnostic,) = (diagnostic for diagnostic in caught.value.diagnostics if diagnostic.severity == "error")
    assert diagnostic.code == "policy.mcp-not-connected"
    assert diagnostic.hint == "connect it: %mcp connect quick -- COMMAND"
    connect(mark, registry)
    assert agf.run(flow, registry=registry).output == "2"
    agf.mcp.servers["quick"].close()
    with pytest.raises(agf.DefinitionError, match="connect it again: %mcp connect quick --env"):
        agf.run(flow, registry=registry)


def test_the_allowed_tools_of_a_missing_server_are_not_reported_as_well(mark: Path) -> None:
    registry = agf.Registry()
    Model("quick__add", registry)
    with pytest.raises(agf.DefinitionError) as caught:
        run("{alias: quick, server_ref: acme/quick, allowed_tools: [add, {name: drop, approval: true}]}", registry)
    assert [diagnostic.code for diagnostic in caught.value.diagnostics if diagnostic.severity == "error"] == [
        "policy.mcp-not-connected"
    ]


def test_a_tool_that_the_server_does_not_have_is_named(mark: Path) -> None:
    registry = agf.Registry()
    connect(mark, registry)
    Model("quick__add", registry)
    with pytest.raises(agf.DefinitionError, match="quick__subtract"):
        run("{alias: quick, allowed_tools: [subtract]}", registry)
