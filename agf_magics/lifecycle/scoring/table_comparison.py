"""Compares two runs over a table: the rows that changed, and the scores with paired differences.

The comparison also shows the differences of definitions and tools. Rows are matched by their
numbers, or by a column that both tables have. The difference of a mean uses only the rows that both
runs have. So its interval is narrow, because a hard row is hard for both runs.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from ...journal.calls.changed_objects import NOTHING_CHANGED, edited_parts
from ...journal.codec.encoding import encode_value
from ...journal.codec.json_texts import encode
from ...journal.database.errors import as_definition_errors
from ...journal.runs import changed_objects
from ...pictures.amounts import cost_text, counted, duration
from ...pictures.difference import diff_html, diff_text, text_difference
from ...pictures.plain import line, parts_html, parts_text, untypeset
from ...pictures.text_tables import table_html, table_text
from ...pictures.value_line import cell_text
from ...text.diagnostics import DefinitionError, Diagnostic
from ...values.value import Value, type_name
from ..input.fields import fields_of
from ..past.past_run import PastRun, find_past_run
from ..run_internals import place_in_journal
from ..runs.run import Run
from ..table_runs.scores import Interval, interval
from ..table_runs.table import RowTable
from ..table_runs.table_row import TableRow
from .scorers import table_of

MOST_CHANGED = 100
"""Changed rows that are displayed."""

LONGEST_KEY = 1_000_000
"""Bytes of a value by which a row is matched."""

Cells = tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]


class RowPair(NamedTuple):
    """A row of the first table, and the row of the other table with the same key."""

    place: int
    row: TableRow
    other_place: int
    other_row: TableRow


class ChangedRow(NamedTuple):
    """A row whose outcome differs."""

    key: Value
    """The number of the row, or its value in the key column."""
    first: TableRow
    other: TableRow


class TableComparison:
    """The differences between two runs over a table."""

    def __init__(
        self, first: RowTable, other: RowTable, key: str | None = None, seed: int | None = None
    ) -> None:
        """``key``: the column by which rows are matched; None: their numbers. ``seed``: the seed of
        the intervals; None: a new seed. Raises DefinitionError if no rows can be matched."""
        self.first = first
        self.other = other
        self.key = key
        self.seed = secrets.randbits(31) if seed is None else seed
        self._pairs = _match_rows(first, other, key)
        self.changed: list[ChangedRow] = []
        """The rows whose status or output differs."""
        self.not_compared: list[ChangedRow] = []
        """The rows that may differ: the journal has too little of their outputs to tell."""
        for pair in self._pairs:
            is_same = pair.row.has_same_outcome(pair.other_row)
            if is_same is not True:
                rows = self.changed if is_same is False else self.not_compared
                rows.append(ChangedRow(_key(pair.row, key), pair.row, pair.other_row))

    @property
    def runs(self) -> tuple[str, str]:
        """The ids of the two runs."""
        return self.first.run.run_id, self.other.run.run_id

    @property
    def matched(self) -> int:
        """The number of rows that both runs have."""
        return len(self._pairs)

    @property
    def scores(self) -> Mapping[str, Interval]:
        """For each score that both runs have, the mean of the paired differences: the other run
        minus the first."""
        differences = {
            name: self._score_differences(name)
            for name in self.first.added
            if name in self.other.added
        }
        return {n: interval(groups, self.seed) for n, groups in differences.items() if groups}

    def _score_differences(self, name: str) -> list[list[float]]:
        """The differences of a score, in one group for the repetitions of each row."""
        groups: dict[str, list[float]] = {}
        for pair in self._pairs:
            before = self.first.added[name].get(pair.place)
            after = self.other.added[name].get(pair.other_place)
            if isinstance(before, int | float) and isinstance(after, int | float):
                groups.setdefault(_name_of(_key(pair.row, self.key)), []).append(after - before)
        return list(groups.values())

    @property
    def totals(self) -> Cells:
        """Rows, time, tokens and cost of both runs."""
        counts = [{"rows": len(table), **table.counts} for table in (self.first, self.other)]
        rows = [
            (status, *(f"{count.get(status, 0):,}" for count in counts))
            for status in ("rows", "ok", "failed")
        ]
        tables = [list(self.first.rows()), list(self.other.rows())]
        rows.append(("time of all rows", *map(duration, _sums(tables, "seconds"))))
        tokens = _sums(tables, "tokens")
        if any(tokens):
            rows.append(("tokens", *(f"{count:,}" for count in tokens)))
            rows.append(("cost", *map(_cost_text, tables)))
        return ("", *self.runs), tuple(rows)

    @property
    def inputs(self) -> Cells:
        """The inputs that all rows have in common, as `--set` gives them, where the two runs
        differ."""
        (_, before), (_, after) = (
            past.table.terms.parts_of_input(fields_of(past.input)) for past in self._past
        )
        names = [
            name
            for name in dict.fromkeys((*before, *after))
            if encode(before.get(name)) != encode(after.get(name))
        ]
        rows = tuple(
            (name, *(cell_text(row.get(name)) for row in (before, after))) for name in names
        )
        return ("input", *self.runs), rows

    @property
    def definitions(self) -> str:
        """The differences between the texts of the flows, as a unified diff; empty: no
        difference."""
        # The first definition of such a run has the terms of the table (`OverTerms`).
        before, after = (
            {text.name: text.source.text for text in past.order.flows[1:]} for past in self._past
        )
        return "".join(
            text_difference(name, before.get(name), after.get(name))
            for name in dict.fromkeys((*before, *after))
        )

    @property
    def tools(self) -> list[str]:
        """The tools and agents whose functions differ, or that only one run has. An object that the
        calls of a run changed is not compared."""
        before, after = (past.order.functions for past in self._past)
        changed = frozenset[bytes]().union(*map(_keys_of_changed_objects, self._past))
        alone = before.keys() ^ after.keys()
        both = before.keys() & after.keys()
        edited = {name for name in both if edited_parts(before[name], after[name], changed)[0]}
        return sorted(alone | edited)

    @property
    def _past(self) -> tuple[PastRun, PastRun]:
        """The two runs as their journals have them. An imported run is not in the journal of this
        process."""
        first, other = (
            table.run if isinstance(table.run, PastRun) else find_past_run(table.run.run_id)
            for table in (self.first, self.other)
        )
        return first, other

    @property
    def _are_journaled(self) -> bool:
        return all(place_in_journal(table.run) is not None for table in (self.first, self.other))

    def _mean(self, table: RowTable, name: str) -> Interval:
        """The mean of a score over all rows of a run, which may have been scored by another
        process."""
        groups: dict[int, list[float]] = {}
        for place, value in table.added[name].items():
            if isinstance(value, int | float):
                groups.setdefault(table.number_of(place), []).append(value)
        return interval(list(groups.values()), self.seed)

    # --- display ---

    def _parts(
        self, table: Callable[..., str], text: Callable[[str], str]
    ) -> Iterator[tuple[str, str]]:
        """The parts with their titles. ``table``: shows columns and rows; ``text``: a diff."""
        title = ", compared with ".join(self.runs)
        by = f"by {self.key!r}" if self.key else "by number"
        yield f"{title}: {counted(self.matched, 'row')} matched {by}", table(*self.totals)
        if self._are_journaled and (inputs := self.inputs)[1]:
            yield "Inputs that differ", table(*inputs)
        scores = tuple(
            (n, str(self._mean(self.first, n)), str(self._mean(self.other, n)), str(difference))
            for n, difference in self.scores.items()
        )
        if scores:
            columns = ("score", "first", "other", "paired difference [95 %]")
            yield f"Scores; seed {self.seed}", table(columns, scores)
        rows = tuple(
            (cell_text(row.key), _outcome(row.first), _outcome(row.other))
            for row in self.changed[:MOST_CHANGED]
        )
        more = f", the first {MOST_CHANGED}" if len(self.changed) > MOST_CHANGED else ""
        changed = table((self.key or "row", "first", "other"), rows) if rows else ""
        yield f"{counted(len(self.changed), 'row')} changed{more}", changed
        if self.not_compared:
            numbers = ", ".join(cell_text(row.key) for row in self.not_compared[:MOST_CHANGED])
            outputs = f"the outputs of {self.key or 'row'} {numbers}"
            yield (
                f"{counted(len(self.not_compared), 'row')} not compared",
                f"the journal does not hold enough of {outputs}",
            )
        if not self._are_journaled:
            return
        if self.tools:
            yield f"Tools that differ: {', '.join(self.tools)}", ""
        if self.definitions:
            yield "Definitions that differ", text(self.definitions)
        else:
            yield "The definitions are the same", ""

    def _repr_html_(self) -> str:
        return untypeset(parts_html(self._parts(table_html, diff_html)))

    def __repr__(self) -> str:
        return parts_text(self._parts(lambda *cells: "\n".join(table_text(*cells)), diff_text))


def _keys_of_changed_objects(past: PastRun) -> frozenset[bytes]:
    """The keys of the objects that the calls of a run changed."""
    place = place_in_journal(past)
    if place is None:
        return NOTHING_CHANGED
    store, num = place
    with as_definition_errors(), store.reading() as connection:
        return changed_objects(connection, num)


def _match_rows(first: RowTable, other: RowTable, key: str | None) -> list[RowPair]:
    """The rows of both runs that belong together. Raises DefinitionError if the runs were over
    different tables: no row matches, or most of the matched rows have different inputs."""
    for table in (first, other) if key is not None else ():
        if key not in table.terms.columns:
            message = f"the table of {table.run.run_id!r} has no column {key!r}"
            hint = f"its columns are {', '.join(table.terms.columns)}"
            raise DefinitionError(Diagnostic("over.column", message, hint=hint))
    others = _rows_by_key(other, key)
    pairs = [
        RowPair(place, row, *others[name])
        for name, (place, row) in _rows_by_key(first, key).items()
        if name in others
    ]
    differing = 0
    if key is None:
        differing = sum(pair.row.has_same_input(pair.other_row) is False for pair in pairs)
    if not pairs or differing * 2 > len(pairs):
        message = f"{other.run.run_id!r} ran over another table than {first.run.run_id!r}"
        hint = "match the rows by a column that both have: --key COLUMN (in Python: key='…')"
        raise DefinitionError(Diagnostic("over.other-table", message, hint=hint))
    return pairs


def _sums(tables: Sequence[Sequence[TableRow]], amount: str) -> list[float]:
    """The sum of an amount of all rows, for each of these tables."""
    return [sum(getattr(row, amount) or 0 for row in rows) for rows in tables]


def _cost_text(rows: Sequence[TableRow]) -> str:
    """The cost of all rows, as far as the prices of their models are known."""
    costs = [Decimal(str(row.cost)) for row in rows if row.cost is not None]
    unpriced = sum(row.has_unknown_cost for row in rows)
    return cost_text(sum(costs, Decimal()), len(costs) + unpriced, unpriced)


def _rows_by_key(table: RowTable, key: str | None) -> dict[tuple[str, int], tuple[int, TableRow]]:
    """The rows with their places, by their keys and repetitions. Raises DefinitionError if two rows
    have one key."""
    rows: dict[tuple[str, int], tuple[int, TableRow]] = {}
    for place, row in enumerate(table.rows()):
        name = _name_of(_key(row, key)), row.repeat
        if name in rows:
            message = f"two rows of {table.run.run_id!r} have the key {cell_text(_key(row, key))}"
            hint = "choose a column that is different in each row"
            raise DefinitionError(Diagnostic("over.double-key", message, hint=hint))
        rows[name] = place, row
    return rows


def _key(row: TableRow, key: str | None) -> Value:
    return row.number if key is None else row.input.get(key)


def _name_of(key: Value) -> str:
    """A value of the key column as a name: equal for equal values, such as 1 and 1.0."""
    if type(key) is float and key.is_integer():
        key = int(key)
    packed = encode_value(key, LONGEST_KEY)
    if packed.form == "again":
        message = f"a row cannot be matched by {type_name(key)}"
        raise DefinitionError(Diagnostic("over.double-key", message, hint="choose another column"))
    return packed.data if isinstance(packed.data, str) else (packed.data or b"").hex()


def _outcome(row: TableRow) -> str:
    return (
        cell_text(row.shown_output)
        if row.error is None
        else line(f"✗ {row.error.diagnostic.message}", 60)
    )


def compare_over(
    run: Run | PastRun | RowTable | str,
    *others: Run | PastRun | RowTable | str,
    key: str | None = None,
    seed: int | None = None,
) -> TableComparison | list[TableComparison]:
    """Compare runs over tables: changed rows, scores with paired differences, time, cost, tools and
    definitions. For several others the result is a list.

    Parameters:

    - ``run``: a run over a table, its id, or its table. Required.
    - ``others``: the runs that are compared with it. Required.
    - ``key``: the column by which rows are matched. Default None: the number of the row.
    - ``seed``: the seed of the intervals. Default None: a new one, which is shown.

    Raises DefinitionError if the rows cannot be matched.
    """
    first = table_of(run)
    compared = [TableComparison(first, table_of(other), key, seed) for other in others]
    return compared[0] if len(compared) == 1 else compared
