"""Describes the violations of a JSON Schema in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from ..values.value import Value
from .json_schema import Violation
from .keywords import unnamed
from .sample import resolve_pointer
from .schema import TYPE_NAMES, shown_value

EACH = "[]"
"""The word for every element of a list, in a path of fields."""

_SAYS_MORE = frozenset({"$ref", "anyOf", "oneOf", "allOf", "if", "patternProperties"})
"""The keywords besides ``properties`` that may allow fields."""


def lacking(
    schema: Mapping[str, Any] | None, fields: Sequence[str]
) -> tuple[int, tuple[str, ...]] | None:
    """The index of the first of ``fields`` that ``schema`` does not have, and the fields that the
    schema has in that place; None if it has all.

    Only ``properties`` decide; a schema with other keywords for fields may have any field.

    >>> lacking({"properties": {"a": {"items": {"properties": {"b": {}}}}}}, ["a", "[]", "c"])
    (2, ('b',))
    """
    part: Any = schema
    for index, name in enumerate(fields):
        part = resolve_reference(schema, part)
        if not isinstance(part, Mapping):
            return None
        if name == EACH:
            part = part.get("items")
            continue
        properties = part.get("properties")
        if not isinstance(properties, Mapping) or not properties or part.keys() & _SAYS_MORE:
            return None
        if name not in properties:
            return index, tuple(properties)
        part = properties[name]
    return None


def resolve_reference(root: Any, part: Any) -> Any:
    """The schema of ``root`` to which ``part`` refers; ``part`` itself if it has keywords for
    fields."""
    # Only a few references are followed, because two that refer to each other never end.
    for _ in range(20):
        field_keywords = {*_SAYS_MORE, "properties"}
        is_only_ref = isinstance(part, Mapping) and part.keys() & field_keywords == {"$ref"}
        if not is_only_ref or not str(part["$ref"]).startswith("#/"):
            break
        part = resolve_pointer(root, part["$ref"])
    return part


def describe(violation: Violation) -> str:
    """The words for a violation, without its place.

    >>> describe(Violation((), "type", ["string", "null"], 3))
    'needs text or null, not the number 3'
    """
    describe_one = _DESCRIBE.get(violation.keyword)
    if describe_one is None:
        return f"does not satisfy {violation.keyword}: {shown_choice(violation.wanted)}"
    return describe_one(violation)


DESCRIBED = 5
"""The number of violations that one line describes; the others are counted."""


def describe_all(violations: Iterable[Violation]) -> str:
    """The words for violations in one line, each with its place.

    >>> missing = Violation((), "required", ["id"], {}, rule={"required": ["id"]})
    >>> describe_all([Violation(("items", 0), "minimum", 1, 0), missing])
    "items[0]: needs at least 1, not the number 0; 'id' is missing"
    """
    described = (
        f"{place(leaf.path)}: {describe(leaf)}" if leaf.path else describe(leaf)
        for violation in violations
        for leaf in leaves(violation)
    )
    lines = list(dict.fromkeys(described))
    more = f"; and {len(lines) - DESCRIBED} more" if len(lines) > DESCRIBED else ""
    return "; ".join(lines[:DESCRIBED]) + more


def place(path: Iterable[str | int]) -> str:
    """``items[0].id``"""
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in path
    ).removeprefix(".")


def leaves(violation: Violation) -> Iterator[Violation]:
    """The violations to describe: those of the most likely alternative of ``violation``, or
    ``violation`` itself if it has no alternatives."""
    alternatives = [
        alternative
        for alternative in violation.within
        if not any(_is_about_type(inner, violation) for inner in alternative)
    ]
    if not alternatives:  # there are no alternatives, or none of them has the type of the value
        yield violation
        return
    # The most likely alternative is the one that fails deepest inside the value.
    for inner in max(alternatives, key=_depth):
        yield from leaves(inner)


def _is_about_type(inner: Violation, outer: Violation) -> bool:
    """Whether ``inner`` refuses the type of the value that ``outer`` is about."""
    return inner.keyword == "type" and inner.path == outer.path


def _depth(violations: Iterable[Violation]) -> int:
    return max(len(violation.path) for violation in violations)


def missing(violation: Violation) -> list[str]:
    """The required names that are absent."""
    return [name for name in violation.wanted if name not in violation.found]


def kinds(allowed: Any) -> str:
    """The types that a schema allows, in words: ``text or null``."""
    types = [allowed] if isinstance(allowed, str) else allowed
    names = [TYPE_NAMES.get(name, str(name)) for name in types]
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else "".join(names)


def shown_choice(value: Value) -> str:
    """A value that a schema lists, in words."""
    if isinstance(value, list):
        more = f" and {len(value) - 20} more" if len(value) > 20 else ""
        return ", ".join(map(shown_choice, value[:20])) + more
    return shown_value(value).removeprefix("text ").removeprefix("the number ")


def _missing_field(violation: Violation) -> str:
    names = missing(violation)
    return f"{', '.join(map(repr, names))} {'is' if len(names) == 1 else 'are'} missing"


def wanted_types(violation: Violation) -> list[str]:
    """The types that the schema allows, if the value has none of them."""
    alternatives = violation.within if violation.keyword != "type" else ((violation,),)
    about_type = [m for m in chain(*alternatives) if _is_about_type(m, violation)]
    types = [[m.wanted] if isinstance(m.wanted, str) else m.wanted for m in about_type]
    return list(dict.fromkeys(chain(*types))) if len(types) == len(alternatives) else []


def _either(violation: Violation) -> str:
    """The words for a value that matches none of several alternatives, or more than one."""
    if types := wanted_types(violation):
        return _not(violation, kinds(types))
    count = "none" if violation.within else "more than one"
    return f"matches {count} of the {len(violation.wanted)} alternatives"


def _not(violation: Violation, expected: str) -> str:
    return f"needs {expected}, not {shown_value(violation.found)}"


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}{'s' * (number != 1)}"


_DESCRIBE: Mapping[str, Callable[[Violation], str]] = {
    "type": lambda m: _not(m, kinds(m.wanted)),
    "required": _missing_field,
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
