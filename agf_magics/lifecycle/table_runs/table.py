"""The result of a run over data as a table: a row for each row, also for those that failed.

It is read page by page from the journal, so that a table of a million rows needs no memory. Only
`RowTable.to_arrow`, `to_pandas` and `to_polars` make all of it.
"""

from __future__ import annotations

import contextlib
import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, compress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ...compat.imports import installed_only
from ...flow.progress.progress import Progress
from ...journal.database.errors import JournalError, as_definition_errors
from ...journal.database.store import Store
from ...journal.records.columns import read_columns, write_column
from ...journal.records.records import Record
from ...journal.row_records import RowOutcome, RowRecords
from ...journal.secrets.masking import Secrets
from ...languages.over import BODY, OVER, ROWS, OverTerms
from ...pictures.plain import counted, untypeset
from ...pictures.values import cell_text, table_html, table_text
from ...text.diagnostics import DefinitionError, Diagnostic, StepError
from ...text.source import UNUSABLE, Source, path_error_reason, unwritable_reason
from ...values.tables.data_frames import arrow_table, in_pandas_form
from ...values.tables.files import json_text
from ...values.tables.rows import Rows
from ...values.value import Value
from ..input.fields import fields_of
from .scores import Scores

TABLE = ("not a file of rows", (".csv", ".jsonl", ".parquet"))
FIGURES = ("no file for a report", (".html", ".json"))
"""Files that are written at the end of a run: what is wrong with one is told before it begins."""


def check_target(target: Path, kind: tuple[str, tuple[str, ...]]) -> None:
    """Raises DefinitionError if no file of this kind, `TABLE` or `FIGURES`, can be written there, as
    far as this is known before it is tried."""
    otherwise, endings = kind
    if target.suffix.lower() not in endings:
        message = f"{str(target)!r} is {otherwise}"
        hint = f"write a file with the suffix {', '.join(endings[:-1])} or {endings[-1]}"
        raise DefinitionError(Diagnostic("over.file", message, hint=hint))
    if (reason := unwritable_reason(target)) is not None:
        message = f"{str(target)!r} cannot be written: {reason}"
        raise DefinitionError(Diagnostic("over.file", message))


PAGE = 1_000
"""Rows that are read at a time."""

SHOWN = 20
"""Rows that are displayed."""

ABOUT = ("status", "error", "error_text", "seconds", "tokens", "cost")
"""The columns about a row's run."""

NOT_RUN = "not run"

LABEL = "label"

LONGEST = 200
"""Characters of a label."""


class TableRow(NamedTuple):
    """One row of the result."""

    number: int
    """Its number in the table that was given."""
    repeat: int
    """Which of its repetitions it is."""
    input: Mapping[str, Value]
    output: Value
    status: str
    """``ok``, ``failed`` or ``not run``."""
    error: StepError | None = None
    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None
    """US dollars; None: it is not known, or the row asked no model."""
    is_whole: bool = False
    """Whether the journal has all of its input."""


class RunOfRows(Protocol):
    """What a table reads of its run."""

    run_id: str

    @property
    def input(self) -> Value: ...
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


class RowTable:
    """The rows of a run over data with their outcomes. ``table[3]`` and ``table[:10]`` are rows as
    mappings, ``len(table)`` is their number, and a loop reads page by page.

    The columns are ``row``, those of the input, those of the output (``output`` if it is no
    mapping), ``status``, ``error``, ``error_text``, ``seconds``, ``tokens`` and ``cost``. A name
    that the input has already begins with ``output.`` or ``run.``.
    """

    def __init__(self, run: RunOfRows) -> None:
        """``run``: a run over data. Raises DefinitionError for any other."""
        self.run, self.terms = run, terms_of(run)
        self.scores = Scores()
        """What its scores are over all rows, by name."""
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

    def __iter__(self) -> Iterator[dict[str, Value]]:
        return self.at(range(len(self)))

    @property
    def failed(self) -> list[int]:
        """The places of the rows that failed: ``[table[i] for i in table.failed]``."""
        if self._records is not None:
            return list(compress(range(len(self)), self._records.failed))
        return list(compress(range(len(self)), (row.status == "failed" for row in self._kept)))

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows by status."""
        failed = len(self.failed)
        done = self._records.done if self._records is not None else len(self)
        counts = {"ok": done - failed, "failed": failed, NOT_RUN: len(self) - done}
        return {status: count for status, count in counts.items() if count}

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns; those of the output as its first rows have them."""
        return tuple(self._columns(self.rows(range(min(len(self), PAGE)))))

    def rows(self, numbers: Iterable[int] | None = None) -> Iterator[TableRow]:
        """The rows at these places, default None: all. Raises DefinitionError for a damaged one."""
        wanted = list(range(len(self)) if numbers is None else numbers)
        for start in range(0, len(wanted), PAGE):
            some = wanted[start : start + PAGE]
            if self._records is None:
                yield from (self._kept[number] for number in some)
                continue
            with as_definition_errors():
                for number, outcome in zip(some, self._records.read(some), strict=True):
                    yield self._row(number, outcome)

    def at(self, places: Sequence[int]) -> Iterator[dict[str, Value]]:
        """The rows at these places (required) as mappings, read page by page."""
        for place, row in zip(places, self.rows(places), strict=True):
            yield self._named(place, row)

    def column_of(self, name: str) -> str:
        """The name of a column about the run (``name``, required): ``status`` is ``run.status``
        where the input has that column."""
        return f"run.{name}" if name in self.terms.columns else name

    def refresh(self) -> None:
        """Read the added columns again: the page, or another process, may have changed a label."""
        if (place := self.run._in_journal) is not None:
            with as_definition_errors():
                self.added.update(read_columns(*place))

    def add_column(self, name: str, values: Sequence[Value]) -> None:
        """Add a column, or replace one that was added: ``name`` and a value for each row
        (``values``), both required. The journal keeps it with the run."""
        if len(values) != len(self):
            raise ValueError(
                f"a column of this table has {len(self):,} values, not {len(values):,}"
            )
        self.added[name] = dict(enumerate(map(self.run.secrets.shown, values)))
        # A journal that cannot be written, of a colleague, is no reason to have no scores.
        with contextlib.suppress(JournalError):
            self._save(name, self.added[name], new=True)

    def label(self, place: int, text: str | None) -> None:
        """Label a row: what a person says about it, in the column ``label``.

        ``place``: the place of the row, as in ``table[place]``; ``text``: at most 200 characters,
        None or "" takes the label away. Both required. The journal keeps it with the run. Raises
        DefinitionError for a text that is longer, IndexError for a row that does not exist.
        """
        place = range(len(self))[place]
        if text is not None and (not isinstance(text, str) or len(text) > LONGEST):
            message = f"a label is a text of at most {LONGEST} characters"
            raise DefinitionError(
                Diagnostic("over.label", message, hint="keep it to a word or two")
            )
        shown = self.run.secrets.text(text) if text else None
        with as_definition_errors():
            self._save(self.label_column, {place: shown}, new=False)
        self.added.setdefault(self.label_column, {})[place] = shown

    @cached_property
    def label_column(self) -> str:
        """The name of the column of labels: ``label``, or ``run.label`` if the table has one."""
        others = {*self.columns} - {*self.added}
        return "run." + LABEL if LABEL in others else LABEL

    def _save(self, name: str, values: Mapping[int, Value], new: bool) -> None:
        if (place := self.run._in_journal) is not None:
            write_column(*place, name, values, new)

    # --- all of it ---

    def to_pandas(self) -> Any:
        """A pandas DataFrame. The columns and the index of the DataFrame that was given have the
        types that they had there. Raises ImportError without pandas."""
        with installed_only():
            import pandas

        columns, rows = self._everything()
        return in_pandas_form(pandas, columns, rows, self.terms.pandas)

    def to_arrow(self) -> Any:
        """A table of pyarrow. A column of values of different kinds is text in JSON. Raises
        ImportError without pyarrow."""
        return arrow_table(*self._everything())

    def to_polars(self) -> Any:
        """A polars DataFrame. Raises ImportError without polars and pyarrow."""
        with installed_only():
            import polars

        return polars.from_arrow(self.to_arrow())

    def save(self, path: str | Path) -> Path:
        """Write the table to the file ``path`` (required), which ends in ``.csv``, ``.jsonl`` or
        ``.parquet``, and return the path. Raises DefinitionError if it cannot be written."""
        target = Path(path)
        check_target(target, TABLE)
        try:
            _WRITERS[target.suffix.lower()](self, target)
        except UNUSABLE as error:
            message = f"{str(target)!r} cannot be written: {path_error_reason(error)}"
            raise DefinitionError(Diagnostic("over.file", message)) from None
        return target

    def report_form(self) -> dict[str, Value]:
        """The rows as an `EvaluationReport` of pydantic-evals has them, which can read it."""
        cases, failures = list[Value](), list[Value]()
        kinds: dict[str, Any] = {"assertions": bool, "scores": (int, float), "labels": str}
        for place, row in enumerate(self.rows()):
            about = {
                "name": f"{row.number}" + (f"/{row.repeat}" if self.terms.repeat > 1 else ""),
                "inputs": dict(row.input),
                "metadata": row.input.get("metadata"),
                "expected_output": row.input.get("expected_output"),
            }
            if row.error is not None:
                message = row.error.diagnostic.message
                failures.append(
                    {**about, "error_message": message, "error_stacktrace": str(row.error)}
                )
            if row.status != "ok":
                continue
            metrics = {"tokens": row.tokens, "cost": row.cost}
            graded: dict[str, dict[str, Value]] = {"assertions": {}, "scores": {}, "labels": {}}
            for name, values in self.added.items():
                value = values.get(place)
                kind = next((k for k, types in kinds.items() if isinstance(value, types)), None)
                if kind is not None:
                    result = {"name": name, "value": value, "reason": None}
                    graded[kind][name] = {**result, "source": {"name": name, "arguments": None}}
            seconds = row.seconds or 0.0
            cases.append(
                {
                    **about,
                    "output": row.output,
                    "metrics": {
                        name: amount for name, amount in metrics.items() if amount is not None
                    },
                    "attributes": {},
                    **graded,
                    "task_duration": seconds,
                    "total_duration": seconds,
                }
            )
        return {"cases": cases, "failures": failures}

    def _everything(self) -> tuple[list[str], list[dict[str, Value]]]:
        rows = list(self.rows())
        columns = self._columns(rows)
        return list(columns), [self._named(place, row) for place, row in enumerate(rows)]

    def _columns(self, rows: Iterable[TableRow]) -> dict[str, None]:
        """The names of all columns, given rows that have all outputs."""
        outputs = chain.from_iterable(map(self._outputs, rows))
        about = map(self.column_of, ABOUT)
        return dict.fromkeys(
            chain(self._numbers(0, 0), self.terms.columns, outputs, about, self.added)
        )

    # --- rows ---

    def _named(self, place: int, row: TableRow) -> dict[str, Value]:
        error = row.error
        about = (
            row.status,
            error.code if error is not None else None,
            error.diagnostic.message if error is not None else None,
            row.seconds,
            row.tokens,
            row.cost,
        )
        return {
            **self._numbers(row.number, row.repeat),
            **row.input,
            **self._outputs(row),
            **dict(zip(map(self.column_of, ABOUT), about, strict=True)),
            **{name: values.get(place) for name, values in self.added.items()},
        }

    def _numbers(self, number: int, repeat: int) -> dict[str, Value]:
        numbers: dict[str, Value] = {self.column_of("row"): number}
        return numbers if self.terms.repeat == 1 else {**numbers, self.column_of("repeat"): repeat}

    def _outputs(self, row: TableRow) -> dict[str, Value]:
        if row.status != "ok":
            return {}
        output = (
            row.output if isinstance(row.output, dict) and row.output else {"output": row.output}
        )
        taken = {*self.terms.columns, *ABOUT, "row", "repeat"}
        return {f"output.{n}" if n in taken else n: value for n, value in output.items()}

    def _row(self, place: int, outcome: RowOutcome) -> TableRow:
        record, number = outcome.record, self.terms.number_of(place)
        repeat = place % self.terms.repeat
        cost = float(outcome.cost) if outcome.cost is not None else None
        if record is None:
            return TableRow(number, repeat, self._input(place, None), None, NOT_RUN)
        error = record.failure
        return TableRow(
            number,
            repeat,
            self._input(place, record),
            record.value_shown,
            "ok" if error is None else "failed",
            error,
            record.seconds,
            outcome.tokens,
            cost,
            bool(record.given.whole),
        )

    def _input(self, place: int, record: Record | None) -> Mapping[str, Value]:
        """The row as it was given: that of its record, else that of the table, if it is there."""
        row = record.given_shown if record is not None else None
        if isinstance(row, dict):
            return row
        try:
            number = place // self.terms.repeat
            number = number if self.terms.numbers is None else self.terms.numbers[number]
            given = self._given[number]
        except (StepError, LookupError):  # a line that cannot be read
            return {}
        return given if isinstance(given, Mapping) else {}

    @cached_property
    def _given(self) -> Sequence[Value]:
        """The table that was given; empty if neither this process nor the journal has it."""
        rows = fields_of(self.run.input).get(ROWS)
        return rows if isinstance(rows, list | Rows) else ()

    @cached_property
    def _records(self) -> RowRecords | None:
        place = self.run._in_journal
        if place is None:
            return None
        return RowRecords(*place, BODY, len(self), as_definition_errors)

    @cached_property
    def _kept(self) -> list[TableRow]:
        """The rows of a run without a journal: in memory."""
        run = self.run
        outcomes = run.progress.stores.get("outcomes", ())
        outputs = {outcome["row"]: outcome["output"] for outcome in outcomes}
        failures = {failure.at[1]: failure.error for failure in run.progress.failures}
        rows = []
        for place in range(len(self)):
            error = failures.get(place)
            status = "ok" if place in outputs else "failed" if error is not None else NOT_RUN
            number, repeat = self.terms.number_of(place), place % self.terms.repeat
            failed = error if isinstance(error, StepError) else None
            row = TableRow(
                number, repeat, self._input(place, None), outputs.get(place), status, failed
            )
            rows.append(row)
        return rows

    # --- display ---

    def _shown(self) -> tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """What is displayed: a line about the table, its columns, and the cells of its first
        rows."""
        rows = list(self.rows(range(min(len(self), SHOWN))))
        named = [self._named(place, row) for place, row in enumerate(rows)]
        about = {*map(self.column_of, ABOUT)}
        columns = tuple(
            name
            for name in self._columns(rows)
            if name not in about or any(row[name] is not None for row in named)
        )
        seconds = self.column_of("seconds")
        cells = tuple(
            tuple(cell_text(row.get(name), name == seconds) for name in columns) for row in named
        )
        counts = ", ".join(f"{count:,} {status}" for status, count in self.counts.items())
        more = f"; the first {SHOWN} are shown" if len(self) > SHOWN else ""
        return f"{counted(len(self), 'row')}: {counts}{more}", columns, cells

    def _repr_html_(self) -> str:
        about, columns, cells = self._shown()
        return untypeset(table_html(columns, cells, about))

    def __repr__(self) -> str:
        about, columns, cells = self._shown()
        return "\n".join([about, *table_text(columns, cells)])


def terms_of(run: RunOfRows) -> OverTerms:
    """What the definition of a run over data says. Raises DefinitionError for another run."""
    language, source = run._definition
    if language != OVER:
        hint = "agf.run(flow, over=table), or %run_pipeline NAME --over $table"
        message = f"run {run.run_id!r} is not a run over data"
        raise DefinitionError(Diagnostic("over.no-rows", message, hint=hint))
    try:
        return OverTerms(**json.loads(source.text))
    except (ValueError, TypeError) as error:
        message = f"this run cannot be read: {error}"
        raise DefinitionError(Diagnostic("journal.unreadable", message)) from None


def _write_csv(table: RowTable, path: Path) -> None:
    columns = list(table._columns(table.rows()))
    with path.open("w", encoding="utf-8", newline="", errors="backslashreplace") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in table:
            cells = map(row.get, columns)
            writer.writerow(
                [json_text(c) if isinstance(c, dict | list | bool) else c for c in cells]
            )


def _write_jsonl(table: RowTable, path: Path) -> None:
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines(f"{json_text(row)}\n" for row in table)


def _write_parquet(table: RowTable, path: Path) -> None:
    with installed_only():
        from pyarrow import parquet  # type: ignore[import-untyped]

    parquet.write_table(table.to_arrow(), path)


_WRITERS: Mapping[str, Callable[[RowTable, Path], None]] = {
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
}
