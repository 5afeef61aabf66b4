"""The shape of a value as far as the text determines it: of a schema, a literal, an expression.

None is an unknown shape, for which no check may report anything. Unlike a schema, a shape lists the
few possible values (true and false, an enum's, ``'OK' or 'NO'``), because they decide labels and
comparisons.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import NamedTuple

from ..text.diagnostics import Diagnostic, suggest
from ..text.source import Span
from .schemas import Field, Schema
from .values import NAMES, Value, is_true

FEW = 50
"""The maximum number of values in a shape; for more it has only their kind."""

_KINDS: Mapping[type, str] = {
    str: "text",
    int: "number",
    float: "number",
    bool: "bool",
    type(None): "null",
    list: "list",
    dict: "object",
}
_WORDS = {
    "text": "text",
    "number": "a number",
    "bool": NAMES[bool],
    "null": "null",
    "list": "a list",
    "object": "an object",
}
_WORD = re.compile(r"[^\s.'\"]+")
_OF_FIELD = {"string": "text", "number": "number", "list": "list", "object": "object"}


class Shape(NamedTuple):
    """A value as far as it is known. A NamedTuple: checking a definition creates thousands."""

    kinds: frozenset[str]
    values: tuple[Value, ...] | None = None
    """All possible values, if they are few."""
    of: Shape | None = None
    """The elements of a list."""
    fields: Mapping[str, Shape | None] = MappingProxyType({})
    """The fields of an object."""
    closed: bool = False
    """Whether an object has no other fields. A schema's object may have some: they conform, so
    reading one is only suspicious (decision P25)."""
    optional: frozenset[str] = frozenset()
    """Fields that may be absent."""

    @property
    def declares(self) -> bool:
        """Whether it is an object whose fields are known."""
        return self.closed or bool(self.fields)

    def __str__(self) -> str:
        return " or ".join(_WORDS[kind] for kind in _WORDS if kind in self.kinds)


_PLAIN = {name: Shape(frozenset({name})) for name in _WORDS}
BOOL, _TRUE, _FALSE = (
    Shape(frozenset({"bool"}), values) for values in ((False, True), (True,), (False,))
)
TEXT, NUMBER = _PLAIN["text"], _PLAIN["number"]


def list_of(element: Shape | None) -> Shape:
    return Shape(frozenset({"list"}), of=element)


def literal(value: Value) -> Shape | None:
    """The shape of a literal."""
    word = _KINDS.get(type(value))
    if word == "list":
        return list_of(either(map(literal, value)) if 0 < len(value) <= FEW else None)
    if word == "object":
        return Shape(
            frozenset({"object"}),
            fields={key: literal(inner) for key, inner in value.items()},
            closed=True,
        )
    return Shape(frozenset({word}), (value,)) if word else None


def of_schema(schema: Schema, schemas: Mapping[str, Schema]) -> Shape:
    return _of_fields(schema.fields, schemas)


def _of_fields(fields: Mapping[str, Field], schemas: Mapping[str, Schema]) -> Shape:
    optional = frozenset(name for name, wanted in fields.items() if not wanted.required)
    shapes = {name: _of_field(wanted, schemas) for name, wanted in fields.items()}
    return Shape(frozenset({"object"}), fields=shapes, optional=optional)


def _of_field(wanted: Field, schemas: Mapping[str, Schema]) -> Shape | None:
    if wanted.kind == "bool":
        return BOOL
    if wanted.kind == "enum":
        return either(map(literal, wanted.values))
    if wanted.kind == "ref":
        return (
            _of_fields(schemas[wanted.schema].fields, schemas) if wanted.schema in schemas else None
        )
    if wanted.kind == "object":
        return _of_fields(wanted.fields, schemas)
    if wanted.kind == "list":
        return list_of(_of_field(wanted.of, schemas) if wanted.of else None)
    return _PLAIN[_OF_FIELD[wanted.kind]]


def either(shapes: Iterable[Shape | None]) -> Shape | None:
    """The shape of a value with one of ``shapes``; None if one of them is unknown or there are
    none."""
    found = list(shapes)
    if not found or None in found:
        return None
    return reduce(_join, [shape for shape in found if shape is not None])


def _join(a: Shape, b: Shape) -> Shape:
    if a is b or a == b:
        return a
    values = None if a.values is None or b.values is None else (*a.values, *b.values)
    if values is not None and len(values) > FEW:
        values = None
    of = a.of if a.of == b.of else None
    fields, optional = dict[str, Shape | None](), frozenset[str]()
    if a.declares and b.declares:  # else a field may be there that one of them does not name
        fields = {
            name: either(shape.fields[name] for shape in (a, b) if name in shape.fields)
            for name in (*a.fields, *b.fields)
        }
        optional = a.optional | b.optional | (a.fields.keys() ^ b.fields.keys())
    return Shape(a.kinds | b.kinds, values, of, fields, a.closed and b.closed, optional)


def truthy(shape: Shape) -> Shape | None:
    """The part of ``shape`` that is true; None: nothing."""
    return _TRUE if shape is BOOL else _keep(shape, True)


def falsy(shape: Shape) -> Shape | None:
    """The part of ``shape`` that is false; None: nothing."""
    return _FALSE if shape is BOOL else _keep(shape, False)


def _keep(shape: Shape, wanted: bool) -> Shape | None:
    if shape.values is None:
        kinds = shape.kinds - {"null"} if wanted else shape.kinds
        return (
            Shape(kinds, None, shape.of, shape.fields, shape.closed, shape.optional)
            if kinds
            else None
        )
    values = tuple(value for value in shape.values if is_true(value) is wanted)
    return Shape(frozenset(_KINDS[type(value)] for value in values), values) if values else None


class PathFault(NamedTuple):
    """A path to a field that does not exist, or may be absent."""

    name: str
    left: int
    """The number of names after it in the path."""
    within: Shape
    """The shape without the field."""

    def told(self, span: Span, certain: bool) -> Diagnostic:
        """``span``: the whole path; ``certain``: whether every evaluation reads it."""
        words = list(_WORD.finditer(span.text))
        if len(words) > self.left:
            word = words[-1 - self.left]
            span = span.locate(word.start(), word.end())
        if self.name in self.within.optional:
            message = f"{self.name!r} may be absent"
            hint = "mark it required: true in its schema, or give a default"
            return Diagnostic("flow.maybe-absent", message, span, hint, "note")
        message, near = (
            f"unknown field {self.name!r}",
            suggest(self.name, self.within.fields, "its fields"),
        )
        if "object" not in self.within.kinds:
            message = f"{self.within} has no field {self.name!r}"
        fails = certain and (self.within.closed or "object" not in self.within.kinds)
        return Diagnostic("flow.schema-field", message, span, near, "error" if fails else "warning")


Found = tuple[Shape | None, PathFault | None]
Look = Callable[[tuple[str, ...]], Found]
"""The shape at a path of the frame, and the fault of the path."""


def descend(shape: Shape | None, path: tuple[str, ...]) -> Found:
    """The shape at ``path`` in a value of ``shape``, and the fault of the path."""
    fault: PathFault | None = None
    for index, name in enumerate(path):
        if shape is None or (len(shape.kinds) > 1 and "object" in shape.kinds):
            return None, fault
        left = len(path) - index - 1
        if "object" not in shape.kinds or (shape.declares and name not in shape.fields):
            return None, PathFault(name, left, shape)
        if name in shape.optional and fault is None:
            fault = PathFault(name, left, shape)
        shape = shape.fields.get(name)
    return shape, fault
