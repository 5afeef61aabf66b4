"""1,000 random flows of all languages can be drawn. (`make test` draws three of each hundred.)"""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import agf_magics as agf
from agf_magics.flow.graph_steps import Dag, Walk
from agf_magics.flow.steps import Sequence, every
from agf_magics.pictures.diagram import Diagram
from agf_magics.pictures.layout.arrange import Arranged, arrange
from agf_magics.pictures.layout.dot import Rectangle
from agf_magics.pictures.scene.builder import scene
from agf_magics.pictures.scene.scene import Frame, Scene
from tests.pictures.random_flows import LANGUAGES, definition

SVG = "{http://www.w3.org/2000/svg}"
PARTS, SIZE = 10, 100
SAMPLE = 41


def overlap(a: Rectangle, b: Rectangle) -> bool:
    across = min(a.left + a.width, b.left + b.width) - max(a.left, b.left)
    down = min(a.top + a.height, b.top + b.height) - max(a.top, b.top)
    return across > 0.5 and down > 0.5


def contains(outer: Rectangle, inner: Rectangle) -> bool:
    return (
        outer.left <= inner.left
        and outer.top <= inner.top
        and inner.left + inner.width <= outer.left + outer.width
        and inner.top + inner.height <= outer.top + outer.height
    )


def check_places(drawn: Scene, arranged: Arranged) -> None:
    """Check the places of a picture: each box and frame is inside its frame and the picture. No box covers another box,
    a foreign frame or a title. Each drawn line leads from its tail to its head."""
    layout = arranged.layout
    places = layout.boxes
    boxes = list(drawn.boxes)
    assert places.keys() == {box.id for box in drawn.every}
    whole = Rectangle(-1.5, -1.5, layout.width + 3, layout.height + 3)  # tolerates the rounding of graphviz
    assert all(contains(whole, place) for place in places.values())
    for number, box in enumerate(boxes):
        assert not [other.id for other in boxes[:number] if overlap(places[box.id], places[other.id])]
    for frame in drawn.frames:
        inside = {inner.id for inner in Scene(name="", parts=(frame,), links=(), values={}, is_free=False).every}
        assert all(contains(places[frame.id], places[id]) for id in inside)
        assert not [box.id for box in boxes if box.id not in inside and overlap(places[frame.id], places[box.id])]
        title = places[frame.id]._replace(height=20.0)
        assert not [box.id for box in boxes if overlap(title, places[box.id])]
    for line in layout.lines:
        begin, tip = line.points[0], line.points[-1]
        for id, point in ((line.link.tail, begin), (line.link.head, tip)):
            place = places[id]
            near = Rectangle(place.left - 24, place.top - 24, place.width + 48, place.height + 48)
            assert contains(near, Rectangle(point.x, point.y, 0, 0)), line.link


def draw_flow(seed: int) -> str:
    """Draw the flow number ``seed`` and check its picture. Returns its language."""
    language, text = definition(seed)
    flow = agf.load(text)
    assert flow.language == language
    scenery = scene(flow)
    check_places(scenery, arrange(scenery))
    root = ElementTree.fromstring(Diagram(flow).svg())
    box_ids = {box.id for box in scenery.every}
    groups = [item for item in root.iter(SVG + "g") if item.get("class") in ("box", "frame")]
    assert len(groups) == len(box_ids)
    without = {step.id for step in every(flow.body) if not isinstance(step, Sequence)} - box_ids
    whole = {step.id for step in flow.body.steps if isinstance(step, (Dag, Walk))}
    assert all(id in whole or id.endswith(("collect", "output_from")) for id in without)
    view_left, top, width, height = map(float, root.get("viewBox", "").split())
    for rectangle in root.iter(SVG + "rect"):
        x, y, across, down = (float(rectangle.get(name, 0)) for name in ("x", "y", "width", "height"))
        assert view_left - 1 <= x <= x + across <= view_left + width + 1
        assert top - 1 <= y <= y + down <= top + height + 1
    return language


@pytest.mark.law
@pytest.mark.parametrize("part", range(PARTS))
def test_random_flows_of_all_languages_are_drawn(part: int, thorough: bool) -> None:
    first = part * SIZE
    seeds = range(first, first + SIZE) if thorough else range(first + part % len(LANGUAGES), first + SIZE, SAMPLE)
    counts = {draw_flow(seed) for seed in seeds}
    assert counts == LANGUAGES.keys() or not thorough


@pytest.mark.law
@pytest.mark.parametrize("seed", range(6))
def test_a_folded_frame_is_one_box_and_all_others_stay(seed: int, thorough: bool) -> None:
    for number in range(seed * 100, seed * 100 + (100 if thorough else 8)):
        flow = agf.load(definition(number)[1])
        whole = scene(flow)
        for frame in list(whole.frames)[:3]:
            inside = {box.id for box in Scene(name="", parts=(frame,), links=(), values={}, is_free=False).every}
            small = scene(flow, [frame.id])
            ids = {box.id for box in small.every}
            ids_left = {box.id for box in whole.every} - inside | {frame.id}
            assert ids - {"input"} == ids_left - {"input"}
            assert not any(isinstance(box, Frame) and box.id == frame.id for box in small.every)
            check_places(small, arrange(small))
