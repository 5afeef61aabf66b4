"""A ``schema:`` document to a Schema; every error is reported at its token.

A field type is closed: a key that it does not have is an error, because a constraint that is silently ignored is worse
than none (decision P7).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ...flow.schemas import Field, FieldKind, Schema, same
from ...text.diagnostics import Diagnostic, Diagnostics, suggest
from ...text.source import Span
from ...text.yamlnodes import Fields, Items, Node, Scalar, shown
from .words import DOCUMENTS, TAKES

Needs = Literal["must", "may"]

FIELD_KEYS: Mapping[FieldKind, Mapping[str, Needs]] = {
    "bool": {},
    "string": {},
    "number": {"minimum": "may", "maximum": "may"},
    "enum": {"values": "must"},
    "list": {"of": "must"},
    "object": {"fields": "must"},
    "ref": {"schema": "must"},
}
"""The keys of each field type besides ``type`` and ``required``."""

_CHOICES = ", ".join(FIELD_KEYS)

# The names of other schema languages.
_TYPES = {
    "boolean": "bool", "str": "string", "text": "string", "int": "number", "integer": "number", "float": "number",
    "array": "list", "dict": "object", "map": "object", "mapping": "object", "$ref": "ref", "literal": "enum",
}  # fmt: skip
_KEYS = {"items": "of", "properties": "fields", "enum": "values", "$ref": "schema", "min": "minimum", "max": "maximum"}


def read_schema(node: Fields, problems: Diagnostics, known: Mapping[str, Schema] | None = None) -> Schema | None:
    """The schema of a document with the key ``schema``; None if it has no name, or the name of a schema in ``known``.

    Fields with errors are left out.
    """
    reading, key, keys = _Reading(problems), node.keys["schema"], DOCUMENTS["schema"].keys
    for name, extra in node.keys.items():
        if name not in keys:
            hint = suggest(name, keys, "the keys of a schema document")
            if name not in _KEYS.values() and isinstance(node.fields[name], Fields):
                hint = f"indent a field below fields:; {hint}"
            reading.error("unknown-key", f"a schema document has no key {name!r}", extra.span, hint)
    title = reading.name(node.fields["schema"], key, "a schema is named by a text")
    fields: dict[str, Field] = {}
    if "fields" in node.fields:
        fields = reading.fields(node.fields["fields"], node.keys["fields"])
    else:
        reading.error("missing-key", "a schema needs 'fields'", key.span, HINTS["fields"])
    if title is None:
        return None
    if known and title.text in known:
        first = known[title.text].span
        related = (("first declared here", first),) if first else ()
        message = f"the schema {title.text!r} is declared twice"
        problems.add(Diagnostic("schema.duplicate-name", message, title.span, "rename one of them", related=related))
        return None
    return Schema(title.text, fields, title.span)


class _Reading:
    def __init__(self, problems: Diagnostics) -> None:
        self.problems = problems
        self.error_count = 0

    def error(self, code: str, message: str, span: Span, hint: str | None = None) -> None:
        self.error_count += 1
        self.problems.error(f"schema.{code}", message, span, hint)

    def name(self, node: Node, key: Scalar, what: str) -> Scalar | None:
        """The text that names a schema."""
        if not _is_text(node):
            quoted = f'quote it: "{node.text}"' if isinstance(node, Scalar) and node.text and not node.is_expr else None
            self.error("name", f"{what}, not {shown(node)}", _place(node, key), quoted)
            return None
        assert isinstance(node, Scalar)
        if not node.text.strip():
            self.error("name", f"{what}, not a blank one", node.span)
            return None
        return node

    def fields(self, node: Node, key: Scalar) -> dict[str, Field]:
        if not isinstance(node, Fields) or not node.fields:
            self.error("fields", f"'fields' takes {TAKES['fields'].says}, not {shown(node)}", _place(node, key))
            return {}
        for name in node.fields:
            if not name.strip():
                self.error("field-name", "a field's name is blank", node.keys[name].span)
        read = {name: self.field(value, node.keys[name]) for name, value in node.fields.items()}
        return {name: one for name, one in read.items() if one is not None}

    def field(self, node: Node, key: Scalar, *, element: bool = False) -> Field | None:
        """The type under ``key``; ``element``: it is that of a list's elements, which are not optional."""
        what = "the type of a list's elements" if element else f"the type of {key.text!r}"
        if not isinstance(node, Fields):
            near = _TYPES.get(node.text, node.text) if isinstance(node, Scalar) else ""
            hint = f"{key.text}: {{type: {near if near in FIELD_KEYS else 'string'}}}"
            self.error("type-shape", f"{what} is a mapping, not {shown(node)}", _place(node, key), hint)
            return None
        kind = self.kind(node, key, what)
        if kind is None:
            return None
        if element and kind == "list":
            hint = "put an object between them: {type: object, fields: {row: {type: list, of: ...}}}"
            self.error("list-of-lists", "a list's elements cannot be lists", node.fields["type"].span, hint)
            return None
        allowed = ["type", *FIELD_KEYS[kind], *([] if element else ["required"])]
        for name, own in node.keys.items():
            if name not in allowed:
                hint = suggest(name, allowed, f"the keys of {_a(kind)}") or ""
                hint = f"{_KEYS[name]} is its name here" if _KEYS.get(name) in allowed else hint
                hint = "the elements of a list are always required" if name == "required" else hint
                self.error("unknown-key", f"{_a(kind)} has no key {name!r}", own.span, hint)
        place = node.fields["type"].span
        for name, needs in FIELD_KEYS[kind].items():
            if needs == "must" and name not in node.fields and not any(_KEYS.get(own) == name for own in node.fields):
                self.error("missing-key", f"{_a(kind)} needs {name!r}", place, HINTS[name])
        return self.built(kind, node, place)

    def kind(self, node: Fields, key: Scalar, what: str) -> FieldKind | None:
        named = node.fields.get("type")
        if named is None:
            slip = next((own for name, own in node.keys.items() if suggest(name, ["type"])), None)
            hint = f"{'did you mean ' if slip else ''}type: one of {_CHOICES}{'?' if slip else ''}"
            self.error("missing-type", f"{what} is missing", (slip or key).span, hint)
            return None
        place = _place(named, node.keys["type"])
        if not _is_text(named):
            self.error("unknown-type", f"a type is one of {_CHOICES}, not {shown(named)}", place)
            return None
        assert isinstance(named, Scalar)
        for kind in FIELD_KEYS:
            if kind == named.text:
                return kind
        known = _TYPES.get(named.text.lower())
        near = f"{known} is its name here; types are {_CHOICES}" if known else suggest(named.text, FIELD_KEYS, "types")
        self.error("unknown-type", f"unknown type {named.text!r}", place, near)
        return None

    def built(self, kind: FieldKind, node: Fields, place: Span) -> Field | None:
        """The field, once its keys are those of its type; None if one of them has an error."""
        before = self.error_count
        required = self.required(node)
        own = [name for name in FIELD_KEYS[kind] if name in node.fields]
        given: dict[str, Any] = {name: READ[name](self, node.fields[name], node.keys[name]) for name in own}
        least, most = given.get("minimum"), given.get("maximum")
        if least is not None and most is not None and least > most:
            self.error("bound", f"'minimum' {least} is above 'maximum' {most}", node.fields["minimum"].span)
        needed = {name for name, needs in FIELD_KEYS[kind].items() if needs == "must"}
        if self.error_count > before or not needed <= set(own):
            return None
        place = node.fields["schema"].span if kind == "ref" else place
        return Field(kind=kind, required=required, span=place, **given)

    def required(self, node: Fields) -> bool:
        given = node.fields.get("required")
        if given is None:
            return False
        if isinstance(given, Scalar) and type(given.value) is bool:
            return given.value
        hint = "write in each required field: required: true" if isinstance(given, Items) else None
        message = f"'required' takes true or false, not {shown(given)}"
        self.error("required", message, _place(given, node.keys["required"]), hint)
        return False

    def bound(self, node: Node, key: Scalar) -> Any:
        if isinstance(node, Scalar) and type(node.value) in (int, float):
            return node.value
        self.error("bound", f"{key.text!r} takes a number, not {shown(node)}", _place(node, key))
        return None

    def values(self, node: Node, key: Scalar) -> tuple[Any, ...]:
        if not isinstance(node, Items) or not node.items:
            message = f"'values' takes a list of one or more values, not {shown(node)}"
            self.error("values", message, _place(node, key), HINTS["values"])
            return ()
        found: list[Any] = []
        for item in node.items:
            if not isinstance(item, Scalar) or item.is_expr:
                message = f"a value of an enum is text, a number, true, false or null, not {shown(item)}"
                self.error("values", message, item.span)
            elif any(same(item.value, other) for other in found):
                self.problems.warn("schema.duplicate-value", f"{shown(item)} is listed twice", item.span)
            else:
                found.append(item.value)
        return tuple(found)

    def element(self, node: Node, key: Scalar) -> Field | None:
        return self.field(node, key, element=True)

    def reference(self, node: Node, key: Scalar) -> str:
        named = self.name(node, key, "'schema' takes the name of a schema")
        return named.text if named else ""


READ = {
    "minimum": _Reading.bound,
    "maximum": _Reading.bound,
    "values": _Reading.values,
    "of": _Reading.element,
    "fields": _Reading.fields,
    "schema": _Reading.reference,
}
HINTS = {
    "values": "values: [low, high]",
    "of": "of: {type: string}",
    "fields": "fields: {passed: {type: bool}}",
    "schema": "schema: Name",
}


def _is_text(node: Node) -> bool:
    return isinstance(node, Scalar) and type(node.value) is str and not node.is_expr


def _a(kind: FieldKind) -> str:
    return f"an {kind}" if kind[0] in "eo" else f"a {kind}"


def _place(node: Node, key: Scalar) -> Span:
    """The place of ``node``, or of its key if nothing is written."""
    return node.span if node.span.text else key.span
