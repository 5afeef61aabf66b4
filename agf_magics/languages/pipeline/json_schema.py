"""The pipeline language as a JSON Schema (Draft 2020-12), for editors, made from the tables of the loader.

``python -m agf_magics.languages.pipeline.json_schema`` prints it. It describes one document of a definition; it cannot
describe expressions and !expr.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .schema_documents import FIELD_KEYS
from .words import DOCUMENTS, FIELD_TYPES, STEPS, TARGET, Key, Kind

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_NAME: Json = {"type": "string", "pattern": r"\S"}
_STEP: Json = {"$ref": "#/$defs/step"}
_TARGET: Json = {"$ref": "#/$defs/target"}
_NAMES: Json = {"type": "array", "items": _NAME}

KEY_SHAPES: Mapping[str, Json] = {
    "name": _NAME,
    "text": _TEXT,
    "expression": {"type": "string", "pattern": r"\S"},
    "template": _TEXT,
    "arguments": {"type": "object"},
    "command": {"anyOf": [_NAME, {"type": "array", "items": _TEXT, "minItems": 1}]},
    "tools": {"type": "object", "properties": {"tools": _NAMES}, "required": ["tools"], "additionalProperties": False},
    "pass": {"anyOf": [_NAMES, {"type": "object", "additionalProperties": _TEXT}]},
    "literals": {"type": "array"},
    "count": {"type": "integer", "minimum": 1},
    "on_error": {"type": "string", "pattern": r"^(abort|continue|retry\([0-9]{1,9}\))$"},
    "step": _STEP,
    "steps": {"type": "array", "items": _STEP, "minItems": 1},
    "branches": {"type": "object", "additionalProperties": _STEP, "minProperties": 1, "propertyNames": _NAME},
    "target": _TARGET,
    "cases": {"type": "object", "additionalProperties": _TARGET, "minProperties": 1},
    "fields": {"$ref": "#/$defs/fields"},
}
"""The shape of each kind of value."""

FIELD_SHAPES: Mapping[str, Json] = {
    "minimum": {"type": "number"},
    "maximum": {"type": "number"},
    "values": {"type": "array", "minItems": 1},
    "of": {"$ref": "#/$defs/type", "properties": {"type": {"not": {"const": "list"}}}},
    "fields": {"$ref": "#/$defs/fields"},
    "schema": _NAME,
}


def document_schema() -> Json:
    """The schema of one document."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A document of a pipeline definition",
        "oneOf": [{"$ref": f"#/$defs/{name}_document"} for name in DOCUMENTS],
        "$defs": {
            **{f"{name}_document": _mapping(kind) for name, kind in DOCUMENTS.items()},
            "step": {
                "description": "One step: its kind, and under it the kind's keys.",
                "type": "object",
                "properties": {name: {"$ref": f"#/$defs/{name}"} for name in STEPS},
                "additionalProperties": False,
                "minProperties": 1,
                "maxProperties": 1,
            },
            **{name: _mapping(kind) for name, kind in STEPS.items()},
            "target": _mapping(TARGET),
            "fields": {"type": "object", "additionalProperties": {"$ref": "#/$defs/type"}, "minProperties": 1},
            "type": {"oneOf": [_field_type(name, needs) for name, needs in FIELD_KEYS.items()]},
        },
    }


def _mapping(kind: Kind) -> Json:
    schema: Json = {
        "description": kind.doc,
        "type": "object",
        "properties": {name: _value(key) for name, key in kind.keys.items()},
        "required": [name for name, key in kind.keys.items() if key.required],
        "additionalProperties": False,
    }
    if "over" in kind.keys and "items" in kind.keys:
        schema["not"] = {"required": ["over", "items"]}
    return schema


def _value(key: Key) -> Json:
    shape = KEY_SHAPES[key.takes]
    if key.null and not key.required:
        shape = {"anyOf": [shape, {"type": "null"}]}
    return {"description": f"{key.doc} Takes {key.says}.", **shape}


def _field_type(name: str, needs: Mapping[str, str]) -> Json:
    return {
        "description": FIELD_TYPES[name],
        "type": "object",
        "properties": {
            "type": {"const": name},
            "required": {"type": "boolean"},
            **{key: FIELD_SHAPES[key] for key in needs},
        },
        "required": ["type", *(key for key, need in needs.items() if need == "must")],
        "additionalProperties": False,
    }


if __name__ == "__main__":
    print(json.dumps(document_schema(), indent=2))
