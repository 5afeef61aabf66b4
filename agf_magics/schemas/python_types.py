"""Converts a JSON Schema to a Python annotation, for the signature of a flow that is used as a
tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Union


def type_of(schema: Any, whole: Mapping[str, Any], deep: int = 0) -> Any:
    """The Python type for ``schema``; Any if Python has no such type. ``whole``: the schema with
    the definitions to which ``schema`` refers. ``deep``: the level of ``schema`` in ``whole``."""
    if not isinstance(schema, Mapping) or deep > DEEPEST:
        return Any
    if isinstance(schema.get("$ref"), str):
        named = whole.get("$defs", {}).get(schema["$ref"].removeprefix("#/$defs/"))
        return type_of(named, whole, deep + 1)
    if "const" in schema or "enum" in schema:
        values = tuple(schema.get("enum", [schema.get("const")]))
        plain = all(type(constant) in (str, int, bool, type(None)) for constant in values)
        return Literal[values] if values and plain else Any
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _either([type_of(member, whole, deep + 1) for member in schema[several]])
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return _either([type_of({**schema, "type": kind}, whole, deep + 1) for kind in kinds])
    if kinds == "array":
        return list[type_of(schema.get("items"), whole, deep + 1)]  # type: ignore[misc]
    return TYPES.get(str(kinds), Any)


def _either(types: list[Any]) -> Any:
    return Any if Any in types or not types else Union[tuple(types)]  # noqa: UP007  # dynamic


TYPES = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "object": dict[str, Any],
    "null": None,
}
"""The Python types for the types of JSON Schema, except arrays."""
DEEPEST = 20
"""The number of levels of a schema that are converted."""
