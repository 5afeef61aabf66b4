"""Warns the current run that an expression writes a missing value as null."""

from __future__ import annotations

from collections.abc import Iterator

from ..text.diagnostics import Diagnostic
from ..values.no_json import has_no_json
from ..values.value import Value
from .expression_warnings import expression_listener

MOST_SEARCHED = 100_000
"""The number of parts of a value that are searched to tell where a null was written."""


def warn_of_null(name: str, value: Value) -> None:
    """Warn that a part of ``value`` is written as null in a text or for a model (decision A1).
    ``name``: the author's word for the value."""
    listener = expression_listener.get()
    if listener is not None:
        message = f"{name} has {missing_at(value)}, which is written as null"
        hint = "JSON has no such value; let a tool replace it, if something else is meant"
        listener(Diagnostic("step.written-null", message, None, hint, "warning"))


def missing_at(value: Value) -> str:
    """The first NaN, infinity or NaT in ``value`` with its place: ``NaN at .rows[3].kg``.

    >>> missing_at({"a": [1.0, float("nan")]}), missing_at(float("-inf"))
    ('NaN at .a[1]', '-infinity')
    """
    for path, part in _parts(value):
        if has_no_json(part):
            name = str(part).replace("nan", "NaN").replace("inf", "infinity").strip("<>")
            return f"{name} at {path}" if path else name
    return "NaN"


def _parts(value: Value) -> Iterator[tuple[str, Value]]:
    """The parts of ``value`` with their paths, in order; at most `MOST_SEARCHED`."""
    unseen: list[tuple[str, Value]] = [("", value)]
    for _ in range(MOST_SEARCHED):
        if not unseen:
            return
        path, part = unseen.pop()
        yield path, part
        if type(part) is dict:
            inner = list(part.items())[:MOST_SEARCHED]
            unseen += [(f"{path}.{name}", inside) for name, inside in reversed(inner)]
        elif type(part) is list:
            numbered = list(enumerate(part[:MOST_SEARCHED]))
            unseen += [(f"{path}[{number}]", inside) for number, inside in reversed(numbered)]
