"""The kinds of value that a key may take: one row each with its phrase, example, JSON Schema and reader."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...flow.frame import Expr
from ...flow.steps import Name
from ...text.diagnostics import suggest
from ...text.source import Span
from ...text.yamlnodes import Fields, Items, Node, Scalar, plain
from .reading import Reader, example
from .value import Expression
from .value_grammar import Sentence


class Key(NamedTuple):
    """A key of a mapping."""

    name: str
    takes: Takes
    doc: str
    required: bool = False


Read = Callable[[Reader, Node, Key], Any]


class Takes(NamedTuple):
    """A kind of value."""

    says: str
    example: str
    schema: dict[str, Any]
    read: Read


def _name(reader: Reader, node: Node, key: Key) -> Name | None:
    name = _text(reader, node, key)
    if name is not None and not name.text.strip():
        reader.error("graph.blank-name", f"{key.name!r} is blank", node.span, example(key))
        return None
    return name


def _text(reader: Reader, node: Node, key: Key) -> Name | None:
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return Name(node.text, node.span)
    reader.wrong_type(node, key)
    return None


def _of(*types: type, least: float | None = None) -> Read:
    def read(reader: Reader, node: Node, key: Key) -> Any:
        if not isinstance(node, Scalar) or type(node.value) not in types:
            reader.wrong_type(node, key)
            return None
        if least is not None and not node.value >= least:
            message = f"{key.name!r} must be {key.takes.says}, got {node.text}"
            reader.error("graph.count", message, node.span, example(key))
            return None
        return node.value

    return read


def _choice(*words: str) -> Read:
    def read(reader: Reader, node: Node, key: Key) -> str | None:
        if isinstance(node, Scalar) and node.text in words:
            return node.text
        reader.wrong_type(node, key, suggest(node.text, words) if isinstance(node, Scalar) else None)
        return None

    return read


def _names(reader: Reader, node: Node, key: Key) -> tuple[Name, ...]:
    if not isinstance(node, Items):
        reader.wrong_type(node, key)
        return ()
    found = [_name(reader, item, key) for item in node.items]
    return tuple({name.text: name for name in found if name is not None}.values())


def _values(reader: Reader, node: Node, key: Key) -> tuple[tuple[Name, Expr], ...]:
    return tuple((name, reader.value(value)) for name, value in reader.entries(reader.mapping(node, key)))


def _arguments(reader: Reader, node: Node, key: Key) -> Any:
    if isinstance(node, Scalar) and isinstance(node.value, str):
        whole = reader.template(node)
        if isinstance(whole, Expression) and not isinstance(whole.node, Sentence):
            return whole
    if isinstance(node, Fields):
        return _values(reader, node, key)
    reader.wrong_type(node, key)
    return None


def _template(reader: Reader, node: Node, key: Key) -> Expr | None:
    if isinstance(node, Scalar) and isinstance(node.value, str) and node.text.strip():
        return reader.template(node)
    reader.wrong_type(node, key)
    return None


def _share(reader: Reader, node: Node, key: Key) -> int | float | None:
    value = node.value if isinstance(node, Scalar) else None
    if (type(value) is int and value >= 0) or (type(value) is float and 0 <= value <= 1):
        return value
    reader.wrong_type(node, key)
    return None


def _pairs(reader: Reader, node: Node, key: Key) -> tuple[tuple[Name, Name], ...]:
    read = [
        (name, _name(reader, value, Key(name.text, NAME, "")))
        for name, value in reader.entries(reader.mapping(node, key))
    ]
    return tuple((name, value) for name, value in read if value is not None)


def _name_map(reader: Reader, node: Node, key: Key) -> dict[str, Name]:
    return {name.text: value for name, value in _pairs(reader, node, key)}


def _mapping(reader: Reader, node: Node, key: Key) -> Any:
    return "auto" if isinstance(node, Scalar) and node.text in ("auto", "*") else _pairs(reader, node, key)


def _counts(reader: Reader, node: Node, key: Key) -> dict[str, tuple[Span | None, int]]:
    entries = reader.entries(reader.mapping(node, key))
    read = [(name, COUNT.read(reader, value, Key(name.text, COUNT, ""))) for name, value in entries]
    return {name.text: (name.span, count) for name, count in read if count is not None}


def _codes(reader: Reader, node: Node, key: Key) -> tuple[int, ...] | None:
    """Exit codes."""
    codes = [item.value for item in node.items if isinstance(item, Scalar)] if isinstance(node, Items) else []
    if not isinstance(node, Items) or not codes or [type(code) for code in codes] != [int] * len(node.items):
        reader.wrong_type(node, key)
        return None
    return tuple(codes)


def _command(reader: Reader, node: Node, key: Key) -> Any:
    """The words of a command, split when the graph is loaded (decision P8)."""
    text = _text(reader, node, key)
    if text is None:
        return None
    try:
        words = shlex.split(text.text)
    except ValueError as error:
        reader.error("graph.command", f"cannot split the command: {str(error).lower()}", node.span, example(key))
        return None
    if not words:
        reader.error("graph.command", "the command is empty", node.span, example(key))
    return tuple(words) or None


def _node(reader: Reader, node: Node, key: Key) -> Node:
    return node


def _fields(reader: Reader, node: Node, key: Key) -> Fields | None:
    return reader.mapping(node, key)


def _items(reader: Reader, node: Node, key: Key) -> Items | None:
    if isinstance(node, Items):
        return node
    reader.wrong_type(node, key)
    return None


TYPES: Mapping[str, object] = {
    "str": "", "string": "", "int": 0, "integer": 0, "float": 0.0, "bool": False, "boolean": False,
    "list": [], "dict": {}, "any": None,
}  # fmt: skip
"""The types of a state key, each with the first value of a key with a reducer (any: none)."""


def _by_name(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


_S_TEXT: dict[str, Any] = {"type": "string"}
_S_NAME: dict[str, Any] = {"type": "string", "pattern": r"\S"}
_S_NAMES: dict[str, Any] = {"type": "array", "items": _S_NAME}
_S_COUNT: dict[str, Any] = {"type": "integer", "minimum": 1}
_S_SHARE = [{"type": "integer", "minimum": 0}, {"type": "number", "minimum": 0, "maximum": 1}]
_S_TYPE: dict[str, Any] = {"anyOf": [{**_S_TEXT, "examples": list(TYPES)}, _ref("state_key")]}


def _words(says: str, *words: str) -> Takes:
    return Takes(says, words[-1], {"enum": list(words)}, _choice(*words))


NAME = Takes("a name", "review", _S_NAME, _name)
TEXT = Takes("a text", "what it is for", _S_TEXT, _text)
ANYTHING = Takes("any value", "1", {}, lambda reader, node, key: plain(node))
FLAG = Takes("true or false", "true", {"type": "boolean"}, _of(bool))
COUNT = Takes("an integer, at least 1", "4", _S_COUNT, _of(int, least=1))
SECONDS = Takes("a number of seconds above 0", "30", {"type": "number", "exclusiveMinimum": 0},
                _of(int, float, least=1e-9))  # fmt: skip
NUMBER = Takes("a number", "0.5", {"type": "number"}, _of(int, float))
NAMES = Takes("a list of names", "[search, fetch]", _S_NAMES, _names)
VALUES = Takes("a mapping of names to values, with or without {state.…}", '{n: "{state.n + 1}"}', _by_name({}), _values)
ARGUMENTS = Takes("a mapping of argument names to values, or one placeholder", '{path: "{state.path}"}',
                  {"anyOf": [_by_name({}), {"type": "string", "pattern": r"^\{"}]}, _arguments)  # fmt: skip
TEMPLATE = Takes("a text, with or without {state.…}", '"{state.tool}"', _S_NAME, _template)
MESSAGE = Takes("a text, with {name} and {state.name} as placeholders", '"Publish {text}?"', _S_NAME, _node)
PROMPT = Takes("a text, a mapping with user and system, or the name of a file of one", '"Summarize {state.text}"',
               {"anyOf": [_S_NAME, _ref("prompt")]}, _node)  # fmt: skip
FIELDS = Takes("a mapping with name and fields", "{name: Review, fields: {score: {type: int}}}",
               {"type": "object", "required": ["fields"]}, _node)  # fmt: skip
JSON_SCHEMA = Takes("a JSON Schema", "{type: object}", {"type": "object"}, _node)
FALLBACK = Takes("a mapping with provider and model", "{provider: openai, model: gpt-4o}", _ref("fallback"), _fields)
EXPORTS = Takes("a mapping of keys to files", "{report: {format: markdown, filename: report.md}}",
                _by_name(_ref("export")), _fields)  # fmt: skip
NAME_PAIRS = Takes("a mapping of keys to keys", "{phase: phase}", _by_name(_S_NAME), _pairs)
CODES = Takes("a list of integers", "[0, 1]", {"type": "array", "items": {"type": "integer"}, "minItems": 1}, _codes)
EXPORT_FORMAT = _words("json, markdown or text", "text", "json", "markdown")
OVER = Takes("one placeholder, {state.name}, or a list", '"{state.rows}"',
             {"anyOf": [{"type": "string", "pattern": r"^\{.+\}$"}, {"type": "array"}]}, _node)  # fmt: skip
SHARE = Takes("a count, or a share between 0.0 and 1.0", "0.8", {"anyOf": _S_SHARE}, _share)
OVERFLOW = _words("error or truncate", "error", "truncate")
ON_ERROR = _words("fail or skip", "fail", "skip")
ON_ERROR_RETRY = _words("fail, skip or retry", "fail", "skip", "retry")
ON_ERROR_ASKED = _words("fail, skip, retry or fallback", "fail", "retry", "fallback", "skip")
ROUTES = Takes("a mapping of labels to nodes", "{good: publish, bad: revise}",
               {**_by_name(_S_NAME), "minProperties": 1}, _name_map)  # fmt: skip
MAPPING = Takes("a mapping of keys to keys, or auto", "{text: input_text}",
                {"anyOf": [{"enum": ["auto", "*"]}, _by_name(_S_NAME)]}, _mapping)  # fmt: skip
MODE = _words("invoke or direct", "invoke", "direct")
NODE = Takes("one node", "{type: python, tool: score}", _ref("item_node"), _fields)
ALL_NODES = Takes("a mapping of names to nodes", '{bump: {type: passthrough, output: {n: "{state.n + 1}"}}}',
                  {**_by_name(_ref("node")), "minProperties": 1}, _fields)  # fmt: skip
EDGES = Takes("a list of edges", "[{from: START, to: bump}, {from: bump, to: END}]",
              {"type": "array", "items": _ref("edge"), "minItems": 1}, _items)  # fmt: skip
STATE = Takes("a mapping of keys to types", "{n: int, log: {type: list, reducer: add}}", _by_name(_S_TYPE), _fields)
TOOLS = Takes("a mapping of names to tools", "{score: {type: python, path: tools.py, function: score}}",
              _by_name(_ref("tool_of_the_graph")), _fields)  # fmt: skip
LIMITS = Takes("a mapping of limits", "{recursion_limit: 100}", _ref("config"), _fields)
NODE_DEFAULTS = Takes("a mapping of defaults", "{on_error: skip}", _ref("defaults"), _fields)
LOOP_LIMITS = Takes("a mapping of nodes to counts", "{revise: 3}", _by_name(_S_COUNT), _counts)
LOOP_EXITS = Takes("a mapping of nodes to nodes", "{revise: publish}", _by_name(_S_NAME), _name_map)
COMMAND = Takes("a text: a program and its arguments", '"ls -l"', _S_NAME, _command)
PARSE = _words("text, json or none", "text", "none", "json")
TOOL_TYPE = _words("python or shell", "shell", "python")
EDGE_TYPE = Takes("conditional", "conditional", {"const": "conditional"}, _choice("conditional"))
SOURCE = Takes("a node, or START", "START", _S_NAME, _node)
TARGETS = Takes("a node, END, or a list of nodes", "END", {"anyOf": [_S_NAME, {**_S_NAMES, "minItems": 1}]}, _node)
CONDITION = Takes("a condition, or else", '"score < 0.8"', _S_NAME, _node)
