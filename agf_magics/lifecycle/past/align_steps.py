"""Matches the steps of two definitions, for example of two versions of the same one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

from ...flow.progress.rows import Key, Row

MOST_COMPARED = 500
"""Steps of a definition that are compared by their order; in a larger one a step is the one with
the same id."""


def align(before: Sequence[Row], now: Sequence[Row], is_same_flow: bool = True) -> dict[Key, Row]:
    """The steps of ``before`` that correspond to the steps of ``now``, by the keys of ``now``,
    although an edit moves the ids.

    Steps of equal kind and label, in the same order, are the same step. Of the others, a step that
    is the only one of its kind and label in both has moved. Between all these, steps of one kind in
    equal number are edited ones, unless the definitions are of different flows; all others are new
    or removed.
    """
    if max(len(before), len(now)) > MOST_COMPARED:
        return _with_same_ids(before, now, is_same_flow)
    looks_before = [_looks(row) for row in before]
    looks_now = [_looks(row) for row in now]
    blocks = SequenceMatcher(None, looks_before, looks_now, autojunk=False).get_opcodes()
    aligned: dict[Key, Row] = {}
    changed_blocks: list[tuple[list[Row], list[Row]]] = []
    for tag, start, end, first, last in blocks:
        if tag == "equal":
            aligned.update(_pairs(before[start:end], now[first:last]))
        else:
            changed_blocks.append((list(before[start:end]), list(now[first:last])))
    moved = _moved(changed_blocks)
    aligned.update(moved)
    moved_from = {row.key for row in moved.values()}
    for olds, news in changed_blocks if is_same_flow else ():
        removed = [row for row in olds if row.key not in moved_from]
        added = [row for row in news if row.key not in moved]
        if [_kind(row) for row in removed] == [_kind(row) for row in added]:
            aligned.update(_pairs(removed, added))
    return aligned


def _with_same_ids(before: Sequence[Row], now: Sequence[Row], is_same_flow: bool) -> dict[Key, Row]:
    """The steps of ``before`` with the same id and kind, by the steps of ``now``."""
    by_key = {row.key: row for row in before}
    aligned: dict[Key, Row] = {}
    for row in now:
        other = by_key.get(row.key)
        if other is None:
            continue
        if other.word == row.word if is_same_flow else _looks(other) == _looks(row):
            aligned[row.key] = other
    return aligned


def _moved(changed_blocks: Sequence[tuple[list[Row], list[Row]]]) -> dict[Key, Row]:
    """The steps that an edit moved to another place, by the keys of now."""
    olds = [row for block, _ in changed_blocks for row in block]
    news = [row for _, block in changed_blocks for row in block]
    times_before = Counter(map(_looks, olds))
    times_now = Counter(map(_looks, news))
    old_of = {_looks(row): row for row in olds}
    return {
        row.key: old_of[look]
        for row in news
        if (look := _looks(row)) in old_of and times_before[look] == times_now[look] == 1
    }


def _pairs(olds: Sequence[Row], news: Sequence[Row]) -> dict[Key, Row]:
    return dict(zip((row.key for row in news), olds, strict=True))


def _kind(row: Row) -> tuple[int, str]:
    """The kind of a step, for example ``tool``, at its depth."""
    return row.depth, row.word


def _looks(row: Row) -> tuple[int, str, str]:
    """The depth, the kind and the label of a step, by which `align` compares steps."""
    return row.depth, row.word, row.label
