"""Shows a comparison of two runs: tables of the steps and of the values that differ.

`comparison` makes them, with the difference of the definitions. They are lists of rows for Python,
and print themselves in a notebook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

from ...pictures.difference import diff_html, diff_text, shorten_pair
from ...pictures.plain import line, parts_html, parts_text, untypeset
from ...pictures.table_difference import TableDifference
from ...pictures.text_tables import Table
from ..runs.trace import Trace, table_of

FIRST, SECOND = "only in the first", "only in the second"
"""The words for steps and values that one run lacks."""
NOT_COMPARED = "not compared"
"""The words for values whose stored forms do not tell whether they differ."""


class Differences(Trace):
    """The values that differ between two runs; ``to_pandas()`` gives a DataFrame."""

    columns = ("value", "differs", "first", "other")

    def _table(self) -> Table:
        rows = []
        for row in self:
            differs, values = row["differs"], (row["first"], row["other"])
            is_compared = differs != NOT_COMPARED
            first, other = values if values == ("…", "…") else shorten_pair(*values, is_compared)
            first, other = first * (differs != SECOND), other * (differs != FIRST)
            rows.append((line(row["value"], 120), differs, first, other))
        return self.columns, tuple(rows)


class Comparison(Trace):
    """The steps of two runs and their differences."""

    columns: ClassVar[tuple[str, ...]] = (
        *("name", "differs", "took", "took in the other", "calls", "calls of the other"),
        *("same input", "same output", "not compared", "step"),
    )
    """Parts that differ come first, because a view shows only the first columns and rows."""

    runs: tuple[str, str]
    """The ids of the two runs."""
    values: Differences
    """The values that differ, and those that are not compared: parts of the input, of the calls, of
    the output and of the stores."""
    edited: tuple[str, ...]
    """What was edited between the runs in the functions that both call: ``the code of measure was
    edited``."""
    tables: Mapping[str, TableDifference]
    """The differences of tables, by the beginning of the names of their parts in ``values``."""
    is_cut: bool
    """Whether more values differ than ``values`` has."""
    definitions: str
    """The difference of the definitions as a unified diff; empty: they are the same."""
    uncalled: tuple[str, ...]
    """The names of the steps that ran in one of the runs and only evaluated: no call of theirs is
    recorded."""

    def _repr_html_(self) -> str:
        return untypeset(parts_html(self._parts_with_titles(Trace._repr_html_, diff_html)))

    def __repr__(self) -> str:
        return parts_text(self._parts_with_titles(Trace.__repr__, diff_text))

    def _parts_with_titles(
        self, table: Callable[[Trace], str], text: Callable[[str], str]
    ) -> Iterator[tuple[str, str]]:
        """The parts with their titles; a part without rows is empty."""
        steps = table(self) if self else ""
        values = table(self.values) if self.values else ""
        definitions = text(self.definitions) if self.definitions else ""
        edited = line(f"Between the runs: {'; '.join(self.edited)}", 500) if self.edited else ""
        first, *others = zip(self._titles, (steps, values, definitions), strict=True)
        return iter([*([(edited, "")] if edited else []), first, *others])

    def _table(self) -> Table:
        differing_first = sorted(self, key=lambda row: not row["differs"])
        return table_of(differing_first, self.columns)

    @property
    def _titles(self) -> tuple[str, str, str]:
        more = f": the first {len(self.values)}" if self.is_cut else ""
        no_call = "" if self else ": neither run made a call"
        kinds = {row["differs"] for row in self.values}
        values = "The values are the same"
        if kinds == {NOT_COMPARED}:
            values = f"Values that are not compared{more}; all others are the same"
        elif kinds:
            values = f"Values that differ{more}"
        return (
            f"{self.runs[0]}, compared with the other run {self.runs[1]}{no_call}",
            values,
            "Definitions that differ" if self.definitions else "The definitions are the same",
        )
