"""The violations of a JSON Schema, which `json_schema.judge` finds, in words.

Of alternatives (``anyOf``, ``oneOf``) the most likely one is described: the one that matches
deepest into the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .json_schema import Violation
from .json_schema_keywords import unnamed
from .schemas import shown_value
from .values import Value

TYPE_NAMES: Mapping[str, str] = {
    "string": "text",
    "boolean": "true or false",
    "null": "null",
    "integer": "a whole number",
    "number": "a number",
    "array": "a list",
    "object": "an object",
}


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


def describe_all(violations: Iterable[Violation], most: int = 5) -> str:
    """Violations in one line, each with its place.

    >>> missing = Violation((), "required", ["id"], {}, rule={"required": ["id"]})
    >>> describe_all([Violation(("items", 0), "minimum", 1, 0), missing])
    "items[0]: needs at least 1, not the number 0; 'id' is missing"
    """
    found = [leaf for violation in violations for leaf in leaves(violation)]
    lines = list(
        dict.fromkeys(f"{place(m.path)}: {describe(m)}" if m.path else describe(m) for m in found)
    )
    return "; ".join(lines[:most]) + (
        f"; and {len(lines) - most} more" if len(lines) > most else ""
    )


def place(path: Iterable[str | int]) -> str:
    """``items[0].id``"""
    return "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in path
    ).removeprefix(".")


def leaves(violation: Violation) -> Iterator[Violation]:
    """The violations to describe: those of the most likely alternative, else the violation
    itself."""
    if violation.keyword in ("anyOf", "oneOf"):
        ways = [
            way
            for way in violation.within
            if not any(m.keyword == "type" and m.path == violation.path for m in way)
        ]
        if ways:  # else it has none of the types
            for inner in max(ways, key=lambda way: max(len(m.path) for m in way)):
                yield from leaves(inner)
            return
    yield violation


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


def _type(violation: Violation) -> str:
    return f"needs {kinds(violation.wanted)}, not {shown_value(violation.found)}"


def _required(violation: Violation) -> str:
    names = missing(violation)
    return f"{', '.join(map(repr, names))} {'is' if len(names) == 1 else 'are'} missing"


def _either(violation: Violation) -> str:
    types = [
        m.wanted
        for way in violation.within
        for m in way
        if m.keyword == "type" and m.path == violation.path
    ]
    if types and len(types) == len(violation.within):
        names = [
            name for wanted in types for name in ([wanted] if isinstance(wanted, str) else wanted)
        ]
        return f"needs {kinds(list(dict.fromkeys(names)))}, not {shown_value(violation.found)}"
    return (
        f"matches {'none' if violation.within else 'more than one'} of the "
        f"{len(violation.wanted)} alternatives"
    )


def _not(violation: Violation, what: str) -> str:
    return f"needs {what}, not {shown_value(violation.found)}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


_DESCRIBE: Mapping[str, Callable[[Violation], str]] = {
    "type": _type,
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
    "additionalProperties": lambda m: f"has unknown fields: {', '.join(map(repr, extra(m)))}",
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


def extra(violation: Violation) -> list[str]:
    """The names that a closed object does not allow."""
    return unnamed(violation.found, violation.rule)
