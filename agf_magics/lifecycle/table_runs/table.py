"""`RowTable`, the result of a run over a table: every row with its outcome, failed rows included.

The rows are read page by page from the journal, so that a table of a million rows needs no memory.
Only `RowTable.to_arrow`, `to_pandas` and `to_polars` read all of them.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain, compress
from pathlib import Path
from typing import Any, Protocol

from ...compat.imports import installed_only
from ...engine.ended_rows import EndedRows
from ...flow.progress.progress import Progress
from ...journal.database.errors import DeletedRun, JournalError, as_definition_errors, unusable
from ...journal.database.store import Store
from ...journal.records.columns import read_columns, write_column
from ...journal.records.records import Record
from ...journal.row_records import RowOutcome, RowRecords
from ...journal.secrets.masking import Secrets
from ...languages.over import BODY, OVER, OverTerms, inputs_of_row
from ...pictures.amounts import UNKNOWN
from ...pictures.plain import untypeset
from ...pictures.problems import brief_reason
from ...text.diagnostics import DefinitionError, Diagnostic, StepError
from ...text.replaced_file import check_writable, refuse_same_file
from ...text.source import Source
from ...values.tables.data_frames import in_pandas_form, in_polars_form
from ...values.tables.files import FileRows
from ...values.tables.rows import Rows
from ...values.value import Value
from ..input.fields import fields_of
from ..run_internals import definition_of, ended_rows, input_of, place_in_journal
from .evaluation_report import evaluation_report
from .saving import WRITERS, MaskedCells, arrow_table
from .score_table import Scores
from .table_display import displayed_html, displayed_text
from .table_row import (
    NOT_RUN,
    NOT_STORED,
    Cells,
    LostInput,
    TableRow,
    Unstored,
    added_cell,
    as_mapping,
    free_name,
    not_stored,
)
from .unjournaled_rows import UnjournaledRows

TABLE = ("not a file of rows", (".csv", ".jsonl", ".parquet"))
FIGURES = ("no file for a report", (".html", ".json"))
"""The kinds of files that are written at the end of a run: words for an error, and the suffixes. A
file is checked before the run begins (`check_target`)."""


def check_target(target: Path, kind: tuple[str, tuple[str, ...]]) -> None:
    """Raises DefinitionError if no file of this kind, `TABLE` or `FIGURES`, can be written there, as
    far as this is known before it is tried."""
    otherwise, endings = kind
    if target.suffix.lower() not in endings:
        message = f"{str(target)!r} is {otherwise}"
        hint = f"write a file with the suffix {', '.join(endings[:-1])} or {endings[-1]}"
        raise DefinitionError(Diagnostic("over.file", message, hint=hint))
    check_writable(target)


PAGE = 1_000
"""Rows that are read at a time."""

ABOUT = ("status", "error", "error_text", "seconds", "tokens", "cost")
"""The columns about a row's run."""

LABEL = "label"

LONGEST = 200
"""Characters of a label."""


class RunOfRows(Protocol):
    """The data of the run that a table reads."""

    @property
    def run_id(self) -> str: ...

    @property
    def input(self) -> Value: ...
    @property
    def _input_value(self) -> Value:
        """The input of the run, without previews."""
        ...

    @property
    def progress(self) -> Progress: ...
    @property
    def secrets(self) -> Secrets: ...
    @property
    def _in_journal(self) -> tuple[Store, int] | None: ...
    @property
    def _definition(self) -> tuple[str, Source]:
        """The language and the text of its definition."""
        ...

    @property
    def _ended_rows(self) -> EndedRows | None:
        """How its rows ended; None: it is a run of the journal."""
        ...


class RowTable:
    """The rows of a run over a table with their outcomes. ``table[3]`` and ``table[:10]`` are rows as
    mappings, ``len(table)`` is their number, and a loop reads page by page.

    The columns are ``row``, those of the input, those of the output (``output`` if it is no
    mapping), ``status``, ``error``, ``error_text``, ``seconds``, ``tokens`` and ``cost``. A name
    that the input has already begins with ``output.`` or ``run.``. A place, as in ``table[3]``,
    counts each repetition; the number of a row, in the column ``row``, does not.
    """

    def __init__(self, run: RunOfRows) -> None:
        """``run``: a run over a table. Raises DefinitionError for any other."""
        self.run = run
        self.terms = terms_of(run)
        self.scores = Scores()
        """The summaries of its scores over all rows, by name."""
        self.added: dict[str, dict[int, Value]] = {}
        """The columns that were added, the scores and the labels: their values by place. The
        journal has them, too."""
        self.refresh()

    def __len__(self) -> int:
        return self.terms.total * self.terms.repeat

    def __getitem__(self, which: int | slice) -> Any:
        numbers = range(len(self))[which]
        if isinstance(numbers, int):
            return next(self.at([numbers]))
        return list(self.at(numbers))

    def __iter__(self) -> Iterator[Mapping[str, Value]]:
        return self.at(range(len(self)))

    @property
    def failed(self) -> list[int]:
        """The places of the rows that failed: ``[table[i] for i in table.failed]``."""
        status_of = self._unjournaled.status
        lacking = [place for place in self._lacking if status_of(place) == "failed"]
        if self._records is None:
            return lacking
        return sorted([*compress(range(len(self)), self._records.failed), *lacking])

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows by status."""
        lacking = Counter(map(self._unjournaled.status, self._lacking))
        failed = sum(map(bool, self._records.failed)) if self._records is not None else 0
        counts = {
            "ok": len(self) - len(self._lacking) - failed + lacking["ok"],
            "failed": failed + lacking["failed"],
            NOT_STORED: lacking[NOT_STORED],
            NOT_RUN: lacking[NOT_RUN],
        }
        return {status: count for status, count in counts.items() if count}

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns; the columns of the output are those of its first rows."""
        return tuple(self._columns(self.rows(range(min(len(self), PAGE))), shown=True))

    def rows(self, numbers: Iterable[int] | None = None) -> Iterator[TableRow]:
        """The rows at these places, default None: all. Raises DefinitionError for a damaged one."""
        places = list(range(len(self)) if numbers is None else numbers)
        for start in range(0, len(places), PAGE):
            page = places[start : start + PAGE]
            with as_definition_errors():
                records = self._records
                outcomes = (
                    records.read(page) if records is not None else [RowOutcome(None)] * len(page)
                )
                for number, outcome in zip(page, outcomes, strict=True):
                    yield self._row(number, outcome)

    def at(self, places: Sequence[int]) -> Iterator[Mapping[str, Value]]:
        """The rows at these places (required) as mappings, read page by page. A value that the
        journal does not hold is an error ``over.not-stored`` where it is read."""
        for place, row in zip(places, self.rows(places), strict=True):
            yield as_mapping(row.number, self._cells_of_row(place, row))

    def shown_at(self, places: Sequence[int]) -> Iterator[dict[str, Value]]:
        """The rows at these places (required) for a display: values that are no JSON, or that are
        not stored, as previews; a failure without the name of its call, which all rows make."""
        for place, row in zip(places, self.rows(places), strict=True):
            yield self._cells_of_row(place, row, shown=True)

    def input_of(self, row: TableRow) -> dict[str, Value]:
        """The input that the flow read for a row: the cells of the row, the values that all rows
        have in common, and the columns that are bound to another name."""
        _, common = self.terms.parts_of_input(fields_of(input_of(self.run)))
        return inputs_of_row(common, row.input, self.terms.rename)

    def column(self, name: str) -> list[Value]:
        """The values of a column (``name``, required), None for a row without a value. Raises
        DefinitionError ``over.not-stored``."""
        return [row.get(name) for row in self]

    def column_of(self, name: str) -> str:
        """The name of a column about the run (``name``, required): ``status`` is ``run.status``
        where the input has that column, ``run.run.status`` where it has both."""
        return free_name("run.", name, self.terms.columns)

    @cached_property
    def _taken(self) -> frozenset[str]:
        """The names that no column of the output and no added column can have."""
        own = ("row", "repeat", *ABOUT)
        return frozenset((*self.terms.columns, *own, *map(self.column_of, own)))

    def refresh(self) -> None:
        """Read the added columns again: the page, or another process, may have changed a label."""
        if (place := place_in_journal(self.run)) is not None:
            with as_definition_errors():
                self.added.update(read_columns(*place))

    def add_column(self, name: str, values: Sequence[Value]) -> None:
        """Add a column, or replace one that was added: ``name`` and a value for each row
        (``values``), both required. The journal keeps it with the run. A column of the output that
        has this name gets the name ``output.NAME``. A number of NumPy is a number, a date a text in
        ISO form. Raises ValueError for any other column's name, DefinitionError
        ``over.cannot-hold`` for a value that has no such form."""
        if name in self._taken:
            raise ValueError(f"the table has a column {name!r}: choose another name")
        if len(values) != len(self):
            raise ValueError(f"a column here has {len(self):,} values, not {len(values):,}")
        cells = (
            added_cell(value, self.number_of(place), name) for place, value in enumerate(values)
        )
        self.added[name] = dict(enumerate(map(self.run.secrets.shown, cells)))
        try:
            self._keep_column(name, self.added[name], new=True)
        except DeletedRun as error:
            raise unusable(error) from None
        except JournalError:
            pass  # without a writable journal (it may be a colleague's), this table still has them

    def label(self, place: int, text: str | None) -> None:
        """Label a row: what a person says about it, in the column ``label``.

        ``place``: the place of the row, as in ``table[place]``; ``text``: at most 200 characters,
        None or "" takes the label away. Both required. The journal keeps it with the run. Raises
        DefinitionError for a text that is longer, IndexError for a row that does not exist.
        """
        try:
            place = range(len(self))[place]
        except IndexError:
            raise IndexError(f"the table has no row {place:,}: it has {len(self):,} rows") from None
        if text is not None and (not isinstance(text, str) or len(text) > LONGEST):
            message = f"a label is a text of at most {LONGEST} characters"
            raise DefinitionError(
                Diagnostic("over.label", message, hint="keep it to a word or two")
            )
        masked = self.run.secrets.text(text) if text else None
        with as_definition_errors():
            self._keep_column(self.label_column, {place: masked}, new=False)
        self.added.setdefault(self.label_column, {})[place] = masked

    @cached_property
    def label_column(self) -> str:
        """The name of the column of labels: ``label``, or ``run.label`` if the table has one."""
        return free_name("run.", LABEL, {*self.columns} - {*self.added})

    def _keep_column(self, name: str, values: Mapping[int, Value], new: bool) -> None:
        if (place := place_in_journal(self.run)) is not None:
            write_column(*place, name, values, new)

    # --- all of it ---

    def to_pandas(self) -> Any:
        """A pandas DataFrame. The columns and the index of the DataFrame that was given have the
        types that they had there; whole numbers and booleans beside missing ones have the types that
        can be empty. Raises ImportError without pandas, DefinitionError ``over.not-stored``."""
        with installed_only():
            import pandas

        columns, rows = self.everything()
        return in_pandas_form(pandas, columns, rows, self.terms.pandas)

    def to_arrow(self) -> Any:
        """A table of pyarrow. A column of values of different kinds is text in JSON. Raises
        ImportError without pyarrow, DefinitionError ``over.not-stored`` and ``over.cannot-hold``."""
        return arrow_table(self, "an Arrow table")

    def to_polars(self) -> Any:
        """A polars DataFrame. A column of values that Arrow does not have has the type Object. Raises
        ImportError without polars and pyarrow, DefinitionError ``over.not-stored``."""
        with installed_only():
            import polars

        return in_polars_form(polars, *self.everything())

    def save(self, path: str | Path) -> Path:
        """Write the table to the file ``path`` (required), which ends in ``.csv``, ``.jsonl`` or
        ``.parquet``, and return the path. Raises DefinitionError if it cannot be written, or cannot
        hold a value. Warns about texts that are written otherwise, as secrets are: ``•••``."""
        target, note = self._save(Path(path))
        if note:
            warnings.warn(note, stacklevel=2)
        return target

    def save_noted(self, path: str | Path) -> str:
        """Write the table as `save` does, and return a text: the path, and the notes about the
        file."""
        target, note = self._save(Path(path))
        return f"{target}; {note}" if note else str(target)

    def _save(self, target: Path) -> tuple[Path, str]:
        check_target(target, TABLE)
        rows, _ = self.terms.parts_of_input(fields_of(input_of(self.run)))
        if isinstance(rows, FileRows):
            refuse_same_file(target, rows.path)
        masked = MaskedCells(self, self.run.secrets.shown)
        note = WRITERS[target.suffix.lower()](masked, target)
        return target, "; ".join(filter(None, (note, masked.note)))

    def named_cells(self) -> Iterator[tuple[int, Cells]]:
        """The number and the cells of each row, in order."""
        for place, row in enumerate(self.rows()):
            yield row.number, self._cells_of_row(place, row)

    def all_columns(self) -> list[str]:
        """The names of all columns, also those that only late rows have."""
        return list(self._columns(self.rows()))

    def number_of(self, place: int) -> int:
        """The number by which a person knows the row at ``place`` (required)."""
        return self.terms.number_of(place)

    def report_form(self) -> dict[str, Value]:
        """The rows in the form of an `EvaluationReport`, which pydantic-evals can read; values that
        are not JSON are previews."""
        return evaluation_report(self.rows(), self.terms.repeat, self.added)

    def everything(self) -> tuple[list[str], list[Cells]]:
        """The columns and the cells of all rows. Raises DefinitionError for values that the journal
        does not hold, with all their places."""
        rows = list(self.rows())
        cells = [self._cells_of_row(place, row) for place, row in enumerate(rows)]
        lost = [
            (row.number, name, value.why)
            for row, named in zip(rows, cells, strict=True)
            for name, value in named.items()
            if isinstance(value, Unstored)
        ]
        if lost:
            raise not_stored([(number, name) for number, name, _ in lost], lost[0][2])
        return list(self._columns(rows)), cells

    def _columns(self, rows: Iterable[TableRow], shown: bool = False) -> dict[str, None]:
        """The names of all columns. The columns of the output are those of ``rows``."""
        outputs = chain.from_iterable(self._outputs(row, shown) for row in rows)
        about = map(self.column_of, ABOUT)
        return dict.fromkeys(
            chain(self._numbers(0, 0), self.terms.columns, outputs, about, self.added)
        )

    # --- rows ---

    def _cells_of_row(self, place: int, row: TableRow, shown: bool = False) -> Cells:
        error = row.error
        why = error and (brief_reason(error) if shown else error.diagnostic.message)
        code = error.code if error is not None else None
        values = {**row.given_cells(shown), **self._outputs(row, shown)}
        if shown:  # only what the journal has is masked already
            why = why and self.run.secrets.text(why)
            values = self.run.secrets.shown_values(values)
        cost = UNKNOWN if shown and row.has_unknown_cost else row.cost
        about = (row.status, code, why, row.seconds, row.tokens, cost)
        return {
            **self._numbers(row.number, row.repeat),
            **values,
            **dict(zip(map(self.column_of, ABOUT), about, strict=True)),
            **{name: column.get(place) for name, column in self.added.items()},
        }

    def _numbers(self, number: int, repeat: int) -> dict[str, Value]:
        numbers: dict[str, Value] = {self.column_of("row"): number}
        return numbers if self.terms.repeat == 1 else {**numbers, self.column_of("repeat"): repeat}

    def _outputs(self, row: TableRow, shown: bool) -> Cells:
        taken = self._taken | self.added.keys()
        cells = row.returned_cells(shown)
        clashing = cells.keys() & taken
        if not clashing:
            return dict(cells)
        taken |= cells.keys()
        return {
            free_name("output.", name, taken) if name in clashing else name: value
            for name, value in cells.items()
        }

    def _row(self, place: int, outcome: RowOutcome) -> TableRow:
        record = outcome.record
        number = self.terms.number_of(place)
        journal = place_in_journal(self.run)
        repeat = place % self.terms.repeat
        find_input = partial(self._input, place, record)
        if record is None:
            return self._unjournaled.row(place, number, repeat, find_input)
        error = record.failure
        return TableRow(
            number,
            repeat,
            "ok" if error is None else "failed",
            find_input,
            record,
            run_id=self.run.run_id,
            files=journal[0].files if journal is not None else None,
            error=error,
            seconds=record.seconds,
            tokens=outcome.tokens,
            cost=float(outcome.cost) if outcome.cost is not None else None,
        )

    def _input(
        self, place: int, record: Record | None, *, shown: bool
    ) -> Mapping[str, Value] | LostInput:
        """The row as it was given: from its record in the journal, if the record has the whole row,
        else from the table, if this process or the journal has the table."""
        has_record = record is not None and record.arguments.text is not None
        if record is not None and has_record and (record.arguments.whole or shown):
            return fields_of(record.arguments_shown)
        number = place // self.terms.repeat
        try:
            if self.terms.numbers is not None:
                number = self.terms.numbers[number]
            row = (self._table_shown if shown else self._table)[number]
        except (StepError, DefinitionError, LookupError) as error:  # a line that cannot be read
            if record is None or not has_record:
                return {}
            why = str(error) if isinstance(error, DefinitionError) else ""
            return LostInput(fields_of(record.arguments_shown), why)
        return fields_of(row)

    @cached_property
    def _table(self) -> Sequence[Value]:
        """The table that was given; empty if neither this process nor the journal has it."""
        rows, _ = self.terms.parts_of_input(fields_of(input_of(self.run)))
        return rows if isinstance(rows, list | Rows) else ()

    @property
    def _table_shown(self) -> Sequence[Value]:
        """The table that was given, for a display."""
        rows, _ = self.terms.parts_of_input(fields_of(self.run.input))
        return rows if isinstance(rows, list | Rows) else ()

    @cached_property
    def _records(self) -> RowRecords | None:
        place = place_in_journal(self.run)
        if place is None:
            return None
        return RowRecords(*place, BODY, len(self), as_definition_errors)

    @cached_property
    def _lacking(self) -> Sequence[int]:
        """The places of the rows of which the journal has no outcome."""
        return self._records.lacking if self._records is not None else range(len(self))

    @cached_property
    def _unjournaled(self) -> UnjournaledRows:
        return UnjournaledRows(ended_rows(self.run), self.run.progress)

    # --- display ---

    def _repr_html_(self) -> str:
        return untypeset(displayed_html(self))

    def __repr__(self) -> str:
        return displayed_text(self)


def terms_of(run: RunOfRows) -> OverTerms:
    """The terms in the definition of a run over a table. Raises DefinitionError for another run."""
    language, source = definition_of(run)
    if language != OVER:
        hint = "agf.run(flow, over=table), or %run_pipeline NAME --over $table"
        message = f"run {run.run_id!r} is not a run over a table"
        raise DefinitionError(Diagnostic("over.no-rows", message, hint=hint))
    try:
        return OverTerms(**json.loads(source.text))
    except (ValueError, TypeError) as error:
        message = f"this run cannot be read: {error}"
        raise DefinitionError(Diagnostic("journal.unreadable", message)) from None
