"""Keys of a JSON Schema that are no keywords: JSON Schema ignores them, so that a schema without
others accepts everything.
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
"""Keywords that refuse no value."""

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
"""Keywords that say which values conform."""

_OF_OTHERS = frozenset({"discriminator", "example", "externalDocs", "nullable", "xml"})
"""Keys of OpenAPI's schemas, which are no misspellings."""


class UnknownKeyword(NamedTuple):
    """A key of a JSON Schema, or of a schema in it, that is no keyword."""

    path: tuple[str | int, ...]
    """Of the schema that has it."""
    word: str
    hint: str | None
    """``did you mean properties?``; None: its schema has no keyword at all that says which values
    conform."""


def unknown_keywords(schema: object) -> Iterator[UnknownKeyword]:
    """The keys that are probably meant as something else, in the order of the schema.

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
