"""The graph language as a JSON Schema (Draft 2020-12), for editors: made from the tables that the loader reads by.

What an expression may say, and whether an edge leads to a node there is, is more than a JSON Schema can tell.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from .words import CONFIG, DEFAULTS, EDGE, GRAPH, NODES, NOT_IN_A_MAP, REDUCERS, STATE_KEY, TOOL, TYPES, Key, Kind

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_NAME: Json = {"type": "string", "pattern": r"\S"}
_NAMES: Json = {"type": "array", "items": _NAME}
_COUNT: Json = {"type": "integer", "minimum": 1}


def _by_name(values: Json) -> Json:
    return {"type": "object", "additionalProperties": values}


SHAPES: Mapping[str, Json] = {
    "name": _NAME,
    "text": _TEXT,
    "anything": {},
    "flag": {"type": "boolean"},
    "count": _COUNT,
    "seconds": {"type": "number", "exclusiveMinimum": 0},
    "number": {"type": "number"},
    "names": _NAMES,
    "values": _by_name({}),
    "arguments": {"anyOf": [_by_name({}), {"type": "string", "pattern": r"^\{"}]},
    "template": _NAME,
    "prompt": {
        "anyOf": [_NAME, {"type": "object", "properties": {"user": _TEXT, "system": _TEXT}, "required": ["user"]}]
    },
    "over": {"anyOf": [{"type": "string", "pattern": r"^\{.+\}$"}, {"type": "array"}]},
    "share": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "number", "minimum": 0, "maximum": 1}]},
    "overflow": {"enum": ["error", "truncate"]},
    "on_error": {"enum": ["fail", "skip"]},
    "retries": {"enum": ["fail", "skip", "retry"]},
    "routes": {**_by_name(_NAME), "minProperties": 1},
    "mapping": {"anyOf": [{"enum": ["auto", "*"]}, _by_name(_NAME)]},
    "mode": {"enum": ["invoke", "direct"]},
    "node": {"$ref": "#/$defs/item_node"},
    "nodes": {**_by_name({"$ref": "#/$defs/node"}), "minProperties": 1},
    "edges": {"type": "array", "items": {"$ref": "#/$defs/edge"}, "minItems": 1},
    "state": _by_name({"anyOf": [{**_TEXT, "examples": list(TYPES)}, {"$ref": "#/$defs/state_key"}]}),
    "tools": _by_name({"$ref": "#/$defs/tool_of_the_graph"}),
    "config": {"$ref": "#/$defs/config"},
    "defaults": {"$ref": "#/$defs/defaults"},
    "limits": _by_name(_COUNT),
    "exits": _by_name(_NAME),
    "command": _NAME,
    "parse": {"enum": ["text", "json", "none"]},
    "tool_type": {"enum": ["python", "shell"]},
    "edge_type": {"const": "conditional"},
    "source": _NAME,
    "targets": {"anyOf": [_NAME, {**_NAMES, "minItems": 1}]},
    "condition": _NAME,
}
"""What each kind of value looks like."""


def document_schema() -> Json:
    """The schema of a graph."""
    kinds = (EDGE, TOOL, STATE_KEY, CONFIG, DEFAULTS)
    defs = {kind.name.replace(" ", "_"): _mapping(kind) for kind in kinds}
    defs["state_key"]["properties"]["reducer"]["enum"] = list(REDUCERS)
    defs["state_key"]["properties"]["type"]["examples"] = list(TYPES)  # another one is only warned about
    nodes = {name: _node(kind) for name, kind in NODES.items()}
    whole = _mapping(GRAPH)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A graph",
        **whole,
        "$defs": {**defs, "node": _one_of(NODES), "item_node": _one_of(NODES.keys() - NOT_IN_A_MAP), **nodes},
    }


def _one_of(names: Collection[str]) -> Json:
    return {"oneOf": [{"$ref": f"#/$defs/{name}"} for name in NODES if name in names]}


def _node(kind: Kind) -> Json:
    made = _mapping(kind)
    made["properties"]["type"] = {"const": kind.name, "description": kind.keys["type"].doc}
    if kind.name != "llm":
        made["required"] = ["type", *made.get("required", ())]
    return made


def _mapping(kind: Kind) -> Json:
    required = [key.name for key in kind.keys.values() if key.required]
    return {
        "description": kind.doc,
        "type": "object",
        "properties": {key.name: _value(key) for key in kind.keys.values()},
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def _value(key: Key) -> Json:
    return {**SHAPES[key.takes], "description": key.doc}
