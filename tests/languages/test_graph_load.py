"""Loading of graph documents: the flow that a text describes, or all its errors. The rows are the rules of the
language."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.languages import LANGUAGES
from agf_magics.languages.graph import SCHEMA, takes
from agf_magics.languages.graph.expressions.reading import Reader
from agf_magics.languages.graph.node_kinds import BUILD
from agf_magics.languages.graph.words import (
    CONFIG,
    DEFAULTS,
    EDGE,
    EXPORT,
    FALLBACK,
    GRAPH,
    NODES,
    PROMPT_FILE,
    STATE_KEY,
    TOOL,
)
from agf_magics.languages.keys import Key, MappingSpec, Takes
from agf_magics.text.diagnostics import Diagnostics
from agf_magics.text.source import Source
from agf_magics.text.yaml.nodes import plain
from agf_magics.text.yaml.reader import documents
from tests.languages.graph_case import normal
from tests.languages.loading import as_vectors, load, nodes

VECTORS = Path(__file__).parents[1] / "vectors"
ROWS = json.loads((VECTORS / "graph_documents.json").read_text("utf-8"))["rows"]
RUNS = json.loads((VECTORS / "graph_runs.json").read_text("utf-8"))["rows"]
KINDS = (*NODES.values(), EDGE, TOOL, STATE_KEY, CONFIG, DEFAULTS, PROMPT_FILE, FALLBACK, EXPORT, GRAPH)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_documents(row: dict[str, Any]) -> None:
    definition, problems = load("graph", row["text"])
    as_row: dict[str, Any] = {"id": row["id"], "text": row["text"], **as_vectors(problems, "error", "warning")}
    if "errors" not in as_row:
        as_row["ok"] = normal(definition.flow)
    assert as_row == row


# --- the tables ---


VALUES = {name: row for name, row in vars(takes).items() if isinstance(row, Takes)}


def test_every_kind_of_value_is_taken_by_a_key_and_every_kind_of_node_is_built() -> None:
    taken = [key.takes for kind in KINDS for key in kind.keys.values()]
    assert [name for name, row in VALUES.items() if not any(row is value for value in taken)] == []
    assert set(BUILD) == set(NODES)


@pytest.mark.parametrize("name", VALUES)
def test_the_example_of_a_value_is_read_without_an_error(name: str) -> None:
    row, problems = VALUES[name], Diagnostics()
    node = documents(Source("test", row.example), problems)[0]
    assert row.read(Reader(problems), node, Key(name, row)) is not None
    assert not problems.errors


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_key_occurs_in_an_accepted_document(kind: MappingSpec) -> None:
    used: set[str] = set()
    for row in [row for row in (*ROWS, *RUNS) if "ok" in row]:
        used |= _keys_of(kind, plain(nodes(row["text"])[0][0]))
    assert set(kind.keys) - used <= {"module"} if kind is TOOL else set(kind.keys) - used == set(), "no row has it"


def _keys_of(kind: MappingSpec, document: dict[str, Any]) -> set[str]:
    """The keys that the mappings of this kind have in a document."""
    inside = [*document["nodes"].values()]
    inside += [node["node"] for node in inside if "node" in node]
    sessions = {"llm", "agent", "router"}
    held: dict[str, list[Any]] = {
        "edge": document["edges"],
        "tool of the graph": [*(document.get("tools") or {}).values()],
        "state key": [key for key in (document.get("state") or {}).values() if isinstance(key, dict)],
        "config": [document.get("config", {})],
        "defaults": [document.get("defaults", {})],
        "prompt": [node["prompt"] for node in inside if isinstance(node.get("prompt"), dict)],
        "fallback": [node["fallback"] for node in inside if "fallback" in node],
        "export": [*(document.get("exports") or {}).values()],
        "graph": [document],
    }
    for name in NODES:  # the three kinds that ask an agent share most of their keys
        alike = sessions if name in sessions else {name}
        held[name] = [node for node in inside if node.get("type", "llm") in alike]
    return {name for mapping in held[kind.name] for name in mapping}


def test_the_json_schema_and_the_loader_agree() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    accepts = jsonschema.Draft202012Validator(SCHEMA).is_valid
    shape = {f"graph.{code}" for code in ("unknown-key", "missing-key", "node-type", "count", "node-shape")}
    beyond = {"python-without-tool", "tool-call-without-tool", "no-nodes", "shell-without-command"}
    beyond |= {"neither-message-nor-prompt", "fallback-missing"}
    for row in [*ROWS, *RUNS]:
        read_documents, problems = nodes(row["text"])
        if problems.errors or len(read_documents) != 1:
            continue
        codes = {error["code"] for error in row.get("errors", ())}
        if "ok" in row:
            assert accepts(plain(read_documents[0])), row["id"]
        elif codes & shape and row["id"] not in beyond:
            assert not accepts(plain(read_documents[0])), row["id"]


# --- graphs among the languages ---


def test_the_language_is_detected_and_its_expressions_are_evaluated_by_its_name() -> None:
    registry = agf.Registry()
    flow = agf.define("name: g\nnodes: {a: {type: passthrough}}\nedges: [{from: START, to: a}]", registry=registry)
    assert flow.language == "graph"
    assert set(LANGUAGES["graph"].expressions) == {"value", "condition"}
    assert agf.evaluate("value", "{state.n + 1}", {"n": 1}) == 2
    assert agf.evaluate("condition", "n < 3", {"n": 1}) is True


def test_a_graph_without_a_name_is_named_when_it_is_defined() -> None:
    text = "nodes: {a: {type: passthrough}}\nedges: [{from: START, to: a}]"
    with pytest.raises(agf.DefinitionError) as caught:
        agf.define(text, "graph", registry=agf.Registry())
    assert caught.value.code == "define.no-name"
    assert agf.load(text, "graph").name == "graph"
