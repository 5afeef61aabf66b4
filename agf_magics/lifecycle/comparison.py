"""Two runs of the journal side by side: their steps, the values that differ, and the difference of
their definitions.

The comparison is bounded: it holds a hash of each call, and the values of the first calls that
differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar, NamedTuple, Protocol

from ..flow.events import format_path
from ..flow.values import Value
from ..journal.codec import encode
from ..journal.records import Record
from ..pictures.difference import (
    MISSING,
    diff_html,
    diff_text,
    find_differences,
    shorten_pair,
    text_difference,
)
from ..pictures.plain import counted, html, line
from ..text.source import Source
from .manifest import Manifest, Text
from .run import Trace

MOST_VALUES = 100
"""Rows of the table of values."""
MOST_EACH = 20
"""Differences that are listed of one value."""
MOST_CALLS = 20
"""Calls whose values are compared: the first ones that differ."""
LONGEST_COMPARED = 1_000_000
"""Characters of a call's value as JSON that is compared part by part; of a larger one only that it
differs."""


class RunLike(Protocol):
    """What the comparison reads of a run."""

    run_id: str

    @property
    def input(self) -> Value: ...
    @property
    def output(self) -> Value: ...
    @property
    def stores(self) -> Mapping[str, Value]: ...
    @property
    def order(self) -> Manifest: ...
    def records(self) -> Iterator[Record]: ...


class Differences(Trace):
    """The values that differ between two runs; ``to_pandas()`` gives a DataFrame."""

    columns = ("value", "differs", "first", "other")

    def _table(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        rows = []
        for row in self:
            values = row["first"], row["other"]
            first, other = values if values == ("…", "…") else shorten_pair(*values)
            missing = row["differs"]
            rows.append(
                (
                    line(row["value"], 120),
                    missing,
                    "" if missing == SECOND else first,
                    "" if missing == FIRST else other,
                )
            )
        return self.columns, tuple(rows)


class Comparison(Trace):
    """The steps of two runs and their differences."""

    columns: ClassVar[tuple[str, ...]] = (
        "step",
        "calls",
        "calls of the other",
        "same input",
        "same output",
        "differs",
        "took",
        "took in the other",
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
        titles = [html(line(title, 300)) for title in self._titles]
        steps = super()._repr_html_() if self else ""
        values = self.values._repr_html_() if self.values else ""
        definitions = diff_html(self.definitions) if self.definitions else ""
        parts = zip(titles, (steps, values, definitions), strict=True)
        return "".join(
            f'<p style="margin:8px 0 2px"><strong>{title}</strong></p>{part}'
            for title, part in parts
        )

    def __repr__(self) -> str:
        steps, values, definitions = self._titles
        parts = [
            steps,
            *([super().__repr__()] if self else []),
            "",
            values,
            *([repr(self.values)] if self.values else []),
            "",
            definitions,
        ]
        return "\n".join([*parts, *([diff_text(self.definitions)] if self.definitions else [])])

    @property
    def _titles(self) -> tuple[str, str, str]:
        first, other = self.runs
        more = f": the first {len(self.values)}" if self.is_cut else ""
        return (
            f"{first}, compared with the other run "
            f"{other}{'' if self else ': neither run made a call'}",
            f"Values that differ{more}" if self.values else "The values are the same",
            "Definitions that differ" if self.definitions else "The definitions are the same",
        )


class _Call(NamedTuple):
    outcome: str
    output: int
    """The hash of its result or error, and of its input."""
    input: int
    seconds: float


def compare(a: RunLike, b: RunLike) -> Comparison:
    """How the run ``b`` differs from the run ``a``. Raises DefinitionError if one of them is
    damaged."""
    left, right = _by_step(a), _by_step(b)
    found = Comparison(
        _row(step, left.get(step, {}), right.get(step, {}))
        for step in dict.fromkeys((*left, *right))
    )
    found.runs = (a.run_id, b.run_id)
    rows = list(islice(_values(a, b, left, right), MOST_VALUES + 1))
    found.is_cut = len(rows) > MOST_VALUES
    found.values = Differences(rows[:MOST_VALUES])
    found.definitions = "".join(_definitions(a.order, b.order))
    return found


def _row(step: str, one: dict[str, _Call], other: dict[str, _Call]) -> dict[str, Any]:
    both = one.keys() & other.keys()
    same = sum(one[key][:2] == other[key][:2] for key in both)
    only = "only in the first" if not other else "only in the second" if not one else ""
    return {
        "step": step,
        "calls": len(one),
        "calls of the other": len(other),
        "same input": sum(one[key].input == other[key].input for key in both),
        "same output": same,
        "differs": only or ("" if same == len(one) == len(other) else "yes"),
        "seconds": sum(call.seconds for call in one.values()),
        "seconds of the other": sum(call.seconds for call in other.values()),
    }


def _by_step(run: RunLike) -> dict[str, dict[str, _Call]]:
    """The calls of each step, by their paths."""
    found: dict[str, dict[str, _Call]] = {}
    for record in run.records():
        if record.kind and record.what in ("finished", "failed"):
            step = "/".join(bit for bit in record.at if isinstance(bit, str))
            took = (record.ended or 0) - (record.started or 0)
            call = _Call(record.what, hash(_outcome(record)), hash(record.given), took)
            found.setdefault(step, {})[format_path(record.at)] = call
    return found


def _outcome(record: Record) -> str | bytes | None:
    return record.error or (record.value if record.form == "json" else record.shown)


# --- values
# --------------------------------------------------------------------------------------------------

FIRST, SECOND = "only in the first", "only in the second"
NOT_LISTED = {"first": "…", "other": "…"}
"""The values of a row that only says that there are more."""


def _values(
    a: RunLike, b: RunLike, left: dict[str, dict[str, _Call]], right: dict[str, dict[str, _Call]]
) -> Iterator[dict[str, Any]]:
    yield from _differ("input", a.input, b.input)
    yield from _differ("output", a.output, b.output)
    same = _unwritten(a) & _unwritten(b)  # their difference is that of the input
    mine, theirs = (
        {name: each.stores[name] for name in each.stores if name not in same} for each in (a, b)
    )
    yield from _differ("stores", mine, theirs)
    changed = dict.fromkeys(
        path
        for step, calls in left.items()
        for path, call in calls.items()
        if (other := right.get(step, {}).get(path)) is not None and other[:3] != call[:3]
    )
    wanted = dict.fromkeys(islice(changed, MOST_CALLS))
    before, after = (_last(run, wanted) for run in (a, b)) if wanted else ({}, {})
    for path in wanted:
        yield from _call(path, before[path], after[path])
    if len(changed) > MOST_CALLS:
        yield {
            "value": counted(len(changed) - MOST_CALLS, "more call"),
            "differs": "yes",
            **NOT_LISTED,
        }


def _unwritten(run: RunLike) -> set[str]:
    """The stores that still have the value of the input."""
    given = run.input if isinstance(run.input, dict) else {}
    return {
        name
        for name, value in run.stores.items()
        if name in given and encode(value) == encode(given[name])
    }


def _last(run: RunLike, wanted: Mapping[str, None]) -> dict[str, tuple[Record, int, int]]:
    """The last record of each of these calls without its large values, and the hashes of its input
    and result."""
    found = {}
    for record in run.records():
        if (
            record.kind
            and record.what in ("finished", "failed")
            and (path := format_path(record.at)) in wanted
        ):
            small = record._replace(
                given=_small(record.given),
                value=_small(record.value),
                shown=_small(record.shown),
                digest=None,
            )
            found[path] = small, hash(record.given), hash(_outcome(record))
    return found


def _small(text: Any) -> Any:
    return (
        text
        if text is None or len(text) <= LONGEST_COMPARED
        else encode(f"{len(text):,} characters of JSON")
    )


def _call(
    path: str, a: tuple[Record, int, int], b: tuple[Record, int, int]
) -> Iterator[dict[str, Any]]:
    (one, given, result), (other, other_given, other_result) = a, b
    if given != other_given:
        yield from _differ(f"{path} input", one.given_shown, other.given_shown)
    if one.error or other.error:
        if result != other_result:
            yield _difference(
                f"{path} output", one.message or "it succeeded", other.message or "it succeeded"
            )
    elif result != other_result:
        yield from _differ(f"{path} output", one.value_shown, other.value_shown)


def _differ(name: str, first: Value, other: Value) -> Iterator[dict[str, Any]]:
    found = find_differences(first, other)
    for at, one, two in islice(found, MOST_EACH):
        yield _difference(name + at, one, two)
    if next(found, None) is not None:
        yield {"value": f"more of {name}", "differs": "yes", **NOT_LISTED}


def _difference(value: str, first: Any, other: Any) -> dict[str, Any]:
    differs = SECOND if first is MISSING else FIRST if other is MISSING else "yes"
    return {
        "value": value,
        "differs": differs,
        "first": None if first is MISSING else first,
        "other": None if other is MISSING else other,
    }


# --- definitions
# --------------------------------------------------------------------------------------------------


def _definitions(a: Manifest, b: Manifest) -> Iterator[str]:
    """The differences of the definitions, and of the schemas that none of them declares."""
    left, right = _texts(a), _texts(b)
    for title in dict.fromkeys((*left, *right)):
        yield text_difference(title, left.get(title), right.get(title))


def _texts(order: Manifest) -> dict[str, str]:
    """The texts of a run, each once, by language and name."""
    found: dict[str, str] = {}
    main, *others = order.flows
    for title, source in [(f"{main.language} {main.name}", main.source), *_titled(order, others)]:
        found.setdefault(title, source.text)
    return found


def _titled(order: Manifest, others: Iterable[Text]) -> Iterator[tuple[str, Source]]:
    for one in others:
        if not one.made:
            yield f"{one.language} {one.name}", one.source
    for number, (language, source) in enumerate(order.schemas):
        yield f"{language} schema {number + 1}", source
