"""Opaque objects that stand for the objects of a run while its definition is evaluated again.

An object that a call returned is not unpickled for a display. Its preview is a text or a list, into
which an expression could look: it would count the shown rows of a data frame. What stands for the
object is opaque as the object is, so that the expression fails as it did in the run.
"""

from __future__ import annotations

from functools import lru_cache

from ...journal.codec.encoding import OPAQUE
from ...values.tables.first_rows import frame_size
from ...values.value import Value, parts_of


class StandIn:
    """Stands for an object. Its class has the name of the object's class, which messages say."""

    __slots__ = ("shown",)

    def __init__(self, shown: Value) -> None:
        """``shown``: the preview of the object."""
        self.shown = shown


@lru_cache(maxsize=256)
def _class_named(name: str) -> type[StandIn]:
    return type(name, (StandIn,), {"__slots__": ()})


def with_stand_ins(shown: Value) -> Value:
    """The preview ``shown`` with a `StandIn` in the place of each object."""
    if type(shown) is str and OPAQUE.fullmatch(shown):
        return _class_named(shown[1:-1].split()[0].rstrip(":,."))(shown)
    if (frame := frame_size(shown)) is not None:
        return _class_named(frame.kind)(shown)
    if type(shown) is dict:
        return {name: with_stand_ins(part) for name, part in shown.items()}
    return list(map(with_stand_ins, shown)) if type(shown) is list else shown


def as_shown(value: Value) -> Value:
    """``value`` with the preview of each object in the place of its `StandIn`; the same object if it
    has none."""
    if isinstance(value, StandIn):
        return value.shown
    if type(value) not in (dict, list):
        return value
    parts = value.items() if type(value) is dict else enumerate(value)
    shown = {key: as_shown(part) for key, part in parts}
    if all(new is old for new, old in zip(shown.values(), parts_of(value), strict=True)):
        return value
    return shown if type(value) is dict else list(shown.values())
