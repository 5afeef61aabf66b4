"""Converts the rows of a run over a table to an `EvaluationReport` of pydantic-evals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...values.value import Value
from .table_row import TableRow

_KINDS: dict[str, Any] = {"assertions": bool, "scores": (int, float), "labels": str}
"""The kinds of results, and the types of each. The first kind that fits counts: a boolean is an
int, too."""


def evaluation_report(
    rows: Iterable[TableRow], repeat: int, added: Mapping[str, Mapping[int, Value]]
) -> dict[str, Value]:
    """The report; values that are no JSON as previews. ``repeat``: how often each row ran; ``added``:
    scores and labels by their names and the places of the rows."""
    cases, failures = list[Value](), list[Value]()
    for place, row in enumerate(rows):
        about = _about(row, repeat)
        if row.error is not None:
            message = row.error.diagnostic.message
            failures.append({**about, "error_message": message, "error_stacktrace": str(row.error)})
        if row.status == "ok":
            cases.append({**about, **_case(row), **_grades(place, added)})
    return {"cases": cases, "failures": failures}


def _about(row: TableRow, repeat: int) -> dict[str, Value]:
    inputs = row.given_cells(shown=True)
    return {
        "name": f"{row.number}" + (f"/{row.repeat}" if repeat > 1 else ""),
        "inputs": inputs,
        "metadata": inputs.get("metadata"),
        "expected_output": inputs.get("expected_output"),
    }


def _case(row: TableRow) -> dict[str, Value]:
    metrics = {"tokens": row.tokens, "cost": row.cost}
    seconds = row.seconds or 0.0
    return {
        "output": row.shown_output,
        "metrics": {name: amount for name, amount in metrics.items() if amount is not None},
        "attributes": {},
        "task_duration": seconds,
        "total_duration": seconds,
    }


def _grades(place: int, added: Mapping[str, Mapping[int, Value]]) -> dict[str, dict[str, Value]]:
    """The scores and labels of the row at ``place``, by their kinds."""
    graded: dict[str, dict[str, Value]] = {kind: {} for kind in _KINDS}
    for name, values in added.items():
        value = values.get(place)
        kind = next((kind for kind, types in _KINDS.items() if isinstance(value, types)), None)
        if kind is not None:
            source = {"name": name, "arguments": None}
            graded[kind][name] = {"name": name, "value": value, "reason": None, "source": source}
    return graded
