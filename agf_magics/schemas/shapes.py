"""`Shape`, the type outline of a value as far as the text determines it before a run.

This module has the shapes of schemas and literals; `languages/pipeline/r1/infer.py` has those of
expressions. None is an unknown shape, for which no check may report anything. Unlike a schema, a
shape lists the possible values if they are few (true and false, the values of an enum, ``'OK' or
'NO'``), because they decide labels and comparisons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ..values.value import NAMES, Value, is_true
from .schema import Field, Schema

FEW = 50
"""The largest number of values that a shape lists; of more values it has only the kinds."""
FARTHEST = 20
"""The number of references of a schema that are followed one after another."""

_KINDS: Mapping[type, str] = {
    str: "text",
    int: "number",
    float: "number",
    bool: "bool",
    type(None): "null",
    list: "list",
    dict: "object",
}
"""The kind of a value, by its class."""
_WORDS = {
    "text": "text",
    "number": "a number",
    "bool": NAMES[bool],
    "null": "null",
    "list": "a list",
    "object": "an object",
}
"""The words for each kind, in the order in which a message lists them."""
_OF_FIELD = {"string": "text", "number": "number", "list": "list", "object": "object"}


class Shape(NamedTuple):
    """The known properties of a value. It is a NamedTuple for speed: checking a definition creates
    thousands."""

    kinds: frozenset[str]
    """The kinds that the value may have, keys of `_WORDS`."""
    values: tuple[Value, ...] | None = None
    """All possible values; None: they are many or unknown."""
    of: Shape | None = None
    """The shape of a list's elements; None: it is unknown, or the value is no list."""
    fields: Mapping[str, Shape | None] = MappingProxyType({})
    """The fields of an object."""
    closed: bool = False
    """Whether an object has no fields besides these. An object of a schema may have more, so
    reading an unknown field is only suspicious (decision P25)."""
    optional: frozenset[str] = frozenset()
    """The fields that may be absent."""

    @property
    def declares(self) -> bool:
        """Whether the value is an object whose fields are known."""
        return self.closed or bool(self.fields)

    def __str__(self) -> str:
        return " or ".join(_WORDS[kind] for kind in _WORDS if kind in self.kinds)


_PLAIN = {name: Shape(frozenset({name})) for name in _WORDS}
BOOL = Shape(frozenset({"bool"}), (False, True))
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


class SchemaShapes:
    """The shapes of the schemas of one flow. Each is computed once: schemas may refer to each other
    by many fields."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        self._schemas = schemas
        self._shapes: dict[str, Shape | None] = {}

    def of(self, name: str, depth: int = 0) -> Shape | None:
        """The shape of the schema ``name``; None if it is unknown or too many references away.
        ``depth``: the number of references that were followed."""
        if depth > FARTHEST or name not in self._schemas:
            return None
        if name not in self._shapes:
            self._shapes[name] = self._object(self._schemas[name].fields, depth)
        return self._shapes[name]

    def _object(self, fields: Mapping[str, Field], depth: int) -> Shape:
        optional = frozenset(name for name, field in fields.items() if not field.required)
        shapes = {name: self._field(field, depth) for name, field in fields.items()}
        return Shape(frozenset({"object"}), fields=shapes, optional=optional)

    def _field(self, field: Field, depth: int) -> Shape | None:
        match field.kind:
            case "bool":
                return BOOL
            case "enum":
                return either(map(literal, field.values))
            case "ref":
                return self.of(field.schema, depth + 1)
            case "object":
                return self._object(field.fields, depth)
            case "list":
                return list_of(self._field(field.of, depth) if field.of else None)
        return _PLAIN[_OF_FIELD[field.kind]]


def either(shapes: Iterable[Shape | None]) -> Shape | None:
    """The shape of a value that has one of ``shapes``; None if one of them is unknown, or if there
    are none."""
    whole: Shape | None = None
    for shape in shapes:
        if shape is None:
            return None
        whole = shape if whole is None else _join(whole, shape, True)
    return whole


def _join(a: Shape, b: Shape, deep: bool) -> Shape:
    """The shape of a value that has the shape ``a`` or ``b``. ``deep``: whether their parts are
    joined, too. They are joined one level deep only, since shapes may be recursive."""
    if a is b:
        return a
    values = None if a.values is None or b.values is None else (*a.values, *b.values)
    if values is not None and len(values) > FEW:
        values = None
    of = _join(a.of, b.of, False) if deep and a.of and b.of else None
    fields = dict[str, Shape | None]()
    optional = frozenset[str]()
    # otherwise the value may have fields that one shape does not name
    if deep and a.declares and b.declares:
        for name in (*a.fields, *b.fields):
            in_a = a.fields.get(name)
            in_b = b.fields.get(name)
            fields[name] = _join(in_a, in_b, False) if in_a and in_b else None
        optional = a.optional | b.optional | (a.fields.keys() ^ b.fields.keys())
    return Shape(a.kinds | b.kinds, values, of, fields, a.closed and b.closed and deep, optional)


def narrow(shape: Shape, truth: bool) -> Shape | None:
    """The part of ``shape`` whose values have this ``truth``; None if no value has it. (Elsewhere
    None is an unknown shape.)"""
    if shape.values is None:
        kinds = shape.kinds - {"null"} if truth else shape.kinds
        return shape._replace(kinds=kinds) if kinds else None
    values = tuple(value for value in shape.values if is_true(value) is truth)
    return Shape(frozenset(_KINDS[type(value)] for value in values), values) if values else None
