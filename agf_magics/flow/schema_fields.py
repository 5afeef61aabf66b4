"""Whether a JSON Schema has the fields that a text reads of a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

EACH = "[]"
"""Every element of a list, in a path of fields."""

_SAYS_MORE = frozenset({"$ref", "anyOf", "oneOf", "allOf", "if", "patternProperties"})


def lacking(
    schema: Mapping[str, Any] | None, fields: Sequence[str]
) -> tuple[int, tuple[str, ...]] | None:
    """The index of the first of ``fields`` that ``schema`` does not have, and the fields that it
    has there.

    Only ``properties`` decide; a schema with other keywords for fields may have any field.

    >>> lacking({"properties": {"a": {"items": {"properties": {"b": {}}}}}}, ["a", "[]", "c"])
    (2, ('b',))
    """
    at: Any = schema
    for index, name in enumerate(fields):
        at = _referred(schema, at)
        if not isinstance(at, Mapping):
            return None
        if name == EACH:
            at = at.get("items")
            continue
        known = at.get("properties")
        if not isinstance(known, Mapping) or not known or at.keys() & _SAYS_MORE:
            return None
        if name not in known:
            return index, tuple(known)
        at = known[name]
    return None


def _referred(root: Any, at: Any) -> Any:
    """The target of a reference within the schema, if ``at`` is only a reference."""
    for _ in range(20):
        where = (
            at.get("$ref")
            if isinstance(at, Mapping) and not at.keys() - {"$ref", "$defs"}
            else None
        )
        if not isinstance(where, str) or not where.startswith("#/"):
            break
        at = root
        for part in where[2:].split("/"):
            at = (
                at.get(part.replace("~1", "/").replace("~0", "~"))
                if isinstance(at, Mapping)
                else None
            )
    return at
