"""Which step of an edited definition is which step of the earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from ...flow.progress.rows import Key, Row

MOST_COMPARED = 500
"""Steps of a definition that are compared by their order; in a larger one a step is the one with
the same id."""


def align(before: Sequence[Row], now: Sequence[Row]) -> dict[Key, Row]:
    """Which step of an earlier definition is which of the present one, although an edit moves the
    ids: for each step of ``now`` that is also in ``before``, by its key, the step there.

    Steps of equal kind and label, in the same order, are the same step. Between them, steps of one
    kind in equal number are edited ones; all others are new or removed.
    """
    if max(len(before), len(now)) > MOST_COMPARED:
        words = {row.key: row.word for row in now}
        return {row.key: row for row in before if words.get(row.key) == row.word}
    aligned: dict[Key, Row] = {}
    kinds = [[(row.depth, row.word) for row in rows] for rows in (before, now)]
    names = [[(row.depth, row.word, row.label) for row in rows] for rows in (before, now)]
    matcher = SequenceMatcher(None, names[0], names[1], autojunk=False)
    for _, start, end, first, last in matcher.get_opcodes():
        if kinds[0][start:end] == kinds[1][first:last]:
            keys = (row.key for row in now[first:last])
            aligned.update(zip(keys, before[start:end], strict=True))
    return aligned
