"""The keys and values that a place in a document may have, from the JSON Schema of its language.

The walk follows the path of the cursor down the schema and compares the keys that are already
written: ``type: map`` or ``id: agf.loop`` selects one of several shapes of a mapping. Nothing is
validated, so the document may be incomplete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..flow.patterns import searcher
from .cursor import ELEMENT, Cursor

Schema = Mapping[str, Any]
Near = Mapping[str, str]
"""The keys of a mapping, with the values that are on one line."""

_MOST_SCHEMAS = 200
"""Schemas visited for one place: they may refer to each other in a cycle."""


def keys_at(root: Schema, spot: Cursor) -> dict[str, str]:
    """The keys that a mapping at ``spot`` may have, each with its description; empty if the schema
    has none."""
    found: dict[str, str] = {}
    for schema in _at(root, spot):
        for name, inner in schema.get("properties", {}).items():
            found[name] = found.get(name) or (
                _description(root, inner) if isinstance(inner, Mapping) else ""
            )
    return found


def describe_value(root: Schema, spot: Cursor, value: str) -> str:
    """The description of the shape that ``value``, at ``spot``, selects: a kind of node, a policy;
    empty if none."""
    key = spot.path[-1] if spot.path else ""
    for schema in _at(root, spot, up=1):
        inner = schema.get("properties", {}).get(key)
        if isinstance(inner, Mapping) and inner.get("const") == value:
            return _description(root, schema)
        if value in _decides(schema, key):
            shape = schema.get("then", {})
            others = [_description(root, other) for other in shape.get("properties", {}).values()]
            return next(filter(None, [_description(root, shape), *others]), "")
    return ""


def _description(root: Schema, schema: Schema) -> str:
    """The description of a schema, else of that to which it refers."""
    found = schema.get("description") or _referred(root, str(schema.get("$ref", ""))).get(
        "description"
    )
    return str(found or "")


def values_at(root: Schema, spot: Cursor) -> list[str]:
    """The literal values that ``spot`` may have."""
    found: dict[str, None] = {}
    for schema in _at(root, spot):
        listed = [
            *schema.get("enum", ()),
            *schema.get("examples", ()),
            *([schema["const"]] if "const" in schema else ()),
        ]
        listed += [True, False] if schema.get("type") == "boolean" else []
        found |= dict.fromkeys(_written(value) for value in listed)
    for schema in _at(root, spot, up=1):  # values that select a shape of the mapping
        found |= dict.fromkeys(_decides(schema, spot.path[-1] if spot.path else ""))
    return list(found)


def _at(root: Schema, spot: Cursor, up: int = 0) -> list[Schema]:
    """The schemas that apply to the value at ``spot``, or ``up`` levels above it."""
    path = spot.path[: len(spot.path) - up]
    mappings = list(reversed(spot.around))
    """The outermost first."""
    current: list[Schema] = [root]
    for place, part in enumerate((*path, None)):
        in_mapping = (spot.path[place] != ELEMENT) if place < len(spot.path) else spot.part == "key"
        near = mappings.pop(0) if in_mapping and mappings else {}
        current = list(_all(root, current, near))
        if part is not None:
            current = [inner for schema in current for inner in _under(schema, part)]
    return current


def _all(root: Schema, schemas: Sequence[Schema], near: Near) -> Iterator[Schema]:
    """Each schema with the schemas that it refers to and combines, if they fit the written keys."""
    queue, seen = list(schemas), 0
    while queue and seen < _MOST_SCHEMAS:
        schema = queue.pop(0)
        seen += 1
        if not isinstance(schema, Mapping):
            continue
        yield schema
        if "$ref" in schema:
            queue.append(_referred(root, schema["$ref"]))
        queue += schema.get("allOf", ())
        for several in ("anyOf", "oneOf"):
            queue += _likely(root, schema.get(several, ()), near)
        if "if" in schema:
            queue.append(schema.get("then" if _holds(schema["if"], near) else "else", {}))


def _referred(root: Schema, to: str) -> Schema:
    found: Any = root
    for part in to.removeprefix("#/").split("/") if to.startswith("#/") else ():
        found = found.get(part, {}) if isinstance(found, Mapping) else {}
    return found if isinstance(found, Mapping) and to.startswith("#/") else {}


def _likely(root: Schema, choices: Sequence[Schema], near: Near) -> list[Schema]:
    """The shapes that have most of the written keys and refuse none of the written values."""
    known: list[tuple[int, Schema]] = []
    for choice in choices:
        parts = list(_all(root, [choice], near)) if isinstance(choice, Mapping) else []
        named = {name for part in parts for name in part.get("properties", ())}
        if all(_fits(part, near) for part in parts):
            known.append((len(named & near.keys()), choice))
    best = max((count for count, _ in known), default=0)
    return [choice for count, choice in known if count == best]


def _fits(schema: Schema, near: Near) -> bool:
    """Whether every written value equals the constant of this shape, if it has one."""
    for name, inner in schema.get("properties", {}).items():
        written = near.get(name)
        if (
            written
            and isinstance(inner, Mapping)
            and "const" in inner
            and written != _written(inner["const"])
        ):
            return False
    return True


def _holds(condition: Schema, near: Near) -> bool:
    """Whether the ``if`` of a schema is true of the written keys."""
    for name, inner in condition.get("properties", {}).items():
        written = near.get(name)
        if written is None:
            continue
        wanted = [inner["const"]] if "const" in inner else inner.get("enum")
        if wanted is not None and written not in map(_written, wanted):
            return False
        if "pattern" in inner and not searcher(inner["pattern"])(written):
            return False
    return all(name in near for name in condition.get("required", ()))


def _decides(schema: Schema, name: str) -> Iterator[str]:
    """The values of a key that select the shape of its mapping."""
    inner = schema.get("if", {}).get("properties", {}).get(name, {})
    yield from (
        _written(value)
        for value in [*inner.get("enum", ()), *([inner["const"]] if "const" in inner else ())]
    )


def _under(schema: Schema, part: str) -> Iterator[Schema]:
    """The schemas of the value of a key, or of an element."""
    if part == ELEMENT:
        found = schema.get("items")
        yield from [found] if isinstance(found, Mapping) else ()
        return
    named = schema.get("properties", {}).get(part)
    if isinstance(named, Mapping):
        yield named
        return
    if named is True:
        return
    matching = [
        inner
        for pattern, inner in schema.get("patternProperties", {}).items()
        if searcher(pattern)(part)
    ]
    for inner in matching or [schema.get("additionalProperties")]:
        if isinstance(inner, Mapping):
            yield inner


def _written(value: Any) -> str:
    return (
        {True: "true", False: "false"}[value]
        if isinstance(value, bool)
        else "null"
        if value is None
        else str(value)
    )
