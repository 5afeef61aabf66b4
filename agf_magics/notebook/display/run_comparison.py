"""Two runs side by side in a cell, and the values of one step of both."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Any

from IPython.core.displayhook import CapturingDisplayHook

from ...lifecycle.past import past_run
from ...lifecycle.past.comparison_tables import FIRST, NOT_COMPARED, SECOND, Comparison
from ...pictures.amounts import cost_words, duration
from ...pictures.difference import diff_text
from ...pictures.pages.wire import ComparedRunRow, ComparedStepRow, ComparedValueRow
from ...pictures.plain import line, plain
from ...pictures.row_words import AGAIN
from ...pictures.table_difference import DifferingRow, TableDifference, same_cell
from ...pictures.values import value_among, value_text
from ...text.giving_up import giving_up
from ...values.value import Value
from ..explorer.arguments import texts_of
from ..explorer.request_types import Json, Refused
from ..output.output import show
from .view import is_watched, show_over

MOST_COMPARED = 500
"""The most steps of a comparison in the page."""
MOST_COMPARED_TEXT = 2_000
"""The most characters of a value in a comparison."""
FEW_ELEMENTS = 3
"""Parts of a list that differ, up to which each part has its own row."""
SHOWN_ELEMENTS = 5
"""Parts of a list that are shown in one row for all of them."""

MOST_TABLE_ROWS = 10
"""Rows that are shown of the table of the rows that differ."""
MOST_COLUMNS = 12
"""Columns that are shown of such a table."""
MOST_CELL = 60
"""The most characters of a cell in such a table."""
REMOVED, ADDED = "-", "+"
"""The signs of what only the first or only the second run has."""

LACKING = "—"
"""Stands for a part that a run does not have, as in the page."""

_ELEMENT = re.compile(r"\[\d+\]")
"""An element of a list, in the path of a part."""
_WHOLE = re.compile(r"input|output|stores(?:\.\w+|\['[^']*'\])|.* (?:output|input(?:\.\w+)?)")
"""The beginning of a part's path that names the whole value: an input, an output or a store."""

_MORE = "more of "
"""Begins the path of a value of which more parts differ than are listed."""

_NUMBERS = re.compile(r"#\d+")
"""The numbers of elements and iterations, in the path of a call."""

_Part = Mapping[str, Any]


def compare_runs(arguments: Json) -> Json:
    """The two ``runs`` side by side."""
    ids = texts_of(arguments.get("runs"))
    if len(ids) != 2:
        raise Refused("two runs are compared")
    first, other = map(past_run.find_past_run, ids)
    return comparison_json(first.compare(other))


def show_comparison(comparison: Comparison, shell: Any) -> None:
    """Display a comparison. A view draws over its tables, as in the list of runs."""
    # Without a view the default display shows the tables.
    if isinstance(sys.displayhook, CapturingDisplayHook) or not is_watched(shell):
        raise NotImplementedError
    page = {"text/html": comparison._repr_html_(), "text/plain": repr(comparison)}
    compared: Json = {}
    with giving_up(__name__, "a comparison has no view over it"):  # a run of it may be deleted
        compared = comparison_json(comparison)
    if compared:
        show_over(page, shell, {"list": {"compared": compared}}, {})
    else:
        show(page)


def comparison_json(comparison: Comparison) -> Json:
    """A comparison as the page draws it. Raises DefinitionError if a run is gone."""
    runs = map(past_run.find_past_run, comparison.runs)
    _, title_of_values, _ = comparison._titles
    return {
        "runs": [ComparedRunRow(line(run.run_id, 90), duration(run.seconds)) for run in runs],
        "steps": [_compared_step(row) for row in comparison[:MOST_COMPARED]],
        "values": list(_values(_without_repeats(_with_names(comparison)))),
        "edited": line("; ".join(comparison.edited), MOST_COMPARED),
        "uncalled": line(", ".join(comparison.uncalled), MOST_COMPARED),
        "title": title_of_values,
        "isCut": comparison.is_cut or len(comparison) > MOST_COMPARED,
        "definitions": diff_text(comparison.definitions) if comparison.definitions else "",
    }


def _compared_step(row: Mapping[str, Any]) -> ComparedStepRow:
    return ComparedStepRow(
        name=line(row["name"], 60),
        step=line(row["step"], 100),
        differs=row["differs"],
        seconds=row["seconds"],
        other_seconds=row["seconds of the other"],
        cost=_cost(row["cost"], row["unpriced"]),
        other_cost=_cost(row["cost of the other"], row["unpriced of the other"]),
        calls=row["calls"],
        other_calls=row["calls of the other"],
        reused=_reused(row["reused"], row["calls"]),
        other_reused=_reused(row["reused of the other"], row["calls of the other"]),
    )


def _cost(known: Decimal | None, unpriced: int) -> str:
    """The cost of a step's models; empty: it asked none."""
    if known is None and not unpriced:
        return ""
    return cost_words(known or Decimal(), unpriced, unpriced)


def _reused(earlier: int, calls: int) -> str:
    """How many results of a step were reused, in the words of the step's row in the list."""
    if not earlier:
        return ""
    return f"{AGAIN} reused" if earlier >= calls else f"{AGAIN} {earlier:,} reused"


def _with_names(comparison: Comparison) -> Iterator[_Part]:
    """The parts that differ, with the names of steps in place of their ids, and with the tables that
    they are in."""
    names = {row["step"]: row["name"] for row in comparison}
    for part in (_with_table(part, comparison.tables) for part in comparison.values):
        path, *rest = re.split(r"(?= (?:input|output)\b)", part["value"], maxsplit=1)
        step = _NUMBERS.sub("", path).removeprefix(_MORE)
        if rest and names.get(step):
            more = _MORE * path.startswith(_MORE)
            numbers = " ".join(_NUMBERS.findall(path))
            words = more + " ".join(filter(None, (names[step], numbers)))
            yield {**part, "value": f"{words}{rest[0]}"}
        else:
            yield part


def _with_table(part: _Part, tables: Mapping[str, TableDifference]) -> _Part:
    """A part; one of a table with that as ``table``, and as ``in_table`` the end of its path, which is
    empty for a part that stands for the whole table. ``tables``: `Comparison.tables`."""
    value = part["value"].removeprefix(_MORE)
    for path, table in tables.items():
        if value == path or value.startswith(f"{path}["):
            return {**part, "table": table, "in_table": value[len(path) :]}
    return part


def _without_repeats(parts: Iterable[_Part]) -> Iterator[_Part]:
    """The parts that differ. A value with the same parts as an earlier value, such as a store that is
    also the output, is only named behind the first part of the earlier value."""
    values: dict[Any, list[_Part]] = {}
    also: dict[Any, list[str]] = {}
    elements: set[Any] = set()
    for whole, parts_of in groupby(parts, lambda part: _whole(part["value"])):
        group = list(parts_of)
        texts = [
            (part["value"].removeprefix(whole), part["differs"], *_both_values(part))
            for part in group
        ]
        if _NUMBERS.search(whole) and elements.issuperset(texts):
            continue  # the list that has this element is there
        elements |= {
            (_ELEMENT.sub("", path, count=1), *others)
            for path, *others in texts
            if _ELEMENT.match(path)
        }
        key = (*texts, whole.startswith(_MORE) and whole)
        also.setdefault(key, []).append(whole)
        values.setdefault(key, group)
    for key, (first, *others) in values.items():
        repeats = ", ".join(also[key][1:])
        yield {**first, "also": f" (also {line(repeats, 120)})" if repeats else ""}
        yield from ({**part, "also": ""} for part in others)


def _whole(path: str) -> str:
    found = _WHOLE.match(path)
    return found[0] if found is not None else path


def _values(parts: Iterable[_Part]) -> Iterator[ComparedValueRow]:
    """The parts that differ, as rows. A list in which several elements differ has one row for them, and
    so has a table."""
    for name, parts_of in groupby(parts, _before_element):
        group = list(parts_of)
        if (table := group[0].get("table")) is not None:
            title = f"{line(name, 120)}{group[0]['also']}"
            yield ComparedValueRow(title, "", "", _compared_table(table))
            continue
        if len(group) <= FEW_ELEMENTS:
            for row in group:
                first, other = _both_values(row)
                yield ComparedValueRow(_value_name(row), first, other)
            continue
        shown = [
            [
                f"{line(row['value'], 120).removeprefix(name)}: {text or LACKING}"
                for text in _both_values(row)
            ]
            for row in group[:SHOWN_ELEMENTS]
        ]
        more = [[f"… and {len(group) - SHOWN_ELEMENTS:,} more"] * 2] * (len(group) > SHOWN_ELEMENTS)
        first, other = ("\n".join(side) for side in zip(*shown, *more, strict=True))
        title = f"{line(name, 90)}: {len(group):,} parts{group[0]['also']}"
        yield ComparedValueRow(title, first, other)


def _compared_table(table: TableDifference) -> Json:
    """The rows that differ, with all their columns."""
    columns = table.columns[:MOST_COLUMNS]
    shown = table.rows[:MOST_TABLE_ROWS]
    mark = dict.fromkeys(table.only_first, REMOVED) | dict.fromkeys(table.only_other, ADDED)
    left = [
        (len(table.rows) - len(shown), "row that differs", "rows that differ"),
        (len(table.columns) - len(columns), "column", "columns"),
    ]
    return {
        "about": table.words(),
        "columns": [[line(name, 60), mark.get(name, "")] for name in columns],
        "rows": [_compared_row(row, columns, mark) for row in shown],
        "more": ", ".join(f"{n:,} more {one if n == 1 else many}" for n, one, many in left if n),
    }


def _compared_row(row: DifferingRow, columns: Sequence[str], mark: Mapping[str, str]) -> Json:
    """A row with its sign and its number; a cell that differs has two texts."""
    sign = REMOVED if row.theirs is None else ADDED if row.mine is None else ""
    cells: list[list[str]] = []
    for name in columns:
        mine, theirs = (
            line(value_among(cells_of[name]), MOST_CELL) if cells_of and name in cells_of else ""
            for cells_of in (row.mine, row.theirs)
        )
        if sign or name in mark or same_cell(row.mine or {}, row.theirs or {}, name):
            cells.append([mine or theirs])
        else:
            exact = [
                value_text(part[name], is_exact=True) if name in part else LACKING
                for part in (row.mine or {}, row.theirs or {})
            ]
            cells.append([line(text, MOST_CELL) for text in exact])
    return {"sign": sign, "number": row.number, "cells": cells}


def _before_element(part: _Part) -> str:
    """The path of the list or table of which a part is an element, else the path itself. A number in the
    id of a step does not count as an element."""
    path = str(part["value"])
    if part.get("table") is not None:
        return path.removeprefix(_MORE).removesuffix(part["in_table"])
    element = _ELEMENT.search(path, max(path.rfind(" input"), path.rfind(" output"), 0))
    return path[: element.start()] if element is not None else path


def _value_name(row: _Part) -> str:
    first, other = _both_values(row)
    more = " (other content)" if first == other != "…" else ""
    if row["differs"] == NOT_COMPARED:
        more = f" ({NOT_COMPARED})"
    return f"{line(row['value'], 120)}{more}{row['also']}"


def _both_values(row: _Part) -> list[str]:
    """The two values of a part that differs, as texts; empty for the run that does not have the part."""
    lacking = {"first": SECOND, "other": FIRST}
    return [
        ""
        if row["differs"] == lacks
        else plain(_compared_text(row, row[which]), MOST_COMPARED_TEXT)
        for which, lacks in lacking.items()
    ]


def _compared_text(row: _Part, value: Value) -> str:
    """A value as text. Only a number that differs has all its digits, which may be the difference."""
    is_compared = row["differs"] != NOT_COMPARED
    return value_text(value, is_exact=True) if is_compared else value_among(value)
