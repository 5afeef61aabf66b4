"""Reads the tokens and costs of a run's models from the records of its calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ...flow.progress.events import TokensUsed
from ...flow.progress.usage import cost_of
from ...values.value import Value
from ..codec.type_checks import checker
from .fields import Count
from .records import CallKey, Record

_is_amount = checker(Count)


def uses(records: Iterable[Record]) -> Iterator[TokensUsed]:
    """The replies of models in a run, also unusable ones, without replies that were reused from
    another run."""
    taken = set[CallKey]()
    for record in records:
        if record.what == "taken":
            taken.add(record.key)
            continue
        is_reply = record.what == "finished" and record.kind == "model" and record.key not in taken
        if is_reply or record.what == "paid":
            yield use_of(record, record.value_shown)


def use_of(record: Record, reply: Value) -> TokensUsed:
    """What a request to a model has used. ``reply``: the value of its record, or the preview."""
    usage = reply.get("usage") if isinstance(reply, dict) else None
    amounts = usage if isinstance(usage, dict) else {}
    counts: Iterator[Any] = map(amounts.get, ("input", "output"))
    input, output = (count if _is_amount(count) else 0 for count in counts)
    return TokensUsed(record.at, 0.0, input, output, record.name, cost_of(amounts))
