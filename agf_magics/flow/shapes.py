"""What a value looks like as far as a text tells: the shape behind a schema, a literal, an expression.

None is what nobody knows; everything here is sound for it. A shape is not a schema: it keeps the few values that
something can have (true and false, an enum's, ``'OK' or 'NO'``), because they decide labels and comparisons.
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
"""Values that are followed one by one; more of them are only a kind."""

KINDS: Mapping[type, str] = {
    str: "text", int: "number", float: "number", bool: "bool", type(None): "null", list: "list", dict: "object",
}  # fmt: skip
WORDS = {"text": "text", "number": "a number", "bool": NAMES[bool], "null": "null", "list": "a list",
         "object": "an object"}  # fmt: skip
_WORD = re.compile(r"[^\s.'\"]+")
_OF_FIELD = {"string": "text", "number": "number", "list": "list", "object": "object"}


class Shape(NamedTuple):
    """What is known of a value. A NamedTuple: checking a definition makes thousands."""

    kinds: frozenset[str]
    values: tuple[Value, ...] | None = None
    """All it can be, when they are few."""
    of: Shape | None = None
    """A list's elements."""
    fields: Mapping[str, Shape | None] = MappingProxyType({})
    """An object's."""
    closed: bool = False
    """Whether an object has no other fields."""
    optional: frozenset[str] = frozenset()
    """The fields that may be absent."""

    def __str__(self) -> str:
        return " or ".join(WORDS[kind] for kind in WORDS if kind in self.kinds)


_PLAIN = {name: Shape(frozenset({name})) for name in WORDS}
BOOL, _TRUE, _FALSE = (Shape(frozenset({"bool"}), values) for values in ((False, True), (True,), (False,)))
TEXT, NUMBER = _PLAIN["text"], _PLAIN["number"]


def list_of(element: Shape | None) -> Shape:
    return Shape(frozenset({"list"}), of=element)


def literal(value: Value) -> Shape | None:
    """The shape of a value that is written down."""
    word = KINDS.get(type(value))
    if word == "list":
        return list_of(either(map(literal, value)) if 0 < len(value) <= FEW else None)
    if word == "object":
        return Shape(frozenset({"object"}), fields={key: literal(inner) for key, inner in value.items()}, closed=True)
    return Shape(frozenset({word}), (value,)) if word else None


def of_schema(schema: Schema, schemas: Mapping[str, Schema]) -> Shape:
    return _of_fields(schema.fields, schemas)


def _of_fields(fields: Mapping[str, Field], schemas: Mapping[str, Schema]) -> Shape:
    optional = frozenset(name for name, wanted in fields.items() if not wanted.required)
    shapes = {name: _of_field(wanted, schemas) for name, wanted in fields.items()}
    return Shape(frozenset({"object"}), fields=shapes, closed=True, optional=optional)


def _of_field(wanted: Field, schemas: Mapping[str, Schema]) -> Shape | None:
    if wanted.kind == "bool":
        return BOOL
    if wanted.kind == "enum":
        return either(map(literal, wanted.values))
    if wanted.kind == "ref":
        return _of_fields(schemas[wanted.schema].fields, schemas) if wanted.schema in schemas else None
    if wanted.kind == "object":
        return _of_fields(wanted.fields, schemas)
    if wanted.kind == "list":
        return list_of(_of_field(wanted.of, schemas) if wanted.of else None)
    return _PLAIN[_OF_FIELD[wanted.kind]]


def either(shapes: Iterable[Shape | None]) -> Shape | None:
    """What is one of ``shapes``; None when one of them is unknown or there are none."""
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
    return Shape(a.kinds | b.kinds, values, of)


def truthy(shape: Shape) -> Shape | None:
    """What of ``shape`` is true; None: nothing."""
    return _TRUE if shape is BOOL else _keep(shape, True)


def falsy(shape: Shape) -> Shape | None:
    """What of ``shape`` is false; None: nothing."""
    return _FALSE if shape is BOOL else _keep(shape, False)


def _keep(shape: Shape, wanted: bool) -> Shape | None:
    if shape.values is None:
        kinds = shape.kinds - {"null"} if wanted else shape.kinds
        return Shape(kinds, None, shape.of, shape.fields, shape.closed, shape.optional) if kinds else None
    values = tuple(value for value in shape.values if is_true(value) is wanted)
    return Shape(frozenset(KINDS[type(value)] for value in values), values) if values else None


class Fault(NamedTuple):
    """A path that leads nowhere, or perhaps nowhere."""

    name: str
    left: int
    """How many names of the path come after it."""
    within: Shape
    """What should have a field of that name."""
    surely: bool
    """False: the field is declared, and may be absent."""

    def told(self, span: Span, certain: bool) -> Diagnostic:
        """``span``: the whole path as written; ``certain``: whether it is read in every evaluation."""
        words = list(_WORD.finditer(span.text))
        if len(words) > self.left:
            word = words[-1 - self.left]
            span = span.locate(word.start(), word.end())
        if not self.surely:
            message, hint = f"{self.name!r} may be absent", "mark it required: true in its schema, or give a default"
            return Diagnostic("flow.maybe-absent", message, span, hint, "note")
        message, near = f"there is no field {self.name!r}", suggest(self.name, self.within.fields, "its fields")
        if "object" not in self.within.kinds:
            message = f"{self.within} has no fields, so no {self.name!r}"
        return Diagnostic("flow.schema-field", message, span, near, "error" if certain else "warning")


Found = tuple[Shape | None, Fault | None]
Look = Callable[[tuple[str, ...]], Found]
"""What stands at a path of the frame, and what is wrong with the path."""


def descend(shape: Shape | None, path: tuple[str, ...]) -> Found:
    """What stands at ``path`` in something of ``shape``."""
    doubt: Fault | None = None
    for index, name in enumerate(path):
        if shape is None or (len(shape.kinds) > 1 and "object" in shape.kinds):
            return None, doubt
        left = len(path) - index - 1
        if "object" not in shape.kinds or (shape.closed and name not in shape.fields):
            return None, Fault(name, left, shape, True)
        if name in shape.optional and doubt is None:
            doubt = Fault(name, left, shape, False)
        shape = shape.fields.get(name)
    return shape, doubt
