"""Finds the keys and values that a place in a document may have, in the JSON Schema of its
language.

The walk follows the path of the cursor down the schema. Keys that are already written select one of
several kinds of mapping, as ``type: map`` or ``id: agf.loop`` does. Nothing is validated, so the
document may be incomplete.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ..schemas.sample import resolve_pointer
from .cursor import ELEMENT, Cursor

Schema = Mapping[str, Any]
Near = Mapping[str, str]
"""The keys of a mapping, with the values that are on one line."""


def keys_at(root: Schema, cursor: Cursor) -> dict[str, str]:
    """The keys that a mapping at ``cursor`` may have, each with its description; empty if the schema
    has none."""
    keys: dict[str, str] = {}
    for schema in _at(root, cursor):
        excluded = _excluded(schema, cursor.near)
        for name, inner in schema.get("properties", {}).items():
            if name not in excluded:
                keys[name] = keys.get(name) or _description(root, inner)
    return keys


def _excluded(schema: Schema, near: Near) -> Collection[str]:
    """The keys of which a mapping has one, as the kinds of a step, if it has one."""
    one_of = [name for shape in schema.get("oneOf", ()) for name in shape.get("required", ())]
    return () if near.keys().isdisjoint(one_of) else one_of


def describe_value(root: Schema, cursor: Cursor, value: str) -> str:
    """The description of the shape that ``value``, at ``cursor``, selects: a kind of node, a policy;
    empty if none."""
    key = cursor.path[-1] if cursor.path else ""
    for schema in _at(root, cursor, up=1):
        if _constants(schema).get(key) == value:
            return _description(root, schema)
        if _constants(schema.get("if", {})).get(key) == value:
            shape = schema["then"]
            descriptions = [
                _description(root, other) for other in shape.get("properties", {}).values()
            ]
            return next(filter(None, [_description(root, shape), *descriptions]), "")
    return ""


def _description(root: Schema, schema: Schema) -> str:
    """The description of a schema, else of that to which it refers."""
    referred = resolve_pointer(root, schema["$ref"]) if "$ref" in schema else {}
    return str(schema.get("description") or referred.get("description", ""))


def values_at(root: Schema, cursor: Cursor) -> list[str]:
    """The literal values that ``cursor`` may have."""
    values: dict[str, None] = {}
    for schema in _at(root, cursor):
        listed = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
        listed += schema.get("examples", ())
        listed += [True, False] if schema.get("type") == "boolean" else []
        values |= dict.fromkeys(_written(value) for value in listed)
    key = cursor.path[-1] if cursor.path else ""
    for schema in _at(root, cursor, up=1):  # values that select a shape of the mapping
        values |= dict.fromkeys(filter(None, [_constants(schema.get("if", {})).get(key)]))
    return list(values)


def _at(root: Schema, cursor: Cursor, up: int = 0) -> list[Schema]:
    """The schemas that apply to the value at ``cursor``, or ``up`` levels above it."""
    path = cursor.path[: len(cursor.path) - up]
    mappings = list(reversed(cursor.around))
    """The outermost first."""
    current: list[Schema] = [root]
    for place, part in enumerate((*path, None)):
        in_mapping = (
            (cursor.path[place] != ELEMENT) if place < len(cursor.path) else cursor.part == "key"
        )
        near = mappings.pop(0) if in_mapping and mappings else {}
        current = list(_all(root, current, near))
        if part is not None:
            current = [inner for schema in current for inner in _under(schema, part)]
    return current


def _all(root: Schema, schemas: Sequence[Schema], near: Near) -> Iterator[Schema]:
    """Each schema with the schemas that it refers to and combines, if they fit the written keys."""
    queue = list(schemas)
    while queue:
        schema = queue.pop(0)
        if not isinstance(schema, Mapping):  # `additionalProperties: false`
            continue
        yield schema
        if "$ref" in schema:
            queue.append(resolve_pointer(root, schema["$ref"]))
        queue += schema.get("allOf", ())
        for several in ("anyOf", "oneOf"):
            queue += _likely(root, schema.get(several, ()), near)
        if "if" in schema and _holds(schema["if"], near):
            queue.append(schema["then"])


def _likely(root: Schema, choices: Sequence[Schema], near: Near) -> list[Schema]:
    """The shapes that have most of the written keys and refuse none of the written values."""
    counted: list[tuple[int, Schema]] = []
    for choice in choices:
        parts = list(_all(root, [choice], near))
        names = {name for part in parts for name in part.get("properties", ())}
        if all(_fits(part, near) for part in parts):
            counted.append((len(names & near.keys()), choice))
    best = max((count for count, _ in counted), default=0)
    return [choice for count, choice in counted if count == best]


def _constants(schema: Schema) -> dict[str, str]:
    """The keys that have a constant value in a shape, or in the ``if`` of one."""
    properties = schema.get("properties", {}).items()
    return {name: _written(inner["const"]) for name, inner in properties if "const" in inner}


def _fits(schema: Schema, near: Near) -> bool:
    """Whether every written value equals the constant of this shape, if it has one."""
    return all(near.get(name) in (None, "", value) for name, value in _constants(schema).items())


def _holds(condition: Schema, near: Near) -> bool:
    """Whether the ``if`` of a schema is true of the written keys."""
    return all(near.get(name) == value for name, value in _constants(condition).items())


def _under(schema: Schema, part: str) -> Iterator[Any]:
    """The schema for the value of a key, or for an element: a schema, None, or false."""
    if part == ELEMENT:
        yield schema.get("items")
    else:
        yield schema.get("properties", {}).get(part, schema.get("additionalProperties"))


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
