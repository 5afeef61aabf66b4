"""The calls with an effect that an earlier run made for the rows of a table that run again.

Such a call has no digest, because no other run reuses its result. But a row that is retried goes on
with what was done for it: an order is not placed twice (decision D-EFFECTS-2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..codec.encoding import DecodeError
from ..records.records import Record, value_of
from .reuse import ReusedResult
from .started_call import StartedCall


class Effect(NamedTuple):
    """A call with an effect that began in the earlier run and did not fail."""

    record: Record
    """Its last record: its result, or only that it began."""
    name: str
    """The name of its tool; empty: unknown, because it only began."""


class EarlierEffects:
    """The calls with an effect that an earlier run made for its failed rows. Each is taken once."""

    def __init__(
        self,
        by_row: dict[tuple[int, int], list[Effect]],
        row_of: Callable[[StartedCall], tuple[int, int] | None],
        read: Callable[[Record], Record],
    ) -> None:
        """``by_row``: the calls by the number of the row and of its repetition. ``row_of``: returns
        these numbers for a call of this run; None: it is not of a row. ``read``: returns a record
        with its value; raises DecodeError."""
        self._by_row = by_row
        self._row_of = row_of
        self._read = read

    def take(self, call: StartedCall) -> ReusedResult | None:
        """Take the result of the same call of the same row; None: there is none that can be read."""
        effect = self._find(call)
        if effect is None:
            return None
        try:
            record = self._read(effect.record)
            result = ReusedResult(value_of(record), None, data=record.result.parts)
        except DecodeError:
            return None  # a person is asked
        self._of_row(call).remove(effect)
        return result

    def take_open(self, call: StartedCall) -> str | None:
        """The arguments of a call of this tool that the row made, with other arguments or an outcome
        that nobody knows, so that this call may be the second one; empty: they are not known. None:
        there is none. Each is taken once."""
        effects = self._of_row(call)
        named = (effect for effect in effects if effect.name == call.name)
        effect = next(named, next((effect for effect in effects if not effect.name), None))
        if effect is None:
            return None
        effects.remove(effect)
        return effect.record.arguments.text or ""

    def forget(self, record: Record) -> None:
        """Forget the call of ``record``, which an earlier session of this run has taken."""
        text, whole, _, contents = record.arguments
        call = StartedCall(record.key, record.kind, record.name, 0.0, text, whole, None, contents)
        effect = self._find(call)
        if effect is not None:
            self._of_row(call).remove(effect)
        else:
            self.take_open(call)

    def _find(self, call: StartedCall) -> Effect | None:
        """The call of the same row that certainly has the same tool and arguments, and a result."""
        effects = self._of_row(call)
        return next((effect for effect in effects if _is_same(effect, call)), None)

    def _of_row(self, call: StartedCall) -> list[Effect]:
        row = self._row_of(call)
        return self._by_row.get(row, []) if row is not None else []


def _is_same(effect: Effect, call: StartedCall) -> bool:
    text, whole, _, contents = effect.record.arguments
    if effect.record.what != "finished" or effect.name != call.name or not (whole or contents):
        return False
    return (text, whole, contents if not whole else None) == (
        call.arguments,
        int(call.whole),
        call.contents if not whole else None,
    )
