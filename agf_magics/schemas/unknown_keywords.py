"""Finds the keys of a JSON Schema that are not keywords: a schema with only such keys accepts
everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..text.suggestions import suggest
from .patterns import subschemas

ANNOTATIONS = frozenset(
    {
        *(
            "$anchor",
            "$comment",
            "$id",
            "$schema",
            "contentEncoding",
            "contentMediaType",
            "default",
        ),
        *("deprecated", "description", "examples", "format", "readOnly", "title", "writeOnly"),
    }
)
"""The keywords that refuse no value."""

CHECKS = frozenset(
    {
        *(
            "$defs",
            "$dynamicAnchor",
            "$dynamicRef",
            "$ref",
            "additionalProperties",
            "allOf",
            "anyOf",
        ),
        *("const", "contains", "contentSchema", "definitions", "dependentRequired"),
        *(
            "dependentSchemas",
            "else",
            "enum",
            "exclusiveMaximum",
            "exclusiveMinimum",
            "if",
            "items",
        ),
        *("maxContains", "maxItems", "maxLength", "maxProperties", "maximum", "minContains"),
        *("minItems", "minLength", "minProperties", "minimum", "multipleOf", "not", "oneOf"),
        *("pattern", "patternProperties", "prefixItems", "properties", "propertyNames", "required"),
        *("then", "type", "unevaluatedItems", "unevaluatedProperties", "uniqueItems"),
    }
)
"""The keywords that say which values conform."""

_OF_OTHERS = frozenset({"discriminator", "example", "externalDocs", "nullable", "xml"})
"""Keys of OpenAPI's schemas, which are not misspelled."""


class UnknownKeyword(NamedTuple):
    """A key of a JSON Schema, or of a schema in it, that is not a keyword."""

    path: tuple[str | int, ...]
    """The path of the schema that has the key."""
    word: str
    hint: str | None
    """``did you mean properties?``; None: the schema has no keyword of `CHECKS` at all."""


def unknown_keywords(schema: object) -> Iterator[UnknownKeyword]:
    """The keys of ``schema`` that are probably mistakes, in the order of the schema.

    >>> [(key.word, key.hint) for key in unknown_keywords({"type": "object", "propertees": {}})]
    [('propertees', 'did you mean properties?')]
    >>> [(key.word, key.hint) for key in unknown_keywords({"title": "str", "tags": "list[str]"})]
    [('tags', None)]
    """
    for path, inner in subschemas(schema):
        unknown = [
            word
            for word in inner
            if word not in CHECKS | ANNOTATIONS | _OF_OTHERS and not word.startswith("x-")
        ]
        if unknown and CHECKS.isdisjoint(inner):
            yield UnknownKeyword(path, unknown[0], None)
            continue
        for word in unknown:
            if (hint := suggest(word, CHECKS | ANNOTATIONS)) is not None:
                yield UnknownKeyword(path, word, hint)
