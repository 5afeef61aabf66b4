"""``schema:`` and ``output_schema:`` of a prompt: what the answer must conform to, as a JSON
Schema."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...flow.json_schema import schema_violations
from ...flow.patterns import SYNTAX, fault_span, pattern_faults
from ...flow.violations import describe_all
from ...text.diagnostics import suggest
from ...text.yamlnodes import Fields, Node, Scalar, plain, shown
from .reading import Reader

Json = dict[str, Any]

FIELD_TYPES: Mapping[str, Json] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "list": {"type": "array"},
    "dict": {"type": "object"},
    "any": {},
    "Any": {},
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
}
"""The types of a field; a list and a dict may name the type of their elements: ``list[str]``,
``dict[str, int]``."""

_CONSTRAINTS: Mapping[str, tuple[Mapping[str, str], type | tuple[type, ...]]] = {
    "ge": ({"": "minimum"}, (int, float)),
    "gt": ({"": "exclusiveMinimum"}, (int, float)),
    "le": ({"": "maximum"}, (int, float)),
    "lt": ({"": "exclusiveMaximum"}, (int, float)),
    "min_length": ({"": "minLength", "array": "minItems"}, int),
    "max_length": ({"": "maxLength", "array": "maxItems"}, int),
    "pattern": ({"": "pattern"}, str),
}
"""The keyword of each constraint, by the type of the field, and the type of its value."""

_TYPE = re.compile(r"\s*(\w+)\s*(?:(\[)|(?=[\],]|$))")
_LONGEST = 200
_EXAMPLE = "schema: {name: Review, fields: {score: {type: int, description: From 1 to 5}}}"


def read_output_schema(reader: Reader, node: Node) -> Json | None:
    """``output_schema``: a JSON Schema. None after an error."""
    schema = plain(node)
    if not isinstance(node, Fields) or not isinstance(schema, dict):
        hint = (
            "output_schema: {type: object, properties: {score: {type: integer}}, required: [score]}"
        )
        reader.error(
            "graph.prompt-schema", f"expected a JSON Schema, got {shown(node)}", node.span, hint
        )
        return None
    if wrong := schema_violations(schema):
        message = f"this is not a JSON Schema: {describe_all(wrong)}"
        reader.error(
            "graph.prompt-schema",
            message,
            node.span,
            "output_schema: {type: object, properties: {…}}",
        )
        return None
    return schema if _check_patterns(reader, node, schema) else None


def read_schema(reader: Reader, node: Node) -> Json | None:
    """``schema: {name, fields}`` as a JSON Schema. None after an error."""
    fields = node.fields.get("fields") if isinstance(node, Fields) else None
    if not isinstance(node, Fields) or not isinstance(fields, Fields):
        place = fields.span if fields is not None else node.span
        reader.error(
            "graph.prompt-schema",
            "'schema' needs name and fields, a mapping of names",
            place,
            _EXAMPLE,
        )
        return None
    before = reader.error_count
    for key in node.keys.keys() - {"name", "fields", "description"}:
        hint = suggest(key, ("name", "fields", "description"), "keys of schema")
        reader.error(
            "graph.prompt-schema", f"unknown key {key!r} in schema", node.keys[key].span, hint
        )
    properties = {name: _field(reader, name, field) for name, field in fields.fields.items()}
    title = node.fields.get("name")
    schema: Json = {
        "type": "object",
        **({"title": title.text} if isinstance(title, Scalar) else {}),
        "properties": properties,
        "required": [name for name, field in fields.fields.items() if _is_required(field)],
    }
    for name, field in fields.fields.items():
        _check_patterns(reader, field, properties[name])
    return schema if reader.error_count == before else None


def _is_required(field: Node) -> bool:
    if not isinstance(field, Fields):
        return True
    optional = field.fields.get("optional")
    return "default" not in field.fields and not (
        isinstance(optional, Scalar) and optional.value is True
    )


def _field(reader: Reader, name: str, node: Node) -> Json:
    """A field: its type, or ``{type, description, optional, default, constraints}``."""
    held = node.fields if isinstance(node, Fields) else {"type": node}
    kind = held.get("type")
    if not isinstance(kind, Scalar) or not isinstance(kind.value, str):
        place = kind.span if kind is not None else node.span
        reader.error(
            "graph.prompt-schema",
            f"the type of {name!r} must be a name",
            place,
            f"{name}: {{type: str}}",
        )
        return {}
    known = ("type", "description", "optional", "default", "constraints")
    for key in held.keys() - set(known) if isinstance(node, Fields) else ():
        assert isinstance(node, Fields)
        hint = suggest(key, known, "keys of a field")
        reader.error(
            "graph.prompt-schema", f"unknown key {key!r} in {name!r}", node.keys[key].span, hint
        )
    made = read_type(kind.text)
    if made is None:
        near = suggest(kind.text.split("[")[0].strip(), FIELD_TYPES, "types")
        hint = near or "types are str, int, float, bool, Any, list, dict, list[T] and dict[str, T]"
        reader.error("graph.prompt-schema", f"unknown type {kind.text[:80]!r}", kind.span, hint)
        return {}
    made |= dict(_constraints(reader, held.get("constraints"), str(made.get("type"))))
    described = held.get("description")
    if isinstance(described, Scalar):
        made["description"] = described.text
    if "default" in held:
        made["default"] = plain(held["default"])
    if not _is_required(node) and isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]  # models give null for an optional field
    return made


def read_type(text: str) -> Json | None:
    """``list[dict[str, int]]`` as a JSON Schema; None if it is not a type.

    >>> read_type("list[str]"), read_type("dict[str, Any]"), read_type("list[")
    ({'type': 'array', 'items': {'type': 'string'}}, {'type': 'object', 'additionalProperties': {}}, None)
    """
    if len(text) > _LONGEST:
        return None
    found, rest = _read_type(text)
    return found if not rest.strip() else None


def _read_type(text: str) -> tuple[Json | None, str]:
    """The type at the beginning of ``text``, and the rest. At most `_LONGEST` / 2 calls are
    open."""
    opened = _TYPE.match(text)
    if opened is None or opened[1] not in FIELD_TYPES:
        return None, text
    made, rest = dict(FIELD_TYPES[opened[1]]), text[opened.end() :]
    if opened[2] is None:
        return made, rest
    keys = {"list": 1, "List": 1, "dict": 2}.get(opened[1], 0)
    inner: Json | None = None
    for index in range(keys):
        inner, rest = _read_type(rest)
        rest = rest.lstrip()
        if inner is None or not rest.startswith("," if index + 1 < keys else "]"):
            return None, rest
        rest = rest[1:]
    if not keys or inner is None:
        return None, rest
    return {**made, "items" if keys == 1 else "additionalProperties": inner}, rest


def _constraints(reader: Reader, node: Node | None, kind: str) -> Iterator[tuple[str, Any]]:
    if node is not None and not isinstance(node, Fields):
        reader.error(
            "graph.prompt-schema",
            "'constraints' must be a mapping",
            node.span,
            "constraints: {ge: 0, le: 1}",
        )
    for name, value in reader.entries(node if isinstance(node, Fields) else None):
        if name.text not in _CONSTRAINTS:
            hint = suggest(name.text, _CONSTRAINTS, "constraints")
            reader.error(
                "graph.prompt-schema", f"unknown constraint {name.text!r}", name.span, hint
            )
            continue
        keywords, types = _CONSTRAINTS[name.text]
        found = plain(value)
        if not isinstance(found, types) or isinstance(found, bool):
            message = (
                f"{name.text!r} must be {'a text' if types is str else 'a number'}, got "
                f"{shown(value)}"
            )
            reader.error("graph.prompt-schema", message, value.span)
            continue
        yield keywords.get(kind, keywords[""]), found


def _check_patterns(reader: Reader, node: Node, schema: object) -> bool:
    faults = [*pattern_faults(schema)]
    for fault in faults:
        message = f"the pattern {fault.pattern!r} cannot be used: {fault.error}"
        reader.error("schema.pattern", message, fault_span(node, fault), SYNTAX)
    return not faults
