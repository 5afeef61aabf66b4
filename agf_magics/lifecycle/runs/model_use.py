"""Sums up the tokens and costs of a run's models, from the records of its calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...flow.progress.events import TokensUsed
from ...flow.progress.rows import cost_of
from ...journal.codec.type_checks import checker
from ...journal.records.fields import Count
from ...journal.records.records import CallKey, Record
from ..input.fields import fields_of

_is_amount = checker(Count)


def uses(records: Iterable[Record]) -> Iterator[TokensUsed]:
    """The replies of models in a run, without replies that were reused from another run."""
    taken = set[CallKey]()
    for record in records:
        if record.what == "taken":
            taken.add(record.key)
        elif record.what == "finished" and record.kind == "model" and record.key not in taken:
            amounts = fields_of(fields_of(record.value_shown).get("usage"))
            counts: Iterator[Any] = map(amounts.get, ("input", "output"))
            input, output = (count if _is_amount(count) else 0 for count in counts)
            yield TokensUsed(record.at, 0.0, input, output, record.name, cost_of(amounts))
