"""Two runs of the journal side by side: their steps, the values that differ, and the difference of
their definitions.

The comparison is bounded: it holds a hash of each call, and the values of the first calls that
differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import islice
from typing import Any, ClassVar, NamedTuple

from ...flow.progress.events import format_path
from ...flow.progress.rows import key_of
from ...journal.codec.json_texts import encode
from ...journal.records.records import Record
from ...pictures.difference import (
    MISSING,
    diff_html,
    diff_text,
    find_differences,
    shorten_pair,
    text_difference,
)
from ...pictures.plain import counted, html, line, untypeset
from ...values.value import Value
from ..input.fields import fields_of
from ..runs.trace import Trace, uses
from ..storage.manifest import Manifest

MOST_VALUES = 100
"""Rows of the table of values."""
MOST_EACH = 20
"""Differences that are listed of one value."""
MOST_CALLS = 20
"""Calls whose values are compared: the first ones that differ."""
LONGEST_COMPARED = 1_000_000
"""Characters of a call's value as JSON that is compared part by part; of a larger one only that it
differs."""


class ComparedRun(NamedTuple):
    """What the comparison reads of a run."""

    run_id: str
    input: Value
    output: Value
    stores: Mapping[str, Value]
    order: Manifest
    records: Callable[[], Iterator[Record]]


class Differences(Trace):
    """The values that differ between two runs; ``to_pandas()`` gives a DataFrame."""

    columns = ("value", "differs", "first", "other")

    def _table(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        rows = []
        for row in self:
            differs, values = row["differs"], (row["first"], row["other"])
            first, other = values if values == ("…", "…") else shorten_pair(*values)
            first, other = first * (differs != SECOND), other * (differs != FIRST)
            rows.append((line(row["value"], 120), differs, first, other))
        return self.columns, tuple(rows)


class Comparison(Trace):
    """The steps of two runs and their differences."""

    columns: ClassVar[tuple[str, ...]] = (
        *("step", "label", "calls", "calls of the other", "same input", "same output"),
        *("differs", "took", "took in the other"),
    )

    runs: tuple[str, str]
    """The ids of the two runs."""
    values: Differences
    """The values that differ: parts of the input, of the calls, of the output and of the stores."""
    is_cut: bool
    """Whether more values differ than ``values`` has."""
    definitions: str
    """How the definitions differ, as a unified diff; empty if they are the same."""

    def _repr_html_(self) -> str:
        return untypeset(parts_html(self._titled(Trace._repr_html_, diff_html)))

    def __repr__(self) -> str:
        return parts_text(self._titled(Trace.__repr__, diff_text))

    def _titled(
        self, table: Callable[[Trace], str], text: Callable[[str], str]
    ) -> Iterator[tuple[str, str]]:
        """The parts with their titles; a part without rows is empty."""
        steps = table(self) if self else ""
        values = table(self.values) if self.values else ""
        definitions = text(self.definitions) if self.definitions else ""
        return zip(self._titles, (steps, values, definitions), strict=True)

    @property
    def _titles(self) -> tuple[str, str, str]:
        more = f": the first {len(self.values)}" if self.is_cut else ""
        no_call = "" if self else ": neither run made a call"
        return (
            f"{self.runs[0]}, compared with the other run {self.runs[1]}{no_call}",
            f"Values that differ{more}" if self.values else "The values are the same",
            "Definitions that differ" if self.definitions else "The definitions are the same",
        )


def parts_html(parts: Iterable[tuple[str, str]]) -> str:
    """Parts as HTML, each with its title."""
    return "".join(
        f'<p style="margin:8px 0 2px"><strong>{html(line(title, 300))}</strong></p>{part}'
        for title, part in parts
    )


def parts_text(parts: Iterable[tuple[str, str]]) -> str:
    """Parts as text, each with its title."""
    return "\n\n".join(f"{title}\n{part}".rstrip("\n") for title, part in parts)


class _Call(NamedTuple):
    """What is remembered of each call."""

    what: str
    output: int
    """The hash of its result or error, and of its input."""
    input: int
    seconds: float
    label: str
    """What it calls."""


Calls = dict[str, _Call]
"""The calls of a step, by their paths."""


def compare(a: ComparedRun, b: ComparedRun) -> Comparison:
    """How the run ``b`` differs from the run ``a``. Raises DefinitionError if one of them is
    damaged."""
    first, other = _by_step(a), _by_step(b)
    steps, costs = dict.fromkeys((*first, *other)), (_costs(a), _costs(b))
    comparison = Comparison(
        {
            **_row(step, first[step], other[step]),
            "cost": costs[0].get(step),
            "cost of the other": costs[1].get(step),
        }
        for step in steps
    )
    comparison.runs = (a.run_id, b.run_id)
    rows = list(islice(_differences(a, b, first, other), MOST_VALUES + 1))
    comparison.is_cut = len(rows) > MOST_VALUES
    comparison.values = Differences(rows[:MOST_VALUES])
    texts, others = _texts(a.order), _texts(b.order)
    comparison.definitions = "".join(
        text_difference(title, texts.get(title), others.get(title))
        for title in dict.fromkeys((*texts, *others))
    )
    return comparison


def _row(step: str, first: Calls, other: Calls) -> dict[str, Any]:
    pairs = [(first[path], other[path]) for path in first.keys() & other.keys()]
    same = sum(a[:2] == b[:2] for a, b in pairs)
    only = FIRST if not other else SECOND if not first else ""
    return {
        "step": step,
        "label": next(iter((*first.values(), *other.values()))).label,
        "calls": len(first),
        "calls of the other": len(other),
        "same input": sum(a.input == b.input for a, b in pairs),
        "same output": same,
        "differs": only or ("" if same == len(first) == len(other) else "yes"),
        "seconds": sum(call.seconds for call in first.values()),
        "seconds of the other": sum(call.seconds for call in other.values()),
    }


def _by_step(run: ComparedRun) -> dict[str, Calls]:
    calls: dict[str, Calls] = defaultdict(dict)
    for record in _ended_calls(run):
        output, given = record.error or record.result.text, record.given.text
        took = record.seconds or 0.0
        call = _Call(record.what, hash(output), hash(given), took, record.name)
        calls["/".join(key_of(record.at))][format_path(record.at)] = call
    return calls


def _costs(run: ComparedRun) -> dict[str, Decimal]:
    """The estimated cost of the models of each step in US dollars, where the prices are known."""
    costs: dict[str, Decimal] = defaultdict(Decimal)
    for reply in uses(run.records()):
        costs["/".join(key_of(reply.at))] += reply.cost or 0
    return costs


def _ended_calls(run: ComparedRun) -> Iterator[Record]:
    return (rec for rec in run.records() if rec.kind and rec.what in ("finished", "failed"))


# --- values ---

FIRST, SECOND = "only in the first", "only in the second"


def _differences(
    a: ComparedRun, b: ComparedRun, first: dict[str, Calls], other: dict[str, Calls]
) -> Iterator[dict[str, Any]]:
    yield from _parts("input", a.input, b.input)
    yield from _parts("output", a.output, b.output)
    same = _unwritten(a) & _unwritten(b)  # their difference is that of the input
    stores = [{name: run.stores[name] for name in run.stores if name not in same} for run in (a, b)]
    yield from _parts("stores", *stores)
    changed = {
        path: (call, other[step][path])
        for step, calls in first.items()
        for path, call in calls.items()
        if other[step].get(path, call)[:3] != call[:3]
    }
    shown = dict(islice(changed.items(), MOST_CALLS))
    # The values are read again: those of all calls may be more than the memory holds.
    before, after = (dict(_small_records(run, shown)) for run in (a, b))
    for path, calls in shown.items():
        yield from _call_parts(path, calls, (before[path], after[path]))
    if len(changed) > MOST_CALLS:
        yield _difference(counted(len(changed) - MOST_CALLS, "more call"), "…", "…")


def _unwritten(run: ComparedRun) -> set[str]:
    """The stores that still have the value of the input."""
    input = fields_of(run.input)
    names = [name for name in run.stores if name in input]
    return {name for name in names if encode(run.stores[name]) == encode(input[name])}


def _small_records(run: ComparedRun, paths: Container[str]) -> Iterator[tuple[str, Record]]:
    """The records of these calls, without their large values."""
    for record in _ended_calls(run) if paths else ():
        if format_path(record.at) in paths:
            given = record.given._replace(text=_small(record.given.text))
            data, shown = _small(record.result.data), _small(record.result.shown)
            result = record.result._replace(data=data, shown=shown)
            yield (
                format_path(record.at),
                record._replace(given=given, result=result, digest=None),
            )


def _small(text: Any) -> Any:
    if text is None or len(text) <= LONGEST_COMPARED:
        return text
    return encode(f"{len(text):,} characters of JSON")


def _call_parts(
    path: str, calls: tuple[_Call, _Call], records: tuple[Record, Record]
) -> Iterator[dict[str, Any]]:
    a, b = records
    # By the hashes: a large value is not in its record.
    if calls[0].input != calls[1].input:
        yield from _parts(f"{path} input", a.given_shown, b.given_shown)
    if calls[0].output != calls[1].output and (a.error or b.error):
        yield _difference(f"{path} output", *(rec.message or "it succeeded" for rec in records))
    elif calls[0].output != calls[1].output:
        yield from _parts(f"{path} output", a.value_shown, b.value_shown)


def _parts(name: str, first: Value, other: Value) -> Iterator[dict[str, Any]]:
    parts = find_differences(first, other)
    for path, a, b in islice(parts, MOST_EACH):
        yield _difference(name + path, a, b)
    if next(parts, None) is not None:
        yield _difference(f"more of {name}", "…", "…")


def _difference(value: str, first: Any, other: Any) -> dict[str, Any]:
    differs = SECOND if first is MISSING else FIRST if other is MISSING else "yes"
    first, other = (None if part is MISSING else part for part in (first, other))
    return {"value": value, "differs": differs, "first": first, "other": other}


def _texts(order: Manifest) -> dict[str, str]:
    """The texts of a run, each once, by language and name; and of the schemas that none of them
    declares."""
    texts: dict[str, str] = {}
    for text in order.flows:
        if not text.made:
            texts.setdefault(f"{text.language} {text.name}", text.source.text)
    for number, (language, source) in enumerate(order.schemas, 1):
        texts.setdefault(f"{language} schema {number}", source.text)
    return texts
