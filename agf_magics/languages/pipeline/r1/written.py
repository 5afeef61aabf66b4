"""Writes R1 for hints: literals, and texts with holes as expressions."""

from __future__ import annotations

import re
from decimal import Decimal

from ....values.value import Value


def literal(value: Value) -> str:
    """A text, a number, a bool or null as R1 writes it."""
    if isinstance(value, str):
        escaped = (
            value.replace("\\", "\\\\")
            .replace("'", "\\'")
            .replace("\n", "\\n")
            .replace("\t", "\\t")
        )
        return f"'{escaped}'"
    if isinstance(value, float):
        whole = format(Decimal(repr(value)), "f")  # R1 has no exponents
        return whole if "." in whole else whole + ".0"
    return "null" if value is None else str(value).lower()


_LITERALS = {
    **{name: name for name in ("true", "false", "null")},
    **dict.fromkeys(("none", "nil", "undefined"), "null"),
}


def spelling(name: str) -> str | None:
    """The hint for a literal of another language or in the wrong case."""
    meant = _LITERALS.get(name.lower())
    return meant and f"write: {meant}"


_HOLE = re.compile(r"\{\{?([^{}]*)\}\}?")


def concatenation(text: str) -> str:
    """An expression for a text with holes, whatever the values in them are.

    >>> concatenation("Hello {ctx.name}!"), concatenation("{ctx.name}")
    ("'Hello ' + text(ctx.name) + '!'", 'ctx.name')
    """
    parts = _HOLE.split(text)
    is_alone = len(list(filter(None, parts))) == 1
    terms = []
    for index, part in enumerate(parts):
        if index % 2 == 0:
            terms += [literal(part)] if part else []
        elif part:
            terms.append(part.strip() if is_alone else f"text({part.strip()})")
    return " + ".join(terms)
