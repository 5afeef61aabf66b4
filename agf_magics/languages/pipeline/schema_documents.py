"""Reads a ``schema:`` document into a Schema, and reports every error at its token.

Unknown keys of a field type are errors, because a silently ignored constraint is worse than none
(decision P7).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, cast

from ...schemas.schema import Field, FieldKind, Schema
from ...text.diagnostics import Diagnostic, Diagnostics
from ...text.source import Span
from ...text.suggestions import suggest
from ...text.yaml.nodes import Fields, Items, Node, Scalar, shown
from .. import documents
from ..documents import FLAG, NAME, number_of, read_node
from ..key_schemas import Json, reference
from ..keys import Key, MappingSpec, Takes, mapping_spec

# The names of other schema languages for our types.
_TYPES = {
    "boolean": "bool",
    "str": "string",
    "text": "string",
    "int": "number",
    "integer": "number",
    "float": "number",
    "array": "list",
    "dict": "object",
    "map": "object",
    "mapping": "object",
    "$ref": "ref",
    "literal": "enum",
}


def read_schema(
    node: Fields, problems: Diagnostics, schemas: Mapping[str, Schema]
) -> Schema | None:
    """The schema of a document with the key ``schema``; None if it has no name, or the name of a
    schema in ``schemas``.

    Fields with errors are left out.
    """
    fields = _Reader(problems).fields(SCHEMA, node, node.keys["schema"].span)
    title = fields.get("schema")
    if title is None:
        return None
    if title.text in schemas:
        first = schemas[title.text].span
        related = (("first declared here", first),) if first else ()
        message = f"the schema {title.text!r} is declared twice"
        problems.add(
            Diagnostic(
                "schema.duplicate-name", message, title.span, "rename one of them", related=related
            )
        )
        return None
    return Schema(title.text, fields.get("fields") or {}, title.span)


class _Reader(documents.Reader):
    """Reads one schema document."""

    layer = "schema"
    slips: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "items": ("of",),
        "properties": ("fields",),
        "enum": ("values",),
        "$ref": ("schema",),
        "min": ("minimum",),
        "max": ("maximum",),
        "options": ("values",),
    }
    advice: ClassVar[Mapping[str, str]] = {
        "required": "a field has it; the elements of a list are always required",
        "default": "a field has no default: required: false leaves it out",
    }

    def unknown_hint(self, spec: MappingSpec, name: str, value: Node) -> str | None:
        """The advice of all languages, or that a field belongs below ``fields``."""
        hint = super().unknown_hint(spec, name, value)
        is_field = isinstance(value, Fields) and not any(
            name in names for names in self.slips.values()
        )
        return f"indent a field below fields:; {hint}" if spec is SCHEMA and is_field else hint

    def refuse_tag(self, node: Scalar, key: Key) -> None:
        self.error(key.code, f"{key.name!r} must be {key.takes.says}, got {shown(node)}", node.span)

    def field(
        self, node: Node, key: Scalar, subject: str, kinds: Mapping[FieldKind, MappingSpec]
    ) -> Field | None:
        """The field with the type ``node``; ``kinds``: the tables of the types."""
        if not isinstance(node, Fields):
            near = _TYPES.get(node.text, node.text)
            hint = f"{key.text}: {{type: {near if near in kinds else 'string'}}}"
            self.error(
                "schema.type-shape",
                f"{subject} must be a mapping, got {shown(node)}",
                _place(node, key),
                hint,
            )
            return None
        kind = self.kind(node, key, subject)
        if kind is None:
            return None
        place = node.fields["type"].span
        if kind not in kinds:
            hint = (
                "put an object between them: {type: object, fields: {row: {type: list, of: ...}}}"
            )
            self.error("schema.list-of-lists", "a list's elements cannot be lists", place, hint)
            return None
        before = self.error_count
        attributes = self.fields(kinds[kind], node, place)
        attributes.pop("type", None)
        if "of" in attributes:
            attributes["of"] = self.field(
                attributes["of"], node.keys["of"], "the type of a list's elements", ELEMENT_TYPES
            )
        least = attributes.get("minimum")
        most = attributes.get("maximum")
        if least is not None and most is not None and least > most:
            message = f"'minimum' {least} is above 'maximum' {most}"
            self.error("schema.bound", message, node.fields["minimum"].span)
        if self.error_count > before:
            return None
        return Field(
            kind=kind, span=node.fields["schema"].span if kind == "ref" else place, **attributes
        )

    def kind(self, node: Fields, key: Scalar, subject: str) -> FieldKind | None:
        named = node.fields.get("type")
        if named is None:
            slip = next(
                (key_node for name, key_node in node.keys.items() if suggest(name, ["type"])), None
            )
            hint = f"{'did you mean type?' if slip else 'write type: string;'} types are {_CHOICES}"
            self.error("schema.missing-type", f"{subject} is missing", (slip or key).span, hint)
            return None
        place = _place(named, node.keys["type"])
        if type(named.value) is not str or named.is_expr:
            self.error(
                "schema.unknown-type",
                f"a type must be one of {_CHOICES}, got {shown(named)}",
                place,
            )
            return None
        if named.text in TYPES:
            return cast("FieldKind", named.text)
        meant = _TYPES.get(named.text.lower())
        near = (
            f"write {meant}; types are {_CHOICES}" if meant else suggest(named.text, TYPES, "types")
        )
        self.error("schema.unknown-type", f"unknown type {named.text!r}", place, near)
        return None


def _fields(reader: _Reader, node: Node, key: Key) -> dict[str, Field]:
    fields: dict[str, Field] = {}
    for name, value in reader.written_entries(node, key):
        if not name.text.strip():
            reader.error("schema.field-name", "a field's name is blank", name.span)
        field = reader.field(value, name, f"the type of {name.text!r}", TYPES)
        if field is not None:
            fields[name.text] = field
    return fields


def _read_required(reader: _Reader, node: Node, key: Key) -> Any:
    if isinstance(node, Items):
        reader.wrong_type(node, key, "write in each required field: required: true")
        return None
    return FLAG.read(reader, node, key)


def _values(reader: _Reader, node: Node, key: Key) -> tuple[Any, ...]:
    if not isinstance(node, Items) or not node.items:
        reader.wrong_type(node, key)
        return ()
    # JSON's equality: 1 is 1.0, true is not 1. A dict, because an enum may have thousands.
    values: dict[tuple[bool, Any], Any] = {}
    for item in node.items:
        if not isinstance(item, Scalar) or item.is_expr:
            message = (
                f"a value of an enum must be text, a number, true, false or null, got {shown(item)}"
            )
            reader.error("schema.values", message, item.span)
        elif (key_of := (type(item.value) is bool, item.value)) in values:
            reader.warn("schema.duplicate-value", f"{shown(item)} is listed twice", item.span)
        else:
            values[key_of] = item.value
    return tuple(values.values())


def _reference(reader: _Reader, node: Node, key: Key) -> str | None:
    name = reader.name(node, key)
    return name.text if name else None


def _place(node: Node, key: Scalar) -> Span | None:
    """The place of ``node``, or of its key if nothing is written."""
    return node.span if node.span.text else key.span


_S_ELEMENT: Json = {**reference("type"), "properties": {"type": {"not": {"const": "list"}}}}
FIELDS: Final = Takes(
    "a mapping of field names to types",
    "{passed: {type: bool}}",
    reference("fields"),
    _fields,
    word="fields",
)
BOUND: Final = Takes("a number", "0", {"type": "number"}, number_of(int, float))
VALUES: Final = Takes(
    "a list of one or more values", "[low, high]", {"type": "array", "minItems": 1}, _values
)
ELEMENT: Final = Takes("the type of the elements", "{type: string}", _S_ELEMENT, read_node)
REQUIRED: Final = Takes("true or false", "true", FLAG.schema, _read_required)
REFERENCE: Final = Takes("a name", "Name", NAME.schema, _reference)

SCHEMA: Final = mapping_spec(
    "schema",
    "A schema that steps can demand of a result.",
    Key("schema", NAME, "Its name.", required=True, code="schema.name"),
    Key("fields", FIELDS, "Its fields and their types.", required=True, code="schema.fields"),
)


def _type(name: str, doc: str, *keys: Key) -> MappingSpec:
    takes = Takes("a type", "string", {"const": name.split()[1]}, read_node)
    return mapping_spec(name, doc, Key("type", takes, "The type.", required=True), *keys)


_KINDS: Final[Mapping[FieldKind, MappingSpec]] = {
    "bool": _type("a bool", "true or false"),
    "string": _type("a string", "a text"),
    "number": _type(
        "a number",
        "a number, within minimum and maximum if they are given",
        Key("minimum", BOUND, "The smallest number.", code="schema.bound"),
        Key("maximum", BOUND, "The largest number.", code="schema.bound"),
    ),
    "enum": _type(
        "an enum",
        "one of the literals that values lists",
        Key("values", VALUES, "The literals.", required=True, code="schema.values"),
    ),
    "list": _type(
        "a list",
        "a list whose elements have the type in of",
        Key("of", ELEMENT, "The type of its elements.", required=True, code="schema.type-shape"),
    ),
    "object": _type(
        "an object",
        "an object with the fields in fields",
        Key("fields", FIELDS, "Its fields.", required=True, code="schema.fields"),
    ),
    "ref": _type(
        "a ref",
        "an object that conforms to the schema that schema names",
        Key("schema", REFERENCE, "Its name.", required=True, code="schema.name"),
    ),
}
_REQUIRED = Key(
    "required", REQUIRED, "Whether a value must have the field.", code="schema.required"
)

TYPES: Final[Mapping[FieldKind, MappingSpec]] = {
    name: each._replace(keys={**each.keys, "required": _REQUIRED}) for name, each in _KINDS.items()
}
"""The types of fields."""
ELEMENT_TYPES: Final[Mapping[FieldKind, MappingSpec]] = {
    name: each for name, each in _KINDS.items() if name != "list"
}
"""The types of a list's elements."""
_CHOICES = ", ".join(TYPES)
