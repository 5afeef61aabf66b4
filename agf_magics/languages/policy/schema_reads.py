"""Whether a JSON Schema has what a path reads (AGF-10): a warning, as the value may have it all the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...text.diagnostics import Diagnostic, suggest
from .path import Path


def unknown_field(schema: Mapping[str, Any] | None, path: Path, whose: str) -> Diagnostic | None:
    """The finding that ``schema``, of what the path's source takes or gives, has no such field.

    Only what an object's ``properties`` leave out is told; of anything else a schema says nothing is known.
    """
    at: Any = schema
    names = [*path.fields, *(["[]", *path.elements] if path.elements is not None else [])]
    for index, name in enumerate(names, 2):
        if not isinstance(at, Mapping):
            return None
        if name == "[]":
            at = at.get("items")
            continue
        known = at.get("properties")
        if not isinstance(known, Mapping) or not known or at.keys() & {"$ref", "anyOf", "oneOf", "allOf", "if"}:
            return None
        if name not in known:
            before = ".".join(part.name for part in path.parts[:index])
            message = f"{whose} has no field {name!r} at {before}"
            hint = suggest(name, known, "its fields")
            return Diagnostic("policy.unknown-field-read", message, path.part_span(index), hint, "warning")
        at = known[name]
    return None
