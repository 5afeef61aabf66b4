"""Prepares the run of a flow over the rows of a table, as `languages.over` defines it (decision
D53).

The table, the columns and the numbers of the rows are checked before the first row runs, so that a
misspelt column costs nothing.
"""

from __future__ import annotations

import copy
import random
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import index
from typing import Any

from ...catalog import Registry, default
from ...engine.run_options import RunOptions
from ...flow.flow import Flow
from ...languages.over import OVER, ROWS, OverTerms
from ...limits.limits import limits_of_run
from ...pictures.amounts import counted
from ...settings.settings import current
from ...text.diagnostics import DefinitionError, Diagnostic, Diagnostics, Severity, StepError
from ...text.names import same_name
from ...text.placed import place_of
from ...text.source import Source, Span
from ...text.suggestions import join_hints, misspelled_names, suggest
from ...values.tables.rows import ListRows, Rows, ValueRows
from ...values.tables.tables import IN_MEMORY, open_rows
from ...values.value import Value
from ..definitions.loading import load_definition
from ..input.fields import read_names, settle_fields
from .table_row import free_name

FIRST = 20
"""The rows after which a person is asked whether the others shall run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """A table whose rows a flow runs over, and which of them.

    Parameters:

    - ``table``: a DataFrame of pandas or polars, an Arrow table, a list of mappings, or the path of
      a ``.csv``, ``.jsonl`` or ``.parquet`` file, which is read in parts. Required.
    - ``map``: the columns of inputs that have another name, ``{"text": "body"}``. Default: none.
    - ``limit``: the number of rows that run, from the first one on. Default None: all.
    - ``sample``: the number of rows that run, chosen at random. Default None: all.
    - ``seed``: the seed of the sample. Default None: a new one, which ``run.note`` names.
    - ``repeat``: how often each row runs, for models that vary. Default 1.
    - ``width``: how many rows run at the same time. Default None: 8, or as the workers want.
    - ``yes``: whether the run goes on after the first 20 rows without asking, whatever it costs.
      Default False.
    - ``numbers``: only the rows with these numbers. Default None: all.
    - ``names``: the numbers by which you know the rows, where the table is a part of another one.
      Default None: their places in the table.
    - ``retried``: the id of the run whose results are reused, where the rows are those that failed
      in it. Default None.
    """

    table: Any
    map: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None
    sample: int | None = None
    seed: int | None = None
    repeat: int = 1
    width: int | None = None
    yes: bool = False
    numbers: Sequence[int] | None = field(default=None, repr=False)
    names: Sequence[int] | None = field(default=None, repr=False)
    retried: str | None = None

    def __post_init__(self) -> None:
        for name in ("limit", "sample", "repeat", "width"):
            count = getattr(self, name)
            if count is not None and (type(count) is not int or count < 1):
                raise ValueError(f"{name} is a whole number of at least 1, not {count!r}")
        if not isinstance(self.yes, bool):
            raise ValueError(f"yes is True or False, not {self.yes!r}")
        if not _is_map(self.map):
            raise ValueError(f"map is {{'INPUT': 'COLUMN'}}, not {self.map!r}")
        if self.seed is not None:
            try:  # it may be a number of NumPy
                object.__setattr__(self, "seed", index(self.seed))
            except TypeError:
                raise ValueError(f"seed is a whole number, not {self.seed!r}") from None
        for name in ("numbers", "names"):
            numbers = getattr(self, name)
            if numbers is not None:
                object.__setattr__(self, name, _row_numbers(name, numbers))


def _is_map(value: object) -> bool:
    """Whether ``value`` gives the names of columns by the names of inputs."""
    return isinstance(value, Mapping) and all(
        isinstance(name, str) for pair in value.items() for name in pair
    )


def _row_numbers(name: str, numbers: Sequence[int]) -> Sequence[int]:
    """Numbers of rows, which may be those of NumPy. Raises ValueError."""
    try:
        chosen = [index(number) for number in numbers]
    except TypeError:
        chosen = []
    if not chosen or min(chosen) < 0:
        raise ValueError(f"{name} are the numbers of rows, from 0 on, not {numbers!r}")
    return chosen


def over_rows(
    flow: Flow, over: object, same: Value, options: RunOptions
) -> tuple[Flow, dict[str, Value], RunOptions]:
    """The flow, the input and the options of a run of ``flow`` over rows. ``same``: the input that
    all rows have in common. Raises DefinitionError."""
    chosen = over if isinstance(over, Over) else Over(table=over)
    rows = open_rows(chosen.table)
    common = settle_fields(same or {})
    limits = limits_of_run(options.limits, current.settings.limits)
    warnings = _check_columns(flow, rows, common, chosen.map)
    _check_numbers(rows, chosen)
    numbers, note = _numbers(rows, chosen)
    table = free_name("table.", ROWS, common)
    terms = OverTerms(
        over=flow.name,
        table=table,
        same=list(common),
        # A plain text, which the journal can store.
        rename={str(name): str(column) for name, column in chosen.map.items()},
        only=_only_inputs(flow),
        numbers=numbers,
        repeat=chosen.repeat,
        width=chosen.width,
        sessions=limits.spawns,
        timeout=limits.timeout,
        first=0 if chosen.yes else FIRST,
        columns=rows.columns,
        total=len(rows) if numbers is None else len(numbers),
        names=chosen.names,
        pandas=getattr(rows, "about", {}),
        retried=chosen.retried,
    )
    options = replace(
        options,
        registry=_with_flow(default(options.registry), flow),
        # The limits of the whole run; the limits of a row are in the definition.
        limits=replace(limits, spawns=0, timeout=None),
        note=note,
        input_warnings=warnings,
        reuse=options.reuse or chosen.retried or False,
    )
    return definition(terms), {table: _rows_as_input(rows), **common}, options


def definition(terms: OverTerms) -> Flow:
    """The definition of a run over a table."""
    problems = Diagnostics()
    source = Source(f"<{terms.over} over rows>", terms.text())
    flow = load_definition(source, OVER, problems).flow
    problems.refuse()
    assert flow is not None, "a definition without errors has a flow"
    return flow


def _with_flow(registry: Registry, flow: Flow) -> Registry:
    """``registry`` with ``flow`` under its name: it may be another one than the registered."""
    if registry.flows.get(flow.name) is flow:
        return registry
    other = copy.copy(registry)
    other.flows = copy.copy(registry.flows)
    other.flows._things = {**registry.flows._things, same_name(flow.name): flow}
    return other


def _rows_as_input(rows: Rows) -> Value:
    """The rows as the input of a run: a list, which the journal has whole, if they are few and in
    memory."""
    is_in_memory = hasattr(rows, "frame") or type(rows) in (ListRows, ValueRows)
    if is_in_memory and len(rows) <= IN_MEMORY:
        with suppress(StepError):  # a row that cannot be read fails alone
            return list(rows)
    return rows


def _check_columns(
    flow: Flow, rows: Rows, common: Mapping[str, Value], renamed: Mapping[str, str]
) -> tuple[Diagnostic, ...]:
    """Warnings about the columns. Raises DefinitionError for a table without rows, and for columns
    that do not exist."""
    problems = Diagnostics()
    if not len(rows):
        hint = "a run over a table needs at least one row"
        raise DefinitionError(Diagnostic("over.empty", "the table has no rows", hint=hint))
    names = rows.columns
    problems.extend(_unknown_columns(renamed, names))
    problems.extend(_hidden_values(common, rows, renamed))
    names_of_values = {*names, *renamed, *common}
    declared = (flow.declared.accepts or {}).get("required", [])
    places: dict[str, Span | None] = {ref.path[-1]: ref.span for ref in flow.inputs}
    certain = {*declared, *(ref.path[-1] for ref in flow.inputs if ref.certain)}
    # In the order of the reads. A name that only the interface or a wire has, has no place.
    read = places | dict.fromkeys((*declared, *read_names(flow))) | places
    all_of_it = "".join(flow.dialect.stores[-1:])
    if all_of_it in read and all_of_it not in certain:
        del read[all_of_it]  # the whole input, which is no column
    else:
        problems.extend(_unread_names(flow, renamed, read))
    optional = {ref.path[-1] for ref in flow.inputs if ref.optional} - certain
    missing = _missing(read, names_of_values, optional, names)
    alike = misspelled_names(list(missing), list(names))
    for name, span in missing.items():
        near = suggest(name, names, "the columns")
        cure = _separator_hint(names) or f"--map {name}=COLUMN binds another column"
        message = f"{flow.name!r} reads {name!r}, and the table has no such column"
        # Where a language does not say that a name must be there, its absence may be meant.
        is_meant = name in optional or not (alike or len(missing) == len(read))
        severity: Severity = "warning" if is_meant and name not in certain else "error"
        problems.add(Diagnostic("over.column", message, span, join_hints(near, cure), severity))
    problems.refuse()
    return tuple(problems)


def _check_numbers(rows: Rows, chosen: Over) -> None:
    """Raises DefinitionError for a number of a row that the table does not have, and ValueError if
    not each row has a name."""
    largest = max(chosen.numbers) if chosen.numbers is not None else 0
    if largest >= len(rows):
        message = f"the table has no row {largest:,}: it has {len(rows):,} rows"
        hint = "the first row is row 0; give the table that has these rows"
        raise DefinitionError(Diagnostic("over.lost-row", message, hint=hint))
    if chosen.names is not None and len(chosen.names) != len(rows):
        raise ValueError(f"names has {len(chosen.names):,} numbers for {len(rows):,} rows")


def _unknown_columns(renamed: Mapping[str, str], columns: Sequence[str]) -> Iterator[Diagnostic]:
    """The names that a person has mapped to columns that do not exist."""
    for name, column in renamed.items():
        if column not in columns:
            message = f"{name!r} is mapped to {column!r}, and the table has no such column"
            near = suggest(column, columns, "the columns")
            yield Diagnostic("over.column", message, place_of(column), near)


def _hidden_values(
    common: Mapping[str, Value], rows: Rows, renamed: Mapping[str, str]
) -> Iterator[Diagnostic]:
    """Warnings about the values for all rows that each row has itself. For a column that some rows
    lack, such a value is their default."""
    for name in common:
        column = renamed.get(name, name)
        if column in rows.columns and column not in rows.partial:
            message = f"{name!r} is given for all rows, and each row has its own from the table"
            hint = "leave it out, or give the table without this column"
            yield Diagnostic("over.column", message, None, hint, "warning")


def _missing(
    read: Mapping[str, Span | None],
    available: Collection[str],
    optional: Collection[str],
    columns: Sequence[str],
) -> dict[str, Span | None]:
    """The names that no column has. A name with a default, `get(ctx, 'x', 1)`, counts only if the
    name of a column resembles it."""
    return {
        name: span
        for name, span in read.items()
        if name not in available and (name not in optional or suggest(name, columns) is not None)
    }


_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def _separator_hint(names: Sequence[str]) -> str | None:
    """The hint for the only column of a file whose names stand between other signs than commas."""
    if len(names) != 1:
        return None
    for sign, word in _SEPARATORS.items():
        if sign in names[0]:
            return f"{word} separate its names: write commas, or open the file with pandas"
    return None


def _unread_names(
    flow: Flow, renamed: Mapping[str, str], read: Collection[str]
) -> Iterator[Diagnostic]:
    """The names that columns are mapped to and that ``flow`` certainly does not read: its language
    says all that it reads, or the name looks like one that it reads."""
    names = sorted(filter(None, read))
    for name, column in renamed.items():
        near = suggest(name, names)
        if name not in read and (near or flow.dialect.reads_are_complete):
            message = f"{column!r} is mapped to {name!r}, which {flow.name!r} does not read"
            hint = suggest(name, names, "its inputs") or "it reads no input"
            yield Diagnostic("over.column", message, place_of(name), hint)


def _only_inputs(flow: Flow) -> list[str] | None:
    """The inputs of a flow that refuses all others; None: it refuses none."""
    accepts = flow.declared.accepts or {}
    if accepts.get("additionalProperties") is not False:
        return None
    return list(accepts.get("properties", {}))


def _numbers(rows: Rows, chosen: Over) -> tuple[Sequence[int] | None, str]:
    """The numbers of the rows that run, None for all; and what a person must know about them."""
    numbers = range(len(rows)) if chosen.numbers is None else chosen.numbers
    first = numbers[: chosen.limit]
    count = len(first)
    if chosen.sample is not None and chosen.sample < count:
        seed = secrets.randbits(31) if chosen.seed is None else chosen.seed
        places = sorted(random.Random(seed).sample(range(count), chosen.sample))
        note = f"a sample of {chosen.sample:,} of {count:,} rows, seed {seed}"
        return [first[place] for place in places], note
    if chosen.numbers is not None:
        of = f" that failed in {chosen.retried}" if chosen.retried else ""
        return list(first), f"{count:,} of {len(rows):,} rows{of}"
    retried = f"{counted(count, 'row')} that failed in {chosen.retried}" if chosen.retried else ""
    if count == len(rows):
        return None, retried
    return list(first), retried or f"the first {count:,} rows"
