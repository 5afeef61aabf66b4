"""Converts ``schema:`` and ``output_schema:`` of a prompt to the JSON Schema of the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ....flow.protocols import Name
from ....schemas.json_schema import schema_violations
from ....schemas.patterns import unusable_patterns
from ....schemas.unknown_keywords import unknown_keywords
from ....schemas.violations import describe_all
from ....text.diagnostics import Diagnostics
from ....text.suggestions import suggest
from ....text.yaml.nodes import Fields, Node, Scalar, node_at, plain, shown
from ...documents import ANYTHING, NAME, TEXT, number_of
from ...keys import Key, Takes, mapping_spec
from ..expressions.reading import Reader
from ..takes import NUMBER

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

_CONSTRAINTS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
}
"""The keyword of each constraint."""
_OF_LISTS = {"minLength": "minItems", "maxLength": "maxItems"}
"""The keyword of a list for each keyword of a text, because one constraint serves both."""

_LENGTH = Takes("an integer", "3", {"type": "integer"}, number_of(int))
_CONSTRAINED = mapping_spec(
    "constraints",
    "What the value of a field must be.",
    *(Key(name, NUMBER) for name in ("ge", "gt", "le", "lt")),
    *(Key(name, _LENGTH) for name in ("min_length", "max_length")),
    Key("pattern", TEXT),
)
_FIELD = mapping_spec(
    "a field",
    "A field of an answer.",
    Key("type", NAME, required=True),
    Key("description", TEXT, null=True),
    Key("optional", ANYTHING),
    Key("default", ANYTHING),
    Key(
        "constraints",
        Takes("a mapping of constraints", "{ge: 0, le: 1}", {"type": "object"}, Reader.mapping),
    ),
)
_SCHEMA = mapping_spec(
    "schema",
    "The fields of an answer.",
    *(Key(name, ANYTHING) for name in ("name", "fields", "description")),
)


class _SchemaReader(Reader):
    """Reads a ``schema:``, all of whose errors have one code."""

    def __init__(self, problems: Diagnostics) -> None:
        super().__init__(problems)
        self.error = lambda code, *said: problems.error("graph.prompt-schema", *said)


_WORDS = "|".join(FIELD_TYPES)
_NESTED = (
    (re.compile(r"\s*[lL]ist\s*\[(.*)\]\s*"), "array", "items"),
    (re.compile(rf"\s*dict\s*\[\s*(?:{_WORDS})\s*,(.*)\]\s*"), "object", "additionalProperties"),
)
"""The types that name the type of their elements, each with the keyword for it."""
_LONGEST = 200
"""Characters of a type, which bound how deep types nest."""
_EXAMPLE = "schema: {name: Review, fields: {score: {type: int, description: From 1 to 5}}}"


def read_output_schema(reader: Reader, node: Node) -> Json:
    """``output_schema``: a JSON Schema."""
    if not isinstance(node, Fields):
        hint = (
            "output_schema: {type: object, properties: {score: {type: integer}}, required: [score]}"
        )
        reader.refuse(
            "graph.prompt-schema", f"expected a JSON Schema, got {shown(node)}", node.span, hint
        )
    schema: Json = plain(node)
    if wrong := schema_violations(schema):
        message = f"this is not a JSON Schema: {describe_all(wrong)}"
        hint = "output_schema: {type: object, properties: {…}}"
        reader.refuse("graph.prompt-schema", message, node.span, hint)
    _check_keywords(reader, node, schema)
    reader.problems.extend(unusable_patterns("schema.pattern", node, schema))
    return schema


def _check_keywords(reader: Reader, node: Fields, schema: Json) -> None:
    """Refuse what is no schema, such as the short form ``{title: str, tags: list[str]}``, and warn
    of misspelled keywords: JSON Schema ignores both."""
    for path, word, hint in unknown_keywords(schema):
        at, _ = node_at(node, path)
        assert isinstance(at, Fields), "it has a key"
        message = f"{word!r} is not a keyword of JSON Schema"
        if hint is not None:
            reader.warn("graph.schema-keyword", message, at.keys[word].span, hint)
            continue
        message = f"{message}, and this schema has no other: it would accept everything"
        hint = f"write {in_braces(_of_fields(at))}"
        reader.error("graph.prompt-schema", message, at.keys[word].span, hint)


def _of_fields(node: Fields) -> Json:
    """The JSON Schema that fields with their types mean."""
    types = {
        name: read_type(field.text) if isinstance(field, Scalar) else None
        for name, field in node.fields.items()
    }
    properties = {
        name: {"type": "string"} if schema is None else schema for name, schema in types.items()
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def read_schema(reader: Reader, node: Node) -> Json:
    """``schema: {name, fields}`` as a JSON Schema."""
    fields = node.fields.get("fields") if isinstance(node, Fields) else None
    if not isinstance(node, Fields) or not isinstance(fields, Fields):
        place = fields.span if fields is not None else node.span
        message = "'schema' needs name and fields, a mapping of names"
        reader.refuse("graph.prompt-schema", message, place, _EXAMPLE)
    inner = _SchemaReader(reader.problems)
    inner.fields(_SCHEMA, node, node.span)
    title = node.scalar("name")
    return {
        "type": "object",
        **({"title": title.text} if title else {}),
        "properties": {name: _field(inner, name, field) for name, field in fields.fields.items()},
        "required": [name for name, field in fields.fields.items() if _is_required(field)],
    }


def _is_required(field: Node) -> bool:
    if not isinstance(field, Fields):
        return True
    return "default" not in field.fields and field.value_at("optional") is not True


def _field(reader: Reader, name: str, node: Node) -> Json:
    """A field: its type, or ``{type, description, optional, default, constraints}``."""
    fields: dict[str, Any] = (
        reader.fields(_FIELD, node, node.span)
        if isinstance(node, Fields)
        else {"type": reader.name(node, Key(name, NAME))}
    )
    word: Name | None = fields.get("type")
    if word is None:
        return {}
    schema = read_type(word.text)
    if schema is None:
        near = suggest(word.text.split("[")[0].strip(), FIELD_TYPES, "types")
        hint = near or "types are str, int, float, bool, Any, list, dict, list[T] and dict[str, T]"
        reader.error("graph.prompt-schema", f"unknown type {word.text[:80]!r}", word.span, hint)
        return {}
    constraints: Fields | None = fields.get("constraints")
    if constraints is not None:
        for name, value in reader.fields(_CONSTRAINED, constraints, constraints.span).items():
            keyword = _CONSTRAINTS[name]
            keyword = _OF_LISTS.get(keyword, keyword) if schema.get("type") == "array" else keyword
            schema[keyword] = value.text if isinstance(value, Name) else value
    if fields.get("description") is not None:
        schema["description"] = fields["description"].text
    if "default" in fields:
        schema["default"] = fields["default"]
    if not _is_required(node) and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]  # models give null for an optional field
    reader.problems.extend(unusable_patterns("schema.pattern", node, schema))
    return schema


def read_type(text: str) -> Json | None:
    """``list[dict[str, int]]`` as a JSON Schema; None if it is not a type.

    >>> read_type("list[str]"), read_type("dict[str, Any]"), read_type("list[")
    ({'type': 'array', 'items': {'type': 'string'}}, {'type': 'object', 'additionalProperties': {}}, None)
    """
    if len(text) > _LONGEST:
        return None
    for pattern, word, keyword in _NESTED:
        if nested := pattern.fullmatch(text):
            inner = read_type(nested[1])
            return None if inner is None else {"type": word, keyword: inner}
    plain_type = FIELD_TYPES.get(text.strip())
    return None if plain_type is None else dict(plain_type)


def in_braces(value: Any) -> str:
    """A JSON value as an author would write it on one line.

    >>> in_braces({"type": "object", "required": ["a", "no one", "true"]})
    '{type: object, required: [a, "no one", "true"]}'
    """
    return _WORD.sub(r"\1", json.dumps(value, ensure_ascii=False))


_WORD = re.compile(r'"((?!(?:true|false|null)")[A-Za-z_][A-Za-z_0-9-]*)"', re.IGNORECASE)
