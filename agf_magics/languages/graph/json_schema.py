"""Builds the JSON Schema of a graph document from the table of its keys."""

from __future__ import annotations

from collections.abc import Collection

from ..key_schemas import Json, mapping_schema
from ..keys import MappingSpec
from .takes import TYPES
from .words import (
    CONFIG,
    DEFAULTS,
    EDGE,
    EXPORT,
    FALLBACK,
    GRAPH,
    IN_A_MAP,
    NODES,
    PROMPT_FILE,
    REDUCERS,
    STATE_KEY,
    TOOL,
)


def document_schema() -> Json:
    """The schema of a graph."""
    kinds = (EDGE, TOOL, STATE_KEY, CONFIG, DEFAULTS, PROMPT_FILE, FALLBACK, EXPORT)
    defs = {kind.name.replace(" ", "_"): mapping_schema(kind) for kind in kinds}
    del defs["prompt"]["additionalProperties"]  # another key only gives a warning
    block = {"type": "object"}  # only gives a warning too
    defs["prompt"]["properties"]["model"] = {
        "anyOf": [defs["prompt"]["properties"]["model"], block]
    }
    defs["state_key"]["properties"]["reducer"]["enum"] = list(REDUCERS)
    defs["state_key"]["properties"]["type"]["examples"] = list(
        TYPES
    )  # another type only gives a warning
    nodes = {name: _node(kind) for name, kind in NODES.items()}
    whole = mapping_schema(GRAPH)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A graph",
        **whole,
        "$defs": {
            **defs,
            "node": _one_of(NODES),
            "item_node": _one_of(IN_A_MAP),
            **nodes,
        },
    }


def _one_of(names: Collection[str]) -> Json:
    return {"oneOf": [{"$ref": f"#/$defs/{name}"} for name in names]}


def _node(kind: MappingSpec) -> Json:
    schema = mapping_schema(kind)
    schema["properties"]["type"] = {"const": kind.name, "description": kind.keys["type"].doc}
    if kind.name != "llm":
        schema["required"] = ["type", *schema.get("required", ())]
    return schema
