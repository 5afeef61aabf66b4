"""Whether a value conforms to a JSON Schema, without the library jsonschema.

The library takes one to two seconds to import where JupyterLab is installed, and most values
conform. `conforms` makes a check that is True only where the library finds nothing. For everything
else (a value that does not conform, a keyword that is not in `KEYWORDS`, a schema that is not
valid) the library decides, and has the place and the words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from graphlib import TopologicalSorter
from typing import Any

from .json_schema_keywords import budget, identity, unnamed
from .patterns import searcher
from .values import Value

Check = Callable[[Any], bool]

JSON_TYPES: Mapping[str, Check] = {
    "string": lambda value: type(value) is str,
    "boolean": lambda value: type(value) is bool,
    "null": lambda value: value is None,
    "integer": lambda value: type(value) is int or (type(value) is float and value.is_integer()),
    "number": lambda value: type(value) is int or (type(value) is float and value - value == 0),
    "array": lambda value: type(value) is list,
    "object": lambda value: type(value) is dict and all(type(key) is str for key in value),
}
"""A value that is not JSON has none of these types (decision A1); 5.0 is an integer."""

ANNOTATIONS = frozenset(
    {
        "$comment",
        "$defs",
        "$schema",
        "default",
        "definitions",
        "deprecated",
        "description",
        "examples",
        "format",
        "title",
    }
)
"""Keywords that do not refuse a value."""


class _Undecided(Exception):
    """This module does not apply the schema."""


def conforms(schema: Any, root: Any) -> Check | None:
    """A function that is True for the values that conform to ``schema``, or None if the library
    must decide.

    The references of ``schema`` are resolved in ``root``. The function spends the current `budget`:
    it raises TooCostly when that is used up, and may raise RecursionError.
    """
    compiler = _Compiler(root)
    try:
        check = compiler.check_of(schema)
        compiler.applied.prepare()
        return check
    # ValueError: a pattern that RE2 refuses, or a circle.
    except (
        _Undecided,
        ValueError,
        RecursionError,
    ):
        return None


class _Compiler:
    def __init__(self, root: Any) -> None:
        self.root = root
        self.compiled: dict[int, list[Check]] = {}
        self.applied = TopologicalSorter[int]()
        """Which schemas are applied to the same value as another one: in a circle that never
        ends."""

    def check_of(self, schema: Any, outer: Any = None) -> Check:
        """The check of ``schema``; ``outer`` is the schema that applies it to the same value."""
        if outer is not None:
            self.applied.add(id(outer), id(schema))
        if type(schema) is bool:
            return lambda value: schema
        if not isinstance(schema, Mapping):
            raise _Undecided
        if id(schema) in self.compiled:  # a reference to a schema that contains it
            compiled = self.compiled[id(schema)]
            return lambda value: compiled[0](value)
        done = self.compiled[id(schema)] = []
        checks = [
            KEYWORDS[word](self, wanted, schema)
            for word, wanted in schema.items()
            if _decides(word)
        ]
        done.append(lambda value: all(check(value) for check in checks))
        return done[0]

    def named(self, schemas: Any) -> dict[str, Check]:
        if not isinstance(schemas, Mapping):
            raise _Undecided
        return {name: self.check_of(inner) for name, inner in schemas.items()}

    def ref(self, wanted: Any, schema: Any) -> Check:
        if (
            type(wanted) is not str
            or not (wanted == "#" or wanted.startswith("#/"))
            or "%" in wanted
            or "$id" in schema
        ):
            raise _Undecided
        target = self.root
        for part in wanted.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, Mapping) or key not in target or "$id" in target:
                raise _Undecided
            target = target[key]
        check = self.check_of(target, schema)

        def counted(value: Value) -> bool:
            budget.get().spend()
            return check(value)

        return counted

    def of_type(self, wanted: Any, schema: Any) -> Check:
        names = [wanted] if type(wanted) is str else _list(wanted)
        if not all(type(name) is str and name in JSON_TYPES for name in names):
            raise _Undecided
        checks = [JSON_TYPES[name] for name in names]
        return (
            checks[0] if len(checks) == 1 else lambda value: any(check(value) for check in checks)
        )

    def enum(self, wanted: Any, schema: Any) -> Check:
        allowed = set(map(identity, _list(wanted)))
        return lambda value: identity(value) in allowed

    def properties(self, wanted: Any, schema: Any) -> Check:
        checks = self.named(wanted)
        return _of_objects(
            lambda value: all(check(value[name]) for name, check in checks.items() if name in value)
        )

    def pattern_properties(self, wanted: Any, schema: Any) -> Check:
        checks = [(searcher(pattern), check) for pattern, check in self.named(wanted).items()]
        return _of_objects(
            lambda value: all(
                check(part)
                for name, part in value.items()
                for search, check in checks
                if search(name)
            )
        )

    def additional(self, wanted: Any, schema: Mapping[str, Any]) -> Check:
        check = self.check_of(wanted)
        return _of_objects(lambda value: all(check(value[name]) for name in unnamed(value, schema)))

    def required(self, wanted: Any, schema: Any) -> Check:
        names = _list(wanted)
        if not all(type(name) is str for name in names):
            raise _Undecided
        return _of_objects(lambda value: all(name in value for name in names))

    def items(self, wanted: Any, schema: Mapping[str, Any]) -> Check:
        check, first = self.check_of(wanted), len(_list(schema.get("prefixItems", [])))
        return lambda value: type(value) is not list or all(map(check, value[first:]))

    def prefix_items(self, wanted: Any, schema: Any) -> Check:
        checks = [self.check_of(inner) for inner in _list(wanted)]
        return lambda value: (
            type(value) is not list
            or all(check(inner) for check, inner in zip(checks, value, strict=False))
        )

    def pattern(self, wanted: Any, schema: Any) -> Check:
        if type(wanted) is not str:
            raise _Undecided
        search = searcher(wanted)
        return lambda value: type(value) is not str or search(value)

    def combined(self, wanted: Any, schema: Any, holds: Callable[[Iterable[bool]], bool]) -> Check:
        checks = [self.check_of(inner, schema) for inner in _list(wanted)]

        def check(value: Value) -> bool:
            budget.get().spend()
            return holds(check(value) for check in checks)

        return check

    def checked_by_if(self, wanted: Any, schema: Mapping[str, Any]) -> Check:
        return lambda value: True

    def negated(self, wanted: Any, schema: Any) -> Check:
        check = self.check_of(wanted, schema)
        return lambda value: not check(value)

    def conditional(self, wanted: Any, schema: Mapping[str, Any]) -> Check:
        condition = self.check_of(wanted, schema)
        then, other = (self.check_of(schema.get(word, True), schema) for word in ("then", "else"))

        def check(value: Value) -> bool:
            budget.get().spend()
            return then(value) if condition(value) else other(value)

        return check


def _decides(word: str) -> bool:
    if word in KEYWORDS:
        return True
    if word not in ANNOTATIONS:
        raise _Undecided
    return False


def _list(wanted: Any) -> Collection[Any]:
    if type(wanted) is not list:
        raise _Undecided
    return wanted


def _of_objects(check: Check) -> Check:
    is_object = JSON_TYPES["object"]
    return lambda value: not is_object(value) or check(value)


def _bound(kind: str, holds: Callable[[Any, Any], bool], size: Callable[[Any], Any] = len) -> Any:
    def keyword(compiler: _Compiler, wanted: Any, schema: Any) -> Check:
        if type(wanted) is not int and type(wanted) is not float:
            raise _Undecided
        is_kind = JSON_TYPES[kind]
        return lambda value: not is_kind(value) or holds(size(value), wanted)

    return keyword


def _at_least(size: Any, wanted: Any) -> bool:
    return bool(size >= wanted)


def _at_most(size: Any, wanted: Any) -> bool:
    return bool(size <= wanted)


def _itself(value: Any) -> Any:
    return value


KEYWORDS: Mapping[str, Callable[[_Compiler, Any, Any], Check]] = {
    "$ref": _Compiler.ref,
    "type": _Compiler.of_type,
    "enum": _Compiler.enum,
    "const": lambda compiler, wanted, schema: compiler.enum([wanted], schema),
    "properties": _Compiler.properties,
    "patternProperties": _Compiler.pattern_properties,
    "additionalProperties": _Compiler.additional,
    "required": _Compiler.required,
    "items": _Compiler.items,
    "prefixItems": _Compiler.prefix_items,
    "pattern": _Compiler.pattern,
    "allOf": lambda compiler, wanted, schema: compiler.combined(wanted, schema, all),
    "anyOf": lambda compiler, wanted, schema: compiler.combined(wanted, schema, any),
    "oneOf": lambda compiler, wanted, schema: compiler.combined(
        wanted, schema, lambda results: sum(results) == 1
    ),
    "not": _Compiler.negated,
    "if": _Compiler.conditional,
    "then": _Compiler.checked_by_if,
    "else": _Compiler.checked_by_if,
    "minLength": _bound("string", _at_least),
    "maxLength": _bound("string", _at_most),
    "minItems": _bound("array", _at_least),
    "maxItems": _bound("array", _at_most),
    "minProperties": _bound("object", _at_least),
    "maxProperties": _bound("object", _at_most),
    "minimum": _bound("number", _at_least, _itself),
    "maximum": _bound("number", _at_most, _itself),
    "exclusiveMinimum": _bound("number", lambda size, wanted: bool(size > wanted), _itself),
    "exclusiveMaximum": _bound("number", lambda size, wanted: bool(size < wanted), _itself),
}
"""The keywords that are applied here."""


# --- whether a schema is one ---

SUBSCHEMAS = frozenset({"additionalProperties", "items", "not", "if", "then", "else"})
NAMED_SUBSCHEMAS = frozenset({"properties", "patternProperties", "$defs", "definitions"})
LISTED_SUBSCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
TEXTS = frozenset({"title", "description", "$comment", "format"})
COUNTS = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}
)
NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})


def is_surely_a_schema(schema: Any, depth: int = 50) -> bool:
    """Whether ``schema`` surely conforms to the metaschema. False: the library must decide."""
    if type(schema) is bool:
        return True
    if type(schema) is not dict or depth == 0:
        return False
    return all(_is_surely_valid(word, wanted, depth - 1) for word, wanted in schema.items())


def _is_surely_valid(word: str, wanted: Any, depth: int) -> bool:
    if word in SUBSCHEMAS:
        return is_surely_a_schema(wanted, depth)
    if word in NAMED_SUBSCHEMAS:
        names = type(wanted) is dict and all(type(name) is str for name in wanted)
        return names and all(is_surely_a_schema(inner, depth) for inner in wanted.values())
    if word in LISTED_SUBSCHEMAS:
        return (
            type(wanted) is list
            and len(wanted) > 0
            and all(is_surely_a_schema(inner, depth) for inner in wanted)
        )
    if word == "type":
        return (
            wanted in JSON_TYPES
            if type(wanted) is str
            else _are_unique(wanted) and JSON_TYPES.keys() >= set(wanted) > set()
        )
    if word == "required":
        return _are_unique(wanted)
    if word in TEXTS:
        return type(wanted) is str
    if word in COUNTS:
        return type(wanted) is int and wanted >= 0
    if word in NUMBERS:
        return type(wanted) is int or type(wanted) is float
    return word in ("default", "const") or (word == "enum" and type(wanted) is list)


def _are_unique(wanted: Any) -> bool:
    return (
        type(wanted) is list
        and all(type(name) is str for name in wanted)
        and len(set(wanted)) == len(wanted)
    )
