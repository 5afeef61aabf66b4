"""Defines a run over a table as a flow: a fan-out over the rows that calls another flow for each.

A run over a table runs this definition, so its journal, picture, resume, reuse, workers and limits
work as in every run (decision D53). A person writes ``--over``, and `lifecycle.table_runs.over`
writes the text of the definition: JSON with the fields of `OverTerms`. This is not a fifth
language, because no cell is written in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ..flow.expressions import Computed, Stored
from ..flow.flow import Definition, Dialect, Flow
from ..flow.protocols import FlowInput, FlowResult, Frame, Name, Ref
from ..flow.step import FailurePolicy
from ..flow.step_options import Exchange, RowTerms
from ..flow.steps import Each, Invoke
from ..flow.steps import Sequence as Steps
from ..text.diagnostics import Diagnostics
from ..text.source import Source, Span
from ..text.yaml.reader import Bounds
from ..values.tables.tables import Picked, open_rows
from ..values.value import Value
from .language import Language

OVER = "over"
"""The name of the internal language, and of the field with the name of the flow."""

BODY = "rows.do"
"""The id of the step that calls the flow."""


def name_over_rows(flow: str) -> str:
    """The name of the run of a flow over the rows of a table."""
    return f"{flow} over rows"


ROWS, SAME = "rows", "same"
"""The names in the frame of the run: the table, and the values that all rows have in common. In the
input of the run, the table has the name `OverTerms.table`, and each of those values its own."""


class OverTerms(NamedTuple):
    """The content of the definition of a run over a table."""

    over: str
    """The name of the flow."""
    table: str = ROWS
    """The name of the table in the input of the run."""
    same: Sequence[str] = ()
    """The names of the values that all rows have in common."""
    rename: Mapping[str, str] = {}
    """The name of an input, and the name of its column."""
    only: Sequence[str] | None = None
    """The inputs that the flow accepts; None: all columns are given to it."""
    numbers: Sequence[int] | None = None
    """The numbers of the rows that run; None: all."""
    repeat: int = 1
    """The number of runs of each row."""
    width: int | None = None
    """The number of rows that run at the same time; None: as in every fan-out."""
    sessions: int = 0
    """The agent sessions of a row, at most; 0: no limit."""
    timeout: float | None = None
    """The seconds of a row, at most."""
    first: int = 0
    """The rows after which a person is asked; 0: nobody is asked."""
    columns: Sequence[str] = ()
    """The names of the columns of the table."""
    total: int = 0
    """The number of rows that run, without their repetitions."""
    pandas: Mapping[str, Value] = {}
    """The types and the index of the DataFrame that was given; empty: the table was no DataFrame of
    pandas."""
    names: Sequence[int] | None = None
    """The numbers by which a person knows these rows, if the table is a part of an earlier
    table."""
    retried: str | None = None
    """The id of the run in which these rows failed; None: the rows are no part of another run."""

    def number_of(self, element: int) -> int:
        """The number by which a person knows the row of an element. The repetitions of a row are
        elements one after the other."""
        row = element // self.repeat
        row = row if self.numbers is None else self.numbers[row]
        return row if self.names is None else self.names[row]

    def parts_of_input(self, run_input: Mapping[str, Value]) -> tuple[Value, Mapping[str, Value]]:
        """The table in the input of the run, and the values that all rows have in common."""
        common = {name: value for name, value in run_input.items() if name != self.table}
        return run_input.get(self.table), common

    def text(self) -> str:
        values = self._asdict()
        return json.dumps({name: value for name, value in values.items() if value is not None})


def _elements(span: Span, terms: OverTerms) -> Computed:
    """The rows that run."""

    def read(frame: Frame) -> Value:
        rows = frame[ROWS]
        if terms.numbers is None and terms.repeat == 1:
            return rows
        numbers = range(len(rows)) if terms.numbers is None else terms.numbers
        return Picked(rows, numbers, terms.repeat)

    return Computed(span, read, (Ref((terms.table,), span),))


_ROW = Stored(lambda frame, value: {SAME: frame[SAME], "row": value}, (Ref(("row",)),))
"""The row of an element in its frame."""

_OUTCOMES = Stored(lambda frame, value: {**frame, "outcomes": value}, (Ref(("outcomes",)),))
"""The values of the fan-out in the frame."""


def _input(span: Span, terms: OverTerms) -> Computed:
    """The input of the flow for one row."""

    def build(frame: Frame) -> Value:
        inputs = inputs_of_row(frame[SAME], frame["row"], terms.rename)
        if terms.only is None:
            return inputs
        return {name: inputs[name] for name in terms.only if name in inputs}

    # By the name of each input, a secret is followed back to its field or its column, and
    # the rest of the table is stored.
    columns = _columns_of_inputs(terms)
    refs = (
        *(Ref((name,), into=name) for name in terms.same),
        *(Ref(("row", column), into=name) for name, column in columns.items()),
    )
    names = tuple((name, None) for name in dict.fromkeys((*terms.same, *columns)))
    return Computed(span, build, refs, names=names)


def _columns_of_inputs(terms: OverTerms) -> dict[str, str]:
    """The name of each input that a column gives, and the name of the column."""
    not_renamed = {name: name for name in terms.columns if name not in terms.rename}
    return not_renamed | dict(terms.rename)


def inputs_of_row(
    same: Mapping[str, Value], row: Mapping[str, Value], rename: Mapping[str, str]
) -> dict[str, Value]:
    """The values that the flow may read for a row. A row that lacks the column of a renamed input
    has no such input, as it has none without another name.

    >>> inputs_of_row({"style": "short"}, {"body": "a"}, {"text": "body"})
    {'style': 'short', 'body': 'a', 'text': 'a'}
    >>> inputs_of_row({}, {"text": "of another column"}, {"text": "body"})
    {}
    """
    cells = {name: value for name, value in row.items() if name not in rename}
    renamed = {name: row[column] for name, column in rename.items() if column in row}
    return {**same, **cells, **renamed}


def load(source: Source, problems: Diagnostics, bounds: Bounds) -> Definition:
    """The flow of a run over a table; ``problems`` gets the errors of its text."""
    try:
        terms = OverTerms(**json.loads(source.text))
    except (ValueError, TypeError, RecursionError) as error:
        problems.error(
            "over.definition", f"this does not define a run over a table: {error}", source.span()
        )
        return Definition(None)
    return Definition(_flow(source, terms))


def _flow(source: Source, terms: OverTerms) -> Flow:
    # No step has a place: nobody has written this text, so that no caret helps.
    span = source.span(0, 0)
    call = Invoke(
        id=BODY,
        word="call",
        label=terms.over,
        kind="flow",
        name=Name(terms.over),
        args=_input(span, terms),
        exchange=Exchange(
            row=RowTerms(terms.sessions, lambda frame: frame["row"], _columns_of_inputs(terms))
        ),
        timeout=terms.timeout,
    )
    fan_out = Each(
        id=ROWS,
        word="for_each",
        label="row",
        over=_elements(span, terms),
        element=_ROW,
        body=call,
        limit=terms.width,
        failing=FailurePolicy("continue"),
        scope=False,
        first=terms.first,
        number_of=terms.number_of,
        target=_OUTCOMES,
    )
    return Flow(
        name=name_over_rows(terms.over),
        language=OVER,
        source=source,
        dialect=Dialect(secret_values=partial(_secret_values, terms)),
        body=Steps(id=OVER, word="sequential", label=terms.over, steps=(fan_out,)),
        start=partial(_start, terms),
        end=_counting(terms),
    )


def _secret_values(
    terms: OverTerms,
    run_input: Mapping[str, Value],
    names: Collection[str],
    arguments: Collection[tuple[str, str]],
) -> Iterator[Value]:
    """`Dialect.secret_values`: of a table in memory, the cells of the secret columns."""
    for name in names & run_input.keys():
        value = run_input[name]
        if name == (terms.table) and type(value) is list:
            for given, column in _columns_of_inputs(terms).items():
                if (BODY, given) in arguments:
                    yield [row[column] for row in value if column in row]
        else:
            yield value


def _start(terms: OverTerms, flow_input: FlowInput) -> Frame:
    rows, common = terms.parts_of_input(flow_input.input)
    return {ROWS: rows if type(rows) is list else open_rows(rows), SAME: common}


def _counting(terms: OverTerms) -> Callable[[Frame], FlowResult]:
    """`Flow.end`: the output of the run is its counts of rows."""

    def end(frame: Frame) -> FlowResult:
        ok = len(frame.get("outcomes") or [])
        total = terms.total * terms.repeat
        return FlowResult({"rows": total, "ok": ok, "failed": total - ok}, {})

    return end


LANGUAGE = Language(OVER, load, {})
