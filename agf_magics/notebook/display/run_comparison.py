"""Two runs side by side in a cell, and the values of one step of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...lifecycle.past import past_run
from ...lifecycle.past.comparison import FIRST, NOT_COMPARED, SECOND
from ...pictures.amounts import duration, money
from ...pictures.difference import diff_text
from ...pictures.pages.wire import ComparedRunRow, ComparedStepRow, ComparedValueRow
from ...pictures.plain import line, plain
from ...pictures.values import value_text
from ..explorer.arguments import texts_of
from ..explorer.request_types import Json, Refused

MOST_COMPARED = 500
"""Steps of a comparison in the page."""
MOST_COMPARED_TEXT = 2_000
"""Characters of a value in it."""


def compare_runs(given: Json) -> Json:
    """Two runs side by side."""
    ids = texts_of(given.get("runs"))
    if len(ids) != 2:
        raise Refused("two runs are compared")
    first, other = map(past_run.find_past_run, ids)
    found = first.compare(other)
    return {
        "runs": [
            ComparedRunRow(line(run.run_id, 90), duration(run.seconds)) for run in (first, other)
        ],
        "steps": [_compared_step(row) for row in found[:MOST_COMPARED]],
        "values": [ComparedValueRow(_value_name(row), *_both_values(row)) for row in found.values],
        "title": found._titles[1],
        "isCut": found.is_cut or len(found) > MOST_COMPARED,
        "definitions": diff_text(found.definitions) if found.definitions else "",
    }


def _compared_step(row: Mapping[str, Any]) -> ComparedStepRow:
    cost, other_cost = [
        money(row[key]) if row[key] else "" for key in ("cost", "cost of the other")
    ]
    return ComparedStepRow(
        name=line(row["name"], 60),
        step=line(row["step"], 100),
        differs=row["differs"],
        seconds=row["seconds"],
        other_seconds=row["seconds of the other"],
        cost=cost,
        other_cost=other_cost,
        calls=row["calls"],
        other_calls=row["calls of the other"],
    )


def _value_name(row: Mapping[str, Any]) -> str:
    more = f" ({NOT_COMPARED})" if row["differs"] == NOT_COMPARED else ""
    return line(row["value"], 120) + more


def _both_values(row: Mapping[str, Any]) -> list[str]:
    """The two values of a part that differs; empty for the run that lacks it."""
    lacking = {"first": SECOND, "other": FIRST}
    return [
        "" if row["differs"] == lacks else plain(value_text(row[which]), MOST_COMPARED_TEXT)
        for which, lacks in lacking.items()
    ]
