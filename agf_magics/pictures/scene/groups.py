"""The steps of a long chain in groups, which a person folds and unfolds: frames without a step.

A picture of 200 boxes in a row would show nothing but its length.
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
"""Parts of a chain above which they are grouped. A saved cell has an outline above this number, too."""
GROUPS = 20
"""The most groups of a chain."""


def with_groups(drawn: Scene, folded: Collection[str]) -> Scene:
    """``drawn`` with its chain in groups, if it is a long one. The groups ``folded`` are boxes."""
    parts = [part for part in drawn.parts if part.id != INPUT]
    if drawn.is_free or len(parts) <= LONG_CHAIN:
        return drawn
    size = ceil(len(parts) / GROUPS)
    chunks = [parts[start : start + size] for start in range(0, len(parts), size)]
    groups = [_group(chunk, folded) for chunk in chunks]
    group_of = {
        inner.id: group.id
        for chunk, group in zip(chunks, groups, strict=True)
        for inner in within(chunk)
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
    """A group as a frame around its parts, or as a box."""
    first = parts[0]
    last = parts[-1]
    id = f"{first.id} … {last.id}"
    box = Box(
        id=id,
        word="steps",
        name=line(f"{first.name} … {last.name}", 2 * LONGEST),
        does=counted(len(parts), "step"),
        tooltip=id,
    )
    if id in folded:
        return box
    fields = {field: getattr(box, field) for field in Box.__slots__}
    return Frame(**fields, parts=tuple(parts), first=(first,), last=(last,))


def _links(
    links: Sequence[Link], group_of: Mapping[str, str], shown: Mapping[str, str]
) -> tuple[Link, ...]:
    """The lines between groups, and the lines inside groups that are not folded."""
    moved: list[Link] = []
    for link in links:
        tail = group_of.get(link.tail, link.tail)
        head = group_of.get(link.head, link.head)
        if tail != head:
            moved.append(link._replace(tail=tail, head=head))
        elif link.tail not in shown:
            moved.append(link)
    return tuple(moved)


def _values(
    values: Mapping[tuple[str, str], tuple[str, ...]], shown: Mapping[str, str]
) -> Mapping[tuple[str, str], tuple[str, ...]]:
    """The values between boxes; the values of the steps in a folded group enter or leave the group."""
    names_by_ends: dict[tuple[str, str], dict[str, None]] = {}
    for (source, reader), names in values.items():
        tail = shown.get(source, source)
        head = shown.get(reader, reader)
        if tail != head:
            names_by_ends.setdefault((tail, head), {}).update(dict.fromkeys(names))
    return {ends: tuple(names) for ends, names in names_by_ends.items()}
