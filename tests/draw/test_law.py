"""1,000 random flows of all languages are drawn; `make test` draws every fortieth of them."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import agf_magics as agf
from agf_magics.flow.steps import Dag, Sequence, Walk, every
from agf_magics.pictures.diagram import Diagram
from agf_magics.pictures.scene import scene
from tests.draw.random_flows import LANGUAGES, definition

SVG = "{http://www.w3.org/2000/svg}"
FLOWS = 1_000
SAMPLE = 41
"""Not a multiple of the number of languages."""


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
    return language


@pytest.mark.law
def test_random_flows_of_all_languages_are_drawn(thorough: bool) -> None:
    seeds = range(0, FLOWS, 1 if thorough else SAMPLE)
    assert {drawn(seed) for seed in seeds} == LANGUAGES.keys()
