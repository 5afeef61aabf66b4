"""The schema of a structured answer in the form that providers accept: that of an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...schemas.patterns import MANY, NAMED, ONE

WRAPPED = "answer"
"""The field of the object that wraps an answer that is no object: providers accept only objects."""


def wrap_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """``schema`` as the schema of an object. A reference means the same in it as before.

    >>> wrap_schema({"type": "integer"})["properties"]
    {'answer': {'type': 'integer'}}
    """
    plain = {name: value for name, value in schema.items() if name != "$schema"}
    if plain.get("type") == "object":
        return plain
    # All definitions are in the one place in which providers look for them.
    defs = {**_mapping(plain.pop("definitions", None)), **_mapping(plain.pop("$defs", None))}
    whole = WRAPPED
    while whole in defs:
        whole += "_"
    references = set[str]()
    moved = _moved(plain, f"#/$defs/{whole}", references)
    defs = {name: _moved(part, f"#/$defs/{whole}", references) for name, part in defs.items()}
    if references:
        # A part refers to the whole answer, or to another part of it by its path.
        defs[whole] = moved
        moved = {"$ref": f"#/$defs/{whole}"}
    wrapper = {"type": "object", "properties": {WRAPPED: moved}, "required": [WRAPPED]}
    return {**wrapper, "$defs": defs} if defs else wrapper


def _moved(part: Any, whole: str, references: set[str]) -> Any:
    """A part of a schema whose references lead to the new places. ``whole``: the reference to the
    whole schema. ``references``: receives the references that use it."""
    if not isinstance(part, dict):
        return part
    moved = dict(part)
    for word, inner in part.items():
        if word in ONE and isinstance(inner, dict):
            moved[word] = _moved(inner, whole, references)
        elif word in MANY | ONE and isinstance(inner, list):
            moved[word] = [_moved(each, whole, references) for each in inner]
        elif word in NAMED and isinstance(inner, dict):
            moved[word] = {name: _moved(each, whole, references) for name, each in inner.items()}
    reference = part.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        if reference.startswith("#/definitions/"):
            moved["$ref"] = f"#/$defs/{reference.removeprefix('#/definitions/')}"
        elif not reference.startswith("#/$defs/"):
            moved["$ref"] = whole + reference[1:]
            references.add(reference)
    return moved


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
