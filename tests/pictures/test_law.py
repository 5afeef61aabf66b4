"""1,000 random flows of all languages are drawn; `make test` draws three of each hundred."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import agf_magics as agf
from agf_magics.flow.steps import Dag, Sequence, Walk, every
from agf_magics.pictures.diagram import Diagram
from agf_magics.pictures.rows import rectangles
from agf_magics.pictures.scene import scene
from tests.pictures.random_flows import LANGUAGES, definition
from tests.pictures.test_routing import drawing, inside, segments

SVG = "{http://www.w3.org/2000/svg}"
PARTS, SIZE = 10, 100
SAMPLE = 41


def drawn(seed: int) -> str:
    """Draw flow number ``seed`` and check its picture; its language."""
    language, text = definition(seed)
    flow = agf.load(text)
    assert flow.language == language
    diagram = Diagram(flow)
    root = ElementTree.fromstring(diagram.svg())
    boxes = {box.id for box in scene(flow).boxes}
    assert len(list(root.iter(SVG + "g"))) == len(boxes)
    without = {step.id for step in every(flow.body) if not isinstance(step, Sequence)} - boxes
    assert without <= {step.id for step in flow.body.steps if isinstance(step, (Dag, Walk))}
    left, top, width, height = map(float, root.get("viewBox", "").split())
    for rectangle in root.iter(SVG + "rect"):
        x, y, across, down = (float(rectangle.get(name, 0)) for name in ("x", "y", "width", "height"))
        assert left - 1 <= x <= x + across <= left + width + 1
        assert top - 1 <= y <= y + down <= top + height + 1
    scenery, placed, wiring = drawing(flow)
    areas = rectangles(scenery, placed)
    assert not [line for line in segments(wiring) for area in areas if inside(area, line)]
    return language


@pytest.mark.law
@pytest.mark.parametrize("part", range(PARTS))
def test_random_flows_of_all_languages_are_drawn(part: int, thorough: bool) -> None:
    first = part * SIZE
    seeds = range(first, first + SIZE) if thorough else range(first + part % len(LANGUAGES), first + SIZE, SAMPLE)
    found = {drawn(seed) for seed in seeds}
    assert found == LANGUAGES.keys() or not thorough
