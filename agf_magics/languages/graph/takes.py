"""The kinds of values that the keys of a graph may have: phrase, example, JSON Schema, reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...flow.protocols import Expr, Name
from ...text.source import Span
from ...text.yaml.nodes import Fields, Items, Node, Scalar, is_text
from ..documents import COUNT, NAME, as_name, choice, number_of, read_node
from ..key_schemas import S_NAME, S_NAMES, S_TEXT, Json, mapping_of, reference
from ..keys import Key, Takes
from .expressions.reading import Reader
from .expressions.values import Expression, Sentence


def _names(reader: Reader, node: Node, key: Key) -> tuple[Name, ...]:
    return tuple({name.text: name for name in reader.names(node, key)}.values())


def _values(reader: Reader, node: Node, key: Key) -> tuple[tuple[Name, Expr], ...]:
    return tuple(
        (Name(name.text, name.span), reader.value(value))
        for name, value in reader.named_entries(reader.mapping(node, key))
    )


def _variables(reader: Reader, node: Node, key: Key) -> tuple[tuple[Name, Expr], ...]:
    """Values that the text alone decides: there is no state before the run."""
    values = _values(reader, node, key)
    for ref in (ref for _, expr in values for ref in expr.reads()):
        message = f"{key.name!r} of a graph cannot read the state: they are its first values"
        reader.error("graph.wrong-type", message, ref.span, "let a passthrough node compute it")
    return values


def _arguments(reader: Reader, node: Node, key: Key) -> Any:
    """The named values, or the expression of one placeholder; None after an error."""
    if is_text(node):
        whole = reader.template(node)
        if isinstance(whole, Expression) and not isinstance(whole.node, Sentence):
            return whole
    if isinstance(node, Fields):
        return _values(reader, node, key)
    reader.wrong_type(node, key)
    return None


def _read_filled(reader: Reader, node: Node, key: Key) -> Scalar | None:
    """A text that is not blank, whose placeholders are read later."""
    if is_text(node) and node.text.strip():
        return node
    reader.wrong_type(node, key)
    return None


def _share(reader: Reader, node: Node, key: Key) -> int | float | None:
    value = node.value
    if (type(value) is int and value >= 0) or (type(value) is float and 0 <= value <= 1):
        return value
    reader.wrong_type(node, key)
    return None


def _pairs(reader: Reader, node: Node, key: Key) -> tuple[tuple[Name, Name], ...]:
    return tuple(reader.read_values(node, key, NAME))


def _name_map(reader: Reader, node: Node, key: Key) -> dict[str, Name]:
    return {name.text: value for name, value in _pairs(reader, node, key)}


def _mapping(reader: Reader, node: Node, key: Key) -> Any:
    """The pairs of names, or the word ``auto`` for all keys."""
    return "auto" if node.text in ("auto", "*") else _pairs(reader, node, key)


def _counts(reader: Reader, node: Node, key: Key) -> dict[str, tuple[Span | None, int]]:
    return {name.text: (name.span, count) for name, count in reader.read_values(node, key, COUNT)}


def _codes(reader: Reader, node: Node, key: Key) -> list[int] | None:
    """Exit codes."""
    codes = [item.value for item in node.items] if isinstance(node, Items) else []
    if set(map(type, codes)) == {int}:
        return codes
    reader.wrong_type(node, key)
    return None


def _command(reader: Reader, node: Node, key: Key) -> list[str] | None:
    """The words of a command, split when the graph is loaded (decision P8)."""
    text = reader.text(node, key)
    return None if text is None else reader.words(text, key.example)


def _targets(reader: Reader, node: Node, key: Key) -> list[Scalar]:
    nodes = node.items if isinstance(node, Items) else (node,)
    if not nodes:
        reader.wrong_type(node, key)
    return list(filter(None, (_node_name(reader, item, key) for item in nodes)))


def _edges(reader: Reader, node: Node, key: Key) -> Items | None:
    if isinstance(node, Fields) and all(is_text(target) for target in node.fields.values()):
        pairs = (f"{{from: {source}, to: {target.text}}}" for source, target in node.fields.items())
        reader.wrong_type(node, key, f"write {key.name}: [{', '.join(pairs)}]")
        return None
    return reader.items(node, key)


def _node_name(reader: Reader, node: Node, key: Key) -> Scalar | None:
    text = reader.text(node, key)
    return None if text is None else as_name(text)


TYPES: Mapping[str, object] = {
    "str": "",
    "string": "",
    "int": 0,
    "integer": 0,
    "float": 0.0,
    "bool": False,
    "boolean": False,
    "list": [],
    "dict": {},
    "any": None,
}
"""The types of a state key, each with the first value of a key with a reducer (any: none)."""
ADDED = ("str", "string", "int", "integer", "float", "list")
"""The types whose values the reducer ``add`` can add."""


_S_SHARE = [{"type": "integer", "minimum": 0}, {"type": "number", "minimum": 0, "maximum": 1}]
_S_TYPE: Json = {"anyOf": [{**S_TEXT, "examples": list(TYPES)}, reference("state_key")]}

SECONDS = Takes(
    "a number of seconds above 0",
    "30",
    {"type": "number", "exclusiveMinimum": 0},
    number_of(int, float, least=1e-9),  # above 0: the bound itself is allowed
)
DOLLARS = Takes(
    "a number of US dollars above 0",
    "0.5",
    {"type": "number", "exclusiveMinimum": 0},
    number_of(int, float, least=1e-9),
)
NUMBER = Takes("a number", "0.5", {"type": "number"}, number_of(int, float))
NAMES = Takes("a list of names", "[search, fetch]", S_NAMES, _names)
VALUES = Takes(
    "a mapping of names to values, with or without {state.…}",
    '{n: "{state.n + 1}"}',
    mapping_of({}),
    _values,
)
VARIABLES = Takes("a mapping of names to values", "{n: 0}", mapping_of({}), _variables)
ARGUMENTS = Takes(
    "a mapping of argument names to values, or one placeholder",
    '{path: "{state.path}"}',
    {"anyOf": [mapping_of({}), {"type": "string", "pattern": r"^\{"}]},
    _arguments,
)
TEMPLATE = Takes("a text, with or without {state.…}", '"{state.tool}"', S_NAME, _read_filled)
MESSAGE = Takes(
    "a text, with {name} and {state.name} as placeholders",
    '"Publish {text}?"',
    S_NAME,
    _read_filled,
)
PROMPT = Takes(
    "a text, a mapping with user and system, or the name of a file of one",
    '"Summarize {state.text}"',
    {"anyOf": [S_NAME, reference("prompt")]},
    read_node,
)
FIELDS = Takes(
    "a mapping with name and fields",
    "{name: Review, fields: {score: {type: int}}}",
    {"type": "object", "required": ["fields"]},
    read_node,
)
JSON_SCHEMA = Takes("a JSON Schema", "{type: object}", {"type": "object"}, read_node)
OTHER_MODEL = Takes(
    "a mapping with provider and model",
    "{provider: openai, model: gpt-4o}",
    reference("fallback"),
    Reader.mapping,
)
EXPORTS = Takes(
    "a mapping of keys to files",
    "{report: {format: markdown, filename: report.md}}",
    mapping_of(reference("export")),
    Reader.mapping,
)
NAME_PAIRS = Takes("a mapping of keys to keys", "{phase: phase}", mapping_of(S_NAME), _pairs)
CODES = Takes(
    "a list of integers",
    "[0, 1]",
    {"type": "array", "items": {"type": "integer"}, "minItems": 1},
    _codes,
)
EXPORT_FORMAT = choice("json, markdown or text", "text", "json", "markdown")
OVER = Takes(
    "one placeholder, {state.name}, or a list",
    '"{state.rows}"',
    {"anyOf": [{"type": "string", "pattern": r"^\{.+\}$"}, {"type": "array"}]},
    read_node,
)
SHARE = Takes("a count, or a share between 0.0 and 1.0", "0.8", {"anyOf": _S_SHARE}, _share)
OVERFLOW = choice("error or truncate", "error", "truncate")
ON_ERROR = choice("fail or skip", "fail", "skip")
ON_ERROR_RETRY = choice("fail, skip or retry", "fail", "skip", "retry")
ON_ERROR_ASKED = choice("fail, skip, retry or fallback", "fail", "retry", "fallback", "skip")
ROUTES = Takes(
    "a mapping of labels to nodes",
    "{good: publish, bad: revise}",
    {**mapping_of(S_NAME), "minProperties": 1},
    _name_map,
)
MAPPING = Takes(
    "a mapping of keys to keys, or auto",
    "{text: input_text}",
    {"anyOf": [{"enum": ["auto", "*"]}, mapping_of(S_NAME)]},
    _mapping,
)
MODE = choice("invoke or direct", "invoke", "direct")
NODE = Takes("one node", "{type: python, tool: score}", reference("item_node"), Reader.mapping)
ALL_NODES = Takes(
    "a mapping of names to nodes",
    '{bump: {type: passthrough, output: {n: "{state.n + 1}"}}}',
    {**mapping_of(reference("node")), "minProperties": 1},
    Reader.mapping,
)
EDGES = Takes(
    "a list of edges",
    "[{from: START, to: bump}, {from: bump, to: END}]",
    {"type": "array", "items": reference("edge"), "minItems": 1},
    _edges,
)
STATE = Takes(
    "a mapping of keys to types",
    "{n: int, log: {type: list, reducer: add}}",
    mapping_of(_S_TYPE),
    Reader.mapping,
)
TOOLS = Takes(
    "a mapping of names to tools",
    "{score: {type: python, path: tools.py, function: score}}",
    mapping_of(reference("tool_of_the_graph")),
    Reader.mapping,
)
LIMITS = Takes("a mapping of limits", "{recursion_limit: 100}", reference("config"), Reader.mapping)
NODE_DEFAULTS = Takes(
    "a mapping of defaults", "{on_error: skip}", reference("defaults"), Reader.mapping
)
LOOP_LIMITS = Takes(
    "a mapping of nodes to counts", "{revise: 3}", mapping_of(COUNT.schema), _counts
)
LOOP_EXITS = Takes(
    "a mapping of nodes to nodes", "{revise: publish}", mapping_of(S_NAME), _name_map
)
COMMAND = Takes("a text: a program and its arguments", '"ls -l"', S_NAME, _command)
PARSE = choice("text, json or none", "text", "none", "json")
TOOL_TYPE = choice("python or shell", "shell", "python")
EDGE_TYPE = choice("conditional", "conditional")
SOURCE = Takes("a node, or START", "START", S_NAME, _node_name)
TARGETS = Takes(
    "a node, END, or a list of nodes",
    "END",
    {"anyOf": [S_NAME, {**S_NAMES, "minItems": 1}]},
    _targets,
)
CONDITION = Takes("a condition, or else", '"score < 0.8"', S_NAME, Reader.text)
