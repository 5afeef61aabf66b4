"""Our implementations of JSON Schema keywords, which replace those of the library jsonschema.

There are five reasons. RE2 matches supplied patterns, never Python's `re` (decision D5). Comparing
all elements takes linear time. The number of schemas applied to one value is bounded: a ``$ref`` to
an ``allOf`` of two ``$ref``, thirty levels deep, is a billion. A multiple is computed with the
numbers as they are written. And an opaque value is equal only to
itself (decision A1), while the library calls its ``==``, which treats a ``Decimal`` as a JSON
number and fails for a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from contextvars import ContextVar
from fractions import Fraction
from typing import Any, TypeAlias

from ..values.value import Value, parts_of
from .patterns import searcher
from .schema import identity

Errors: TypeAlias = Iterator[Any]
"""The errors of the library jsonschema."""
Keyword: TypeAlias = Callable[[Any, Any, Value, Mapping[str, Any]], Errors]
"""Checks a value by one keyword, as ``keyword(validator, rule, value, schema)``. ``rule``: the value
of the keyword in ``schema``."""
Reached: TypeAlias = set[str] | set[int]
"""Keys of an object, or indexes of a list."""
Own: TypeAlias = Callable[[Any, Any, Mapping[str, Any]], Reached]
"""Returns the parts of a value that a schema itself evaluates, as ``own(validator, value, schema)``."""

MOST_APPLIED = 20_000
"""The number of schemas that are applied to a value and its parts before its size is computed."""

MOST_PER_PART = 200
"""The number of schemas that may be applied for each part of a larger value."""


DEEPEST_APPLIED = 100
"""The largest number of schemas applied inside each other. Python's own recursion limit is higher,
but the library's maps, which are written in Rust, panic there."""


class TooCostly(Exception):
    """A schema takes more steps than the size of its value allows."""


class Allowance:
    """Counts the schemas that are applied to a value, and stops at the bound."""

    def __init__(self, value: Value) -> None:
        self.value = value
        self.left = MOST_APPLIED
        """The number of schemas that may still be applied."""
        self.whole = False
        """Whether the size of the value was added to `left`."""
        self.depth = 0
        """The number of schemas that are currently applied inside each other."""
        self.allowed: dict[int, Set[object]] = {}
        """The sets of values of the ``enum`` lists, by the list's id, computed once for all
        elements."""

    def spend(self) -> None:
        self.left -= 1
        if self.left >= 0:
            return
        if self.whole:
            raise TooCostly("its alternatives and references apply too many schemas to one value")
        # Nearly no value needs its size, so it is computed late.
        self.whole, self.left = True, _count_parts(self.value) * MOST_PER_PART


budget: ContextVar[Allowance] = ContextVar("budget")
"""The `Allowance` of the current check."""


def _count_parts(value: Value) -> int:
    """The number of parts of ``value``, itself included."""
    parts = [value]
    for part in parts:  # the list grows while it is read
        parts += parts_of(part)
    return len(parts)


def _count_spending(keyword: Keyword) -> Keyword:
    """``keyword``, which counts for the `Allowance` of the current check."""

    def spending(validator: Any, rule: Any, value: Value, schema: Mapping[str, Any]) -> Errors:
        spent = budget.get()
        spent.spend()
        # Stop before Python's own limit: see `DEEPEST_APPLIED`.
        if spent.depth == DEEPEST_APPLIED:
            raise RecursionError
        spent.depth += 1
        try:
            yield from keyword(validator, rule, value, schema) or ()
        finally:
            spent.depth -= 1

    return spending


def _error(message: str) -> Any:
    from jsonschema import ValidationError

    return ValidationError(message)


def _pattern(validator: Any, rule: str, value: Value, schema: Mapping[str, Any]) -> Errors:
    if validator.is_type(value, "string") and not searcher(rule)(value):
        yield _error("does not match")


def _pattern_properties(
    validator: Any, rule: Mapping[str, Any], value: Any, schema: Mapping[str, Any]
) -> Errors:
    if not validator.is_type(value, "object"):
        return
    for pattern, inner in rule.items():
        search = searcher(pattern)
        for key in filter(search, value):
            yield from validator.descend(value[key], inner, path=key, schema_path=pattern)


def unnamed(value: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """The keys of ``value`` that neither ``properties`` nor ``patternProperties`` of ``schema``
    name."""
    named = schema.get("properties", {})
    searches = [searcher(pattern) for pattern in schema.get("patternProperties", {})]

    def is_named(key: str) -> bool:
        return key in named or any(search(key) for search in searches)

    return [key for key in value if not is_named(key)]


def _additional_properties(
    validator: Any, rule: Any, value: Any, schema: Mapping[str, Any]
) -> Errors:
    if not validator.is_type(value, "object"):
        return
    extra = unnamed(value, schema)
    if rule is False:
        if extra:
            yield _error("has more properties")
    else:
        for key in extra:
            yield from validator.descend(value[key], rule, path=key)


def _unevaluated_keyword(kind: str, reached_by: Own) -> Keyword:
    """The keyword ``unevaluatedProperties`` (``kind`` is ``object``) or ``unevaluatedItems``
    (``array``). ``reached_by``: see `_evaluated_parts`."""

    def keyword(validator: Any, rule: Any, value: Any, schema: Mapping[str, Any]) -> Errors:
        if not validator.is_type(value, kind):
            return
        other_rules = {word: part for word, part in schema.items() if not word.startswith("unev")}
        reached = _evaluated_parts(validator, value, other_rules, reached_by)
        for key in value if kind == "object" else range(len(value)):
            if key not in reached and not _fits(validator, value[key], rule):
                yield _error("has a part that no other keyword evaluates")
                return

    return keyword


def _fits(validator: Any, value: Value, schema: Any) -> bool:
    return next(validator.descend(value, schema), None) is None


def _evaluated_parts(validator: Any, value: Any, schema: Any, reached_by: Own) -> set[Any]:
    """The keys or indexes of ``value`` that ``schema`` evaluates, directly or through schemas for
    the same value. ``reached_by``: returns those that one schema evaluates directly."""
    if not isinstance(schema, Mapping):
        return set()
    budget.get().spend()
    reached: set[Any] = set(reached_by(validator, value, schema))
    for within, inner in _applied_schemas(validator, value, schema):
        reached |= _evaluated_parts(within, value, inner, reached_by)
    return reached


def _applied_schemas(
    validator: Any, value: Any, schema: Mapping[str, Any]
) -> Iterator[tuple[Any, Any]]:
    """The subschemas that ``schema`` applies to the same value, and to which the value conforms."""
    for word in schema.keys() & {"$ref", "$dynamicRef"}:
        resolved = validator._resolver.lookup(schema[word])
        yield (
            validator.evolve(schema=resolved.contents, _resolver=resolved.resolver),
            resolved.contents,
        )
    for word in ("allOf", "anyOf", "oneOf"):
        yield from (
            (validator, inner) for inner in schema.get(word, ()) if _fits(validator, value, inner)
        )
    # `if` evaluates fields, too, but only if its schema holds.
    if "if" in schema:
        holds = _fits(validator, value, schema["if"])
        yield from (
            (validator, schema[word])
            for word in (("if", "then") if holds else ("else",))
            if word in schema
        )
    if type(value) is dict:
        for name, inner in schema.get("dependentSchemas", {}).items():
            if name in value:
                yield validator, inner


def _own_keys(validator: Any, value: dict[str, Any], schema: Mapping[str, Any]) -> set[str]:
    if schema.keys() & {"additionalProperties", "unevaluatedProperties"}:
        return set(value)  # these keywords evaluate all other keys
    return set(value) - set(unnamed(value, schema))


def _own_indexes(validator: Any, value: list[Any], schema: Mapping[str, Any]) -> set[int]:
    if schema.keys() & {"items", "unevaluatedItems"}:
        return set(range(len(value)))
    reached = set(range(len(schema.get("prefixItems", ()))))
    if "contains" in schema:
        contained = schema["contains"]
        fitting = (i for i, element in enumerate(value) if _fits(validator, element, contained))
        reached.update(fitting)
    return reached


def _enum(validator: Any, rule: list[Any], value: Value, schema: Mapping[str, Any]) -> Errors:
    allowed = budget.get().allowed
    if id(rule) not in allowed:
        allowed[id(rule)] = frozenset(map(identity, rule))
    if identity(value) not in allowed[id(rule)]:
        yield _error("is not one of the values")


def _const(validator: Any, rule: Any, value: Value, schema: Mapping[str, Any]) -> Errors:
    if identity(value) != identity(rule):
        yield _error("is not the value")


def _unique_items(validator: Any, rule: bool, value: Any, schema: Mapping[str, Any]) -> Errors:
    if not rule or not validator.is_type(value, "array"):
        return
    if len(set(map(identity, value))) < len(value):
        yield _error("has an element twice")


def exact(number: int | float) -> Fraction:
    """A finite number as it is written: as a binary float, 19.99 is no multiple of 0.01."""
    return Fraction(number if type(number) is int else repr(number))


def _multiple_of(
    validator: Any, rule: int | float, value: Any, schema: Mapping[str, Any]
) -> Errors:
    if validator.is_type(value, "number") and exact(value) % exact(rule):
        yield _error("is no multiple")


def keywords(library: Mapping[str, Keyword]) -> dict[str, Keyword]:
    """The keywords that replace those of ``library``."""
    applying = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas")
    return {
        **{word: _count_spending(library[word]) for word in applying},
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "unevaluatedProperties": _unevaluated_keyword("object", _own_keys),
        "unevaluatedItems": _unevaluated_keyword("array", _own_indexes),
        "enum": _enum,
        "const": _const,
        "uniqueItems": _unique_items,
        "multipleOf": _multiple_of,
    }
