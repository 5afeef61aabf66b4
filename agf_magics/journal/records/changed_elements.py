"""Finds the elements of a fan-out that are others than in the earlier session of a run.

The calls of an element are found by its number. If the list comes from a call whose value is not
stored, a resumed run makes that call again, and the list may have another order: then the outcomes
of the elements that differ belong to nothing.
"""

from __future__ import annotations

import json
from collections.abc import Container, Sequence
from itertools import zip_longest

from ...flow.step_path import is_part
from ..codec.type_checks import checker
from ..database.errors import JournalError
from .records import SPLIT, CallKey, Record, decoded

Digests = list[str | None]
"""The digests of elements; None: the element cannot be compared."""

_is_elements = checker(tuple[bool, list[str | None]])


class _From:
    """The numbers from one on."""

    def __init__(self, first: int) -> None:
        self._first = first

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and number >= self._first


def changed_elements(
    earlier: Sequence[str | None], now: Sequence[str | None], in_order: bool
) -> Container[int]:
    """The numbers of the elements that differ. ``in_order``: whether each element depends on those
    before it."""
    pairs = enumerate(zip_longest(earlier, now, fillvalue=""))
    changed = {number for number, (before, after) in pairs if before != after}
    return _From(min(changed)) if in_order and changed else changed


def elements_in(record: Record) -> tuple[Digests, bool]:
    """The digests in a record, and whether each element depends on those before it. Raises
    JournalError if the record is damaged."""
    stored = decoded(record.result.shown)
    if not _is_elements(stored):
        raise JournalError("journal.damaged", f"row {record.line} has changed since it was written")
    return stored[1], stored[0]


def is_of_element(key: CallKey, body: CallKey, numbers: Container[int]) -> bool:
    """Whether a call is inside one of these elements of the fan-out with the body ``body``.

    >>> is_of_element(CallKey(("rows.do.do", 2, 1), ""), CallKey(("rows.do",), ""), {2})
    True
    """
    path = body.at
    place = max(i for i, bit in enumerate(path) if isinstance(bit, str))
    if key.at[:place] != path[:place] or len(key.at) <= place:
        return False
    step, *index = path[place:]
    inside, *rest = key.at[place:]
    if rest[: len(index)] != index or not is_part(str(inside), str(step)):
        return False
    number = rest[len(index)] if len(rest) > len(index) else None
    return isinstance(number, int) and number in numbers and _is_of_attempt(key.tries, body)


def _is_of_attempt(tries: str, body: CallKey) -> bool:
    """Whether attempts around a call are those around the fan-out and others inside it."""
    outer = body.tries.split(SPLIT) if body.tries else []
    attempts = tries.split(SPLIT) if tries else []
    inner = attempts[len(outer) :]
    inside = all(len(json.loads(attempt)) > len(body.at) + 1 for attempt in inner)
    return attempts[: len(outer)] == outer and inside
