"""A scene with some of its frames folded to the box of their head, for a picture in which a reader
folds them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from .boxes import LABEL, Arrow, Box, Frame, Scene, within
from .plain import line


def fold(drawn: Scene, ids: Collection[str]) -> Scene:
    """``drawn`` without the parts of the frames ``ids`` but their heads; arrows of these parts
    begin and end there."""
    if not ids:
        return drawn
    heads: dict[str, str] = {}
    parts = tuple(_folded(drawn.parts, ids, heads))
    gone = {frame.id for frame in drawn.frames} - {
        frame.id for frame in Scene(name="", parts=parts, arrows=()).frames
    }
    arrows = [one for arrow in drawn.arrows if (one := _moved(arrow, heads, gone)) is not None]
    return Scene(name=drawn.name, parts=parts, arrows=tuple(_merged(arrows)))


def _merged(arrows: Iterable[Arrow]) -> Iterator[Arrow]:
    """Values that flow between the same two boxes are one arrow."""
    found: dict[Arrow, dict[str, None]] = {}
    for arrow in arrows:
        label = arrow.label if arrow.line == "data" else ""
        found.setdefault(arrow._replace(label="") if label else arrow, {})[label] = None
    for arrow, labels in found.items():
        yield (
            arrow._replace(label=line(", ".join(filter(None, labels)), LABEL))
            if any(labels)
            else arrow
        )


def _folded(
    parts: tuple[Box | Frame, ...], ids: Collection[str], heads: dict[str, str]
) -> Iterator[Box | Frame]:
    for part in parts:
        if isinstance(part, Box):
            yield part
        elif part.id in ids:
            head, *inner = within(part.parts)
            heads |= {box.id: head.id for box in inner}
            yield head
        else:
            yield Frame(id=part.id, word=part.word, parts=tuple(_folded(part.parts, ids, heads)))


def _moved(arrow: Arrow, heads: dict[str, str], gone: Collection[str]) -> Arrow | None:
    """The arrow between the boxes that are left; None inside of a folded frame."""
    tail, head = heads.get(arrow.tail, arrow.tail), heads.get(arrow.head, arrow.head)
    if tail == head and arrow.tail != arrow.head:
        return None
    leaves = None if arrow.leaves in gone or tail != arrow.tail else arrow.leaves
    return arrow._replace(tail=tail, head=head, leaves=leaves)
