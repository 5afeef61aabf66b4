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

MODEL = "model"
"""The kind of the record of a request to a model."""

_is_amount = checker(Count)


class PaidReplies:
    """Finds the replies that a run has paid for among its records, which it gets in their order.

    A reply that is stored as JSON has its usage in its own record. Every other reply has a ``paid``
    mark. A ``taken`` mark stands before a reply that another run has paid for.
    """

    def __init__(self) -> None:
        self._taken = set[CallKey]()
        """The calls whose next reply is reused from another run."""

    def use(self, record: Record) -> TokensUsed | None:
        """What the reply of ``record`` has used in this run; None: it is no reply that this run has
        paid for."""
        if record.what == "taken":
            self._taken.add(record.key)
        elif record.what == "paid":
            return _use_of(record, record.value_shown)
        elif record.what == "finished" and record.kind == MODEL:
            if record.key in self._taken:
                self._taken.remove(record.key)
            elif has_usage(record.result.form):
                unpickled = record.result.unpickled
                return _use_of(record, unpickled[0] if unpickled else record.value_shown)
        return None


def has_usage(form: str | None) -> bool:
    """Whether the record of a reply that is stored in this form has its usage."""
    return form == "json"


def uses(records: Iterable[Record]) -> Iterator[TokensUsed]:
    """What the models of a run have used, also for replies that could not be used or stored, without
    replies that were reused from another run."""
    return filter(None, map(PaidReplies().use, records))


def _use_of(record: Record, reply: Value) -> TokensUsed:
    """What a request to a model has used. ``reply``: a value with its usage."""
    usage = reply.get("usage") if isinstance(reply, dict) else None
    amounts = usage if isinstance(usage, dict) else {}
    counts: Iterator[Any] = map(amounts.get, ("input", "output"))
    input, output = (count if _is_amount(count) else 0 for count in counts)
    return TokensUsed(record.at, 0.0, input, output, record.name, cost_of(amounts))
