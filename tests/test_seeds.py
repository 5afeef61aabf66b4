"""Every example of the pipeline document (tests/vectors/seed_examples.json) loads, and runs where that is possible.

Real functions stand in for the tools and agents that the examples name. Together the rows use every word of the
language and every part of an expression: a part of the grammar that no row uses is a gap.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import agf_magics as agf
from agf_magics.catalog import install
from agf_magics.languages.pipeline import takes, words
from agf_magics.languages.pipeline.r1 import nodes
from agf_magics.languages.pipeline.r1 import parse as parse_r1
from agf_magics.languages.pipeline.r1.functions import FUNCTIONS
from agf_magics.settings.settings import Settings
from agf_magics.text.diagnostics import Diagnostics
from agf_magics.text.source import Source
from agf_magics.text.yaml.nodes import Fields, Items, Node, Scalar
from agf_magics.text.yaml.reader import documents

VECTORS = json.loads((Path(__file__).parent / "vectors" / "seed_examples.json").read_text(encoding="utf-8"))
ROWS: list[dict[str, Any]] = VECTORS["rows"]
DEFINITIONS = [row for row in ROWS if "text" in row]
EXPRESSIONS = [row for row in ROWS if "expr" in row]


def name_of(row: dict[str, Any]) -> str:
    return f"{row['place']}: {row['title']}"


class Offered:
    """What the stand-in for a model received."""

    tools: list[str] | None = None


def registry_for(row: dict[str, Any], folder: Path, offered: Offered) -> agf.Registry:
    """The tools and agents that the document's examples name."""
    registry = agf.Registry()
    install(registry, folder=lambda: folder, allow_shell=lambda: bool(row.get("shell")))

    @agf.tool(registry=registry)
    def web_search(query: str, limit: int) -> list[str]:
        return [f"{query} {number}" for number in range(1, limit + 1)]

    @agf.tool(registry=registry)
    def labelled_search(query: str, limit: int, label: str) -> dict[str, Any]:
        return {"query": query, "limit": limit, "label": label}

    @agf.tool(registry=registry)
    def web_page(of: str) -> dict[str, str]:
        return {"title": of}

    @agf.agent(registry=registry, default=True)
    def model(prompt: str, tools: dict[str, Any]) -> Any:
        offered.tools = sorted(tools)
        return row["replies"][prompt]

    @agf.agent(registry=registry, tools=["web_search"])
    def second(prompt: str, tools: dict[str, Any]) -> str:
        offered.tools = sorted(tools)
        return f"second was asked: {prompt}"

    for text in row.get("define", ()):
        agf.define(text, registry=registry)
    return registry


@pytest.mark.parametrize("row", DEFINITIONS, ids=name_of)
def test_a_definition_of_the_document_loads_and_runs(row: dict[str, Any], tmp_path: Path) -> None:
    offered = Offered()
    registry = registry_for(row, tmp_path, offered)
    if "error" in row:
        with pytest.raises(agf.AgfError) as caught:
            _run(row, registry)
        diagnostic = caught.value.diagnostic
        assert (diagnostic.code, diagnostic.span and diagnostic.span.text) == (row["error"], row["at"])
        return
    run = _run(row, registry)
    assert _same(run.output, row["output"])
    assert _same(dict(run.stores), row.get("stores", dict(run.stores)))
    assert {name: (tmp_path / name).read_text() for name in row.get("files", ())} == row.get("files", {})
    if "offered" in row:
        assert offered.tools == row["offered"]


@pytest.mark.parametrize("row", EXPRESSIONS, ids=name_of)
def test_an_expression_of_the_document_has_its_value(row: dict[str, Any]) -> None:
    context = {"ctx": row["ctx"], "pipe": None}
    if "error" not in row:
        assert _same(agf.evaluate("r1", row["expr"], context), row["output"])
        return
    with pytest.raises(agf.AgfError) as caught:
        agf.evaluate("r1", row["expr"], context)
    diagnostic = caught.value.diagnostic
    assert (diagnostic.code, diagnostic.span and diagnostic.span.text) == (row["error"], row["at"])


def test_the_caps_have_the_documents_defaults() -> None:
    settings = Settings()
    assert (settings.max_pipeline_fan_out_depth, settings.max_pipeline_spawns) == (5, 100)


def test_what_is_left_out_says_why() -> None:
    assert all(row["place"] and row["reason"] for row in VECTORS["left_out"])


# --- the whole grammar ---


EXTENSIONS = {
    ("agent", "model"),
    ("agent", "attach"),
    *((kind, "on_error") for kind in ("tool", "shell", "agent", "call")),
}
"""Keys that this package adds to the language of the document."""


def test_every_word_of_the_language_is_used() -> None:
    kinds = [*words.STEPS.values(), *words.DOCUMENTS.values(), takes.TARGET]
    words_of_language = {(kind.name, key) for kind in kinds for key in kind.keys}
    words_of_language |= {("type", name) for name in words.FIELD_TYPES}
    words_of_language |= {("arguments", "literal"), ("arguments", "!expr"), ("pass", "list"), ("pass", "mapping")}
    words_of_language |= {("command", "text"), ("command", "list"), ("command", "!expr")}
    words_of_language |= {("on_error", "abort"), ("on_error", "continue"), ("on_error", "retry")}
    words_of_language |= {("list", "over"), ("list", "items"), ("list", "pipe")}
    assert words_of_language - EXTENSIONS <= set(_all_used())


def test_everything_an_expression_can_be_made_of_is_used() -> None:
    used = {part for row in EXPRESSIONS if _parses(row) for part in _parts(parse_r1(_span(row["expr"])).node)}
    assert {kind.__name__ for kind in get_args(nodes.Node)} <= used
    assert {*FUNCTIONS} - {"parse_json", "text"} <= used  # the two are extensions (decision P20)
    assert {"==", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/"} <= used
    assert {"int", "float", "str", "bool", "NoneType"} <= used


def _run(row: dict[str, Any], registry: agf.Registry) -> agf.Run:
    flow = agf.load(row["text"], registry=registry)
    return agf.run(flow, row.get("input"), registry=registry, limits=agf.Limits(**row.get("limits", {})))


def _same(value: Any, expected: Any) -> bool:
    """Whether two values are the same as JSON text, where 1 is neither true nor 1.0."""
    return json.dumps(value) == json.dumps(expected)


def _span(text: str) -> Any:
    return Source("example", text).span()


def _parses(row: dict[str, Any]) -> bool:
    return row.get("error") not in ("r1.unknown-function", "r1.lambda")


def _parts(node: nodes.Node) -> Iterator[str]:
    yield type(node).__name__
    yield from (str(getattr(node, name)) for name in ("op", "name") if hasattr(node, name))
    if isinstance(node, nodes.Get):
        yield "get"
    if isinstance(node, nodes.Arithmetic):
        yield from (operation.op for operation in node.rest)
    if isinstance(node, nodes.Lit):
        yield type(node.value).__name__
    for child in nodes.children(node):
        yield from _parts(child)


def _all_used() -> Iterator[tuple[str, str]]:
    for row in DEFINITIONS:
        for document in documents(Source("example", row["text"]), Diagnostics()):
            yield from _used(
                document, "pipeline" if isinstance(document, Fields) and "steps" in document.fields else "schema"
            )


def _used(node: Node, within: str) -> Iterator[tuple[str, str]]:
    """The parts of the language that a node uses, each with the word above it."""
    if isinstance(node, Items):
        for item in node.items:
            yield from _used(item, within)
    if isinstance(node, Scalar) and within in ("args", "command"):
        yield ("arguments", node.tag or "literal") if within == "args" else ("command", node.tag or "text")
    if not isinstance(node, Fields):
        return
    for key, value in node.fields.items():
        yield "target" if "pipeline" in node.fields and within in ("cases", "default") else within, key
        match key, value:
            case "type", Scalar():
                yield "type", value.text
            case "on_error", Scalar():
                yield "on_error", value.text.partition("(")[0]
            case "pass" | "command", Items():
                yield key, "list"
            case "pass", Fields():
                yield key, "mapping"
        inside = key if key in words.STEPS or key in ("args", "command", "cases", "default") else within
        yield from _used(value, within if within in ("args", "cases") else inside)
        if key in ("fold", "for_each") and isinstance(value, Fields):
            yield "list", next((source for source in ("over", "items") if source in value.fields), "pipe")
