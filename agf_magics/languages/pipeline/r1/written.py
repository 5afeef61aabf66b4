"""Writes R1 for hints: literals, and texts with holes as expressions."""

from __future__ import annotations

import re
from decimal import Decimal

from ....values.value import Value


def literal(value: Value) -> str:
    """A text, a number, a bool or null as R1 writes it."""
    if isinstance(value, str):
        quote = '"' if "'" in value and '"' not in value else "'"
        escaped = (
            value.replace("\\", "\\\\")
            .replace(quote, f"\\{quote}")
            .replace("\n", "\\n")
            .replace("\t", "\\t")
        )
        return f"{quote}{escaped}{quote}"
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
_NO_EXPRESSION = re.compile(r"[:!|\[\]?\\]")
"""A sign of a hole that is no expression here: a format, a filter, an index."""
HOLES = "join the parts with +, each value as text(value); a format or a filter is for a tool"
"""The hint for a text that `concatenation` cannot write."""


def concatenation(text: str, of_python: bool = False) -> str:
    """An expression for a text with holes, whatever the values in them are; empty: a hole is not
    an expression. ``of_python``: whether doubled braces are text, as in an f-string; default False.

    >>> concatenation("Hello {ctx.name}!"), concatenation("{ctx.name}"), concatenation("{n:.2f}")
    ("'Hello ' + text(ctx.name) + '!'", 'ctx.name', '')
    """
    if of_python and ("{{" in text or "}}" in text):
        return ""
    parts = _HOLE.split(text)
    if any(_NO_EXPRESSION.search(hole) for hole in parts[1::2]):
        return ""
    is_alone = len(list(filter(None, parts))) == 1
    terms = []
    for index, part in enumerate(parts):
        if index % 2 == 0:
            terms += [literal(part)] if part else []
        elif part:
            terms.append(part.strip() if is_alone else f"text({part.strip()})")
    return " + ".join(terms)
