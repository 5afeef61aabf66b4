"""What may be written at a place of a document, by the JSON Schema of its language.

The schema is walked down the path of the cursor, beside what is written already: ``type: map`` or ``id: agf.loop``
decides which of several shapes a mapping has. Nothing is validated, and half a document is as good as a whole one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..flow.patterns import searcher
from .cursor import ELEMENT, Cursor

Schema = Mapping[str, Any]
Near = Mapping[str, str]
"""The keys of a mapping and their values, as far as they are written on one line."""

MOST = 200
"""Schemas looked at for one place: they may refer to each other in circles."""


def keys_at(root: Schema, spot: Cursor) -> dict[str, str]:
    """The keys that a mapping at ``spot`` may have, each with what is written behind it: ``: ``."""
    return {name: f"{name}: " for found in _at(root, spot) for name in found.get("properties", ())}


def values_at(root: Schema, spot: Cursor) -> list[str]:
    """The values that stand for themselves at ``spot``."""
    found: dict[str, None] = {}
    for schema in _at(root, spot):
        listed = [
            *schema.get("enum", ()),
            *schema.get("examples", ()),
            *([schema["const"]] if "const" in schema else ()),
        ]
        listed += [True, False] if schema.get("type") == "boolean" else []
        found |= dict.fromkeys(_written(value) for value in listed)
    for schema in _at(root, spot, up=1):  # what makes a difference to the rest of the mapping
        found |= dict.fromkeys(_decides(schema, spot.path[-1] if spot.path else ""))
    return list(found)


def _at(root: Schema, spot: Cursor, up: int = 0) -> list[Schema]:
    """The schemas of the value at ``spot``, or ``up`` levels above it, with all that holds for it there."""
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
    """Each schema with those it refers to and is put together from, as far as they fit what is written."""
    queue, seen = list(schemas), 0
    while queue and seen < MOST:
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
    """Of several shapes those that fit best: that know most of the keys that are written and refuse no value."""
    known: list[tuple[int, Schema]] = []
    for choice in choices:
        parts = list(_all(root, [choice], near)) if isinstance(choice, Mapping) else []
        named = {name for part in parts for name in part.get("properties", ())}
        if all(_fits(part, near) for part in parts):
            known.append((len(named & near.keys()), choice))
    best = max((count for count, _ in known), default=0)
    return [choice for count, choice in known if count == best]


def _fits(schema: Schema, near: Near) -> bool:
    """Whether no value that is written is another one than this shape must have."""
    for name, inner in schema.get("properties", {}).items():
        said = near.get(name)
        if said and isinstance(inner, Mapping) and "const" in inner and said != _written(inner["const"]):
            return False
    return True


def _holds(condition: Schema, near: Near) -> bool:
    """Whether the ``if`` of a schema is true of what is written."""
    for name, inner in condition.get("properties", {}).items():
        said = near.get(name)
        if said is None:
            continue
        wanted = [inner["const"]] if "const" in inner else inner.get("enum")
        if wanted is not None and said not in map(_written, wanted):
            return False
        if "pattern" in inner and not searcher(inner["pattern"])(said):
            return False
    return all(name in near for name in condition.get("required", ()))


def _decides(schema: Schema, name: str) -> Iterator[str]:
    """The values of a key on which the rest of its mapping depends."""
    inner = schema.get("if", {}).get("properties", {}).get(name, {})
    yield from (_written(value) for value in [*inner.get("enum", ()), *([inner["const"]] if "const" in inner else ())])


def _under(schema: Schema, part: str) -> Iterator[Schema]:
    """The schemas of what stands under a key, or of an element."""
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
    matching = [inner for pattern, inner in schema.get("patternProperties", {}).items() if searcher(pattern)(part)]
    for inner in matching or [schema.get("additionalProperties")]:
        if isinstance(inner, Mapping):
            yield inner


def _written(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else "null" if value is None else str(value)
