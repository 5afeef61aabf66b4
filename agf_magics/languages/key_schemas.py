"""Builds the JSON Schema of a mapping from the table of its keys (keys.py), for every language.

A language puts these schemas together, as the ``$defs`` of one schema for its documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .keys import Key, MappingSpec

Json = dict[str, Any]

S_TEXT: Final[Json] = {"type": "string"}
S_NAME: Final[Json] = {"type": "string", "pattern": r"\S"}
S_NAMES: Final[Json] = {"type": "array", "items": S_NAME}


def mapping_of(values: Mapping[str, Any]) -> Json:
    """The JSON Schema of a mapping with any keys. ``values``: the JSON Schema of each value."""
    return {"type": "object", "additionalProperties": values}


def reference(name: str) -> Json:
    """The JSON Schema that refers to the definition ``name`` of the language."""
    return {"$ref": f"#/$defs/{name}"}


def mapping_schema(spec: MappingSpec) -> Json:
    """The JSON Schema of a mapping with the keys of ``spec``. With a prefix, keys that begin with
    another letter are arguments of a call, which may have any value."""
    required = [key.name for key in spec.keys.values() if key.required]
    return {
        "description": spec.doc,
        "type": "object",
        "properties": {key.name: _key_schema(key) for key in spec.keys.values()},
        **({"patternProperties": {f"^[^{spec.prefix}]": {}}} if spec.prefix else {}),
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _key_schema(key: Key) -> Json:
    shape = key.takes.schema
    if key.null:
        shape = {"anyOf": [shape, {"type": "null"}]}
    return {**shape, "description": f"{key.doc} Takes {key.takes.says}.".strip()}
