"""The shape of a value, as far as it is known before a run."""

from __future__ import annotations

from agf_magics.schemas.shape_paths import descend
from agf_magics.schemas.shapes import FEW, Shape, literal


def test_the_elements_of_a_short_list_are_known_and_those_of_a_long_one_are_not() -> None:
    short, long = literal([1] * FEW), literal([1] * (FEW + 1))
    assert (short.of is not None, long.of) == (True, None)


def test_an_object_may_have_other_fields_unless_its_shape_is_closed() -> None:
    open_object, closed = Shape(frozenset({"object"})), Shape(frozenset({"object"}), closed=True)
    assert descend(open_object, ("name",)) == (None, None)
    assert descend(closed, ("name",))[1] is not None
