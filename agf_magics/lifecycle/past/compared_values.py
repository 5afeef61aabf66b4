"""The parts in which two values of two runs differ, as the rows of a comparison."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from ...pictures.difference import MISSING, differing_parts
from ...values.value import Value
from .comparison_tables import FIRST, NOT_COMPARED, SECOND

MOST_EACH = 20
"""Differences that are listed of one value."""

Same = bool | None
"""Whether two values are the same; None: what is stored does not say it."""


def differing_values(
    name: str, first: Value, other: Value, is_same: Same
) -> Iterator[dict[str, Any]]:
    """The parts that differ in what is shown of two values; if none does, the values as a whole,
    unless they are known to be the same. A part of two tables has them, with their path, as
    ``table``."""
    if is_same is True:
        return
    parts = differing_parts(first, other)
    has_difference = False
    for part in islice(parts, MOST_EACH):
        has_difference = True
        row = one_difference(name + part.path, part.first, part.other)
        yield (
            row if part.table is None else {**row, "table": (name + part.path_of_table, part.table)}
        )
    if next(parts, None) is not None:
        yield one_difference(f"more of {name}", "…", "…")
    if not has_difference and name != "stores":
        whole = one_difference(name, first, other)
        yield whole if is_same is False else {**whole, "differs": NOT_COMPARED}


def one_difference(value: str, first: Any, other: Any) -> dict[str, Any]:
    """One part that differs, as a row. ``value``: its path."""
    if first is MISSING:
        differs = SECOND
    elif other is MISSING:
        differs = FIRST
    else:
        differs = "yes"
    first, other = (None if part is MISSING else part for part in (first, other))
    return {"value": value, "differs": differs, "first": first, "other": other}
