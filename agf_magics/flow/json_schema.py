"""Whether a value conforms to the JSON Schema of a document or a function, the differences in
words, and whether a schema has the fields that a text reads of a value.

The library jsonschema decides, with other keywords (`keywords`) for those that would
run a supplied pattern with Python's `re`, or take quadratic time. Of alternatives (``anyOf``, ``oneOf``)
the most likely one is described: the one that matches deepest into the value.

Keywords of JSON Schema that replace those of the library.

There are four reasons: RE2 matches supplied patterns, never Python's `re` (decision D5); comparing
all elements takes linear time; the number of schemas applied to one value is bounded (a ``$ref`` to
an ``allOf`` of two ``$ref``, thirty levels deep, is a billion); and an opaque value is equal only
to itself (decision A1), while the library calls its ``==``, for which a ``Decimal`` is a JSON
number and a table has no answer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from ..text.late_imports import installed_only
from .schemas import JSON_TYPES as JSON_TYPES
from .schemas import TYPE_NAMES as TYPE_NAMES
from .schemas import identity, pointed, shown_value
from .values import Value

if TYPE_CHECKING:
    from jsonschema import ValidationError
from collections.abc import Set
from contextvars import ContextVar
from typing import TypeAlias

from .patterns import searcher


class Violation(NamedTuple):
    """One difference between a value and a JSON Schema."""

    path: tuple[str | int, ...]
    """The place in the value: ``("items", 0, "id")``."""
    keyword: str
    """``type``, ``required``, …; ``false`` for the schema ``false``; ``$ref`` for a reference to
    nothing or an endless one, ``unusable`` for a schema that cannot be applied."""
    wanted: Any
    """The keyword's value."""
    found: Value
    within: tuple[tuple[Violation, ...], ...] = ()
    """Of an ``anyOf`` or ``oneOf``: the violations of each alternative."""
    rule: Mapping[str, Any] = {}
    """The object of the schema that has the keyword."""


def judge(
    schema: Mapping[str, Any] | bool, root: Mapping[str, Any] | bool | None = None
) -> Callable[[Value], list[Violation]]:
    """A function that returns all differences between a value and ``schema``. It never raises.

    ``root`` is the schema with the ``$defs`` of ``schema``; defaults to ``schema`` itself.

    >>> [(m.path, m.keyword) for m in judge({"items": {"type": "string"}})(["a", 3])]
    [((1,), 'type')]
    """
    rule = schema if isinstance(schema, Mapping) else {}
    whole = schema if root is None else root

    @cache
    def validator() -> Any:
        with installed_only():
            from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

        # The library's own registry would open a connection for a remote reference (decision A20).
        return _validator()(whole, registry=REGISTRY).evolve(schema=schema)

    def violations(value: Value) -> list[Violation]:
        token = budget.set(Allowance(value))
        try:
            return sorted(
                map(_violation, validator().iter_errors(value)),
                key=lambda violation: [*map(str, violation.path)],
            )
        except RecursionError:
            return [Violation((), "$ref", None, value, rule=rule)]
        # A foreign schema may have an unknown type, a number that is text, …
        except Exception as error:
            with installed_only():  # here: each value would wait for it
                from referencing.exceptions import Unresolvable

            if not isinstance(error, Unresolvable):
                return [Violation((), "unusable", _reason(error), value, rule=rule)]
            reference = f"#{error.ref}" if error.ref.startswith("/") else error.ref
            return [Violation((), "$ref", reference, value, rule=rule)]
        finally:
            budget.reset(token)

    return violations


def _reason(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]


def schema_violations(schema: Mapping[str, Any]) -> list[Violation]:
    """Why ``schema`` is not a valid JSON Schema."""
    return judge(_validator().META_SCHEMA)(schema)


@cache
def _validator() -> Any:
    library = _library()
    draft = library.Draft202012Validator
    # Ours: a value that is not JSON has no type (decision A1).
    types = library.TypeChecker({name: partial(_is_type, of) for name, of in JSON_TYPES.items()})
    kind = library.validators.extend(
        draft, validators=keywords(draft.VALIDATORS), type_checker=types
    )
    descend, evolve = kind.descend, kind.evolve

    def evolve_ours(validator: Any, **changes: Any) -> Any:
        # For a part with ``$schema`` the library takes its own class, whose patterns have no bound.
        part = changes.get("schema")
        if isinstance(part, dict) and "$schema" in part:
            changes["schema"] = {word: rule for word, rule in part.items() if word != "$schema"}
        return evolve(validator, **changes)

    kind.evolve = evolve_ours

    # For the schema ``false`` the library gives no path.
    kind.descend = lambda validator, instance, schema, *place, **places: descend(
        validator, instance, NEVER if schema is False else schema, *place, **places
    )
    return kind


def _library() -> Any:
    """The library jsonschema.

    In JupyterLab's environment its import takes a second, of which nine tenths go into the grammar
    of the format ``iri``. Formats do not refuse a value here, so a function takes the grammar's
    place that reads it at its first use, by whoever uses that format (decision D62).
    """

    def is_valid_syntax(term: str, text: str) -> bool:
        with suppress(ImportError):  # the library does not check this format then
            import rfc3987_syntax  # type: ignore[import-untyped]

            return bool(rfc3987_syntax.is_valid_syntax(term, text))
        return True

    name = "rfc3987_syntax"
    with installed_only():
        is_late = {"jsonschema", name}.isdisjoint(sys.modules)
        if is_late:
            sys.modules[name] = ModuleType(name)
            sys.modules[name].__dict__["is_valid_syntax"] = is_valid_syntax
        try:
            import jsonschema
        finally:
            if is_late:
                del sys.modules[name]
    return jsonschema


def _is_type(of: Callable[[Value], bool], checker: object, value: Value) -> bool:
    return of(value)


def _violation(error: ValidationError) -> Violation:
    ways: dict[Any, list[Violation]] = {}
    for inner in error.context or ():
        # The path begins with the number of the alternative; it is empty for a `$ref` to `false`.
        ways.setdefault(inner.schema_path[0] if inner.schema_path else None, []).append(
            _violation(inner)
        )
    rule = error.schema if isinstance(error.schema, Mapping) else {}
    within = tuple(map(tuple, ways.values()))
    keyword = "false" if error.validator is None or rule == NEVER else str(error.validator)
    return Violation(
        tuple(error.absolute_path), keyword, error.validator_value, error.instance, within, rule
    )


NEVER: Mapping[str, Any] = {"not": {}}
"""The schema `false` as an object."""


EACH = "[]"
"""Every element of a list, in a path of fields."""

_SAYS_MORE = frozenset({"$ref", "anyOf", "oneOf", "allOf", "if", "patternProperties"})


def lacking(
    schema: Mapping[str, Any] | None, fields: Sequence[str]
) -> tuple[int, tuple[str, ...]] | None:
    """The index of the first of ``fields`` that ``schema`` does not have, and the fields that it
    has there.

    Only ``properties`` decide; a schema with other keywords for fields may have any field.

    >>> lacking({"properties": {"a": {"items": {"properties": {"b": {}}}}}}, ["a", "[]", "c"])
    (2, ('b',))
    """
    at: Any = schema
    for index, name in enumerate(fields):
        at = referred(schema, at)
        if not isinstance(at, Mapping):
            return None
        if name == EACH:
            at = at.get("items")
            continue
        properties = at.get("properties")
        if not isinstance(properties, Mapping) or not properties or at.keys() & _SAYS_MORE:
            return None
        if name not in properties:
            return index, tuple(properties)
        at = properties[name]
    return None


def referred(root: Any, at: Any) -> Any:
    """The target of a reference within the schema ``root``, if ``at`` says of fields nothing else."""
    # A few in a row: two references to each other never end.
    for _ in range(20):
        is_only = isinstance(at, Mapping) and at.keys() & {*_SAYS_MORE, "properties"} == {"$ref"}
        if not is_only or not str(at["$ref"]).startswith("#/"):
            break
        at = pointed(root, at["$ref"])
    return at


def describe(violation: Violation) -> str:
    """A violation without its place.

    >>> describe(Violation((), "type", ["string", "null"], 3))
    'needs text or null, not the number 3'
    """
    describe_one = _DESCRIBE.get(violation.keyword)
    return (
        describe_one(violation)
        if describe_one
        else f"does not satisfy {violation.keyword}: {shown_choice(violation.wanted)}"
    )


DESCRIBED = 5
"""Violations in one line; the others are counted."""


def describe_all(violations: Iterable[Violation]) -> str:
    """Violations in one line, each with its place.

    >>> missing = Violation((), "required", ["id"], {}, rule={"required": ["id"]})
    >>> describe_all([Violation(("items", 0), "minimum", 1, 0), missing])
    "items[0]: needs at least 1, not the number 0; 'id' is missing"
    """
    all_leaves = [leaf for violation in violations for leaf in leaves(violation)]
    lines = list(
        dict.fromkeys(
            f"{place(m.path)}: {describe(m)}" if m.path else describe(m) for m in all_leaves
        )
    )
    more = f"; and {len(lines) - DESCRIBED} more" if len(lines) > DESCRIBED else ""
    return "; ".join(lines[:DESCRIBED]) + more


def place(path: Iterable[str | int]) -> str:
    """``items[0].id``"""
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in path
    ).removeprefix(".")


def leaves(violation: Violation) -> Iterator[Violation]:
    """The violations to describe: those of the most likely alternative, else the violation
    itself."""
    ways = [
        way
        for way in violation.within
        if not any(m.keyword == "type" and m.path == violation.path for m in way)
    ]
    if not ways:  # it is no choice, or has none of the types
        yield violation
        return
    for inner in max(ways, key=lambda way: max(len(m.path) for m in way)):
        yield from leaves(inner)


def missing(violation: Violation) -> list[str]:
    """The required names that are absent."""
    return [name for name in violation.wanted if name not in violation.found]


def kinds(wanted: Any) -> str:
    names = [
        TYPE_NAMES.get(name, str(name))
        for name in ([wanted] if isinstance(wanted, str) else wanted)
    ]
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else "".join(names)


def shown_choice(value: Value) -> str:
    """A value of a schema."""
    if isinstance(value, list):
        return ", ".join(map(shown_choice, value[:20])) + (
            f" and {len(value) - 20} more" if len(value) > 20 else ""
        )
    return shown_value(value).removeprefix("text ").removeprefix("the number ")


def _required(violation: Violation) -> str:
    names = missing(violation)
    return f"{', '.join(map(repr, names))} {'is' if len(names) == 1 else 'are'} missing"


def wanted_types(violation: Violation) -> list[str]:
    """The types that a value may have, if it has none of them."""
    ways = violation.within if violation.keyword != "type" else ((violation,),)
    types = [
        [m.wanted] if isinstance(m.wanted, str) else m.wanted
        for way in ways
        for m in way
        if m.keyword == "type" and m.path == violation.path
    ]
    return list(dict.fromkeys(chain(*types))) if len(types) == len(ways) else []


def _either(violation: Violation) -> str:
    if types := wanted_types(violation):
        return _not(violation, kinds(types))
    return (
        f"matches {'none' if violation.within else 'more than one'} of the "
        f"{len(violation.wanted)} alternatives"
    )


def _not(violation: Violation, what: str) -> str:
    return f"needs {what}, not {shown_value(violation.found)}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


_DESCRIBE: Mapping[str, Callable[[Violation], str]] = {
    "type": lambda m: _not(m, kinds(m.wanted)),
    "required": _required,
    "anyOf": _either,
    "oneOf": _either,
    "enum": lambda m: _not(m, f"one of {shown_choice(m.wanted)}"),
    "const": lambda m: _not(m, shown_choice(m.wanted)),
    "minimum": lambda m: _not(m, f"at least {m.wanted}"),
    "maximum": lambda m: _not(m, f"at most {m.wanted}"),
    "exclusiveMinimum": lambda m: _not(m, f"more than {m.wanted}"),
    "exclusiveMaximum": lambda m: _not(m, f"less than {m.wanted}"),
    "minLength": lambda m: _not(
        m, f"text of at least {_count(m.wanted, 'letter')}" if m.wanted > 1 else "text"
    ),
    "maxLength": lambda m: _not(m, f"text of at most {_count(m.wanted, 'letter')}"),
    "pattern": lambda m: _not(m, f"text that matches {m.wanted}"),
    "minItems": lambda m: f"needs at least {_count(m.wanted, 'element')} and has {len(m.found)}",
    "maxItems": lambda m: f"needs at most {_count(m.wanted, 'element')} and has {len(m.found)}",
    "uniqueItems": lambda m: "has an element twice",
    "additionalProperties": lambda m: (
        f"has unknown fields: {', '.join(map(repr, unnamed(m.found, m.rule)))}"
    ),
    "false": lambda m: "is not allowed",
    "items": lambda m: (
        f"has {_count(len(m.found), 'element')}; {len(m.rule.get('prefixItems', ()))} are allowed"
    ),
    "unusable": lambda m: f"cannot be checked: its schema is not valid: {m.wanted}",
    "$ref": lambda m: (
        f"cannot be checked: its schema refers to "
        f"{f'{m.wanted!r}, which does not exist' if m.wanted else 'itself'}"
    ),
}


Errors: TypeAlias = Iterator[Any]
Keyword: TypeAlias = Callable[[Any, Any, Value, Mapping[str, Any]], Errors]
Reached: TypeAlias = set[str] | set[int]
Own: TypeAlias = Callable[[Any, Any, Mapping[str, Any]], Reached]

MOST_APPLIED = 20_000
"""Schemas applied to a value and its parts before its size is computed."""

MOST_PER_PART = 200
"""Schemas applied for each part of a larger value."""


DEEPEST_APPLIED = 100
"""Schemas applied inside each other. Python's own limit is higher, and there the library's maps,
which are in Rust, end with a panic."""


class TooCostly(Exception):
    """A schema takes more steps than the size of its value allows."""


class Allowance:
    """How many schemas may still be applied to a value."""

    def __init__(self, value: Value) -> None:
        self.value, self.left, self.whole = value, MOST_APPLIED, False
        self.depth = 0
        """Schemas that are being applied inside each other."""
        self.allowed: dict[int, Set[object]] = {}
        """The values of each list of an ``enum``, by its id: a list of them is checked by one."""

    def spend(self) -> None:
        self.left -= 1
        if self.left >= 0:
            return
        if self.whole:
            raise TooCostly("its alternatives and references apply too many schemas to one value")
        # The size is computed only for a value that needs it: nearly none does.
        self.whole, self.left = True, _parts(self.value) * MOST_PER_PART


budget: ContextVar[Allowance] = ContextVar("budget")
"""The budget of the current check."""


def _parts(value: Value) -> int:
    parts = [value]
    for part in parts:  # grows
        parts += part.values() if type(part) is dict else part if type(part) is list else ()
    return len(parts)


def _counted(keyword: Keyword) -> Keyword:
    def spending(validator: Any, wanted: Any, value: Value, schema: Mapping[str, Any]) -> Errors:
        spent = budget.get()
        spent.spend()
        # Before Python's own limit: see `DEEPEST_APPLIED`.
        if spent.depth == DEEPEST_APPLIED:
            raise RecursionError
        spent.depth += 1
        try:
            yield from keyword(validator, wanted, value, schema) or ()
        finally:
            spent.depth -= 1

    return spending


def _error(message: str) -> Any:
    from jsonschema import ValidationError

    return ValidationError(message)


def _pattern(validator: Any, wanted: str, value: Value, schema: Mapping[str, Any]) -> Errors:
    if validator.is_type(value, "string") and not searcher(wanted)(value):
        yield _error("does not match")


def _pattern_properties(
    validator: Any, wanted: Mapping[str, Any], value: Any, schema: Mapping[str, Any]
) -> Errors:
    if not validator.is_type(value, "object"):
        return
    for pattern, inner in wanted.items():
        search = searcher(pattern)
        for key in filter(search, value):
            yield from validator.descend(value[key], inner, path=key, schema_path=pattern)


def unnamed(value: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """The keys of ``value`` that neither ``properties`` nor ``patternProperties`` of ``schema``
    name."""
    named = schema.get("properties", {})
    searches = [searcher(pattern) for pattern in schema.get("patternProperties", {})]
    return [
        key for key in value if key not in named and not any(search(key) for search in searches)
    ]


def _additional_properties(
    validator: Any, wanted: Any, value: Any, schema: Mapping[str, Any]
) -> Errors:
    if not validator.is_type(value, "object"):
        return
    extra = unnamed(value, schema)
    if wanted is False:
        if extra:
            yield _error("has more properties")
    else:
        for key in extra:
            yield from validator.descend(value[key], wanted, path=key)


def _unevaluated(kind: str, reached_by: Own) -> Keyword:
    def keyword(validator: Any, wanted: Any, value: Any, schema: Mapping[str, Any]) -> Errors:
        if not validator.is_type(value, kind):
            return
        reached = _evaluated(
            validator,
            value,
            {k: v for k, v in schema.items() if not k.startswith("unev")},
            reached_by,
        )
        for key in value if kind == "object" else range(len(value)):
            if key not in reached and not _fits(validator, value[key], wanted):
                yield _error("has a part that no other keyword evaluates")
                return

    return keyword


def _fits(validator: Any, value: Value, schema: Any) -> bool:
    return next(validator.descend(value, schema), None) is None


def _evaluated(validator: Any, value: Any, schema: Any, reached_by: Own) -> set[Any]:
    """The keys or indexes of ``value`` that ``schema`` evaluates, itself or through schemas for the
    same value."""
    if not isinstance(schema, Mapping):
        return set()
    budget.get().spend()
    reached: set[Any] = set(reached_by(validator, value, schema))
    for within, inner in _applied(validator, value, schema):
        reached |= _evaluated(within, value, inner, reached_by)
    return reached


def _applied(validator: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """The schemas that ``schema`` applies to the same value, and to which it conforms."""
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
    # `if` evaluates too, but only where it holds.
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
        reached |= {
            index
            for index, element in enumerate(value)
            if _fits(validator, element, schema["contains"])
        }
    return reached


def _enum(validator: Any, wanted: list[Any], value: Value, schema: Mapping[str, Any]) -> Errors:
    allowed = budget.get().allowed
    if id(wanted) not in allowed:
        allowed[id(wanted)] = frozenset(map(identity, wanted))
    if identity(value) not in allowed[id(wanted)]:
        yield _error("is not one of the values")


def _const(validator: Any, wanted: Any, value: Value, schema: Mapping[str, Any]) -> Errors:
    if identity(value) != identity(wanted):
        yield _error("is not the value")


def _unique_items(validator: Any, wanted: bool, value: Any, schema: Mapping[str, Any]) -> Errors:
    if (
        wanted
        and validator.is_type(value, "array")
        and len({identity(element) for element in value}) < len(value)
    ):
        yield _error("has an element twice")


def keywords(library: Mapping[str, Keyword]) -> dict[str, Keyword]:
    """The keywords that replace those of ``library``."""
    applying = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas")
    return {
        **{word: _counted(library[word]) for word in applying},
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "unevaluatedProperties": _unevaluated("object", _own_keys),
        "unevaluatedItems": _unevaluated("array", _own_indexes),
        "enum": _enum,
        "const": _const,
        "uniqueItems": _unique_items,
    }
