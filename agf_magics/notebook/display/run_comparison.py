"""Two runs side by side in a cell, and the values of one step of both."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
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
FEW_ELEMENTS = 3
"""Parts of a list up to which each is a row."""
SHOWN_ELEMENTS = 5
"""Parts of a list that one row for all of them shows."""

_ELEMENT = re.compile(r"\[\d+\]")


def compare_runs(arguments: Json) -> Json:
    """The two ``runs`` side by side."""
    ids = texts_of(arguments.get("runs"))
    if len(ids) != 2:
        raise Refused("two runs are compared")
    first, other = map(past_run.find_past_run, ids)
    comparison = first.compare(other)
    _, title_of_values, _ = comparison._titles
    return {
        "runs": [
            ComparedRunRow(line(run.run_id, 90), duration(run.seconds)) for run in (first, other)
        ],
        "steps": [_compared_step(row) for row in comparison[:MOST_COMPARED]],
        "values": list(_values(comparison.values)),
        "title": title_of_values,
        "isCut": comparison.is_cut or len(comparison) > MOST_COMPARED,
        "definitions": diff_text(comparison.definitions) if comparison.definitions else "",
    }


def _compared_step(row: Mapping[str, Any]) -> ComparedStepRow:
    cost = row["cost"]
    other_cost = row["cost of the other"]
    return ComparedStepRow(
        name=line(row["name"], 60),
        step=line(row["step"], 100),
        differs=row["differs"],
        seconds=row["seconds"],
        other_seconds=row["seconds of the other"],
        cost=money(cost) if cost else "",
        other_cost=money(other_cost) if other_cost else "",
        calls=row["calls"],
        other_calls=row["calls of the other"],
    )


def _values(parts: Iterable[Mapping[str, Any]]) -> Iterator[ComparedValueRow]:
    """The parts that differ; of a list in which several elements differ, one row for all of them."""
    for name, parts_of in groupby(parts, lambda part: _ELEMENT.split(part["value"], 1)[0]):
        group = list(parts_of)
        if len(group) <= FEW_ELEMENTS:
            yield from (ComparedValueRow(_value_name(row), *_both_values(row)) for row in group)
            continue
        shown = [
            [f"{line(row['value'], 120).removeprefix(name)}: {text}" for text in _both_values(row)]
            for row in group[:SHOWN_ELEMENTS]
        ]
        more = [[f"… and {len(group) - SHOWN_ELEMENTS:,} more"] * 2] * (len(group) > SHOWN_ELEMENTS)
        first, other = ("\n".join(side) for side in zip(*shown, *more, strict=True))
        yield ComparedValueRow(f"{line(name, 90)}: {len(group):,} parts", first, other)


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
