"""Which step of an earlier definition is which step of the present one, although an edit moves the
ids.

Steps of equal kind and label, in the same order, are the same step. Between them, steps of one kind
in equal number are edited ones; all others are new or removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from ..progress.progress import Key, Row

MOST_COMPARED = 2_000
"""Steps of a definition that are compared by their order; in a larger one a step is the one with
the same id."""


def align(before: Sequence[Row], now: Sequence[Row]) -> dict[Key, Row]:
    """For each step of ``now`` that is also in ``before``, by its key: the step there."""
    if [row.key for row in before] == [row.key for row in now] and _kinds(before) == _kinds(now):
        return {row.key: row for row in before}
    if max(len(before), len(now)) > MOST_COMPARED:
        known = {row.key: row for row in before}
        return {
            row.key: known[row.key]
            for row in now
            if row.key in known and known[row.key].word == row.word
        }
    found: dict[Key, Row] = {}
    matcher = SequenceMatcher(None, _names(before), _names(now), autojunk=False)
    for tag, start, end, first, last in matcher.get_opcodes():
        old, new = before[start:end], now[first:last]
        if tag == "equal" or (tag == "replace" and _kinds(old) == _kinds(new)):
            found.update(zip([row.key for row in new], old, strict=True))
    return found


def _names(rows: Sequence[Row]) -> list[tuple[int, str, str]]:
    return [(row.depth, row.word, row.label) for row in rows]


def _kinds(rows: Sequence[Row]) -> list[tuple[int, str]]:
    return [(row.depth, row.word) for row in rows]
