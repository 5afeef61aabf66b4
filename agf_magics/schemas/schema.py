"""Named schemas of fields: checks whether a value conforms to one, and gives its JSON Schema.

The checks do not use the library jsonschema (decision D65); a test holds that both agree. The
module `json_schema` checks values by the JSON Schema of a document or a function.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import quote

from ..text.diagnostics import Diagnostic, Diagnostics
from ..text.length import DEEPEST
from ..text.source import Span
from ..values.value import Value, type_name

T = TypeVar("T")


FieldKind = Literal["bool", "string", "number", "enum", "list", "object", "ref"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """The type of a field or of a list's elements."""

    kind: FieldKind
    required: bool = False
    """Fields are optional by default (decision P7)."""
    span: Span | None = None
    """The place in the text; None: the field is not from a text."""
    minimum: int | float | None = None
    maximum: int | float | None = None
    """The bounds of a number; None: there is no bound."""
    values: tuple[Value, ...] = ()
    """The values of an enum."""
    of: Field | None = None
    """The type of a list's elements; None: the field is not a list."""
    fields: Mapping[str, Field] = field(default_factory=dict)
    """The fields of an object."""
    schema: str = ""
    """The name of the schema to which a ref refers."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A named schema; its root is an object."""

    name: str
    fields: Mapping[str, Field]
    span: Span | None = None
    """The place of the name in the text; None: the schema is not from a text."""


class FieldViolation(NamedTuple):
    """One difference between a value and a schema."""

    path: str
    """The path of the wrong part: ``t[0].id``; empty for the value itself."""
    kind: Literal[
        "type_mismatch",
        "missing_required",
        "enum_invalid",
        "out_of_range",
        "unresolved_ref",
        "too_deep",
    ]
    message: str
    """The difference in words: ``passed: needs true or false, not text 'yes'``."""


def conform(schema: Schema, value: Value, schemas: Mapping[str, Schema]) -> list[FieldViolation]:
    """All differences between ``value`` and ``schema``, in the order of the fields. Never raises.

    Only required fields must be present; unknown fields are ignored; null and opaque values conform
    to no type.

    >>> review = Schema("Review", {"passed": Field(kind="bool")})
    >>> conform(review, {"passed": "yes"}, {})[0].message
    "passed: needs true or false, not text 'yes'"
    """
    whole = Field(kind="object", fields=schema.fields)
    return list(_check(whole, value, "", schemas, DEEPEST + 1))


Violations = Iterator[FieldViolation]

JSON_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: type(value) is str,
    "boolean": lambda value: type(value) is bool,
    "null": lambda value: value is None,
    "integer": lambda value: type(value) is int or (type(value) is float and value.is_integer()),
    "number": lambda value: type(value) is int or (type(value) is float and value - value == 0),
    "array": lambda value: type(value) is list,
    "object": lambda value: type(value) is dict and all(type(key) is str for key in value),
}
"""The test for each type of JSON Schema. A value that is not JSON has none of these types (decision
A1); 5.0 is an integer."""

TYPE_NAMES: Mapping[str, str] = {
    "string": "text",
    "boolean": "true or false",
    "null": "null",
    "integer": "a whole number",
    "number": "a number",
    "array": "a list",
    "object": "an object",
}
"""The words for each type of JSON Schema."""

_TYPE_OF: Mapping[FieldKind, str] = {
    "bool": "boolean",
    "string": "string",
    "number": "number",
    "list": "array",
    "object": "object",
    "ref": "object",
}
"""The type of JSON Schema for each kind of field."""


def _check(
    expected: Field, value: Value, path: str, schemas: Mapping[str, Schema], room: int
) -> Violations:
    """The differences between ``value`` and the field ``expected``, at most ``room`` levels deep."""
    kind = expected.kind
    if room <= 0:
        yield FieldViolation(path, "too_deep", f"{path}: nests deeper than {DEEPEST} levels")
    elif kind == "ref" and expected.schema not in schemas:
        message = f"{path}: no schema is named {expected.schema!r}"
        yield FieldViolation(path, "unresolved_ref", message)
    elif kind == "enum":
        if not any(same(value, choice) for choice in expected.values):
            choices = ", ".join(map(shown_value, expected.values))
            message = f"{path}: needs one of {choices}, not {shown_value(value)}"
            yield FieldViolation(path, "enum_invalid", message)
    elif not JSON_TYPES[_TYPE_OF[kind]](value):
        needs = f"needs {TYPE_NAMES[_TYPE_OF[kind]]}, not {shown_value(value)}"
        yield FieldViolation(path, "type_mismatch", f"{path}: {needs}" if path else needs)
    elif kind == "number":
        yield from _check_bounds(expected, value, path)
    elif expected.of is not None:
        for index, item in enumerate(value):
            yield from _check(expected.of, item, f"{path}[{index}]", schemas, room - 1)
    else:
        fields = schemas[expected.schema].fields if kind == "ref" else expected.fields
        for name, field_of in fields.items():
            inner = _step(path, name)
            if name in value:
                yield from _check(field_of, value[name], inner, schemas, room - 1)
            elif field_of.required:
                yield FieldViolation(inner, "missing_required", f"{inner}: is required")


def _check_bounds(expected: Field, value: Value, path: str) -> Violations:
    for word, bound, fits in (
        ("least", expected.minimum, operator.ge),
        ("most", expected.maximum, operator.le),
    ):
        if bound is not None and not fits(value, bound):
            shown = shown_value(value).removeprefix("the number ")
            message = f"{path}: needs at {word} {bound}, not {shown}"
            yield FieldViolation(path, "out_of_range", message)


def same(value: Value, choice: Value) -> bool:
    """Whether two values are equal by JSON Schema: 1 is 1.0, true is not 1."""
    return identity(value) == identity(choice)


def identity(value: Value) -> object:
    """A hashable key for ``value``: two keys are equal if the values are equal by JSON Schema (1 is
    1.0, true is not 1). Numbers become texts, because an attacker could choose numbers with equal
    hashes."""
    if type(value) is str:
        return value
    if type(value) is int or (type(value) is float and value.is_integer()):
        return ("number", hex(int(value)))
    if type(value) is float and value == value:
        return ("number", value.hex())
    if type(value) is list:
        return ("array", tuple(map(identity, value)))
    if type(value) is dict:
        return ("object", frozenset((key, identity(part)) for key, part in value.items()))
    return value if value is None or type(value) is bool else ("opaque", id(value))


def _step(path: str, name: str) -> str:
    """``path`` with one more field."""
    if not name.isidentifier():
        return f"{path}[{json.dumps(name, ensure_ascii=False)}]"
    return f"{path}.{name}" if path else name


def shown_value(value: Value) -> str:
    """The words for a value in a message: ``text 'yes'``, ``the number 3``, ``true``, ``a
    list``."""
    if type(value) is str:
        shortened = value if len(value) <= 40 else value[:39] + "…"
        return f"text {shortened!r}" if value else "empty text"
    if type(value) is bool:
        return str(value).lower()
    if type(value) is int:
        return f"the number {value}" if value.bit_length() < 200 else "a very large number"
    if type(value) is float:
        return f"the number {value}" if value - value == 0 else str(value)
    if type(value) is dict and not all(type(key) is str for key in value):
        return "a dict whose keys are not all text"
    return type_name(value)


DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(
    schema: Schema, schemas: Mapping[str, Schema], *, all_required: bool = False
) -> dict[str, Any]:
    """The JSON Schema of ``schema`` and of the schemas to which it refers. ``all_required``:
    whether all fields are required, as models need it (decision P7); default False."""
    referred, missing = resolve([schema.name], {**schemas, schema.name: schema})
    del referred[schema.name]  # a schema cannot refer to itself
    defs: dict[str, Any] = {
        name: _object_schema(referred_schema.fields, all_required)
        for name, referred_schema in referred.items()
    }
    # No value conforms to a reference to an unknown schema.
    defs |= dict.fromkeys((ref.schema for ref in missing), False)
    whole = {"$schema": DRAFT, "title": schema.name, **_object_schema(schema.fields, all_required)}
    return {**whole, "$defs": defs} if defs else whole


def _object_schema(fields: Mapping[str, Field], all_required: bool) -> dict[str, Any]:
    properties = {name: _field_schema(expected, all_required) for name, expected in fields.items()}
    required = [name for name, expected in fields.items() if all_required or expected.required]
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
    }


def _field_schema(expected: Field, all_required: bool) -> dict[str, Any]:
    match expected.kind:
        case "object":
            return _object_schema(expected.fields, all_required)
        case "list" if expected.of is not None:
            return {"type": "array", "items": _field_schema(expected.of, all_required)}
        case "enum":
            return {"enum": list(expected.values)}
        case "ref":
            return {
                "$ref": "#/$defs/" + quote(expected.schema.replace("~", "~0").replace("/", "~1"))
            }
    bounds = {"minimum": expected.minimum, "maximum": expected.maximum}
    more = {key: bound for key, bound in bounds.items() if bound is not None}
    return {"type": _TYPE_OF[expected.kind], **more}


def references(fields: Mapping[str, Field]) -> Iterator[Field]:
    """All refs in ``fields``, nested ones included, in the order of the text."""
    for inner_field in fields.values():
        # A loop instead of recursion, because lists of lists may nest as deeply as a text allows.
        while inner_field.of is not None:
            inner_field = inner_field.of
        if inner_field.kind == "ref":
            yield inner_field
        yield from references(inner_field.fields)


def resolve(
    names: Iterable[str], schemas: Mapping[str, Schema]
) -> tuple[dict[str, Schema], list[Field]]:
    """The schemas with these names and all schemas to which they refer; and the refs to undeclared
    schemas."""
    reached = {name: schemas[name] for name in names}
    missing = list[Field]()
    queue = list(reached)
    for referring in queue:  # the queue grows as schemas refer to others
        for ref in references(schemas[referring].fields):
            if ref.schema not in schemas:
                missing.append(ref)
            elif ref.schema not in reached:
                reached[ref.schema] = schemas[ref.schema]
                queue.append(ref.schema)
    return reached, missing


def cycle(schemas: Mapping[str, Schema]) -> list[str] | None:
    """The first cycle of schemas that refer to each other, its first name repeated at the end:
    ``[A, B, A]``; None: there is no cycle."""
    after = dict[str, list[str]]()
    for name, schema in schemas.items():
        after[name] = [ref.schema for ref in references(schema.fields)]
    return first_cycle(after)


def first_cycle(after: Mapping[T, Iterable[T]]) -> list[T] | None:
    """The first cycle of a graph, its first key repeated at the end; None: there is no cycle.
    ``after``: the successors of each key."""
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        cycle: list[T] = error.args[1][:0:-1]  # graphlib lists the cycle backwards
        first = cycle.index(next(key for key in after if key in cycle))
        return [*cycle[first:], *cycle[: first + 1]]
    return None


def _first_ref(schema: Schema, name: str) -> Field:
    """The first ref of ``schema`` to the schema ``name``."""
    return next(ref for ref in references(schema.fields) if ref.schema == name)


def check_schemas(schemas: Mapping[str, Schema], problems: Diagnostics) -> None:
    """Report a cycle of schemas as an error at its first ref."""
    chain = cycle(schemas)
    if chain is None:
        return
    refs = [_first_ref(schemas[name], next_name) for name, next_name in pairwise(chain)]
    related = tuple((f"refers to {ref.schema!r}", ref.span) for ref in refs[1:] if ref.span)
    message = f"schemas cannot refer to each other in a cycle: {' → '.join(chain)}"
    problems.add(
        Diagnostic(
            "schema.cycle", message, refs[0].span, "remove one of the references", related=related
        )
    )
