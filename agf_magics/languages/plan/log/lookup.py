"""Looks up the value of an expression in a log, and explains a missing value or a misspelt name."""

from __future__ import annotations

from contextlib import suppress

from ....text.diagnostics import Diagnostic, StepError
from ....text.suggestions import suggest
from ....values.value import Value, type_name
from ...descend import MISSING
from .log import Log
from .reference import Expression, Reference, as_written, references


def look_up(expression: Expression, log: Log, instance: str | None) -> Value:
    """The value of ``expression``. Raises StepError if it has none."""
    value = expression.evaluate(log.read, instance)
    if value is MISSING:
        raise StepError(not_found(expression, log, instance))
    return value


def not_found(expression: Expression, log: Log, instance: str | None = None) -> Diagnostic:
    """The problem that an expression has no value."""
    first = next(references(expression))  # there is one: a literal always has a value
    hint = None
    if first.kind not in log.kinds:
        hint = suggest(first.kind, log.kinds, "kinds in this context")
    if not len(log):
        hint = "the context has no messages"
    elif hint is None:
        hint = suggest_field(first, log, instance)
    who = f" for instance {instance}" if instance is not None else ""
    return Diagnostic(
        "plan.not-found", f"nothing found for {as_written(expression)}{who}", first.span, hint
    )


def suggest_field(reference: Reference, log: Log, instance: str | None = None) -> str | None:
    """A hint with the fields of the innermost mapping that ``reference`` reads."""
    with suppress(StepError):
        value, place = log.read(Reference(reference.kind), instance), reference.kind
        for name in reference.path:
            if value is MISSING or name.isdigit():
                break
            if type(value) is not dict:
                read = f"{reference.sign}{place}"
                what = f"{read} is {type_name(value)}, which has no {name!r}"
                return f"{what}; let a tool compute it, with {read} as an argument"
            if name not in value:
                return suggest(name, value, f"the fields of {reference.sign}{place}")
            value, place = value[name], f"{place}.{name}"
    return None
