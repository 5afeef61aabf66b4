"""The steps of a long chain in groups, which a person folds and unfolds: frames with no step of their own.

A picture of 200 boxes in a row shows nothing but its length.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import ceil

from ..amounts import counted
from ..plain import line
from .boxes import INPUT, LONGEST
from .scene import Box, Frame, Link, Scene, within

LONG_CHAIN = 60
"""Parts of a chain above which they are grouped: a saved cell has the outline of so many boxes."""
GROUPS = 20


def with_groups(drawn: Scene, folded: Collection[str]) -> Scene:
    """``drawn`` with its chain in groups, if it is a long one. The groups ``folded`` are boxes."""
    parts = [part for part in drawn.parts if part.id != INPUT]
    if drawn.is_free or len(parts) <= LONG_CHAIN:
        return drawn
    size = ceil(len(parts) / GROUPS)
    groups = [_group(parts[at : at + size], folded) for at in range(0, len(parts), size)]
    group_of = {
        inner.id: group.id
        for place, group in enumerate(groups)
        for inner in within(parts[place * size : (place + 1) * size])
    }
    shown = {id: group for id, group in group_of.items() if group in folded}
    return replace(
        drawn,
        parts=(*(part for part in drawn.parts if part.id == INPUT), *groups),
        links=_links(drawn.links, group_of, shown),
        values=_values(drawn.values, shown),
    )


def steps_of_groups(drawn: Scene) -> Mapping[str, list[str]]:
    """The ids of the steps of each group of a scene whose groups are all frames."""
    return {
        frame.id: [part.id for part in frame.parts] for frame in drawn.frames if frame.step is None
    }


def _group(parts: Sequence[Box], folded: Collection[str]) -> Box:
    first, last = parts[0], parts[-1]
    id = f"{first.id} … {last.id}"
    box = Box(
        id=id,
        word="steps",
        name=line(f"{first.name} … {last.name}", 2 * LONGEST),
        does=counted(len(parts), "step"),
        opens=id in folded,
        tooltip=id,
    )
    if id in folded:
        return box
    fields = {field: getattr(box, field) for field in Box.__slots__}
    return Frame(**fields, parts=tuple(parts), first=(first,), last=(last,))


def _links(
    links: Sequence[Link], group_of: Mapping[str, str], shown: Mapping[str, str]
) -> tuple[Link, ...]:
    """Groups follow each other, and what is inside a folded one has no lines."""
    moved: list[Link] = []
    for link in links:
        ends = [group_of.get(id, id) for id in link[:2]]
        if ends[0] != ends[1]:
            moved.append(link._replace(tail=ends[0], head=ends[1]))
        elif link.tail not in shown:
            moved.append(link)
    return tuple(moved)


def _values(
    values: Mapping[tuple[str, str], tuple[str, ...]], shown: Mapping[str, str]
) -> Mapping[tuple[str, str], tuple[str, ...]]:
    """The values that enter or leave a folded group are those of its steps."""
    names_by_ends: dict[tuple[str, str], dict[str, None]] = {}
    for (tail, head), names in values.items():
        ends = shown.get(tail, tail), shown.get(head, head)
        if ends[0] != ends[1]:
            names_by_ends.setdefault(ends, {}).update(dict.fromkeys(names))
    return {ends: tuple(names) for ends, names in names_by_ends.items()}
