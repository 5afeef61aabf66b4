"""Documents with ``mcp_servers``, in the shapes that Agent Format publishes, run against a local server.

The shapes were found in November 2026: in the enterprise example, in the pages about approvals and fields, and in an
article with a server that is named by its address. The documents here are our own, with the same fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic_ai.messages as ai
import pytest
from pydantic_ai.models.function import AgentInfo, FunctionModel

import agf_magics as agf
from tests.mcp.servers import marks, program

HEAD = """
schema_version: "1.0.0"
metadata:
  id: sums-clerk
  name: Sums clerk
  version: "1.4.0"
  description: Adds what people ask for
  labels: {team: sums, environment: production}
  annotations: {owner: sums@example.org}
  data_classification: internal
  namespace: org.example
interface:
  input: {type: object, properties: {request: {type: string}}, required: [request]}
  output: {type: object, properties: {response: {type: string}}, required: [response]}
execution_policy:
  id: agf.react
  config: {instructions: Add., model: gemini-2.0-flash, provider: google, max_steps: 15, tool_choice: auto}
"""
LIMITS = """
constraints:
  tighten_only_invariant: true
  budget: {max_token_usage: 500000, max_duration_seconds: 600}
  limits: {max_llm_calls: 100, max_tool_calls: 200, max_delegation_depth: 3}
  governance_policies: [{policy_ref: org.example.personal-data, required: false}]
memory: {required: false}
"""
LOCAL = """
  local_tools:
  - alias: look_up
    description: Looks something up
    approval:
      message_template: "Look up with {{tool_args.how}}?"
      condition: {args_match: {how: {in: [DELETE, UPDATE]}}}
"""


def server(fields: str) -> str:
    return f"\n  mcp_servers:\n  - alias: sums\n    server_ref: org.example.sums\n    description: Sums\n{fields}"


TEMPLATE = '{message_template: "Add {{tool_args.a}}?", condition: {args_match: {a: {gt: 5}}}}'

SHAPES: dict[str, tuple[str, list[str], list[str]]] = {
    "all tools": (server(""), ["add", "die", "drop"], []),
    "names": (server("    allowed_tools: [add, drop]\n"), ["add", "drop"], []),
    "a tool that asks": (
        LOCAL + server("    allowed_tools:\n    - name: drop\n    - {name: add, approval: true}\n") + LIMITS,
        ["add", "drop"],
        ["3", "9"],
    ),
    "a server that asks": (server("    approval: true\n"), ["add", "die", "drop"], ["3", "9"]),
    "a tool that does not ask on a server that does": (
        server("    approval: true\n    allowed_tools: [{name: add, approval: false}, drop]\n"),
        ["add", "drop"],
        [],
    ),
    "a condition": (server(f"    allowed_tools: [{{name: add, approval: {TEMPLATE}}}]\n"), ["add"], ["9"]),
    "an approval without words": (server("    allowed_tools: [{name: add, approval: {}}]\n"), ["add"], ["3", "9"]),
}
"""The shapes by their subject: the action space of the document, the tools that its model gets, and the calls that ask
first."""


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "mark"
    agf.mcp.close_all()


class Clerk:
    """A model that adds 3 and 9, and answers with the results that it received."""

    def __init__(self, registry: agf.Registry) -> None:
        self.offered: list[str] = []

        def reply(messages: list[ai.ModelMessage], info: AgentInfo) -> ai.ModelResponse:
            self.offered = sorted(tool.name for tool in info.function_tools)
            results = [part for message in messages for part in message.parts if isinstance(part, ai.ToolReturnPart)]
            if len(results) < 2:
                return ai.ModelResponse(
                    parts=[ai.ToolCallPart("sums__add", {"a": (3, 9)[len(results)]}, str(len(results)))]
                )
            answer = " ".join(str(result.content) for result in results)
            (output,) = info.output_tools
            return ai.ModelResponse(parts=[ai.ToolCallPart(output.name, {"response": answer}, "end")])

        registry.choose(FunctionModel(reply, model_name="m"))


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(
    "connected", [{"name": "sums"}, {"name": "mine", "ref": "org.example.sums"}], ids=["alias", "ref"]
)
def test_a_document_of_this_shape_runs(name: str, connected: dict[str, Any], mark: Path) -> None:
    space, offered, asking = SHAPES[name]
    registry, questions = agf.Registry(), list[str]()

    @agf.tool(registry=registry)
    def look_up(how: str) -> str:
        return how

    agf.mcp.connect(**connected, command=program("quick"), env={"MARK": str(mark)}, registry=registry, trust=True)
    clerk = Clerk(registry)

    def ask(question: agf.Question) -> bool:
        questions.append(question.text)
        return True

    flow = agf.load(f"{HEAD}\naction_space:{space}", registry=registry)
    run = agf.run(flow, {"request": "3 and 9"}, registry=registry, ask=ask)
    assert run.output == {"response": "4 10"}
    assert [tool for tool in clerk.offered if tool != "look_up"] == [f"sums__{tool}" for tool in offered]
    assert len(questions) == len(asking)
    assert all(value in text for value, text in zip(asking, questions, strict=True))
    assert marks(mark) == ["add", "add"]


@pytest.mark.parametrize(
    ("field", "code"), [("personal-data, required", "governance"), ("memory: {required", "memory")]
)
def test_an_unsupported_field_of_a_document_is_refused_with_the_line_to_change(
    field: str, code: str, mark: Path
) -> None:
    registry = agf.Registry()
    agf.mcp.connect("sums", command=program("quick"), registry=registry, trust=True)
    Clerk(registry)
    text = f"{HEAD}\naction_space:{server('')}{LIMITS}".replace(f"{field}: false", f"{field}: true")
    with pytest.raises(agf.DefinitionError) as caught:
        agf.run(agf.load(text, registry=registry), {"request": "x"}, registry=registry)
    (diagnostic,) = (diagnostic for diagnostic in caught.value.diagnostics if diagnostic.severity == "error")
    assert (diagnostic.code, diagnostic.hint) == (f"policy.{code}", "write required: false to run without it")


def test_a_server_that_is_named_by_its_address_is_the_one_connected_with_it(mark: Path) -> None:
    registry = agf.Registry()
    agf.mcp.connect(
        "mine", command=program("quick"), env={"MARK": str(mark)}, registry=registry, trust=True,
        ref="http://localhost/mcp/sums",
    )  # fmt: skip
    Clerk(registry)
    space = "\n  mcp_servers:\n  - {alias: sums, server_ref: 'http://localhost/mcp/sums', allowed_tools: [add]}"
    flow = agf.load(f"{HEAD}\naction_space:{space}", registry=registry)
    assert agf.run(flow, {"request": "x"}, registry=registry).output == {"response": "4 10"}
