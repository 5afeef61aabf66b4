"""The steps of a long chain are drawn in groups that can be folded and unfolded, while the picture keeps its lines."""

from __future__ import annotations

from itertools import pairwise

import pytest

from agf_magics.engine.linking.linked import Linked
from agf_magics.notebook.explorer.requests import picture_json
from agf_magics.pictures.layout.arrange import arrange
from agf_magics.pictures.layout.svg import paint
from agf_magics.pictures.scene.builder import scene
from agf_magics.pictures.scene.groups import GROUPS, LONG_CHAIN, steps_of_groups, with_groups
from agf_magics.pictures.scene.scene import Frame
from tests.pictures.flows import load, long
from tests.pictures.geometry import covered


@pytest.mark.parametrize("steps", [LONG_CHAIN, LONG_CHAIN + 1, 200, 1_000])
def test_a_long_chain_has_about_twenty_groups_with_all_steps(steps: int) -> None:
    plain = scene(load(long(steps)))
    drawn = with_groups(plain, ())
    groups = steps_of_groups(drawn)
    if steps <= LONG_CHAIN:
        assert drawn is plain
        return
    assert 2 < len(groups) <= GROUPS
    assert [id for ids in groups.values() for id in ids] == [part.id for part in plain.parts]
    ends = {link[:2] for link in drawn.links}
    assert {*pairwise(groups)} < ends, "groups follow each other"
    assert len(ends) == steps - 1, "and no step has a line to a step of another group"


def test_a_folded_group_says_what_is_in_it_and_what_leaves_it() -> None:
    plain = scene(load(long(200)))
    first, second, *other_steps = steps_of_groups(with_groups(plain, ()))
    drawn = with_groups(plain, [first, *other_steps])
    boxes = {box.id: box for box in drawn.every}
    assert not isinstance(boxes[first], Frame)
    assert (boxes[first].name, boxes[first].does) == ("v0 … v9", "10 steps")
    assert isinstance(boxes[second], Frame)
    assert drawn.values[first, "steps[10]"] == ("v9",)
    assert not {"steps[0]", "steps[9]"} & {id for link in drawn.links for id in link[:2]}


@pytest.mark.parametrize("count", [0, 1, 5])
def test_no_text_of_a_picture_with_groups_covers_anything(count: int) -> None:
    plain = scene(load(long(120)))
    drawn = with_groups(plain, [*steps_of_groups(with_groups(plain, ()))][count:])
    assert not covered(paint(drawn, arrange(drawn), {}))


def test_a_picture_of_a_thousand_steps_can_be_drawn() -> None:
    picture = picture_json(Linked(load(long(1_000)), {}), {})
    assert len(picture["boxes"]) == len(picture["folded"]) == len(picture["groups"]) == GROUPS
    assert picture["groups"]["steps[0] … steps[49]"] == [f"steps[{number}]" for number in range(50)]


@pytest.mark.parametrize("room", [{"width": 600}, {"height": 500}, {"width": "600", "height": 500}])
def test_a_place_with_an_unknown_size_is_a_page(room: dict[str, object]) -> None:
    linked = Linked(load(long(60)), {})
    assert picture_json(linked, room) == picture_json(linked, {})


def test_an_unfolded_group_leaves_the_lines_of_the_picture_as_they_are() -> None:
    linked, room = Linked(load(long(200)), {}), {"width": 600, "height": 500}
    picture = picture_json(linked, room)
    assert picture["breaks"], "the chain is in lines"
    unfolded = picture["folded"][9]
    choices = {"folded": [id for id in picture["folded"] if id != unfolded], "breaks": picture["breaks"]}
    for direction in ("TB", "LR"):
        picture_again = picture_json(linked, room | choices | {"direction": direction})
        assert picture_again["breaks"] == picture["breaks"]
        assert picture_again["down"] == (direction == "TB")
        assert picture_again["frames"] == [unfolded]
